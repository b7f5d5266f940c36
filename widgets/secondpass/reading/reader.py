"""Read live autograd graphs into records.

A `GraphReader` remembers what it has read: a Node keeps its id over several readings, and a slot
keeps its shape and bytes after its saved tensor was freed.
"""

from __future__ import annotations

import weakref
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from secondpass.reading import saved, walk
from secondpass.reading.graph import Edge, Graph, Root
from secondpass.reading.known import KnownLeaf, KnownNode, KnownRoot, LineOf
from secondpass.reading.memory import HeldBytes
from secondpass.reading.roots import check_roots
from secondpass.reading.saved import Slot, type_text
from secondpass.reading.unheard import unheard
from secondpass.reading.values import SeenGradient, Value, value_text

_OUTPUTS = "_input_metadata"
_FINAL = (saved.FREED, saved.NONE)  # a slot in this state stays in it


@dataclass
class Reading:
    """The live Nodes of a graph that was just read, and their ids. Use it and drop it."""

    found: walk.Walk
    ids: dict[Any, str]


@dataclass
class GraphReader:
    """Reads graphs as they stand at a moment and remembers what was seen.

    Parameters
    ----------
    line_of : callable
        Gives the line that made a Node, by its sequence number, or None.
    """

    line_of: LineOf = field(default=lambda number: None)
    nodes: dict[str, KnownNode] = field(default_factory=dict)
    leaves: dict[str, KnownLeaf] = field(default_factory=dict)
    edges: dict[tuple[str, str, int], int] = field(default_factory=dict)
    roots: list[KnownRoot] = field(default_factory=list)
    left_out: str = ""
    held: HeldBytes = field(default_factory=HeldBytes)
    _ids: dict[int, str] = field(default_factory=dict)  # tag number -> Node id
    _leaf_ids: dict[int, str] = field(default_factory=dict)  # id(tensor) -> leaf id

    def add_roots(
        self, tensors: Sequence[Any], names: Mapping[int, str], born_in: int | None = None
    ) -> Reading:
        """Read the graph behind tensors and remember them as roots.

        Returns
        -------
        Reading
            The live Nodes; drop it soon.
        """
        starts = [walk.gradient_node(tensor) for tensor in tensors]
        found = self.read(starts, names, born_in)
        for tensor in tensors:
            known = next((one for one in self.roots if one.tensor() is tensor), None)
            known = known or self._add_root(tensor, names)
            if known is not None:
                known.look()
        return found

    def read(
        self, starts: Iterable[Any], names: Mapping[int, str], born_in: int | None = None
    ) -> Reading:
        """Read or re-read the graph behind some Nodes.

        Parameters
        ----------
        starts : iterable of torch.autograd.graph.Node
        names : mapping from id(tensor) to str
        born_in : int, optional
            The call that made those Nodes that were not seen before.
        """
        found = walk.walk(starts)
        hidden = "" if saved.SHOWN else saved.HIDDEN
        self.left_out = self.left_out or found.left_out or hidden
        for accumulate in found.leaves:
            self._add_leaf(accumulate.variable, names)
        ids = {node: self._add_node(node, born_in) for node in found.nodes}
        for node, following in zip(found.nodes, found.following, strict=True):
            for index, (source, output) in enumerate(following):
                source_id = ids.get(source) or (None if source is None else self.id_of(source))
                if source_id is not None:
                    self.edges[source_id, ids[node], index] = output
        return Reading(found, ids)

    def id_of(self, node: Any) -> str | None:
        """Return the id of a live Node or AccumulateGrad, None where it was not read."""
        if node is None:
            return None
        if walk.is_accumulate(node):
            return self.leaf_id(node.variable)
        tag = walk.tag_of(node)
        return None if tag is None else self._ids.get(tag.number)

    def leaf_id(self, tensor: torch.Tensor) -> str | None:
        """Return the id of a leaf, None where it was not read."""
        key = self._leaf_ids.get(id(tensor))
        # Python gives the number of a dead object to the next one.
        return key if key is not None and self.leaves[key].tensor() is tensor else None

    def refresh(
        self, node: Any, freed_by: int | None = None, *, see_changes: bool = True
    ) -> dict[str, Slot]:
        """Read a known Node's slots again.

        Parameters
        ----------
        node : torch.autograd.graph.Node
        freed_by : int, optional
            The call to name where a slot is found freed that was not before.
        see_changes : bool
            Look also whether a saved tensor was modified in place.

        Returns
        -------
        dict from slot name to Slot
            The slots whose state is another than before.
        """
        node_id = self.id_of(node)
        if node_id is None:
            return {}
        return self.refresh_known(self.nodes[node_id], node, freed_by, see_changes=see_changes)

    def refresh_known(
        self, known: KnownNode, node: Any, freed_by: int | None = None, *, see_changes: bool = True
    ) -> dict[str, Slot]:
        """Read the slots of a Node again that was just looked up; see `refresh`."""
        before = {slot.name: slot for slot in known.slots}
        held = {name for name, slot in before.items() if slot.state not in _FINAL}
        if not held:
            return {}
        read = saved.read_slots_and_storages(node, see_changes=see_changes, held=held)
        pairs = _merged(before, read, freed_by)
        changed = {slot.name: slot for slot, _ in pairs if slot != before.get(slot.name)}
        if changed:
            self._set_slots(known, pairs)
        return changed

    def see_freed(self, known: KnownNode, node: Any, call: int) -> dict[str, Slot]:
        """Look whether a Node that has just run was freed, which is quicker than `refresh`.

        One of its slots tells: torch frees all that a Node saved, or nothing of it.
        """
        for slot in known.slots:
            if slot.state in saved.SEEN and saved.is_empty(node, slot.name):
                return self._mark(known, saved.SEEN, call)
            if slot.state in saved.SEEN:
                break
        return {}

    def mark_freed(self, node_id: str, call: int) -> dict[str, Slot]:
        """Note that a call ran a Node whose slots cannot be seen, and freed them."""
        return self._mark(self.nodes[node_id], {saved.UNKNOWN}, call)

    def drop_dead(self) -> dict[str, dict[str, Slot]]:
        """Note which graphs have died: what they saved went with them.

        Returns
        -------
        dict from Node id to dict from slot name to Slot
            The slots that changed.
        """
        going = {*saved.SEEN, saved.UNKNOWN}
        gone = {
            key: self._mark(known, going, None)
            for key, known in self.nodes.items()
            if known.tag() is None
        }
        return {key: changed for key, changed in gone.items() if changed}

    def see_grad(self, leaf_id: str, value: Value | None = None) -> SeenGradient:
        """Look at a leaf's ``.grad`` again; its value need not be measured where it is given."""
        known = self.leaves[leaf_id]
        tensor = known.tensor()
        if tensor is not None and not known.grad.stands(tensor):
            known.grad = SeenGradient(tensor, value)
        return known.grad

    @unheard()
    def graph(self, *, look: bool = True) -> Graph:
        """Return what is known as records; leaves' values and ``.grad`` as they are now.

        Without ``look`` they are as they were when last looked at.
        """
        for key, known in self.leaves.items() if look else ():
            self.see_grad(key)
            tensor = known.tensor()
            if tensor is not None:
                known.value = Value(tensor)
        return Graph(
            nodes=tuple(known.record for known in self.nodes.values()),
            leaves=tuple(known.record for known in self.leaves.values()),
            edges=tuple(Edge(*ends, output) for ends, output in self.edges.items()),
            roots=tuple(known.record for known in self.roots),
            left_out=self.left_out,
        )

    def _mark(self, known: KnownNode, states: Container[str], call: int | None) -> dict[str, Slot]:
        """Note that those slots of a Node that are in one of some states are freed."""
        changed = {slot.name: slot.freed(call) for slot in known.slots if slot.state in states}
        if changed:
            for name in changed:
                self.held.release(f"{known.id}.{name}")
            known.slots = tuple([changed.get(slot.name, slot) for slot in known.slots])
        return changed

    def _set_slots(self, known: KnownNode, pairs: Sequence[tuple[Slot, Hashable]]) -> None:
        for slot in known.slots:
            self.held.release(f"{known.id}.{slot.name}")
        for slot, storage in pairs:
            if slot.nbytes and slot.state in saved.SEEN:
                self.held.hold(f"{known.id}.{slot.name}", storage=storage, nbytes=slot.nbytes)
        known.slots = tuple(slot for slot, _ in pairs)

    def _add_root(self, tensor: Any, names: Mapping[int, str]) -> KnownRoot | None:
        source = self.id_of(walk.gradient_node(tensor))
        if source is None:
            return None
        if isinstance(tensor, torch.Tensor):
            record = Root(
                names.get(id(tensor), "result"), type_text(tensor), value_text(tensor), source
            )
        else:  # a GradientEdge: a place in a graph, without a value
            record = Root("gradient edge", "", "", source)
        known = KnownRoot(record, _weak(tensor))
        self.roots.append(known)
        return known

    def _add_leaf(self, tensor: torch.Tensor, names: Mapping[int, str]) -> None:
        key = self.leaf_id(tensor)
        if key is None:
            key = f"l{len(self.leaves)}"
            name = names.get(id(tensor), f"leaf {len(self.leaves) + 1}")
            known = KnownLeaf(
                key,
                name,
                weakref.ref(tensor),
                Value.later(tensor),
                SeenGradient(tensor),
                type_text(tensor),
            )
            self.leaves[key] = known
            self._leaf_ids[id(tensor)] = key

    def _add_node(self, node: Any, born_in: int | None) -> str:
        tag = walk.tag_of(node)
        assert tag is not None, "a walk tags every Node that it returns"
        known_id = self._ids.get(tag.number)
        if known_id is not None:
            self.refresh(node)
            return known_id
        node_id = self._ids[tag.number] = f"n{len(self.nodes)}"
        known = self.nodes[node_id] = KnownNode(
            node_id,
            walk.name_of(node),
            walk.age(node),
            _outputs(node),
            born_in,
            self.line_of,
            weakref.ref(tag),
        )
        self._set_slots(known, saved.read_slots_and_storages(node))
        return node_id


