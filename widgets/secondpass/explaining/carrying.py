"""Which variable carried an old graph into a new pass: the likeliest of several names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from secondpass.explaining import snippets, sources, uses
from secondpass.explaining.facts import Boundary, Failure
from secondpass.explaining.holders import Held
from secondpass.hearing.lines import Made
from secondpass.reading import places
from secondpass.reading.places import Place

ASSIGNED = "assigned"
"""The kind of a name that is only known from the line that made the Node."""


def chosen(failure: Failure, *, carried: bool) -> list[Held]:
    """Return one name for each place at which the pass went into the old graph.

    Parameters
    ----------
    failure : Failure
    carried : bool
        Whether the places are meant whose lines run in every round, or those whose do not.
    """
    found: list[Held] = []
    for place, boundary in enumerate(boundaries_of(failure)):
        if place > 0 and boundary.again != carried:
            continue
        names = ranked(failure, boundary)
        # Which of the names that a line assigns to is meant is not known: all that are read again.
        several = [
            one for one in names if one.kind == ASSIGNED and not any(_order(failure, boundary, one))
        ]
        for one in several if names and names[0].kind == ASSIGNED else names[:1]:
            # One variable often holds what several Nodes made: h and c of a state, a list's items.
            known = {snippets.variable(other.name) for other in found}
            if snippets.variable(one.name) not in known:
                found.append(one)
    return found


def boundaries_of(failure: Failure) -> tuple[Boundary, ...]:
    """Return where the pass went into the old graph, the place on the path with all its names."""
    first, *others = failure.boundaries or (Boundary(failure.made, None),)
    # Names from further down stand in for those of the boundary itself.
    return replace(first, names=tuple(dict.fromkeys([*first.names, *failure.carriers]))), *others


def ranked(failure: Failure, boundary: Boundary) -> list[Held]:
    """Return the names of what an old Node made, the likeliest to have carried it first.

    Names that every round sets anew come last: they cannot have carried anything. Names that the
    line reads which took the old result in come first; a parameter of the calling function comes
    after what the caller calls it, where it lives on.
    """
    # A name that every round sets anew is no reason to leave out one that ends as it does.
    kept = [one for one in boundary.names if not _is_set_anew(failure, boundary, one)]
    names = [*boundary.names, *_assigned(boundary.made, kept)]
    return sorted(names, key=lambda held: _order(failure, boundary, held))


def _order(failure: Failure, boundary: Boundary, held: Held) -> tuple[bool, bool, bool]:
    read = uses.names_read(way_of(boundary.used))
    base = snippets.variable(held.name)
    here = failure.heard.place
    return (
        _is_set_anew(failure, boundary, held),
        bool(read) and snippets.last_name(base) not in read,
        here is not None and held.name in snippets.parameters(here),
    )


def scope_of(failure: Failure, held: Held) -> Place | None:
    """Return the running line of the function that has a variable, at the call that freed."""
    heard = failure.freed_by or failure.heard
    file = "" if heard.place is None else heard.place.file
    for place in _places(heard.chain):
        if place.file == file or held.where != "<module>":
            if sources.function_name(place) == held.where:
                return place
    return None


def _is_set_anew(failure: Failure, boundary: Boundary, held: Held) -> bool:
    base = snippets.variable(held.name)
    if not base.isidentifier():
        return False
    place = scope_of(failure, held)
    if place is None:
        way = way_of(boundary.made)
        place = next((one for one in way if sources.function_name(one) == held.where), None)
    return place is not None and uses.is_set_anew(base, place)


def _assigned(made: Made | None, known: Iterable[Held]) -> Iterator[Held]:
    """Yield what the line that made a Node assigns to, where nothing of that name is known.

    And what the line of a generator assigns to that led there: no call finds a generator running,
    but it goes on with its variables.
    """
    last = {snippets.last_name(one.name) for one in known}
    for number, place in enumerate(way_of(made)):
        goes_on = uses.yields_at(place) is not None
        if number > 0 and not goes_on:
            continue
        for name in snippets.assigned_names(place):
            if goes_on or snippets.last_name(name) not in last:
                yield Held(name, sources.function_name(place), 0, ASSIGNED)


def way_of(made: Made | None) -> list[Place]:
    """Return the lines that were running when a Node was made, the innermost first."""
    return [] if made is None else _places(made.chain)


def _places(chain: Iterable[tuple[str, int]]) -> list[Place]:
    return [places.place_at(file, line, "") for file, line in chain]
