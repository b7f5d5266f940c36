"""Put marks into a program's syntax tree: calls that tell `lines` which line has just run.

A mark stands after every operation that may have made a Node and before the next one that stands
on another line; it carries the position of the operation that it follows. Nothing else of the
program changes: no name is added to it, and every line keeps its number.

=================================  =======================================================
the person's code                  becomes
=================================  =======================================================
``y = net(x)``                     ``y = net(x); mark()``
``return net(x)``                  ``return (net(x), mark())[0]``
``def f(x): ...``                  ``def f(x): enter(); ...``
``lambda x: x**2``                 ``lambda x: (enter(), x**2, mark())[1]``
``x.add_(1)``                      ``wrote(x.add_(1))``
``_foreach_add_(xs, 1)``           ``wrote(_foreach_add_(given(xs), 1))``
``except E: ...``                  ``except E: caught(); ...``
=================================  =======================================================
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from typing import TypeVar, cast

from secondpass.hearing.operations import (
    TESTED,
    counts,
    flat,
    in_order,
    is_text,
    is_writing,
    may_make,
    may_run,
    may_switch,
    path_of,
    used_reads,
    written_by,
)

MARK = "__secondpass_mark__"
ENTER = "__secondpass_enter__"
CAUGHT = "__secondpass_caught__"
WROTE = "__secondpass_wrote__"
WROTE_IN = "__secondpass_wrote_in__"
READ = "__secondpass_read__"
GIVEN = "__secondpass_given__"
SWITCHED = "__secondpass_switched__"
ALL = (MARK, ENTER, CAUGHT, WROTE, WROTE_IN, READ, GIVEN, SWITCHED)

DEEPEST = 200
"""Levels of a program's tree that are marked; each takes three of Python's frames or more."""

_Statement = ast.stmt
_Node = TypeVar("_Node", bound=ast.AST)
_FOR_AT_ITER = sys.version_info >= (3, 12)  # which line FOR_ITER belongs to

_IDLE = (ast.Pass, ast.Break, ast.Continue, ast.Global, ast.Nonlocal)


def _nothing(*values: object) -> None:
    pass


def _itself(value: object) -> object:
    return value


IDLE = {name: _itself if name in (WROTE, READ, GIVEN) else _nothing for name in ALL}
"""What the names stand for while nobody listens: code that carries marks still runs."""


def put_marks(tree: ast.Module, *, displayed: tuple[type[ast.stmt], ...] = ()) -> ast.Module:
    """Put marks into a module's tree, in place.

    Parameters
    ----------
    tree : ast.Module
    displayed : tuple of types
        In a notebook cell, the kinds of statement whose value is displayed when they stand last:
        nothing may follow them.

    Returns
    -------
    ast.Module
        The same tree; without marks where it is so deep that to put them in could fail halfway.

    Examples
    --------
    >>> print(ast.unparse(put_marks(ast.parse("y = net(x)"))))
    y = net(x)
    __secondpass_mark__()
    """
    return tree if _is_deep(tree) else _Marker().module(tree, displayed)


def _is_deep(tree: ast.AST) -> bool:
    level = [tree]
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in ast.iter_child_nodes(one)]
    return bool(level)


class _Marker(ast.NodeTransformer):
    def __init__(self) -> None:
        self.wrapped: dict[ast.AST, int] = {}  # operation -> the line that its mark names
        self.used: set[ast.AST] = set()  # reads of .grad whose value is used, not only shown

    # ---- statements

    def module(self, tree: ast.Module, displayed: tuple[type[ast.stmt], ...]) -> ast.Module:
        last = tree.body[-1] if tree.body and isinstance(tree.body[-1], displayed) else None
        tree.body = self.block(tree.body, docstring=True, last=last)
        return tree

    def block(
        self, body: list[_Statement], *, docstring: bool = False, last: _Statement | None = None
    ) -> list[_Statement]:
        """Mark the statements of a block."""
        marked: list[_Statement] = []
        for place, statement in enumerate(body):
            if docstring and place == 0 and is_text(statement):
                marked.append(statement)
            elif statement is last:
                marked.append(self.last_statement(statement))
            else:
                marked.extend(self.statement(statement))
        return marked

    def statement(self, statement: _Statement) -> Iterator[_Statement]:
        """Yield a statement with its marks."""
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from self.function(statement)
        elif isinstance(statement, ast.ClassDef):
            self.expressions(statement, ("decorator_list", "bases", "keywords"))
            statement.body = self.block(statement.body, docstring=True)
            yield statement
            yield self.mark(statement)
        elif isinstance(statement, ast.If | ast.While):
            if may_run(statement.test, TESTED):
                statement.test = self.header(statement.test)
            self.blocks(statement)
            yield statement
        elif isinstance(statement, ast.For | ast.AsyncFor):
            yield from self.for_loop(statement)
        elif isinstance(statement, ast.With | ast.AsyncWith):
            heads = [item.context_expr for item in statement.items]
            several = heads[0].lineno != heads[-1].end_lineno
            for item in statement.items:
                value = item.context_expr
                item.context_expr = self.header(value) if several else self.marked(value)
            self.blocks(statement)
            statement.body.insert(0, self.mark(statement))  # __enter__
            yield statement
            yield self.mark(statement)  # __exit__
        elif isinstance(statement, ast.Try | getattr(ast, "TryStar", ast.Try)):
            yield self.try_block(statement)
        elif isinstance(statement, ast.Match):
            statement.subject = self.header(statement.subject)
            for case in statement.cases:
                if case.guard is not None and may_run(case.guard, TESTED):
                    case.guard = self.header(case.guard)
                case.body = self.block(case.body)
            yield statement
        elif isinstance(statement, ast.Return):
            if statement.value is not None and may_run(statement.value):
                statement.value = self.header(statement.value)
            yield statement
        else:
            yield from self.simple(statement)

    def simple(self, statement: _Statement) -> Iterator[_Statement]:
        """Yield a simple statement, followed by its mark where it may have made a Node."""
        if isinstance(statement, _IDLE) or not may_make(statement):
            yield statement
            return
        line = self.split(statement, None)
        writes = list(self.writes(statement))
        switches = may_switch(statement)
        yield cast(ast.stmt, self.visit(statement))
        if isinstance(statement, ast.Raise):
            return  # never reached
        if writes:
            yield from writes
        else:
            yield self.mark(statement, line)
        if switches:
            yield self.expression(_call(SWITCHED), statement)

    def last_statement(self, statement: _Statement) -> _Statement:
        """Mark a cell's last statement inside; what it makes later is closed after the cell."""
        value = getattr(statement, "value", None)
        if value is not None:
            statement.value = self.header(value)  # type: ignore[attr-defined]
        return statement

    def function(self, statement: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[_Statement]:
        heads = [*statement.decorator_list, *statement.args.defaults]
        heads += [default for default in statement.args.kw_defaults if default is not None]
        self.expressions(statement, ("decorator_list", "args"))
        body = self.block(statement.body, docstring=True)
        first = 1 if is_text(statement.body[0]) else 0
        if any(may_make(one) for one in statement.body[first:]):
            at = statement.body[first]
            body.insert(first, self.expression(_call(ENTER), at, at.lineno))
        statement.body = body
        yield statement
        if any(may_run(head) for head in heads):
            yield self.mark(statement)

    def for_loop(self, statement: ast.For | ast.AsyncFor) -> Iterator[_Statement]:
        plain = counts(statement.iter)
        line = statement.iter.lineno if _FOR_AT_ITER else statement.lineno
        statement.iter = self.marked(statement.iter) if plain else self.header(statement.iter)
        self.blocks(statement)
        if not plain:
            statement.body.insert(0, self.mark(statement, line))  # what __next__ made
        yield statement
        if not plain:
            yield self.mark(statement, line)

    def try_block(self, statement: ast.Try) -> _Statement:
        for handler in statement.handlers:
            handler.body = self.block(handler.body)
            handler.body.insert(0, self.expression(_call(CAUGHT), handler))
        statement.body = self.block(statement.body)
        statement.orelse = self.block(statement.orelse)
        if statement.finalbody:
            first = statement.finalbody[0]
            statement.finalbody = self.block(statement.finalbody)
            statement.finalbody.insert(0, self.expression(_call(CAUGHT), first))
        return statement

    def blocks(self, statement: ast.AST) -> None:
        for name in ("body", "orelse"):
            inner = getattr(statement, name, None)
            if inner:
                setattr(statement, name, self.block(inner))

    def expressions(self, statement: ast.AST, fields: tuple[str, ...]) -> None:
        """Mark what is inside the headers of a definition."""
        for name in fields:
            value = getattr(statement, name)
            if isinstance(value, list):
                value[:] = [self.visit(one) for one in value]
            else:
                setattr(statement, name, self.visit(value))

    def header(self, value: ast.expr) -> ast.expr:
        """Mark an expression that is followed by no statement of its own."""
        if not may_run(value):
            return value
        line = self.split(value, None)
        return self.followed(self.visit(value), value, line)

    # ---- expressions

    def marked(self, value: ast.expr) -> ast.expr:
        """Mark the insides of an expression whose end another mark notes."""
        self.split(value, None)
        return cast(ast.expr, self.visit(value))

    def visit(self, node: ast.AST) -> ast.AST:
        """Mark an expression's insides, then itself where its line ends."""
        line = self.wrapped.get(node)
        used = node in self.used
        new = super().visit(node)
        if used:
            new = _at(_call(READ, new), node)
        if line is not None:
            new = self.followed(new, node, line)
        return cast(ast.AST, new)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not is_writing(node):
            return node
        written = written_by(node)
        if written is not None:
            given = _at(_call(GIVEN, written), written)
            if node.args and node.args[0] is written:
                node.args[0] = given
            else:
                node.func.value = given  # type: ignore[attr-defined]
        return _at(_call(WROTE, node), node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.expressions(node, ("args",))
        if may_run(node.body):
            line = self.split(node.body, None)
            body = self.visit(node.body)
            node.body = self.picked([_call(ENTER), body, _call(MARK)], 1, node.body, line)
        return node

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        element = node.elt
        self.generic_visit(node)
        if may_run(element):
            # Whoever asks for the next element may have made Nodes since the last one.
            node.elt = self.picked([_call(ENTER), node.elt, _call(MARK)], 1, element, None)
        return node

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp) -> ast.AST:
        element = node.elt
        self.generic_visit(node)
        if node.lineno != node.end_lineno and may_run(element):
            # What the iteration made belongs to the line on which the comprehension begins.
            first = _at(_call(MARK), node, node.lineno)
            node.elt = self.picked([first, node.elt, _call(MARK)], 1, element, None)
        return node

    visit_SetComp = visit_ListComp

    def visit_Yield(self, node: ast.Yield) -> ast.AST:
        if node.value is not None:
            node.value = self.header(node.value)
        return self.picked([node, _call(ENTER)], 0, node, None)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.AST:
        node.value = self.header(node.value)
        return self.followed(node, node, None)

    def visit_Await(self, node: ast.Await) -> ast.AST:
        node.value = self.header(node.value)
        return self.followed(node, node, None)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        return node  # positions inside an f-string are not to be trusted

    def split(self, node: ast.AST, end: int | None) -> int | None:
        """Choose the operations after which another line's begin; return the last one's line."""
        for read in used_reads(node):
            self.used.add(read)
        if getattr(node, "lineno", 0) == getattr(node, "end_lineno", 0):
            return None
        order = list(in_order(node))
        for place, (operation, line, always) in enumerate(order):
            following = order[place + 1][1] if place + 1 < len(order) else line
            if operation is not None and (always or following != line):
                self.wrapped[operation] = line
        return order[-1][1] if order else end

    # ---- what is put in

    def followed(self, value: ast.AST, at: ast.AST, line: int | None) -> ast.expr:
        return self.picked([value, _call(MARK)], 0, at, line)

    def picked(self, values: list[ast.AST], index: int, at: ast.AST, line: int | None) -> ast.expr:
        for value in values:
            if isinstance(value, ast.Call) and not hasattr(value, "lineno"):
                _at(value, at, line)
        pair = ast.Tuple(elts=values, ctx=ast.Load())  # type: ignore[arg-type]
        index_node = ast.Constant(value=index)
        return _at(ast.Subscript(value=pair, slice=index_node, ctx=ast.Load()), at)

    def mark(self, at: ast.AST, line: int | None = None) -> ast.Expr:
        return self.expression(_call(MARK), at, line)

    def expression(self, call: ast.Call, at: ast.AST, line: int | None = None) -> ast.Expr:
        return _at(ast.Expr(value=_at(call, at, line)), at, line)

    def writes(self, statement: _Statement) -> Iterator[_Statement]:
        """Yield what tells of the tensors that an assignment may have changed in place."""
        if isinstance(statement, ast.AugAssign):
            targets: list[ast.expr] = [statement.target]
        elif isinstance(statement, ast.Assign):
            targets = [one for target in statement.targets for one in flat(target)]
            targets = [one for one in targets if isinstance(one, ast.Subscript)]
        else:
            return
        for target in targets:
            while isinstance(target, ast.Subscript):
                target = target.value
            path = path_of(target)
            if path is None:
                continue
            name = ast.Name(id=path[0], ctx=ast.Load())
            if len(path) == 1:
                yield self.expression(_call(WROTE, name), statement, statement.lineno)
            else:
                rest = [ast.Constant(value=part) for part in path[1:]]
                yield self.expression(_call(WROTE_IN, name, *rest), statement, statement.lineno)


def _call(name: str, *values: ast.AST) -> ast.Call:
    function = ast.Name(id=name, ctx=ast.Load())
    return ast.Call(func=function, args=list(values), keywords=[])  # type: ignore[arg-type]


def _at(node: _Node, at: ast.AST, line: int | None = None) -> _Node:
    """Give a new node, and what is new inside it, the position of an old one."""
    for one in ast.walk(node):
        if hasattr(one, "lineno") or not isinstance(one, ast.expr | ast.stmt):
            continue
        one.lineno = line or at.lineno  # type: ignore[attr-defined]
        one.col_offset = at.col_offset if line in (None, at.lineno) else 0  # type: ignore[attr-defined]
        one.end_lineno = line or at.end_lineno  # type: ignore[attr-defined]
        one.end_col_offset = at.end_col_offset if line is None else one.col_offset  # type: ignore[attr-defined]
    return node
