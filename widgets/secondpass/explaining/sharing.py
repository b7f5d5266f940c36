"""What to change where two calls run through one part: of one round, of one result, or nested."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from secondpass.explaining import rewriting, snippets, sources, uses
from secondpass.explaining.facts import Failure
from secondpass.explaining.history import Heard
from secondpass.explaining.report import Fix
from secondpass.reading import places
from secondpass.reading.places import Place

_GROWING = {"append", "extend", "backward", "grad"}  # what it is given goes on, or is run through
_NO_ROLE = {
    "loss",
    "err",
    "error",
    "opt",
    "optim",
    "optimizer",
    "optimiser",
    "self",
    "total",
    "cost",
}


def same_root(failure: Failure, freed_by: Heard | None) -> tuple[Fix, ...]:
    """Return what to change where backward ran twice over one result."""
    if freed_by is not None and freed_by.kind == "grad" and not freed_by.create:
        differentiable = _differentiable(failure, freed_by)
        if differentiable is not None:
            return differentiable, _kept(freed_by)
    has = "returned" if freed_by is not None and freed_by.kind == "grad" else "added"
    why = f"one backward pass is enough: the first call has already {has} these gradients"
    drop = Fix.at("drop", failure.heard.place, "", why)
    if freed_by is not None and freed_by.kind == failure.heard.kind == "grad":
        why = "ask for all gradients in one call: torch.autograd.grad(result, [all, inputs])"
        drop = Fix.at("one-call", failure.heard.place, "", why)
    if freed_by is None or freed_by.place is None:
        return (drop,)
    why = "where both passes are wanted, every call but the last keeps the graph"
    retain = Fix.at("retain", freed_by.place, rewriting.retained(freed_by.place), why)
    return (retain, drop) if freed_by.kind == "grad" else (drop, retain)


def shared(failure: Failure, name: str, freed_by: Heard | None) -> tuple[Fix, ...]:
    """Return what to change where two calls of one round share a part."""
    if freed_by is not None and freed_by.kind == "grad":
        differentiable = _differentiable(failure, freed_by)
        kept = _kept(freed_by)
        return (kept,) if differentiable is None else (differentiable, kept)
    base = snippets.variable(name)
    place = None if freed_by is None else freed_by.place
    first, second = snippets.receiver(place), snippets.receiver(failure.heard.place)
    on_line = snippets.receivers(place) if place == failure.heard.place else []
    if len(on_line) == 2:  # ``a.backward(); b.backward()``
        first, second = on_line
    roles = _roles(failure, first, second)
    detach = _detach(failure, base, place, roles)
    again = _again(failure, place)
    if failure.stepped:
        return detach if len(detach) > 1 else (*detach, again)
    if first and first == second and place == failure.heard.place:
        return (_added_up(failure.heard), *detach)
    if not (first and second) or first == second:
        return (again, *detach)
    if roles:
        why = (
            "only where each loss is to train what belongs to the other too, and no step comes "
            "between the two calls"
        )
        retain = Fix.at("retain", place, rewriting.retained(place), why)
        return (*detach, retain)
    return (_both_added(failure.heard.place, place, first, second), *detach)


def _both_added(here: Place | None, freed_at: Place | None, first: str, second: str) -> Fix:
    """Return one call over both losses, where the failing line knows the first one's name."""
    if here is not None and freed_at is not None and not _is_known(first, freed_at, here):
        why = f"add `{first}` and the loss of line {here.line} and run backward once, over the sum"
        return Fix.at("add", freed_at, "", why)
    why = "add the losses and run backward once, in place of both calls"
    return Fix.at("add", here, f"({first} + {second}).backward()", why)


def _is_known(name: str, there: Place, here: Place) -> bool:
    """Say whether what a line calls by a name has that name on another line too."""
    function = sources.function_at(there)
    if there.file == here.file and function in (
        sources.function_at(here),
        sources.tree_of(there.file),
    ):
        return True
    classes = {sources.function_name(one).rpartition(".")[0] for one in (there, here)}
    return name.startswith("self.") and there.file == here.file and len(classes) == 1


