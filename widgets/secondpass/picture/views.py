"""What is drawn of a recording: which groups are open, which boxes and lines that leaves.

The Nodes in which calls stopped are always seen, and so is the way from there to a root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from secondpass.picture.data import EdgeData, RecordingData
from secondpass.picture.grouping import BOXES, CHILDREN, Forest, Group, forest_of
from secondpass.picture.stacks import rooms

OPENED = 24
"""Groups are opened by themselves as long as no more boxes than this are seen."""

ALIKE = 8
"""More leaves than this behind one and the same Node are bundled."""

FEW_LEAVES = 16
"""Up to so many leaves stay outside of groups: their ``.grad`` is what one looks at."""

PATH = 20
"""The way from a Node that stopped to a root is opened up to this length."""


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
    stops : set
        The Nodes in which calls stopped.
    modules : dict
        Node id to its module, in a big graph and where no line tells where it comes from.
    rooms : dict
        Leaf id to the width that its gradients need.
    """

    boxes: dict[str, str | None] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    open: dict[str, str | None] = field(default_factory=dict)
    inside: dict[str, list[str]] = field(default_factory=dict)
    roots: dict[str, list[str]] = field(default_factory=dict)
    edges: dict[tuple[str, str, int], list[str]] = field(default_factory=dict)
    stops: set[str] = field(default_factory=set)
    modules: dict[str, str] = field(default_factory=dict)
    rooms: dict[str, int] = field(default_factory=dict)

    def is_brief(self, node: str) -> bool:
        """Say whether a Node's saved tensors are only counted, as they are in a big graph."""
        return bool(self.groups) and node not in self.stops


def view_of(data: RecordingData, opened: Sequence[str] | None = None) -> View:
    """Choose what is drawn.

    Parameters
    ----------
    data : dict
        A recording as `Recording.to_dict` gives it.
    opened : sequence of str, optional
        Ids of the groups that are open; None leaves the choice to us.
    """
    forest = forest_of(data)
    must = _around(forest.things, _must_show(data))
    view = _cut(data, forest, must | set(opened or ()))
    while opened is None:  # open level after level for as long as it fits
        closed = {name for name in view.groups.keys() & view.boxes.keys() if name[1] == "n"}
        deeper = _cut(data, forest, closed | view.open.keys())
        if not closed or len(deeper.boxes) > OPENED:
            break
        view = deeper
    if view.groups and not all(node["line"] for node in data["nodes"].values()):
        view.modules = forest.modules()
    view.rooms = rooms(data)
    return view


def _must_show(data: RecordingData) -> list[str]:
    """Return the Nodes that are never hidden: where calls stopped, and the way from a root."""
    shown: list[str] = []
    for node in sorted(_stops(data)):
        path = _way_to_root(node, data["edges"])
        shown += path if len(path) <= PATH else [node]
    return shown


def _stops(data: RecordingData) -> set[str]:
    nodes = {frame["node"] for frame in data["frames"] if frame["kind"] == "stop"}
    return {node for node in nodes if node in data["nodes"]}


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


def _cut(data: RecordingData, forest: Forest, opened: set[str]) -> View:
    """Draw the children of open groups and the closed groups as one box each."""
    view = View(stops=_stops(data))
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

    place(forest.things, None)
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
