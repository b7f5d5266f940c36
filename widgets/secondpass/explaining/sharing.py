"""What to change where two calls run through one part: of one round, or of one result."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from secondpass.explaining import (
    adding,
    computed_once,
    derivatives,
    nesting,
    rewriting,
    snippets,
    sources,
)
from secondpass.explaining.facts import Failure
from secondpass.explaining.history import Heard
from secondpass.explaining.report import Fix
from secondpass.reading import places
from secondpass.reading.places import Place

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


def same_root(failure: Failure, name: str, freed_by: Heard | None) -> tuple[Fix, ...]:
    """Return what to change where backward ran twice over one result."""
    here = failure.heard
    if freed_by is None or freed_by.place is None:
        return (Fix.at("drop", here.place, "", "one backward pass is enough"),)
    is_grad = freed_by.kind == "grad"
    if is_grad and not freed_by.create:
        differentiable = derivatives.differentiable(failure, freed_by)
        if differentiable is not None:
            return differentiable, *derivatives.kept(failure, freed_by)
    if {one.owner for one in failure.behind if one.owner} & set(failure.stepped):
        return _in_the_loop(failure, name, freed_by) or (_again(failure, freed_by.place),)
    why = "where both passes are wanted, every call but the last keeps the graph"
    retain = Fix.at("retain", freed_by.place, rewriting.retained(freed_by.place), why)
    if _is_given(freed_by) or _is_given(here):  # each call asks for something else
        return (retain, *derivatives.kept_too(failure, freed_by))
    if is_grad and here.kind == "grad":
        why = "ask for all gradients in one call: torch.autograd.grad(result, [all, inputs])"
        one_call = Fix.at("one-call", here.place, "", why)
        return (retain, *derivatives.kept_too(failure, freed_by), one_call)
    in_the_loop = _in_the_loop(failure, name, freed_by)
    if in_the_loop:
        return (*in_the_loop, retain)
    if failure.zeroed:
        why = (
            "if the gradients of the first call will do, leave this call out, and the setting to "
            "zero before it"
        )
        return retain, Fix.at("drop", here.place, "", why)
    has = "returned" if is_grad else "added"
    why = f"one backward pass is enough: the first call has already {has} these gradients"
    drop = Fix.at("drop", here.place, "", why)
    return (retain, drop) if is_grad else (drop, retain)


def _in_the_loop(failure: Failure, name: str, freed_by: Heard) -> tuple[Fix, ...]:
    """Return the running of the forward pass in the loop that runs its backward pass."""
    if freed_by.place != failure.heard.place or adding.outermost_loop(failure) is None:
        return ()
    return computed_once.recompute(failure, name, "this line ran again over one result")


def _is_given(heard: Heard) -> bool:
    """Say whether a call was told what to go on from, or where to end."""
    return (heard.inputs and heard.kind == "backward") or snippets.gives_gradient(heard.place)


def shared(failure: Failure, name: str, freed_by: Heard | None) -> tuple[Fix, ...]:
    """Return what to change where two calls of one round share a part."""
    if freed_by is not None and failure.heard.is_inside(freed_by):
        return nesting.begun_inside(failure, freed_by)
    if freed_by is not None and freed_by.kind == "grad":
        differentiable = derivatives.differentiable(failure, freed_by)
        kept = derivatives.kept(failure, freed_by)
        return kept if differentiable is None else (differentiable, *kept)
    base = snippets.variable(name)
    place = None if freed_by is None else freed_by.place
    first, second = snippets.receiver(place), snippets.receiver(failure.heard.place)
    on_line = snippets.receivers(place) if place == failure.heard.place else []
    if len(on_line) == 2:  # ``a.backward(); b.backward()``
        first, second = on_line
    roles = _roles(failure, first, second)
    if failure.stepped or roles:
        detach = _detach(failure, base, place, roles)
        if failure.stepped:
            return detach if len(detach) > 1 else (*detach, _again(failure, place))
        why = (
            "only where each loss is to train what belongs to the other too, and no step comes "
            "between the two calls"
        )
        retain = Fix.at("retain", place, rewriting.retained(place), why)
        return (*detach, retain)
    apart = _apart(failure, place)
    if first and first == second and place == failure.heard.place:
        return (*adding.added_up(failure), *apart)
    if not (first and second) or first == second:
        return (_again(failure, place), *apart)
    return (adding.both_added(failure.heard.place, place, first, second), *apart)


def _apart(failure: Failure, freed_at: Place | None) -> tuple[Fix, ...]:
    """Return what to do where two passes without a step in between are to stay two.

    To cut off what both share is only proposed where the first loss has more to train, and no
    other way into it.
    """
    if freed_at is None:
        return ()
    names = [one.name for one in failure.meeting]
    found = rewriting.all_detached(freed_at, names) if failure.first_learns else None
    others = {snippets.variable(held.name) for held, _ in failure.shared} - set(names)
    if found is not None and not others & _read_whole(found[1]):
        shown = " and ".join(f"`{one}`" for one in names if f"{one}.detach()" in found[1])
        why = f"if this loss must not train what is behind {shown}"
        return (Fix.at("detach", freed_at, found[1], why, found[0]),)
    why = "where both passes are wanted: every call but the last keeps the graph"
    return (Fix.at("retain", freed_at, rewriting.retained(freed_at), why),)


def _read_whole(code: str) -> set[str]:
    """Return what the right side of an assignment reads."""
    value = getattr(ast.parse(code).body[0], "value", None)
    return (
        set()
        if value is None
        else {
            sources.text_of(one)
            for one in ast.walk(value)
            if isinstance(one, ast.Name | ast.Attribute) and isinstance(one.ctx, ast.Load)
        }
    )


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
