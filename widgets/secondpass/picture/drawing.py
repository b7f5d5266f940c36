"""A recording (or a graph) as SVG: boxes, chips, stacks and edges, drawn here and nowhere else.

Without a state the picture is a stage that ``static/widget.js`` plays on: it sets classes and
fills what moves, and never lays out. With a state it is a still of that moment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from secondpass.picture import stills
from secondpass.picture.boundary import possible
from secondpass.picture.boxes import box_of, frame_of, place_badges, size_of
from secondpass.picture.data import RecordingData
from secondpass.picture.grouping import Group
from secondpass.picture.layout import WORDS, Box, Layout, lay_out
from secondpass.picture.state import State
from secondpass.picture.svg import element, group, text
from secondpass.picture.views import View, view_of

MARGIN = 18
GRID_WIDTH = 1_100
"""Leaves of an open bundle stand in rows of at most this width."""


_STATIC = Path(__file__).parent / "static"


@dataclass(frozen=True)
class Drawing:
    """A view that has been laid out."""

    view: View
    layout: Layout
    borders: dict[tuple[str, str, int], dict[str, int]] = field(default_factory=dict)
    """Each line that may lead from a new graph into a freed one: its edges, and what call freed."""


def plan(data: RecordingData, opened: list[str] | None = None) -> Drawing | None:
    """Choose what is drawn and lay it out; None where there is no layout engine.

    Parameters
    ----------
    data : dict
        A recording as `Recording.to_dict` gives it.
    opened : list of str, optional
        The ids of the groups that are open; None leaves the choice to us.
    """
    view = view_of(data, opened)
    bundles = [name for name in view.open if view.groups[name].members[0] in data["leaves"]]
    grids = {name: _grid(name, data, view) for name in bundles if view.open[name] not in bundles}
    boxes = [
        Box(name, *size_of(name, data, view), frame)
        for name, frame in view.boxes.items()
        if frame not in bundles
    ]
    boxes += [Box(name, *grid.size, view.open[name]) for name, grid in grids.items()]
    edges = [(_edge_name(key), key[0], key[1]) for key in view.edges]
    frames = [(name, around) for name, around in view.open.items() if name not in bundles]
    over = possible(data)
    borders = {
        key: found
        for key, ids in view.edges.items()
        if (found := {name: over[name] for name in ids if name in over})
    }
    layout = lay_out(boxes, edges, frames, {_edge_name(key) for key in borders})
    if layout is None:
        return None
    if _runs_left(data, layout):
        layout = layout.mirrored(boxes)
    for name, grid in grids.items():
        left, top = layout.boxes.pop(name)
        layout.frames[name] = (left, top, *grid.size)
        for child, (x, y) in grid.boxes.items():
            layout.boxes[child] = (left + x, top + y)
        for child, (x, y, width, height) in grid.frames.items():
            layout.frames[child] = (left + x, top + y, width, height)
    return Drawing(view, layout, borders)


def _runs_left(data: RecordingData, layout: Layout) -> bool:
    """Say whether more results stand left of an earlier one than right of it."""
    places = [layout.boxes[name][0] for name in data["roots"] if name in layout.boxes]
    pairs = [(old, new) for at, new in enumerate(places) for old in places[:at]]
    return sum((new > old) - (new < old) for old, new in pairs) < 0


@dataclass
class _Grid:
    """Leaves in rows, in an open bundle: size, and where its boxes and inner bundles lie."""

    size: tuple[int, int] = (0, 0)
    boxes: dict[str, tuple[int, int]] = field(default_factory=dict)
    frames: dict[str, tuple[int, int, int, int]] = field(default_factory=dict)


def _grid(name: str, data: RecordingData, view: View) -> _Grid:
    grid = _Grid()
    left = x = 16
    y, below, right = 34, 34, 0
    for child in view.groups[name].children:
        inner = None
        key = child.id if isinstance(child, Group) else child
        if key in view.open:
            inner = _grid(key, data, view)
        width, height = inner.size if inner else size_of(key, data, view)
        if x > left and x + width > GRID_WIDTH:
            x, y = left, below
        if inner is None:
            grid.boxes[key] = (x, y)
        else:
            grid.frames[key] = (x, y, width, height)
            grid.boxes |= {one: (x + a, y + b) for one, (a, b) in inner.boxes.items()}
            grid.frames |= {one: (x + a, y + b, w, h) for one, (a, b, w, h) in inner.frames.items()}
        x += width + 16
        right, below = max(right, x), max(below, y + height + 16)
    grid.size = (right, below)
    return grid


def draw(
    data: RecordingData, drawing: Drawing, state: State | None = None, *, prefix: str = "view"
) -> str:
    """Return the picture as a string of SVG.

    Parameters
    ----------
    data : dict
    drawing : Drawing
        As `plan` gives it for the same data.
    state : State, optional
        The moment to show; without it the picture is the empty stage of the player.
    prefix : str
        Stands before every id.
    """
    view, layout = drawing.view, drawing.layout
    width, height = layout.width + 2 * MARGIN, layout.height + 2 * MARGIN
    world = group("world", transform=f"translate({MARGIN},{MARGIN})")
    world.extend(_edges(data, drawing))
    for name in view.open:  # over the edges, so that none crosses a title
        world.append(frame_of(view.groups[name], layout.frames[name]))
    for name in view.boxes:
        box = box_of(name, data, view)
        x, y = layout.boxes[name]
        box.set("transform", f"translate({x},{y})")
        box.set("id", f"{prefix}-{name}")
        world.append(box)
    heads = (
        (key[1], curve[-1][0] - layout.boxes[key[1]][0])
        for key in view.edges
        for curve in [layout.curves[_edge_name(key)]]
        if key[1] in layout.boxes
    )
    place_badges(world, heads, max((call["number"] for call in data["calls"]), default=1))
    world.extend(_borders(drawing))
    world.append(group("pills"))
    root = element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": "sp-picture",
            "width": str(width),
            "height": str(height),
            "viewBox": f"0 0 {width} {height}",
        },
    )
    if state is not None:
        stills.paint(world, data, state)
        root.append(element("style", {}, f"{_still_css()} .sign {{ display: none }}"))
        root.append(
            element("rect", {"class": "ground", "width": str(width), "height": str(height)})
        )
    root.append(world)
    return ElementTree.tostring(root, encoding="unicode")


def _still_css() -> str:
    """Return the picture's style sheet with the light colours written in, for any SVG viewer."""
    css = (_STATIC / "picture.css").read_text(encoding="utf-8")
    light = dict(re.findall(r"(--sp-[\w-]+):\s*([^;]+);", css.partition("}")[0]))
    css = re.sub(r"/\*.*?\*/", "", css.partition("}")[2], flags=re.DOTALL)
    css = re.sub(r"var\((--sp-[\w-]+)\)", lambda found: light[found[1]], css)
    return re.sub(r"\s+", " ", css).strip()


