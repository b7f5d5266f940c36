"""The views that a saved page needs to open its groups: there is nobody to lay them out there."""

from __future__ import annotations

import base64
import gzip
import json
from collections import deque
from typing import TypedDict

from secondpass.picture.data import RecordingData
from secondpass.picture.drawing import draw, plan

LONGEST = 6_000_000
"""Characters of all views of a page together; packed it is an eighth. Groups behind stay closed."""


class Opening(TypedDict):
    """A view in which a group is open, and what is around it."""

    svg: str
    around: str


def openings(data: RecordingData) -> dict[str, Opening]:
    """Lay out the view of each group opened, with no other open but those around it.

    Parameters
    ----------
    data : dict
        A recording as `Recording.to_dict` gives it.

    Returns
    -------
    dict from str to Opening
        By the id of the group, the outer ones first; ``""`` is the view in which all are closed.
        Empty where there are no groups, or nothing can be laid out.
    """
    found: dict[str, Opening] = {}
    todo: deque[tuple[str, tuple[str, ...]]] = deque([("", ())])
    length = 0
    while todo and length < LONGEST:
        name, way = todo.popleft()
        drawing = plan(data, list(way))
        if drawing is None or not drawing.view.groups:
            return {}
        found[name] = Opening(svg=draw(data, drawing), around=way[-2] if len(way) > 1 else "")
        length += len(found[name]["svg"])
        view = drawing.view
        waiting = {one for one, _ in todo}
        for box in view.boxes:
            if box in view.groups and box not in found and box not in waiting:
                todo.append((box, (*_around(box, view.boxes, view.open), box)))
    return found


def packed(views: dict[str, Opening]) -> str:
    """Return the views as gzip in base64, which a browser unpacks; the same for the same views."""
    text = json.dumps(views, ensure_ascii=False).encode()
    return base64.b64encode(gzip.compress(text, mtime=0)).decode() if views else ""


def _around(
    box: str, boxes: dict[str, str | None], frames: dict[str, str | None]
) -> tuple[str, ...]:
    """Return the open groups that a box stands in, the outermost first."""
    way: list[str] = []
    frame = boxes[box]
    while frame is not None:
        way.append(frame)
        frame = frames[frame]
    return tuple(reversed(way))
