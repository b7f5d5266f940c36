"""What to change where something was computed once and is used by every pass."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from secondpass.explaining import adding, carrying, rewriting, snippets, sources, uses
from secondpass.explaining.facts import Failure
from secondpass.explaining.holders import Held
from secondpass.explaining.report import Fix
from secondpass.reading import places
from secondpass.reading.places import Place

_MOST_STATEMENTS = 6


def advice(failure: Failure, name: str) -> tuple[Fix, ...]:
    """Return what to change, the best first."""
    made = failure.made
    held = next((one for one in failure.carriers if one.name == name), None)
    if held is not None and held.kind == "library":
        why = (
            f"`{name}` is a library's cache: let it last for one pass only (clear it, or leave "
            "the block that fills it, before the next)"
        )
        return (Fix.at("recompute", failure.heard.place, "", why),)
    if made is not None and name == made.place.function.rpartition(".")[2]:
        return _handed_out(failure, name, made.place)
    if made is not None and held is not None and _is_cached_property(name, made.place):
        return _forgotten(failure, held, made.place)
    again, detach = recompute(failure, name), _detach(failure, name)
    owned = _owned(failure)
    if failure.others_learn and owned and failure.optimizers and not steps_between(failure):
        return _over_one_graph(failure, detach)
    if failure.others_learn:
        # Where every leaf behind it learns in this pass anyway, the old value is most likely a
        # constant; unless it is only a term of the sum, which would do nothing as a constant.
        constant = _is_constant(failure) if owned else bool(failure.optimizers)
        return (*detach, *again) if constant else (*again, *detach)
    # Nothing else needs a gradient: detached, the loss would have no graph at all.
    return *again, *_retained(failure)


def steps_between(failure: Failure) -> bool:
    """Say whether an optimizer makes a step between two passes over what was computed once.

    Or may: where the loop that runs them has a step that it makes only at times.
    """
    if failure.stepped:
        return True
    if not failure.optimizers:
        return False  # without a step nothing goes out of date
    here = failure.heard.place
    made = [made.chain for made in (*failure.old, failure.made) if made is not None]
    for file, line in failure.heard.chain:
        place = places.place_at(file, line, "")
        lines = snippets.lines_within(place, made)
        for loop in uses.loops_around(place) if here is not None else ():
            if any(loop.lineno <= one <= (loop.end_lineno or 0) for one in lines):
                return False  # it is computed in each of its rounds
            if any(map(snippets.is_step, uses.own_statements(loop))):
                return True
    return False


def _over_one_graph(failure: Failure, detach: tuple[Fix, ...]) -> tuple[Fix, ...]:
    """Return what to do where several passes run over one graph before any step."""
    freed_at = None if failure.freed_by is None else failure.freed_by.place
    loop = adding.outermost_loop(failure)
    added = () if loop is not None and adding.uses_gradients(loop) else adding.added_up(failure)
    why = "every pass but the last needs it: no step() comes between them"
    retain = (Fix.at("retain", freed_at, rewriting.retained(freed_at), why),) if freed_at else ()
    constant = detach if _is_constant(failure) else ()
    if added and added[0].code:
        return (*added, *retain, *constant)
    return (*retain, *added, *constant)


def _is_constant(failure: Failure) -> bool:
    return not _only_behind(failure) and not failure.only_added


def _owned(failure: Failure) -> list[str]:
    return [one.name for one in failure.behind if one.owner]


def _only_behind(failure: Failure) -> list[str]:
    """Return the owned leaves that the pass reaches through the old part alone."""
    return [one.name for one in failure.behind if one.owner and not one.fresh]


def _handed_out(failure: Failure, name: str, place: Place) -> tuple[Fix, ...]:
    """Say what to do about a function of which an old result was handed out again."""
    owned = _owned(failure)
    why = f"let `{name}` compute it anew in every pass: an old result was handed out again"
    recompute = Fix.at("recompute", place, "", why)
    called = failure.freed_by.place if failure.freed_by is not None else None
    if any("cache" in sources.text_of(one) for one in _decorators(place)) and called is not None:
        why = "the next pass computes it anew: an old result was handed out again"
        recompute = Fix.at("reset", called, f"{name}.cache_clear()", why, where="after")
    if not failure.others_learn:
        return recompute, *_retained(failure)
    why = "if it is meant as a constant" if owned else "no optimizer owns a leaf behind it"
    detach = Fix.at("detach", place, "", f"return it detached, {why}")
    return (recompute, detach) if owned or not failure.optimizers else (detach, recompute)


def _is_cached_property(name: str, place: Place) -> bool:
    """Say whether a name is that of the cached_property that a line is in."""
    is_of = snippets.last_name(name) == getattr(sources.function_at(place), "name", "")
    texts = map(sources.text_of, _decorators(place))
    return is_of and any(text.endswith("cached_property") for text in texts)


def _forgotten(failure: Failure, held: Held, place: Place) -> tuple[Fix, ...]:
    """Return the deleting of what a cached_property keeps: it is computed anew when asked for."""
    called = failure.heard.place if failure.freed_by is None else failure.freed_by.place
    why = "or make it a plain property: it is computed anew in every pass"
    plain = Fix.at("recompute", place, "", "make it a plain property: each pass computes it anew")
    if called is None or held.where not in ("<module>", sources.function_name(called)):
        return (plain,)
    return (Fix.at("reset", called, f"del {held.name}", why, where="after"),)


def _retained(failure: Failure) -> tuple[Fix, ...]:
    """Return the keeping of the graph, where no step makes it go out of date."""
    freed_at = None if failure.freed_by is None else failure.freed_by.place
    if freed_at is None or failure.optimizers:
        return ()
    why = "where several passes over one graph are really wanted"
    return (Fix.at("retain", freed_at, rewriting.retained(freed_at), why),)


def _decorators(place: Place) -> list[ast.expr]:
    return list(getattr(sources.function_at(place), "decorator_list", ()))


# ---- compute it anew


def recompute(failure: Failure, name: str, because: str = "") -> tuple[Fix, ...]:
    """Return the statements that must run in every pass: all that made the old part.

    ``because`` stands in for the leaves that must learn through it.
    """
    names = _only_behind(failure) or _owned(failure)
    why = f"{_listed(names)} must learn through it" if names else "its graph is gone after one"
    why = because or why
    start = _stored_at(failure, name)
    if start is None:
        return (Fix.at("recompute", None, "", f"compute it anew in every pass: {why}"),)
    defined = sources.statement_at(start)
    if isinstance(defined, sources.FUNCTIONS) and name in snippets.parameters_of(defined):
        why = (
            f"compute `{name}` in the body of `{defined.name}`: a default is computed once, where "
            f"the function is defined ({why})"
        )
        return (Fix.at("recompute", start, "", why),)
    held = [one.name for one in carrying.chosen(failure, carried=False)] or [name]
    kept = "; ".join(filter(None, (_kept_by_condition(failure, one, start) for one in held)))
    if kept:
        why = f"the next pass computes it anew: {why}"
        at = failure.heard.place if failure.freed_by is None else failure.freed_by.place
        return (Fix.at("reset", at, kept, why, where="after"),)
    lines = _lines_in(failure, start)
    statements = [one for line in lines if (one := _outermost(failure, line)) is not None]
    statements = list({id(one): one for one in statements}.values())
    first = places.place_at(start.file, statements[0].lineno, start.function) if lines else start
    code = _code_of(statements)
    to = _where_to(failure, start)
    several = len(statements) > 1
    if not code and several:
        last = statements[-1].end_lineno or statements[-1].lineno
        why = f"compute lines {first.line} to {last} anew in every pass{to}: {why}"
    else:
        what = "all of this" if several else "it"
        is_loop = to.startswith(", in the loop")  # then the line only stands elsewhere
        move = f"move {what} into{to.removeprefix(', in')}, to be computed anew in every pass"
        why = f"{move if is_loop else f'compute {what} anew in every pass{to}'}: {why}"
    return (Fix.at("recompute", first, code, why),)


def _kept_by_condition(failure: Failure, name: str, start: Place) -> str:
    """Return what makes ``if self._adj is None: self._adj = …`` compute it in the next pass."""
    function = sources.function_at(start)
    for one in uses.own_statements(function) if function is not None else ():
        if not isinstance(one, ast.If) or not one.body[0].lineno <= start.line:
            continue
        if start.line > (one.body[-1].end_lineno or 0):
            continue
        test, base = one.test, snippets.variable(name)
        if snippets.last_name(base) not in uses.names_in(test):
            continue
        operators = test.ops if isinstance(test, ast.Compare) else []
        if any(isinstance(op, ast.NotIn) for op in operators):
            return f"{base}.clear()"
        return f"{base} = None"
    return ""


def _stored_at(failure: Failure, name: str) -> Place | None:
    """Return the line that gave a variable its value, or the one that made the Node."""
    way = _way(failure)
    stored = snippets.store_of(way, name) if name else None
    if stored is not None:
        return stored[0]
    if failure.made is None:
        return None
    # What a function returns is stored, under whatever name, by the line that called it.
    way = [places.place_at(file, line, "") for file, line in failure.made.chain]
    calls = (one for one in way if not isinstance(sources.statement_at(one), ast.Return))
    return next(calls, failure.made.place)


def _way(failure: Failure) -> list[Place]:
    """Return the lines that were running when the old result at the boundary was made."""
    first = next((one.made for one in failure.boundaries if one.made is not None), None)
    found = []
    for made in (failure.made, first):
        for file, line in () if made is None else made.chain:
            found.append(places.place_at(file, line, made.place.function if made else ""))
    return found


def _lines_in(failure: Failure, start: Place) -> list[int]:
    """Return the lines of one function in which the old part was made, in their order."""
    function = sources.function_at(start)
    found: dict[int, None] = {start.line: None}
    for made in failure.old:
        for file, line in made.chain:
            place = places.place_at(file, line, "")
            if place.file == start.file and sources.function_at(place) is function:
                found[line] = None
                break
    return sorted(found)


def _outermost(failure: Failure, line: int) -> ast.stmt | None:
    """Return the statement around a line that would be moved: a whole inner loop, not its body."""
    start = None if failure.made is None else failure.made.place
    if start is None:
        return None
    place = places.place_at(start.file, line, "")
    statement = sources.statement_at(place)
    loops = uses.loops_around(place)
    around = failure.heard.place
    ours = [] if around is None else uses.loops_around(around)
    inner = [one for one in loops if one not in ours]
    return inner[-1] if inner else statement


def _code_of(statements: list[ast.stmt]) -> str:
    """Return the statements as one line that can be put elsewhere, where they are assignments."""
    if not statements or len(statements) > _MOST_STATEMENTS:
        return ""
    if not all(isinstance(one, ast.Assign | ast.AnnAssign) for one in statements):
        return ""
    return "; ".join(sources.text_of(one) for one in statements)


def _where_to(failure: Failure, start: Place) -> str:
    """Say where it is to be computed: where every pass comes by, and its names are known."""
    place = failure.heard.place
    if place is None:
        return ""
    made_in, called_in = sources.function_at(start), sources.function_at(place)
    encloses = made_in is not None and any(one is called_in for one in ast.walk(made_in))
    loops = [one for one in uses.loops_around(place) if not _runs_over(one, failure)]
    if encloses and (made_in is called_in or loops):
        return f", in the loop on line {loops[0].lineno}" if loops else ""
    if encloses:
        return _in_function(failure, start, called_in)
    used = next((one.used for one in failure.boundaries if one.used is not None), None)
    if used is not None and used.place.file == start.file:
        name, of = used.place.function, sources.function_name(start)
        if "." in name and name.rpartition(".")[0] == of.rpartition(".")[0]:
            return f", in `{name}`"  # a method of the same class
    handed_out = uses.yields_at(start)
    loops = [] if handed_out is None else uses.loops_around(replace(start, line=handed_out.lineno))
    return f", in the loop on line {loops[0].lineno}" if loops else ""


def _in_function(failure: Failure, start: Place, called_in: ast.AST | None) -> str:
    """Name the function of the call, if it reads the variable; else the loop that leads there."""
    given = {sources.text_of(one) for one in sources.targets_of(sources.statement_at(start))}
    if called_in is not None and given and not given & uses.names_in(called_in):
        for file, line in failure.heard.chain:
            place = places.place_at(file, line, "")
            loops = uses.loops_around(place) if file == start.file else []
            if loops and sources.function_at(place) is sources.function_at(start):
                return f", in the loop on line {loops[0].lineno}"
    return f", in `{getattr(called_in, 'name', '')}`"


def _runs_over(loop: ast.For | ast.AsyncFor | ast.While, failure: Failure) -> bool:
    """Say whether a loop runs over what was computed once: it cannot be computed inside."""
    if isinstance(loop, ast.While):
        return False
    names = {snippets.last_name(snippets.variable(one.name)) for one in failure.carriers}
    return bool(uses.names_in(loop.iter) & names)


# ---- detach it


def _detach(failure: Failure, name: str) -> tuple[Fix, ...]:
    """Return the detaching of all that was computed once."""
    owned = _owned(failure)
    if owned and _is_constant(failure):
        why = "as a constant: what learns is reached without it"
    elif owned:
        why = "if it is meant as a constant"
    else:
        why = "if it is a constant for these passes: no optimizer owns a leaf behind it"
    held = carrying.chosen(failure, carried=False)
    if name and all(one.name != name for one in held):
        held = [Held(name, "", 0, "variable"), *held]
    fixes: list[Fix] = []
    for one in held:
        fix = _detach_one(failure, one, why)
        if fix is not None and all(
            fix.place != other.place or fix.code != other.code for other in fixes
        ):
            fixes.append(fix)
    if not fixes:
        place = None if failure.made is None else failure.made.place
        return (Fix.at("detach", place, "", f"store it detached, {why}"),)
    return (*fixes[:1], *(replace(one, also=True) for one in fixes[1:]))


def _detach_one(failure: Failure, held: Held, why: str) -> Fix | None:
    base = snippets.variable(held.name)
    boundary = next((b for b in failure.boundaries if held in b.names), None)
    made = boundary.made if boundary is not None and boundary.made is not None else failure.made
    if made is None:
        return None
    way = [places.place_at(file, line, made.place.function) for file, line in made.chain]
    stored = snippets.store_of(way, base)
    if stored is not None:
        place, code = stored
        if snippets.makes_object(sources.statement_at(place)):
            return Fix.at("detach", place, "", f"give it what it holds detached, {why}")
        if code and base == held.name:
            return Fix.at("detach", place, code, why)
        target = _target(place, base)
        if target.endswith("]") and held.name.count("[") == base.count("[") + 1:
            return Fix.at("detach", place, f"{target} = {target}.detach()", why, where="after")
        plain = f"{base} = {base}.detach()" if base == held.name else ""
        code = dict(failure.detaching).get(base, plain)
        code = re.sub(rf"(?<![\w.]){re.escape(base)}(?!\w)", target, code)
        if code and target:
            return Fix.at("detach", place, code, why, where="after")
    only = snippets.only_store(made.place.file, base) if base == held.name else None
    if only is not None and only[1]:
        return Fix.at("detach", made.place, only[1], why, only[0])
    return None


def _target(place: Place, name: str) -> str:
    """Return what a line calls the variable that it assigns to: ``self.scale``."""
    targets = sources.targets_of(sources.statement_at(place))
    texts = [sources.text_of(one) for one in targets]
    return next((one for one in texts if snippets.last_name(one) == snippets.last_name(name)), "")


def _listed(names: list[str]) -> str:
    shown = names[:3]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(shown) + more
