"""Which line changed a tensor in place, read a ``.grad``, or switched gradients off.

The marks of code that may do one of these (``x += 1``, ``x[0] = 1``, ``x.add_(1)``, ``w.grad``,
``set_grad_enabled(False)``) tell this module. It keeps numbers and lines, never a tensor.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from secondpass.hearing import line_log
from secondpass.hearing.line_log import close_gap, here, number_now
from secondpass.reading.places import Place
from secondpass.reading.unheard import (
    any_mode,
    is_module,
    is_plain,
    is_tensor,
    own_attributes,
    uncompiled,
    unheard,
    version_of,
)

STORAGES = 4_096
"""Storages whose writes are remembered, the latest."""

WRITES = 32
"""Writes remembered of one storage, the latest."""

STEPS = 16
"""Steps remembered of one optimizer, the latest."""

_compiling = torch.compiler.is_dynamo_compiling

readers: list[Callable[[torch.Tensor, int], None]] = []  # who wants to hear of `read`

# By storage: a weak reference, for no other storage gets its identity as long as that is there,
# and the version and line key of each write.
_written: OrderedDict[int, tuple[StorageWeakRef, list[tuple[int, int]]]] = OrderedDict()
_switched: list[int] = []  # the keys of lines after which gradients were off
_lock = threading.RLock()


class _Thread(threading.local):
    """What the call that this thread runs now writes into, and the version it had before."""

    def __init__(self) -> None:
        self.given: list[tuple[weakref.ref[torch.Tensor], int | None]] = []


_running = _Thread()


@uncompiled
def wrote(value: Any) -> Any:
    """Note that a line may have changed a tensor in place, and return the tensor."""
    if _compiling():
        return value
    if number_now() != here.last:
        close_gap(sys._getframe(1))
    if is_tensor(value):
        note_write(value, sys._getframe(1))
    elif _running.given:
        given, _running.given = _running.given, []
        for alive, before in given:
            tensor = alive()
            # Those that an earlier call was given, which raised, were not written by this line.
            if tensor is not None and _version(tensor) != before:
                note_write(tensor, sys._getframe(1))
    return value


@uncompiled
def given(value: Any) -> Any:
    """Note what the call that follows writes into without handing it back, and return it."""
    if _compiling():
        return value
    several = list(_tensors_of(value)) if is_module(value) else value
    if type(several) in (list, tuple):
        tensors = [one for one in several if is_tensor(one)]
        _running.given = [(weakref.ref(one), _version(one)) for one in tensors]
    return value


def _tensors_of(module: torch.nn.Module) -> Iterator[Any]:
    """Yield a module's parameters and buffers; no method that the person may have is run."""
    own = own_attributes(module)
    parameters, buffers, modules = (own.get(name) or {} for name in _TABLES)
    yield from parameters.values()
    yield from buffers.values()
    for one in modules.values():
        if one is not None:
            yield from _tensors_of(one)


@uncompiled
def wrote_in(value: Any, *path: str) -> None:
    """Note a write to a tensor that is an attribute of an object; no property is run."""
    if _compiling():
        return
    if number_now() != here.last:
        close_gap(sys._getframe(1))
    for name in path:
        value = _attribute(value, name)
    if is_tensor(value):
        note_write(value, sys._getframe(1))


@uncompiled
def read(value: Any) -> Any:
    """Note that a line uses a ``.grad``, and return it."""
    if readers and is_tensor(value) and not _compiling():
        key = line_log.table.key_of(sys._getframe(1))
        for tell in readers:
            tell(value, key)
    return value


@uncompiled
def switched() -> None:
    """Note that a line may have switched gradients off or on."""
    if torch.is_grad_enabled():
        _switched.clear()
    elif not _switched:
        _switched.append(line_log.table.key_of(sys._getframe(1)))


switched._dynamo_marked_constant = True  # type: ignore[attr-defined]


