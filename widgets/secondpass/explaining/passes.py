"""A failed pass and its graph, while they are there: what it reached, in which order, by name.

Lives no longer than the gathering of facts: it keeps the graph alive.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import torch

from secondpass.explaining import holders
from secondpass.explaining.facts import Behind
from secondpass.explaining.history import (
    Heard,
    History,
    Targets,
    leading_to,
    nodes_behind,
    was_root,
)
from secondpass.explaining.holders import Held
from secondpass.hearing import calls
from secondpass.reading import walk


class Pass:
    """A failed pass.

    Attributes
    ----------
    nodes : list of torch.autograd.graph.Node
        What it was to run, in the engine's order.
    names_now : dict from Node to list of Held
        The names that the running code holds at the failure.
    """

    def __init__(
        self,
        call: calls.Call,
        heard: Heard,
        history: History,
        frame: FrameType | None,
        stepped_since: Callable[[int], set[int]],
    ) -> None:
        self.heard, self.history, self.frame = heard, history, frame
        self.names_now: dict[Any, list[Held]] = {}
        holders.collect(frame, 1.0, self.names_now)
        holders.collect_suspended(1.0, self.names_now)
        self.kind = call.kind
        self.roots = nodes_behind(call.roots)
        self.began_before = was_root(call.roots)
        walked = walk.walk(self.roots)
        self.left_out, self.leaves = walked.left_out, walked.leaves
        self.nodes = walked.nodes
        if call.has_inputs:
            self.nodes = leading_to(self.nodes, Targets(call.inputs), call.kind == "grad")
        self.parents: dict[Any, Any] = {}
        for node in self.nodes:
            for following, _ in node.next_functions:
                if following is not None and following not in self.parents:
                    self.parents[following] = node
        for root in self.roots:
            self.parents.pop(root, None)
        self._stepped_since = stepped_since
        self._optimizers = list(holders.objects_of(frame, torch.optim.Optimizer))
        self._names: dict[int, str] = {}
        for name, tensor in holders.tensors_of(frame):
            known = self._names.get(id(tensor))
            if known is None or _clumsiness(name) < _clumsiness(known):
                self._names[id(tensor)] = name

    def path_to(self, node: Any) -> list[Any]:
        """Return the Nodes on the way from the root to a Node."""
        path = [node]
        while path[-1] in self.parents:
            path.append(self.parents[path[-1]])
        return path[::-1]

    def names_of(self, node: Any) -> list[Held]:
        """Return the names of what a Node made: those that still hold it are the surer ones."""
        return [*self.names_now.get(node, ()), *holders.names_on(node)]

    def updated(self, place: int) -> tuple[str, ...]:
        """Return the leaves that the engine reached before it stopped at a place in its order."""
        if self.kind == "grad":
            return ()
        last = {id(leaf): -1 for leaf in self.leaves}
        for index, node in enumerate(self.nodes):
            for following, _ in node.next_functions:
                if following is not None and id(following) in last:
                    last[id(following)] = index
        return tuple(
            self._names[id(leaf.variable)]
            for leaf in self.leaves
            if 0 <= last[id(leaf)] < place
            and leaf.variable.grad is not None
            and id(leaf.variable) in self._names
        )

    def behind(self, nodes: list[Any], new: Iterable[Any]) -> tuple[Behind, ...]:
        """Return the leaves behind some old Nodes.

        Parameters
        ----------
        nodes : list of torch.autograd.graph.Node
        new : iterable of torch.autograd.graph.Node
            The new ones: a leaf that follows one of them is fresh.
        """
        fresh = {id(following) for node in new for following, _ in node.next_functions}
        owners = self._owners()
        return tuple(
            Behind(
                self._names.get(id(leaf.variable), "a leaf"),
                owners.get(id(leaf.variable), ""),
                id(leaf) in fresh,
            )
            for leaf in walk.walk(nodes).leaves
        )

    def reaches_a_leaf(self, nodes: Iterable[Any]) -> bool:
        """Say whether a leaf follows one of some Nodes."""
        leaves = {id(leaf) for leaf in self.leaves}
        return any(id(one) in leaves for node in nodes for one, _ in node.next_functions)

    def owners_behind(self, node: Any) -> tuple[str, ...]:
        """Return the names of the optimizers that own a leaf behind a Node."""
        owners = self._owners()
        found = (owners.get(id(leaf.variable)) for leaf in walk.walk([node]).leaves)
        return tuple(dict.fromkeys(one for one in found if one))

    def optimizers(self) -> tuple[str, ...]:
        """Return the names of the optimizers that the running code holds."""
        return tuple(name for name, _ in self._optimizers)

    def stepped(self, step: int) -> tuple[str, ...]:
        """Return the names of the optimizers that made a step since."""
        ids = self._stepped_since(step)
        return tuple(name for name, optimizer in self._optimizers if id(optimizer) in ids)

    def _owners(self) -> dict[int, str]:
        return {
            id(one): name
            for name, optimizer in self._optimizers
            for group in optimizer.param_groups
            for one in group["params"]
        }


def _clumsiness(name: str) -> tuple[bool, int]:
    """Order names: ``net.weight`` before ``params[3]``, the short before the long."""
    return bool(re.fullmatch(r"\w+\[\d+\]", name)), name.count(".")


def tag_number(node: Any) -> int:
    """Return the number of a Node's tag, by which a picture finds it; -1 where it has none."""
    tag = walk.tag_of(node)
    return -1 if tag is None else tag.number
