"""What switches gradients off around a line: a block, a decorator, a call that stays in force."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from secondpass.explaining import conditions, sources
from secondpass.hearing import calls
from secondpass.reading.places import Place, is_own, place_in, source_lines

INSIDE = "backward"
"""What cuts a graph inside a hook or a Function."""

CONDITION = "condition"
"""What cuts a graph where gradients are on only if something holds."""

OFF = {"no_grad", "inference_mode", "set_grad_enabled", "_set_grad_enabled"}
ON = {*OFF, "enable_grad"}
"""What switches gradients on, if it does not switch them off."""


@dataclass(frozen=True)
class Cut:
    """Where a graph was cut, and why that cuts it."""

    place: Place
    why: str
    what: str = ""  # the name of the operation
    node: Any = None  # the expression that cuts
    scope: Any = None  # the function it stands in
    is_outer: bool = False  # whether another one is on the way to it


def switched_off_around(frame: FrameType) -> Cut | None:
    """Return the ``with`` or decorator around a running line that switches gradients off."""
    one: FrameType | None = frame
    while one is not None:
        if is_own(one.f_code.co_filename):
            place = place_in(one.f_code, one.f_lineno)
            found = off_around(place)
            if found is not None:
                return found
        one = one.f_back
    return None


def off_inside(frame: FrameType, nested: bool) -> Cut | None:
    """Return the hook or the method of a Function in which autograd has switched gradients off.

    Parameters
    ----------
    frame : FrameType
        The running line of the person's own.
    nested : bool
        Whether a call is running around it.
    """
    one: FrameType | None = frame
    outermost: FrameType | None = None
    while one is not None and one.f_code is not calls.ENGINE_CODE:
        if is_own(one.f_code.co_filename):
            if off_around(place_in(one.f_code, one.f_lineno)) is not None:
                return None
            outermost = one if nested else outermost
            if _is_method_of_function(one):
                outermost = one
                break
        one = one.f_back
    if outermost is None:
        return None
    place = place_in(outermost.f_code, outermost.f_lineno)
    line = getattr(sources.function_at(place), "lineno", outermost.f_code.co_firstlineno)
    what = "inside a hook or a Function, gradients are off (in a pass without create_graph)"
    if _is_method_of_function(outermost):
        method = outermost.f_code.co_name
        rest = " (in a pass without create_graph)" if method == "backward" else ""
        what = f"inside a Function's {method}, gradients are off{rest}"
    return cut_at(place, line, what, INSIDE)


def _is_method_of_function(frame: FrameType) -> bool:
    code = frame.f_code
    if code.co_name not in ("forward", "backward", "vjp") or not code.co_argcount:
        return False
    first = frame.f_locals.get(code.co_varnames[0])
    return isinstance(first, torch.autograd.function.FunctionCtx)


def off_around(place: Place, value_of: Callable[[ast.expr], Any] | None = None) -> Cut | None:
    """Return the block or decorator of the same function that switches gradients off on a line.

    Parameters
    ----------
    place : Place
    value_of : callable, optional
        Gives what a name in that function holds: for a block that depends on a condition.
    """
    function = sources.function_at(place)
    if function is None:
        return None
    blocks = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.With)
        and node.body[0].lineno <= place.line <= (node.end_lineno or 0)
    ]
    for block in reversed(blocks):  # the innermost first
        for item in reversed(block.items):
            value = item.context_expr
            if _switches_off(value):
                condition = conditions.of(value)
                if condition is None:
                    return cut_at(place, value.lineno, "gradients are off in this block")
                assert isinstance(value, ast.Call), "only a call has a condition"
                is_on = conditions.holds(condition, value_of) == conditions.ON[called(value)]
                if value_of is None or not is_on:
                    why = conditions.sentence(value, condition, value_of)
                    return cut_at(place, value.lineno, why, CONDITION)
                return None
            if isinstance(value, ast.Call) and called(value) in ON:
                return None
    return decorated_off(function, place)


def decorated_off(function: ast.AST, place: Place) -> Cut | None:
    """Return the decorator of a function that switches gradients off in it."""
    for decorator in getattr(function, "decorator_list", ()):
        if _switches_off(decorator):
            return cut_at(place, decorator.lineno, "gradients are off in this function")
    return None


def cut_at(place: Place, line: int, why: str, what: str = "no_grad") -> Cut:
    """Return a cut on a line of a place's file."""
    text = source_lines(place.file)
    code = text[line - 1].strip() if 0 < line <= len(text) else ""
    return Cut(Place(place.file, line, code, place.function), why, what)


def _switches_off(value: ast.expr) -> bool:
    name = called(value) if isinstance(value, ast.Call) else getattr(value, "attr", None)
    if name not in OFF:
        return False
    if name in ("set_grad_enabled", "_set_grad_enabled"):
        given = value.args[0] if isinstance(value, ast.Call) and value.args else None
        return not (isinstance(given, ast.Constant) and given.value is True)
    if isinstance(value, ast.Call) and value.args:
        return not (isinstance(value.args[0], ast.Constant) and value.args[0].value is False)
    return True


def switch_in(frame: FrameType) -> Place | None:
    """Return the only line of the person's file that switches gradients off for good."""
    place = place_in(frame.f_code, frame.f_lineno)
    tree = sources.tree_of(place.file)
    found = [
        node.lineno
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, ast.Expr) and _switches_off(node.value)
    ]
    return cut_at(place, found[0], "").place if len(found) == 1 else None


def called(call: ast.Call) -> str:
    """Return the last name of what is called: ``argmax`` for ``scores.argmax(1)``."""
    return str(getattr(call.func, "attr", None) or getattr(call.func, "id", ""))
