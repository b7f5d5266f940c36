"""Where a failed pass meets what the call that freed had run: what both share, by name."""

from __future__ import annotations

from typing import Any

from secondpass.explaining.history import FREED_BY, Heard
from secondpass.explaining.holders import Held
from secondpass.explaining.passes import Pass
from secondpass.reading import saved, walk

_MOST_ENTRIES = 6


class Meeting:
    """Where a failed pass goes into what the call that freed had run.

    Attributes
    ----------
    names : tuple of Held
        Names that, cut off together, part the one from the other; none where some have no name.
    neck : tuple of Held
        Names of the one tensor through which all of it goes, the nearest to the root; none where
        there is no such tensor, or it has no name.
    others_learn : bool
        Whether the call that freed reached a leaf that does not lie behind: cut off there, it
        still has a graph.
    zeroed : bool
        Whether that call has added to the leaves' ``.grad``, and it is gone.
    """

    def __init__(self, failed: Pass, stopped: Any, freed_by: Heard | None) -> None:
        self.names: tuple[Held, ...] = ()
        self.neck: tuple[Held, ...] = ()
        self.others_learn = self.zeroed = False
        if freed_by is None or not freed_by.tracked:
            return
        self._failed, self._call = failed, freed_by.call
        behind = walk.walk([stopped]).leaves
        grads = [leaf.variable.grad for leaf in behind]
        adds = freed_by.kind == "backward" and not freed_by.inputs
        self.zeroed = adds and bool(grads) and not any(map(_is_there, grads))
        needed = self._needed()
        edges = self._edges_into(needed)
        if not edges:
            return
        named = [self._name_of(node, output) for node, output in edges]
        if all(named) and len(named) <= _MOST_ENTRIES:
            self.names = tuple(held for held in named if held is not None)
        self.neck = self._neck(edges, needed)
        leaves = {id(leaf) for leaf in walk.walk([node for node, _ in edges]).leaves}
        self.others_learn = freed_by.leaves > len(leaves)

    def _needed(self) -> set[Any]:
        """Return the Nodes that the earlier call ran and behind which something is freed."""
        found: set[Any] = set()
        for node in reversed(self._failed.nodes):  # what follows a Node comes before it
            is_run = node.metadata.get(FREED_BY) == self._call
            if is_run and (saved.is_freed(node) or any(o in found for o, _ in node.next_functions)):
                found.add(node)
        return found

    def _edges_into(self, needed: set[Any]) -> list[tuple[Any, int]]:
        """Return the outputs of needed Nodes that what is not needed takes in."""
        found: dict[tuple[Any, int], None] = {}
        for node in self._failed.nodes:
            for following, output in node.next_functions if node not in needed else ():
                if following in needed:
                    found[following, output] = None
        return list(found)

    def _neck(self, edges: list[tuple[Any, int]], needed: set[Any]) -> tuple[Held, ...]:
        """Return the names of the first tensor that all the ways go through."""
        open_ = set(edges)
        for node in self._failed.nodes:  # the first to run first
            if len(open_) == 1:
                held = self._name_of(*next(iter(open_)))
                if held is not None:
                    return (held,)
            if node in needed:
                open_ = {edge for edge in open_ if edge[0] is not node}
                open_ |= {edge for edge in node.next_functions if edge[0] in needed}
        return ()

    def _name_of(self, node: Any, output: int) -> Held | None:
        held = (one for one in self._failed.names_of(node) if one.kind != "library")
        return next((one for one in held if one.output == output), None)


def _is_there(grad: Any) -> bool:
    """Say whether a gradient is there and not zero everywhere."""
    try:
        return grad is not None and bool(grad.detach().ne(0).any())
    except (RuntimeError, NotImplementedError):
        return True
