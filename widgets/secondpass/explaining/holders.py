"""What in the person's program holds a tensor that has a graph, by name.

A variable is often bound anew by the time an error is raised. So names are collected at every
call and written, as text, into the metadata of the Node that made the tensor: there they are when
a later pass stops behind that Node, and they die with it.
"""

from __future__ import annotations

import ast
import functools
import gc
import itertools
import re
import sys
import types
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from types import FrameType
from typing import Any

import torch

from secondpass.reading.names import own_frames
from secondpass.reading.places import is_own

NAMES = "secondpass.names"

_DEEPEST = 5
_CACHE = type(functools.lru_cache(len))
_INSIDE = 64  # items of one container, half of them from each end
_NAMES_OF_NODE = 12
_TENSORS = 2_000
_PLAIN = (
    int,
    float,
    str,
    bytes,
    bool,
    complex,
    type(None),
    torch.optim.Optimizer,
    torch.dtype,
    types.BuiltinFunctionType,
    types.CodeType,
    types.FrameType,
)
_MODULE_OWN = frozenset(vars(torch.nn.Module())) - {"_parameters", "_buffers", "_modules"}
_NOT_OURS = re.compile(r"_*|_i*\d*|_i+|_[iod]h|_exit_code|__.*|In|Out|exit|quit|get_ipython")
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
    search = _Search(perf_counter() + seconds)
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
    search = _Search(perf_counter() + seconds)
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
    parts = () if outer is None else _parts(outer)
    return next((item for label, item in parts if label == key), None)


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
    if isinstance(value, kind):
        yield name, value
    elif depth < 2 and not isinstance(value, (*_PLAIN, torch.Tensor, types.FunctionType)):
        for key, item in _parts(value):
            yield from _within(item, f"{name}{key}", kind, depth + 1)


def hidden_names(node: Any) -> Iterator[tuple[str, int]]:
    """Yield (name, output) of what a Node made and a module keeps in a cache of its own.

    Slow, for every object is looked at: asked where no variable of the person's names it.
    """
    tensors = [one for one in gc.get_objects() if issubclass(type(one), torch.Tensor)]
    # Each grad_fn that is looked at makes the end of a deep graph more dangerous.
    kept = [one for one in tensors[-_TENSORS:] if _grad_fn(one) is node]
    del tensors
    modules = {id(vars(module)): name for name, module in list(sys.modules.items()) if module}
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
    search = _Search(perf_counter() + seconds, leaves=True)
    for _, variables in _scopes(frame):
        for name, value in variables.items():
            for tensor, inner, _ in search.inside(value, name):
                yield inner, tensor


