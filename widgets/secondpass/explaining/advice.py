"""What to change: code with the person's own names, the best first."""

from __future__ import annotations

import ast

from secondpass.explaining import snippets, sources
from secondpass.explaining.failure import Failure
from secondpass.explaining.history import Heard
from secondpass.explaining.holders import Held
from secondpass.explaining.report import Carrier, Fix
from secondpass.reading import places

_GOES_ON = "after this line: the values go on, the graph of the round that is over does not"


def second_time(
    failure: Failure,
    family: str | None,
    carriers: tuple[Carrier, ...],
    freed_by: Heard | None,
) -> tuple[Fix, ...]:
    """Return what to change where a freed graph was run through again."""
    name = carriers[0].name if carriers else ""
    if family == "carried":
        return _carried(failure, name, freed_by)
    if family == "computed-once":
        return _computed_once(failure, name)
    if family == "same-root":
        return _same_root(failure, freed_by)
    if family == "shared":
        return _shared(failure, name, freed_by)
    if family == "nested":
        return _nested(failure, name, freed_by)
    why = "the graph behind it was run through before, and its saved tensors are gone"
    again = f"run the forward pass again before this call: {why}"
    return (Fix.at("recompute", failure.heard.place, "", again),)


def against_retaining(family: str | None, optimizers: tuple[str, ...] = ()) -> str:
    """Say why ``retain_graph=True`` is not the answer, where it is not."""
    if family == "carried":
        return (
            "Not retain_graph=True: the graph would grow every round, and a step in between "
            "would raise the in-place error."
        )
    if family == "computed-once" and optimizers:  # without a step nothing goes out of date
        return (
            "Not retain_graph=True: it would use a value that is out of date after a step, or "
            "raise the in-place error."
        )
    return ""


def modified(failure: Failure) -> tuple[Fix, ...]:
    """Return what to change where a saved tensor was changed in place."""
    place = failure.modified_at
    statement = None if place is None else sources.statement_at(place)
    if snippets.is_step(statement):
        state = _state_of(failure)
        if failure.retained and state:  # carried over rounds, and kept usable by retain_graph
            why = (
                "after this line, and leave retain_graph out: the values go on, the graph of the "
                "round that is over does not"
            )
            return (Fix.at("detach", failure.heard.place, f"{state} = {state}.detach()", why),)
        why = (
            "after this line: the step changes the weights that this graph has saved, so run the "
            "forward pass again (or make both backward calls before the step)"
        )
        return (Fix.at("recompute", place, _made_code(failure), why),)
    if failure.modified_leaf:
        why = (
            "a weight is changed here while a graph that has saved it waits for its backward "
            "pass: change it after that pass, or run the forward pass again after this line"
        )
        return (Fix.at("recompute", place, "", why),)
    code = snippets.out_of_place(statement)
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


# ---- one function per family


def _carried(failure: Failure, name: str, freed_by: Heard | None) -> tuple[Fix, ...]:
    place = freed_by.place if freed_by is not None else failure.heard.place
    base = snippets.variable(name)
    kind = next((one.kind for one in failure.carriers if one.name == name), "variable")
    if snippets.last_name(name) == "grad":
        code = f"{_optimizer(failure)}.zero_grad()"
        why = "a .grad made with create_graph=True holds its graph: drop it before the next pass"
        return (Fix.at("reset", place, code, why),)
    fixes = []
    if base != name and kind in ("list", "deque"):
        file = "" if failure.heard.place is None else failure.heard.place.file
        stored = snippets.appended(file, base)
        if stored is not None and kind == "deque":
            why = "keep the values for later rounds, not their graph"
            fixes.append(Fix.at("detach", failure.heard.place, stored[1], why, stored[0]))
        elif stored is not None:
            why = "after this line, if every round is to start with an empty list"
            fixes.append(Fix.at("clear", place, f"{base}.clear()", why))
    if kind == "closure":
        why = f"in the function that keeps `{name}`, keep {name}.detach() for the next round"
        return (Fix.at("detach", place, "", why),)
    return (*fixes, Fix.at("detach", place, _detached(name, base, kind), _GOES_ON))


def _detached(name: str, base: str, kind: str) -> str:
    """Return the statement that cuts a carried state off."""
    if not name:
        return ""
    if base == name:
        return f"{name} = {name}.detach()"
    if kind == "dict":
        return f"{base} = {{key: one.detach() for key, one in {base}.items()}}"
    if "]" in base.rpartition(".")[2]:
        return f"{name} = {name}.detach()"
    items = f"one.detach() for one in {base}"
    return f"{base} = tuple({items})" if kind == "tuple" else f"{base} = [{items}]"


