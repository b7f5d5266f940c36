"""The person's own statements, rewritten for advice: what is proposed is code to be pasted."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterable
from typing import Any, cast

import torch

from secondpass.explaining import sources
from secondpass.explaining.snippets import called, receiver
from secondpass.reading.places import Place


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
        if isinstance(node, ast.Call) and called(node) in ("backward", "grad"):
            _set_keyword(node, keyword)
            text = "; ".join(ast.unparse(one) for one in tree.body)
            return re.sub(r"^\((\w+),\) =", r"\1, =", text)
    return ""


_GIVEN = {
    "loss.backward": ("gradient", "retain_graph", "create_graph"),
    "autograd.backward": ("tensors", "grad_tensors", "retain_graph", "create_graph"),
    "grad": ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph"),
}
"""What is given by position to each way of running a pass."""


def _set_keyword(call: ast.Call, keyword: str) -> None:
    """Have a call given ``keyword=True``, by position where it is given so."""
    function = sources.text_of(call.func)
    kind = "loss.backward" if function.endswith("backward") else "grad"
    kind = "autograd.backward" if function.endswith("autograd.backward") else kind
    by_position = _GIVEN[kind][: len(call.args)]
    # create_graph keeps the graph too, unless it is told not to.
    others = ("retain_graph", "create_graph") if keyword == "create_graph" else (keyword,)
    call.keywords = [one for one in call.keywords if one.arg not in others]
    for place, name in enumerate(by_position):
        if name in others:
            call.args[place] = ast.Constant(True)
    if keyword not in by_position:
        call.keywords.append(ast.keyword(keyword, ast.Constant(True)))


def in_block(place: Place | None, head: str) -> str:
    """Return a line's statement in a block of its own, where that can be written on one line."""
    text = "" if place is None else sources.without_comment(place.code)
    statement = None if place is None else sources.statement_at(place)
    if statement is not None and statement.lineno != statement.end_lineno:
        text = sources.text_of(statement)
    try:
        simple = not any(hasattr(one, "body") for one in ast.parse(text).body)
    except SyntaxError:
        return ""
    return f"{head} {text}" if simple and text else ""


_FUNCTIONS = ("torch", "F", "functional", "nn.functional", "torch.nn.functional")
_FILLED = {"zero": "zeros_like", "fill": "full_like"}  # what no tensor's own method makes anew


def out_of_place(statement: ast.stmt | None) -> str:
    """Return a statement that does the same without changing a tensor, where there is one.

    Examples
    --------
    >>> out_of_place(ast.parse("y += 1").body[0]), out_of_place(ast.parse("y.add_(1)").body[0])
    ('y = y + 1', 'y = y.add(1)')
    >>> out_of_place(ast.parse("F.relu_(y)").body[0]), out_of_place(ast.parse("y.zero_()").body[0])
    ('y = F.relu(y)', 'y = torch.zeros_like(y)')
    >>> out_of_place(ast.parse("nn.init.normal_(y)").body[0])
    ''
    """
    if isinstance(statement, ast.AugAssign) and not isinstance(statement.target, ast.Subscript):
        target = sources.text_of(statement.target)
        plain = ast.BinOp(left=statement.target, op=statement.op, right=statement.value)
        return f"{target} = {sources.text_of(plain)}"
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.Expr) and isinstance(value, ast.Call):
        function = value.func
        if isinstance(function, ast.Attribute) and function.attr.endswith("_"):
            name, changed, given = function.attr.rstrip("_"), function.value, value.args
            new: ast.expr = ast.Attribute(changed, name, ast.Load())
            if sources.text_of(changed) in _FUNCTIONS:
                changed = given[0] if given else changed
            elif name in _FILLED:
                new = ast.parse(f"torch.{_FILLED[name]}", mode="eval").body
                given = [changed, *given]
            elif not hasattr(torch.Tensor, name):
                return ""
            if isinstance(changed, ast.Name | ast.Attribute | ast.Subscript):
                call = ast.Call(new, given, value.keywords)
                return f"{sources.text_of(changed)} = {sources.text_of(call)}"
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


Change = Callable[[Any], ast.expr | None]
"""Gives what is to stand in the place of an expression, None where that is not known."""


def renamed_call(statement: ast.stmt | None, call: ast.Call, name: str) -> str:
    """Return a statement in which another method of the same thing is called."""

    def change(node: Any) -> ast.expr:
        method = ast.Attribute(node.func.value, name, ast.Load())
        return ast.Call(method, node.args, node.keywords)

    return replaced(statement, [(call, change)])