def note_write(tensor: torch.Tensor, frame: FrameType | None) -> None:
    """Note that a frame's present line wrote into a tensor."""
    storage, version = storage_of(tensor), _version(tensor)
    if storage is None or version is None:
        return
    key = line_log.table.key_of(frame)
    with _lock:
        known = _written.get(storage)
        if known is None:
            alive = StorageWeakRef(_storage(tensor))  # type: ignore[no-untyped-call]
            _written[storage] = alive, [(version, key)]
            if len(_written) > STORAGES:
                _written.popitem(last=False)
            return
        writes = known[1]
        _written.move_to_end(storage)
        if writes[-1][0] > version:
            writes.clear()  # a tensor with a count of its own, as .data has
        if not writes or writes[-1][0] < version:
            writes.append((version, key))
            del writes[:-WRITES]


def write_after(tensor: torch.Tensor, version: int) -> Place | None:
    """Return the line that first wrote into a tensor after it had a version, where it was heard."""
    storage, now = storage_of(tensor), _version(tensor)
    known = None if storage is None or now is None else _written.get(storage)
    for written, key in () if known is None else tuple(known[1]):
        if version < written <= (now or 0) and key != line_log.UNKNOWN:
            return line_log.table.place(key)
    return None


def switched_off_at() -> Place | None:
    """Return the line that left gradients switched off, where it was heard."""
    if torch.is_grad_enabled() or not _switched:
        return None
    return line_log.table.place(_switched[-1]) if _switched[-1] != line_log.UNKNOWN else None


def storage_of(tensor: torch.Tensor) -> int | None:
    """Return the identity of a tensor's storage, None where it has none."""
    storage = _storage(tensor)
    return None if storage is None else int(storage._cdata)


def _storage(tensor: torch.Tensor) -> Any:
    try:
        if is_plain(tensor) and not any_mode():
            return tensor.untyped_storage()
        with unheard():
            return tensor.untyped_storage()
    except Exception:  # sparse, mkldnn; a subclass may raise anything
        return None


def _version(tensor: torch.Tensor) -> int | None:
    if is_plain(tensor) and not any_mode():
        return version_of(tensor)
    with unheard():
        return version_of(tensor)


_TABLES = ("_parameters", "_buffers", "_modules")


def _attribute(value: Any, name: str) -> Any:
    own = own_attributes(value)
    tables = [own, *(own.get(one) or {} for one in _TABLES if is_module(value))]
    names = [name]
    if name.startswith("__") and not name.endswith("__"):  # Python puts the class's name before it
        names = [f"_{kind.__name__.lstrip('_')}{name}" for kind in type(value).__mro__]
    return next((table[one] for one in names for table in tables if one in table), None)


# ---- optimizer steps

_Steps = deque[tuple[int, list[int | None]]]  # line key, and the version of each parameter after it
_steps: dict[int, tuple[weakref.ref[Any], _Steps]] = {}  # by id: the fastest to look up


def note_step(optimizer: Any, frame: FrameType | None) -> None:
    """Note that an optimizer's step wrote into its parameters."""
    known = _steps.get(id(optimizer))
    if known is None or known[0]() is not optimizer:
        for key in [key for key, (alive, _) in list(_steps.items()) if alive() is None]:
            _steps.pop(key, None)
        known = _steps[id(optimizer)] = weakref.ref(optimizer), deque(maxlen=STEPS)
    versions = [_version(one) for group in optimizer.param_groups for one in group["params"]]
    known[1].append((line_log.table.key_of(frame), versions))


def stepped_after(tensor: torch.Tensor, version: int) -> Place | None:
    """Return the line of the first step that wrote into a parameter after it had a version."""
    storage = storage_of(tensor)
    for alive, steps in list(_steps.values()):
        optimizer = alive()
        groups = [] if optimizer is None else optimizer.param_groups
        storages = [storage_of(one) for group in groups for one in group["params"]]
        if storage is None or storage not in storages:
            continue
        place = storages.index(storage)
        for key, versions in tuple(steps):
            after = versions[place] if place < len(versions) else None
            if after is not None and after > version and key != line_log.UNKNOWN:
                return line_log.table.place(key)
    return None
