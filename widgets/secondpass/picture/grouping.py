"""What a first look shows: at most some tens of boxes, the rest in groups that can be opened.

A group is a run of Nodes that are neighbours in the order in which the forward pass made them
(or a bundle of leaves). Runs of one order never make a circle, so a graph of groups is laid out
like any other. Groups are found by ``nn.Module``, by source line, by repeated parts (the layers
of a network, the rounds of a loop), by unbranched runs, and by count where nothing else helps.
"""

from __future__ import annotations

import heapq
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from secondpass.picture.data import RecordingData
from secondpass.picture.modules import Path, modules_of

BOXES = 60
"""A first look has about so many boxes at most."""

FEW = 4
"""Fewer Nodes than this are not worth a group, unless a line made them."""

SMALL_MODULE = 3
"""Fewer Nodes than this are not worth a group for their module."""

GRAPHS = 12
"""More separate graphs than this (the rounds of a training loop) are put together."""

CHILDREN = 60
"""An opened group shows at most so many boxes."""


@dataclass(frozen=True)
class Group:
    """A run of Nodes, or a bundle of leaves.

    Attributes
    ----------
    id : str
        ``g`` and the ids of its first and last member.
    title : str
        The code of a line, ``round 3 of 12``, ``blocks.3``, ``30 leaves``.
    members : tuple of str
        The ids of all Nodes (or leaves) in it.
    children : tuple of Group or str
        What it shows when it is open.
    where : str
        A few words more: ``line 12``, ``train.py lines 12 to 20``, ``layer 4 of 12``.
    about : str
        All that is known of where it comes from, for whoever asks.
    """

    id: str
    title: str
    members: tuple[str, ...]
    children: tuple[Group | str, ...]
    where: str = ""
    about: str = ""


@dataclass(frozen=True)
class Forest:
    """The Nodes of a recording, put into groups where they are many.

    Attributes
    ----------
    things : list of Group or str
        In forward order.
    paths : dict
        Node id to its module, in a recording of many Nodes.
    """

    things: list[Group | str]
    paths: dict[str, Path] = field(default_factory=dict)

    def modules(self) -> dict[str, str]:
        """Return the name of each Node's module, without the model's own name."""
        return {node: ".".join(path[1:]) for node, path in self.paths.items() if len(path) > 1}


def forest_of(data: RecordingData) -> Forest:
    """Put the Nodes of a recording into groups where they are many."""
    order = _forward_order(data)
    if len(order) + len(data["leaves"]) + len(data["roots"]) <= BOXES:
        return Forest(list(order))
    parts = _parts(order, data)
    if len(parts) == 1:
        return _grouped(order, data)
    # Every round of a training loop makes a graph of its own.
    graphs = Forest([])
    for number, part in enumerate(parts, 1):
        forest = _grouped(part, data)
        title = f"graph {number} of {len(parts)}"
        graphs.things.append(_group(forest.things, data, title) if len(part) > 1 else part[0])
        graphs.paths.update(forest.paths)
    while len(graphs.things) > GRAPHS:
        graphs.things[:] = _chunks(graphs.things, data, GRAPHS)
    return graphs


def _grouped(order: Sequence[str], data: RecordingData) -> Forest:
    """Put the Nodes of one graph into groups."""
    paths = modules_of(order, data)
    things = _Modules(data, paths).inside(order, 0) if paths else _by_line(order, data)
    return Forest(_bundle(things, data), paths)


@dataclass
class _Modules:
    """Groups by module, nested as the modules are."""

    data: RecordingData
    paths: dict[str, Path]

    def inside(self, nodes: Sequence[str], depth: int) -> list[Group | str]:
        """Return the Nodes of a module that lies so deep: those of each module in it as a group."""
        runs: list[tuple[Path, list[str]]] = []
        for node in nodes:
            path = self.paths[node][: depth + 1]
            key = path if len(path) > depth else ()
            if runs and runs[-1][0] == key:
                runs[-1][1].append(node)
            else:
                runs.append((key, [node]))
        words = _places_in_line([key for key, _ in runs])
        things: list[Group | str] = []
        for (key, run), where in zip(runs, words, strict=True):
            if not key:
                things += _by_line(run, self.data) if len(run) > 2 * FEW else run
                continue
            inner = self.inside(run, depth + 1)
            if len(inner) == 1 and isinstance(inner[0], Group):
                things.append(inner[0])  # a module that only holds another
            elif len(run) < SMALL_MODULE:
                things += run
            else:
                things.append(self._group(key, inner, where))
        return things

    def _group(self, path: Path, inner: list[Group | str], where: str) -> Group:
        # The outermost name is the variable that holds the whole model: an open frame tells it.
        title = ".".join(path[1:] or path)
        layers = [thing for thing in inner if isinstance(thing, Group) and " of " in thing.where]
        if not where and len(layers) > 1:
            kinds = {tuple(self._titles(layer)) for layer in layers}
            where = f"{len(layers)} layers{' alike' if len(kinds) == 1 else ''}"
        about = " · ".join(filter(None, (".".join(path), where)))
        return _group(inner, self.data, title, about=about, where=where)

    def _titles(self, group: Group) -> list[str]:
        return [self.data["nodes"][node]["title"] for node in group.members]


