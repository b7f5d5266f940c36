"""The graph of a failed call as a recording of one frame: what is shown beside the words."""

from __future__ import annotations

import sys
from typing import Any

from secondpass.explaining.explanation import short_name
from secondpass.explaining.facts import Failure
from secondpass.explaining.history import FREED_BY, Heard, History, nodes_behind
from secondpass.hearing import lines
from secondpass.hearing.calls import Call
from secondpass.reading import names, saved, walk
from secondpass.replay.events import Noted
from secondpass.replay.frames import CallRecord, Frame
from secondpass.replay.recorder import Recorder
from secondpass.replay.recording import Recording


def take(call: Call, heard: Heard, failure: Failure, history: History) -> Recording | None:
    """Read a failed call's graph as it stands, with a frame that marks where it stopped.

    Returns
    -------
    Recording or None
        None where there is no graph to show.
    """
    starts = nodes_behind(call.roots)
    if not starts:
        return None
    recorder = Recorder(lines.line_of_number, follow_all=False)
    recorder.add_graph(call.roots, names.names_now(sys._getframe(1)))
    node_id = None
    for node in walk.walk(starts).nodes:
        key = recorder.reader.id_of(node)
        if key is None:
            continue
        freed_by = history.get(node.metadata.get(FREED_BY))
        if freed_by is not None:
            _name_caller(recorder, key, node, freed_by.number)
        tag = walk.tag_of(node)
        if tag is not None and tag.number == failure.tag:
            node_id = key
    for one in (failure.freed_by, heard):
        if one is not None:
            recorder.calls.append(
                CallRecord(
                    one.number,
                    one.kind,
                    one.place,
                    one.retain,
                    one.create,
                    failed=one is heard,
                    began=one.began,
                )
            )
    stop = Frame(
        "stop", _sentence(failure, heard), call=heard.number, node=node_id, line=heard.place
    )
    recorder.events.append(Noted(stop, recorder.start_held))
    return Recording(recorder)


def _name_caller(recorder: Recorder, key: str, node: Any, number: int) -> None:
    """Write into the picture which call freed a Node's slots."""
    for slot in saved.read_slots(node):
        name = f"{key}.{slot.name}"
        state = recorder.start_slots.get(name)
        if state is not None and state[0] == saved.FREED:
            recorder.start_slots[name] = (saved.FREED, number)


def _sentence(failure: Failure, heard: Heard) -> str:
    """Return what the picture says, as the replay of a recorded call says it."""
    text = f"Call {heard.number} stops"
    if failure.node:
        text += f" in {short_name(failure.node)}"
    freed_by = failure.freed_by
    if freed_by is not None:
        where = "" if freed_by.place is None else f" ({freed_by.place.where})"
        several = (
            "its saved tensors were"
            if len(failure.slots) != 1
            else (f"its saved tensor {failure.slots[0]} was")
        )
        text += f": {several} freed by call {freed_by.number}{where}"
    return f"{text}."
