"""Read in the person's source how a variable is used: what a line reads, what a round sets anew."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from secondpass.explaining import sources
from secondpass.reading.places import Place

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_DEEPEST = 4


def names_read(places: Iterable[Place]) -> set[str]:
    """Return the last names of what some lines read: a statement, and the lines that called it.

    A variable that the innermost line reads is followed to what it was made from:
    ``h = self.memory[key]`` above ``cell(x, h)`` makes that line a reader of ``memory``.
    """
    found: set[str] = set()
    for number, place in enumerate(places):
        statement = sources.statement_at(place)
        if statement is None:
            continue
        read = _read_in(statement)
        found |= read
        if number == 0:
            _follow(read, sources.function_at(place), place.line, found, 0)
    return found


def _follow(
    names: set[str], function: ast.AST | None, line: int, into: set[str], deep: int
) -> None:
    if function is None or deep >= _DEEPEST:
        return
    for statement in own_statements(function):
        targets = {getattr(one, "id", None) for one in sources.targets_of(statement)}
        if statement.lineno <= line and targets & names:
            new = _read_in(statement) - into
            into |= new
            if new:
                _follow(new, function, line, into, deep + 1)


def is_asked_for(file: str, name: str) -> bool:
    """Say whether a file asks ``autograd.grad`` for the gradient of a variable.

    In its own function, or in one that takes it as an argument.
    """
    tree = sources.tree_of(file)
    nodes = list(ast.walk(tree)) if tree is not None else []
    calls = [one for one in nodes if isinstance(one, ast.Call)]
    if any(name in names_in(one) for call in calls for one in _inputs_of(call)):
        return True
    for function in (one for one in nodes if isinstance(one, ast.FunctionDef)):
        inner = (one for one in ast.walk(function) if isinstance(one, ast.Call))
        asked = {inside for call in inner for one in _inputs_of(call) for inside in names_in(one)}
        parameters = [one.arg for one in function.args.args]
        for call in calls:
            if _called(call) == function.name:
                given = {word.arg: word.value for word in call.keywords}
                given |= dict(zip(parameters, call.args, strict=False))
                if any(name in names_in(one) for key, one in given.items() if key in asked):
                    return True
    return False


def _inputs_of(call: ast.Call) -> list[ast.expr]:
    """Return what an ``autograd.grad`` call is to give the gradients of."""
    if _called(call) != "grad":
        return []
    return [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "inputs")]


def _called(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", None) or getattr(call.func, "id", ""))


def names_in(expression: ast.AST) -> set[str]:
    """Return the last names of all that an expression reads."""
    return {
        one.id if isinstance(one, ast.Name) else one.attr
        for one in ast.walk(expression)
        if isinstance(one, ast.Name | ast.Attribute) and isinstance(one.ctx, ast.Load)
    }


def _read_in(statement: ast.stmt) -> set[str]:
    """Return the last names of all that a statement's own expressions read."""
    found = {name for one in _expressions(statement) for name in names_in(one)}
    if isinstance(statement, ast.AugAssign):
        found |= names_in(ast.parse(ast.unparse(statement.target), mode="eval"))
    return found


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield a statement's expressions without those of the statements inside it."""
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield child


def own_statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield a function's own statements, not those of functions inside it."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, (*_DEFINITIONS, ast.Lambda)):
            continue
        if isinstance(child, ast.stmt):
            yield child
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from own_statements(child)


def loops_around(place: Place) -> list[ast.For | ast.AsyncFor | ast.While]:
    """Return the loops around a line within its function, the innermost first."""
    function = sources.function_at(place)
    found = [
        one
        for one in (own_statements(function) if function is not None else ())
        if isinstance(one, _LOOPS)
        and one.body[0].lineno <= place.line <= (one.body[-1].end_lineno or 0)
    ]
    return sorted(found, key=lambda one: one.lineno, reverse=True)


def yields_at(place: Place) -> ast.stmt | None:
    """Return the statement with which the generator around a line hands out a round's result."""
    function = sources.function_at(place)
    if function is None or isinstance(function, ast.Module):
        return None
    found = [
        one
        for one in own_statements(function)
        for expression in _expressions(one)
        if any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in ast.walk(expression))
    ]
    later = [one for one in found if one.lineno >= place.line]
    return next(iter(later or found[-1:]), None)


def is_set_anew(name: str, place: Place) -> bool:
    """Say whether every round through a line sets a plain variable before it is read.

    Such a variable carries nothing from one round to the next. ``place`` is where the function
    that has the variable stands.
    """
    function = sources.function_at(place)
    if function is None or not name.isidentifier():
        return False
    statements = list(own_statements(function))
    if any(isinstance(one, ast.Global | ast.Nonlocal) and name in one.names for one in statements):
        return False
    loops = loops_around(place)
    if loops:
        return all(_sets_first(loop, name) for loop in loops)
    # A function that is entered anew in every round has new variables; a generator goes on.
    return not isinstance(function, ast.Module) and yields_at(place) is None


def _sets_first(loop: ast.For | ast.AsyncFor | ast.While, name: str) -> bool:
    if isinstance(loop, ast.While):
        if _reads(loop.test, name):
            return False
    elif name in _names(loop.target):
        return True
    return _first(loop.body, name) == "set"


def _first(body: list[ast.stmt], name: str) -> str:
    """Return whether a block first reads or sets a variable; ``""`` where it may do neither."""
    for statement in body:
        found = _first_in(statement, name)
        if found:
            return found
    return ""


def _first_in(statement: ast.stmt, name: str) -> str:
    if isinstance(statement, _DEFINITIONS):
        return ""
    targets = sources.targets_of(statement)
    is_set = any(getattr(one, "id", None) == name for one in targets)
    if isinstance(statement, ast.AugAssign) and is_set:
        return "read"
    if any(_reads(one, name) for one in _expressions(statement)):
        return "read"
    if isinstance(statement, ast.With | ast.AsyncWith):
        bound = [item.optional_vars for item in statement.items if item.optional_vars is not None]
        return "set" if any(name in _names(one) for one in bound) else _first(statement.body, name)
    if isinstance(statement, ast.For | ast.AsyncFor):
        return "" if is_set else _perhaps(_first(statement.body, name))
    if isinstance(statement, ast.While):
        return _perhaps(_first(statement.body, name))
    if isinstance(statement, ast.If):
        branches = {_first(statement.body, name), _first(statement.orelse, name)}
        return "read" if "read" in branches else "set" if branches == {"set"} else ""
    if isinstance(statement, ast.Try):
        return _first([*statement.body, *statement.orelse], name)
    return "set" if is_set else ""


def _perhaps(found: str) -> str:
    return found if found == "read" else ""  # a loop may not run at all


def _reads(expression: ast.AST, name: str) -> bool:
    return any(
        isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load)
        for one in ast.walk(expression)
    )


def _names(target: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}
