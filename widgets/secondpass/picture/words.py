"""What the picture says in words; ``static/widget.js`` says the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from secondpass.picture.data import RecordingData
from secondpass.picture.state import KEPT, UNBORN, Stack, State, slot_state
from secondpass.reading.saved import bytes_text

SUM_LENGTH = 34
"""A sum of gradients longer than this is told by its count."""

FEW = 4
"""Of a sum of so many parts the middle may be left out."""

HOLDING = ("held", KEPT, "changed", "packed")
"""States in which a saved tensor is still there."""

SLOT_WORDS = {
    "held": "held",
    KEPT: "kept",
    "freed": "freed",
    "none": "nothing saved",
    "packed": "packed by hooks",
    "changed": "changed in place",
    "unknown": "cannot be seen",
    UNBORN: "not made yet",
}


def slot_words(state: str, by: int | None) -> str:
    """Return the state of a slot in words.

    Examples
    --------
    >>> slot_words("freed", 1), slot_words("kept", 2), slot_words("held", None)
    ('freed by call 1', 'kept by call 2', 'held')
    """
    words = SLOT_WORDS.get(state, state)
    return words if by is None or state not in ("freed", KEPT) else f"{words} by call {by}"


def signed(value: str, plus: bool = False) -> str:
    """Return a value with a real minus sign, and with a plus sign where that is wanted.

    Examples
    --------
    >>> signed("4"), signed("4", plus=True), signed("-4"), signed("-4", plus=True)
    ('4', '+4', '−4', '−4')
    """
    return f"−{value[1:]}" if value.startswith("-") else f"+{value}" if plus else value


def root_name(data: RecordingData, root: str) -> str:
    """Return the name of a root, and which it is where several have that name.

    Examples
    --------
    >>> root_name({"roots": {"r0": {"name": "loss"}, "r1": {"name": "loss"}}}, "r1")
    'loss, 2nd'
    """
    name = data["roots"][root]["name"]
    alike = [one for one, facts in data["roots"].items() if facts["name"] == name]
    return name if len(alike) < 2 else f"{name}, {_ordinal(alike.index(root) + 1)}"


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{ending or 'th'}"


def sum_words(stack: Stack, room: int = SUM_LENGTH) -> str:
    """Return what lies in ``.grad`` as a sum: the result in any case, of the parts what has room.

    Examples
    --------
    >>> sum_words(Stack("8", [[1, "4"], [2, "4"]])), sum_words(Stack("4", [[1, "4"]]))
    ('4 + 4 = 8', '= 4')
    >>> sum_words(Stack(None)), sum_words(Stack("200", [[k, "4"] for k in range(50)]))
    ('None', 'sum of 50 = 200')
    >>> sum_words(Stack("norm 5", [[1, "norm 3"], [2, "norm 4"]]))
    'sum of 2: norm 5'
    >>> sum_words(Stack("0", [[1, "2"], [2, "-2"]]))
    '2 − 2 = 0'
    >>> sum_words(Stack("17.21", [[k, "5.738"] for k in range(3)]), 26)
    '5.738 + … + 5.738 = 17.21'
    """
    if stack.grad is None:
        return "None"
    parts = [str(value) for _, value in stack.segments]
    told = any("norm " in part for part in (stack.grad, *parts))  # norms do not add up
    if len(parts) <= 1:
        return stack.grad if told else f"= {signed(stack.grad)}"
    if told:
        return f"sum of {len(parts)}: {stack.grad}"
    first, *more = (signed(part, plus=bool(index)) for index, part in enumerate(parts))
    more = [f"{part[0]} {part[1:]}" for part in more]
    end = f"= {signed(stack.grad)}"
    whole = " ".join([first, *more, end])
    if len(whole) <= min(room, SUM_LENGTH):
        return whole
    short = " ".join([first, "+ …", more[-1], end])
    if 2 < len(parts) <= FEW and len(short) <= min(room, SUM_LENGTH):
        return short
    counted = f"sum of {len(parts)} {end}"
    return counted if len(counted) <= room else end


def bare(text: str | None, kind: str) -> str | None:
    """Return a value without the type that its leaf has too.

    Examples
    --------
    >>> bare("f32[8] norm 4", "f32[8]"), bare("4", "f32[1]")
    ('norm 4', '4')
    """
    return text.removeprefix(f"{kind} ") if text is not None else None


def group_words(
    data: RecordingData, members: Sequence[str], state: State
) -> tuple[str, float | None]:
    """Return what the saved tensors of some Nodes are in words, and the share that was freed.

    A storage that several of them share is counted once. The share is None where they save
    nothing.
    """
    states: Counter[str] = Counter()
    held: dict[object, int] = {}
    for node in members:
        for slot in data["nodes"][node]["slots"]:
            name = slot_state(state, node, slot["name"])[0]
            states[name] += 1
            if name in HOLDING:
                storage = slot.get("storage")
                held[f"{node}.{slot['name']}" if storage is None else storage] = slot["nbytes"] or 0
    slots = states.total() - states["none"]  # where nothing was saved, nothing can go
    if not slots:
        return "saves nothing", None
    freed, kept = states["freed"], sum(states[name] for name in HOLDING)
    parts = [f"{freed:,} freed"] if freed else []
    parts += [f"{kept:,} held", bytes_text(sum(held.values()))] if kept else []
    other = slots - freed - kept
    parts += [f"{other:,} not seen or made"] if other else []
    return " · ".join(parts), freed / slots


def leaves_words(leaves: Sequence[str], state: State) -> str:
    """Return how many of some leaves have a ``.grad``."""
    count = sum(state.leaves[leaf].grad is not None for leaf in leaves if leaf in state.leaves)
    noun = "leaf" if len(leaves) == 1 else "leaves"
    return f"{count:,} of {len(leaves):,} {noun} with .grad"
