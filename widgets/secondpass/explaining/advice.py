"""What to change: code with the person's own names, the best first."""

from __future__ import annotations

import ast

from secondpass.explaining import (
    carried,
    computed_once,
    nesting,
    rewriting,
    sharing,
    snippets,
    sources,
)
from secondpass.explaining.facts import Failure
from secondpass.explaining.history import Heard
from secondpass.explaining.report import Carrier, Fix


def second_time(
    failure: Failure,
    family: str | None,
    carriers: tuple[Carrier, ...],
    freed_by: Heard | None,
) -> tuple[Fix, ...]:
    """Return what to change where a freed graph was run through again."""
    name = carriers[0].name if carriers else ""
    if family == "carried":
        return carried.advice(failure, freed_by)
    if family == "computed-once":
        return computed_once.advice(failure, name)
    if family == "same-root":
        return sharing.same_root(failure, name, freed_by)
    if family == "shared":
        return sharing.shared(failure, name, freed_by)
    if family == "nested":
        return nesting.nested(failure, name, freed_by)
    why = "the graph behind it was run through before, and its saved tensors are gone"
    again = f"run the forward pass again before this call: {why}"
    return (Fix.at("recompute", failure.heard.place, "", again),)


def against_retaining(failure: Failure, family: str | None) -> str:
    """Say why ``retain_graph=True`` is not the answer, where it is not."""
    if family == "carried":
        return (
            "Not retain_graph=True: the graph would grow every round, and a step in between "
            "would raise the in-place error."
        )
    if family == "computed-once" and computed_once.steps_between(failure):
        return (
            "Not retain_graph=True: it would use a value that is out of date after a step, or "
            "raise the in-place error."
        )
    return ""


def _is_called_for_effect(code: str) -> bool:
    """Say whether code has a statement that is a call alone, such as ``queue.append(net(x))``."""
    try:
        return any(isinstance(one, ast.Expr) for one in ast.parse(code).body)
    except SyntaxError:  # the first of several lines
        return True


def modified(failure: Failure) -> tuple[Fix, ...]:
    """Return what to change where a saved tensor was changed in place."""
    place = failure.modified_at
    statement = None if place is None else sources.statement_at(place)
    if snippets.is_step(statement):
        state = _state_of(failure)
        if failure.retained and state:  # carried over rounds, and kept usable by retain_graph
            why = (
                "and leave retain_graph out: the values go on, the graph of the round that is over "
                "does not"
            )
            code = f"{state} = {state}.detach()"
            return (Fix.at("detach", failure.heard.place, code, why, where="after"),)
        why = (
            "the step changes the weights that this graph has saved, so run the forward pass again "
            "(or this backward call before the step)"
        )
        code = sharing.way_to_loss(failure, place)
        if _is_called_for_effect(code):
            code = ""  # to append a second time, say, is more than to compute again
        return (Fix.at("recompute", place, code, why, where="after"),)
    if failure.modified_leaf:
        why = (
            "a weight is changed here while a graph that has saved it waits for its backward "
            "pass: change it after that pass, or run the forward pass again after this line"
        )
        return (Fix.at("recompute", place, "", why),)
    code = rewriting.out_of_place(statement)
    target = next(iter(sources.targets_of(statement)), None)
    if isinstance(target, ast.Subscript) and place is not None:
        base = snippets.assigned_names(place)[0]
        why = "collect the parts in a list and join them once: what is saved stays as it was"
        return (Fix.at("collect", place, f"{base} = torch.stack(parts)", why),)
    why = "it makes a new tensor and leaves the saved one as it was"
    if not code:
        why = (
            "use the form that makes a new tensor (no trailing _, no inplace=True), or clone first"
        )
    return (Fix.at("out-of-place", place, code, why),)


def _state_of(failure: Failure) -> str:
    """Return the name that the line that made the Node makes out of itself: ``h = rnn(x, h)``."""
    statement = None if failure.made is None else sources.statement_at(failure.made.place)
    if not isinstance(statement, ast.Assign):
        return ""
    read = {one.id for one in ast.walk(statement.value) if isinstance(one, ast.Name)}
    names = [one.id for one in statement.targets if isinstance(one, ast.Name)]
    return next((name for name in names if name in read), "")
