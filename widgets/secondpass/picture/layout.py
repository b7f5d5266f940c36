"""Where boxes and edges lie: the one place that runs a Graphviz program.

It gets boxes of fixed size and no text at all, and gives positions and splines back.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import graphviz

IN_A_ROW = 6
"""So many leaves of one Node (or results of one leaf) stand side by side."""

LARGE = 150
"""From so many boxes on, quick comes before narrow: else the program takes minutes."""

Point = tuple[int, int]

TIME_LIMIT = 20.0
"""Seconds after which a layout is given up."""

WORDS = (176, 44)
"""Width and height of the room for words beside an edge."""

_EMPTY = '<<TABLE BORDER="0" FIXEDSIZE="TRUE" WIDTH="{}" HEIGHT="{}"><TR><TD></TD></TR></TABLE>>'

FRAME_TITLE = 22
"""Height of the title of an open group."""


@dataclass(frozen=True)
class Box:
    """A rectangle to be placed; ``frame`` is the open group it stands in."""

    id: str
    width: int
    height: int
    frame: str | None = None


@dataclass(frozen=True)
class Layout:
    """Where everything lies, in pixels, y downwards.

    Attributes
    ----------
    width, height : int
    boxes : dict
        Box id to its left upper corner.
    frames : dict
        Id of an open group to ``(left, top, width, height)``.
    curves : dict
        Edge id to the points of a cubic Bézier path from source to target.
    words : dict
        Edge id to the middle of the room for words beside it, right of it; left, where mirrored.
    """

    width: int
    height: int
    boxes: dict[str, Point]
    frames: dict[str, tuple[int, int, int, int]]
    curves: dict[str, list[Point]]
    words: dict[str, Point]
    is_mirrored: bool = False

    def mirrored(self, boxes: Sequence[Box]) -> Layout:
        """Return the same with left and right changed."""
        wide = {box.id: box.width for box in boxes}
        total = self.width
        return Layout(
            total,
            self.height,
            {name: (total - x - wide[name], y) for name, (x, y) in self.boxes.items()},
            {name: (total - x - w, y, w, h) for name, (x, y, w, h) in self.frames.items()},
            {name: [(total - x, y) for x, y in curve] for name, curve in self.curves.items()},
            {name: (total - x, y) for name, (x, y) in self.words.items()},
            not self.is_mirrored,
        )


def find_engine() -> str | None:
    """Return the path of the program that lays out: ``GRAPHVIZ_DOT``, graphviz-pure, or dot."""
    named = os.environ.get("GRAPHVIZ_DOT")
    if named:
        return shutil.which(named)
    # The environment's programs need not be on the PATH of a kernel.
    folders = [Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))]
    for folder in folders:
        found = shutil.which("graphviz-pure", path=str(folder))
        if found:
            return found
    return shutil.which("graphviz-pure") or shutil.which("dot")


def lay_out(
    boxes: Sequence[Box],
    edges: Sequence[tuple[str, str, str]],
    frames: Sequence[tuple[str, str | None]] = (),
    roomy: Collection[str] = (),
) -> Layout | None:
    """Place boxes so that edges point downwards.

    Parameters
    ----------
    boxes : sequence of Box
    edges : sequence of (id, source, target)
    frames : sequence of (id, id of the frame around it or None)
        The outer frame stands before those in it.
    roomy : collection of str
        The edges that need room for words beside them.

    Returns
    -------
    Layout or None
        None where no program is found, or it fails.
    """
    engine = find_engine()
    if engine is None:
        return None
    try:
        done = subprocess.run(
            [engine, "-Kdot", "-Tjson0"],
            input=_dot(boxes, edges, frames, roomy),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=TIME_LIMIT,
            check=True,
        )
        return _read(json.loads(done.stdout), boxes)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return None


def _dot(
    boxes: Sequence[Box],
    edges: Sequence[tuple[str, str, str]],
    frames: Sequence[tuple[str, str | None]],
    roomy: Collection[str] = (),
) -> str:
    quick = {"nslimit": "1", "nslimit1": "1", "mclimit": "0.1"} if len(boxes) > LARGE else {}
    dot = graphviz.Digraph(
        graph_attr={"nodesep": "0.25", "ranksep": "0.56", **quick},
        node_attr={"shape": "box", "fixedsize": "true", "label": ""},
        edge_attr={"dir": "none"},
    )
    children: dict[str | None, list[str]] = {}
    for frame, around in frames:
        children.setdefault(around, []).append(frame)

    def fill(inside: graphviz.Digraph, name: str | None) -> None:
        for box in boxes:
            if box.frame == name:
                inside.node(box.id, width=f"{box.width / 72:.4f}", height=f"{box.height / 72:.4f}")
        for frame in children.get(name, []):
            # An empty label reserves the room for the title.
            title = {"label": " ", "labelloc": "t", "fontsize": str(FRAME_TITLE), "margin": "14"}
            with inside.subgraph(name=f"cluster_{frame}", graph_attr=title) as cluster:
                fill(cluster, frame)

    fill(dot, None)
    behind: dict[str, int] = {}
    first = {source for _, source, _ in edges} - {target for _, _, target in edges}
    last = {target for _, _, target in edges} - {source for _, source, _ in edges}
    for name, source, target in edges:
        # Many leaves of one Node, or many graphs on one leaf, stand in several rows.
        hub = (
            target if source in first and target not in last else source if target in last else None
        )
        row = behind.get(hub, 0) // IN_A_ROW if hub else 0
        if hub:
            behind[hub] = behind.get(hub, 0) + 1
        more = {"minlen": str(1 + row)} if row else {}
        if name in roomy:
            more["label"] = _EMPTY.format(*WORDS)
        dot.edge(source, target, id=name, **more)
    return str(dot.source)


def _read(answer: dict[str, object], boxes: Sequence[Box]) -> Layout:
    """Turn Graphviz's JSON (points, y upwards) into a Layout (integers, y downwards)."""
    left, low, right, high = _numbers(answer["bb"])
    size = {box.id: box for box in boxes}
    places: dict[str, Point] = {}
    frames: dict[str, tuple[int, int, int, int]] = {}
    for thing in answer.get("objects", []):  # type: ignore[attr-defined]
        name = thing["name"]
        if name in size:
            x, y = _numbers(thing["pos"])
            box = size[name]
            places[name] = (round(x - left - box.width / 2), round(high - y - box.height / 2))
        elif name.startswith("cluster_") and "bb" in thing:
            x0, y0, x1, y1 = _numbers(thing["bb"])
            frames[name.removeprefix("cluster_")] = (
                round(x0 - left),
                round(high - y1),
                round(x1 - x0),
                round(y1 - y0),
            )
    curves = {
        edge["id"]: [
            (round(x - left), round(high - y))
            for x, y in (_numbers(point) for point in edge["pos"].split(" "))
        ]
        for edge in answer.get("edges", [])  # type: ignore[attr-defined]
    }
    words = {
        edge["id"]: (round(x - left), round(high - y))
        for edge in answer.get("edges", [])  # type: ignore[attr-defined]
        if "lp" in edge
        for x, y in [_numbers(edge["lp"])]
    }
    if places.keys() != size.keys():
        raise ValueError("the layout lacks boxes")
    return Layout(round(right - left), round(high - low), places, frames, curves, words)


def _numbers(text: object) -> list[float]:
    return [float(part) for part in str(text).split(",")]
