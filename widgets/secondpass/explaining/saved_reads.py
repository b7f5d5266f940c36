"""A saved tensor was read (``y.grad_fn._saved_self``) after it was freed or changed: say so.

torch raises the very sentence of a second backward pass, though no pass was run.
"""

from __future__ import annotations

import ast
import linecache
from types import FrameType, TracebackType
from typing import Any

import torch

from secondpass.explaining import report, rewriting, sources
from secondpass.explaining.failure import innermost_own
from secondpass.explaining.history import FREED_BY, History
from secondpass.explaining.report import CalledAt, Explanation, Fix, StoppedIn
from secondpass.hearing import lines
from secondpass.reading import names
from secondpass.reading.walk import name_of

_PREFIX = "_saved_"
_TENSORS = "saved_tensors"


def explain(error: BaseException, kind: str, history: History) -> Explanation | None:
    """Explain an error of autograd's that no backward call has raised; None if it was no reading.

    Parameters
    ----------
    error : BaseException
    kind : str
        ``report.BACKWARD_TWICE`` or ``report.MODIFIED``.
    history : History
        The calls that were heard, of which one has freed the tensor.
    """
    found = innermost_own(error.__traceback__)
    place, frame = (None, None) if found is None else found
    read = None if place is None else _read_in(sources.statement_at(place), frame)
    node = slot = None
    if read is not None:
        node, slot = read
    elif not _may_read(error.__traceback__):
        return None
    freed_by = None if node is None else history.get(node.metadata.get(FREED_BY))
    at = None if freed_by is None else freed_by.place
    why = "before the call that frees it (or read it with torch's hooks for saved tensors)"
    fixes = [Fix.at("move", place, "", f"read it {why}")]
    if kind == report.MODIFIED:
        fixes = [Fix.at("move", place, "", "read it before it is changed in place")]
    elif at is not None:
        why = "where it is to be read afterwards: the call then keeps what the graph has saved"
        fixes.append(Fix.at("retain", at, rewriting.retained(at), why))
        place_ = f" on line {at.line}" if at.file == getattr(place, "file", "") else ""
        fixes[0] = Fix.at("move", place, "", f"read it before the call{place_}")
    return Explanation(
        error=kind,
        message=str(error),
        node=None if node is None else StoppedIn(name_of(node), (str(slot),), lines.line_of(node)),
        freed_by=None if freed_by is None else CalledAt(freed_by.number, at),
        failed_at=CalledAt(0, place),
        fix=tuple(fixes),
        reached="No backward pass failed: torch says the same of a saved tensor that is read.",
        notes=()
        if node is not None
        else ("Of which Node it is was not found: it was read in a way that cannot be followed.",),
    )


def _may_read(traceback: TracebackType | None) -> bool:
    """Say whether the line that raised may read a saved tensor: any other hands an error on."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return False
    line = linecache.getline(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
    return not line or _PREFIX in line or _TENSORS in line or "getattr" in line


def _read_in(statement: ast.stmt | None, frame: FrameType | None) -> tuple[Any, str] | None:
    """Return the Node whose saved tensor a statement reads, and the slot."""
    for one in ast.walk(statement) if statement is not None else ():
        name: Any = ""
        of = None
        if isinstance(one, ast.Attribute):
            name, of = one.attr, one.value
        elif isinstance(one, ast.Call) and getattr(one.func, "id", "") == "getattr":
            given = one.args[1] if len(one.args) > 1 else None
            name = given.value if isinstance(given, ast.Constant) else _text(given, frame)
            of = one.args[0]
        if of is not None and (str(name).startswith(_PREFIX) or name == _TENSORS):
            node = _value(of, frame)
            if hasattr(node, "next_functions"):
                return node, str(name).removeprefix(_PREFIX)
    return None


def _text(expression: ast.expr | None, frame: FrameType | None) -> Any:
    return "" if expression is None else _value(expression, frame)


def _value(expression: ast.expr, frame: FrameType | None) -> Any:
    """Return what an expression stands for, as far as it can be had without running code."""
    if isinstance(expression, ast.Name):
        for one in names.own_frames(frame):
            for variables in names.variables_of(one):
                if expression.id in variables:
                    return variables[expression.id]
    if isinstance(expression, ast.Attribute):
        base = _value(expression.value, frame)
        if expression.attr == "grad_fn" and isinstance(base, torch.Tensor):
            return None if base._is_view() and base._version else base.grad_fn
        if expression.attr == "next_functions" and hasattr(base, "next_functions"):
            return base.next_functions
        inner = getattr(base, "__dict__", None)
        return inner.get(expression.attr) if isinstance(inner, dict) else None
    if isinstance(expression, ast.Subscript) and isinstance(expression.slice, ast.Constant):
        base, key = _value(expression.value, frame), expression.slice.value
        if type(base) in (list, tuple) and isinstance(key, int) and -len(base) <= key < len(base):
            return base[key]
        if type(base) is dict:
            return base.get(key)
    return None
