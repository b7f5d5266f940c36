"""Gradients that are on or off by a condition: ``torch.set_grad_enabled(phase == "train")``."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from secondpass.explaining import sources

ON = {"set_grad_enabled": True, "_set_grad_enabled": True, "inference_mode": False}
"""What the condition of each switch is where gradients are on."""

_Values = Callable[[ast.expr], Any]
_PLAIN = (bool, int, float, str, type(None))


def of(switch: ast.expr) -> ast.expr | None:
    """Return the condition that a switch is given; None where it has none, or a constant."""
    if not isinstance(switch, ast.Call) or not (switch.args or switch.keywords):
        return None
    name = getattr(switch.func, "attr", None) or getattr(switch.func, "id", "")
    given = switch.args[0] if switch.args else switch.keywords[0].value
    return given if name in ON and not isinstance(given, ast.Constant) else None


def holds(condition: ast.expr, value_of: _Values | None) -> bool | None:
    """Say whether a condition holds now; None where it cannot be told without running code.

    Examples
    --------
    >>> known = {"phase": "val"}
    >>> held = lambda text: holds(ast.parse(text, mode="eval").body, lambda one: known.get(one.id))
    >>> held("phase == 'train'"), held("not phase"), held("phase in names()")
    (False, False, None)
    """
    if value_of is None:
        return None
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        inner = holds(condition.operand, value_of)
        return None if inner is None else not inner
    if isinstance(condition, ast.Name | ast.Attribute):
        value = value_of(condition)
        return bool(value) if type(value) in _PLAIN else None
    if isinstance(condition, ast.Compare) and len(condition.ops) == 1:
        sides = [_plain(one, value_of) for one in (condition.left, condition.comparators[0])]
        if None not in sides and isinstance(condition.ops[0], ast.Eq | ast.NotEq):
            return bool(sides[0] == sides[1]) == isinstance(condition.ops[0], ast.Eq)
    return None


def sentence(switch: ast.expr, condition: ast.expr, value_of: _Values | None) -> str:
    """Say that the condition of a switch kept gradients off, with what its names hold."""
    text = sources.text_of(condition)
    name = getattr(getattr(switch, "func", None), "attr", "set_grad_enabled")
    wanted = ON.get(name, True)
    if holds(condition, value_of) is None:
        return f"gradients are off in this block where `{text}` is {not wanted}"
    held = [
        f"`{sources.text_of(one)}` is {_plain(one, value_of)!r}"
        for one in ast.walk(condition)
        if isinstance(one, ast.Name | ast.Attribute) and _plain(one, value_of) is not None
    ]
    known = f" ({', '.join(held)})" if held and not isinstance(condition, ast.Name) else ""
    return f"gradients are off in this block: `{text}` was {not wanted}{known}"


def _plain(node: ast.expr, value_of: _Values | None) -> Any:
    """Return what stands on a side of a comparison, None where it is not known."""
    if isinstance(node, ast.Constant):
        return node.value
    if value_of is None or not isinstance(node, ast.Name | ast.Attribute):
        return None
    value = value_of(node)
    return value if type(value) in _PLAIN else None
