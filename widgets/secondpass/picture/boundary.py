"""Where the new graph meets the freed one, on the way of a call that stopped.

A call stopped in a Node that call k freed. Somewhere between the root and that Node an edge leads
from what was made after call k began to what stood before it: what carried that edge's tensor
over is what to look for. ``static/widget.js`` has `boundary` too.
"""

from __future__ import annotations

from secondpass.picture.data import EdgeData, RecordingData
from secondpass.picture.state import State, failed_way


def boundary(data: RecordingData, state: State) -> set[str]:
    """Return the ids of the edges at which the present call, which stopped, left the new graph."""
    calls = {
        by
        for name, mark in state.marks.items()
        if mark == "stopped" and name in data["nodes"]
        for slot in data["nodes"][name]["slots"]
        for kind, by in [state.slots.get(f"{name}.{slot['name']}", ["held", None])]
        if kind == "freed" and by is not None
    }
    way = failed_way(data, state) if calls else set()
    return {
        edge["id"]
        for edge in data["edges"]
        if edge["id"] in way and any(_leads_over(data, edge, call) for call in calls)
    }


def possible(data: RecordingData) -> dict[str, int]:
    """Return every edge that could be one at some step, and the call that freed behind it."""
    freed: dict[str, int] = {}
    calls: set[int] = set()
    states = dict(data["start"]["slots"])
    for frame in data["frames"]:
        states |= frame["slots"]
        node = data["nodes"].get(frame["node"] or "") if frame["kind"] == "stop" else None
        for slot in node["slots"] if node else ():
            kind, by = states.get(f"{frame['node']}.{slot['name']}", ["held", None])
            if kind == "freed" and by is not None:
                calls.add(by)
    for call in sorted(calls):
        for edge in data["edges"]:
            if _leads_over(data, edge, call):
                freed.setdefault(edge["id"], call)
    return freed


def _leads_over(data: RecordingData, edge: EdgeData, call: int) -> bool:
    """Say whether an edge leads from a Node made before a call to one made after it began."""
    old, new = data["nodes"].get(edge["source"]), data["nodes"].get(edge["target"])
    if old is None or new is None:
        return False
    return old.get("after", 0) < call <= new.get("after", 0)
