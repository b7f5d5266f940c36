"""What the picture shows at a step of a recording: a pure fold over its frames.

The same fold stands in ``static/widget.js``; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from secondpass.picture.data import EdgeData, FrameData, RecordingData

KEPT = "kept"
"""The state of a slot that a call went through with ``retain_graph=True``."""

UNBORN = "unborn"
"""The state of a slot whose Node does not exist yet."""


@dataclass
class Stack:
    """The ``.grad`` of a leaf: one segment per gradient that was added since it was last reset.

    Attributes
    ----------
    grad : str or None
        The sum, None where there is no ``.grad``.
    segments : list of (call, value)
        The call is None for what lay there before.
    """

    grad: str | None = None
    segments: list[list[Any]] = field(default_factory=list)


@dataclass
class Pass:
    """How far one call has come: the Nodes and leaves it went through, what it carried."""

    done: dict[str, str] = field(default_factory=dict)
    here: list[str] = field(default_factory=list)
    carried: dict[str, str] = field(default_factory=dict)


@dataclass
class State:
    """What the picture shows after some frames.

    Attributes
    ----------
    slots : dict
        ``"n0.self"`` to its state and the call that put it there.
    leaves : dict
        Leaf id to its stack.
    passes : dict
        Call number to how far it has come.
    marks : dict
        Id of a Node, leaf or root to ``now``, ``done`` or ``stopped``, for the present call.
    carried : dict
        Edge id (root id, where it enters) to the gradient that travelled in the present call.
    now : list of str
        Of these, the ones that travel in the present frame.
    unborn : dict
        Ids of Nodes that do not exist yet.
    held : int
        Bytes that saved tensors hold.
    call : int or None
        The present call; between calls the last one, if it stopped.
    """

    slots: dict[str, list[Any]]
    leaves: dict[str, Stack]
    unborn: dict[str, bool]
    held: int
    call: int | None = None
    passes: dict[str, Pass] = field(default_factory=dict)
    marks: dict[str, str] = field(default_factory=dict)
    carried: dict[str, str] = field(default_factory=dict)
    now: list[str] = field(default_factory=list)


def state_at(data: RecordingData, step: int) -> State:
    """Return the state after the first ``step`` frames.

    Parameters
    ----------
    data : dict
        A recording as `Recording.to_dict` gives it.
    step : int
        0 is the state before any frame.
    """
    state = _start(data)
    for frame in data["frames"][:step]:
        _apply(state, frame, data["edges"])
    return state


def _start(data: RecordingData) -> State:
    start = data["start"]
    stacks = {}
    for leaf in data["leaves"]:
        grad = _grad(start["leaves"].get(leaf, {}).get("grad"))
        stacks[leaf] = Stack(grad, [] if grad is None else [[None, grad]])
    return State(
        slots={key: list(value) for key, value in start["slots"].items()},
        leaves=stacks,
        unborn={node: True for frame in data["frames"] for node in frame["born"]},
        held=start["held"],
    )


def _apply(state: State, frame: FrameData, edges: Sequence[EdgeData]) -> None:
    kind, call = frame["kind"], frame["call"]
    for node in frame["born"]:
        state.unborn.pop(node, None)
    for key, (name, by) in frame["slots"].items():
        # A slot that is held after a call went through its Node was kept by that call.
        kept = kind == "node" and name == "held"
        state.slots[key] = [KEPT, call] if kept else [name, by]
    state.held = frame["held"]
    _collect(state.leaves, frame)
    _move(state, frame, edges)


def _collect(leaves: dict[str, Stack], frame: FrameData) -> None:
    """Change the stack of the leaf that a frame is about."""
    kind, leaf = frame["kind"], frame["leaf"]
    if leaf is None:
        return
    if kind == "accumulate":
        _add(leaves.setdefault(leaf, Stack()), frame)
    elif kind == "zero":
        leaves[leaf] = Stack(_grad(frame["after"]))
    elif kind == "write":  # a clipped gradient is no longer a sum
        grad = _grad(frame["after"])
        leaves[leaf] = Stack(grad, [] if grad is None else [[None, grad]])


def stacks(data: RecordingData) -> Iterator[tuple[str, Stack]]:
    """Go through every stack that a leaf has in a recording, with the leaf's id."""
    leaves = _start(data).leaves
    for frame in data["frames"]:
        if frame["leaf"] is not None:
            _collect(leaves, frame)
            yield frame["leaf"], leaves.get(frame["leaf"], Stack())


