"""Text that fits: how wide it is, cut to a width, and freed of what could mislead or break."""

from __future__ import annotations

import unicodedata

ELLIPSIS = "…"

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Control, bidirectional and unassigned characters: invisible, or not allowed in XML."""


def clean(text: str, most: int = 2_000) -> str:
    r"""Return text as one line in which every character can be seen.

    Examples
    --------
    >>> clean("a\n  b\x00\u202ec")
    'a b\ufffd\ufffdc'
    """
    return visible(" ".join(text[:most].split()) + (ELLIPSIS if len(text) > most else ""))


def visible(text: str) -> str:
    r"""Return text with a sign in place of each character that cannot be seen, but for line ends.

    Examples
    --------
    >>> visible("a\n  b\x00\u202ec")
    'a\n  b\ufffd\ufffdc'
    """
    return "".join(
        "\ufffd" if unicodedata.category(char) in _HIDDEN and char != "\n" else char
        for char in text
    )


def cells(text: str) -> int:
    """Return the width of text in a fixed-width font, in letters.

    Examples
    --------
    >>> cells("loss"), cells("損失")
    (4, 4)
    """
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


def cut(text: str, width: int) -> str:
    """Return text of at most so many letters, an ellipsis in place of the rest.

    Examples
    --------
    >>> cut("layers.0.weight", 9), cut("x", 9)
    ('layers.0…', 'x')
    """
    text = clean(text)
    if cells(text) <= width:
        return text
    kept, used = "", 1
    for char in text:
        used += cells(char)
        if used > width:
            break
        kept += char
    return kept + ELLIPSIS
