"""Pieces of the person's own code, read and rewritten for advice."""

from __future__ import annotations

import ast
import re

from secondpass.explaining import sources
from secondpass.reading.places import Place


def last_name(name: str) -> str:
    """Return the last plain name in a person's name of a tensor.

    Examples
    --------
    >>> last_name("protos.centre[0]"), last_name("hidden")
    ('centre', 'hidden')
    """
    names = re.findall(r"[A-Za-z_]\w*", re.sub(r"\[[^\]]*\]", "", name))
    return names[-1] if names else name


def variable(name: str) -> str:
    """Return a name without the items at its end.

    Examples
    --------
    >>> variable("hidden[0]"), variable("net.layers[1].state")
    ('hidden', 'net.layers[1].state')
    """
    return re.sub(r"(\[[^\]]*\])+$", "", name)


def assigned_names(place: Place) -> list[str]:
    """Return what the statement on a line assigns to, as the person wrote it."""
    names = []
    for target in sources.targets_of(sources.statement_at(place)):
        while isinstance(target, ast.Subscript):
            target = target.value
        names.append(sources.text_of(target))
    return names


def parameters(place: Place) -> list[str]:
    """Return the parameters of the function around a line."""
    arguments = getattr(sources.function_at(place), "args", None)
    if not isinstance(arguments, ast.arguments):
        return []
    return [one.arg for one in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]


def receiver(place: Place | None) -> str:
    """Return the loss of a call as the person wrote it: ``loss`` for ``loss.backward()``."""
    statement = None if place is None else sources.statement_at(place)
    for node in ast.walk(statement) if statement is not None else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "backward":
                text = sources.text_of(node.func.value)
                return "" if text.endswith("autograd") else text
    return ""


def retained(place: Place | None) -> str:
    """Return a call's statement with ``retain_graph=True`` added."""
    code = "" if place is None else place.code
    try:
        tree = ast.parse(code)
    except SyntaxError:  # a statement of several lines
        statement = None if place is None else sources.statement_at(place)
        tree = ast.Module([] if statement is None else [statement], [])
        tree = ast.parse(ast.unparse(tree))
    for node in ast.walk(tree):
        name = getattr(getattr(node, "func", None), "attr", None)
        if isinstance(node, ast.Call) and name in ("backward", "grad"):
            node.keywords = [one for one in node.keywords if one.arg != "retain_graph"]
            node.keywords.append(ast.keyword("retain_graph", ast.Constant(True)))
            text = "; ".join(ast.unparse(one) for one in tree.body)
            return re.sub(r"^\((\w+),\) =", r"\1, =", text)
    return ""


def out_of_place(statement: ast.stmt | None) -> str:
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


def is_step(statement: ast.stmt | None) -> bool:
    """Say whether a statement is an optimizer's step."""
    return statement is not None and any(
        isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "step"
        for node in ast.walk(statement)
    )


def store_of(places: list[Place], name: str) -> tuple[Place, str] | None:
    """Return the first of some lines that assigns to a variable, with the value detached."""
    for place in places:
        statement = sources.statement_at(place)
        targets = sources.targets_of(statement)
        if any(last_name(sources.text_of(one)) == last_name(name) for one in targets):
            return place, detached_store(statement)
    return None


def only_store(file: str, name: str) -> tuple[int, str] | None:
    """Return line and detached form of the only statement of a file that stores an attribute."""
    found = [
        one
        for one in sources.stores_of(file, last_name(name))
        if isinstance(getattr(one, "value", None), ast.Name | ast.Attribute | ast.Call)
    ]
    return (found[0].lineno, detached_store(found[0])) if len(found) == 1 else None


def detached_store(statement: ast.stmt | None) -> str:
    """Return an assignment whose value is detached, where it has one target."""
    if not isinstance(statement, ast.Assign) or len(sources.targets_of(statement)) != 1:
        return ""
    value = sources.text_of(statement.value)
    if not isinstance(statement.value, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        value = f"({value})"
    return f"{sources.text_of(statement.targets[0])} = {value}.detach()"


def appended(file: str, name: str) -> tuple[int, str] | None:
    """Return line and detached form of the only ``name.append(value)`` of a file."""
    tree = sources.tree_of(file)
    found = [
        node
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("append", "appendleft")
        and last_name(sources.text_of(node.func.value)) == last_name(name)
        and len(node.args) == 1
    ]
    if len(found) != 1 or not isinstance(found[0].args[0], ast.Name | ast.Attribute | ast.Call):
        return None
    text = sources.text_of(found[0])
    value = sources.text_of(found[0].args[0])
    return found[0].lineno, text.replace(f"({value})", f"({value}.detach())")


def with_detached(call: Place, name: str) -> tuple[int, str] | None:
    """Return line and new text of what computes a call's loss, with a variable detached in it."""
    loss = receiver(call)
    function = sources.function_at(call)
    statements = [
        one
        for one in (ast.walk(function) if function is not None else ())
        if isinstance(one, ast.Assign)
        and one.lineno <= call.line
        and loss in [sources.text_of(target) for target in sources.targets_of(one)]
    ]
    if not statements:
        return None
    last = max(statements, key=lambda one: one.lineno)
    text = sources.text_of(last.value)
    changed = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.(\[])", f"{name}.detach()", text)
    if changed == text:
        return None
    return last.lineno, f"{sources.text_of(last.targets[0])} = {changed}"
