"""What hooks saw, noted in as little time as will do; written as frames when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from secondpass.reading import saved
from secondpass.reading.known import KnownNode
from secondpass.reading.saved import Slot, bytes_text
from secondpass.reading.values import Value
from secondpass.replay.frames import Frame, SlotState, listed


@dataclass(slots=True)
class ForwardRan:
    """The forward pass made some Nodes."""

    nodes: Sequence[KnownNode]  # in the order in which they were made
    slots: Sequence[tuple[Slot, ...]]  # as they were then, for each Node
    held: int = 0

    def frames(self) -> list[Frame]:
        """Write a frame for each line that made some of them."""
        frames: list[Frame] = []
        start = 0
        for end in range(1, len(self.nodes) + 1):
            if end == len(self.nodes) or self.nodes[end].line != self.nodes[start].line:
                frames.append(self._frame(slice(start, end)))
                start = end
        return frames

    def _frame(self, part: slice) -> Frame:
        nodes, all_slots = self.nodes[part], self.slots[part]
        titles = [node.record.title for node in nodes]
        hidden = any(slot.state == saved.UNKNOWN for slots in all_slots for slot in slots)
        nothing = "nothing that torch shows" if hidden else "nothing"
        unsaid = (saved.NONE, saved.UNKNOWN)
        kept = dict.fromkeys(
            slot.name for slots in all_slots for slot in slots if slot.state not in unsaid
        )
        saves = "saves" if len(nodes) == 1 else "save"
        line = nodes[0].line
        text = "The forward pass made"
        if line is not None:
            where = line.where[0].upper() + line.where[1:]
            text = f"{where} ran: it made"
        states: dict[str, SlotState] = {}
        for node, slots in zip(nodes, all_slots, strict=True):
            states |= slot_states(node.id, slots)
        return Frame(
            "forward",
            f"{text} {listed(titles)}, which {saves} {listed(list(kept)) or nothing}.",
            node=nodes[-1].id,
            line=line,
            slots=states,
            born=tuple(node.id for node in nodes),
            held=self.held,
        )


@dataclass(slots=True)
class NodeRan:
    """A Node ran in a call."""

    call: int
    node: KnownNode
    incoming: Sequence[Value]
    going: Sequence[tuple[str, int, Value]]  # to which source, along which edge, what
    changed: Mapping[str, Slot] = field(default_factory=dict)
    slots: tuple[Slot, ...] = ()
    held: int = 0

    def frames(self) -> list[Frame]:
        """Write it as a frame."""
        going = {
            f"{source}-{self.node.id}-{index}": str(value) for source, index, value in self.going
        }
        came_in = [str(value) for value in self.incoming]
        incoming = ", ".join(came_in) or "nothing"
        outgoing = ", ".join(going.values()) or "nothing"
        title = self.node.record.title
        frame = Frame(
            "node",
            f"Call {self.call} runs {title}: {_going(came_in, 'come', 'in')}, "
            f"{_going([*going.values()], 'go', 'on')}. "
            f"{self._what_became_of_slots()}",
            call=self.call,
            node=self.node.id,
            line=self.node.line,
            incoming=incoming,
            after=outgoing,
            gradients=going,
            slots=slot_states(self.node.id, self.slots),
            held=self.held,
        )
        return [frame]

    def _what_became_of_slots(self) -> str:
        freed = [slot for slot in self.changed.values() if slot.state == saved.FREED]
        if freed:
            size = sum(slot.nbytes or 0 for slot in freed)
            return f"{_tensors(freed)} freed{f' ({bytes_text(size)})' if size else ''}."
        kept = [slot for slot in self.slots if slot.state in saved.SEEN]
        if kept:
            return f"{_tensors(kept)} kept."
        states = {slot.state for slot in self.slots}
        if saved.UNKNOWN in states:
            return "What it saves is not shown."
        # A person's own Function need not read what it saved: then it runs again.
        return "What it saved was freed before." if saved.FREED in states else "It saves nothing."


@dataclass(slots=True)
class Landed:
    """A gradient was added to a leaf's ``.grad``."""

    call: int
    leaf_id: str
    name: str
    before: Value | None
    incoming: Value
    after: Value | None
    hooked: bool = False  # hooks of the person's ran on it before its .grad was seen again
    held: int = 0

    def frames(self) -> list[Frame]:
        """Write it as a frame, and what a hook made of it as another."""
        before = None if self.before is None else str(self.before)
        after = None if self.after is None else str(self.after)
        incoming = str(self.incoming)
        added = incoming
        if before is not None:
            is_less = incoming.startswith("-")
            added = f"{before} − {incoming[1:]}" if is_less else f"{before} + {incoming}"
        if self.hooked or after is None:
            landed, total = f"= {added}" if before is None else added, added
        elif before is None:
            landed, total = f"= {after}", after
        else:
            landed, total = f"{added} = {after}", after
        frame = Frame(
            "accumulate",
            f"Call {self.call}: {self.name}.grad {landed}",
            call=self.call,
            leaf=self.name,
            leaf_id=self.leaf_id,
            before=before,
            incoming=incoming,
            after=total,
            held=self.held,
        )
        if after == total:
            return [frame]
        what = "was reset by a hook" if after is None else f"is {after} after a hook on it"
        hook = Frame(
            "zero" if after is None else "write",
            f"{self.name}.grad {what}.",
            call=self.call,
            leaf=self.name,
            leaf_id=self.leaf_id,
            before=total,
            after=after,
            held=self.held,
        )
        return [frame, hook]


@dataclass(slots=True)
class Noted:
    """Anything that happens seldom enough to be written at once."""

    written: Frame
    held: int = 0

    def frames(self) -> list[Frame]:
        """Return the frame, with the bytes held after it."""
        return [replace(self.written, held=self.held)]


Event = ForwardRan | NodeRan | Landed | Noted


def slot_states(node_id: str, slots: Sequence[Slot]) -> dict[str, SlotState]:
    """Return the states of a Node's slots as a frame has them."""
    return {f"{node_id}.{slot.name}": (slot.state, slot.freed_by) for slot in slots}


def _going(values: Sequence[str], verb: str, where: str) -> str:
    """Return ``4 comes in`` or ``4 and 2 come in``."""
    many = len(values) > 1
    ending = "" if many else "es" if verb.endswith("o") else "s"
    return f"{listed(values) or 'nothing'} {verb}{ending} {where}"


def _tensors(slots: Sequence[Slot]) -> str:
    """Return ``Its saved tensor self is`` or ``Its saved tensors self and other are``."""
    if len(slots) == 1:
        return f"Its saved tensor {slots[0].name} is"
    return f"Its saved tensors {listed([slot.name for slot in slots])} are"
