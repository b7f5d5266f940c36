"""The person's source text around a place: its statement, what it assigns, what it calls."""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import tokenize
from collections.abc import Iterator

from secondpass.hearing.operations import flat
from secondpass.reading.places import Place, source_lines

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def tree_of(file: str) -> ast.Module | None:
    """Return the syntax tree of a file or cell, by the name that its places have."""
    text = "\n".join(source_lines(file))
    return _parsed(text) if text else None


@functools.lru_cache(maxsize=32)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # a cell with magics, a file that changed while it ran, one that is too deep


def statement_at(place: Place) -> ast.stmt | None:
    """Return the innermost statement that stands on a line."""
    tree = tree_of(place.file)
    best: ast.stmt | None = None
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.stmt) and node.lineno <= place.line <= (node.end_lineno or 0):
            if best is None or _size(node) <= _size(best):
                best = node
    return best


def function_at(place: Place) -> ast.AST | None:
    """Return the innermost function around a line, or the module."""
    tree = tree_of(place.file)
    best: ast.AST | None = tree
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = node.lineno < place.line or node.body[0].lineno == place.line
            if inside and place.line <= (node.end_lineno or 0):
                if isinstance(best, ast.Module) or _size(node) <= _size(best):
                    best = node
    return best


def function_name(place: Place) -> str:
    """Return the qualified name of the function around a line, as its code object has it."""
    tree = tree_of(place.file)
    wanted = function_at(place)
    todo = [("", one) for one in ast.iter_child_nodes(tree)] if tree is not None else []
    while todo:
        outer, node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{outer}{node.name}"
            if node is wanted:
                return name
            outer = f"{name}." if isinstance(node, ast.ClassDef) else f"{name}.<locals>."
        todo += [(outer, one) for one in ast.iter_child_nodes(node)]
    return "<module>"


def targets_of(statement: ast.stmt | None) -> list[ast.expr]:
    """Return what a statement assigns to, tuples taken apart."""
    if isinstance(statement, ast.Assign):
        return [one for target in statement.targets for one in flat(target)]
    if isinstance(statement, ast.AugAssign | ast.AnnAssign):
        return [statement.target]
    if isinstance(statement, ast.For | ast.AsyncFor):
        return list(flat(statement.target))
    return []


def stores_of(file: str, name: str) -> Iterator[ast.stmt]:
    """Yield the statements of a file that assign to a variable, attribute or item of a name."""
    tree = tree_of(file)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            if any(_base(target) == name for target in targets_of(node)):
                yield node


def without_comment(code: str) -> str:
    """Return a line of code without a comment at its end.

    Examples
    --------
    >>> without_comment("loss.backward()  # frees"), without_comment('print("#")')
    ('loss.backward()', 'print("#")')
    """
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.COMMENT:
                return code[: token.start[1]].rstrip()
    return code


def text_of(node: ast.AST) -> str:
    """Return an expression's source on one line.

    Examples
    --------
    >>> text_of(ast.parse("f( 'a  b',  c )"))
    "f('a  b', c)"
    """
    lines = ast.unparse(node).splitlines()
    return lines[0] if len(lines) == 1 else " ".join(" ".join(lines).split())


def _base(target: ast.expr) -> str | None:
    while isinstance(target, ast.Subscript):
        target = target.value
    return getattr(target, "attr", None) or getattr(target, "id", None)


def _size(node: ast.AST | None) -> int:
    return getattr(node, "end_lineno", 10**9) - getattr(node, "lineno", 0)
