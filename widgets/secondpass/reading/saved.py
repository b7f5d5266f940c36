"""The saved tensors of one autograd Node, read without any side effect.

torch shows each saved tensor twice: ``_saved_self`` unpacks it, which runs hooks and recomputes
checkpoints; ``_raw_saved_self`` is the place itself and only says what lies in it. This module
reads the second, and the first only where no hook can run.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from secondpass.reading import walk
from secondpass.reading.unheard import is_plain, plainly, unheard

HELD = "held"
FREED = "freed"
NONE = "none"
PACKED = "packed"
CHANGED = "changed"
UNKNOWN = "unknown"
SEEN = (HELD, PACKED, CHANGED)  # something lies in the slot

_RAW = "_raw_saved_"


@dataclass(frozen=True, slots=True)
class Slot:
    """One saved-tensor place of a Node.

    Attributes
    ----------
    name : str
        As torch names it: ``self``, ``result``, ``tensors[0]``.
    shape : tuple of int or None
        None where nothing lies in the slot, or it cannot be seen. A length that varies, as in a
        nested tensor, is text: ``j1``.
    dtype : str or None
        ``float32``, ``int64`` …
    nbytes : int or None
        Bytes of the storage that the slot keeps alive; a view keeps its whole base.
    state : str
        ``held``, ``freed``, ``none``, ``packed``, ``changed`` or ``unknown``.
    freed_by : int or None
        The number of the call that freed it, where that is known.
    """

    name: str
    shape: tuple[int | str, ...] | None
    dtype: str | None
    nbytes: int | None
    state: str
    freed_by: int | None = None

    def freed(self, call: int | None) -> Slot:
        """Return what it is after a call freed it: shape and bytes are remembered."""
        return Slot(self.name, self.shape, self.dtype, self.nbytes, FREED, call)

    def __str__(self) -> str:
        """Return a line such as ``self f32[2×3] 24 B freed by call 1``."""
        state = self.state if self.freed_by is None else f"{self.state} by call {self.freed_by}"
        return " ".join(part for part in (self.name, describe(self), state) if part)


def read_slots(node: Any) -> tuple[Slot, ...]:
    """Read the saved tensors of a Node as they are now.

    Parameters
    ----------
    node : torch.autograd.graph.Node
        Any grad_fn, also one whose saved tensors were freed.

    Returns
    -------
    tuple of Slot
        In torch's order; empty for a Node that saves nothing.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> y = x**2
    >>> print(*read_slots(y.grad_fn))
    self f32[1] 4 B held
    >>> y.backward()
    >>> print(*read_slots(y.grad_fn))
    self freed
    """
    return tuple(slot for slot, _ in read_slots_and_storages(node))


def read_slots_and_storages(
    node: Any, *, see_changes: bool = True, held: Collection[str] = ()
) -> list[tuple[Slot, Hashable]]:
    """Read the slots of a Node, each with the identity of the storage it keeps alive.

    It is the number ``untyped_storage()._cdata``: two slots with one number share their bytes.
    Without ``see_changes`` a tensor modified in place counts as held, and a slot of `held` that is
    empty now is freed: both are faster to say.
    """
    names = _raw_names(node.__class__) if SHOWN else ()
    if not names and _shows_nothing(node):
        return [(Slot("saved tensors", None, None, None, UNKNOWN), None)]
    pairs: list[tuple[Slot, Hashable]] = []
    for raw in names:
        pairs += _read(node, raw, see_changes, held)
    return pairs


def is_freed(node: Any) -> bool:
    """Say whether a saved tensor of a Node was freed; False where torch does not show it."""
    return any(slot.state == FREED for slot, _ in read_slots_and_storages(node))


def is_empty(node: Any, name: str) -> bool:
    """Say whether nothing lies any more in a slot in which something lay."""
    try:
        content = getattr(node, _RAW + name.partition("[")[0])
    except RuntimeError:  # lists of slots and custom Functions refuse as a whole
        return True
    place = content[int(name[name.index("[") + 1 : -1])] if type(content) is tuple else content
    return place.data is None and place.unpack_hook is None


def describe(slot: Slot) -> str:
    """Return type, shape and bytes of a slot in short: ``f32[2×3] 24 B``.

    Examples
    --------
    >>> describe(Slot("self", (2, 3), "float32", 24, HELD))
    'f32[2×3] 24 B'
    """
    if slot.shape is None:
        return ""
    text = short_type(slot.dtype, slot.shape)
    return text if slot.nbytes is None else f"{text} {bytes_text(slot.nbytes)}"


@functools.lru_cache(maxsize=4_096)
def short_type(dtype: str | None, shape: tuple[int | str, ...]) -> str:
    """Return ``f32[2×3]`` for a float32 tensor of two rows and three columns; ``f32`` for a scalar.

    Examples
    --------
    >>> short_type("float32", (2, 3)), short_type("int64", ()), short_type("bool", (4,))
    ('f32[2×3]', 'i64', 'bool[4]')
    """
    name = str(dtype)
    for long, short in (
        ("bfloat", "bf"),
        ("float", "f"),
        ("complex", "c"),
        ("uint", "u"),
        ("int", "i"),
    ):
        if name.startswith(long) and name[len(long) :].isdigit():
            name = short + name[len(long) :]
            break
    return f"{name}[{'×'.join(map(str, shape))}]" if shape else name


def type_text(tensor: torch.Tensor) -> str:
    """Return type and shape of a tensor in short; ``f32[?]`` where it has no plain shape."""
    tensor = plainly(tensor)
    shape = _shape(tensor)
    return short_type(type_name(tensor.dtype), ("?",) if shape is None else shape)


@functools.cache
def type_name(dtype: torch.dtype) -> str:
    """Return ``float32`` for ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def bytes_text(nbytes: int) -> str:
    """Return a number of bytes for people: 1 KB is 1,000 B, so that sums can be checked by eye.

    Examples
    --------
    >>> bytes_text(4), bytes_text(12_000), bytes_text(12_500), bytes_text(3_540_000)
    ('4 B', '12 KB', '13 KB', '3.5 MB')
    """
    size = float(nbytes)
    for unit in ("B", "KB", "MB", "GB"):
        # From 999.5 on it would be written as 1000.
        if size < 999.5 or unit == "GB":
            break
        size /= 1000
    if size < 9.95 and unit != "B":
        tenths = int(size * 10 + 0.5)  # a half goes up, as in JavaScript
        return f"{tenths / 10:g} {unit}"
    return f"{int(size + 0.5)} {unit}"


