"""The few SVG elements that the picture is made of; text is escaped by the XML library."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree.ElementTree import Element


def element(tag: str, attributes: Mapping[str, str], words: str = "") -> Element:
    """Return an element with some text."""
    made = Element(tag, dict(attributes))
    if words:
        made.text = words
    return made


def group(kind: str, *children: Element, transform: str = "") -> Element:
    """Return a ``<g>`` of a class."""
    made = element("g", {"class": kind} | ({"transform": transform} if transform else {}))
    made.extend(children)
    return made


def rectangle(x: int, y: int, width: int, height: int, radius: int, kind: str = "box") -> Element:
    """Return a rectangle with round corners."""
    numbers = {"x": x, "y": y, "width": width, "height": height, "rx": radius}
    return element("rect", {"class": kind} | {key: str(value) for key, value in numbers.items()})


def text(kind: str, x: int, y: int, words: str) -> Element:
    """Return a line of text; its class decides where it is anchored."""
    made = element("text", {"class": kind, "x": str(x), "y": str(y)}, words)
    made.tail = " "  # so that whoever reads the texts of a box aloud keeps them apart
    return made
