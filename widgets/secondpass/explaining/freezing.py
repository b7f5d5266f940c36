"""Modules on the way to a loss that have no parameter to train, and the line that froze them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from secondpass.explaining import holders, sources, uses
from secondpass.explaining.scopes import Scope, bound
from secondpass.explaining.switches import called, cut_at
from secondpass.reading.places import Place

_FLAG = "requires_grad"


@dataclass(frozen=True)
class Used:
    """A module that a loss was computed with, and the call of it."""

    module: torch.nn.Module
    call: ast.Call
    scope: Scope

    @property
    def is_frozen(self) -> bool:
        """Whether no parameter of it requires grad."""
        return not any(one.requires_grad for one in self.module.parameters())

    @property
    def place(self) -> Place:
        """The line of the call."""
        return cut_at(self.scope.place, self.call.lineno, "").place


@dataclass(frozen=True)
class Frozen:
    """A frozen module, where that was done, and whether it is known to be meant to learn."""

    used: Used
    place: Place | None
    is_owned: bool


def to_blame(
    used: Iterable[Used], behind: Iterable[torch.nn.Module], frame: FrameType | None
) -> Frozen | None:
    """Return the frozen module for which a loss has no graph; None where something else is why.

    Parameters
    ----------
    used : iterable of Used
        The modules on the way to the loss, without those behind a cut.
    behind : iterable of torch.nn.Module
        Those behind a cut: where an optimizer owns them, and none of the frozen, the cut is why.
    frame : FrameType or None
    """
    frozen = [one for one in used if one.is_frozen]
    if not frozen:
        return None
    optimizers = holders.objects_of(frame, torch.optim.Optimizer)
    groups = [group for _, one in optimizers for group in one.param_groups]
    ids = {id(one) for group in groups for one in group["params"]}

    def is_owned(module: torch.nn.Module) -> bool:
        return any(id(one) in ids for one in module.parameters())

    owned = [one for one in frozen if is_owned(one.module)]
    if not owned and any(map(is_owned, behind)):
        return None
    first = (owned or frozen)[0]
    return Frozen(first, _froze(first), bool(owned))


def _froze(used: Used) -> Place | None:
    """Return the line that switched off a module's gradients, where only one can have done it."""
    names = _names_of(used)
    direct: list[tuple[Place, set[str]]] = []
    found: list[Place] = []
    for file in _files(used.scope):
        tree = sources.tree_of(file)
        for node in ast.walk(tree) if tree is not None else ():
            value = _switch(node)
            if value is None or not isinstance(node, ast.stmt | ast.expr):
                continue
            place = cut_at(Place(file, 0, "", ""), node.lineno, "").place
            function = sources.function_at(place)
            parameters = {one.arg for one in _arguments(function)}
            mentioned = _mentioned(place)
            is_off = isinstance(value, ast.Constant) and value.value is False
            if is_off:
                direct.append((place, mentioned))
            if isinstance(value, ast.Name) and value.id in parameters:
                found += _calls_of(file, function, names, value.id)
            elif is_off and mentioned & parameters and not mentioned & names:
                found += _calls_of(file, function, names, None)
    found += [place for place, mentioned in direct if mentioned & names]
    if not found and len(direct) == 1:
        return direct[0][0]
    return found[0] if found else None


def _arguments(function: ast.AST | None) -> list[ast.arg]:
    given = getattr(function, "args", None)
    return [*given.posonlyargs, *given.args, *given.kwonlyargs] if given is not None else []


def _switch(node: ast.AST) -> ast.expr | None:
    """Return what ``requires_grad`` is set to by an expression or statement."""
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == f"{_FLAG}_":
        given = [*node.args, *(one.value for one in node.keywords)]
        return given[0] if given else None
    if isinstance(node, ast.Assign):
        if any(getattr(one, "attr", "") == _FLAG for one in node.targets):
            return node.value
    return None


def _calls_of(file: str, function: Any, names: set[str], flag: str | None) -> Iterator[Place]:
    """Yield the calls of a function that name the module, and give False for a parameter."""
    tree = sources.tree_of(file)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call) and called(node) == getattr(function, "name", None):
            given = bound(function, node).get(flag) if flag is not None else None
            is_off = isinstance(given, ast.Constant) and given.value is False
            place = cut_at(Place(file, 0, "", ""), node.lineno, "").place
            if (flag is None or is_off) and _mentioned(place) & names:
                yield place


def _mentioned(place: Place) -> set[str]:
    """Return the last names in a line's statement, and in the loops around it."""
    statement = sources.statement_at(place)
    headers = [one.iter for one in uses.loops_around(place) if not isinstance(one, ast.While)]
    return {
        one.id if isinstance(one, ast.Name) else one.attr
        for tree in (statement, *headers)
        for one in (ast.walk(tree) if tree is not None else ())
        if isinstance(one, ast.Name | ast.Attribute)
    } - {"self"}


def _names_of(used: Used) -> set[str]:
    function = used.call.func
    found = {str(getattr(function, "attr", None) or getattr(function, "id", ""))}
    scope: Scope | None = used.scope
    while scope is not None:
        for variables in (scope.values, scope.module):
            found |= {name for name, value in list(variables.items()) if value is used.module}
        scope = scope.outer
    return found - {"", "self"}


def _files(scope: Scope) -> list[str]:
    files: dict[str, None] = {}
    one: Scope | None = scope
    while one is not None:
        files[one.place.file] = None
        one = one.outer
    return list(files)
