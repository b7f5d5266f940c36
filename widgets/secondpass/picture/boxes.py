"""The boxes of the picture: Nodes with their chips, leaves, roots, closed and open groups.

A box has the size that its text needs, up to a limit; text that is longer is cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from xml.etree import ElementTree

from secondpass.picture.data import NodeData, RecordingData, TensorData
from secondpass.picture.fitting import cells, clean, cut
from secondpass.picture.grouping import Group
from secondpass.picture.svg import element, group, rectangle, text
from secondpass.picture.views import View
from secondpass.picture.words import bare, root_name
from secondpass.reading.saved import bytes_text

MONO = 7.1
"""Width of a letter of the fixed-width text at 11.5 px."""

TITLE = 8.8
"""Width of a letter of a title at 14 px, on the safe side."""

CHIPS = 4
"""A Node shows so many slots at most; the rest is counted."""

ORIGIN = 18
"""Letters of a module's name that a Node shows, the last ones."""

HEAD = 8
"""Room to either side of the point of an arrow head."""

PADDING = 14
CHIP_HEIGHT = 38
CHIP_STEP = 43


def size_of(name: str, data: RecordingData, view: View) -> tuple[int, int]:
    """Return width and height of a Node's, a leaf's, a root's or a closed group's box."""
    if name in data["nodes"]:
        return _node_size(name, data, view)
    if name in data["leaves"]:
        leaf = data["leaves"][name]
        first = cells(leaf["name"]) * TITLE + 10 + cells(leaf["type"]) * MONO + 44
        content = max(first, 44 + cells(_leaf_value(leaf)) * MONO, 44 + view.rooms.get(name, 0))
        return _between(content, 220, 340), 112
    if name in data["roots"]:
        root = data["roots"][name]
        content = cells(root_name(data, name)) * TITLE + 8 + (cells(root["value"]) + 1) * MONO
        return _between(content, 110, 280), 42
    of_leaves = view.groups[name].members[0] in data["leaves"]
    height = 60 if of_leaves else 98 if name in view.inside else 80
    closed = view.groups[name]
    content = max(cells(closed.title) * TITLE + 26, cells(_count_words(closed)) * MONO)
    return _between(content, 230, 340), height


def _between(content: float, least: int, most: int) -> int:
    """Return the width of a box around content; even, so that its centre is a whole number."""
    return min(most, max(least, 2 * math.ceil(content / 2) + 2 * PADDING + 2))


def _node_size(name: str, data: RecordingData, view: View) -> tuple[int, int]:
    node = data["nodes"][name]
    chips = 1 if view.is_brief(name) else CHIPS
    widths = [
        cells(node["title"]) * TITLE + 14 + cells(_origin_words(name, data, view)) * MONO,
        cells(_gives_words(node)) * MONO + (100 if node["born_in"] else 0),
        *(cells(f"{slot['name']} {slot['type']} {_bytes(slot['nbytes'])}") * MONO + 34
          for slot in node["slots"][:chips]),
    ]  # fmt: skip
    chips = min(chips, len(node["slots"]))
    return _between(max(widths), 176, 330), 54 if not chips else 57 + chips * CHIP_STEP


def _origin_words(name: str, data: RecordingData, view: View) -> str:
    """Return where a Node comes from: its line, or else its module."""
    line = data["nodes"][name]["line"]
    if not line:
        module = view.modules.get(name, "")
        return module if cells(module) <= ORIGIN else f"…{clean(module)[1 - ORIGIN :]}"
    source, number = line
    where = clean(data["sources"][source]["name"]) if len(data["sources"]) > 1 else ""
    return f"{where.rpartition('/')[2][-16:]} line {number}".strip()


def _gives_words(node: NodeData) -> str:
    parts = [f"gives {node['gives']}" if node["gives"] else ""]
    parts.append("" if node["slots"] else "saves nothing")
    return " · ".join(part for part in parts if part)


def _bytes(nbytes: int | None) -> str:
    return "" if nbytes is None else bytes_text(nbytes)


def box_of(name: str, data: RecordingData, view: View) -> ElementTree.Element:
    """Draw the box of a Node, a leaf, a root or a closed group, at the origin."""
    width, height = size_of(name, data, view)
    if name in data["nodes"]:
        box = _node(name, data, view)
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


def badge_width(letters: int) -> int:
    """Return the width of a badge that has so many letters."""
    return round(letters * 6.4) + 16


