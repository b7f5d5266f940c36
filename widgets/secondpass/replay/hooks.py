"""Watch one call from inside: hooks on every Node that it can reach, turned into frames.

The hooks only look: they return nothing, keep no tensor, and are removed when the call ends,
however it ends. A Node's saved tensors are freed after its last hook has run, so whether they
were is read when the next thing happens.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from secondpass.hearing.calls import Call, current_call, say_not_followed
from secondpass.reading import saved
from secondpass.reading.known import KnownNode
from secondpass.reading.reader import GraphReader, Reading
from secondpass.reading.unheard import any_mode, is_plain, uncompiled, unheard
from secondpass.reading.values import Value
from secondpass.replay.events import Event, Landed, NodeRan, slot_states
from secondpass.replay.frames import SlotState


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
        self.thread = call.thread
        self.updated: list[str] = []  # names of the leaves whose .grad this call has changed
        self.freed: dict[str, int] = {}  # slots that this call has freed, and their bytes
        self.started: list[str] = []  # ids of Nodes whose function has begun and not ended
        self.sees_all = saved.SHOWN and not reading.found.left_out
        self.found_freed: dict[str, SlotState] = {}  # at the end, where no hook could see it
        self._is_lost = False  # an error of ours ended the following
        self._is_compiled = _is_compiled()
        self._call = call
        self._reader = reader
        self._add = add
        self._nodes = {node_id: node for node, node_id in reading.ids.items()}
        self._handles: list[Any] = []
        self._ran: NodeRan | None = None  # what ran last: its slots are yet to be read
        self._adding: tuple[str, Value] | None = None  # a leaf's id and what is coming in
        self._arriving: dict[tuple[str, int], list[Seen]] = {}
        plain = all(is_plain(one.variable) for one in reading.found.leaves) and not any_mode()
        self._quietly = None if plain else unheard

    def hang(self, reading: Reading) -> None:
        """Hang the hooks into the Nodes that the call can reach; `remove` takes them away.

        Compiled autograd would compile them with the pass: into that, none is hung.
        """
        if self._is_compiled:
            return
        found, reader = reading.found, self._reader
        leaf_ids = {one: reader.leaf_id(one.variable) for one in found.leaves}
        ids = leaf_ids | reading.ids
        for node, following in zip(found.nodes, found.following, strict=True):
            sources = [
                (known_id, output) if (known_id := ids.get(one)) is not None else None
                for one, output in following
            ]
            hooks = _NodeHooks(self, reader.nodes[reading.ids[node]], sources)
            # A Function may have set attributes of these names on its context.
            kind = type(node)
            self._handles.append(kind.register_prehook(node, hooks.before))
            self._handles.append(kind.register_hook(node, hooks.after))
        for accumulate, leaf_id in leaf_ids.items():
            if leaf_id is not None:
                leaf_hooks = _LeafHooks(self, leaf_id)
                self._handles.append(accumulate.register_prehook(leaf_hooks.before))
                self._handles.append(accumulate.register_hook(leaf_hooks.after))

    def remove(self) -> None:
        """Take all hooks away and let the Nodes go."""
        try:
            for handle in self._handles:
                handle.remove()
        finally:  # a hook that an interrupt left in its Node must not hold that Node
            self._handles.clear()
            self._nodes.clear()

    def settle(self) -> None:
        """Add the frame of what ran last, now that it shows what it did."""
        if self._adding is not None:
            self._settle_leaf()
        ran = self._ran
        if ran is None:
            return
        self._ran = None
        known = ran.node
        changed = self._reader.see_freed(known, self._nodes[known.id], self.number)
        if not self._call.retain_graph and known.hides_slots:
            # Some Nodes do not show their saved tensors; torch frees them all the same.
            changed |= self._reader.mark_freed(known.id, self.number)
        for slot in changed.values():
            if slot.state == saved.FREED:
                self.freed[f"{known.id}.{slot.name}"] = slot.nbytes or 0
        ran.changed, ran.slots = changed, known.slots
        self._add(ran)

    def look_back(self) -> None:
        """Look, at the end of a call without hooks, what it freed."""
        if not self._is_compiled:
            return
        for node_id, node in self._nodes.items():
            changed = self._reader.refresh(node, self.number)
            freed = [slot for slot in changed.values() if slot.state == saved.FREED]
            self.freed |= {f"{node_id}.{slot.name}": slot.nbytes or 0 for slot in freed}
            self.found_freed |= slot_states(node_id, freed)

    def look(self, how: Callable[..., None], *what: Any) -> None:
        """Look from inside a hook while this call runs; nothing here can make the call fail.

        A Node that a call inside this one runs calls the hooks of both.
        """
        # No current call: one of torch's device threads.
        if self._is_lost or current_call() not in (self._call, None):
            return
        try:
            if self._quietly is None:
                how(*what)
            else:
                with self._quietly():
                    how(*what)
        except Exception as error:  # ours: raised here, it would end the person's pass
            self._is_lost = True
            self.sees_all = False
            say_not_followed(error)

    def node_begins(self, hooks: _NodeHooks, gradients: Sequence[Any]) -> None:
        """Hear that a Node is about to run, and which gradients came in."""
        self.settle()
        node_id = hooks.known.id
        self.started.append(node_id)
        hooks.came_in = [
            self._arrived((node_id, output), gradient)
            for output, gradient in enumerate(gradients)
            if gradient is not None
        ]

    def node_ends(self, hooks: _NodeHooks, gradients: Sequence[Any]) -> None:
        """Hear that a Node has run, and which gradients go on."""
        self.settle()  # a pass inside this Node may have left one
        known, came_in, hooks.came_in = hooks.known, hooks.came_in, ()
        self.started.remove(known.id)
        went: list[tuple[str, int, Value]] = []
        for index, (place, gradient) in enumerate(zip(hooks.sources, gradients, strict=False)):
            if place is not None and gradient is not None:
                seen = _seen(gradient, came_in)
                went.append((place[0], index, seen[1]))
                self._arriving.setdefault(place, []).append(seen)
        self._ran = NodeRan(self.number, known, [value for _, value in came_in], went)

    def leaf_begins(self, leaf_id: str, gradient: torch.Tensor | None) -> None:
        """Hear that a gradient is about to be added to a leaf's ``.grad``."""
        self.settle()
        if gradient is not None:
            self._reader.see_grad(leaf_id)
            self._adding = leaf_id, self._arrived((leaf_id, 0), gradient)[1]

    def leaf_ends(self) -> None:
        """Hear that it was added."""
        self._settle_leaf()

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

    def _arrived(self, place: tuple[str, int], gradient: torch.Tensor) -> Seen:
        """Return what arrived at a place, not measured twice where it alone arrived here."""
        arrived = self._arriving.pop(place, ())
        return _seen(gradient, arrived if len(arrived) == 1 else ())