def _places_in_line(keys: Sequence[Path]) -> list[str]:
    """Return ``layer 3 of 12`` for numbered modules, ``use 2 of 5`` for one that ran often."""
    times: dict[Path, int] = {}
    for key in keys:
        times[key] = times.get(key, 0) + 1
    numbered = [key[-1] for key in times if key and key[-1].isdigit()]
    is_whole = len(numbered) > 1 and sorted(map(int, numbered)) == list(range(len(numbered)))
    seen: dict[Path, int] = {}
    words = []
    for key in keys:
        seen[key] = seen.get(key, 0) + 1
        word = ""
        if key and times[key] > 1:
            word = f"use {seen[key]} of {times[key]}"
        elif key and key[-1].isdigit() and is_whole:
            word = f"layer {int(key[-1]) + 1} of {len(numbered)}"
        words.append(word)
    return words


def _parts(order: Sequence[str], data: RecordingData) -> list[list[str]]:
    """Return the Nodes of each graph that no edge between Nodes joins to another."""
    leader = {node: node for node in order}

    def lead(node: str) -> str:
        while leader[node] != node:
            leader[node] = node = leader[leader[node]]
        return node

    for edge in data["edges"]:
        if edge["source"] in leader and edge["target"] in leader:
            leader[lead(edge["source"])] = lead(edge["target"])
    parts: dict[str, list[str]] = {}
    for node in order:
        parts.setdefault(lead(node), []).append(node)
    # By the time at which they were made: the order has the youngest graph first.
    number = {node: index for index, node in enumerate(data["nodes"])}
    return sorted(parts.values(), key=lambda part: min(number[node] for node in part))


