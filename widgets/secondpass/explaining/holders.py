"""What in the person's program holds a tensor that has a graph, by name.

A variable is often bound anew by the time an error is raised. So names are collected at every
call and written, as text, into the metadata of the Node that made the tensor: there they are when
a later pass stops behind that Node, and they die with it.
"""

from __future__ import annotations

import ast
import gc
import itertools
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from types import FrameType
from typing import Any

import torch

from secondpass.explaining.contents import PLAIN, Search, is_a, named, parts
from secondpass.reading.names import locals_of, own_frames
from secondpass.reading.places import is_own
from secondpass.reading.unheard import own_attributes

NAMES = "secondpass.names"

_NAMES_OF_NODE = 12
_TENSORS = 2_000
_SUSPENDED = {types.GeneratorType: "gi", types.AsyncGeneratorType: "ag", types.CoroutineType: "cr"}
_OPTIMIZED = 0x1  # CO_OPTIMIZED: the code of a function


@dataclass(frozen=True)
class Held:
    """A name of a tensor.

    Attributes
    ----------
    name : str
        As the person could write it: ``hidden[0]``, ``net.1.volt``, ``protos.centre[0]``.
    where : str
        The function whose variable it starts from.
    output : int
        Which output of its Node the tensor is.
    kind : str
        What holds it: ``variable``, ``tuple``, ``list``, ``dict``, ``deque``, ``closure``,
        ``object``, ``library``.
    """

    name: str
    where: str
    output: int
    kind: str


def collect(
    frame: FrameType | None, seconds: float, into: dict[Any, list[Held]] | None = None
) -> bool:
    """Write the names of the tensors that the running code holds into their Nodes.

    Parameters
    ----------
    frame : FrameType
        Where to begin; frames that called it follow.
    seconds : float
        Stop after that long.
    into : dict from torch.autograd.graph.Node to list of Held, optional
        Where to write instead.

    Returns
    -------
    bool
        Whether everything was looked at.
    """
    search = Search(perf_counter() + seconds)
    for where, variables in _scopes(frame):
        for name, value in variables.items():
            for tensor, inner, kind in search.inside(value, name, "variable"):
                _note(tensor, Held(inner, where, _output(tensor), kind), into)
            if search.late:
                return False
    return True


def collect_suspended(seconds: float, into: dict[Any, list[Held]]) -> None:
    """Write down the names that the person's suspended generators hold.

    Slow, for every object is looked at: asked where a call failed.
    """
    search = Search(perf_counter() + seconds)
    for where, variables in _suspended():
        for name, value in variables.items():
            for tensor, inner, kind in search.inside(value, name, "variable"):
                _note(tensor, Held(inner, where, _output(tensor), kind), into)


def value_of(frame: FrameType | None, name: str, where: str) -> Any:
    """Return what a name of `collect`'s holds now; None where it cannot be had."""
    try:
        expression = ast.parse(name, mode="eval").body
    except SyntaxError:
        return None
    for scope, variables in itertools.chain(_scopes(frame), _suspended()):
        if scope == where:
            found = _value(expression, variables)
            if found is not None:
                return found
    return None


def _value(expression: ast.expr, variables: dict[str, Any]) -> Any:
    if isinstance(expression, ast.Name):
        return variables.get(expression.id)
    if isinstance(expression, ast.Attribute):
        base, key = expression.value, f".{expression.attr}"
    elif isinstance(expression, ast.Subscript) and isinstance(expression.slice, ast.Constant):
        base, key = expression.value, f"[{expression.slice.value!r}]"
    else:
        return None
    outer = _value(base, variables)
    inner = () if outer is None else parts(outer)
    return next((item for label, item in inner if label == key), None)


def names_on(node: Any) -> tuple[Held, ...]:
    """Return the names that were collected of what a Node made."""
    return tuple(node.metadata.get(NAMES, ()))


def objects_of(frame: FrameType | None, kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the objects of a type that the running code holds, with their names."""
    seen: set[int] = set()
    for _, variables in _scopes(frame):
        for name, value in variables.items():
            for label, item in _within(value, name, kind, 0):
                if id(item) not in seen:
                    seen.add(id(item))
                    yield label, item


def _within(value: Any, name: str, kind: type, depth: int) -> Iterator[tuple[str, Any]]:
    if is_a(value, kind):
        yield name, value
    elif depth < 2 and not is_a(value, (*PLAIN, torch.Tensor, types.FunctionType)):
        for key, item in parts(value):
            yield from _within(item, f"{name}{key}", kind, depth + 1)


def hidden_names(node: Any) -> Iterator[tuple[str, int]]:
    """Yield (name, output) of what a Node made and a module keeps in a cache of its own.

    Slow, for every object is looked at: asked where no variable of the person's names it.
    """
    tensors = [one for one in gc.get_objects() if issubclass(type(one), torch.Tensor)]
    # Each grad_fn that is looked at makes the end of a deep graph more dangerous.
    kept = [one for one in tensors[-_TENSORS:] if _grad_fn(one) is node]
    del tensors
    modules = {
        id(own_attributes(module)): name
        for name, module in list(sys.modules.items())
        if is_a(module, types.ModuleType)
    }
    for tensor in kept:
        for store in gc.get_referrers(tensor):
            if type(store) not in (dict, list, tuple):
                continue
            for outer in (store, *gc.get_referrers(store)):
                module = modules.get(id(outer))
                if module is None or type(outer) is not dict:
                    continue
                for name, value in list(outer.items()):
                    if value is store or value is tensor:
                        yield f"{module.rpartition('.')[2]}.{name}", _output(tensor)


def tensors_of(frame: FrameType | None, seconds: float = 0.2) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield all tensors that the running code holds, with their names, leaves included."""
    search = Search(perf_counter() + seconds, leaves=True)
    for _, variables in _scopes(frame):
        for name, value in variables.items():
            for tensor, inner, _ in search.inside(value, name):
                yield inner, tensor


def _scopes(frame: FrameType | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each own frame's variables once, the innermost first, and each module's."""
    seen: set[int] = set()
    for one in own_frames(frame):
        if one.f_code.co_flags & _OPTIMIZED:
            yield _function(one.f_code.co_qualname), named(locals_of(one))
        if id(one.f_globals) not in seen:
            seen.add(id(one.f_globals))
            yield "<module>", named(one.f_globals)


def _suspended() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the variables of the person's generators that wait to go on."""
    for one in gc.get_objects():
        prefix = _SUSPENDED.get(type(one))
        frame = None if prefix is None else getattr(one, f"{prefix}_frame")
        if frame is not None and is_own(frame.f_code.co_filename):
            yield _function(frame.f_code.co_qualname), named(locals_of(frame))


def _function(name: str) -> str:
    return name.rpartition(".<locals>.<")[0] or name


def _note(tensor: torch.Tensor, held: Held, into: dict[Any, list[Held]] | None) -> None:
    node = _grad_fn(tensor)
    if node is None:
        return
    known = node.metadata.setdefault(NAMES, []) if into is None else into.setdefault(node, [])
    if held not in known and len(known) < _NAMES_OF_NODE:
        known.append(held)


def _grad_fn(tensor: torch.Tensor) -> Any:
    """Return a tensor's grad_fn, None where asking for it would make a new Node."""
    if (tensor._is_view() and tensor._version > 0) or tensor.is_leaf:  # is_leaf asks for it too
        return None
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def _output(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.output_nr)
    except RuntimeError:
        return 0
