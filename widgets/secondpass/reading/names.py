"""The person's own names of tensors, found in their variables and their modules."""

from __future__ import annotations

import ctypes
import inspect
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import torch

from secondpass.reading.places import is_own_code
from secondpass.reading.unheard import is_module, is_tensor, own_attributes

LOOKED_AT = 5_000
"""Tensors named in one go, at most: a frame may hold a list of a million."""

INSIDE = 50
"""Items of one list, tuple or dict that are looked at."""

_write_back: Any = None
if sys.version_info < (3, 13):
    _write_back = ctypes.pythonapi.PyFrame_LocalsToFast
    _write_back.argtypes, _write_back.restype = (ctypes.py_object, ctypes.c_int), None

_IPYTHON = frozenset({"In", "Out", "exit", "quit", "get_ipython"})


def own_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of the person's own code, the innermost first."""
    while frame is not None:
        if is_own_code(frame.f_code):
            yield frame
        frame = frame.f_back


def names_now(frame: FrameType | None = None) -> dict[int, str]:
    """Name the tensors that the person's running code holds in variables.

    Parameters
    ----------
    frame : FrameType, optional
        Where to begin; the caller by default.

    Returns
    -------
    dict from id(tensor) to str
        ``x`` for a variable, ``net.0.weight`` for a parameter, ``states[0]`` for an item. The
        innermost variable wins, a plain variable before anything inside another object.

    Examples
    --------
    >>> import torch
    >>> weight = torch.ones(2, requires_grad=True)
    >>> names_of({"weight": weight})[id(weight)]
    'weight'
    """
    scopes = [
        variables
        for one in own_frames(frame or sys._getframe(1))
        for variables in variables_of(one)
    ]
    return _named(scopes)


def names_of(variables: Mapping[str, Any]) -> dict[int, str]:
    """Name the tensors in some variables; see `names_now`."""
    return _named([variables])


def _named(scopes: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    names: dict[int, str] = {}
    others = []
    for variables in scopes:
        for name, value in list(variables.items()):
            # A dict of globals may have other keys; IPython's history would name every old result.
            if not isinstance(name, str) or name.startswith("_") or name in _IPYTHON:
                continue
            if is_tensor(value):
                names.setdefault(id(value), name)
            else:
                others.append((name, value))
    for name, value in others:
        for inner, tensor in tensors_inside(name, value):
            names.setdefault(id(tensor), inner)
        if len(names) > LOOKED_AT:
            break
    return names


def variables_of(frame: FrameType) -> Iterator[dict[str, Any]]:
    """Yield a frame's local variables and, for a function, its module's, as copies."""
    yield locals_of(frame)
    if frame.f_code.co_flags & inspect.CO_OPTIMIZED or frame.f_locals is not frame.f_globals:
        yield dict(frame.f_globals)


def locals_of(frame: FrameType) -> dict[str, Any]:
    """Return a frame's local variables as a copy, and leave none behind.

    Up to Python 3.12 ``f_locals`` of a function is a dict that the frame keeps: left filled, it
    would keep a tensor alive that the function has deleted. And at the next event of a tracer
    Python writes it back into the variables, unless that is done at once: while nothing else can
    run, so that it changes nothing.
    """
    if _write_back is None or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return dict(frame.f_locals)
    local = frame.f_locals
    _write_back(frame, 0)
    copy = dict(local)
    # Held by more than the frame, this variable and the call, it is the person's, from locals().
    if sys.getrefcount(local) <= 3:
        local.clear()
    else:
        frame.f_locals  # noqa: B018 - a debugger's changes of it are still to be written back
    return copy


def tensors_inside(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors that a module, list, tuple or dict holds, with a name for each.

    Nothing of the person's code runs.
    """
    if is_module(value):
        yield from _parameters(name, value, set())
        return
    for key, item in _items(value):
        if is_tensor(item):
            yield f"{name}[{key!r}]", item
        elif is_module(item):
            yield from tensors_inside(f"{name}[{key!r}]", item)


def _parameters(
    name: str, module: torch.nn.Module, seen: set[int]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield what ``named_parameters`` does, which a person may have written anew."""
    seen.add(id(module))
    own = own_attributes(module)
    for key, item in list((own.get("_parameters") or {}).items()):
        if is_tensor(item):
            yield f"{name}.{key}", item
    for key, item in list((own.get("_modules") or {}).items()):
        if is_module(item) and id(item) not in seen:
            yield from _parameters(f"{name}.{key}", item, seen)


def _items(value: Any) -> list[tuple[Any, Any]]:
    """Return the first items of a plain container."""
    if type(value) in (list, tuple):
        return list(enumerate(value[:INSIDE]))
    if type(value) is dict:
        items = list(itertools.islice(value.items(), INSIDE))
        return [(key, item) for key, item in items if type(key) in (str, int)]
    return []