def _computed_once(failure: Failure, name: str) -> tuple[Fix, ...]:
    made = failure.made
    owned = [leaf for leaf, owner in failure.behind if owner]
    held = next((one for one in failure.carriers if one.name == name), None)
    if held is not None and held.kind == "library":
        why = (
            f"`{name}` is a library's cache: let it last for one pass only (clear it, or leave "
            "the block that fills it, before the next)"
        )
        return (Fix.at("recompute", failure.heard.place, "", why),)
    way = [] if made is None else [places.place_at(file, at, "") for file, at in made.chain]
    stored = snippets.store_of(way, name) if name else None
    place = stored[0] if stored is not None else (None if made is None else made.place)
    why = f"{_listed(owned)} must learn through it" if owned else "its graph is gone after one"
    recompute = Fix.at(
        "recompute",
        place,
        "" if place is None else sources.without_comment(place.code),
        f"compute it anew in every pass, in the loop: {why}",
    )
    line, at = None, place
    is_function = made is not None and name == made.place.function.rpartition(".")[2]
    if is_function:  # the line is right, but something keeps what it once returned
        why = f"let `{name}` compute it anew in every pass: an old result was handed out again"
        recompute = Fix.at("recompute", place, "", why)
    is_tensor = held is None or held.kind in ("variable", "object")
    code = stored[1] if stored is not None and is_tensor else ""
    if not code and made is not None and name and is_tensor and not is_function:
        only = snippets.only_store(made.place.file, name)
        if only is not None:
            (line, code), at = only, made.place
        else:
            code = _assigned(name, held)
    if owned:
        why = "if it is meant as a constant"
    else:
        why = "if it is a constant for these passes: no optimizer owns a leaf behind it"
    if not code:
        why = f"{'return' if is_function else 'store'} it detached, {why}"
    detach = Fix.at("detach", at, code, why, line)
    if failure.optimizers and not owned:
        return detach, recompute
    if owned or set(failure.updated) - {leaf for leaf, _ in failure.behind}:
        return recompute, detach
    # Nothing else was seen to need a gradient: detached, the loss might have no graph at all.
    if failure.freed_by is None or failure.freed_by.place is None:
        return (recompute,)
    freed_at = failure.freed_by.place
    why = "where all passes are wanted on one graph, as for the rows of a Jacobian"
    return recompute, Fix.at("retain", freed_at, snippets.retained(freed_at), why)


def _assigned(name: str, held: Held | None) -> str:
    """Return an assignment that detaches what a plain variable or attribute holds."""
    is_plain = held is not None and held.kind in ("variable", "object") and "[" not in name
    return f"{name} = {name}.detach()" if is_plain else ""


def _same_root(failure: Failure, freed_by: Heard | None) -> tuple[Fix, ...]:
    has = "returned" if freed_by is not None and freed_by.kind == "grad" else "added"
    why = f"one backward pass is enough: the first call has already {has} these gradients"
    drop = Fix.at("drop", failure.heard.place, "", why)
    if freed_by is not None and freed_by.kind == failure.heard.kind == "grad":
        why = "ask for all gradients in one call: torch.autograd.grad(result, [all, inputs])"
        drop = Fix.at("one-call", failure.heard.place, "", why)
    if freed_by is None or freed_by.place is None:
        return (drop,)
    why = "where both passes are wanted, every call but the last keeps the graph"
    retain = Fix.at("retain", freed_by.place, snippets.retained(freed_by.place), why)
    return (retain, drop) if freed_by.kind == "grad" else (drop, retain)


def _shared(failure: Failure, name: str, freed_by: Heard | None) -> tuple[Fix, ...]:
    base = snippets.variable(name)
    place = None if freed_by is None else freed_by.place
    first, second = snippets.receiver(place), snippets.receiver(failure.heard.place)
    if freed_by is not None and freed_by.kind == "grad":
        why = (
            "the later call needs this graph too (create_graph=True instead, if it goes through "
            "these gradients)"
        )
        return (Fix.at("retain", freed_by.place, snippets.retained(place), why),)
    # The loss that must not train the shared part: the second, where the first one's step did.
    owners = {owner for _, owner in failure.behind if owner}
    at = failure.heard.place if owners & set(failure.stepped) else place
    detached = snippets.with_detached(at, base) if at is not None and base else None
    why = f"if this loss must not train what is behind `{base}`"
    if detached is not None:
        detach = Fix.at("detach", at, detached[1], why, detached[0])
    else:
        what = f"use {base}.detach()" if base else "use it detached"
        why = f"where the loss of this call is computed, {what} {why}"
        detach = Fix.at("detach", at, "", why)
    why = "run it again, and all that leads from it to this call's loss, before this call"
    again = Fix.at("recompute", failure.heard.place, _made_code(failure), why)
    if failure.stepped:
        return (detach, again)
    if first and first == second:
        why = "add up the losses of the loop and run backward once, after it"
        return (Fix.at("add", failure.heard.place, "", why), detach)
    if not (first and second):
        return (again, detach)
    why = "add the losses and run backward once, in place of both calls"
    add = Fix.at("add", failure.heard.place, f"({first} + {second}).backward()", why)
    return (add, detach)


def _nested(failure: Failure, name: str, freed_by: Heard | None) -> tuple[Fix, ...]:
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


# ---- code


def _made_code(failure: Failure) -> str:
    """Return the line that made the Node, or the one in the failing function that led to it."""
    if failure.made is None:
        return ""
    where = failure.heard.place
    chain = [places.place_at(file, line, "") for file, line in failure.made.chain]
    function = None if where is None else sources.function_at(where)
    for place in chain:
        same_file = where is not None and place.file == where.file
        if function is not None and same_file and sources.function_at(place) is function:
            return sources.without_comment(place.code)
    return sources.without_comment(failure.made.place.code)


def _optimizer(failure: Failure) -> str:
    owners = [owner for _, owner in failure.behind if owner]
    return next(iter([*owners, *failure.optimizers]), "optimizer")


def _listed(names: list[str]) -> str:
    shown = names[:3]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(shown) + more
