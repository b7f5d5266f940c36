"""What to change: code with the person's own names, the best first."""

from __future__ import annotations

import ast
import re

from secondpass import sources
from secondpass.failure import Failure
from secondpass.history import Heard
from secondpass.places import Place
from secondpass.report import Carrier, Fix

_STEPS = "the graph would grow every round, and a step in between would raise the in-place error"


def last_name(name: str) -> str:
    """Return the last plain name in a person's name of a tensor.

    Examples
    --------
    >>> last_name("protos.centre[0]"), last_name("hidden")
    ('centre', 'hidden')
    """
    names = re.findall(r"[A-Za-z_]\w*", re.sub(r"\[[^\]]*\]", "", name))
    return names[-1] if names else name


def assigned_names(place: Place) -> list[str]:
    """Return what the statement on a line assigns to, as the person wrote it."""
    statement = sources.statement_at(place)
    names = []
    for target in sources.targets_of(statement):
        while isinstance(target, ast.Subscript):
            target = target.value
        names.append(sources.text_of(target))
    return names


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
    line = failure.heard.line
    why = "the graph behind it was run through before, and its saved tensors are gone"
    return (Fix("recompute", line, "", f"run the forward pass again before this call: {why}"),)


def against_retaining(failure: Failure, family: str | None) -> str:
    """Say why ``retain_graph=True`` is not the answer, where it is not."""
    if family == "carried":
        return f"Not retain_graph=True: {_STEPS}."
    if family == "computed-once":
        return (
            "Not retain_graph=True: it would use a value that is out of date after a step, or "
            "raise the in-place error."
        )
    return ""


def modified(failure: Failure) -> tuple[Fix, ...]:
    """Return what to change where a saved tensor was changed in place."""
    place = failure.modified_at
    line = None if place is None else place.line
    statement = None if place is None else sources.statement_at(place)
    name = failure.modified_name or "the tensor"
    if _is_step(statement):
        why = (
            "the step changes the weights that this graph has saved: run the forward pass again "
            "after it, or make both backward calls before it"
        )
        return (Fix("recompute", line, _made_code(failure), why),)
    code = _out_of_place(statement)
    why = "it makes a new tensor and leaves the saved one as it was"
    if isinstance(statement, ast.Assign) and code == "":
        base = assigned_names(place)[0] if place is not None else name
        return (
            Fix(
                "collect",
                line,
                f"{base} = torch.stack(parts)",
                "collect the parts in a list and join them once: "
                "the saved tensors stay as they were",
            ),
        )
    return (Fix("out-of-place", line, code, why),)


# ---- one function per family


def _carried(failure: Failure, name: str, freed_by: Heard | None) -> tuple[Fix, ...]:
    line = freed_by.line if freed_by is not None else failure.heard.line
    last = last_name(name)
    if last == "grad":
        code = "optimizer.zero_grad()"
        why = "a .grad made with create_graph=True holds its graph: drop it before the next pass"
        return (Fix("reset", line, code, why), _detach(name, line))
    return (_detach(name, line),)


def _detach(name: str, line: int | None) -> Fix:
    """Return the line that cuts a carried state off, to stand after the call."""
    why = "the values go on, the graph of the round that is over does not"
    match = re.fullmatch(r"(.+?)((?:\[[^\]]*\])+)((?:\.\w+)*)", name)
    if not name:
        code = ""
    elif match is None or match[3]:
        code = f"{name} = {name}.detach()"
    elif match[2].startswith("['"):
        code = f"{match[1]} = {{key: one.detach() for key, one in {match[1]}.items()}}"
    else:
        code = f"{match[1]} = [one.detach() for one in {match[1]}]"
    return Fix("detach", line, code, f"after this line: {why}")


def _computed_once(failure: Failure, name: str) -> tuple[Fix, ...]:
    made = failure.made
    line = None if made is None else made.place.line
    owned = [leaf for leaf, owner in failure.behind if owner]
    is_function = made is not None and name == made.place.function  # a cache holds its result
    recompute = Fix(
        "recompute",
        line,
        _made_code(failure),
        "compute it anew in every pass, in the loop: "
        + (f"{_listed(owned)} must learn through it" if owned else "its graph is gone after one"),
    )
    detach = Fix(
        "detach",
        line,
        f"{name} = {name}.detach()" if name and "[" not in name and not is_function else "",
        ("return it detached, " if is_function else "")
        + (
            "if it is meant as a constant"
            if owned
            else "if it is a constant for these passes: no optimizer owns a leaf behind it"
        ),
    )
    return (recompute, detach) if owned else (detach, recompute)


