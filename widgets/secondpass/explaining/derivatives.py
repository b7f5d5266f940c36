"""What to change where a later call needs the graph of an ``autograd.grad`` call, or its result."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from secondpass.explaining import rewriting, snippets, sources, uses
from secondpass.explaining.facts import Failure
from secondpass.explaining.history import Heard
from secondpass.explaining.report import Fix
from secondpass.reading import places
from secondpass.reading.places import Place

_GROWING = {"append", "extend", "backward", "grad"}  # what it is given goes on, or is run through
_CUTTING = {"detach", "item", "sign", "numpy", "tolist", "argmax", "float", "int", "bool"}


def kept(failure: Failure, freed_by: Heard) -> tuple[Fix, ...]:
    """Return the keeping of the graph by the call that freed it, and by others that would."""
    why = "the later call needs this graph too, and takes these gradients as constants"
    code = rewriting.retained(freed_by.place)
    return Fix.at("retain", freed_by.place, code, why), *kept_too(failure, freed_by)


def kept_too(failure: Failure, freed_by: Heard) -> tuple[Fix, ...]:
    """Return the keeping of the graph by the failed call, where a later one needs it after that."""
    place = failure.heard.place
    function = None if place is None else sources.function_at(place)
    if place is None or function is None or place == freed_by.place or failure.heard.retain:
        return ()
    on = snippets.lines_within(place, (made.chain for made in failure.old))
    for one in uses.own_statements(function):
        if one.lineno <= place.line or not _is_call(one):
            continue
        if snippets.leading_to(places.place_at(place.file, one.lineno, place.function), on):
            why = f"this call too: line {one.lineno} goes through the same graph after it"
            code = rewriting.retained(place)
            return (Fix.at("retain", place, code, why, also=True),)
    return ()


def _is_call(statement: ast.stmt) -> bool:
    """Say whether a simple statement runs a pass."""
    return not hasattr(statement, "body") and any(
        isinstance(one, ast.Call) and snippets.called(one) in ("backward", "grad")
        for one in ast.walk(statement)
    )


def differentiable(failure: Failure, freed_by: Heard) -> Fix | None:
    """Return ``create_graph=True`` where the later pass is to go through the gradients too."""
    way = [places.place_at(file, line, "") for file, line in freed_by.chain]
    if freed_by.parent is not None and not freed_by.parent.create:
        return None  # in a pass that makes no graph: there is none of these gradients either
    if freed_by.place is None or not _flows_on(failure, way or [freed_by.place]):
        return None
    code = rewriting.with_keyword(freed_by.place, "create_graph")
    why = (
        "the later call goes through these gradients too: it needs their own graph, and this "
        "keeps the rest of it"
    )
    return Fix.at("create_graph", freed_by.place, code, why)


def _flows_on(failure: Failure, way: list[Place]) -> bool:
    """Say whether what a line computes may go into a later call.

    Followed through the assignments of its function; what is returned, through the caller's line.
    """
    place, *callers = way
    function, statement = sources.function_at(place), sources.statement_at(place)
    if function is None or statement is None:
        return True
    if isinstance(statement, ast.Return):
        return not callers or _flows_on(failure, callers)
    tainted = {sources.text_of(one) for one in sources.targets_of(statement)}
    if not tainted:
        calls = (one for one in ast.walk(statement) if isinstance(one, ast.Call))
        return any(getattr(one.func, "attr", "") in _GROWING for one in calls)
    ends = {snippets.receiver(failure.heard.place)}
    for one in uses.own_statements(function):
        if one.lineno <= statement.lineno:
            continue
        value = getattr(one, "value", None)
        if value is None or not any(_mentions(_outputs_only(value), name) for name in tainted):
            continue
        if isinstance(one, ast.Return):
            return not callers or _flows_on(failure, callers)
        calls = (inner for inner in ast.walk(value) if isinstance(inner, ast.Call))
        if any(getattr(inner.func, "attr", "") in _GROWING for inner in calls):
            return True
        tainted |= {sources.text_of(target) for target in sources.targets_of(one)}
    return bool(tainted & ends)


def _mentions(value: ast.AST, name: str) -> bool:
    return any(
        isinstance(one, ast.Name | ast.Attribute) and sources.text_of(one) == name
        for one in _flowing(value)
    )


def _flowing(value: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of an expression through which a gradient can flow.

    Not through a comparison or a condition, nor through what gives a value without a graph.
    """
    if isinstance(value, ast.Compare) or snippets.called(value) in _CUTTING:
        return
    yield value
    inner = [value.body, value.orelse] if isinstance(value, ast.IfExp) else None
    for one in ast.iter_child_nodes(value) if inner is None else inner:
        yield from _flowing(one)


def _outputs_only(value: ast.AST) -> ast.AST:
    """Return what an expression is computed from; of autograd.grad, what is differentiated."""
    for one in ast.walk(value):
        if isinstance(one, ast.Call) and snippets.called(one) == "grad":
            given = [word.value for word in one.keywords if word.arg == "outputs"]
            return next(iter([*one.args, *given]), value)
    return value
