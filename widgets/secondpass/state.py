"""What the picture shows at a step of a recording: a pure fold over its frames.

The same fold stands in ``static/widget.js``; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from secondpass.saved import bytes_text

Line = tuple[int, int] | list[int]
"""A source's index and a line number in it."""

KEPT = "kept"
"""The state of a slot that a call went through with ``retain_graph=True``."""

UNBORN = "unborn"
"""The state of a slot whose Node does not exist yet."""

SUM_LENGTH = 34
"""A sum of gradients longer than this is told by its count."""


class SlotData(TypedDict):
    """A saved-tensor place: its name, ``f32[1]``, and its bytes (None where unknown)."""

    name: str
    type: str
    nbytes: int | None


class NodeData(TypedDict):
    """A Node: ``born_in`` is the call that made it under ``create_graph=True``."""

    title: str
    name: str
    gives: str
    line: Line | None
    born_in: int | None
    slots: list[SlotData]


class TensorData(TypedDict):
    """A leaf."""

    name: str
    type: str
    value: str


class RootData(TensorData):
    """A root, and the Node or leaf that made it."""

    source: str


class EdgeData(TypedDict):
    """A tensor on its way, in the forward direction."""

    id: str
    source: str
    target: str


class FrameData(TypedDict):
    """One step; see `secondpass.recording.Frame`."""

    kind: str
    call: int | None
    node: str | None
    leaf: str | None
    line: Line | None
    before: str | None
    incoming: str | None
    after: str | None
    text: str
    gradients: dict[str, str]
    slots: dict[str, list[Any]]
    held: int
    born: list[str]


class CallData(TypedDict):
    """One backward call."""

    number: int
    title: str
    stopped: bool
    line: Line | None


class SourceData(TypedDict):
    """Lines of the person's own code; ``first`` is the number of the first of them."""

    name: str
    first: int
    lines: list[str]


class StartData(TypedDict):
    """What stood before the first frame."""

    slots: dict[str, list[Any]]
    leaves: dict[str, dict[str, str | None]]
    held: int


class RecordingData(TypedDict):
    """A recording as plain JSON: what `Recording.to_dict` gives and the browser gets."""

    calls: list[CallData]
    sources: list[SourceData]
    frames: list[FrameData]
    start: StartData
    nodes: dict[str, NodeData]
    leaves: dict[str, TensorData]
    roots: dict[str, RootData]
    edges: list[EdgeData]
    left_out: str
    summary: str


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


def complete(data: RecordingData) -> RecordingData:
    """Return a recording in which an edge leads to every root."""
    known = {edge["target"] for edge in data["edges"]}
    missing: list[EdgeData] = [
        {"id": f"{root['source']}-{name}-0", "source": root["source"], "target": name}
        for name, root in data["roots"].items()
        if name not in known
    ]
    return {**data, "edges": [*data["edges"], *missing]}


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
    leaf = frame["leaf"]
    if kind == "accumulate" and leaf is not None:
        _add(state.leaves.setdefault(leaf, Stack()), frame)
    elif kind == "zero" and leaf is not None:
        state.leaves[leaf] = Stack(_grad(frame["after"]))
    elif kind == "write" and leaf is not None:  # a clipped gradient is no longer a sum
        grad = _grad(frame["after"])
        state.leaves[leaf] = Stack(grad, [] if grad is None else [[None, grad]])
    _move(state, frame, edges)


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


SLOT_WORDS = {
    "held": "held",
    KEPT: "kept",
    "freed": "freed",
    "none": "nothing saved",
    "packed": "packed by hooks",
    "changed": "changed in place",
    "unknown": "cannot be seen",
    UNBORN: "not made yet",
}


def slot_words(state: str, by: int | None) -> str:
    """Return the state of a slot in words.

    Examples
    --------
    >>> slot_words("freed", 1), slot_words("kept", 2), slot_words("held", None)
    ('freed by call 1', 'kept by call 2', 'held')
    """
    words = SLOT_WORDS.get(state, state)
    return words if by is None or state not in ("freed", KEPT) else f"{words} by call {by}"


def sum_words(stack: Stack) -> str:
    """Return what lies in ``.grad`` as a sum.

    Examples
    --------
    >>> sum_words(Stack("8", [[1, "4"], [2, "4"]])), sum_words(Stack("4", [[1, "4"]]))
    ('4 + 4 = 8', '= 4')
    >>> sum_words(Stack(None)), sum_words(Stack("200", [[k, "4"] for k in range(50)]))
    ('None', 'sum of 50 = 200')
    >>> sum_words(Stack("norm 5", [[1, "norm 3"], [2, "norm 4"]]))
    'sum of 2: norm 5'
    """
    if stack.grad is None:
        return "None"
    parts = [str(value) for _, value in stack.segments]
    told = any("norm " in part for part in (stack.grad, *parts))  # norms do not add up
    if len(parts) <= 1:
        return stack.grad if told else f"= {stack.grad}"
    whole = f"{' + '.join(parts)} = {stack.grad}"
    if not told and len(whole) <= SUM_LENGTH:
        return whole
    return f"sum of {len(parts)}{':' if told else ' ='} {stack.grad}"


def bare(text: str | None, kind: str) -> str | None:
    """Return a value without the type that its leaf has too.

    Examples
    --------
    >>> bare("f32[8] norm 4", "f32[8]"), bare("4", "f32[1]")
    ('norm 4', '4')
    """
    return text.removeprefix(f"{kind} ") if text is not None else None


def failed_way(data: RecordingData, state: State) -> set[str]:
    """Return the ids of the edges that led the present call to where it stopped."""
    reached = {name for name, mark in state.marks.items() if mark == "stopped"}
    found: set[str] = set()
    following: dict[str, list[EdgeData]] = {}
    for edge in data["edges"] if reached else ():
        following.setdefault(edge["source"], []).append(edge)
    queue = list(reached)
    for here in queue:
        for edge in following.get(here, ()):
            if carrier(edge, state.carried) is None:
                continue
            found.add(edge["id"])
            if edge["target"] not in reached:
                reached.add(edge["target"])
                queue.append(edge["target"])
    return found


def group_words(
    data: RecordingData, members: Sequence[str], state: State
) -> tuple[str, float | None]:
    """Return what the saved tensors of some Nodes are in words, and the share that was freed.

    The share is None where they save nothing.
    """
    freed = slots = gone = held = 0
    for node in members:
        states = [slot_state(state, node, slot["name"])[0] for slot in data["nodes"][node]["slots"]]
        freed += "freed" in states
        slots += len(states) - states.count("none")  # where nothing was saved, nothing can go
        gone += states.count("freed")
        held += sum(
            slot["nbytes"] or 0
            for slot, name in zip(data["nodes"][node]["slots"], states, strict=True)
            if name in ("held", KEPT, "changed")
        )
    if not slots:
        return "saves nothing", None
    parts = [f"{freed:,} freed"] if freed else []
    parts.append(f"{bytes_text(held)} held" if held else "nothing held")
    return " · ".join(parts), gone / slots


def leaves_words(leaves: Sequence[str], state: State) -> str:
    """Return how many of some leaves have a ``.grad``."""
    count = sum(state.leaves[leaf].grad is not None for leaf in leaves if leaf in state.leaves)
    noun = "leaf" if len(leaves) == 1 else "leaves"
    return f"{count:,} of {len(leaves):,} {noun} with .grad"
