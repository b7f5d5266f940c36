"""A function that ran, as source: what is known of its variables, and who called it."""

from __future__ import annotations

import ast
import inspect
import types
from types import FrameType
from typing import Any

import torch

from secondpass.explaining import sources
from secondpass.explaining.contents import is_a, parts
from secondpass.explaining.switches import called
from secondpass.explaining.uses import own_statements
from secondpass.reading.places import Place, own_frame, place_in

UNSEEN = object()
"""What stands for the value of what cannot be looked up."""


class Scope:
    """A function that ran, as source, and what is known of its variables."""

    def __init__(
        self,
        tree: ast.AST,
        place: Place,
        values: dict[str, Any],
        module: dict[str, Any],
        outer: Scope | None,
        arguments: dict[str, ast.expr] | None = None,
    ) -> None:
        self.tree, self.place, self.values, self.module = tree, place, values, module
        self.outer = outer  # who called it
        self.arguments = arguments or {}

    @classmethod
    def of_frame(cls, frame: FrameType) -> Scope:
        """Return what is known of a running function, and of those that called it."""
        place = place_in(frame.f_code, frame.f_lineno)
        back = own_frame(frame.f_back)
        outer = cls.of_frame(back) if back is not None else None
        tree = sources.function_at(place) or ast.Module([], [])
        scope = cls(tree, place, dict(frame.f_locals), frame.f_globals, outer)
        if outer is not None:
            call = call_to(sources.statement_at(outer.place), getattr(tree, "name", ""))
            scope.arguments = bound(tree, call)
        return scope

    def value_of(self, node: ast.expr) -> Any:
        """Return what a plain name or attribute holds now, or `UNSEEN`."""
        if isinstance(node, ast.Name):
            for table in (self.values, self.module, vars(__import__("builtins"))):
                if node.id in table:
                    return table[node.id]
            return UNSEEN
        if isinstance(node, ast.Attribute):
            base = self.value_of(node.value)
            if base is UNSEEN:
                return UNSEEN
            if isinstance(base, types.ModuleType | type):
                return getattr(base, node.attr, UNSEEN)
            inner = getattr(base, "__dict__", {})
            if node.attr in inner:
                return inner[node.attr]
            if isinstance(base, torch.nn.Module):
                for table in (base._modules, base._parameters, base._buffers):
                    if node.attr in table:
                        return table[node.attr]
            return inspect.getattr_static(base, node.attr, UNSEEN)
        return UNSEEN

    def called_value(self, node: ast.expr) -> Any:
        """Return what is called, also where a table holds it: ``LOSSES[name]``, ``heads[0]``."""
        is_get = isinstance(node, ast.Call) and called(node) == "get" and node.args
        if isinstance(node, ast.Subscript):
            table, key = self.called_value(node.value), self._key(node.slice)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_get:
            table, key = self.called_value(node.func.value), self._key(node.args[0])
        else:
            return self.value_of(node)
        labels = (f"[{key!r}]", f"[{key}]", f".{key}")  # of a ModuleDict, too
        is_table = is_a(table, (dict, list, tuple, torch.nn.ModuleList, torch.nn.ModuleDict))
        found = [item for label, item in (parts(table) if is_table else ()) if label in labels]
        return found[0] if found and type(key) in (str, int) else UNSEEN

    def _key(self, node: ast.expr) -> Any:
        return node.value if isinstance(node, ast.Constant) else self.value_of(node)

    def stores(self, value: ast.expr, before: int) -> list[ast.stmt]:
        """Return the assignments to what an expression names, the last before a line first."""
        text = sources.text_of(value)
        found = [
            one
            for one in own_statements(self.tree)
            if one.lineno < before
            and text in [sources.text_of(target) for target in sources.targets_of(one)]
        ]
        return found[::-1]


def definition_of(file: str, code: types.CodeType) -> ast.AST | None:
    """Return the function or lambda in a file that a code object was made from."""
    tree = sources.tree_of(file)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if node.name == code.co_name and first == code.co_firstlineno:
                return node
        if isinstance(node, ast.Lambda) and code.co_name == "<lambda>":
            if node.lineno == code.co_firstlineno:
                return node
    return None


def call_to(statement: ast.stmt | None, name: str) -> ast.Call | None:
    """Return the call of a function of some name in a statement."""
    for node in ast.walk(statement) if statement is not None and name else ():
        if isinstance(node, ast.Call) and called(node) == name:
            return node
    return None


def bound(tree: ast.AST, call: ast.Call | None, skip_self: bool = False) -> dict[str, ast.expr]:
    """Return which expression each parameter of a function was given."""
    arguments = getattr(tree, "args", None)
    if call is None or not isinstance(arguments, ast.arguments):
        return {}
    names = [one.arg for one in [*arguments.posonlyargs, *arguments.args]]
    if names[:1] == ["self"] or skip_self:
        names = names[1:]
    bound = dict(zip(names, call.args, strict=False))
    bound.update((one.arg, one.value) for one in call.keywords if one.arg is not None)
    return bound
