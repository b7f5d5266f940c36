"""Where a graph was cut, and where a leaf was overwritten."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import FrameType

import torch

from secondpass.explaining import holders, keeping, report, rewriting, sampling, sources
from secondpass.explaining.dataflow import INDICES, ROUND, TRUTH, Reader
from secondpass.explaining.failure import innermost_own
from secondpass.explaining.freezing import Frozen, to_blame
from secondpass.explaining.history import Heard
from secondpass.explaining.report import CalledAt, Carrier, Explanation, Fix
from secondpass.explaining.scopes import Scope
from secondpass.explaining.switches import (
    CONDITION,
    INSIDE,
    OFF,
    Cut,
    off_inside,
    switch_in,
    switched_off_around,
)
from secondpass.hearing import writes
from secondpass.hearing.calls import Call
from secondpass.reading.places import Place, own_frame, place_in


def explain(call: Call, heard: Heard, frame: FrameType | None) -> Explanation:
    """Explain a call whose roots have no graph."""
    found = _find(frame, heard.parent is not None)
    cut = found.cut
    at = None if cut is None else cut.place
    reached = "" if cut is None else _sentence(cut)
    if found.frozen is not None:
        at, name = found.frozen.place, sources.text_of(found.frozen.used.call.func)
        since = "No" if at is None else "From there on, no"
        reached = f"{since} parameter of `{name}` requires grad."
    message = "" if call.error is None else str(call.error)
    names = [name for name, one in holders.tensors_of(frame) if any(one is r for r in call.roots)]
    name = min(names, key=len) if names else ""
    return Explanation(
        error=report.NO_GRAPH,
        message=message,
        failed_at=CalledAt(heard.number, heard.place),
        cut_at=at,
        carriers=(Carrier(name, heard.place.function),) if name and heard.place else (),
        fix=_fix(found, heard, frame),
        reached=reached,
        notes=()
        if reached
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


def _fix(found: _Found, heard: Heard, frame: FrameType | None) -> tuple[Fix, ...]:
    cut = found.cut
    if found.frozen is not None:
        return _trainable(found.frozen, cut)
    if cut is None:
        return (
            Fix.at(
                "requires-grad",
                heard.place,
                "",
                "check that what should learn requires grad and that no step in between cuts "
                "the graph (no_grad, detach, .item(), argmax, .long(), .data, numpy)",
            ),
        )
    if cut.what == INSIDE:
        return (_enable(own_frame(frame), heard),)
    if cut.what == CONDITION:
        why = "make the condition true where what is to be learned from is computed"
        return (Fix.at("enable-grad", cut.place, "", why),)
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
    if cut.what == "sample()":
        return (_drawn(cut),)
    if cut.why in (INDICES, ROUND, TRUTH):
        why = "use something that has a gradient: a softmax-weighted mean, or a loss on the scores"
        if cut.why == ROUND:
            why = "weigh the values on both sides by how near they are: weights have a gradient"
        return (Fix.at("differentiable", cut.place, "", why),)
    return keeping.fixes([cut, *found.around])


def _trainable(frozen: Frozen, cut: Cut | None) -> tuple[Fix, ...]:
    """Return the switching on of a module's gradients before it is used."""
    name = sources.text_of(frozen.used.call.func)
    at, place = frozen.used.place, frozen.place
    there = "elsewhere" if place is None else f"on {place.where}"
    code = f"{name}.requires_grad_(True)" if _is_path(frozen.used.call.func) else ""
    why = f"if it is to learn here: it was switched off {there}, and not on again"
    fixes = [Fix.at("requires-grad", at, code, why, where="before" if code else "")]
    if place is not None:
        why = "leave those parameters trainable that learn"
        fixes.append(Fix.at("requires-grad", place, "", why))
    if cut is not None and not frozen.is_owned:
        why = "or, if what is before it is to learn, do not cut the graph here"
        fixes.append(Fix.at("keep-graph", cut.place, "", why))
    return tuple(fixes)


def _is_path(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _drawn(cut: Cut) -> Fix:
    """Return what to do about a sample: it has a graph only if it is drawn by `rsample`."""
    has = sampling.has_rsample(cut.node, cut.scope)
    if has:
        code = rewriting.renamed_call(sources.statement_at(cut.place), cut.node, "rsample")
        why = "rsample() draws the same, as a function of what the distribution is computed from"
        return Fix.at("rsample", cut.place, code, why)
    otherwise = "multiply dist.log_prob(sample) by the sample's loss, detached, and learn from that"
    why = f"this distribution has no rsample(): {otherwise}"
    if has is None:
        why = f"rsample() keeps the graph, where the distribution has it; else {otherwise}"
    return Fix.at("differentiable", cut.place, "", why)


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


@dataclass(frozen=True)
class _Found:
    """Why a loss has no graph.

    Attributes
    ----------
    cut : Cut or None
    around : tuple of Cut
        What else cuts on the way from there to the loss.
    frozen : Frozen or None
        The module that is why, where the cut is not.
    """

    cut: Cut | None
    around: tuple[Cut, ...] = ()
    frozen: Frozen | None = None


def _find(frame: FrameType | None, nested: bool) -> _Found:
    own = own_frame(frame)
    if own is None:
        return _Found(None)
    if not torch.is_grad_enabled():
        found = off_inside(own, nested) or switched_off_around(own)
        if found is not None:
            return _Found(found)
        place = writes.switched_off_at() or switch_in(own)
        off = None if place is None else Cut(place, "gradients were switched off", "no_grad")
        return _Found(off)
    place = place_in(own.f_code, own.f_lineno)
    value = _differentiated(sources.statement_at(place))
    if value is None:
        return _Found(None)
    reader = Reader()
    cut = reader.cut_in(value, Scope.of_frame(own))
    return _Found(cut, tuple(reader.around), to_blame(reader.modules, reader.behind, own))


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
