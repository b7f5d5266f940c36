"""One pass over the sum of several losses, in place of one pass over each."""

from __future__ import annotations

import ast

from secondpass.explaining import snippets, sources, uses
from secondpass.explaining.facts import Failure
from secondpass.explaining.report import Fix
from secondpass.reading import places
from secondpass.reading.places import Place

_SUMS = ("total", "total_loss", "summed_loss")


def both_added(here: Place | None, freed_at: Place | None, first: str, second: str) -> Fix:
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


def added_up(failure: Failure) -> tuple[Fix, ...]:
    """Return one call over several losses in place of one call for each on the same line."""
    heard = failure.heard
    place = heard.place
    loop = next(iter(uses.loops_around(place)), None) if place is not None else None
    if isinstance(loop, ast.For) and len(loop.body) == 1:
        losses, target = sources.text_of(loop.iter), loop.target
        if isinstance(target, ast.Tuple) and losses.endswith(".items()"):
            losses, target = losses.replace(".items()", ".values()"), target.elts[1]
        if isinstance(target, ast.Name) and target.id == snippets.receiver(place):
            why = "add the losses and run backward once, in place of this loop"
            return (Fix.at("add", place, f"sum({losses}).backward()", why, loop.lineno),)
    summed = _summed(failure)
    if summed:
        return summed
    way = [places.place_at(file, line, "") for file, line in heard.chain]
    why = "add up the losses of the loop and run backward once, after it"
    if not any(map(uses.loops_around, way)):
        why = "this line ran for several losses: add them and run backward once, over the sum"
    return (Fix.at("add", place, "", why),)


def _summed(failure: Failure) -> tuple[Fix, ...]:
    """Return the three lines that add up the losses of a loop; none where that is not so plain.

    Between two passes of the loop nobody may look at the gradients.
    """
    place = failure.heard.place
    statement = None if place is None else sources.statement_at(place)
    function = None if place is None else sources.function_at(place)
    loop = outermost_loop(failure)
    call = getattr(statement, "value", None)
    if place is None or function is None or loop is None or not isinstance(call, ast.Call):
        return ()
    loss = snippets.receiver(place)
    if not loss or call.args or snippets.called(call) != "backward" or uses_gradients(loop):
        return ()
    names = {getattr(one, "id", "") for one in ast.walk(function)}
    total = next((one for one in _SUMS if one not in names), "")
    if not total:
        return ()
    why = "add up the losses of the loop"
    once = "after the whole loop, not in it: one backward pass over all of them"
    return (
        Fix.at("add", place, f"{total} = 0.0", why, loop.lineno, where="before"),
        Fix.at("add", place, f"{total} = {total} + {loss}", "in place of the call", also=True),
        Fix.at("add", place, f"{total}.backward()", once, loop.lineno, also=True, where="after"),
    )


def outermost_loop(failure: Failure) -> ast.For | ast.AsyncFor | ast.While | None:
    """Return the outermost loop around the call that runs over what was made before it."""
    place = failure.heard.place
    if place is None:
        return None
    chains = [made.chain for made in (*failure.old, failure.made) if made is not None]
    made = snippets.lines_within(place, chains)
    found = None
    for loop in uses.loops_around(place):
        if any(loop.lineno <= line <= (loop.end_lineno or 0) for line in made):
            break
        found = loop
    return found


def uses_gradients(loop: ast.AST) -> bool:
    """Say whether a loop makes a step, or reads or sets gradients: they are wanted one by one."""
    return any(
        (isinstance(one, ast.Attribute) and one.attr in ("grad", "zero_grad"))
        or (isinstance(one, ast.Call) and snippets.called(one) in ("step", "clip_grad_norm_"))
        for one in ast.walk(loop)
    )
