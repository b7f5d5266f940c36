"""The autograd graph behind some tensors, as plain records: no tensor and no torch Node inside.

Nodes are numbered in the order in which the engine would run them, so a Node's number says when a
backward pass reaches it, and `Graph.stops_at` is the first of them whose saved tensors are gone.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from secondpass.reading import saved
from secondpass.reading.order import engine_order
from secondpass.reading.places import Place
from secondpass.reading.saved import Slot

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Node:
    """A function that a backward pass runs.

    Attributes
    ----------
    id : str
        ``n0`` for the Node that a backward pass reaches first, and so on.
    name : str
        As torch names it: ``PowBackward0``.
    slots : tuple of Slot
        Its saved tensors; empty where it saves nothing.
    line : Place or None
        The line of the person's own code that made it, where it was listened to.
    gives : str
        Type and shape of the tensor that it made: ``f32[2×3]``.
    born_in : int or None
        The number of the call that made it, under ``create_graph=True``.
    age : int
        torch's sequence number: of several Nodes that are ready, a pass runs the highest first. -1
        where torch does not tell it.
    """

    id: str
    name: str
    slots: tuple[Slot, ...]
    line: Place | None = None
    gives: str = ""
    born_in: int | None = None
    age: int = field(default=0, repr=False, compare=False)

    @property
    def title(self) -> str:
        """The name without the noise: ``Pow`` for ``PowBackward0``.

        Examples
        --------
        >>> Node("n0", "PowBackward0", ()).title, Node("n1", "MySquareBackward", ()).title
        ('Pow', 'MySquare')
        """
        name = self.name.rpartition("::")[2]
        return name.rstrip("0123456789").removesuffix("Backward") or name

    @property
    def is_freed(self) -> bool:
        """Whether a saved tensor of this Node was freed."""
        return any(slot.state == saved.FREED for slot in self.slots)


@dataclass(frozen=True)
class Leaf:
    """A tensor in which gradients are accumulated.

    Attributes
    ----------
    id : str
        ``l0``, ``l1`` … in the order in which the walk meets them.
    name : str
        The person's own name (``x``, ``net.0.weight``), or ``leaf 1``.
    type : str
        ``f32[2×3]``.
    value, grad : str
        Short text of the tensor and of its ``.grad`` (``None`` where there is none).
    """

    id: str
    name: str
    type: str
    value: str
    grad: str


@dataclass(frozen=True)
class Root:
    """A tensor from which the graph was read.

    Attributes
    ----------
    name, type, value : str
        As for a leaf; an unnamed root is ``result``.
    source : str
        The id of the Node (or leaf) that made it.
    """

    name: str
    type: str
    value: str
    source: str


@dataclass(frozen=True)
class Edge:
    """A tensor on its way from the Node or leaf that made it to the Node that used it.

    Attributes
    ----------
    source, target : str
        Ids, in the forward direction; the gradient travels from target to source.
    index : int
        Which of the target's ``next_functions`` (and ``grad_inputs``) it is.
    output : int
        Which of the source's outputs it is.
    """

    source: str
    target: str
    index: int
    output: int

    @property
    def id(self) -> str:
        """A name for this edge that no other has: ``n1-n0-0``."""
        return f"{self.source}-{self.target}-{self.index}"


@dataclass(frozen=True)
class Graph:
    """An autograd graph as it stood when it was read; ``print(graph)`` shows it as a tree.

    Attributes
    ----------
    nodes : tuple of Node
        In the order in which a backward pass reaches them.
    leaves : tuple of Leaf
    edges : tuple of Edge
    roots : tuple of Root
    left_out : str
        A sentence about what was not read; empty where all was.
    """

    nodes: tuple[Node, ...]
    leaves: tuple[Leaf, ...]
    edges: tuple[Edge, ...]
    roots: tuple[Root, ...]
    left_out: str = ""

    @property
    def stops_at(self) -> str | None:
        """The id of the Node in which a backward pass from these roots would stop now.

        None where it would pass; ``"unknown"`` where that cannot be known: CopySlices and C++
        Functions do not show their saved tensors, and a custom Function need not read them. Hooks
        and checkpoints are taken to give back what they hold.
        """
        nodes = {node.id: node for node in self.nodes}
        order_is_known = all(node.age >= 0 for node in self.nodes)
        following: dict[str, list[str]] = defaultdict(list)
        for edge in self.edges:
            following[edge.target].append(edge.source)
        for key in engine_order({key: node.age for key, node in nodes.items()}, following):
            states = {slot.state for slot in nodes[key].slots}
            is_gone = saved.FREED in states or saved.CHANGED in states
            if saved.UNKNOWN in states or (is_gone and is_custom(nodes[key])):
                return UNKNOWN
            if is_gone:
                return key if order_is_known else UNKNOWN
        return UNKNOWN if self.left_out else None

    def __str__(self) -> str:
        """Return the graph as a tree, the roots first; a shared part is drawn once."""
        from secondpass.reading.tree import (
            tree,  # the tree is for eyes only: records do not need it
        )

        return tree(self)


def is_custom(node: Node) -> bool:
    """Say whether a Node is a person's own ``torch.autograd.Function``."""
    return any(slot.name == "tensors" or slot.name.startswith("tensors[") for slot in node.slots)