@functools.cache
def _raw_names(kind: Any) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith(_RAW))


def _shows_nothing(node: Any) -> bool:
    """Say whether a Node may hold tensors that Python cannot see."""
    name = walk.name_of(node)
    return not SHOWN or name.endswith("CopySlices") or "CppNode" in name


def _read(
    node: Any, raw: str, see_changes: bool, held: Collection[str]
) -> list[tuple[Slot, Hashable]]:
    name = raw.removeprefix(_RAW)
    try:
        content = getattr(node, raw)
    except RuntimeError:  # lists of slots and custom Functions refuse as a whole
        return [(Slot(name, None, None, None, FREED), None)]
    if type(content) is not tuple:
        changed = see_changes and content.unpack_hook is None and _was_changed(node, name)
        return [_read_one(name, content, changed, name in held)]
    changed = (
        see_changes
        and all(place.unpack_hook is None for place in content)
        and _was_changed(node, name)
    )
    labels = [f"{name}[{index}]" for index in range(len(content))]
    return [
        _read_one(label, place, changed, label in held)
        for label, place in zip(labels, content, strict=True)
    ]


def _read_one(name: str, place: Any, changed: bool, was_held: bool) -> tuple[Slot, Hashable]:
    """Read one SavedTensor; the caller drops it at once, for it dangles when its Node dies."""
    data = place.data
    if place.unpack_hook is not None:
        # The packed object is the hooks' own affair: a file name, a checkpoint's marker …
        return Slot(name, *_facts(data)[:3], PACKED), None
    if data is None:
        state = FREED if was_held or _refuses(place) else NONE
        return Slot(name, None, None, None, state), None
    shape, dtype, nbytes, storage = _facts(data)
    return Slot(name, shape, dtype, nbytes, CHANGED if changed else HELD), storage


def _refuses(place: Any) -> bool:
    """Say whether an empty slot was freed, by the error it raises, which takes its time."""
    try:
        place.unpack()
    except RuntimeError as error:
        if "second time" not in str(error):
            raise
        return True
    return False


def _was_changed(node: Any, name: str) -> bool:
    """Say whether a saved tensor was modified in place since; only where no hook can run."""
    getter = "saved_tensors" if name == "tensors" else f"_saved_{name}"
    try:
        getattr(node, getter, None)
    except RuntimeError as error:
        return "inplace operation" in str(error)
    return False


def _facts(data: Any) -> tuple[tuple[int | str, ...] | None, str | None, int | None, Hashable]:
    """Return shape, dtype, bytes and identity of the storage, as far as they can be had."""
    if not isinstance(data, torch.Tensor):
        return None, None, None, None
    data = plainly(data)
    shape, dtype = _shape(data), type_name(data.dtype)
    try:
        if is_plain(data):
            storage = data.untyped_storage()
            return shape, dtype, storage.nbytes(), storage._cdata
        storages = {one._cdata: one.nbytes() for one in _storages(data)}
    except Exception:  # sparse, mkldnn; a subclass may raise anything
        return shape, dtype, None, None
    identity = next(iter(storages)) if len(storages) == 1 else frozenset(storages)
    return shape, dtype, sum(storages.values()), identity


def _shape(tensor: torch.Tensor) -> tuple[int | str, ...] | None:
    try:
        if is_plain(tensor):
            return tuple(tensor.shape)
        return tuple(one if type(one) is int else str(one) for one in tensor.shape)
    except RuntimeError:  # a strided nested tensor has no shape
        return None


def _storages(tensor: torch.Tensor) -> Iterator[Any]:
    """Yield the storages of a tensor; one that wraps others has no memory but theirs."""
    if not hasattr(type(tensor), "__tensor_flatten__"):
        yield tensor.untyped_storage()
        return
    for name in tensor.__tensor_flatten__()[0]:  # type: ignore[attr-defined]
        yield from _storages(getattr(tensor, name))


def _is_shown() -> bool:
    """Say whether this torch shows saved tensors as we read them: the names are private."""
    with torch.inference_mode(False), torch.enable_grad(), unheard():
        node = (torch.ones(1, requires_grad=True) ** 2).grad_fn
    try:
        place = getattr(node, f"{_RAW}self")
        return place.data is not None and place.unpack_hook is None and callable(place.unpack)
    except (AttributeError, RuntimeError):
        return False


SHOWN = _is_shown()
"""Whether slots can be seen; where not, each Node has one of which nothing is known."""

HIDDEN = "This version of torch does not show saved tensors: which are freed is not known."
