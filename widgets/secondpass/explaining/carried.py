"""What to change where a state was carried over from an earlier round: cut it off in between."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from secondpass.explaining import carrying, snippets, sources, uses
from secondpass.explaining.facts import Failure
from secondpass.explaining.history import Heard
from secondpass.explaining.holders import Held
from secondpass.explaining.report import Fix
from secondpass.hearing.operations import is_text
from secondpass.reading import places
from secondpass.reading.places import Place

GOES_ON = "the values go on, the graph of the round that is over does not"
_BEGINS = "a round begins with the values of the last one, not with its graph"
_MANY = 3  # so many states of one pattern are cut off by a loop


def advice(failure: Failure, freed_by: Heard | None) -> tuple[Fix, ...]:
    """Return what to change, the best first; fixes that belong together follow each other."""
    place = freed_by.place if freed_by is not None else failure.heard.place
    states = carrying.chosen(failure, carried=True)
    if not states:
        why = f"detach the state that is carried over: {GOES_ON}"
        return (Fix.at("detach", place, "", why, where="after"),)
    first = states[0]
    name = first.name
    if snippets.last_name(name) == "grad":
        owners = [one.owner for one in failure.behind if one.owner]
        optimizer = next(iter([*owners, *failure.optimizers]), "optimizer")
        why = "a .grad made with create_graph=True holds its graph: drop it before the next pass"
        return (Fix.at("reset", place, f"{optimizer}.zero_grad()", why),)
    if first.kind == "closure":
        why = f"in the function that keeps `{name}`, keep {name}.detach() for the next round"
        return (Fix.at("detach", place, "", why),)
    reset = _reset(first, place)
    if reset is not None:
        return (reset,)
    cleared = _cleared(failure, first, place)
    cut = _all_cut(failure, states, place)
    return (*cleared, *cut) if failure.only_added else (*cut, *cleared)


def _all_cut(failure: Failure, states: list[Held], place: Place | None) -> tuple[Fix, ...]:
    """Return the statements that cut the states off, each where its variable can be reached."""
    by_place: dict[tuple[Place | None, bool], list[tuple[str, str]]] = {}
    stored = []
    code_of = dict(failure.detaching)
    for held in states:
        base = snippets.variable(held.name)
        code = code_of[base] if base in code_of else _guessed(held, base)
        if place is not None and uses.is_asked_for(place.file, snippets.last_name(base)):
            code = code.replace(".detach()", ".detach().requires_grad_()")
        at, before = _place_for(failure, held, place), False
        head = _head_for(failure, held, place)
        if head is not None:
            at, before, code = head, True, _unless_none(head, base, code)
        if base in failure.late:
            at, before = _after_storing(base, at)
        if not code:
            store = _store(failure, held)
            if store is not None:
                stored.append(store)
                continue
        by_place.setdefault((at, before), []).append((base, code))
    fixes = []
    for (at, before), several in by_place.items():
        why = _BEGINS if before else GOES_ON
        if at is not None and uses.yields_at(at) is not None:
            why = "the generator goes on with the values, not with the old graph"
        where = "before" if before else "after"
        fixes.append(Fix.at("detach", at, _joined(several), why, where=where))
    fixes += stored
    return (*fixes[:1], *(replace(one, also=True) for one in fixes[1:]))


def _place_for(failure: Failure, held: Held, place: Place | None) -> Place | None:
    """Return the line after which a state can be cut off by its name.

    That of the call, where its function knows the variable; else that of a caller that does, or
    where the generator that has the variable hands out a round's result.
    """
    if not held.name.isidentifier():
        return place  # reached through an object: from anywhere
    function = held.where.rpartition(".")[2]
    running = carrying.scope_of(failure, held)
    if place is None or (running is not None and place.function.rpartition(".")[2] == function):
        return place
    if held.where == "<module>" and _declares(place, held.name):
        return place
    if running is not None:
        statement = sources.statement_at(running)
        line = running.line if statement is None else statement.lineno
        return places.place_at(running.file, line, held.where)
    for boundary in failure.boundaries:
        for one in carrying.way_of(boundary.made):
            handed_out = uses.yields_at(one) if sources.function_name(one) == held.where else None
            if handed_out is not None:
                return places.place_at(one.file, handed_out.lineno, held.where)
    return place


def _head_for(failure: Failure, held: Held, place: Place | None) -> Place | None:
    """Return the head of the function that alone knows an object, where the call does not.

    ``self.where`` of an iterator's ``__next__``: the loop that asks it has no name for it.
    """
    if held.name.isidentifier() or held.where == "<module>" or place is None:
        return None
    if sources.function_name(place) == held.where or carrying.scope_of(failure, held) is not None:
        return None
    for one in (one for bound in failure.boundaries for one in carrying.way_of(bound.made)):
        function = sources.function_at(one)
        if sources.function_name(one) == held.where and isinstance(function, sources.FUNCTIONS):
            body = [inner for inner in function.body if not is_text(inner)] or function.body
            return places.place_at(one.file, body[0].lineno, held.where)
    return None


def _unless_none(place: Place, name: str, code: str) -> str:
    """Return a statement that leaves a state alone that is None in the first round."""
    last = snippets.last_name(name)
    values = (getattr(one, "value", None) for one in sources.stores_of(place.file, last))
    may_be = any(isinstance(one, ast.Constant) and one.value is None for one in values)
    if not may_be or code != f"{name} = {name}.detach()":
        return code
    return f"{name} = None if {name} is None else {name}.detach()"


def _after_storing(base: str, place: Place | None) -> tuple[Place | None, bool]:
    """Return where to cut off what is stored after the call; and whether before that line.

    After the line that stores it; at the head of the loop, where that line stands elsewhere.
    """
    loops = [] if place is None else uses.loops_around(place)
    if place is None or not loops:
        return place, False
    stores = [
        one.lineno
        for one in uses.own_statements(loops[0])
        if one.lineno > place.line and snippets.stores_into(one, base)
    ]
    line = stores[-1] if stores else loops[0].body[0].lineno
    return places.place_at(place.file, line, place.function), not stores


def _declares(place: Place, name: str) -> bool:
    function = sources.function_at(place)
    return function is not None and any(
        isinstance(one, ast.Global | ast.Nonlocal) and name in one.names
        for one in ast.walk(function)
    )


def _guessed(held: Held, base: str) -> str:
    """Return the statement for a variable whose value could not be looked at."""
    if not base:
        return ""
    if base == held.name or "]" in base.rpartition(".")[2]:
        return f"{held.name} = {held.name}.detach()"
    if held.kind == "dict":
        return f"{base}.update({{key: one.detach() for key, one in {base}.items()}})"
    if held.kind == "deque":
        return ""
    items = f"one.detach() for one in {base}"
    return f"{base} = tuple({items})" if held.kind == "tuple" else f"{base}[:] = [{items}]"


def _joined(several: list[tuple[str, str]]) -> str:
    """Return one line for several statements.

    Examples
    --------
    >>> _joined([("h", "h = h.detach()"), ("c", "c = c.detach()")])
    'h, c = h.detach(), c.detach()'
    """
    if len(several) == 1:
        return several[0][1]
    plain = all(code == f"{name} = {name}.detach()" for name, code in several)
    patterns = {re.sub(r"\[\d+\]", "[]", name) for name, _ in several}
    if plain and len(several) >= _MANY and len(patterns) == 1:
        outer, _, rest = several[0][0].partition("[")
        rest = rest.partition("]")[2]
        if rest.startswith("."):
            return f"for one in {outer}: one{rest} = one{rest}.detach()"
    if plain and all(name.isidentifier() for name, _ in several):
        names = ", ".join(name for name, _ in several)
        return f"{names} = {', '.join(f'{name}.detach()' for name, _ in several)}"
    return "; ".join(code for _, code in several)


def _reset(held: Held, place: Place | None) -> Fix | None:
    """Return the starting anew of a round from the parameters, as in meta-learning.

    What is to be learned is the starting point: detached, it would be cut off from them.
    """
    loops = [] if place is None else uses.loops_around(place)
    function = None if place is None else sources.function_at(place)
    base = snippets.variable(held.name)
    for one in uses.own_statements(function) if function is not None and loops else ():
        names = [sources.text_of(target) for target in sources.targets_of(one)]
        if base in names and one.lineno < loops[0].lineno:
            text = sources.text_of(one)
            if "parameters()" in text:
                why = "every round is to start from the parameters"
                first = loops[0].body[0].lineno
                return Fix.at("reset", place, text, why, first, where="before")
    return None


def _cleared(failure: Failure, held: Held, place: Place | None) -> tuple[Fix, ...]:
    """Return the emptying of a list that something is appended to in every round."""
    base = snippets.variable(held.name)
    file = "" if failure.heard.place is None else failure.heard.place.file
    if held.kind != "list" or base == held.name or snippets.appended(file, base) is None:
        return ()
    why = "if every round is to start with an empty list"
    return (Fix.at("clear", place, f"{base}.clear()", why, where="after"),)


def _store(failure: Failure, held: Held) -> Fix | None:
    """Return the storing of the detached value, where its container cannot be gone through."""
    place = failure.heard.place
    stored = None if place is None else snippets.appended(place.file, held.name)
    if stored is None:
        return None
    why = "keep the values for later rounds, not their graph"
    return Fix.at("detach", place, stored[1], why, stored[0])