def slot_state(state: State, node: str, slot: str) -> list[Any]:
    """Return the state of a slot, and the call that put it there."""
    if node in state.unborn:
        return [UNBORN, None]
    return state.slots.get(f"{node}.{slot}", ["held", None])


def _add(stack: Stack, frame: FrameData) -> None:
    before = _grad(frame["before"])
    if before != stack.grad:  # it was changed where nobody looked
        stack.segments = [] if before is None else [[None, before]]
    stack.segments = [*stack.segments, [frame["call"], frame["incoming"]]]
    stack.grad = _grad(frame["after"])


def _move(state: State, frame: FrameData, edges: Sequence[EdgeData]) -> None:
    """Mark where the present call is, what it has gone through and what travels."""
    kind, call = frame["kind"], frame["call"]
    here = [name for name in (frame["node"], frame["leaf"]) if name is not None]
    if call is None:
        # Between calls only the place where the last one stopped stays marked.
        state.marks = {key: mark for key, mark in state.marks.items() if mark == "stopped"}
        state.carried, state.now = {}, []
        state.call = state.call if state.marks else None
        state.marks.update(dict.fromkeys([*here, *frame["born"]], "now"))
        return
    if kind == "call":
        state.passes[str(call)] = Pass()
        here = list(frame["gradients"])
    state.call = call
    progress = state.passes.setdefault(str(call), Pass())
    progress.done.update(dict.fromkeys(progress.here, "done"))
    progress.here = [] if kind == "return" else here
    progress.done.update(dict.fromkeys(progress.here, "stopped" if kind == "stop" else "now"))
    progress.carried.update(frame["gradients"])
    state.marks, state.carried = progress.done, progress.carried
    state.now = list(frame["gradients"])
    if kind in ("accumulate", "stop"):
        arrived = [carrier(edge, state.carried) for edge in edges if edge["source"] in here]
        state.now = [key for key in arrived if key is not None]


def carrier(edge: EdgeData, carried: Mapping[str, str]) -> str | None:
    """Return the key under which a gradient travelled along an edge: its id, or its root's."""
    return next((key for key in (edge["id"], edge["target"]) if key in carried), None)


def _grad(text: str | None) -> str | None:
    return None if text == "None" else text


def failed_way(data: RecordingData, state: State) -> set[str]:
    """Return the ids of the edges that led the present call to where it stopped."""
    reached = {name for name, mark in state.marks.items() if mark == "stopped"}
    found: set[str] = set()
    following: dict[str, list[EdgeData]] = {}
    for edge in data["edges"] if reached else ():
        following.setdefault(edge["source"], []).append(edge)
    queue = list(reached)
    # After the call has ended nothing travels any more, but the way that it went stays.
    went = state.passes.get(str(state.call), Pass())
    carried = state.carried or went.carried
    if not carried and queue:  # what travelled was not recorded: the shortest way
        return _shortest_way(following, queue)
    for here in queue:
        for edge in following.get(here, ()):
            if carrier(edge, carried) is None:
                continue
            found.add(edge["id"])
            if edge["target"] not in reached:
                reached.add(edge["target"])
                queue.append(edge["target"])
    return found


def _shortest_way(following: Mapping[str, Sequence[EdgeData]], queue: list[str]) -> set[str]:
    """Return the ids of the edges on the shortest way forward from some Nodes to a root."""
    came: dict[str, EdgeData | None] = dict.fromkeys(queue)
    for here in queue:
        if here not in following:
            found, edge = set(), came[here]
            while edge is not None:
                found.add(edge["id"])
                edge = came[edge["source"]]
            return found
        for edge in following[here]:
            if edge["target"] not in came:
                came[edge["target"]] = edge
                queue.append(edge["target"])
    return set()
