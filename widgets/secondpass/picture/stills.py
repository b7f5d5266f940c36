"""A moment of a recording painted onto the picture: classes, words, stacks, travelling values.

``static/widget.js`` does the same, step by step, in the live picture.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from xml.etree.ElementTree import Element

from secondpass.picture.boundary import boundary
from secondpass.picture.boxes import badge_width
from secondpass.picture.data import RecordingData
from secondpass.picture.fitting import cells, clean, cut
from secondpass.picture.layout import WORDS
from secondpass.picture.stacks import LABEL, LETTER, SUM_LETTER, bare_stack, segments
from secondpass.picture.state import Stack, State, carrier, failed_way, slot_state
from secondpass.picture.svg import element, group, rectangle, text
from secondpass.picture.words import group_words, leaves_words, slot_words, sum_words
from secondpass.reading.saved import NONE

PADDING = 14
PILL_LETTERS = 24


def paint(world: Element, data: RecordingData, state: State) -> None:
    """Set the classes and fill the words that belong to a state."""
    for box in world.findall("g"):
        kind = (box.get("class") or "").split()[0]
        if kind == "node":
            _paint_node(box, data, state)
        elif kind == "leaf":
            _paint_leaf(box, data, state)
        elif kind == "root":
            source = data["roots"][str(box.get("data-id"))]["source"]
            _add_class(box, state.marks.get(str(box.get("data-id"))))
            _add_class(box, "unborn" if source in state.unborn else None)
        elif kind == "group":
            _paint_group(box, data, state)
    _paint_edges(world, data, state)


def _paint_node(box: Element, data: RecordingData, state: State) -> None:
    name = str(box.get("data-id"))
    mark = state.marks.get(name)
    _add_class(box, mark)
    _add_class(box, "unborn" if name in state.unborn else None)
    _badge(box, mark, state)
    for chip in box.findall("g[@data-slot]"):
        keys = (chip.get("data-slots") or str(chip.get("data-slot"))).split("|")
        every = [slot_state(state, *key.split(".", 1)) for key in keys]
        # An optional one that was not given, as the weights of a loss, is no saved tensor.
        states = [one for one in every if one[0] != NONE] or every[:1]
        words = [slot_words(*one) for one in states]
        kinds = {one[0] for one in states}
        _add_class(chip, kinds.pop() if len(kinds) == 1 else "mixed")
        _fill(chip, "words", _counted(words))


def _counted(words: Iterable[str]) -> str:
    """Return how often each of some words occurs: ``5 held, 2 freed by call 1``; ``all 2 held``."""
    count = Counter(words)
    if len(count) == 1:
        ((word, number),) = count.items()
        return word if number == 1 else f"all {number} {word}"
    return ", ".join(f"{number} {word}" for word, number in count.items())


def _badge(box: Element, mark: str | None, state: State) -> None:
    words = {"now": "runs now", "stopped": "stopped"}.get(mark or "")
    badge = box.find("g[@class='badge']")
    if not words or badge is None or state.call is None:
        return
    words = f"call {state.call} {words}"
    badge.append(rectangle(0, 0, badge_width(cells(words)), 20, 10))
    badge.append(text("", 8, 14, words))


def _paint_leaf(box: Element, data: RecordingData, state: State) -> None:
    name = str(box.get("data-id"))
    _add_class(box, state.marks.get(name))
    kind = data["leaves"][name]["type"]
    stack = state.leaves.get(name, Stack())
    stack = bare_stack(stack, kind)
    room = int(str(box.get("data-width"))) - 2 * PADDING - LABEL
    place = box.find("g[@class='stack']")
    if place is not None:
        for segment in segments(stack, room):
            place.append(_segment(*segment))
        if not stack.segments:
            place.append(text("none", 0, 16, cut(stack.grad or "None", int(room / LETTER))))
    words = sum_words(stack, int((room + LABEL) / SUM_LETTER)) if stack.segments else ""
    sum_ = box.find("text[@class='sum']")
    if sum_ is not None:
        # A long sum may begin below its label.
        fits = cells(words) * SUM_LETTER <= room
        sum_.set("x", str(PADDING + LABEL if fits else PADDING))
        sum_.text = cut(words, int((room if fits else room + LABEL) / SUM_LETTER))


def _segment(kind: str, words: str, left: int, width: int, title: str) -> Element:
    made = group(kind, element("title", {}, clean(title)), rectangle(left, 0, width, 24, 4))
    made.append(text("", left + width // 2, 16, words))
    return made


def _paint_group(box: Element, data: RecordingData, state: State) -> None:
    members = str(box.get("data-members")).split(" ")
    leaves = [name for name in str(box.get("data-leaves") or "").split(" ") if name]
    marks = {state.marks.get(name) for name in [*members, *leaves]}
    mark = next((one for one in ("stopped", "now", "done") if one in marks), None)
    _add_class(box, mark)
    if members[0].startswith("l"):
        _fill(box, "words", leaves_words(members, state))
        return
    _badge(box, mark, state)
    _add_class(box, "unborn" if all(name in state.unborn for name in members) else None)
    words, freed = group_words(data, members, state)
    _fill(box, "words", words)
    if leaves:
        _fill(box, "words leaves", leaves_words(leaves, state))
    bar = box.find("g[@class='bar']")
    if bar is not None and freed is not None:
        width = int(str(box.get("data-width"))) - 28
        part = round(width * freed)
        bar.append(rectangle(0, 0, width, 5, 2, "all"))
        bar.append(rectangle(0, 0, width - part, 5, 2, "held"))


def _paint_edges(world: Element, data: RecordingData, state: State) -> None:
    by_id = {edge["id"]: edge for edge in data["edges"]}
    failed = failed_way(data, state)
    meets = boundary(data, state)
    taken: list[tuple[float, float, float, float]] = []
    for border in world.findall("g[@data-border]"):
        if meets.intersection(str(border.get("data-border")).split(" ")):
            _add_class(border, "on")
            x, y = re.findall(r"-?\d+", str(border.get("transform")))
            taken.append((int(x) + WORDS[0] / 2, int(y), WORDS[0], 32))
    pills = world.find("g[@class='pills']")
    for line in world.findall("g[@data-edge]"):
        ids = (line.get("data-edges") or str(line.get("data-edge"))).split(" ")
        carried = {edge: key for edge in ids if (key := carrier(by_id[edge], state.carried))}
        travelling = [state.carried[key] for key in carried.values() if key in state.now]
        _add_class(line, "carried" if carried else None)
        _add_class(line, "now" if travelling else None)
        _add_class(line, "failed" if failed.intersection(ids) else None)
        _add_class(line, "boundary" if meets.intersection(ids) else None)
        ends = [(by_id[edge]["source"], by_id[edge]["target"]) for edge in ids]
        if all(state.unborn.keys() & pair for pair in ends):
            _add_class(line, "unborn")
        if travelling and pills is not None:
            words = travelling[0] if len(travelling) == 1 else f"{len(travelling)} gradients"
            way = line.find("path[@class='way']")
            path = str(way.get("d")) if way is not None else ""
            taken.append(head_at(path))
            pill = _pill(words, path, taken)
            _add_class(pill, "failed" if failed.intersection(ids) else None)
            pills.append(pill)


def _pill(words: str, path: str, taken: list[tuple[float, float, float, float]]) -> Element:
    """Draw a value on its way, where no other value is in the way."""
    shown = cut(words, PILL_LETTERS)
    width = max(28, round(cells(shown) * LETTER) + 18)
    point = points(path)
    places = [point(share) for share in (0.5, 0.36, 0.64, 0.24, 0.76)]

    def clashes(place: tuple[float, float]) -> int:
        x, y = place
        return sum(abs(x - a) < (width + b) / 2 and abs(y - c) < d for a, c, b, d in taken)

    x, y = min(places, key=clashes)
    taken.append((x, y, width, 22))
    made = group("pill", element("title", {}, clean(words)))
    made.set("transform", f"translate({round(x)},{round(y)})")
    made.append(rectangle(-(width // 2), -10, width, 20, 10))
    made.append(text("", 0, 4, shown))
    return made


def head_at(path: str) -> tuple[float, float, float, float]:
    """Return the middle, the width and the reach of the head of an arrow back.

    Examples
    --------
    >>> head_at("M10,0C10,10 10,20 10,30")
    (10.0, 5.0, 10, 17)
    """
    (x, y), (to_x, to_y) = _numbers(path)[:2]
    length = ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5 or 1.0
    return x + 5 * (to_x - x) / length, y + 5 * (to_y - y) / length, 10, 17


def _numbers(path: str) -> list[tuple[float, float]]:
    pairs = (pair.split(",") for pair in path[1:].replace("C", " ").split(" ") if pair)
    return [(float(x), float(y)) for x, y in pairs]


def points(path: str) -> Callable[[float], tuple[float, float]]:
    """Return a function that gives the point of a Bézier path at a share of its pieces."""
    numbers = _numbers(path)
    pieces = (len(numbers) - 1) // 3

    def point(share: float) -> tuple[float, float]:
        piece = min(int(share * pieces), pieces - 1)
        t = share * pieces - piece
        weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
        four = numbers[3 * piece : 3 * piece + 4]
        x, y = (sum(w * one[axis] for w, one in zip(weights, four, strict=True)) for axis in (0, 1))
        return x, y

    return point


def _add_class(thing: Element, name: str | None) -> None:
    if name:
        thing.set("class", f"{thing.get('class')} {name}")


def _fill(box: Element, kind: str, words: str) -> None:
    place = box.find(f"text[@class='{kind}']")
    if place is not None:
        place.text = words