def _edge_name(key: tuple[str, str, int]) -> str:
    return f"{key[0]}--{key[1]}--{key[2]}"


def _edges(data: RecordingData, drawing: Drawing) -> Iterable[ElementTree.Element]:
    for key, names in drawing.view.edges.items():
        curve = drawing.layout.curves[_edge_name(key)]
        edge = group("edge")
        edge.set("data-edge", names[0])
        if len(names) > 1:
            edge.set("data-edges", " ".join(names))
        edge.set("data-source", key[0])
        edge.set("data-target", key[1])
        edge.append(element("path", {"class": "way", "d": f"M{_curve(curve)}"}))
        edge.append(_head("head", curve[-2], curve[-1]))
        edge.append(_head("head back", curve[1], curve[0]))
        yield edge


def _borders(drawing: Drawing) -> Iterable[ElementTree.Element]:
    """Draw, where a new graph may meet a freed one, a line across and words on both sides of it."""
    mirrored = drawing.layout.is_mirrored
    for key, edges in drawing.borders.items():
        x, y = drawing.layout.words[_edge_name(key)]
        width = WORDS[0]
        border = group("border", transform=f"translate({x - width // 2},{y})")
        border.set("data-border", " ".join(edges))
        # The line is across the edge, which is left of the room for words, or right of it.
        way, left, kind = ("M16,0H", width - 14, "end") if mirrored else ("M-16,0H", 14, "")
        across = f"{way}{width + 16 if mirrored else width - 16}"
        border.append(element("path", {"class": "across", "d": across}))
        call = min(edges.values())
        border.append(text(kind, left, -7, f"old: freed by call {call}"))
        border.append(text(kind, left, 16, "new: made since"))
        yield border


def _curve(points: Sequence[tuple[int, int]]) -> str:
    first, *rest = [f"{x},{y}" for x, y in points]
    return f"{first}C{' '.join(rest)}"


def _head(kind: str, before: tuple[int, int], tip: tuple[int, int]) -> ElementTree.Element:
    """Draw an arrow head whose point is ``tip``."""
    dx: float = tip[0] - before[0]
    dy: float = tip[1] - before[1]
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    dx, dy = dx / length, dy / length
    points = [tip]
    for side in (1, -1):
        x, y = tip[0] - 9 * dx - side * 4.5 * dy, tip[1] - 9 * dy + side * 4.5 * dx
        points.append((round(x), round(y)))
    return element("path", {"class": kind, "d": f"M{'L'.join(f'{x},{y}' for x, y in points)}Z"})
