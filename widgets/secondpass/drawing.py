"""A recording (or a graph) as SVG: boxes, chips, stacks and edges, drawn here and nowhere else.

Without a state the picture is a stage that ``static/widget.js`` plays on: it sets classes and
fills what moves, and never lays out. With a state it is a still of that moment.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from secondpass import stills
from secondpass.fitting import cells, clean, cut
from secondpass.grouping import Group, View, view_of
from secondpass.layout import Box, Layout, lay_out
from secondpass.saved import bytes_text
from secondpass.state import NodeData, RecordingData, State, TensorData, bare
from secondpass.svg import element, group, rectangle, text

MONO = 7.1
"""Width of a letter of the fixed-width text at 11.5 px."""

TITLE = 8.8
"""Width of a letter of a title at 14 px, on the safe side."""

PADDING = 14
MARGIN = 18
GRID_WIDTH = 1_100
"""Leaves of an open bundle stand in rows of at most this width."""

CHIPS = 4
"""A Node shows so many slots at most; the rest is counted."""

CHIP_HEIGHT = 38
CHIP_STEP = 43

_STATIC = Path(__file__).parent / "static"


@dataclass(frozen=True)
class Drawing:
    """A view that has been laid out."""

    view: View
    layout: Layout


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
        Box(name, *_size(name, data, view), frame)
        for name, frame in view.boxes.items()
        if frame not in bundles
    ]
    boxes += [Box(name, *grid.size, view.open[name]) for name, grid in grids.items()]
    edges = [(_edge_name(key), key[0], key[1]) for key in view.edges]
    frames = [(name, around) for name, around in view.open.items() if name not in bundles]
    layout = lay_out(boxes, edges, frames)
    if layout is None:
        return None
    for name, grid in grids.items():
        left, top = layout.boxes.pop(name)
        layout.frames[name] = (left, top, *grid.size)
        for child, (x, y) in grid.boxes.items():
            layout.boxes[child] = (left + x, top + y)
        for child, (x, y, width, height) in grid.frames.items():
            layout.frames[child] = (left + x, top + y, width, height)
    return Drawing(view, layout)


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
        width, height = inner.size if inner else _size(key, data, view)
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
    for name in view.open:
        world.append(_frame(view.groups[name], layout.frames[name]))
    world.extend(_edges(data, drawing))
    for name in view.boxes:
        box = _box(name, data, view)
        x, y = layout.boxes[name]
        box.set("transform", f"translate({x},{y})")
        box.set("id", f"{prefix}-{name}")
        world.append(box)
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
        root.append(element("style", {}, _still_css()))
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


# Sizes


def _size(name: str, data: RecordingData, view: View) -> tuple[int, int]:
    if name in data["nodes"]:
        return _node_size(data["nodes"][name], data)
    if name in data["leaves"]:
        leaf = data["leaves"][name]
        first = cells(leaf["name"]) * TITLE + 10 + cells(leaf["type"]) * MONO + 44
        return _between(max(first, 44 + cells(_leaf_value(leaf)) * MONO), 220, 300), 112
    if name in data["roots"]:
        root = data["roots"][name]
        return _between(cells(root["name"]) * TITLE + 8 + cells(root["value"]) * MONO, 110, 280), 42
    of_leaves = view.groups[name].members[0] in data["leaves"]
    height = 60 if of_leaves else 98 if name in view.inside else 80
    return _between(cells(view.groups[name].title) * TITLE + 26, 214, 340), height


def _between(content: float, least: int, most: int) -> int:
    """Return the width of a box around content; even, so that its centre is a whole number."""
    return min(most, max(least, 2 * math.ceil(content / 2) + 2 * PADDING + 2))


def _node_size(node: NodeData, data: RecordingData) -> tuple[int, int]:
    widths = [
        cells(node["title"]) * TITLE + 14 + cells(_line_words(node, data)) * MONO,
        cells(_gives_words(node)) * MONO + (100 if node["born_in"] else 0),
        *(cells(f"{slot['name']} {slot['type']} {_bytes(slot['nbytes'])}") * MONO + 34
          for slot in node["slots"][:CHIPS]),
    ]  # fmt: skip
    chips = min(CHIPS, len(node["slots"]))
    return _between(max(widths), 176, 330), 54 if not chips else 57 + chips * CHIP_STEP


def _line_words(node: NodeData, data: RecordingData) -> str:
    if not node["line"]:
        return ""
    source, number = node["line"]
    where = clean(data["sources"][source]["name"]) if len(data["sources"]) > 1 else ""
    return f"{where.rpartition('/')[2][-16:]} line {number}".strip()


def _gives_words(node: NodeData) -> str:
    parts = [f"gives {node['gives']}" if node["gives"] else ""]
    parts.append("" if node["slots"] else "saves nothing")
    return " · ".join(part for part in parts if part)


def _bytes(nbytes: int | None) -> str:
    return "" if nbytes is None else bytes_text(nbytes)


# Boxes


def _box(name: str, data: RecordingData, view: View) -> ElementTree.Element:
    width, height = _size(name, data, view)
    if name in data["nodes"]:
        box = _node(data["nodes"][name], name, data, width, height)
    elif name in data["leaves"]:
        box = _leaf(name, data, width, height)
    elif name in data["roots"]:
        box = _root(name, data, width, height)
    else:
        box = _closed_group(view.groups[name], view.inside.get(name, []), width, height)
        box.set("data-roots", " ".join(view.roots.get(name, [])))
    box.set("data-id", name)
    box.set("data-width", str(width))
    return box


def _node(
    node: NodeData, name: str, data: RecordingData, width: int, height: int
) -> ElementTree.Element:
    line = _line_words(node, data)
    room = int((width - 2 * PADDING - (cells(line) * MONO + 14 if line else 0)) / TITLE)
    box = group("node", _title(f"{node['name']} {line}"), rectangle(0, 0, width, height, 10))
    box.append(text("title", PADDING, 23, cut(node["title"], room)))
    box.append(text("line", width - PADDING, 23, line))
    born = node["born_in"]
    room = int((width - 2 * PADDING - (100 if born else 0)) / MONO)
    box.append(text("note", PADDING, 41, cut(_gives_words(node), room)))
    if born:
        box.set("class", "node born")
        box.append(text("made", width - PADDING, 41, f"made by call {born}"))
    slots = node["slots"]
    shown = len(slots) if len(slots) <= CHIPS else CHIPS - 1
    for index, slot in enumerate(slots[:shown]):
        key = f"{name}.{slot['name']}"
        label = [slot["name"], slot["type"], _bytes(slot["nbytes"])]
        box.append(_chip([key], label, 52 + index * CHIP_STEP, width))
    if len(slots) > shown:
        rest = [f"{name}.{slot['name']}" for slot in slots[shown:]]
        box.append(_chip(rest, [f"+{len(rest)} more", "", ""], 52 + shown * CHIP_STEP, width))
    box.append(group("badge", transform="translate(12,-13)"))
    return box


def _chip(keys: list[str], label: list[str], top: int, width: int) -> ElementTree.Element:
    """Draw one saved tensor (or the rest of many): name, type, bytes; its state goes below."""
    name, kind, size = label
    inner = width - 2 * PADDING + 8
    room = int((inner - 18 - (cells(size) + 1) * MONO) / MONO)
    name = cut(name, max(room - min(cells(kind) + 1, 12), 6))
    kind = cut(kind, max(room - cells(name) - 1, 1)) if kind else ""
    chip = group("slot", _title(" ".join(label)), rectangle(0, 0, inner, CHIP_HEIGHT, 6))
    chip.set("transform", f"translate({PADDING - 4},{top})")
    chip.set("data-slot", clean(keys[0]))
    if len(keys) > 1:
        chip.set("data-slots", clean("|".join(keys)))
    words = text("name", 9, 16, f"{name} ")
    words.append(element("tspan", {"class": "type"}, kind))
    chip.append(words)
    chip.append(text("bytes", inner - 9, 16, size))
    chip.append(text("words", 9, 31, ""))
    return chip


def _leaf(name: str, data: RecordingData, width: int, height: int) -> ElementTree.Element:
    leaf = data["leaves"][name]
    room = int((width - 2 * PADDING - 44 - 10 - min(cells(leaf["type"]), 12) * MONO) / TITLE)
    shown = cut(leaf["name"], room)
    rest = int((width - 2 * PADDING - 44 - 10 - cells(shown) * TITLE) / MONO)
    box = group("leaf", _title(f"{leaf['name']} {leaf['type']}"))
    box.set("data-leaf", name)
    box.append(rectangle(0, 0, width, height, 10))
    words = text("title mono", PADDING, 24, f"{shown} ")
    words.append(element("tspan", {"class": "type"}, cut(leaf["type"], rest)))
    box.append(words)
    box.append(text("line", width - PADDING, 24, "leaf"))
    column = PADDING + 44
    room = int((width - PADDING - column) / MONO)
    box.append(text("label", PADDING, 45, "value"))
    box.append(text("value", column, 45, cut(_leaf_value(leaf), room)))
    box.append(text("label", PADDING, 74, ".grad"))
    box.append(group("stack", transform=f"translate({column},58)"))
    box.append(text("sum", column, 100, ""))
    return box


def _leaf_value(leaf: TensorData) -> str:
    return bare(leaf["value"], leaf["type"]) or ""


def _root(name: str, data: RecordingData, width: int, height: int) -> ElementTree.Element:
    root = data["roots"][name]
    room = int((width - 2 * PADDING - 8) / TITLE)
    shown = cut(root["name"], max(4, room))
    rest = int((width - 2 * PADDING - 8 - cells(shown) * TITLE) / MONO)
    box = group("root", _title(f"{root['name']} {root['type']} {root['value']}"))
    box.append(rectangle(0, 0, width, height, height // 2))
    words = text("title mono", width // 2, 26, f"{shown} " if rest > 1 else shown)
    if rest > 1:
        words.append(element("tspan", {"class": "type"}, cut(root["value"], rest)))
    box.append(words)
    return box


def _closed_group(what: Group, leaves: list[str], width: int, height: int) -> ElementTree.Element:
    of_leaves = what.members[0].startswith("l")
    box = group("group leaves" if of_leaves else "group", _title(what.title))
    box.append(rectangle(6, -6, width - 12, height, 10, "sheet"))
    box.append(rectangle(0, 0, width, height, 10))
    room = int((width - 2 * PADDING - 26) / TITLE)
    box.append(text("title", PADDING, 24, cut(what.title, room)))
    box.append(element("path", {"class": "sign", "d": _sign(width - 22, 19, "open")}))
    box.set("data-members", " ".join(what.members))
    box.set("data-leaves", " ".join(leaves))
    count = len(what.members)
    if not of_leaves:
        box.append(text("note", PADDING, 42, f"{count:,} Node{'s' if count > 1 else ''}"))
    box.append(text("words", PADDING, 42 if of_leaves else 60, ""))
    if leaves:
        box.append(text("words leaves", PADDING, 78, ""))
    box.append(group("bar", transform=f"translate({PADDING},{height - 13})"))
    box.append(group("badge", transform="translate(12,-17)"))
    return box


def _frame(what: Group, area: tuple[int, int, int, int]) -> ElementTree.Element:
    left, top, width, height = area
    frame = group("frame", _title(what.title), rectangle(0, 0, width, height, 12))
    frame.set("transform", f"translate({left},{top})")
    frame.set("data-id", what.id)
    frame.append(text("line", 14, 20, cut(what.title, max(6, int((width - 50) / MONO)))))
    frame.append(element("path", {"class": "sign", "d": _sign(width - 20, 16, "close")}))
    return frame


def _sign(x: int, y: int, kind: str) -> str:
    """Return the path of a plus (to open) or a minus (to close)."""
    minus = f"M{x - 5},{y}H{x + 5}"
    return minus if kind == "close" else f"{minus}M{x},{y - 5}V{y + 5}"


def _title(words: str) -> ElementTree.Element:
    return element("title", {}, clean(words).strip())


# Edges


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
        first, *rest = [f"{x},{y}" for x, y in curve]
        edge.append(element("path", {"class": "way", "d": f"M{first}C{' '.join(rest)}"}))
        edge.append(_head("head", curve[-2], curve[-1]))
        edge.append(_head("head back", curve[1], curve[0]))
        yield edge


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
