"""What a reader remembers of Nodes, leaves and roots: nothing of torch's but weak references."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from secondpass.reading import saved, walk
from secondpass.reading.graph import Leaf, Node, Root
from secondpass.reading.places import Place
from secondpass.reading.saved import Slot, short_type, type_name
from secondpass.reading.values import SeenGradient, Value

LineOf = Callable[[int], Place | None]
"""Gives the line that made a Node, by the Node's sequence number."""


@dataclass(slots=True)
class KnownNode:
    """What a reader remembers of a Node: nothing of torch's. It becomes a record when asked."""

    id: str
    name: str
    age: int
    outputs: Sequence[tuple[torch.dtype, tuple[int, ...]] | None]
    born_in: int | None
    line_of: LineOf
    tag: weakref.ref[walk.Tag]
    slots: tuple[Slot, ...] = ()

    @property
    def line(self) -> Place | None:
        """The line that made it; looking it up takes longer than reading the Node."""
        return self.line_of(self.age) if self.age >= 0 else None

    @property
    def hides_slots(self) -> bool:
        """Whether what it saved cannot be seen, as with CopySlices."""
        # Where torch shows none at all, one may be there or not.
        return saved.SHOWN and any(slot.state == saved.UNKNOWN for slot in self.slots)

    @property
    def record(self) -> Node:
        """The Node as a plain record."""
        gives = (
            "?" if one is None else short_type(type_name(one[0]), one[1]) for one in self.outputs
        )
        return Node(
            self.id, self.name, self.slots, self.line, ", ".join(gives), self.born_in, self.age
        )


@dataclass(slots=True)
class KnownLeaf:
    """What a reader remembers of a leaf; the tensor itself is held weakly."""

    id: str
    name: str
    tensor: weakref.ref[torch.Tensor]
    value: Value
    grad: SeenGradient
    type: str = ""

    @property
    def record(self) -> Leaf:
        """The leaf as a plain record."""
        return Leaf(self.id, self.name, self.type, str(self.value), self.grad.text or "None")


@dataclass
class KnownRoot:
    """What a reader remembers of a root; the tensor itself is held weakly."""

    record: Root
    tensor: weakref.ref[Any]
    version: int = 0

    def look(self) -> None:
        """Remember that the tensor was looked at as it is now."""
        self.version = getattr(self.tensor(), "_version", 0)

    @property
    def node(self) -> Any:
        """The Node that made it, or its base where it is a view whose base was changed since.

        None where it is gone. Asking such a view itself would make it a new Node, and another
        order in which Nodes run; its base has the whole graph behind it.
        """
        tensor = self.tensor()
        is_stale = getattr(tensor, "_version", 0) != self.version
        if is_stale and isinstance(tensor, torch.Tensor) and tensor._is_view():
            base = tensor._base
            return None if base is None or walk.any_too_deep() else base.grad_fn
        return walk.gradient_node(tensor)
