"""What keeps a graph that a loss was cut off from: the same statement without what cuts."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch

from secondpass.explaining import rewriting, sources
from secondpass.explaining.report import Fix
from secondpass.explaining.scopes import Scope
from secondpass.explaining.switches import Cut

_COPYING = ("tensor()", "as_tensor()")
_PLAIN = ("item()", "float()")
_OF_MATH = {
    "sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "erf",
}  # fmt: skip
"""What torch has under the same name, of one tensor."""


def fixes(cuts: Iterable[Cut]) -> tuple[Fix, ...]:
    """Return what to change at the cuts on the way to a loss, the first to run first."""
    found: dict[tuple[str, int], list[Cut]] = {}
    for cut in cuts:
        statement = sources.statement_at(cut.place)
        line = cut.place.line if statement is None else statement.lineno
        found.setdefault((cut.place.file, line), []).append(cut)
    several = [_fix(cuts) for cuts in found.values()]
    return (*several[:1], *(replace(one, also=True) for one in several[1:]))


def _fix(cuts: list[Cut]) -> Fix:
    """Return what to change in one statement."""
    first = cuts[0]
    statement = sources.statement_at(first.place)
    changes = [_change(one, statement) for one in cuts]
    if first.what in _COPYING and len(cuts) == 1 and _is_list(first.node.args[:1], first.scope):
        code = rewriting.stacked(statement)
        why = "torch.tensor() copies numbers only; torch.stack() keeps the graph of each"
        return Fix.at("stack", first.place, code, why)
    code = ""
    if None not in changes:
        pairs = [(one.node, change) for one, change in zip(cuts, changes, strict=True)]
        code = rewriting.replaced(statement, pairs)  # type: ignore[arg-type]
    if not code:
        what = " and ".join(dict.fromkeys(one.what for one in cuts))
        return Fix.at("keep-graph", first.place, "", f"leave {what} out where the loss is computed")
    why = "what is already a tensor keeps its graph as it is"
    if first.what.startswith("math."):
        why = "torch's own function keeps the graph, that of math gives a plain number"
    return Fix.at("keep-graph", first.place, code, why)


def _change(cut: Cut, statement: ast.stmt | None) -> rewriting.Change | None:
    """Return what makes of a call that cuts one that does not; None where that is not known."""
    if not isinstance(cut.node, ast.Call) or statement is None:
        return None
    if cut.what.startswith("math."):
        name = cut.what.removeprefix("math.").removesuffix("()")
        if name not in _OF_MATH or len(cut.node.args) != 1 or cut.node.keywords:
            return None
        is_known = cut.scope.value_of(ast.Name("torch", ast.Load())) is torch
        return lambda node: _of_torch(name, node.args[0], is_known)
    if cut.what == "item()":
        return lambda node: node.func.value if isinstance(node.func, ast.Attribute) else None
    if cut.what in (*_PLAIN, *_COPYING):
        if not cut.node.args or _is_list(cut.node.args[:1], cut.scope):
            return None
        if cut.what in _COPYING and isinstance(cut.node.args[0], ast.Call) and not cut.is_outer:
            return None  # of what a function gives it is not known that it is a tensor
        return lambda node: node.args[0]
    return None


def _of_torch(name: str, value: ast.expr, is_known: bool) -> ast.expr:
    if is_known:
        torch_ = ast.Name("torch", ast.Load())
        return ast.Call(ast.Attribute(torch_, name, ast.Load()), [value], [])
    return ast.Call(ast.Attribute(value, name, ast.Load()), [], [])


def _is_list(given: list[ast.expr], scope: Scope) -> bool:
    """Say whether an argument is a list, or a variable that holds or was given one."""
    if not given:
        return False
    node: Any = given[0]
    if isinstance(node, ast.List | ast.ListComp | ast.Tuple | ast.GeneratorExp):
        return True
    if isinstance(node, ast.Name):
        value = scope.value_of(node)
        if isinstance(value, list | tuple):
            return True
        if isinstance(value, torch.Tensor | float):
            return False
        stored = [getattr(one, "value", None) for one in scope.stores(node, node.lineno + 1)]
        return any(isinstance(one, ast.List | ast.ListComp | ast.Tuple) for one in stored)
    return False
