"""The recording as plain JSON: the shape that `Recording.to_dict` gives and the browser gets."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

Line = tuple[int, int] | list[int]
"""A source's index and a line number in it."""


class SlotData(TypedDict):
    """A saved-tensor place: its name, ``f32[1]``, and its bytes (None where unknown).

    Slots with the same ``storage`` share it; None where it was never seen.
    """

    name: str
    type: str
    nbytes: int | None
    storage: NotRequired[int | None]


class NodeData(TypedDict):
    """A Node.

    ``born_in`` is the call that made it under ``create_graph=True``, ``after`` the last call that
    had begun when it was made, 0 for none.
    """

    title: str
    name: str
    gives: str
    line: Line | None
    born_in: int | None
    after: NotRequired[int]
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
    """One step; see `secondpass.replay.frames.Frame`."""

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


def complete(data: RecordingData) -> RecordingData:
    """Return a recording in which an edge leads to every root."""
    known = {edge["target"] for edge in data["edges"]}
    missing: list[EdgeData] = [
        {"id": f"{root['source']}-{name}-0", "source": root["source"], "target": name}
        for name, root in data["roots"].items()
        if name not in known
    ]
    return {**data, "edges": [*data["edges"], *missing]}
