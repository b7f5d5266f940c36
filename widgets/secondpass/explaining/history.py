"""What is remembered of every backward call, so that a later failure can be explained.

Numbers and text only. What belongs to a Node is written into the Node's metadata and dies with
it: the key of the call that freed its saved tensors, and of the last call that ran through it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from secondpass.hearing import line_log
from secondpass.reading import walk
from secondpass.reading.places import Place

FREED_BY = "secondpass.freed_by"
RAN_IN = "secondpass.ran_in"
ROOT_OF = "secondpass.root_of"

FIRST_CALLS = 1_000
LATEST_CALLS = 20_000

FEW_NODES = 1_200
"""A graph of so few Nodes cannot be too deep to be looked at."""

_ACCUMULATE = getattr(torch._C._functions, "AccumulateGrad", None)


@dataclass(slots=True, eq=False)
class Heard:
    """A call that was heard.

    Attributes
    ----------
    number : int
        1 for the first that its listener heard.
    call : int
        `Call.key`, with which Nodes are marked: no two calls have the same, whoever heard them.
    kind : str
        ``backward`` or ``grad``.
    place : Place or None
    key : int
        Which line it is, on which way; see `line_log.Table`.
    retain, create : bool
    parent : Heard or None
        The call inside which this one was made.
    began : int
        The number of the next Node to be made in this thread, when it began.
    thread : int
    step : int
        How many optimizer steps had been made.
    nodes : int
        How many Nodes it ran.
    rerun : int
        How many of them an earlier call had run through.
    tracked : bool
        Whether its Nodes were marked as freed by it.
    inputs : bool
        Whether it was to run only what leads to some inputs.
    behind : int
        How many Nodes lie behind its roots, whether it ran them or not; 0 where that is not known.
    leaves : int
        How many leaves lie behind its roots; 0 where they were not looked at.
    """

    number: int
    call: int
    kind: str
    place: Place | None
    key: int
    retain: bool
    create: bool
    parent: Heard | None
    began: int
    thread: int
    step: int
    nodes: int = 0
    rerun: int = 0
    tracked: bool = False
    inputs: bool = False
    failed: bool = False
    behind: int = 0
    leaves: int = 0

    @property
    def chain(self) -> tuple[tuple[str, int], ...]:
        """File and line of each own frame that was running, the innermost first."""
        return line_log.table.chain(self.key)

    @property
    def line(self) -> int | None:
        """The line of the call."""
        return None if self.place is None else self.place.line

    def is_inside(self, other: Heard) -> bool:
        """Say whether this call was made inside another one."""
        parent = self.parent
        while parent is not None:
            if parent is other:
                return True
            parent = parent.parent
        return False


class History:
    """The calls heard: the first ones and the latest."""

    def __init__(self) -> None:
        self._calls: dict[int, Heard] = {}

    def add(self, heard: Heard) -> None:
        """Remember a call; somewhere in the middle, old ones are forgotten."""
        self._calls[heard.call] = heard
        if len(self._calls) > FIRST_CALLS + LATEST_CALLS:
            self._calls.pop(heard.call - LATEST_CALLS, None)

    def get(self, call: object) -> Heard | None:
        """Return a call by its key; None for one that was not heard here."""
        return self._calls.get(call) if isinstance(call, int) else None

    def since(self, number: int, thread: int) -> list[Heard]:
        """Return a thread's calls that began after the Node with a number was made."""
        return [one for one in self._calls.values() if one.began > number and one.thread == thread]


@dataclass
class Ran:
    """The live Nodes that a call ran: drop it soon, it keeps them alive.

    Attributes
    ----------
    roots : list of torch.autograd.graph.Node
    fresh : list of torch.autograd.graph.Node
        Those that no call had run through before.
    again : list of (torch.autograd.graph.Node, int)
        The others, and the key of the last call that did.
    """

    roots: list[Any]
    fresh: list[Any]
    again: list[tuple[Any, int]]