def _added_up(heard: Heard) -> Fix:
    """Return one call over several losses in place of one call for each on the same line."""
    place = heard.place
    way = [places.place_at(file, line, "") for file, line in heard.chain]
    why = "add up the losses of the loop and run backward once, after it"
    if not any(map(uses.loops_around, way)):
        why = "this line ran for several losses: add them and run backward once, over the sum"
    loop = next(iter(uses.loops_around(place)), None) if place is not None else None
    if isinstance(loop, ast.For) and len(loop.body) == 1:
        losses, target = sources.text_of(loop.iter), loop.target
        if isinstance(target, ast.Tuple) and losses.endswith(".items()"):
            losses, target = losses.replace(".items()", ".values()"), target.elts[1]
        if isinstance(target, ast.Name) and target.id == snippets.receiver(place):
            why = "add the losses and run backward once, in place of this loop"
            return Fix.at("add", place, f"sum({losses}).backward()", why, loop.lineno)
    return Fix.at("add", place, "", why)


def nested(failure: Failure, name: str, freed_by: Heard | None) -> tuple[Fix, ...]:
    """Return what to change where a pass inside a pass freed it."""
    place = None if freed_by is None else freed_by.place
    is_inner = freed_by is not None and freed_by.is_inside(failure.heard)
    why = (
        "move this call out of the hook or Function, or add its loss to the main one: it frees "
        "what the outer pass still needs"
    )
    move = Fix.at("move", place, "", why)
    made = failure.made
    why = (
        f"pass `{snippets.variable(name)}` to the checkpoint or Function as an argument instead "
        "of closing over it (or use_reentrant=False)"
    )
    argument = Fix.at("argument", None if made is None else made.place, "", why)
    if is_inner or not name:
        return (move, argument) if name else (move,)
    return (argument, move)


# ---- gradients of gradients


def _kept(freed_by: Heard) -> Fix:
    code = rewriting.retained(freed_by.place)
    return Fix.at(
        "retain",
        freed_by.place,
        code,
        "the later call needs this graph too, and takes these gradients as constants",
    )


def _differentiable(failure: Failure, freed_by: Heard) -> Fix | None:
    """Return ``create_graph=True`` where the later pass is to go through the gradients too."""
    way = [places.place_at(file, line, "") for file, line in freed_by.chain]
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
        if _cuts(value):
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
        for one in ast.walk(value)
    )


def _outputs_only(value: ast.AST) -> ast.AST:
    """Return what an expression is computed from; of autograd.grad, what is differentiated."""
    for one in ast.walk(value):
        if isinstance(one, ast.Call) and getattr(one.func, "attr", "") == "grad":
            given = [word.value for word in one.keywords if word.arg == "outputs"]
            return next(iter([*one.args, *given]), value)
    return value


def _cuts(value: ast.AST) -> bool:
    """Say whether an expression gives a value without a graph: a sign, a detached tensor."""
    outer = getattr(getattr(value, "func", None), "attr", "")
    return outer in ("detach", "item", "sign", "numpy", "tolist", "argmax")


# ---- which loss must not train the shared part


def _roles(failure: Failure, first: str, second: str) -> dict[str, str]:
    """Return the optimizer of each of two losses, where their names say so: ``errD``, ``optD``.

    Empty where they do not, or where both belong to one.
    """
    of_loss = {
        loss: own[0]
        for loss in (first, second)
        if loss
        and len(own := [one for one in failure.optimizers if _tokens(one) & _tokens(loss)]) == 1
    }
    return of_loss if len(set(of_loss.values())) == 2 else {}


def _tokens(name: str) -> set[str]:
    """Return the words of a name that say what it belongs to.

    Examples
    --------
    >>> sorted(_tokens("optimizerD")), sorted(_tokens("self.opts['disc']"))
    (['d'], ['dis'])
    """
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return {
        word.lower()[:3] if len(word) > 3 and word.lower() not in _NO_ROLE else word.lower()
        for word in words
    } - _NO_ROLE