def place_badges(
    world: Iterable[ElementTree.Element], heads: Iterable[tuple[str, int]], calls: int
) -> None:
    """Put each badge onto the upper border of its box, beside the arrow heads that arrive there.

    Parameters
    ----------
    world : iterable of Element
        The drawing's parts.
    heads : iterable of (box, x)
        Where an edge ends, from the left border of its box.
    calls : int
        The highest number that a badge may name.
    """
    taken: dict[str, list[int]] = {}
    for name, x in heads:
        taken.setdefault(name, []).append(x)
    width = badge_width(len(f"call {calls} runs now"))
    for box in world:
        badge = box.find("g[@class='badge']")
        if badge is None:
            continue
        arrive = taken.get(str(box.get("data-id")), [])
        room = int(str(box.get("data-width")))
        wanted = [12, room - 12 - width]
        if arrive:
            wanted += [min(arrive) - HEAD - width, max(arrive) + HEAD]

        def spoils(left: int, arrive: list[int] = arrive, room: int = room) -> tuple[int, int]:
            covered = sum(left - HEAD < x < left + width + HEAD for x in arrive)
            return covered, max(0, -left, left + width - room)

        y = str(badge.get("transform")).partition(",")[2]
        badge.set("transform", f"translate({min(wanted, key=spoils)},{y}")


def _node(name: str, data: RecordingData, view: View) -> ElementTree.Element:
    node = data["nodes"][name]
    width, height = _node_size(name, data, view)
    chips = 1 if view.is_brief(name) else CHIPS
    line = _origin_words(name, data, view)
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
    shown = len(slots) if len(slots) <= chips else chips - 1
    for index, slot in enumerate(slots[:shown]):
        key = f"{name}.{slot['name']}"
        label = [slot["name"], slot["type"], _bytes(slot["nbytes"])]
        box.append(_chip([key], label, 52 + index * CHIP_STEP, width))
    if len(slots) > shown:
        rest = [f"{name}.{slot['name']}" for slot in slots[shown:]]
        filled = sum(bool(slot["type"]) for slot in slots[shown:]) or len(rest)
        many = f"+{filled} more" if shown else f"{filled} saved tensor{'s' * (filled != 1)}"
        box.append(_chip(rest, [many, "", ""], 52 + shown * CHIP_STEP, width))
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
    words = text("name", 9, 16, f"{name} " if kind else name)
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
    shown = cut(root_name(data, name), max(4, room))
    rest = int((width - 2 * PADDING - 8 - cells(shown) * TITLE) / MONO)
    box = group("root", _title(f"{root_name(data, name)} {root['type']} {root['value']}"))
    box.append(rectangle(0, 0, width, height, height // 2))
    words = text("title mono", width // 2, 26, f"{shown} " if rest > 0 else shown)
    if rest > 0:
        words.append(element("tspan", {"class": "type"}, cut(root["value"], rest)))
    box.append(words)
    return box


def _closed_group(what: Group, leaves: list[str], width: int, height: int) -> ElementTree.Element:
    of_leaves = what.members[0].startswith("l")
    box = group("group leaves" if of_leaves else "group", _title(what.about or what.title))
    box.append(rectangle(6, -6, width - 12, height, 10, "sheet"))
    box.append(rectangle(0, 0, width, height, 10))
    room = int((width - 2 * PADDING - 26) / TITLE)
    box.append(text("title", PADDING, 24, cut(what.title, room)))
    box.append(element("path", {"class": "sign", "d": _sign(width - 22, 19, "open")}))
    box.set("data-members", " ".join(what.members))
    box.set("data-leaves", " ".join(leaves))
    if not of_leaves:
        note = cut(_count_words(what), int((width - 2 * PADDING) / MONO))
        box.append(text("note", PADDING, 42, note))
    box.append(text("words", PADDING, 42 if of_leaves else 60, ""))
    if leaves:
        box.append(text("words leaves", PADDING, 78, ""))
    box.append(group("bar", transform=f"translate({PADDING},{height - 13})"))
    box.append(group("badge", transform="translate(12,-17)"))
    return box


def _count_words(what: Group) -> str:
    count = len(what.members)
    words = f"{count:,} Node{'s' if count > 1 else ''}"
    return f"{words} · {what.where}" if what.where else words


def frame_of(what: Group, area: tuple[int, int, int, int]) -> ElementTree.Element:
    """Draw the frame around an open group."""
    left, top, width, height = area
    frame = group("frame", _title(what.about or what.title), rectangle(0, 0, width, height, 12))
    frame.set("transform", f"translate({left},{top})")
    frame.set("data-id", what.id)
    title = f"{what.title} · {what.where}" if what.where else what.title
    frame.append(text("line", 14, 20, cut(title, max(6, int((width - 50) / MONO)))))
    frame.append(element("path", {"class": "sign", "d": _sign(width - 20, 16, "close")}))
    return frame


def _sign(x: int, y: int, kind: str) -> str:
    """Return the path of a plus (to open) or a minus (to close)."""
    minus = f"M{x - 5},{y}H{x + 5}"
    return minus if kind == "close" else f"{minus}M{x},{y - 5}V{y + 5}"


def _title(words: str) -> ElementTree.Element:
    return element("title", {}, clean(words).strip())
