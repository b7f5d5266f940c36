"""From the facts of a failed call to its explanation: pure functions over plain data."""

from __future__ import annotations

import re
from collections.abc import Iterable

from secondpass.explaining import advice, carrying, report, rewriting, snippets
from secondpass.explaining.facts import Failure
from secondpass.explaining.history import Heard
from secondpass.explaining.holders import Held
from secondpass.explaining.report import CalledAt, Carrier, Explanation, StoppedIn
from secondpass.reading.places import Place

CARRIED = "carried"
COMPUTED_ONCE = "computed-once"
SHARED = "shared"
SAME_ROOT = "same-root"
NESTED = "nested"

_MOST_CARRIERS = 5


def explain(failure: Failure) -> Explanation:
    """Draw the conclusions from the facts of a failed call."""
    if failure.error == report.BACKWARD_TWICE:
        return _second_time(failure)
    return _modified(failure)


def family_of(failure: Failure) -> str | None:
    """Say how a freed graph came to be run through again; None where that is not known.

    Asked in this order: was the call that freed made inside the one that failed, or both inside
    one call? Was the line that made the Node run again for this pass? Is anything in this pass
    younger than the call that freed? Is it the same call, by its line? Where several calls may
    have freed it, all must give the same answer.
    """
    calls = (failure.freed_by,) if failure.freed_by is not None else failure.maybe_freed_by
    families = {_family(failure, one) for one in calls}
    return families.pop() if len(families) == 1 else None


def _family(failure: Failure, freed_by: Heard) -> str:
    if freed_by.is_inside(failure.heard):
        return NESTED
    if _shares_outer(freed_by, failure) and not _is_same_result(failure):
        return NESTED
    if failure.made_again:
        return CARRIED
    if not failure.any_younger:
        return SAME_ROOT if failure.same_root else SHARED
    return COMPUTED_ONCE if _same_line(freed_by, failure.heard) else SHARED


def carriers_of(failure: Failure) -> tuple[Carrier, ...]:
    """Return the names that carried the old graph over, the likeliest first.

    A name that the person's code reaches in few steps comes first; where nothing holds the
    tensor by name, what the making line assigned to, and the function around it, are named.
    """
    found: list[Carrier] = []
    freed_by, family = failure.freed_by, family_of(failure)
    if freed_by is not None and family == NESTED:
        found += _carriers(failure.meeting)
        inner = snippets.receiver(freed_by.place) if not _same_line(freed_by, failure.heard) else ""
        if inner and freed_by.place is not None:
            found.append(Carrier(inner, freed_by.place.function))
    first, *_ = boundaries = carrying.boundaries_of(failure)
    names = carrying.ranked(failure, first)
    if family == SHARED and (not names or _is_loss(failure, names[0].name)):
        names = [*(failure.neck or failure.meeting), *names]
    if family in (CARRIED, COMPUTED_ONCE):
        names = [*carrying.chosen(failure, carried=family == CARRIED), *names]
    for held in names:
        carrier = Carrier(held.name, held.where)
        if carrier not in found:
            found.append(carrier)
    for made in (*(one.made for one in boundaries), failure.made):
        for name in [] if made is None else snippets.assigned_names(made.place):
            carrier = Carrier(name, "" if made is None else made.place.function)
            if all(snippets.last_name(one.name) != snippets.last_name(name) for one in found):
                found.append(carrier)
    if not found and failure.made is not None:
        function = failure.made.place.function.rpartition(".")[2]
        if function.isidentifier():
            found.append(Carrier(function, failure.made.place.function))
    return tuple(found[:_MOST_CARRIERS])


def _second_time(failure: Failure) -> Explanation:
    family = family_of(failure)
    carriers = carriers_of(failure)
    freed_by = failure.freed_by
    notes: list[str] = []
    certain = {one.place for one in failure.maybe_freed_by}
    if freed_by is None and len(certain) == 1:
        freed_by = failure.maybe_freed_by[0]
    elif freed_by is None and certain:
        lines = sorted({one.line for one in failure.maybe_freed_by if one.line is not None})
        notes.append(f"Freed by one of the calls on lines {', '.join(map(str, lines))}.")
    if failure.maybe_freed_by and family is None:
        notes.append(
            "Whether both calls share it, or it was computed once, is not known: to stay cheap, "
            "listening does not look at every call."
        )
    if not failure.node:
        notes.append(_not_found(failure))
    elif failure.made is None:
        notes.append(
            "It was made before listening began, or by code that was not listened to: load "
            "secondpass first, or run the whole script with python -m secondpass."
        )
    elif freed_by is None and not certain:
        notes.append("Which call freed them is not known: it ran before listening began.")
    fix = advice.second_time(failure, family, carriers, freed_by)
    warning = advice.against_retaining(failure, family)
    return Explanation(
        error=report.BACKWARD_TWICE,
        message=failure.message,
        family=family,
        node=_node(failure),
        freed_by=_freed_at(failure, freed_by),
        failed_at=CalledAt(failure.heard.number, failure.heard.place),
        carriers=carriers,
        path=failure.path,
        updated_leaves=tuple(f"{name}.grad" for name in failure.updated),
        fix=fix,
        reached=_reached(failure, family, carriers, freed_by),
        notes=tuple([*notes, *([warning] if warning else [])]),
    )