def _detach(
    failure: Failure, base: str, freed_at: Place | None, roles: dict[str, str]
) -> tuple[Fix, ...]:
    """Return the detaching for the loss that must not train the shared part."""
    second_at = failure.heard.place
    owners = {one.owner for one in failure.behind if one.owner}
    # The second loss must not, where the first one's step has trained it.
    at = (
        second_at
        if owners & set(failure.stepped) and not owners - set(failure.stepped)
        else freed_at
    )
    part, whole = base, ""
    if roles:
        for place in (freed_at, second_at):
            own = roles.get(snippets.receiver(place), "")
            foreign = _foreign(failure, own)
            if foreign and place is not None:
                part, at, whole = foreign, place, base
                break
    why = f"if this loss must not train what is behind `{part}`"
    if at is None or not part:
        what = f"{part}.detach() in place of {part}" if part else "the shared part, detached"
        return (Fix.at("detach", at, "", f"compute this call's loss from {what}, {why}"),)
    detached = rewriting.with_detached(at, part)
    if detached is None:
        why = f"compute this call's loss from {part}.detach() in place of {part}, {why}"
        return (Fix.at("detach", at, "", why),)
    line, code, inlined = detached
    fix = Fix.at("detach", at, code, why, line)
    # What the first loss shares no more with the second is out of date after a step.
    if failure.stepped and whole and whole != part and inlined:
        again = _again(failure, freed_at, part)
        return fix, replace(again, also=True)
    return (fix,)


def _again(failure: Failure, freed_at: Place | None, from_: str = "") -> Fix:
    """Return the running again of the shared part, and of what leads from it to the loss.

    ``from_``: a variable that is cut off for the first call, and can be used again.
    """
    place = failure.heard.place
    function = None if place is None else sources.function_at(place)
    on = {
        one.line
        for made in failure.old
        for one in (places.place_at(file, line, "") for file, line in made.chain)
        if place is not None and one.file == place.file and sources.function_at(one) is function
    }
    way = [] if place is None else snippets.leading_to(place, on)
    done = 0 if freed_at is None else freed_at.line
    before = [one for one in way if one.lineno < done]
    kept = [one.lineno for one in before if sources.text_of(one.targets[0]) == from_]
    before = [one for one in before if one.lineno > max(kept, default=0)]
    if not before or place is None:
        why = "run it again, and all that leads from it to this call's loss"
        return Fix.at("recompute", place, made_code(failure), why, where="before")
    later = next((one.lineno for one in way if one.lineno > done), place.line)
    code = "; ".join(sources.text_of(one) for one in before)
    why = "run again what both calls share: the first one has used it up"
    if {one.owner for one in failure.behind if one.owner} & set(failure.stepped):
        why = "run again what both calls share: the step has changed the weights"
    return Fix.at("recompute", place, code, why, later, where="before")


def _foreign(failure: Failure, own: str) -> str:
    """Return the variable of the shared part nearest to the losses that others' leaves lie behind.

    None of the leaves behind it belongs to the loss's own optimizer.
    """
    for held, owners in failure.shared:
        if owners and own and own not in owners and "[" not in held.name:
            return held.name
    return ""


def _way(failure: Failure) -> list[Place]:
    """Return the lines that were running when the Node was made, the innermost first."""
    return (
        []
        if failure.made is None
        else [places.place_at(file, line, "") for file, line in failure.made.chain]
    )


def way_to_loss(failure: Failure, after: Place | None) -> str:
    """Return the statements from the line that made the Node to a call's loss."""
    place = failure.heard.place
    function = None if place is None else sources.function_at(place)
    on = {
        one.line
        for one in _way(failure)
        if place is not None and one.file == place.file and sources.function_at(one) is function
    }
    way = [] if place is None else snippets.leading_to(place, on)
    done = [one for one in way if after is None or one.lineno < after.line]
    return "; ".join(sources.text_of(one) for one in done) or made_code(failure)


def made_code(failure: Failure) -> str:
    """Return the line that made the Node, or the one in the failing function that led to it."""
    if failure.made is None:
        return ""
    where = failure.heard.place
    function = None if where is None else sources.function_at(where)
    for place in _way(failure):
        same_file = where is not None and place.file == where.file
        if function is not None and same_file and sources.function_at(place) is function:
            return sources.without_comment(place.code)
    return sources.without_comment(failure.made.place.code)
