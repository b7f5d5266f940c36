"""What an object of the person's holds: its items and attributes, read without running its code."""

from __future__ import annotations

import contextlib
import functools
import gc
import re
import sys
import types
from collections import deque
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import torch

from secondpass.reading.places import is_own
from secondpass.reading.unheard import own_attributes

_DEEPEST = 5
_CACHE = type(functools.lru_cache(len))
_INSIDE = 64  # items of one container, half of them from each end
PLAIN = (
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
"""What holds no tensor that could be carried over, or is another's to look into."""

_MODULE_OWN = frozenset(vars(torch.nn.Module())) - {"_parameters", "_buffers", "_modules"}
_NOT_OURS = re.compile(r"_*|_i*\d*|_i+|_[iod]h|_exit_code|__.*|In|Out|exit|quit|get_ipython")


def named(variables: dict[str, Any]) -> dict[str, Any]:
    """Return variables without those of Python's and IPython's own."""
    return {
        name: value
        for name, value in list(variables.items())
        if isinstance(name, str) and not _NOT_OURS.fullmatch(name)  # globals may have other keys
    }


class Search:
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
        if is_a(value, torch.Tensor):
            yield from self._tensor(value, name, kind)
            return
        if is_a(value, PLAIN) or depth >= _DEEPEST or id(value) in self._seen:
            return
        if str(type(value).__module__).startswith("secondpass."):  # ours: it holds no tensor
            return
        self._count += 1
        if self._count % 64 == 0 and perf_counter() > self.until:
            self.late = True
        if self.late:
            return
        self._seen.add(id(value))
        inner = _kind(value)
        if is_a(value, (types.FunctionType, functools.partial)):
            inner = "closure"
        for key, item in parts(value):
            if type(item) is torch.nn.Parameter and not self._leaves:  # most of what there is
                grad = item.grad
                if grad is None or not grad.requires_grad:
                    continue
            if not is_a(item, PLAIN):
                # A function's own variables: no prefix reaches them.
                whole = key if key.isidentifier() else f"{name}{key}"
                yield from self.inside(item, whole, inner, depth + 1)

    def _tensor(
        self, value: torch.Tensor, name: str, kind: str
    ) -> Iterator[tuple[torch.Tensor, str, str]]:
        if self._leaves or value.requires_grad:
            yield value, name, kind
        if value.is_leaf and value.requires_grad and value.grad is not None:
            if self._leaves or value.grad.requires_grad:
                yield value.grad, f"{name}.grad", "object"


def is_a(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """Say whether a value's own type is one of some, or derived from one.

    ``isinstance`` would ask the value for its ``__class__`` too, which may run the person's code:
    a weak proxy raises there when what it stands for is gone.
    """
    return issubclass(type(value), kinds)


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object holds: ``.name`` or ``[key]``, and the thing."""
    if is_a(value, dict):
        keys = [key for key in _ends(list(dict.keys(value))) if type(key) in (str, int)]
        yield from ((f"[{key!r}]", dict.get(value, key)) for key in keys)
    elif is_a(value, (list, tuple, deque)):
        items = items_of(value)
        places = _ends(range(len(items)))
        yield from ((f"[{place}]", items[place]) for place in places)
    elif is_a(value, torch.nn.Module):
        for name, item in list(own_attributes(value).items()):
            if name not in _MODULE_OWN and not name.startswith("_forward"):
                yield from _module_part(name, item)
    elif is_a(value, types.FunctionType):
        yield from _closure(value)
        yield from _defaults(value)
    elif is_a(value, types.ModuleType):
        if _is_own_file(own_attributes(value).get("__file__")):
            yield from ((f".{name}", item) for name, item in named(own_attributes(value)).items())
    elif is_a(value, type):
        module = sys.modules.get(str(value.__module__))
        if _is_own_file(own_attributes(module).get("__file__")):
            yield from ((f".{name}", item) for name, item in named(dict(vars(value))).items())
    elif is_a(value, _CACHE):
        yield from (("", item) for item in _cached(value))
    elif is_a(value, types.MethodType):
        yield "", value.__self__
    elif is_a(value, functools.partial):
        yield ".func", value.func
        yield from _bound(value)
    else:
        inner = own_attributes(value)
        yield from ((f".{name}", item) for name, item in _ends(list(inner.items())))
        for slot in _slots(type(value)):  # type: ignore[arg-type]
            with contextlib.suppress(AttributeError):  # not filled yet
                yield f".{slot}", object.__getattribute__(value, slot)


def items_of(value: Any) -> Any:
    """Return the items of a list, tuple or deque, as Python itself has them."""
    if type(value) in (list, tuple):
        return value
    kind: Any = next(one for one in (list, tuple, deque) if is_a(value, one))
    return list(kind.__iter__(value))


def _is_own_file(file: object) -> bool:
    return isinstance(file, str) and is_own(file)


def _cached(function: Any) -> Iterator[Any]:
    """Yield what an lru_cache holds: its results, or the dict of them."""
    for item in gc.get_referents(function):
        if type(item) is dict and item is not function.__dict__:
            yield from _ends(list(item.values()))
        elif is_a(item, (torch.Tensor, list, tuple)):
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


def _defaults(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield what a function's parameters are where nothing is given for them."""
    given = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    yield from zip(names[len(names) - len(given) :], given, strict=False)
    yield from (function.__kwdefaults__ or {}).items()


def _bound(value: functools.partial[Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a partial gives to its function, by the names of the parameters."""
    function: Any = value.func
    is_bound = is_a(function, types.MethodType)
    function = function.__func__ if is_bound else function
    code = function.__code__ if is_a(function, types.FunctionType) else None
    names = () if code is None else code.co_varnames[is_bound : code.co_argcount]
    for place, item in enumerate(value.args):
        yield names[place] if place < len(names) else f".args[{place}]", item
    yield from value.keywords.items()


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


def _kind(value: Any) -> str:
    for kind in (tuple, list, dict, deque):
        if is_a(value, kind):
            return kind.__name__
    return "object"
