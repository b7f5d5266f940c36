"""Follow a value backwards through the person's source, to what cut it off from the parameters.

A tensor without a graph has no history to walk; the source that computed it has. The values that
the frames still hold help: a variable that requires grad was not cut.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import types
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from secondpass.explaining import sampling, sources
from secondpass.explaining.freezing import Used
from secondpass.explaining.scopes import UNSEEN, Scope, bound, definition_of
from secondpass.explaining.switches import Cut, called, cut_at, decorated_off, off_around
from secondpass.explaining.uses import own_statements
from secondpass.reading.places import Place, is_own, place_in

_DEEPEST = 40
INDICES = "gives whole numbers (positions): they have no gradient"
PLAIN = "gives a plain Python number: the graph ends there"
_DETACHED = "gives the value without its graph"
ROUND = "turns it into whole numbers: they have no gradient"
TRUTH = "gives True and False: they have no gradient"
_CUTS = {
    "argmax": INDICES, "argmin": INDICES, "argsort": INDICES, "nonzero": INDICES,
    "multinomial": INDICES, "searchsorted": INDICES, "bucketize": INDICES,
    "item": PLAIN, "tolist": PLAIN, "numpy": _DETACHED, "detach": _DETACHED,
    "detach_": _DETACHED, "data": _DETACHED, "sample": _DETACHED,
    "long": ROUND, "int": ROUND, "bool": TRUTH, "byte": ROUND, "short": ROUND,
    "eq": TRUTH, "ne": TRUTH, "gt": TRUTH, "lt": TRUTH, "ge": TRUTH, "le": TRUTH,
    "isclose": TRUTH, "count_nonzero": ROUND, "bincount": ROUND, "one_hot": ROUND,
    "bernoulli": _DETACHED, "from_numpy": _DETACHED,
}  # fmt: skip
COPIES = {"tensor", "Tensor", "FloatTensor", "as_tensor", "array", "asarray", "Variable"}
_NUMBERS = {"float", "int", "bool", "round"}
_WHOLE = {"uint8", "int8", "int16", "short", "int32", "int", "int64", "long", "bool"}
_GROWS = {"append", "appendleft", "extend", "insert", "add"}
_INDEXED = {"max", "min", "topk", "sort", "mode", "median", "kthvalue", "cummax", "cummin"}


class Reader:
    """Reads backwards from an expression to what cut it off from the parameters."""

    def __init__(self) -> None:
        self.modules: list[Used] = []  # modules on the way, not those behind the cut
        self.around: list[Cut] = []  # what else cuts on the way from the cut to the loss
        self.behind: list[torch.nn.Module] = []  # modules behind the cut
        self._seen: set[tuple[int, int]] = set()
        self._depth = 0
        self._positions: set[int] = set()  # calls of which the second result is meant

    def cut_in(self, node: ast.expr, scope: Scope) -> Cut | None:
        """Return the last cut on the way to an expression's value, None where none is found."""
        key = id(node), scope.place.line
        if key in self._seen or self._depth > _DEEPEST or not isinstance(node, ast.expr):
            return None
        self._seen.add(key)
        self._depth += 1
        try:
            return self._cut_in(node, scope)
        finally:
            self._depth -= 1

    def _cut_in(self, node: ast.expr, scope: Scope) -> Cut | None:
        if isinstance(node, ast.Name):
            return self._name(node, scope)
        if isinstance(node, ast.Call):
            return self._call(node, scope)
        if isinstance(node, ast.Attribute):
            if node.attr in ("data", "indices") and self._may_learn(node.value, scope):
                why = _DETACHED if node.attr == "data" else INDICES
                return self._at(node, scope, why, f".{node.attr}")
            return self._attribute(node, scope) or self.cut_in(node.value, scope)
        if isinstance(node, ast.Subscript):
            value = node.value
            index = node.slice
            if isinstance(value, ast.Call) and called(value) in _INDEXED:
                if isinstance(index, ast.Constant) and index.value == 1:
                    return self._at(node, scope, INDICES, f"{called(value)}(…)[1]")
            found = self.cut_in(value, scope)
            if found is None and not self._may_learn(value, scope):
                return self.cut_in(index, scope)  # only the positions could have learned
            return found
        if isinstance(node, ast.Compare) and self._any_may_learn(node, scope):
            return self._at(node, scope, TRUTH, "the comparison")
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                found = self.cut_in(child, scope)
                if found is not None:
                    return found
        return None

    def _name(self, node: ast.Name, scope: Scope) -> Cut | None:
        value = scope.values.get(node.id, UNSEEN)
        if isinstance(value, torch.Tensor) and value.requires_grad:
            return None
        stores = list(self._stores(node.id, scope, node.lineno))
        for statement, taken in stores:
            place = self._place(statement, scope)
            mark = len(self.modules)
            inner = self.cut_in(taken, scope)
            if inner is not None:
                return inner
            off = off_around(place, scope.value_of)
            if off is not None and self._any_may_learn(taken, scope):
                self._leave_behind(mark)
                return off
        if not stores and node.id in scope.arguments and scope.outer is not None:
            return self.cut_in(scope.arguments[node.id], scope.outer)
        return None

    def _stores(self, name: str, scope: Scope, before: int) -> Iterator[tuple[ast.stmt, ast.expr]]:
        """Yield what a variable was given, the last before a line first."""
        found = []
        for statement in own_statements(scope.tree):
            taken = getattr(statement, "value", None) or getattr(statement, "iter", None)
            names = [getattr(one, "id", None) for one in sources.targets_of(statement)]
            if isinstance(statement, ast.Expr) and isinstance(taken, ast.Call):
                if called(taken) in _GROWS and taken.args:
                    names = [getattr(getattr(taken.func, "value", None), "id", None)]
                    taken = taken.args[-1]
            if name in names and isinstance(taken, ast.expr):
                found.append((statement, taken))
                self._note_positions(statement, taken, name)
        earlier = [one for one in found if one[0].lineno <= before]
        yield from (earlier or found)[::-1]

    def _note_positions(self, statement: ast.stmt, taken: ast.expr, name: str) -> None:
        """Note ``_, pick = scores.max(1)``: the second of such a pair are positions."""
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(target, ast.Tuple) and isinstance(taken, ast.Call):
            second = target.elts[1] if len(target.elts) == 2 else None
            if called(taken) in _INDEXED and getattr(second, "id", None) == name:
                self._positions.add(id(taken))

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Cut | None:
        """Follow ``self.x`` to where the class stores it."""
        value = scope.value_of(node)
        if isinstance(value, torch.Tensor) and value.requires_grad:
            return None
        for statement in sources.stores_of(scope.place.file, node.attr):
            targets = sources.targets_of(statement)
            if any(isinstance(one, ast.Attribute) for one in targets):
                taken = getattr(statement, "value", None)
                place = self._place(statement, scope)
                function = sources.function_at(place) or scope.tree
                inner = Scope(function, place, {}, scope.module, None)
                inner.values = {"self": scope.value_of(node.value)}
                found = self.cut_in(taken, inner) if taken is not None else None
                if found is not None:
                    return found
        return None

    def _call(self, node: ast.Call, scope: Scope) -> Cut | None:
        name = called(node)
        inputs = [*node.args, *(one.value for one in node.keywords)]
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        known = None if receiver is None else scope.value_of(receiver)
        is_method = receiver is not None and not isinstance(known, types.ModuleType)
        operands = [receiver, *inputs] if is_method and receiver is not None else inputs
        own = self._own_function(node, scope)
        module = scope.called_value(node.func)
        if isinstance(module, torch.nn.Module):
            self._see(module, node, scope)
        if id(node) in self._positions:
            return self._cut(operands, node, scope, INDICES, f"{name}(…)[1]")
        why = None if own is not None else self._why(name, node, known, scope)
        if why is not None and any(self._may_learn(one, scope) for one in operands):
            return self._cut(operands, node, scope, why, f"{name}()")
        is_number = name in _NUMBERS and not is_method
        if name in COPIES or is_number or known is math:
            if any(self._may_learn(one, scope) for one in inputs):
                why = PLAIN if is_number or known is math else _DETACHED
                what = f"math.{name}()" if known is math else f"{name}()"
                return self._cut(inputs, node, scope, why, what)
        if name == "checkpoint" and _is_reentrant(node):
            why = "a reentrant checkpoint has no graph when no input of it requires grad"
            return self._at(node, scope, why, "checkpoint")
        if own is not None:
            return self._inside(own, node, scope) or self._first(inputs, scope)
        return self._first(operands, scope)

    def _why(self, name: str, node: ast.Call, known: Any, scope: Scope) -> str | None:
        """Return why a method of a tensor's or a function of torch's cuts; None if it does not."""
        if name == "sample":
            if isinstance(known, types.ModuleType):  # random.sample
                return None
            is_whole = sampling.has_rsample(node, scope) is False
            return INDICES if is_whole else _DETACHED
        if name in ("to", "type"):
            given = [*node.args, *(one.value for one in node.keywords)]
            kinds = {sources.text_of(one).rpartition(".")[2] for one in given} & _WHOLE
            return None if not kinds else TRUTH if kinds == {"bool"} else ROUND
        return _CUTS.get(name)

    def _cut(
        self, operands: list[ast.expr], node: ast.Call, scope: Scope, why: str, what: str
    ) -> Cut:
        """Return the cut that a call makes, or an earlier one on the way to it."""
        mark = len(self.modules)
        earlier = self._first(operands, scope)
        here = self._at(node, scope, why, what)
        if earlier is not None:
            self.around.append(replace(here, is_outer=True))
            return earlier
        self._leave_behind(mark)
        return here

    def _leave_behind(self, mark: int) -> None:
        self.behind += [one.module for one in self.modules[mark:]]
        del self.modules[mark:]

    def _first(self, values: list[ast.expr], scope: Scope) -> Cut | None:
        for value in values:
            found = self.cut_in(value, scope)
            if found is not None:
                return found
        return None

    def _inside(self, function: tuple[Any, Any], call: ast.Call, scope: Scope) -> Cut | None:
        """Follow a call of the person's own function to what it returns."""
        raw, owner = function
        code = raw.__code__
        first = place_in(code, code.co_firstlineno)
        tree = definition_of(first.file, code)
        if tree is None:
            return None
        place = Place(first.file, code.co_firstlineno, first.code, code.co_qualname)
        off = decorated_off(tree, place)
        if off is not None:
            return off
        values = {} if owner is None else {"self": owner}
        inner = Scope(tree, place, values, raw.__globals__, scope)
        inner.arguments = bound(tree, call, skip_self=owner is not None)
        returned = [
            one.value
            for one in own_statements(tree)
            if isinstance(one, ast.Return) and one.value is not None
        ]
        if isinstance(tree, ast.Lambda):
            returned = [tree.body]
        for value in returned[::-1]:
            mark = len(self.modules)
            found = self.cut_in(value, inner)
            if found is not None:
                return found
            off = off_around(self._place(value, inner), inner.value_of)
            if off is not None:
                self._leave_behind(mark)
                return off
        return None

    def _own_function(self, call: ast.Call, scope: Scope) -> tuple[Any, Any] | None:
        """Return the person's own function that a call runs, and its ``self``."""
        value = scope.called_value(call.func)
        if isinstance(value, functools.partial) and not value.args:
            value = value.func
        owner = None
        if isinstance(call.func, ast.Attribute):
            base = scope.value_of(call.func.value)
            if not isinstance(base, types.ModuleType | type) and base is not UNSEEN:
                owner = base
        if isinstance(value, torch.nn.Module):
            owner, value = value, type(value).forward
        elif isinstance(value, types.MethodType):
            owner, value = value.__self__, value.__func__
        elif not isinstance(value, types.FunctionType | staticmethod) and callable(value):
            method = inspect.getattr_static(type(value), "__call__", None)
            if isinstance(method, types.FunctionType):
                owner, value = value, method
        value = inspect.unwrap(value) if callable(value) else value
        if isinstance(value, types.FunctionType) and is_own(value.__code__.co_filename):
            return value, owner
        return None

    # ---- could this have had a gradient?

    def may_learn(self, node: ast.expr, scope: Scope) -> bool:
        """Say whether an expression's value has, or may have had, a gradient."""
        return self._any_may_learn(node, scope)

    def _may_learn(self, node: ast.expr, scope: Scope) -> bool:
        value = scope.value_of(node)
        if isinstance(value, torch.Tensor):
            if value.requires_grad:
                return True
            if isinstance(node, ast.Name):
                return any(
                    self._any_may_learn(taken, scope)
                    for _, taken in self._stores(node.id, scope, node.lineno)
                    if sources.text_of(taken) != node.id and taken is not node
                )
            return False
        if isinstance(value, int | float | str | None):
            return False
        if isinstance(value, list | tuple | dict) and _holds_learning(value):
            return True
        if isinstance(node, ast.Name) and value is UNSEEN:
            return self._unseen_may_learn(node, scope)
        return self._any_may_learn(node, scope) if not isinstance(node, ast.Name) else False

    def _unseen_may_learn(self, node: ast.Name, scope: Scope) -> bool:
        if node.id in scope.arguments and scope.outer is not None:
            return self._any_may_learn(scope.arguments[node.id], scope.outer)
        taken = [one for _, one in self._stores(node.id, scope, node.lineno)]
        return any(self._any_may_learn(one, scope) for one in taken)

    def _any_may_learn(self, node: ast.expr, scope: Scope, depth: int = 0) -> bool:
        """Say whether anything in an expression has, or may have had, a gradient."""
        if depth > 8:
            return False
        for one in ast.walk(node):
            if not isinstance(one, ast.Name | ast.Attribute):
                continue
            value = scope.value_of(one)
            if isinstance(value, torch.Tensor) and value.requires_grad:
                return True
            if isinstance(value, torch.nn.Module) and any(True for _ in value.parameters()):
                return True
            if isinstance(value, types.FunctionType) and is_own(value.__code__.co_filename):
                return True
            if isinstance(one, ast.Name) and (
                value is UNSEEN or (isinstance(value, torch.Tensor) and not value.is_leaf)
            ):
                if one.id in scope.arguments and scope.outer is not None:
                    if self._any_may_learn(scope.arguments[one.id], scope.outer, depth + 1):
                        return True
            if (isinstance(one, ast.Name) and one is not node) or value is UNSEEN:
                if isinstance(one, ast.Name) and one.id not in scope.arguments:
                    for _, taken in self._stores(one.id, scope, one.lineno):
                        if taken is not node and self._any_may_learn(taken, scope, depth + 1):
                            return True
        return False

    def _see(self, module: torch.nn.Module, node: ast.Call, scope: Scope) -> None:
        """Note a module on the way, with whether any of its parameters requires grad."""
        inside = any(module in one.module.modules() for one in self.modules)
        if not inside and any(True for _ in module.parameters()):
            self.modules.append(Used(module, node, scope))

    def _at(self, node: ast.AST, scope: Scope, why: str, what: str) -> Cut:
        return replace(cut_at(scope.place, _line(node), why, what), node=node, scope=scope)

    def _place(self, node: ast.AST, scope: Scope) -> Place:
        return Place(scope.place.file, _line(node), "", scope.place.function)


def _holds_learning(value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value
    return any(isinstance(one, torch.Tensor) and one.requires_grad for one in items)


def _line(node: ast.AST) -> int:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.end_lineno or node.lineno
    if isinstance(node, ast.Attribute):
        return node.end_lineno or node.lineno
    return int(getattr(node, "lineno", 0))


def _is_reentrant(call: ast.Call) -> bool:
    given = [one.value for one in call.keywords if one.arg == "use_reentrant"]
    return not given or not (isinstance(given[0], ast.Constant) and given[0].value is False)