def _freed_at(failure: Failure, freed_by: Heard | None) -> CalledAt | None:
    """Return the call that freed; without its number, where it is one of a line's many."""
    if freed_by is None:
        return None
    certain = failure.freed_by is not None or len(failure.maybe_freed_by) == 1
    return CalledAt(freed_by.number if certain else None, freed_by.place)


def _modified(failure: Failure) -> Explanation:
    place = failure.modified_at
    notes = []
    if not failure.node:
        notes.append(_not_found(failure))
    elif place is None:
        notes.append(
            "Which line changed it was not seen: it may have been changed inside a library."
        )
    if failure.retained:
        notes.append(
            "retain_graph=True is the usual way to get here: it keeps a graph alive over a step "
            "that changes what the graph has saved."
        )
    return Explanation(
        error=report.MODIFIED,
        message=failure.message,
        node=_node(failure),
        failed_at=CalledAt(failure.heard.number, failure.heard.place),
        modified_at=place,
        carriers=tuple(Carrier(one.name, one.where) for one in failure.carriers[:_MOST_CARRIERS]),
        path=failure.path,
        updated_leaves=tuple(f"{name}.grad" for name in failure.updated),
        fix=advice.modified(failure),
        notes=tuple(notes),
    )


def _node(failure: Failure) -> StoppedIn | None:
    if not failure.node:
        return None
    made = failure.made
    return StoppedIn(failure.node, failure.slots, None if made is None else made.place)


def _not_found(failure: Failure) -> str:
    return failure.left_out or "The Node in which it stopped was not found in the graph."


def _reached(
    failure: Failure, family: str | None, carriers: tuple[Carrier, ...], freed_by: Heard | None
) -> str:
    """Say in a sentence how the Node came to be reached again."""
    name = f"`{snippets.variable(carriers[0].name)}`" if carriers else "a tensor without a name"
    if family in (CARRIED, COMPUTED_ONCE):
        held = carrying.chosen(failure, carried=family == CARRIED)
        name = _listed_with(name, held)
    elif family in (SHARED, NESTED) and carriers[:1] == _carriers(failure.meeting[:1]):
        name = _listed_with(name, failure.meeting)
    if family == CARRIED:
        return f"It was reached again through {name}: made in an earlier round, used in this one."
    if family == COMPUTED_ONCE:
        return f"It was reached again through {name}: computed once, used by every pass."
    if family == SHARED and freed_by is not None and failure.heard.is_inside(freed_by):
        return f"This call ran inside the one that freed it; both go through {name}."
    if family == SHARED:
        return f"It was reached again through {name}: both calls share what is behind it."
    if family == SAME_ROOT:
        return (
            f"Both calls run through the same result, {name}: it was not computed anew in between."
        )
    if family == NESTED and freed_by is not None:
        if freed_by.is_inside(failure.heard):
            return f"The call that freed it ran inside this one; both go through {name}."
        return f"Both calls ran inside one other (a checkpoint's, a hook's), and share {name}."
    return f"It was reached again through {name}." if carriers else ""


def _listed_with(name: str, held: Iterable[Held]) -> str:
    names = [name, *(f"`{snippets.variable(one.name)}`" for one in held)]
    return _listed(list(dict.fromkeys(names)))


def _carriers(held: Iterable[Held]) -> tuple[Carrier, ...]:
    return tuple(Carrier(one.name, one.where) for one in held)


def _listed(names: list[str]) -> str:
    """Return names as a sentence has them: ``h``, ``c`` and 2 more."""
    if len(names) > _MOST_CARRIERS:
        names = [*names[: _MOST_CARRIERS - 1], f"{len(names) - _MOST_CARRIERS + 1} more"]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _is_loss(failure: Failure, name: str) -> bool:
    """Say whether a name is the failed call's own: it is not what both calls share."""
    return snippets.variable(name) in rewriting.variables_in(snippets.receiver(failure.heard.place))


def _shares_outer(freed_by: Heard, failure: Failure) -> bool:
    """Say whether both calls ran inside one other, through what was made before that."""
    outer = freed_by.parent
    if outer is None or outer is not failure.heard.parent:
        return False
    return failure.made is None or failure.made.number < outer.began


def _is_same_result(failure: Failure) -> bool:
    return failure.same_root and not failure.any_younger


def _same_line(one: Heard, other: Heard) -> bool:
    return _where(one.place) == _where(other.place)


def _where(place: Place | None) -> tuple[str, int] | None:
    return None if place is None else (place.file, place.line)


def short_name(name: str) -> str:
    """Return a Node's name without the noise: ``Pow`` for ``PowBackward0``.

    Examples
    --------
    >>> short_name("PowBackward0"), short_name("torch::autograd::CopySlices")
    ('Pow', 'CopySlices')
    """
    name = name.rpartition("::")[2]
    return re.sub(r"Backward\d*$", "", name) or name