def _scopes(frame: FrameType | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each own frame's variables once, the innermost first, and each module's."""
    seen: set[int] = set()
    for one in own_frames(frame):
        if one.f_code.co_flags & _OPTIMIZED:
            yield _function(one.f_code.co_qualname), _locals(one)
        if id(one.f_globals) not in seen:
            seen.add(id(one.f_globals))
            yield "<module>", _named(one.f_globals)


def _suspended() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the variables of the person's generators that wait to go on."""
    for one in gc.get_objects():
        prefix = _SUSPENDED.get(type(one))
        frame = None if prefix is None else getattr(one, f"{prefix}_frame")
        if frame is not None and is_own(frame.f_code.co_filename):
            yield _function(frame.f_code.co_qualname), _locals(frame)


def _locals(frame: FrameType) -> dict[str, Any]:
    local = frame.f_locals
    copy = _named(local)
    # Up to Python 3.12 the frame keeps this dict: left filled, it would keep a tensor alive that
    # the function has deleted. If the person holds it too (by locals()), it is theirs.
    if sys.version_info < (3, 13) and sys.getrefcount(local) <= 3:
        local.clear()
    return copy


def _named(variables: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in list(variables.items()) if not _NOT_OURS.fullmatch(name)}


def _function(name: str) -> str:
    return name.rpartition(".<locals>.<")[0] or name


class _Search:
    """Looks for tensors inside values, without running any of the person's code."""

    def __init__(self, until: float, leaves: bool = False) -> None:
        self.until = until
        self.late = False
        self._leaves = leaves
        self._seen: set[int] = set()
        self._count = 0

    def inside(
        self, value: Any, name: str, kind: str = "variable", depth: int = 0
    ) -> Iterator[tuple[torch.Tensor, str, str]]:
        """Yield (tensor, name, kind of what holds it) of what a value holds."""
        if isinstance(value, torch.Tensor):
            yield from self._tensor(value, name, kind)
            return
        if isinstance(value, _PLAIN) or depth >= _DEEPEST or id(value) in self._seen:
            return
        if type(value).__module__.startswith("secondpass."):  # ours: it holds no tensor
            return
        self._count += 1
        if self._count % 64 == 0 and perf_counter() > self.until:
            self.late = True
        if self.late:
            return
        self._seen.add(id(value))
        inner = _kind(value)
        if isinstance(value, types.FunctionType):  # its own variables: no prefix reaches them
            name, inner = "", "closure"
        for key, item in _parts(value):
            if type(item) is torch.nn.Parameter and not self._leaves:  # most of what there is
                grad = item.grad
                if grad is None or not grad.requires_grad:
                    continue
            if not isinstance(item, _PLAIN):
                yield from self.inside(item, f"{name}{key}", inner, depth + 1)

    def _tensor(
        self, value: torch.Tensor, name: str, kind: str
    ) -> Iterator[tuple[torch.Tensor, str, str]]:
        if self._leaves or value.requires_grad:
            yield value, name, kind
        if value.is_leaf and value.requires_grad and value.grad is not None:
            if self._leaves or value.grad.requires_grad:
                yield value.grad, f"{name}.grad", "object"


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object holds: ``.name`` or ``[key]``, and the thing."""
    kind = type(value)
    if kind is dict or isinstance(value, dict):
        keys = [key for key in _ends(list(dict.keys(value))) if type(key) in (str, int)]
        yield from ((f"[{key!r}]", dict.get(value, key)) for key in keys)
    elif isinstance(value, (list, tuple, deque)):
        plain = isinstance(value, deque)
        items = list(value) if plain else value
        places = _ends(range(len(items)))
        yield from ((f"[{place}]", items[place]) for place in places)
    elif isinstance(value, torch.nn.Module):
        for name, item in list(value.__dict__.items()):
            if name not in _MODULE_OWN and not name.startswith("_forward"):
                yield from _module_part(name, item)
    elif isinstance(value, types.FunctionType):
        yield from _closure(value)
    elif isinstance(value, types.ModuleType):
        if is_own(getattr(value, "__file__", None) or "<"):
            yield from ((f".{name}", item) for name, item in _named(vars(value)).items())
    elif isinstance(value, type):
        if is_own(getattr(sys.modules.get(value.__module__), "__file__", None) or "<"):
            yield from ((f".{name}", item) for name, item in _named(dict(vars(value))).items())
    elif isinstance(value, _CACHE):
        yield from (("", item) for item in _cached(value))
    elif isinstance(value, types.MethodType):
        yield "", value.__self__
    elif isinstance(value, functools.partial):
        yield from ((f".args[{place}]", item) for place, item in enumerate(value.args))
    else:
        inner = _dict_of(value)
        yield from ((f".{name}", item) for name, item in _ends(list(inner.items())))
        for slot in _slots(kind):  # type: ignore[arg-type]
            item = getattr(value, slot, None)
            if item is not None:
                yield f".{slot}", item


def _cached(function: Any) -> Iterator[Any]:
    """Yield what an lru_cache holds: its results, or the dict of them."""
    for item in gc.get_referents(function):
        if type(item) is dict and item is not function.__dict__:
            yield from _ends(list(item.values()))
        elif isinstance(item, (torch.Tensor, list, tuple)):
            yield item


def _module_part(name: str, item: Any) -> Iterator[tuple[str, Any]]:
    if name in ("_parameters", "_buffers", "_modules"):
        for key, inner in list(item.items()):
            yield (f"[{key}]" if key.isdigit() else f".{key}"), inner
    else:
        yield f".{name}", item


def _closure(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not filled yet
            continue


def _dict_of(value: Any) -> dict[str, Any]:
    try:
        inner = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return inner if type(inner) is dict else {}


@functools.lru_cache(maxsize=1024)
def _slots(kind: type) -> tuple[str, ...]:
    """Return the names of plain ``__slots__`` of a class written in Python."""
    if kind.__module__ == "builtins" or not hasattr(kind, "__slots__"):
        return ()
    names = [getattr(base, "__slots__", ()) for base in kind.__mro__]
    flat = [name for one in names for name in ((one,) if isinstance(one, str) else one)]
    return tuple(
        name for name in flat if isinstance(getattr(kind, name, None), types.MemberDescriptorType)
    )


def _ends(items: Any) -> Any:
    if len(items) <= _INSIDE:
        return items
    half = _INSIDE // 2
    return [*items[:half], *items[-half:]]


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


def _kind(value: Any) -> str:
    for kind in (tuple, list, dict, deque):
        if isinstance(value, kind):
            return kind.__name__
    return "object"
