"""Where a graph was cut, a leaf was overwritten, a tensor with a graph was copied."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FrameType

import torch

from secondpass.explaining import holders, report, rewriting, sources
from secondpass.explaining.dataflow import INDICES, ROUND, TRUTH, Reader
from secondpass.explaining.failure import innermost_own
from secondpass.explaining.history import Heard
from secondpass.explaining.report import CalledAt, Carrier, Explanation, Fix
from secondpass.explaining.scopes import Scope
from secondpass.explaining.switches import (
    INSIDE,
    OFF,
    Cut,
    off_inside,
    switch_in,
    switched_off_around,
)
from secondpass.hearing import writes
from secondpass.hearing.calls import Call
from secondpass.reading.places import Place, is_own, own_frame, place_in


def explain(call: Call, heard: Heard, frame: FrameType | None) -> Explanation:
    """Explain a call whose roots have no graph."""
    cut = _find(frame, heard.parent is not None)
    message = "" if call.error is None else str(call.error)
    names = [name for name, one in holders.tensors_of(frame) if any(one is r for r in call.roots)]
    name = min(names, key=len) if names else ""
    return Explanation(
        error=report.NO_GRAPH,
        message=message,
        failed_at=CalledAt(heard.number, heard.place),
        cut_at=None if cut is None else cut.place,
        carriers=(Carrier(name, heard.place.function),) if name and heard.place else (),
        fix=_fix(cut, heard, frame),
        reached="" if cut is None else _sentence(cut),
        notes=()
        if cut is not None
        else (
            "Where it was cut was not found: print .requires_grad of what the loss is computed "
            "from, backwards, until it is True.",
        ),
    )


def _sentence(cut: Cut) -> str:
    """Say why it was cut, of an operation with the operation as its subject."""
    why = cut.why
    if why.startswith(("gives", "turns")):
        why = f"{cut.what} {why}" if " " in cut.what else f"`{cut.what}` {why}"
    return f"{why[:1].upper()}{why[1:]}."


def explain_leaf(error: BaseException) -> Explanation:
    """Explain a leaf that was overwritten with gradients switched on."""
    found = innermost_own(error.__traceback__)
    place, frame = (None, None) if found is None else found
    return Explanation(
        error=report.LEAF_MODIFIED,
        message=str(error),
        failed_at=CalledAt(0, place),
        modified_at=place,
        fix=(_update_by_hand(place, frame),),
    )


def _update_by_hand(place: Place | None, frame: FrameType | None) -> Fix:
    """Return the switching off around a write to a leaf; a clone, where what is written learns."""
    statement = None if place is None else sources.statement_at(place)
    target = next(iter(sources.targets_of(statement)), None)
    while isinstance(target, ast.Subscript):
        target = target.value
    if isinstance(statement, ast.Assign) and isinstance(target, ast.Name) and frame is not None:
        if Reader().may_learn(statement.value, Scope.of_frame(frame)):
            why = (
                "what is written here is computed from what requires grad: a clone is no leaf, and "
                "takes it in with its graph (under no_grad it would be cut off)"
            )
            code = f"{target.id} = {target.id}.clone()"
            return Fix.at("clone", place, code, why, where="before")
    why = "an update by hand is not part of the computation: switch gradients off around it"
    return Fix.at("no_grad", place, rewriting.in_block(place, "with torch.no_grad():"), why)


def explain_copy(error: BaseException) -> Explanation:
    """Explain a deepcopy that met a tensor with a graph."""
    found = innermost_own(error.__traceback__)
    place = None if found is None else found[0]
    carriers = tuple(_copied(error))
    name = carriers[0].name if carriers else ""
    code = f"{name} = {name}.detach()" if name else ""
    why = "what is copied keeps the value, not the graph (or copy earlier)"
    return Explanation(
        error=report.COPIED,
        message=str(error),
        failed_at=CalledAt(0, place),
        carriers=carriers,
        fix=(Fix.at("detach", place, code, why, where="before"),),
    )


def _copied(error: BaseException) -> Iterator[Carrier]:
    """Yield the name of the tensor that deepcopy met."""
    traceback = error.__traceback__
    tensor, own = None, None
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code.co_name == "__deepcopy__" and "self" in frame.f_locals:
            inner = frame.f_locals["self"]
            tensor = inner if isinstance(inner, torch.Tensor) else tensor
        if is_own(frame.f_code.co_filename):
            own = frame
        traceback = traceback.tb_next
    if tensor is None:
        return
    names = [name for name, one in holders.tensors_of(own, 1.0) if one is tensor]
    where = own.f_code.co_qualname if own is not None else ""
    for name in sorted(names, key=lambda one: (one.count("."), len(one))):
        yield Carrier(name, where)


def _fix(cut: Cut | None, heard: Heard, frame: FrameType | None) -> tuple[Fix, ...]:
    if cut is None:
        return (
            Fix.at(
                "requires-grad",
                heard.place,
                "",
                "check that what should learn requires grad and that no step in between cuts "
                "the graph (no_grad, detach, .item(), argmax, .data, numpy)",
            ),
        )
    if cut.what == INSIDE:
        return (_enable(own_frame(frame), heard),)
    if cut.what in OFF:
        return (_switch_on(cut),)
    if cut.what == "checkpoint":
        text = sources.without_comment(cut.place.code)
        code = text.replace("use_reentrant=True", "use_reentrant=False")
        return (
            Fix.at(
                "non-reentrant", cut.place, code, "or let the input of the checkpoint require grad"
            ),
        )
    if cut.what == "frozen":
        return (
            Fix.at("requires-grad", cut.place, "", "leave those parameters trainable that learn"),
        )
    if cut.why in (INDICES, ROUND, TRUTH):
        why = "use something that has a gradient: a softmax-weighted mean, or a loss on the scores"
        return (Fix.at("differentiable", cut.place, "", why),)
    if cut.what in ("tensor()", "as_tensor()"):
        code = rewriting.stacked(sources.statement_at(cut.place))
        why = "torch.tensor() copies numbers only; torch.stack() keeps the graph of each"
        return (Fix.at("stack", cut.place, code, why),)
    return (
        Fix.at("keep-graph", cut.place, "", f"leave {cut.what} out where the loss is computed"),
    )


def _switch_on(cut: Cut) -> Fix:
    code = cut.place.code
    if code.startswith("@"):
        why = "take the decorator off, or run what is to be learned outside this function"
        return Fix.at("enable-grad", cut.place, "", why)
    if code.startswith(("with", "async")):
        why = "move the forward pass that is to be learned from out of this block"
        return Fix.at("enable-grad", cut.place, "", why)
    why = "only around the evaluation: at its end, gradients are on again by themselves"
    return Fix.at("enable-grad", cut.place, "with torch.no_grad():", why)


def _enable(frame: FrameType | None, heard: Heard) -> Fix:
    """Return the switching on around the line that computed what was differentiated."""
    why = "what is computed in this block has a graph, if it is computed from what requires grad"
    place = heard.place
    if frame is not None and place is not None:
        value = _differentiated(sources.statement_at(place))
        stores = [] if value is None else Scope.of_frame(frame).stores(value, place.line)
        if stores:
            code = f"with torch.enable_grad(): {sources.text_of(stores[0])}"
            return Fix.at("enable-grad", place, code, why, stores[0].lineno)
    return Fix.at("enable-grad", place, "with torch.enable_grad():", f"around it: {why}")


def _find(frame: FrameType | None, nested: bool) -> Cut | None:
    own = own_frame(frame)
    if own is None:
        return None
    if not torch.is_grad_enabled():
        found = off_inside(own, nested) or switched_off_around(own)
        if found is not None:
            return found
        place = writes.switched_off_at() or switch_in(own)
        return None if place is None else Cut(place, "gradients were switched off", "no_grad")
    place = place_in(own.f_code, own.f_lineno)
    statement = sources.statement_at(place)
    value = _differentiated(statement)
    if value is None:
        return None
    reader = Reader()
    return reader.cut_in(value, Scope.of_frame(own)) or reader.frozen


def _differentiated(statement: ast.stmt | None) -> ast.expr | None:
    """Return the loss in ``loss.backward()`` or ``torch.autograd.grad(loss, …)``."""
    for node in ast.walk(statement) if statement is not None else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            text = sources.text_of(node.func)
            if text.endswith("autograd.backward") or node.func.attr == "grad":
                return node.args[0] if node.args else None
            if node.func.attr == "backward":
                return node.func.value
    return None
