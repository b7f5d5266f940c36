"""Watch one call from inside: hooks on every Node that it can reach, turned into frames.

The hooks only look: they return nothing, keep no tensor, and are removed when the call ends,
however it ends. A Node's saved tensors are freed after its last hook has run, so whether they
were is read when the next thing happens.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from secondpass import saved
from secondpass.calls import Call, current_call, say_not_followed
from secondpass.events import Event, Landed, NodeRan
from secondpass.reader import GraphReader, KnownNode, Reading
from secondpass.unheard import any_mode, is_plain, unheard
from secondpass.values import Value


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
    reading : Reading
        Those Nodes, live.
    add : callable
        Takes each new event.
    """

    def __init__(
        self,
        call: Call,
        number: int,
        reader: GraphReader,
        reading: Reading,
        add: Callable[[Event], None],
    ) -> None:
        self.number = number
        self.updated: list[str] = []  # names of the leaves whose .grad this call has changed
        self.freed: dict[str, int] = {}  # slots that this call has freed, and their bytes
        self.started: list[str] = []  # ids of Nodes whose function has begun and not ended
        self._is_lost = False  # an error of ours ended the following
        self._call = call
        self._reader = reader
        self._add = add
        self._nodes = {node_id: node for node, node_id in reading.ids.items()}
        self._handles: list[Any] = []
        self._ran: NodeRan | None = None  # what ran last: its slots are yet to be read
        self._adding: tuple[str, Value] | None = None  # a leaf's id and what is coming in
        self._arriving: dict[tuple[str, int], list[Seen]] = {}
        found = reading.found
        plain = all(is_plain(one.variable) for one in found.leaves) and not any_mode()
        self._quietly = contextlib.nullcontext if plain else unheard
        leaf_ids = {one: reader.leaf_id(one.variable) for one in found.leaves}
        for node, following in zip(found.nodes, found.following, strict=True):
            node_id = reading.ids[node]
            edges = [
                (reading.ids.get(source) or leaf_ids.get(source), output, index)
                for index, (source, output) in enumerate(following)
            ]
            self._hook_node(node, reader.nodes[node_id], edges)
        for accumulate, leaf_id in leaf_ids.items():
            if leaf_id is not None:
                self._hook_leaf(accumulate, leaf_id)

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
        ran, self._ran = self._ran, None
        known = ran.node
        changed = self._reader.refresh_known(
            known, self._nodes[known.id], self.number, see_changes=False
        )
        if not self._call.retain_graph:
            # Some Nodes do not show their saved tensors; torch frees them all the same.
            changed |= self._reader.mark_freed(known.id, self.number)
        for slot in changed.values():
            if slot.state == saved.FREED:
                self.freed[f"{known.id}.{slot.name}"] = slot.nbytes or 0
        ran.changed, ran.slots = changed, known.slots
        self._add(ran)

    # A hook is called by torch with tuples of tensors or None. A Node that a call inside this one
    # runs calls the hooks of both.

    def _is_running(self) -> bool:
        return current_call() in (self._call, None)  # None: one of torch's device threads

    def _only_looking(self, look: Callable[..., None]) -> Callable[..., None]:
        """Return a hook that looks while this call runs, and cannot make it fail."""

        def hook(*gradients: Sequence[Any]) -> None:
            if self._is_lost or not self._is_running():
                return
            try:
                with self._quietly():
                    look(*gradients)
            except Exception as error:  # ours: raised here, it would end the person's pass
                self._is_lost = True
                say_not_followed(error)

        return hook

    def _hook_node(
        self, node: Any, known: KnownNode, edges: Sequence[tuple[str | None, int, int]]
    ) -> None:
        node_id = known.id
        came_in: list[Value] = []

        def before(gradients: Sequence[Any]) -> None:
            self.settle()
            came_in[:] = [
                self._arrived((node_id, output), gradient)
                for output, gradient in enumerate(gradients)
                if gradient is not None
            ]
            self.started.append(node_id)

        def after(gradients: Sequence[Any], outputs: Sequence[Any]) -> None:
            self.settle()  # a pass inside this Node may have left one
            self.started.remove(node_id)
            measured = [
                (_identity(output), value)
                for output, value in zip(
                    (one for one in outputs if one is not None), came_in, strict=False
                )
            ]
            going: list[tuple[str, int, Value]] = []
            for (source, output, index), gradient in zip(edges, gradients, strict=False):
                if source is not None and gradient is not None:
                    identity = _identity(gradient)
                    value = _value(gradient, identity, measured)
                    going.append((source, index, value))
                    self._arriving.setdefault((source, output), []).append((identity, value))
            self._ran = NodeRan(self.number, known, tuple(came_in), going)

        self._handles.append(node.register_prehook(self._only_looking(before)))
        self._handles.append(node.register_hook(self._only_looking(after)))

    def _hook_leaf(self, accumulate: Any, leaf_id: str) -> None:
        def before(gradients: Sequence[Any]) -> None:
            self.settle()
            if gradients[0] is not None:
                incoming = self._arrived((leaf_id, 0), gradients[0])
                self._reader.see_grad(leaf_id)
                self._adding = leaf_id, incoming

        def after(_: Sequence[Any], __: Sequence[Any]) -> None:
            self._settle_leaf()

        self._handles.append(accumulate.register_prehook(self._only_looking(before)))
        self._handles.append(accumulate.register_hook(self._only_looking(after)))

    def _settle_leaf(self) -> None:
        """Add the event of a leaf whose gradient has landed; a user's hook may run in between."""
        if self._adding is None:
            return
        (leaf_id, incoming), self._adding = self._adding, None
        known = self._reader.leaves[leaf_id]
        before, leaf = known.grad.value, known.tensor()
        hooked = bool(leaf is not None and leaf._post_accumulate_grad_hooks)
        # The first gradient becomes .grad as it is.
        as_it_is = before is None and not hooked
        after = self._reader.see_grad(leaf_id, incoming if as_it_is else None).value
        if known.name not in self.updated:
            self.updated.append(known.name)
        self._add(Landed(self.number, leaf_id, known.name, before, incoming, after, hooked))

    def _arrived(self, place: tuple[str, int], gradient: torch.Tensor) -> Value:
        """Return a gradient's value, not measured twice where it alone arrived here."""
        arrived = self._arriving.pop(place, ())
        return _value(gradient, _identity(gradient), arrived if len(arrived) == 1 else ())


Identity = tuple[int, ...]
Seen = tuple[Identity, Value]  # how to know a gradient again without holding it, and its value


def _value(gradient: torch.Tensor, identity: Identity, seen: Sequence[Seen]) -> Value:
    """Return a gradient's value; one that was measured already is not measured again."""
    for other, value in seen:
        if identity == other:
            return value.seen_as(gradient)
    return Value(gradient)


def _identity(gradient: torch.Tensor) -> Identity:
    """Return what two tensors have in common that hold the same numbers in the same memory."""
    if type(gradient) is torch.Tensor:  # a subclass has its own say
        with contextlib.suppress(RuntimeError, NotImplementedError):  # no storage: sparse, nested
            if gradient.is_contiguous():
                return gradient.data_ptr(), gradient._version, gradient.numel()
            return gradient.data_ptr(), gradient._version, *gradient.shape, *gradient.stride()
    return (-id(gradient),)
