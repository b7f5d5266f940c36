"""Which ``nn.Module`` each Node belongs to, read off the names of the parameters that it uses.

``net.blocks.3.up.weight`` gives the Node that uses it to ``net.blocks.3.up``. Nodes that use no
parameter were made between two that do, so inside whatever module holds both. Where that leaves
the end of a repeated layer open (the sum after the last linear map), the layers decide: what
follows each of them alike belongs to each of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from secondpass.picture.data import RecordingData

Path = tuple[str, ...]

_DOT = re.compile(r"\.(?![^\[]*\])")  # a dot outside of brackets: states['a.b'].weight


def module_of(name: str) -> Path:
    """Return the module of a parameter.

    Examples
    --------
    >>> module_of("net.blocks.3.up.weight"), module_of("x")
    (('net', 'blocks', '3', 'up'), ())
    """
    return tuple(_DOT.split(name)[:-1])


def modules_of(order: Sequence[str], data: RecordingData) -> dict[str, Path]:
    """Return the module of each Node; empty where no Node uses a module's parameter.

    Parameters
    ----------
    order : sequence of str
        Node ids in the order in which the forward pass made them.
    data : dict
        A recording as `Recording.to_dict` gives it.
    """
    forward = {node for node in order if data["nodes"][node]["born_in"] is None}
    own = _own(order, forward, data)
    if not own:
        return {}
    paths: list[Path] = []
    following = _following(order, own)
    before: Path = ()
    for node, after in zip(order, following, strict=True):
        before = own.get(node, before)
        # What a call made under create_graph belongs to no forward pass.
        paths.append(_common(before, after) if node in forward else ())
    _close_layers([data["nodes"][node]["title"] for node in order], paths)
    return dict(zip(order, paths, strict=True))


def _own(order: Sequence[str], forward: set[str], data: RecordingData) -> dict[str, Path]:
    """Return the module of each Node that uses a parameter, as it is or transposed or cast."""
    sources: dict[str, list[str]] = {}
    for edge in data["edges"]:
        if edge["target"] in forward:
            sources.setdefault(edge["target"], []).append(edge["source"])
    known = {
        leaf: path for leaf, facts in data["leaves"].items() if (path := module_of(facts["name"]))
    }
    own: dict[str, Path] = {}
    for node in order:
        used = [known[source] for source in sources.get(node, ()) if source in known]
        if used:
            own[node] = _common(*used)
            # A Node that saved a tensor, such as the indices of an embedding, computed something.
            is_same = not any(slot["nbytes"] for slot in data["nodes"][node]["slots"])
            if is_same and len(used) == len(sources[node]) == 1:
                known[node] = own[node]
    return own


def _common(*paths: Path) -> Path:
    """Return the nearest module that holds all."""
    shared = itertools.takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))
    return tuple(parts[0] for parts in shared)


def _following(order: Sequence[str], own: dict[str, Path]) -> list[Path]:
    """Return for each Node the module of the next one that has its own, itself included."""
    found: list[Path] = []
    after: Path = ()
    for node in reversed(order):
        after = own.get(node, after)
        found.append(after)
    return found[::-1]


@dataclass
class _Layer:
    """The Nodes ``order[start:end]`` of a numbered module, such as ``blocks.3``."""

    path: Path
    start: int
    end: int


def _close_layers(titles: Sequence[str], paths: list[Path]) -> None:
    """Give to numbered layers what follows, or goes before, each of them alike."""
    for depth in reversed(range(max(map(len, paths)))):
        for chain in _chains(paths, depth):
            gaps = [(one.end, other.start) for one, other in itertools.pairwise(chain)]
            between = list(titles[gaps[0][0] : gaps[0][1]])
            if not between or any(list(titles[a:b]) != between for a, b in gaps):
                continue
            parent, last = chain[0].path[:-1], chain[-1].end
            tail = 0
            while (
                tail < len(between)
                and last + tail < len(paths)
                and titles[last + tail] == between[tail]
                and parent[: len(paths[last + tail])] == paths[last + tail]
            ):
                tail += 1
            for layer in chain:
                paths[layer.end : layer.end + tail] = [layer.path] * tail
            head = len(between) - tail
            start = chain[0].start
            leads = list(titles[start - head : start]) == between[tail:] if head <= start else False
            if head and leads and set(paths[start - head : start]) <= {parent}:
                for layer in chain:
                    paths[layer.start - head : layer.start] = [layer.path] * head


def _chains(paths: Sequence[Path], depth: int) -> list[list[_Layer]]:
    """Return the rows of numbered layers with one parent that is ``depth`` deep."""
    layers: list[_Layer] = []
    for at, path in enumerate(paths):
        if len(path) <= depth or not path[depth].isdigit():
            continue
        key = path[: depth + 1]
        if layers and layers[-1].path == key and layers[-1].end == at:
            layers[-1].end = at + 1
        else:
            layers.append(_Layer(key, at, at + 1))
    chains: list[list[_Layer]] = []
    for layer in layers:
        last = chains[-1][-1] if chains else None
        if (
            last
            and last.path[:-1] == layer.path[:-1]
            and last.path != layer.path
            and all(path == layer.path[:-1] for path in paths[last.end : layer.start])
        ):
            chains[-1].append(layer)
        else:
            chains.append([layer])
    return [chain for chain in chains if len(chain) > 1]
