"""What to change where one call began inside another: in a hook, a Function or a checkpoint."""

from __future__ import annotations

import ast

from secondpass.explaining import rewriting, snippets, sources, uses
from secondpass.explaining.facts import Failure
from secondpass.explaining.history import Heard
from secondpass.explaining.report import Fix
from secondpass.reading import places
from secondpass.reading.places import Place


def nested(failure: Failure, name: str, freed_by: Heard | None) -> tuple[Fix, ...]:
    """Return what to change where a call inside the failed one freed it, or both are inside one."""
    place = None if freed_by is None else freed_by.place
    is_inner = freed_by is not None and freed_by.is_inside(failure.heard)
    why = (
        "move this call out of the hook or Function, or add its loss to the main one: it frees "
        "what the outer pass still needs"
    )
    move = Fix.at("move", place, "", why)
    made = failure.made
    argument: tuple[Fix, ...] = ()
    if name:
        why = (
            f"pass `{snippets.variable(name)}` to the checkpoint or Function as an argument "
            "instead of closing over it (or use_reentrant=False)"
        )
        argument = (Fix.at("argument", None if made is None else made.place, "", why),)
    if not is_inner:
        return (*argument, move)
    if place is None or place == failure.heard.place:  # a checkpoint's own call
        return (move, *argument)
    if _is_backward(place):
        own = _own_leaf(failure, place)
        return own or (*argument, move)
    why = "the outer pass goes through this graph too, after this call"
    retain = Fix.at("retain", place, rewriting.retained(place), why)
    return (*_detached(failure, place), retain, move)


def begun_inside(failure: Failure, freed_by: Heard) -> tuple[Fix, ...]:
    """Return what to change where the failed call began inside the one that freed the graph."""
    here = failure.heard.place
    where = "the call of a hook or Function" if here is None else f"the call on line {here.line}"
    why = f"{where} runs inside this one and goes through the same graph, which it frees as it goes"
    code = rewriting.retained(freed_by.place)
    return (Fix.at("retain", freed_by.place, code, why),)


def _is_backward(place: Place) -> bool:
    """Say whether a line is in the backward of a custom Function."""
    function = sources.function_at(place)
    return getattr(function, "name", "") == "backward" and snippets.parameters(place)[:1] != [
        "self"
    ]


def _own_leaf(failure: Failure, place: Place) -> tuple[Fix, ...]:
    """Return the detaching of what a Function's backward goes on from: it is to be a leaf there.

    None where no variable of that function holds it: then it is closed over.
    """
    inside = sources.function_name(place)
    names = _names_inside(failure, inside)
    fixes: list[Fix] = []
    for name in dict.fromkeys(names):
        stored = _store_before(place, name)
        if stored is None or not name.isidentifier():
            return ()
        why = (
            f"a leaf of its own: the pass in here ends at `{name}`, and does not free what the "
            "outer one still needs"
        )
        code = f"{name} = {name}.detach().requires_grad_()"
        fix = Fix.at("detach", place, code, why, stored, also=bool(fixes), where="after")
        fixes.append(fix)
    return tuple(fixes)


def _names_inside(failure: Failure, function: str) -> list[str]:
    """Return what a function calls that through which both calls go into what they share."""
    names = [one.name for one in failure.meeting if one.where == function]
    if not names and len(failure.meeting) == 1:  # the one tensor may have several names
        names = [one.name for one in failure.carriers if one.where == function][:1]
    return names if len(names) >= len(failure.meeting) else []


def _store_before(place: Place, name: str) -> int | None:
    """Return the first line before one that assigns to a variable in the same function."""
    function = sources.function_at(place)
    for one in uses.own_statements(function) if function is not None else ():
        targets = [sources.text_of(target) for target in sources.targets_of(one)]
        if name in targets and one.lineno < place.line and not isinstance(one, ast.For):
            return one.lineno
    return None


def _detached(failure: Failure, place: Place) -> tuple[Fix, ...]:
    """Return the detaching of what a hook goes on from, if its loss has more to train."""
    names = _names_inside(failure, sources.function_name(place))
    if not failure.first_learns or not names:
        return ()
    found = rewriting.all_detached(place, names)
    shown = " and ".join(f"`{one}`" for one in names)
    why = f"if the pass in here is to train only what comes after {shown}: then it ends there"
    if found is None:
        what = " and ".join(f"{one}.detach() in place of {one}" for one in names)
        return (Fix.at("detach", place, "", f"compute this call's loss from {what}, {why}"),)
    line, code, _ = found
    return (Fix.at("detach", places.place_at(place.file, line, place.function), code, why),)