def replaced(statement: ast.stmt | None, changes: Iterable[tuple[ast.expr, Change]]) -> str:
    """Return a simple statement on one line with expressions in it changed, one after the other."""
    if statement is None or hasattr(statement, "body"):
        return ""
    new: ast.AST = copy.deepcopy(statement)
    for old, change in changes:
        swap = _Changed(old, change)
        new = swap.visit(new)
        if not swap.is_done:
            return ""
    return sources.text_of(new)


class _Changed(ast.NodeTransformer):
    """Changes the expression at a position."""

    def __init__(self, old: ast.expr, change: Change) -> None:
        self._at, self._change, self.is_done = _position(old), change, False

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Call) and _position(node) == self._at:
            new = self._change(node)
            self.is_done = new is not None
            return node if new is None else new
        return self.generic_visit(node)


def _position(node: ast.expr) -> tuple[int | None, ...]:
    names = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return tuple(getattr(node, name, None) for name in names)  # what is new has none


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
    for loss in variables_in(receiver(call)):  # ``scaler.scale(loss).backward()`` has it inside
        if loss in assigned:
            found = _detached_in(assigned[loss], name, assigned, function, 0)
            if found is not None:
                return found
    return None


def all_detached(call: Place, names: list[str]) -> tuple[int, str, bool] | None:
    """Return the same for several variables: those that the line has are all detached in it."""
    found = None
    for name in names:
        found = with_detached(call, name)
        if found is not None:
            break
    if found is None:
        return None
    line, code, inlined = found
    target, _, _ = code.partition(" = ")
    for name in names:
        value = ast.parse(code.removeprefix(f"{target} = "), mode="eval").body
        changed = _with(value, name, f"{name}.detach()")
        code = f"{target} = {changed}" if changed else code
    return line, code, inlined


def variables_in(expression: str) -> list[str]:
    """Return an expression and the variables in it, as they are written."""
    try:
        tree = ast.parse(expression, mode="eval")
    except SyntaxError:
        return []
    inner = [one for one in ast.walk(tree) if isinstance(one, ast.Name | ast.Attribute)]
    return [expression, *(sources.text_of(one) for one in inner)]


def _detached_in(
    statement: ast.Assign, name: str, assigned: dict[str, ast.Assign], function: ast.AST, deep: int
) -> tuple[int, str, bool] | None:
    target = sources.text_of(statement.targets[0])
    changed = _with(statement.value, name, f"{name}.detach()")
    if changed:
        return statement.lineno, f"{target} = {changed}", False
    for inner, made in assigned.items() if deep < 3 else ():
        if inner == target or made.lineno > statement.lineno:
            continue
        if not _with(statement.value, inner, inner):
            continue
        found = _detached_in(made, name, assigned, function, deep + 1)
        if found is None:
            continue
        if not _used_elsewhere(inner, function, (statement, made)):
            return found
        value = ast.unparse(ast.parse(found[1]).body[0].value)  # type: ignore[attr-defined]
        return statement.lineno, f"{target} = {_with(statement.value, inner, value)}", True
    return None


def _with(expression: ast.expr, name: str, by: str) -> str:
    """Return an expression with another one in the place of a variable; ``""`` if it has it not.

    Examples
    --------
    >>> _with(ast.parse("net(fake=fake, key='fake')", mode="eval").body, "fake", "fake.detach()")
    "net(fake=fake.detach(), key='fake')"
    >>> _with(ast.parse("fake(x) + fake[0] + fake.detach()", mode="eval").body, "fake", "y")
    ''
    """
    try:
        replace = _Replace(name, ast.parse(by, mode="eval").body)
    except SyntaxError:  # a name that nobody can write, of what a cache holds
        return ""
    changed = replace.visit(copy.deepcopy(expression))
    return sources.text_of(changed) if replace.found else ""


class _Replace(ast.NodeTransformer):
    """Puts an expression in the place of a variable that is read whole, and not detached yet."""

    def __init__(self, name: str, by: ast.expr) -> None:
        self._name, self._by, self.found = name, by, False
        self._kept: list[ast.AST] = []

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.Call):
            self._kept.append(node.func)
        elif isinstance(node, ast.Subscript):
            self._kept.append(node.value)
        elif isinstance(node, ast.Attribute) and node.attr == "detach":
            self._kept.append(node.value)
        is_read = isinstance(getattr(node, "ctx", None), ast.Load)
        if is_read and all(one is not node for one in self._kept):
            if sources.text_of(node) == self._name:
                self.found = True
                return copy.deepcopy(self._by)
        return self.generic_visit(node)


def _used_elsewhere(name: str, function: ast.AST, besides: tuple[ast.Assign, ...]) -> bool:
    inside = {id(one) for statement in besides for one in ast.walk(statement)}
    return any(
        isinstance(one, ast.Name | ast.Attribute)
        and id(one) not in inside
        and isinstance(one.ctx, ast.Load)
        and sources.text_of(one) == name
        for one in ast.walk(function)
    )
