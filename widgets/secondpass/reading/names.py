"""The person's own names of tensors, found in their variables and their modules."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import torch

from secondpass.reading.places import is_own

LOOKED_AT = 5_000
"""Tensors named in one go, at most: a frame may hold a list of a million."""

INSIDE = 50
"""Items of one list, tuple or dict that are looked at."""

_IPYTHON = frozenset({"In", "Out", "exit", "quit", "get_ipython"})


def own_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of the person's own code, the innermost first."""
    while frame is not None:
        if is_own(frame.f_code.co_filename):
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
            if name.startswith("_") or name in _IPYTHON:
                continue  # IPython's history would name every old result
            if isinstance(value, torch.Tensor):
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
    """Yield a frame's local variables and, for a function, its module's, as copies.

    Up to Python 3.12 ``f_locals`` of a function is a dict that the frame keeps: left filled, it
    would keep a tensor alive that the function has deleted.
    """
    local = frame.f_locals
    yield dict(local)
    if local is frame.f_globals:
        return
    if sys.version_info < (3, 13) and frame.f_code.co_flags & 0x1:  # CO_OPTIMIZED: a function
        local.clear()
    yield dict(frame.f_globals)


def tensors_inside(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors that a module, list, tuple or dict holds, with a name for each."""
    if isinstance(value, torch.nn.Module):
        for inner, tensor in value.named_parameters(remove_duplicate=True):
            yield f"{name}.{inner}", tensor
        return
    for key, item in _items(value):
        if isinstance(item, torch.Tensor):
            yield f"{name}[{key!r}]", item
        elif isinstance(item, torch.nn.Module):
            yield from tensors_inside(f"{name}[{key!r}]", item)


def _items(value: Any) -> list[tuple[Any, Any]]:
    """Return the first items of a plain container; nothing of the person's code runs."""
    if type(value) in (list, tuple):
        return list(enumerate(value[:INSIDE]))
    if type(value) is dict:
        keys = [key for key in list(value)[:INSIDE] if type(key) in (str, int)]
        return [(key, value[key]) for key in keys]
    return []
