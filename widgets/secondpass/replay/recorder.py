"""Turn backward calls, and what happens between them, into the frames of a recording."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import torch

from secondpass.hearing import lines
from secondpass.hearing.calls import Call, listen, say_not_followed
from secondpass.reading import names, saved, walk
from secondpass.reading.known import LineOf
from secondpass.reading.places import Place, place_in
from secondpass.reading.reader import GraphReader
from secondpass.reading.unheard import is_tensor, unheard
from secondpass.reading.values import value_text
from secondpass.replay import endings
from secondpass.replay.events import Event, ForwardRan, Noted, slot_states
from secondpass.replay.frames import CallRecord, Frame, SlotState, listed
from secondpass.replay.hooks import WatchedCall

FRAME_LIMIT = 4_000
"""Frames of one recording: a loop of a thousand passes must not fill the browser."""


FEW = 32
"""Up to so many Nodes, and as many leaves, are looked at after every line."""


class Recorder:
    """Hears backward calls and turns them into frames.

    Parameters
    ----------
    line_of : callable
        Gives the line that made a Node, by its sequence number, or None.
    follow_all : bool
        Record every call, or only those that run through a Node read before.
    """

    def __init__(self, line_of: LineOf, *, follow_all: bool) -> None:
        self.reader = GraphReader(line_of)
        self.events: list[Event] = []
        self.calls: list[CallRecord] = []
        self.start_slots: dict[str, SlotState] = {}
        self.start_grads: dict[str, str | None] = {}
        self.start_held = 0
        self.left_out = ""
        self.told: Callable[[], None] = _nothing  # called when frames were added
        self._follow_all = follow_all
        self._watched: dict[int, WatchedCall] = {}  # by Call.key
        self._frames: list[Frame] = []
        self._written = 0  # how many events have become frames
        self._resume: dict[int, Callable[[], None]] = {}  # by Call.key
        self.lock = threading.RLock()
        self._hears_lines = True
        self._stop: Callable[[], None] = _nothing

    @property
    def frames(self) -> list[Frame]:
        """The frames so far; they are written now, not while a call runs."""
        with self.lock:
            events = self.events[self._written :]  # a call that runs may add to them meanwhile
            self._written += len(events)
            for event in events:
                self._frames += event.frames()
            return self._frames

    @property
    def runs_elsewhere(self) -> bool:
        """Whether a recorded call is running on another thread.

        torch frees saved tensors and sets ``.grad`` meanwhile, without Python's lock: who looked
        at them then would crash the process. While the lock is held no call begins.
        """
        here = threading.get_ident()
        return any(one.thread != here for one in self._watched.values())

    def add_graph(self, tensors: Sequence[Any], known: Mapping[int, str]) -> None:
        """Read a graph that stands before anything is recorded: it is what step 0 shows."""
        self.reader.add_roots(tensors, known)
        self._see_leaves()
        for key, node in self.reader.nodes.items():
            self.start_slots |= slot_states(key, node.slots)
        self.start_held = self.reader.held.total

    def listen(self) -> None:
        """Begin to hear calls, until `stop` or until nobody holds the recorder."""
        self._stop = listen(_Ear(self))
        weakref.finalize(self, self._stop)

    def stop(self) -> None:
        """Hear no more calls."""
        self._stop()

    # ---- what listen() tells

    def begin(self, call: Call) -> None:
        """Read the call's graph, note what changed since the last one, hang the hooks in."""
        self._resume[call.key] = lines.pause_tracing()
        began = lines.number_now()
        with self.lock:
            if self.left_out:
                return
            if walk.any_too_deep():
                self.left_out = (
                    "The graph grew too deep to be looked at without danger: what came later was "
                    "not recorded."
                )
                return
            if not self._follow_all and not self._is_alive():
                self.stop()  # no call can run through a graph that is gone
                return
            parent = None if call.parent is None else self._watched.get(call.parent.key)
            if parent is not None:
                parent.settle()
            roots = [root for root in call.roots if walk.gradient_node(root) is not None]
            starts = [walk.gradient_node(root) for root in roots]
            # A call inside a recorded one belongs to it, whatever graph it runs through.
            if not (self._follow_all or parent is not None or self._is_known(starts)):
                return
            self.catch_up()
            number = len(self.calls) + 1
            known_before = set(self.reader.nodes)
            reading = self.reader.add_roots(roots, names.names_now())
            call.noted["walk"] = reading.found  # nobody else need walk it again
            self._add_forward(set(self.reader.nodes) - known_before)
            self._see_leaves()
            self.calls.append(
                CallRecord(
                    number,
                    call.kind,
                    call.place,
                    call.retain_graph,
                    call.create_graph,
                    None if parent is None else parent.number,
                    began=began,
                )
            )
            watched = WatchedCall(call, number, self.reader, reading, self._add)
            self._watched[call.key] = watched  # from here on, `end` takes its hooks away
            watched.hang(reading)
            self._add_call(call, watched)

    def end(self, call: Call) -> None:
        """Take the hooks away and note how the call ended."""
        try:
            with self.lock:
                watched = self._watched.pop(call.key, None)
                if watched is not None:
                    self._end(call, watched)
        finally:
            self._resume.pop(call.key, _nothing)()

    def _end(self, call: Call, watched: WatchedCall) -> None:
        try:
            watched.settle()
            watched.look_back()
        finally:
            watched.remove()
        self._add_grad_changes(lambda: None, watched.number)
        if call.failed:
            self._add_stop(call, watched)
        else:
            self._add_return(call, watched)
        self.told()

    # ---- between calls

    def line_ran(self, frame: FrameType, line: int) -> None:
        """Note what a line of the person's own code changed, where there is little to look at."""
        few = 0 < len(self.reader.leaves) <= FEW and len(self.reader.nodes) <= FEW
        if few and self._hears_lines:
            try:
                self.catch_up(lambda: place_in(frame.f_code, line))
            except Exception as error:  # raised here, in a tracer, it would end the person's code
                self._hears_lines = False
                say_not_followed(error)

    @unheard()
    def add_unused(self, variables: Mapping[str, Any], since: int) -> None:
        """Read the graphs of variables made since a sequence number, when no call was heard."""
        made = [
            (node, name, one)
            for name, one in variables.items()
            if is_tensor(one)
            and not walk.any_too_deep()
            and not one._is_view()  # reading a stale view's grad_fn would make a Node
            and one.grad_fn is not None
            and walk.age(node := one.grad_fn) >= since
        ]
        for node, name, tensor in sorted(made, key=lambda one: -walk.age(one[0])):
            if self.reader.id_of(node) is None:
                known_before = set(self.reader.nodes)
                self.reader.add_roots([tensor], {**names.names_of(variables), id(tensor): name})
                self._add_forward(set(self.reader.nodes) - known_before)
        self._see_leaves()

    @unheard()
    def catch_up(self, line: Callable[[], Place | None] = lambda: None) -> None:
        """Note what changed outside calls: ``.grad`` reset or edited, saved tensors written.

        Parameters
        ----------
        line : callable
            Gives the line that did it, where that is known; asked only if something changed.
        """
        with self.lock:
            if self.runs_elsewhere:
                return  # the next one will see it
            count = len(self.events)
            self._add_grad_changes(line)
            self._add_gone(line)
            self._add_writes(line)
            if len(self.events) > count:
                self.told()

    def _add_grad_changes(self, line: Callable[[], Place | None], call: int | None = None) -> None:
        """Note which ``.grad`` is another than when it was last seen."""
        for key, known in self.reader.leaves.items():
            leaf = known.tensor()
            if leaf is not None and not known.grad.stands(leaf):
                self._add_grad_change(key, line(), call)

    def _add_grad_change(self, key: str, line: Place | None, call: int | None) -> None:
        before = self.reader.leaves[key].grad.text
        seen = self.reader.see_grad(key)
        after = seen.text
        if before == after:  # another tensor of the same value, such as zeros anew
            return
        name = self.reader.leaves[key].name
        reset = seen.value is None or seen.value.is_zero
        what = "was reset" if reset else "was changed"
        # A hook may do it, or whoever waits for the end of the pass, as DistributedDataParallel.
        when = f" while call {call} ran" if call else "" if reset else " outside the recorded calls"
        self._note(
            Frame(
                "zero" if reset else "write",
                f"{name}.grad {what}{when}: {before} → {after}",
                call=call,
                leaf=name,
                leaf_id=key,
                line=line,
                before=before,
                after=after,
            )
        )

    def _add_gone(self, line: Callable[[], Place | None]) -> None:
        gone = self.reader.drop_dead()
        if gone:
            states: dict[str, SlotState] = {}
            for node_id, changed in gone.items():
                states |= slot_states(node_id, list(changed.values()))
            titles = [self.reader.nodes[node_id].record.title for node_id in gone]
            text = f"Nothing refers to {listed(titles)} any more: gone, with the saved tensors."
            if not self._follow_all and not self.calls:
                text += " A graph lives as long as its result: keep that in a variable."
            self._note(Frame("write", text, line=line(), slots=states))

    def _add_writes(self, line: Callable[[], Place | None]) -> None:
        """Add a frame for each Node of which a saved tensor was changed in place."""
        for node in walk.walk(self._living_starts()).nodes:
            changed = self.reader.refresh(node)
            written = [slot.name for slot in changed.values() if slot.state == saved.CHANGED]
            node_id = self.reader.id_of(node)
            if written and node_id is not None:
                title = self.reader.nodes[node_id].record.title
                text = (
                    f"{listed(written)}, saved by {title}, was changed in place: a backward "
                    "pass that needs it will stop there."
                )
                states = slot_states(node_id, list(changed.values()))
                self._note(Frame("write", text, node=node_id, line=line(), slots=states))

    def _living_starts(self) -> list[Any]:
        return [known.node for known in self.reader.roots]

    # ---- at the beginning of a call

    def _is_alive(self) -> bool:
        return any(known.tag() is not None for known in self.reader.nodes.values())

    def _is_known(self, starts: Sequence[Any]) -> bool:
        return any(self.reader.id_of(node) is not None for node in walk.walk(starts).nodes)

    def _see_leaves(self) -> None:
        for key, known in self.reader.leaves.items():
            self.start_grads.setdefault(key, known.grad.text)

    def _add_forward(self, new: set[str]) -> None:
        """Note which Nodes the forward pass has made, in the order in which they were made."""
        made = [known for key, known in self.reader.nodes.items() if key in new]
        if made:
            made.reverse()  # engine order is youngest first
            self._add(ForwardRan(made, [known.slots for known in made]))

    def _add_call(self, call: Call, watched: WatchedCall) -> None:
        entering: dict[str, str] = {}
        for root, gradient in zip(call.roots, call.gradients, strict=False):
            for place, known in enumerate(self.reader.roots):
                if known.tensor() is root and isinstance(gradient, torch.Tensor):
                    entering[f"r{place}"] = value_text(gradient)
        enters = [
            f"{value} enters at {self.reader.roots[int(place[1:])].record.name}"
            for place, value in entering.items()
        ]
        record = self.calls[-1]
        inside = "" if record.inside is None else f" inside call {record.inside}"
        what = f": the gradient {listed(enters)}" if enters else ""
        self._note(
            Frame(
                "call",
                f"Call {watched.number} begins{inside}{what}.",
                call=watched.number,
                line=call.place,
                incoming=", ".join(entering.values()) or None,
                gradients=entering,
            )
        )

    # ---- at its end

    def _add_return(self, call: Call, watched: WatchedCall) -> None:
        born = self._read_born(call, watched)
        self._note(endings.returned(call, watched, [self.reader.nodes[key] for key in born]))

    def _read_born(self, call: Call, watched: WatchedCall) -> tuple[str, ...]:
        """Read the Nodes that a call with create_graph made."""
        if not call.create_graph:
            return ()
        before = set(self.reader.nodes)
        if call.kind == "grad":
            made = [one for one in call.results if isinstance(one, torch.Tensor)]
            labels = {id(one): f"gradient {place + 1}" for place, one in enumerate(made)}
        else:
            made, labels = [], {}
            for known in self.reader.leaves.values():
                leaf = known.tensor()
                if leaf is not None and leaf.grad is not None:
                    made.append(leaf.grad)
                    labels[id(leaf.grad)] = f"{known.name}.grad"
        made = [one for one in made if one.grad_fn is not None]
        self.reader.add_roots(made, labels, born_in=watched.number)
        self._see_leaves()
        return tuple(key for key in self.reader.nodes if key not in before)

    def _add_stop(self, call: Call, watched: WatchedCall) -> None:
        self.calls[watched.number - 1] = replace(self.calls[watched.number - 1], failed=True)
        node = self.reader.nodes[watched.started[-1]].record if watched.started else None
        self._note(endings.stopped(call, watched, node, self.calls))

    def _note(self, frame: Frame) -> None:
        self._add(Noted(frame))

    def _add(self, event: Event) -> None:
        if len(self.events) < FRAME_LIMIT:
            event.held = self.reader.held.total
            self.events.append(event)
        else:
            self.left_out = (
                f"The recording is full ({FRAME_LIMIT:,} frames): what came later is not in it."
            )


class _Ear:
    """What listens in a recorder's place: it does not keep the recorder alive."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = weakref.ref(recorder)

    def begin(self, call: Call) -> None:
        recorder = self._recorder()
        if recorder is not None:
            recorder.begin(call)

    def end(self, call: Call) -> None:
        recorder = self._recorder()
        if recorder is not None:
            recorder.end(call)


def _nothing() -> None:
    """Do nothing."""
