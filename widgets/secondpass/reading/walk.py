"""Walk the live Nodes of an autograd graph, in the order in which the engine would run them.

A Node that Python has looked at is destroyed recursively when it dies, so every walk is bounded
in depth, also over several walks, and there is one function that walks.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from secondpass.reading.order import engine_order

DEPTH_LIMIT = 1_500
"""Nodes in a row that one walk looks at. A Node that Python has looked at is destroyed
recursively, so a long chain of them overflows the C stack when it dies (5,000 to 8,000 Nodes on a
stack of 1 MB). Off the main thread, where a stack may be of 512 kB, it is half as many."""

LOOKED_AT_LIMIT = 3_000
"""Nodes in a row that several walks together may look at, before the last of them. Off the main
thread it is a quarter."""

NODE_LIMIT = 20_000
"""Nodes that one walk looks at, for time's sake."""

TOO_DEEP = (
    "Not looked at: a graph that lives has had thousands of Nodes in a row looked at, such as one "
    "that a loop never cuts off. To look at more could crash Python when that graph dies."
)

_KEY = "secondpass"
_NUMBER = "_sequence_nr"  # private: it may go away
_numbers = itertools.count()


class Tag:
    """What we remember of a live torch Node: it lies in the Node's ``metadata`` and dies with it.

    A Node takes no weak reference; a tag does. It holds nothing of torch's.
    """

    __slots__ = ("__weakref__", "depth", "freed_by", "number")

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.depth = 0  # Nodes in a row, from here to the leaves, that Python has looked at
        self.freed_by: object = None  # the call that ran it and freed its saved tensors


def tag_of(node: Any) -> Tag | None:
    """Return the tag of a Node, or None where it was never looked at by us."""
    tag = node.metadata.get(_KEY)
    return tag if isinstance(tag, Tag) else None


@dataclass
class Walk:
    """The live Nodes of a graph, in engine order. Use it and drop it: it keeps them alive.

    Attributes
    ----------
    nodes : list of torch.autograd.graph.Node
        Without the AccumulateGrad Nodes.
    leaves : list of torch.autograd.graph.Node
        The AccumulateGrad Nodes, in the order met.
    following : list of tuple
        The ``next_functions`` of each of `nodes`.
    left_out : str
        A sentence about what was not looked at.
    """

    nodes: list[Any]
    leaves: list[Any]
    following: list[Any]
    left_out: str = ""


_too_deep: weakref.WeakSet[Tag] = weakref.WeakSet()


def any_too_deep() -> bool:
    """Say whether a living graph has had so many Nodes in a row looked at that no more should be.

    No walk then looks at anything, until that graph is gone.
    """
    return len(_too_deep) > 0


def walk(roots: Iterable[Any], *, node_limit: int = NODE_LIMIT) -> Walk:
    """Walk a graph in the order in which the engine would run its Nodes.

    Where not all is looked at, it is what the engine would reach first.

    Parameters
    ----------
    roots : iterable of torch.autograd.graph.Node
        Where backward passes begin; None is passed over.
    node_limit : int
        At most so many Nodes, and as many leaves, are looked at.
    """
    if any_too_deep():
        return Walk([], [], [], TOO_DEEP)
    depth_limit = DEPTH_LIMIT // 2 if _may_be_small() else DEPTH_LIMIT
    heap: list[tuple[int, int, Any]] = []
    depth: dict[Any, int] = {}
    order = itertools.count()
    found = Walk([], [], [])
    popped: set[Any] = set()
    popped_too_soon = False

    def meet(node: Any, at: int) -> None:
        nonlocal popped_too_soon
        if node in depth:
            depth[node] = max(depth[node], at)
            popped_too_soon |= node in popped
            return
        depth[node] = at
        if not is_accumulate(node):
            heapq.heappush(heap, (-age(node), next(order), node))
        elif len(found.leaves) < node_limit:
            found.leaves.append(node)
        else:
            found.left_out = f"Only the first {node_limit:,} leaves were read; the graph has more."

    for root in roots:
        if root is not None:
            meet(root, 1)
    while heap:
        node = heapq.heappop(heap)[2]
        popped.add(node)
        if len(found.nodes) >= node_limit:
            found.left_out = f"Only the first {node_limit:,} Nodes were read; the graph is larger."
            break
        if depth[node] > depth_limit:
            found.left_out = (
                f"Only {depth_limit:,} Nodes in a row were read; the graph goes on behind them."
            )
            continue
        following = node.next_functions
        found.nodes.append(node)
        found.following.append(following)
        for one, _ in following:
            if one is not None:
                meet(one, depth[node] + 1)
    if popped_too_soon:
        _put_in_order(found)
    _note_depth(found)
    return found


def _put_in_order(found: Walk) -> None:
    """Put Nodes that several threads made, each with numbers of its own, in the engine's order."""
    following = dict(zip(found.nodes, found.following, strict=True))
    sources = {node: [one for one, _ in edges] for node, edges in following.items()}
    found.nodes = engine_order({node: age(node) for node in found.nodes}, sources)
    found.following = [following[node] for node in found.nodes]


def is_accumulate(node: Any) -> bool:
    """Say whether a Node is a leaf's AccumulateGrad."""
    return type(node).__name__ == "AccumulateGrad"


def name_of(node: Any) -> str:
    """Return a Node's name as torch says it; a Function may have set ``ctx.name`` to its own."""
    return str(type(node).name(node))


def age(node: Any) -> int:
    """Return a Node's sequence number, -1 where torch does not tell.

    Of the Nodes that are ready, the engine runs the highest first.
    """
    number = getattr(node, _NUMBER, None)
    return -1 if number is None else int(number())


def _tag(node: Any) -> Tag:
    tag = tag_of(node)
    if tag is None:
        tag = node.metadata[_KEY] = Tag()
    return tag


def _note_depth(found: Walk) -> None:
    """Write into each tag how many looked-at Nodes lie in a row below it."""
    limit = LOOKED_AT_LIMIT // 4 if _may_be_small() else LOOKED_AT_LIMIT
    depths: dict[Any, int] = {}
    for node, following in zip(reversed(found.nodes), reversed(found.following), strict=True):
        below = max((depths.get(one) or _known_depth(one) for one, _ in following), default=0)
        tag = _tag(node)
        tag.depth = depths[node] = below + 1
        if tag.depth > limit:
            _too_deep.add(tag)


def _may_be_small() -> bool:
    """Say whether the thread's stack may be small; to ask for its size would reset it."""
    return threading.current_thread() is not threading.main_thread()


def _known_depth(node: Any) -> int:
    """Return what earlier walks found below a Node that this one did not reach into."""
    if node is None or is_accumulate(node):
        return 0
    tag = tag_of(node)
    return 1 if tag is None else tag.depth


def gradient_node(tensor: Any) -> Any:
    """Return the Node that a backward pass from a tensor or GradientEdge begins in, or None."""
    if not isinstance(tensor, torch.Tensor):
        return getattr(tensor, "node", None)
    if any_too_deep():
        return None  # in a loop, even one Node a round adds up
    try:
        node = tensor.grad_fn
    except RuntimeError:  # one of several views made at once, whose base was changed since
        return None
    if node is None and tensor.requires_grad:
        return torch.autograd.graph.get_gradient_edge(tensor).node
    return node
