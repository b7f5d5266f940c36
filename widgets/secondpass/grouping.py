"""What a first look shows: at most some tens of boxes, the rest in groups that can be opened.

A group is a run of Nodes that are neighbours in the order in which the forward pass made them
(or a bundle of leaves). Runs of one order never make a circle, so a graph of groups is laid out
like any other. Groups are found by source line, by repeated parts (the layers of a network, the
rounds of a loop), by unbranched runs, and by plain count where nothing else helps.
"""

from __future__ import annotations

import heapq
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from secondpass.state import EdgeData, RecordingData

BOXES = 60
"""A first look has about so many boxes at most."""

OPENED = 36
"""Groups are opened by themselves as long as no more boxes than this are seen."""

FEW = 4
"""Fewer Nodes than this are not worth a group, unless a line made them."""

GRAPHS = 12
"""More separate graphs than this (the rounds of a training loop) are put together."""

CHILDREN = 60
"""An opened group shows at most so many boxes."""

ALIKE = 8
"""More leaves than this behind one and the same Node are bundled."""

FEW_LEAVES = 16
"""Up to so many leaves stay outside of groups: their ``.grad`` is what one looks at."""

PATH = 20
"""The way from a Node that stopped to a root is opened up to this length."""


@dataclass(frozen=True)
class Group:
    """A run of Nodes, or a bundle of leaves.

    Attributes
    ----------
    id : str
        ``g`` and the ids of its first and last member.
    title : str
        ``line 12``, ``round 3 · lines 12 to 20``, ``30 leaves``.
    members : tuple of str
        The ids of all Nodes (or leaves) in it.
    children : tuple of Group or str
        What it shows when it is open.
    """

    id: str
    title: str
    members: tuple[str, ...]
    children: tuple[Group | str, ...]


@dataclass
class View:
    """What is drawn of a recording.

    Attributes
    ----------
    boxes : dict
        Id of a Node, leaf, root or closed group to the open group it stands in, or None.
    groups : dict
        Every group that is drawn, closed or open, by its id.
    open : dict
        Id of an open group to the open group around it, outer ones first.
    inside, roots : dict
        Id of a closed group to the leaves that only it uses, and to its roots where there are many.
    edges : dict
        ``(source box, target box, number)`` to the ids of the edges that this line stands for.
    """

    boxes: dict[str, str | None] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    open: dict[str, str | None] = field(default_factory=dict)
    inside: dict[str, list[str]] = field(default_factory=dict)
    roots: dict[str, list[str]] = field(default_factory=dict)
    edges: dict[tuple[str, str, int], list[str]] = field(default_factory=dict)


def view_of(data: RecordingData, opened: Sequence[str] | None = None) -> View:
    """Choose what is drawn.

    Parameters
    ----------
    data : dict
        A recording as `Recording.to_dict` gives it.
    opened : sequence of str, optional
        Ids of the groups that are open; None leaves the choice to us.
    """
    forest = _forest(data)
    must = _around(forest, _must_show(data))
    if opened is not None:
        return _cut(data, forest, must | set(opened))
    view = _cut(data, forest, must)
    while True:  # open level after level for as long as it fits
        closed = {name for name in view.groups.keys() & view.boxes.keys() if name[1] == "n"}
        deeper = _cut(data, forest, closed | view.open.keys())
        if not closed or len(deeper.boxes) > OPENED:
            return view
        view = deeper


def _must_show(data: RecordingData) -> list[str]:
    """Return the Nodes that are never hidden: where calls stopped, and the way from a root."""
    stopped = {frame["node"] for frame in data["frames"] if frame["kind"] == "stop"}
    shown: list[str] = []
    for node in sorted(name for name in stopped if name in data["nodes"]):
        path = _way_to_root(node, data["edges"])
        shown += path if len(path) <= PATH else [node]
    return shown


def _way_to_root(node: str, edges: Iterable[EdgeData]) -> list[str]:
    """Return the shortest way from a Node forward to a root, the Node first."""
    following: dict[str, list[str]] = {}
    for edge in edges:
        following.setdefault(edge["source"], []).append(edge["target"])
    came_from: dict[str, str | None] = {node: None}
    queue = [node]
    for here in queue:
        if here not in following:  # a root
            path = []
            at: str | None = came_from[here]
            while at is not None:
                path.append(at)
                at = came_from[at]
            return path[::-1]
        for target in following[here]:
            if target not in came_from:
                came_from[target] = here
                queue.append(target)
    return [node]


def _around(forest: Sequence[Group | str], wanted: Iterable[str]) -> set[str]:
    """Return the ids of the groups that must be open for some Nodes to be seen."""
    wanted = set(wanted)
    found: set[str] = set()
    queue = [thing for thing in forest if isinstance(thing, Group)]
    for group in queue:
        if wanted.intersection(group.members):
            found.add(group.id)
            queue += [child for child in group.children if isinstance(child, Group)]
    return found


# Finding groups


def _forest(data: RecordingData) -> list[Group | str]:
    order = _forward_order(data)
    if len(order) + len(data["leaves"]) + len(data["roots"]) <= BOXES:
        return list(order)
    parts = _parts(order, data)
    if len(parts) == 1:
        return _bundle(_by_line(order, data), data)
    # Every round of a training loop makes a graph of its own.
    graphs: list[Group | str] = []
    for number, part in enumerate(parts, 1):
        things = _bundle(_by_line(part, data), data)
        title = f"graph {number} of {len(parts)} · {_lines(part, data) or _names(part, data)}"
        graphs.append(_group(things, data, title) if len(part) > 1 else part[0])
    while len(graphs) > GRAPHS:
        graphs = _chunks(graphs, data, GRAPHS)
    return graphs


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
            lines = _lines(_members(part), data)
            title = f"round {number} of {count}" + (f" · {lines}" if lines else "")
            rounds.append(_group(part, data, title))
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