def _is_compiled() -> bool:
    """Say whether compiled autograd takes the next backward pass; its switch is private."""
    module = sys.modules.get("torch._dynamo.compiled_autograd")
    return bool(getattr(module, "compiled_autograd_enabled", False))


class _NodeHooks:
    """The two hooks of a Node. torch passes them tuples of tensors or None."""

    __slots__ = ("_watched", "came_in", "known", "sources")

    def __init__(
        self, watched: WatchedCall, known: KnownNode, sources: Sequence[tuple[str, int] | None]
    ) -> None:
        self._watched = watched
        self.known = known
        self.sources = sources  # where each gradient goes: a source's id and which output of it
        self.came_in: Sequence[Seen] = ()

    @uncompiled
    def before(self, gradients: Sequence[Any]) -> None:
        watched = self._watched
        watched.look(watched.node_begins, self, gradients)

    @uncompiled
    def after(self, gradients: Sequence[Any], _: Sequence[Any]) -> None:
        watched = self._watched
        watched.look(watched.node_ends, self, gradients)


class _LeafHooks:
    """The two hooks of a leaf's AccumulateGrad."""

    __slots__ = ("_leaf_id", "_watched")

    def __init__(self, watched: WatchedCall, leaf_id: str) -> None:
        self._watched = watched
        self._leaf_id = leaf_id

    @uncompiled
    def before(self, gradients: Sequence[Any]) -> None:
        self._watched.look(self._watched.leaf_begins, self._leaf_id, gradients[0])

    @uncompiled
    def after(self, _: Sequence[Any], __: Sequence[Any]) -> None:
        self._watched.look(self._watched.leaf_ends)


Seen = tuple[Any, Value]  # how to know a gradient again without holding it, and its value


def _seen(gradient: torch.Tensor, before: Sequence[Seen]) -> Seen:
    """Return a gradient's value; one that was measured already is not measured again."""
    identity = _identity(gradient)
    if identity is not None:
        for other, value in before:
            if identity == other:
                return identity, value.seen_as(gradient)
    return identity, Value(gradient)


def _identity(gradient: torch.Tensor) -> Any:
    """Return what two tensors have in common that hold the same numbers in the same memory.

    It is good while one of the two lives; None where it cannot be told.
    """
    if type(gradient) is not torch.Tensor:  # a subclass has its own say
        return None
    try:
        if gradient.is_contiguous() or _is_dense(gradient.shape, gradient.stride()):
            return gradient.data_ptr(), gradient._version, gradient.numel()
        return gradient.data_ptr(), gradient._version, gradient.shape, gradient.stride()
    except (RuntimeError, NotImplementedError):  # no storage: sparse, nested
        return None


def _is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Say whether a tensor's numbers lie side by side in some order, as after a transpose."""
    span = 1
    for stride, length in sorted(zip(strides, shape, strict=True)):
        if length != 1:
            if stride != span:
                return False
            span *= length
    return True
