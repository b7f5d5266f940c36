"""Pieces of the person's own code, read and rewritten for advice."""

from __future__ import annotations

import ast
import copy
import re
from typing import cast

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
    return parameters_of(sources.function_at(place))


def parameters_of(function: ast.AST | None) -> list[str]:
    """Return the parameters of a function."""
    arguments = getattr(function, "args", None)
    if not isinstance(arguments, ast.arguments):
        return []
    return [one.arg for one in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]


def receiver(place: Place | None) -> str:
    """Return the loss of a call as the person wrote it: ``loss`` for ``loss.backward()``."""
    tree = None if place is None else sources.tree_of(place.file)
    if place is None or tree is None:
        return ""
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and node.lineno <= place.line <= (node.end_lineno or 0)
        and getattr(node.func, "attr", "") == "backward"
    ]
    call = min(found, key=lambda one: (one.end_lineno or 0) - one.lineno, default=None)
    text = "" if call is None else sources.text_of(call.func.value)  # type: ignore[attr-defined]
    return "" if text.endswith("autograd") else text


def retained(place: Place | None) -> str:
    """Return a call's statement with ``retain_graph=True`` added."""
    return with_keyword(place, "retain_graph")


def with_keyword(place: Place | None, keyword: str) -> str:
    """Return a call's statement with ``retain_graph=True`` or ``create_graph=True`` added."""
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
            others = ("retain_graph", "create_graph") if keyword == "create_graph" else (keyword,)
            node.keywords = [one for one in node.keywords if one.arg not in others]
            node.keywords.append(ast.keyword(keyword, ast.Constant(True)))
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


def stacked(statement: ast.stmt | None) -> str:
    """Return a statement with ``torch.stack`` in place of ``torch.tensor``, and no plain numbers.

    Examples
    --------
    >>> stacked(ast.parse("a = torch.tensor([x.item() for x in xs]).sum()").body[0])
    'a = torch.stack([x for x in xs]).sum()'
    >>> stacked(ast.parse("a = torch.tensor(p.tolist(), dtype=torch.float)").body[0])
    'a = p'
    """
    if not isinstance(statement, ast.Assign | ast.AugAssign | ast.Return | ast.Expr):
        return ""
    return sources.text_of(_Stacked().visit(copy.deepcopy(statement)))


class _Stacked(ast.NodeTransformer):
    """Takes out what gives plain numbers, where tensors are made of them."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
        if name in ("tensor", "as_tensor") and node.args:
            given = node.args[0]
            new = _Tensors().visit(given)
            if new is not given and not isinstance(new, ast.List | ast.ListComp | ast.Tuple):
                return cast(ast.AST, new)
            return ast.Call(ast.parse("torch.stack", mode="eval").body, [new], [])
        return self.generic_visit(node)


class _Tensors(ast.NodeTransformer):
    """Takes out the calls that give plain numbers: ``x.item()``, ``float(x)``, ``np.array(xs)``."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
        if name in ("item", "tolist", "numpy", "detach") and isinstance(node.func, ast.Attribute):
            return node.func.value
        return node.args[0] if name in ("float", "array", "asarray") and node.args else node


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


def with_detached(call: Place, name: str) -> tuple[int, str, bool] | None:
    """Return the line that gets a variable into a call's loss, with the variable detached in it.

    Where the loss is computed from something that is computed from the variable, and others use
    that too, its computation is written into the loss's own.

    Returns
    -------
    tuple of (int, str, bool) or None
        The line's number, its new text, and whether a computation was written into it.
    """
    function = sources.function_at(call)
    if function is None:
        return None
    assigned: dict[str, ast.Assign] = {}
    for one in ast.walk(function):
        if isinstance(one, ast.Assign) and one.lineno <= call.line and len(one.targets) == 1:
            text = sources.text_of(one.targets[0])
            if text not in assigned or assigned[text].lineno < one.lineno:
                assigned[text] = one
    loss = assigned.get(receiver(call))
    return None if loss is None else _detached_in(loss, name, assigned, function, 0)


def _detached_in(
    statement: ast.Assign, name: str, assigned: dict[str, ast.Assign], function: ast.AST, deep: int
) -> tuple[int, str, bool] | None:
    text = sources.text_of(statement.value)
    changed = _replaced(text, name, f"{name}.detach()")
    target = sources.text_of(statement.targets[0])
    if changed != text:
        return statement.lineno, f"{target} = {changed}", False
    for inner, made in assigned.items() if deep < 3 else ():
        if inner == target or _replaced(text, inner, "") == text or made.lineno > statement.lineno:
            continue
        found = _detached_in(made, name, assigned, function, deep + 1)
        if found is None:
            continue
        if not _used_elsewhere(inner, function, (statement, made)):
            return found
        value = ast.unparse(ast.parse(found[1]).body[0].value)  # type: ignore[attr-defined]
        value = value if isinstance(made.value, ast.Call | ast.Name) else f"({value})"
        return statement.lineno, f"{target} = {_replaced(text, inner, value)}", True
    return None


def _replaced(text: str, name: str, by: str) -> str:
    return re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w(\[])(?!\.detach)", lambda _: by, text)


def _used_elsewhere(name: str, function: ast.AST, besides: tuple[ast.Assign, ...]) -> bool:
    inside = {id(one) for statement in besides for one in ast.walk(statement)}
    return any(
        isinstance(one, ast.Name | ast.Attribute)
        and id(one) not in inside
        and isinstance(one.ctx, ast.Load)
        and sources.text_of(one) == name
        for one in ast.walk(function)
    )


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