def _group(things: Sequence[Group | str], data: RecordingData, title: str = "") -> Group:
    members = _members(things)
    children = tuple(_bundle(list(things), data)) if len(things) > CHILDREN else tuple(things)
    title = title or _lines(members, data) or _names(members, data)
    return Group(f"g{members[0]}-{members[-1]}-{len(members)}", title, members, children)


def _members(things: Iterable[Group | str]) -> tuple[str, ...]:
    found: list[str] = []
    for thing in things:
        found += thing.members if isinstance(thing, Group) else [thing]
    return tuple(found)


def _lines(nodes: Iterable[str], data: RecordingData) -> str:
    """Return the lines of some Nodes in words; empty where none is known."""
    places = [tuple(line) for node in nodes if (line := data["nodes"][node]["line"])]
    if not places:
        return ""
    sources = {source for source, _ in places}
    numbers = sorted({number for _, number in places})
    where = f"{data['sources'][places[0][0]]['name']} " if len(data["sources"]) > 1 else ""
    if len(sources) > 1:
        return f"lines of {len(sources)} sources"
    if len(numbers) == 1:
        return f"{where}line {numbers[0]}"
    return f"{where}lines {numbers[0]} to {numbers[-1]}"


def _names(nodes: Sequence[str], data: RecordingData) -> str:
    first, last = (data["nodes"][nodes[at]]["title"] for at in (0, -1))
    return f"{first} to {last}"


# Cutting the forest


def _cut(data: RecordingData, forest: Sequence[Group | str], opened: set[str]) -> View:
    """Draw the children of open groups and the closed groups as one box each."""
    view = View()
    box_of: dict[str, str] = {}

    def place(things: Iterable[Group | str], frame: str | None, end: str | None = None) -> None:
        for thing in things:
            if isinstance(thing, str):
                view.boxes[thing] = frame
                box_of[thing] = end or thing
                continue
            view.groups[thing.id] = thing
            if thing.id in opened:
                view.open[thing.id] = frame
                # Leaves of one bundle are used alike: one line leads from all of them.
                of_leaves = thing.members[0] in data["leaves"]
                place(thing.children, thing.id, (end or thing.id) if of_leaves else None)
            elif end:
                view.boxes[thing.id] = frame
            else:
                view.boxes[thing.id] = frame
                box_of.update(dict.fromkeys(thing.members, thing.id))

    place(forest, None)
    _place_leaves(data, view, box_of, opened, place)
    for root, facts in data["roots"].items():
        source = box_of.get(facts["source"], "")
        if source in view.groups and len(data["roots"]) > ALIKE:
            view.roots.setdefault(source, []).append(root)
        else:
            view.boxes[root] = None
            box_of[root] = root
    _join(data, view, box_of)
    return view


def _place_leaves(
    data: RecordingData,
    view: View,
    box_of: dict[str, str],
    opened: set[str],
    place: Callable[[Iterable[Group | str], str | None], None],
) -> None:
    """Fold a leaf into the closed group that alone uses it; bundle many that are used alike."""
    users: dict[str, dict[str, None]] = {leaf: {} for leaf in data["leaves"]}
    for edge in data["edges"]:
        if edge["source"] in users:
            users[edge["source"]][box_of.get(edge["target"], edge["target"])] = None
    alike: dict[tuple[str, ...], list[str]] = {}
    for leaf, boxes in users.items():
        only = next(iter(boxes)) if len(boxes) == 1 else None
        if only in view.groups and len(users) > FEW_LEAVES:
            view.inside.setdefault(str(only), []).append(leaf)
            box_of[leaf] = str(only)
        else:
            alike.setdefault(tuple(boxes), []).append(leaf)
    single = sum(len(leaves) for leaves in alike.values() if len(leaves) <= ALIKE)
    if single > BOXES and len(data["nodes"]) + single > 2 * BOXES:
        alike = {(): [leaf for leaves in alike.values() for leaf in leaves]}
    for used_by, leaves in alike.items():
        frames = {view.boxes.get(box) for box in used_by}
        frame = frames.pop() if len(frames) == 1 else None
        place([_leaf_group(leaves)] if len(leaves) > ALIKE else list(leaves), frame)


def _leaf_group(leaves: Sequence[str]) -> Group:
    children: list[Group | str] = list(leaves)
    if len(leaves) > CHILDREN:
        size = max(CHILDREN, -(-len(leaves) // CHILDREN))
        children = [
            _leaf_group(leaves[at : at + size]) if size > 1 else leaves[at]
            for at in range(0, len(leaves), size)
        ]
    name = f"g{leaves[0]}-{leaves[-1]}-{len(leaves)}"
    return Group(name, f"{len(leaves):,} leaves", tuple(leaves), tuple(children))


def _join(data: RecordingData, view: View, box_of: dict[str, str]) -> None:
    """Draw one line per edge, but one line for all edges between a closed group and a box."""
    count: dict[tuple[str, str], int] = {}
    for edge in data["edges"]:
        source, target = box_of.get(edge["source"]), box_of.get(edge["target"])
        if source is None or target is None or source == target:
            continue
        pair = (source, target)
        number = count.get(pair, 0)
        if view.groups.keys() & pair and number:
            view.edges[(*pair, 0)].append(edge["id"])
            continue
        view.edges[(*pair, number)] = [edge["id"]]
        count[pair] = number + 1
