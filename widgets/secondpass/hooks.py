"""Watch one call from inside: hooks on every Node that it can reach, turned into frames.

The hooks only look: they return nothing, keep no tensor, and are removed when the call ends,
however it ends. A Node's saved tensors are freed after its last hook has run, so whether they
were is read when the next thing happens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from secondpass import saved, walk
from secondpass.calls import Call, current_call
from secondpass.frames import Frame, listed
from secondpass.reader import GraphReader
from secondpass.saved import Slot, bytes_text
from secondpass.values import value_text


class WatchedCall:
    """The hooks of one call; it holds live Nodes and is let go when the call ends.

    Parameters
    ----------
    call : Call
        The call that is about to run.
    number : int
        Its number in the recording.
    reader : GraphReader
        Knows the Nodes and leaves that the call can reach.
    found : Walk
        Those Nodes, live.
    add : callable
        Takes each new frame.
    """

    def __init__(
        self,
        call: Call,
        number: int,
        reader: GraphReader,
        found: walk.Walk,
        add: Callable[[Frame], None],
    ) -> None:
        self.number = number
        self.updated: list[str] = []  # names of the leaves whose .grad this call has changed
        self.freed: dict[str, int] = {}  # slots that this call has freed, and their bytes
        self.started: list[str] = []  # ids of Nodes whose function has begun and not ended
        self._call = call
        self._reader = reader
        self._add = add
        self._nodes: dict[str, Any] = {}
        self._handles: list[Any] = []
        self._ran: tuple[str, Frame] | None = None  # the last Node: its slots are yet to be read
        self._adding: tuple[str, str | None, str] | None = None  # leaf id, .grad before, incoming
        self._arriving: dict[tuple[str, int], list[tuple[int, str]]] = {}
        for node in found.nodes:
            self._hook_node(node)
        for accumulate in found.leaves:
            self._hook_leaf(accumulate)

    def note_entering(self, node_id: str, output: int, gradient: Any, text: str) -> None:
        """Remember the text of a gradient with which the call begins."""
        self._arrive((node_id, output), gradient, text)

    def remove(self) -> None:
        """Take all hooks away and let the Nodes go."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def settle(self) -> None:
        """Add the frame of what ran last, now that it shows what it did."""
        self._settle_leaf()
        if self._ran is None:
            return
        (node_id, frame), self._ran = self._ran, None
        changed = self._reader.refresh(self._nodes[node_id], freed_by=self.number)
        if not self._call.retain_graph:
            # Some Nodes do not show their saved tensors; torch frees them all the same.
            changed |= self._reader.mark_freed(node_id, self.number)
        slots = self._reader.nodes[node_id].record.slots
        self.freed |= {
            f"{node_id}.{slot.name}": slot.nbytes or 0
            for slot in changed.values()
            if slot.state == saved.FREED
        }
        self._add(
            replace(
                frame,
                text=f"{frame.text} {_what_became_of(slots, changed)}",
                slots={f"{node_id}.{slot.name}": (slot.state, slot.freed_by) for slot in slots},
            )
        )

    # A hook is called by torch with tuples of tensors or None. A Node that a call inside this one
    # runs calls the hooks of both.

    def _is_running(self) -> bool:
        return current_call() in (self._call, None)  # None: one of torch's device threads

    def _hook_node(self, node: Any) -> None:
        node_id = self._reader.id_of(node)
        if node_id is None:
            return
        self._nodes[node_id] = node
        edges = [
            None if following is None else (self._reader.id_of(following), index, output)
            for index, (following, output) in enumerate(node.next_functions)
        ]
        came_in: list[str] = []

        def before(gradients: Sequence[Any]) -> None:
            if self._is_running():
                self.settle()
                came_in[:] = [
                    self._text((node_id, output), gradient)
                    for output, gradient in enumerate(gradients)
                    if gradient is not None
                ]
                self.started.append(node_id)

        def after(gradients: Sequence[Any], _: Sequence[Any]) -> None:
            if self._is_running():
                self.settle()  # a pass inside this Node may have left one
                self.started.remove(node_id)
                self._ran = (node_id, self._node_frame(node_id, came_in, edges, gradients))

        self._handles += [node.register_prehook(before), node.register_hook(after)]

    def _node_frame(
        self, node_id: str, came_in: list[str], edges: list[Any], gradients: Sequence[Any]
    ) -> Frame:
        node = self._reader.nodes[node_id].record
        went: dict[str, str] = {}
        for edge, gradient in zip(edges, gradients, strict=False):
            if edge is None or edge[0] is None or gradient is None:
                continue
            source, index, output = edge
            text = value_text(gradient)
            self._arrive((source, output), gradient, text)
            went[f"{source}-{node_id}-{index}"] = text
        incoming = ", ".join(came_in) or "nothing"
        outgoing = ", ".join(went.values()) or "nothing"
        return Frame(
            "node",
            f"Call {self.number} runs {node.title}: {incoming} comes in, {outgoing} goes on.",
            call=self.number,
            node=node_id,
            line=node.line,
            incoming=incoming,
            after=outgoing,
            gradients=went,
        )

    def _hook_leaf(self, accumulate: Any) -> None:
        leaf_id = self._reader.leaf_id(accumulate.variable)
        if leaf_id is None:
            return

        def before(gradients: Sequence[Any]) -> None:
            if self._is_running():
                self.settle()
                if gradients[0] is not None:
                    incoming = self._text((leaf_id, 0), gradients[0])
                    self._adding = (leaf_id, self._reader.see_grad(leaf_id), incoming)

        def after(_: Sequence[Any], __: Sequence[Any]) -> None:
            if self._is_running():
                self._settle_leaf()

        self._handles += [accumulate.register_prehook(before), accumulate.register_hook(after)]

    def _settle_leaf(self) -> None:
        """Add the frame of a leaf whose gradient has landed; a user's hook may run in between."""
        if self._adding is None:
            return
        (leaf_id, before, incoming), self._adding = self._adding, None
        after = self._reader.see_grad(leaf_id)
        name = self._reader.leaves[leaf_id].record.name
        if name not in self.updated:
            self.updated.append(name)
        sum_text = f"= {after}" if before is None else f"{before} + {incoming} = {after}"
        self._add(
            Frame(
                "accumulate",
                f"Call {self.number}: {name}.grad {sum_text}",
                call=self.number,
                leaf=name,
                leaf_id=leaf_id,
                before=before,
                incoming=incoming,
                after=after,
            )
        )

    def _arrive(self, place: tuple[str, int], gradient: Any, text: str) -> None:
        if isinstance(gradient, torch.Tensor):
            self._arriving.setdefault(place, []).append((_identity(gradient), text))

    def _text(self, place: tuple[str, int], gradient: Any) -> str:
        """Return a gradient's text, without working it out twice where one alone arrived here."""
        arrived = self._arriving.pop(place, [])
        if len(arrived) == 1 and arrived[0][0] == _identity(gradient):
            return arrived[0][1]
        return value_text(gradient)


def _identity(gradient: torch.Tensor) -> int:
    try:
        return hash((gradient.data_ptr(), gradient._version, gradient.shape))
    except (RuntimeError, NotImplementedError):  # no storage: sparse, meta, subclasses
        return id(gradient)


def _what_became_of(slots: Sequence[Slot], changed: dict[str, Slot]) -> str:
    """Say in a sentence what a Node that has run did with its saved tensors."""
    if not slots:
        return "It saves nothing."
    freed = [slot for slot in changed.values() if slot.state == saved.FREED]
    if freed:
        size = sum(slot.nbytes or 0 for slot in freed)
        bytes_freed = f" ({bytes_text(size)})" if size else ""
        return f"Freed: {listed([slot.name for slot in freed])}{bytes_freed}."
    kept = [slot.name for slot in slots if slot.state in (saved.HELD, saved.PACKED)]
    return f"Kept: {listed(kept)}." if kept else "It holds no saved tensor."