def _same_root(failure: Failure, freed_by: Heard | None) -> tuple[Fix, ...]:
    drop = Fix(
        "drop",
        failure.heard.line,
        "",
        "one backward pass is enough: the first call has already "
        + ("returned" if freed_by is not None and freed_by.kind == "grad" else "added")
        + " these gradients",
    )
    if freed_by is None or freed_by.place is None:
        return (drop,)
    retain = Fix(
        "retain",
        freed_by.line,
        retained(freed_by.place.code),
        "where both passes are wanted, every call but the last keeps the graph",
    )
    return (retain, drop) if freed_by.kind == "grad" else (drop, retain)


def _shared(failure: Failure, name: str, freed_by: Heard | None) -> tuple[Fix, ...]:
    fixes: list[Fix] = []
    line = None if freed_by is None else freed_by.line
    detach = Fix(
        "detach",
        line,
        f"{name}.detach()" if name else "",
        "in what this call runs backward, if it must not train what is behind it",
    )
    stepped = freed_by is not None and failure.heard.step > freed_by.step
    first = receiver(None if freed_by is None else freed_by.place)
    second = receiver(failure.heard.place)
    if stepped:
        fixes.append(detach)
        fixes.append(
            Fix(
                "recompute",
                failure.heard.line,
                _made_code(failure),
                "or run it again after the step",
            )
        )
    elif freed_by is not None and freed_by.kind == "grad":
        fixes.append(
            Fix(
                "retain",
                line,
                retained("" if freed_by.place is None else freed_by.place.code),
                "the later call needs this graph too (create_graph=True, if it goes through "
                "these gradients)",
            )
        )
    else:
        if first and second:
            fixes.append(
                Fix(
                    "add",
                    failure.heard.line,
                    f"({first} + {second}).backward()",
                    "add the losses and run backward once, in place of both calls",
                )
            )
        fixes.append(detach)
    return tuple(fixes)


def _nested(failure: Failure, name: str, freed_by: Heard | None) -> tuple[Fix, ...]:
    line = None if freed_by is None else freed_by.line
    fixes = [
        Fix(
            "move",
            line,
            "",
            "move this call out of the hook or Function, or add its loss to the main one: it "
            "frees what the outer pass still needs",
        )
    ]
    if name:
        fixes.append(
            Fix(
                "argument",
                line,
                "",
                f"in a checkpoint or Function, pass `{name}` as an argument instead of closing "
                "over it (or use_reentrant=False)",
            )
        )
    return tuple(fixes)


# ---- code


def receiver(place: Place | None) -> str:
    """Return the loss of a call as the person wrote it: ``loss`` for ``loss.backward()``."""
    statement = None if place is None else sources.statement_at(place)
    for node in ast.walk(statement) if statement is not None else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "backward":
                text = sources.text_of(node.func.value)
                return text if not text.startswith("torch.autograd") else ""
    return ""


def retained(code: str) -> str:
    """Return a call's line with ``retain_graph=True`` added.

    Examples
    --------
    >>> retained("loss.backward()"), retained("g, = torch.autograd.grad(loss, x)")
    ('loss.backward(retain_graph=True)', 'g, = torch.autograd.grad(loss, x, retain_graph=True)')
    """
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        name = getattr(getattr(node, "func", None), "attr", None)
        if isinstance(node, ast.Call) and name in ("backward", "grad"):
            node.keywords = [one for one in node.keywords if one.arg != "retain_graph"]
            node.keywords.append(ast.keyword("retain_graph", ast.Constant(True)))
            return re.sub(r"^\((\w+),\) =", r"\1, =", ast.unparse(tree))
    return ""


def _made_code(failure: Failure) -> str:
    return "" if failure.made is None else failure.made.place.code


def _out_of_place(statement: ast.stmt | None) -> str:
    """Return a statement that does the same without changing a tensor, where there is one."""
    if isinstance(statement, ast.AugAssign) and not isinstance(statement.target, ast.Subscript):
        target = sources.text_of(statement.target)
        plain = ast.BinOp(left=statement.target, op=statement.op, right=statement.value)
        return f"{target} = {sources.text_of(plain)}"
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.Expr) and isinstance(value, ast.Call):
        function = value.func
        if isinstance(function, ast.Attribute) and function.attr.endswith("_"):
            target = sources.text_of(function.value)
            call = ast.Call(
                ast.Attribute(function.value, function.attr.rstrip("_"), ast.Load()),
                value.args,
                value.keywords,
            )
            return f"{target} = {sources.text_of(call)}"
    return ""


def _is_step(statement: ast.stmt | None) -> bool:
    return statement is not None and any(
        isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "step"
        for node in ast.walk(statement)
    )


def _listed(names: list[str]) -> str:
    shown = names[:3]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(shown) + more
