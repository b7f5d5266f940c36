"""Whether a sample could have had a graph: ``rsample()`` in place of ``sample()``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from torch.distributions import Distribution

from secondpass.explaining.scopes import Scope, definition_of
from secondpass.explaining.uses import own_statements

_DEEPEST = 6


def has_rsample(sample: ast.Call, scope: Scope) -> bool | None:
    """Say whether the distribution of ``dist.sample()`` has `rsample`; None if it is not known."""
    if not isinstance(sample.func, ast.Attribute):
        return None
    return _of(sample.func.value, scope, 0)


def _of(node: ast.expr, scope: Scope, depth: int) -> bool | None:
    """Say whether the distribution that an expression gives has `rsample`."""
    value = scope.value_of(node)
    if isinstance(value, Distribution):
        return bool(value.has_rsample)
    if depth > _DEEPEST:
        return None
    kind = scope.value_of(node.func) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and isinstance(kind, type) and issubclass(kind, Distribution):
        if isinstance(kind.has_rsample, bool):
            return kind.has_rsample
        # Independent, TransformedDistribution: as the distribution inside has it.
        return _of(node.args[0], scope, depth + 1) if node.args else None
    found = {_of(one, inner, depth + 1) for one, inner in _made_by(node, scope)}
    return found.pop() if len(found) == 1 else None


def _made_by(node: ast.expr, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
    """Yield the expressions that an expression's value may have come from."""
    if isinstance(node, ast.Call):
        function: Any = scope.called_value(node.func)
        owner = getattr(function, "__self__", None)
        if callable(getattr(type(function), "forward", None)):
            function, owner = type(function).forward, function
        function = getattr(function, "__func__", function)
        code = getattr(function, "__code__", None)
        tree = None if code is None else definition_of(code.co_filename, code)
        for one in own_statements(tree) if tree is not None else ():
            if tree is not None and isinstance(one, ast.Return) and one.value is not None:
                values = {} if owner is None else {"self": owner}
                yield one.value, Scope(tree, scope.place, values, function.__globals__, scope)
    elif isinstance(node, ast.Name):
        for store in scope.stores(node, node.lineno + 1):
            value = getattr(store, "value", None)
            if isinstance(value, ast.expr) and value is not node:
                yield value, scope
        if node.id in scope.arguments and scope.outer is not None:
            yield scope.arguments[node.id], scope.outer