def mark_run(
    heard: Heard,
    roots: Iterable[Any],
    targets: Targets | None,
    walked: walk.Walk | None = None,
) -> Ran | None:
    """Write into the Nodes that a call ran that it did, and whether it freed them.

    Parameters
    ----------
    heard : Heard
    roots : iterable of torch.Tensor or GradientEdge
    targets : Targets, optional
        Where the pass ended, if not at the leaves (``inputs=``).
    walked : Walk, optional
        The graph behind the roots, where it was walked already.

    Returns
    -------
    Ran or None
        None where a graph has become so deep that it is left alone.
    """
    if walk.any_too_deep():
        return None
    roots = list(roots)
    starts = nodes_behind(roots)
    few = None if walked else _few(starts, heard.call)
    if few is None:
        walked = walked or walk.walk(starts)
        found, heard.leaves = walked.nodes, len(walked.leaves)
        heard.tracked = not walked.left_out
    else:
        found, heard.leaves = few
        heard.tracked = True
    heard.behind = len(found) if heard.tracked else 0
    if targets is not None:
        found = leading_to(found, targets, heard.kind == "grad")
    ran = Ran(starts, [], [])
    for node in found:
        metadata = node.metadata
        before = metadata.get(RAN_IN)
        if before is None or before == heard.call:  # another listener has marked it just now
            ran.fresh.append(node)
        else:
            ran.again.append((node, before))
        metadata[RAN_IN] = heard.call
        if not heard.retain:
            metadata.setdefault(FREED_BY, heard.call)
    heard.nodes, heard.rerun = len(found), len(ran.again)
    mark_roots(heard, roots)
    return ran


def mark_roots(heard: Heard, roots: Iterable[Any]) -> None:
    """Write into the Nodes in which a call began that it did: cheap enough for every call."""
    if walk.any_too_deep():
        return
    for root in roots:
        node = _node_behind(root)
        if node is not None:
            metadata = node.metadata
            if ROOT_OF not in metadata:
                metadata[ROOT_OF] = {int(root.output_nr): heard.call}
            else:
                metadata[ROOT_OF].setdefault(int(root.output_nr), heard.call)


def ends(roots: Iterable[Any]) -> list[tuple[Any, int]]:
    """Return the Node behind each root, and which of its outputs the root is."""
    return [(node, int(one.output_nr)) for one in roots if (node := _node_behind(one)) is not None]


def was_root(roots: Iterable[Any]) -> set[int]:
    """Return the keys of the first calls that began in these roots."""
    found = (node.metadata.get(ROOT_OF, {}).get(output) for node, output in ends(roots))
    return {call for call in found if call is not None}


def _few(starts: list[Any], call: int) -> tuple[list[Any], int] | None:
    """Return the Nodes of a small new graph, and how many leaves it has.

    None for any other, which wants a careful walk.
    """
    found: dict[Any, None] = dict.fromkeys(starts)
    leaves = set()
    todo = list(found)
    while todo:
        node = todo.pop()
        if type(node) is _ACCUMULATE:
            del found[node]
            leaves.add(id(node.variable))
            continue
        if node.metadata.get(RAN_IN, call) != call or len(found) > FEW_NODES:
            return None
        for following, _ in node.next_functions:
            if following is not None and following not in found:
                found[following] = None
                todo.append(following)
    return list(found), len(leaves)


class Targets:
    """Where a pass is to end: the Nodes behind some inputs, and the leaves among them."""

    def __init__(self, inputs: Iterable[Any]) -> None:
        given = list(inputs)
        self.nodes = frozenset(nodes_behind(given))
        self.leaves = frozenset(id(one) for one in given)

    def has(self, node: Any) -> bool:
        """Say whether a Node is one of them."""
        if type(node) is _ACCUMULATE:
            return id(node.variable) in self.leaves or node in self.nodes
        return node in self.nodes


def nodes_behind(tensors: Iterable[Any]) -> list[Any]:
    """Return the Nodes that made some tensors or stand behind GradientEdges; leaves have none.

    Nothing new is made: `walk.gradient_node` would make a view of a leaf to find its Node.
    """
    found = map(_node_behind, tensors)
    return [node for node in found if node is not None]


def _node_behind(one: Any) -> Any:
    return one.grad_fn if isinstance(one, torch.Tensor) else getattr(one, "node", None)


def leading_to(nodes: list[Any], targets: Targets, is_grad: bool) -> list[Any]:
    """Return those Nodes (the first to run first) that lie on a way to the targets."""
    ordered = sorted(nodes, key=lambda node: int(node._sequence_nr()))  # the oldest first
    needed: set[Any] = set(targets.nodes)
    run = []
    for node in ordered:
        on_the_way = any(
            following in needed or (following is not None and targets.has(following))
            for following, _ in node.next_functions
        )
        if on_the_way:
            needed.add(node)
        if on_the_way or (node in targets.nodes and not is_grad):
            run.append(node)
    run.reverse()
    return run
