"""What an operation in a syntax tree may do, when it does it, and on which line.

The rules by which `marks` chooses where a mark stands. They err on the side of a mark too many.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_OPERATIONS = (
    ast.Call,
    ast.BinOp,
    ast.UnaryOp,
    ast.Subscript,
    ast.Attribute,
    ast.Await,
    ast.Yield,
    ast.YieldFrom,
)
TESTED = tuple(kind for kind in _OPERATIONS if kind is not ast.Attribute)
SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)
_NOT_WRITING = frozenset({"_", "requires_grad_", "detach_", "share_memory_", "rename_"})
_OF_SEVERAL = ("_foreach_", "_fused_")
_SWITCHES = frozenset(
    {"set_grad_enabled", "_set_grad_enabled", "__enter__", "__exit__", "enter_context"}
)
_SUMMARIES = frozenset(
    {"norm", "item", "mean", "max", "min", "std", "var", "median", "tolist", "numpy", "shape"}
)
_SHOWING = frozenset({"print", "info", "debug", "warning", "log", "len", "repr", "str", "format"})


def in_order(node: ast.AST) -> Iterator[tuple[ast.AST | None, int, bool]]:
    """Yield (operation, line, whether to mark it in any case) in the order of evaluation."""
    always = isinstance(node, (ast.IfExp, ast.BoolOp, ast.comprehension, *SCOPES))
    for child in _children(node):
        if isinstance(child, ast.Lambda | ast.GeneratorExp):
            continue  # runs later; has marks of its own
        for operation, line, forced in in_order(child):
            yield operation, line, forced or always
    if isinstance(node, _OPERATIONS) and _is_read(node):
        yield node, _line_of(node), False
    elif isinstance(node, ast.AugAssign | ast.For):
        yield None, node.lineno, False
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        yield None, node.lineno, False


def _children(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Assign):
        yield node.value
        yield from node.targets
    elif isinstance(node, ast.AnnAssign):
        if node.value is not None:
            yield node.value
        yield node.target
    elif isinstance(node, ast.AugAssign):
        yield node.target
        yield node.value
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None:
                yield key
            yield value
    elif isinstance(node, _COMPREHENSIONS):
        yield from node.generators
        yield from (getattr(node, name) for name in ("elt", "key", "value") if hasattr(node, name))
    elif not isinstance(node, ast.JoinedStr):
        yield from ast.iter_child_nodes(node)


def _line_of(node: ast.AST) -> int:
    """Return the line that Python's own traceback names for an operation."""
    if isinstance(node, ast.Attribute):
        return node.end_lineno or node.lineno
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        stars = any(isinstance(one, ast.Starred) for one in node.args)
        stars = stars or any(one.arg is None for one in node.keywords)
        if not stars and len(node.args) + len(node.keywords) < 29:
            return node.func.end_lineno or node.lineno
    return node.lineno  # type: ignore[attr-defined, no-any-return]


def _is_read(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Load | None)


def is_text(statement: ast.stmt) -> bool:
    """Say whether a statement is a constant alone, as a docstring is."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def may_run(value: ast.AST, kinds: tuple[type[ast.AST], ...] = _OPERATIONS) -> bool:
    """Say whether evaluating an expression may make a Node or run code of the person's."""
    return any(isinstance(one, kinds) and not _is_number(one) for one in ast.walk(value))


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)


def may_make(statement: ast.stmt) -> bool:
    """Say whether a simple statement may make a Node."""
    if isinstance(statement, ast.Import | ast.ImportFrom | ast.Delete):
        return False
    return isinstance(statement, ast.AugAssign) or may_run(statement)


def counts(value: ast.expr) -> bool:
    """Say whether a loop runs over plain numbers: ``range(...)``."""
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id == "range"
        and not any(may_run(one) for one in value.args)
    )


def is_writing(call: ast.Call) -> bool:
    """Say whether a call may write into a tensor: ``x.add_(1)``, ``init.zeros_(w)``, ``out=``."""
    name = _name_of(call.func)
    if name.endswith("_") and not name.endswith("__") and name not in _NOT_WRITING:
        return True
    return name == "load_state_dict" or any(word.arg == "out" for word in call.keywords)


def written_by(call: ast.Call) -> ast.expr | None:
    """Return what a call writes into that does not hand it back: a list's tensors, a module's."""
    name = _name_of(call.func)
    if name == "load_state_dict" and isinstance(call.func, ast.Attribute):
        return call.func.value
    several = name.startswith(_OF_SEVERAL) and bool(call.args)
    return call.args[0] if several and not isinstance(call.args[0], ast.Starred) else None


def may_switch(statement: ast.stmt) -> bool:
    """Say whether a statement may switch gradients off for what follows it."""
    if not isinstance(statement, ast.Expr | ast.Assign):
        return False
    return any(
        isinstance(one, ast.Call)
        and (getattr(one.func, "attr", None) or getattr(one.func, "id", None)) in _SWITCHES
        for one in ast.walk(statement.value)
    )


def flat(target: ast.expr) -> Iterator[ast.expr]:
    """Yield what an assignment's target consists of, tuples taken apart."""
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from flat(one)
    elif isinstance(target, ast.Starred):
        yield from flat(target.value)
    else:
        yield target


def path_of(target: ast.expr) -> list[str] | None:
    """Return ``["self", "memory"]`` for ``self.memory``; None for anything but names."""
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, ast.Attribute):
        path = path_of(target.value)
        return None if path is None else [*path, target.attr]
    return None


def used_reads(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the reads of a ``.grad`` whose value is used, not only looked at."""
    if isinstance(node, ast.Compare | ast.JoinedStr | ast.Assert | ast.Lambda):
        return
    if isinstance(node, ast.Call) and _name_of(node.func) in _SHOWING | _SUMMARIES:
        return
    if isinstance(node, ast.Attribute):
        if node.attr in _SUMMARIES or node.attr.endswith("_"):
            return
        if node.attr == "grad" and isinstance(node.ctx, ast.Load):
            yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            continue
        if isinstance(node, ast.Call) and child is node.func and _name_of(child) == "grad":
            continue  # torch.autograd.grad(…) is no reading of a .grad
        yield from used_reads(child)


def _name_of(function: ast.expr) -> str:
    return str(getattr(function, "attr", None) or getattr(function, "id", ""))
