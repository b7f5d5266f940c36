"""Pieces of the person's own code, read for advice; see `rewriting`."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterable

from secondpass.explaining import sources
from secondpass.reading.places import Place, place_at


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
    return parameters_of(sources.function_at(place))


def parameters_of(function: ast.AST | None) -> list[str]:
    """Return the parameters of a function."""
    arguments = getattr(function, "args", None)
    if not isinstance(arguments, ast.arguments):
        return []
    return [one.arg for one in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]


def receiver(place: Place | None) -> str:
    """Return the loss of a call as the person wrote it: ``loss`` for ``loss.backward()``."""
    return next(iter(receivers(place)), "")


def receivers(place: Place | None) -> list[str]:
    """Return the losses of all calls on a line, as the person wrote them."""
    tree = None if place is None else sources.tree_of(place.file)
    if place is None or tree is None:
        return []
    found = [
        (node, node.func.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "backward"
        and node.lineno <= place.line <= (node.end_lineno or 0)
    ]
    found.sort(key=lambda one: ((one[0].end_lineno or 0) - one[0].lineno, one[0].col_offset))
    texts = [sources.text_of(loss) for _, loss in found]
    return ["" if text.endswith("autograd") else text for text in texts]


def called(call: ast.AST) -> str:
    """Return the last name of the function that an expression calls; ``""`` where it calls none.

    Examples
    --------
    >>> called(ast.parse("torch.autograd.grad(y, x)", mode="eval").body)
    'grad'
    """
    function = call.func if isinstance(call, ast.Call) else None
    return str(getattr(function, "attr", None) or getattr(function, "id", ""))


def lines_within(place: Place, chains: Iterable[tuple[tuple[str, int], ...]]) -> set[int]:
    """Return the lines of the function around a place that are on some chains of lines."""
    function = sources.function_at(place)
    return {
        line
        for chain in chains
        for file, line in chain
        if file == place.file and sources.function_at(place_at(file, line, "")) is function
    }


def gives_gradient(place: Place | None) -> bool:
    """Say whether a call on a line is given the gradient to go on from: ``y.backward(v)``."""
    statement = None if place is None else sources.statement_at(place)
    for one in ast.walk(statement) if statement is not None else ():
        if isinstance(one, ast.Call) and called(one) in ("backward", "grad"):
            before = 2 if called(one) == "grad" else 1 if "autograd" in sources.text_of(one) else 0
            names = ("gradient", "grad_outputs", "grad_tensors", "inputs")
            given = {
                word.arg for word in one.keywords if called(one) != "grad" or word.arg != "inputs"
            }
            if len(one.args) > before or given & set(names):
                return True
    return False


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


def stores_into(statement: ast.stmt, name: str) -> bool:
    """Say whether a statement assigns to a variable or an item of it, or appends to it."""
    for target in sources.targets_of(statement):
        while isinstance(target, ast.Subscript):
            target = target.value
        if last_name(sources.text_of(target)) == last_name(name):
            return True
    call = getattr(statement, "value", None)
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("append", "appendleft", "extend", "add", "update", "insert")
        and last_name(sources.text_of(call.func.value)) == last_name(name)
    )


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


def makes_object(statement: ast.stmt | None) -> bool:
    """Say whether an assignment's value is an object that holds tensors: it cannot be detached."""
    value = getattr(statement, "value", None)
    function = value.func if isinstance(value, ast.Call) else None
    name = str(getattr(function, "attr", None) or getattr(function, "id", ""))
    return name[:1].isupper() or name == "partial"


def appended(file: str, name: str) -> tuple[int, str] | None:
    """Return line and detached form of the only ``name.append(value)`` of a file.

    Parameters
    ----------
    file : str
    name : str
        Of what was appended, as it is reached: for ``replay[3][1]`` the second part of a tuple
        that ``replay.append((state, target))`` stores is detached.
    """
    base = variable(name)
    tree = sources.tree_of(file)
    found = [
        node
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("append", "appendleft")
        and last_name(sources.text_of(node.func.value)) == last_name(base)
        and len(node.args) == 1
    ]
    if len(found) != 1:
        return None
    value = found[0].args[0]
    parts = re.findall(r"\[([^\]]*)\]", name[len(base) :])[1:]
    while parts and (inner := _part(value, parts[0])) is not None:
        value, parts = inner, parts[1:]
    if parts or not isinstance(value, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        return None
    new = ast.Call(ast.Attribute(value, "detach", ast.Load()), [], [])
    return found[0].lineno, sources.text_of(_Swap(value, new).visit(copy.deepcopy(found[0])))


class _Swap(ast.NodeTransformer):
    """Puts an expression in the place of the one at a position."""

    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self._at, self._new = (old.lineno, old.col_offset, old.end_col_offset), new

    def visit(self, node: ast.AST) -> ast.AST:
        here = (getattr(node, name, 0) for name in ("lineno", "col_offset", "end_col_offset"))
        return self._new if tuple(here) == self._at else self.generic_visit(node)


def _part(value: ast.expr, key: str) -> ast.expr | None:
    """Return an item of a tuple, list or dict that is written out."""
    if isinstance(value, ast.Tuple | ast.List) and key.isdigit() and int(key) < len(value.elts):
        return value.elts[int(key)]
    if isinstance(value, ast.Dict):
        for name, item in zip(value.keys, value.values, strict=True):
            if isinstance(name, ast.Constant) and repr(name.value) == key:
                return item
    return None


def leading_to(call: Place, lines: set[int]) -> list[ast.Assign]:
    """Return the assignments through which some lines of a function get into a call's loss.

    Parameters
    ----------
    call : Place
    lines : set of int
        Lines of the same function.

    Returns
    -------
    list of ast.Assign
        In their order, those on the lines included.
    """
    function = sources.function_at(call)
    statement = sources.statement_at(call)
    if function is None or statement is None:
        return []
    assigned = sorted(
        (one for one in ast.walk(function) if isinstance(one, ast.Assign)),
        key=lambda one: one.lineno,
    )
    assigned = [one for one in assigned if one.lineno < statement.lineno]
    wanted, found = _plain_names(statement), []
    for one in reversed(assigned):
        targets = {sources.text_of(target) for target in sources.targets_of(one)}
        if targets & wanted:
            wanted |= _plain_names(one.value)
            found.append(one)
    reached: set[str] = set()
    kept = []
    for one in reversed(found):
        is_on = any(one.lineno <= line <= (one.end_lineno or 0) for line in lines)
        if is_on or _plain_names(one.value) & reached:
            kept.append(one)
            reached |= {sources.text_of(target) for target in sources.targets_of(one)}
    return kept


def _plain_names(node: ast.AST) -> set[str]:
    return {
        sources.text_of(one)
        for one in ast.walk(node)
        if isinstance(one, ast.Name | ast.Attribute) and isinstance(one.ctx, ast.Load)
    }
