"""The stack of gradients in a leaf's box: which segments it has, and how much room they need.

``static/widget.js`` shows the same.
"""

from __future__ import annotations

import math
from typing import Any

from secondpass.picture.data import RecordingData
from secondpass.picture.fitting import cells, cut
from secondpass.picture.state import Stack, stacks
from secondpass.picture.words import bare, signed, sum_words

SEGMENT = 62
"""Width of a segment of a stack where there is room."""

LEAST = 26
"""Width of a segment with the shortest words."""

LETTER = 7.1
SUM_LETTER = 7.4
LABEL = 44
"""Width of the label before a stack; a long sum may begin below it."""

GAP = 3
SHOWN = 4
"""A leaf's box has room for so many gradients, where their values are short."""

LONGEST = 110
"""A segment wider than this has a name instead of its value."""


def segments(stack: Stack, room: int) -> list[tuple[str, str, int, int, str]]:
    """Return what a stack of gradients shows: kind, words, left, width and title of each part.

    Every segment shows its value; where these have no room, every one the name of its call.

    Examples
    --------
    >>> segments(Stack("8", [[1, "4"], [2, "4"]]), 200)
    [('segment', '4', 0, 62, 'call 1: 4'), ('segment last', '+4', 65, 62, 'call 2: 4')]
    """
    parts = stack.segments
    if not parts:
        return []
    words = [signed(str(value), plus=index > 0) for index, (_, value) in enumerate(parts)]
    shown, least = _shown(words, room)
    if shown < min(2, len(parts)):
        words = [_name(call) for call, _ in parts]
        shown, least = _shown(words, room)
    shown = max(1, shown)
    folded = len(parts) - shown
    found = []
    left = 0
    if folded:
        many = f"{folded} calls"
        width = min(_width(many), room // 2)
        found.append(("segment many", cut(many, int((width - 4) / LETTER)), 0, width, many))
        left = width + GAP
    width = min(max(least, min(SEGMENT, (room - left) // shown - GAP)), room - left)
    for index, (call, value) in enumerate(parts[folded:], folded):
        kind = "segment before" if call is None else "segment"
        last = " last" if index == len(parts) - 1 else ""
        told = cut(words[index], max(1, int((width - 4) / LETTER)))
        found.append((kind + last, told, left, width, f"{_name(call)}: {value}"))
        left += width + GAP
    return found


def _name(call: Any) -> str:
    return "so far" if call is None else f"call {call}"


def _width(words: str) -> int:
    return max(LEAST, math.ceil(cells(words) * LETTER) + 8)


def _shown(words: list[str], room: int) -> tuple[int, int]:
    """Return how many of the last segments fit, all equally wide, and how wide they must be."""
    least = max(map(_width, words[-12:]))
    if len(words) * (least + GAP) <= room + GAP:
        return len(words), least
    folded = _width(f"{len(words)} calls") + GAP
    return min(len(words) - 1, max(0, room - folded + GAP) // (least + GAP)), least


def rooms(data: RecordingData) -> dict[str, int]:
    """Return the width that each leaf's stack and sum need, over all of a recording."""
    found: dict[str, int] = {}
    for name, whole in stacks(data):
        count = len(whole.segments)
        if count < 2 or name not in data["leaves"]:
            continue
        # Of a long one only the last gradients are shown: the rest is not looked at.
        recent = whole.segments if count <= SHOWN else whole.segments[-SHOWN:]
        stack = bare_stack(Stack(whole.grad, recent), data["leaves"][name]["type"])
        words = [signed(str(value), plus=bool(at)) for at, (_, value) in enumerate(stack.segments)]
        widths = [max(map(_width, words))] * len(words)
        if count > SHOWN:
            widths[0] = _width(f"{count} calls")
        values = sum(widths) + GAP * len(widths) if max(widths) <= LONGEST else 0
        sum_ = math.ceil(cells(sum_words(stack)) * SUM_LETTER) - LABEL
        found[name] = max(found.get(name, 0), values, sum_)
    return found


def bare_stack(stack: Stack, kind: str) -> Stack:
    """Return a stack without the type that its leaf has too."""
    return Stack(
        bare(stack.grad, kind), [[call, bare(value, kind)] for call, value in stack.segments]
    )