def _forward_order(data: RecordingData) -> list[str]:
    """Return the Nodes so that each stands after those it uses, as the forward pass made them."""
    users = dict.fromkeys(data["nodes"], 0)
    used: dict[str, list[str]] = {}
    for edge in data["edges"]:
        if edge["source"] in users and edge["target"] in users:
            users[edge["source"]] += 1
            used.setdefault(edge["target"], []).append(edge["source"])
    number = {node: index for index, node in enumerate(data["nodes"])}
    ready = [(number[node], node) for node, count in users.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        node = heapq.heappop(ready)[1]
        order.append(node)
        for source in used.get(node, ()):
            users[source] -= 1
            if users[source] == 0:
                heapq.heappush(ready, (number[source], source))
    return order[::-1]


def _by_line(order: Sequence[str], data: RecordingData) -> list[Group | str]:
    """Put neighbours that one run of a line made into a group."""
    runs: list[list[str]] = []
    last = None
    for node in order:
        facts = data["nodes"][node]
        line = (tuple(facts["line"]), facts["born_in"]) if facts["line"] else None
        if line is not None and line == last:
            runs[-1].append(node)
        else:
            runs.append([node])
        last = line
    return [_group(run, data) if len(run) > 1 else run[0] for run in runs]


def _bundle(things: list[Group | str], data: RecordingData) -> list[Group | str]:
    """Put things into groups until there are at most `CHILDREN`."""
    if len(things) <= CHILDREN:
        return things
    things = _rounds(things, data)
    if len(things) > CHILDREN:
        things = _unbranched(things, data)
    while len(things) > CHILDREN:
        things = _chunks(things, data, CHILDREN // 2)
    return things


def _chunks(things: Sequence[Group | str], data: RecordingData, most: int) -> list[Group | str]:
    """Put neighbours into groups of one size, about so many."""
    size = max(2 if most == GRAPHS else FEW, -(-len(things) // most))
    chunks: list[Group | str] = []
    for at in range(0, len(things), size):
        part = things[at : at + size]
        chunks.append(_group(part, data, _span(part)) if len(part) > 1 else part[0])
    return chunks


def _span(things: Sequence[Group | str]) -> str:
    """Return a title for neighbours that are numbered themselves: ``graph 1 to 3 of 50``."""
    ends = [thing.title for thing in (things[0], things[-1]) if isinstance(thing, Group)]
    found = [re.match(r"(graph|round)s? (\d+)(?: to (\d+))? of (\d+)", title) for title in ends]
    if len(found) < 2 or not found[0] or not found[1] or found[0][1] != found[1][1]:
        return ""
    return f"{found[0][1]}s {found[0][2]} to {found[1][3] or found[1][2]} of {found[0][4]}"


def _rounds(things: list[Group | str], data: RecordingData) -> list[Group | str]:
    """Put the rounds of the longest repeated part into one group each."""
    labels = [_label(thing, data) for thing in things]
    start, period, count = _repeat(labels)
    if count < 2 or period * count < len(things) / 3:
        return things
    end = start + period * count
    rounds: list[Group | str] = []
    for number, at in enumerate(range(start, end, period), 1):
        part = things[at : at + period]
        if period == 1:
            rounds += part
        else:
            rounds.append(_group(part, data, f"round {number} of {count}"))
    return [*things[:start], *rounds, *things[end:]]


def _label(thing: Group | str, data: RecordingData) -> object:
    node = thing.members[0] if isinstance(thing, Group) else thing
    facts = data["nodes"][node]
    return tuple(facts["line"]) if facts["line"] else facts["title"]


def _repeat(labels: Sequence[object]) -> tuple[int, int, int]:
    """Return start, length and count of the part that, repeated in a row, covers the most.

    Examples
    --------
    >>> _repeat("eabcabcabch")
    (1, 3, 3)
    """
    numbers: dict[object, int] = {}
    codes = [numbers.setdefault(label, len(numbers)) for label in labels]
    best = (0, 1, 1)
    longest = min(len(codes) // 2, max(1, 2_000_000 // max(1, len(codes))))
    for period in range(1, longest + 1):
        # A 1 for each label that is equal to the one a period before it.
        same = bytes(map(operator.eq, codes[period:], codes))
        run = max(same.split(b"\0"), key=len)
        count = len(run) // period + 1
        if count > 1 and count * period > best[1] * best[2]:
            best = (same.index(run), period, count)
    return best


def _unbranched(things: list[Group | str], data: RecordingData) -> list[Group | str]:
    """Put single Nodes that follow each other with no branch into a group, if they are not few."""
    users: dict[str, list[str]] = {}
    uses: dict[str, list[str]] = {}
    for edge in data["edges"]:
        users.setdefault(edge["source"], []).append(edge["target"])
        if edge["source"] in data["nodes"]:
            uses.setdefault(edge["target"], []).append(edge["source"])
    runs: list[list[Group | str]] = []
    for thing in things:
        last = runs[-1][-1] if runs else None
        follows = (
            isinstance(thing, str)
            and isinstance(last, str)
            and users.get(last) == [thing]
            and uses.get(thing) == [last]
        )
        if follows:
            runs[-1].append(thing)
        else:
            runs.append([thing])
    if len(runs) == 1:
        return things
    found: list[Group | str] = []
    for run in runs:
        found += [_group(run, data)] if len(run) >= FEW else run
    return found


def _group(
    things: Sequence[Group | str],
    data: RecordingData,
    title: str = "",
    *,
    about: str = "",
    where: str = "",
) -> Group:
    members = _members(things)
    children = tuple(_bundle(list(things), data)) if len(things) > CHILDREN else tuple(things)
    where = where or _lines(members, data)
    full = _lines(members, data, whole=True)
    if not title:
        title = _code(members, data) or where or _names(members, data)
        where = "" if title == where else where
    words = " · ".join(filter(None, (about or title, full)))
    name = f"g{members[0]}-{members[-1]}-{len(members)}"
    return Group(name, title, members, children, where, words)


def _members(things: Iterable[Group | str]) -> tuple[str, ...]:
    found: list[str] = []
    for thing in things:
        found += thing.members if isinstance(thing, Group) else [thing]
    return tuple(found)


def _places(nodes: Iterable[str], data: RecordingData) -> list[tuple[int, int]]:
    lines = (data["nodes"][node]["line"] for node in nodes)
    return sorted({(line[0], line[1]) for line in lines if line})


def _lines(nodes: Iterable[str], data: RecordingData, *, whole: bool = False) -> str:
    """Return the lines of some Nodes in words; the source by the last part of its name."""
    places = _places(nodes, data)
    if not places:
        return ""
    sources = sorted({source for source, _ in places})
    names = [data["sources"][source]["name"] for source in sources]
    if len(names) > 1:
        return f"lines of {', '.join(names) if whole else f'{len(names)} sources'}"
    name = names[0] if whole else re.split(r"[/\\]", names[0])[-1]
    where = f"{name} " if len(data["sources"]) > 1 else ""
    first, last = places[0][1], places[-1][1]
    return f"{where}line {first}" if first == last else f"{where}lines {first} to {last}"


def _code(nodes: Iterable[str], data: RecordingData) -> str:
    """Return the code of the line that made some Nodes; empty where it was not one line."""
    places = _places(nodes, data)
    if len(places) != 1:
        return ""
    source = data["sources"][places[0][0]]
    at = places[0][1] - source["first"]
    return source["lines"][at].strip() if 0 <= at < len(source["lines"]) else ""


def _names(nodes: Sequence[str], data: RecordingData) -> str:
    first, last = (data["nodes"][nodes[at]]["title"] for at in (0, -1))
    return f"{first} to {last}"