def read_graph(
    tensors: Sequence[torch.Tensor],
    *,
    names: Mapping[int, str] | None = None,
    line_of: LineOf | None = None,
) -> Graph:
    """Read the graph behind tensors as it stands now, without side effects.

    Parameters
    ----------
    tensors : sequence of torch.Tensor
        The roots, each with a grad_fn.
    names : mapping from id(tensor) to str, optional
        The person's own names of leaves and roots.
    line_of : callable, optional
        Gives the line that made a Node, by its sequence number, where it is known.

    Returns
    -------
    Graph

    Raises
    ------
    TypeError
        For anything that is not a tensor.
    NoGraphError
        For a tensor without a graph; the message says why and what to do.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> y = x**2
    >>> print(read_graph([y], names={id(x): "x", id(y): "y"}))
    y = 4  f32[1]
    └─ Pow  saves self f32[1] 4 B held
       └─ x = 2  leaf f32[1], grad None
    """
    with unheard():
        check_roots(tensors)
        reader = GraphReader(line_of or (lambda number: None))
        reader.add_roots(tensors, names or {})
        return reader.graph()


def _merged(
    before: Mapping[str, Slot],
    read: list[tuple[Slot, Hashable]],
    freed_by: int | None,
) -> list[tuple[Slot, Hashable]]:
    """Join what is read now with what is known: a freed slot keeps its shape and its bytes.

    A list of slots refuses as a whole once freed: ``indices`` then stands for ``indices[0]`` ….
    """
    merged: list[tuple[Slot, Hashable]] = []
    for slot, storage in read:
        known = [one for name, one in before.items() if _is_part(name, slot.name)]
        if slot.state not in (saved.FREED, saved.UNKNOWN) or not known:
            merged.append((slot, storage))
            continue
        for one in known:
            if slot.state == saved.FREED and one.state not in (saved.FREED, saved.NONE):
                one = one.freed(freed_by)
            merged.append((one, None))
    return merged


def _is_part(name: str, whole: str) -> bool:
    return name == whole or name.startswith(f"{whole}[")


def _outputs(node: Any) -> Sequence[tuple[torch.dtype, tuple[int, ...]] | None]:
    """Return type and shape of a Node's outputs, from metadata: no tensor is touched."""
    try:
        return [(one.dtype, tuple(one.shape)) for one in getattr(node, _OUTPUTS)]
    except AttributeError:  # C++ custom functions have none, and the name is private
        return ()
    except (RuntimeError, TypeError, ValueError):  # nested tensors have no plain shape
        return (None,)


def _weak(thing: Any) -> weakref.ref[Any]:
    try:
        return weakref.ref(thing)
    except TypeError:  # a GradientEdge is a tuple: not held, so it counts as gone
        return weakref.ref(type("Gone", (), {})())
