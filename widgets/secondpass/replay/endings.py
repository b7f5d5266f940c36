"""The frames with which a call ends: `return`, or `stop` with the Node, the slot and why."""

from __future__ import annotations

from collections.abc import Sequence

from secondpass.hearing.calls import Call
from secondpass.reading import saved
from secondpass.reading.graph import Node
from secondpass.reading.known import KnownNode
from secondpass.reading.saved import Slot, bytes_text
from secondpass.reading.values import value_text
from secondpass.replay.events import slot_states
from secondpass.replay.frames import CallRecord, Frame, SlotState, listed
from secondpass.replay.hooks import WatchedCall


def returned(call: Call, watched: WatchedCall, born: Sequence[KnownNode]) -> Frame:
    """Write how a call ended well: what it freed, and which Nodes it made."""
    size = sum(watched.freed.values())
    if watched.freed:
        many = _counted(len(watched.freed), "saved tensor")
        of = "" if watched.sees_all else " of the Nodes that were looked at"
        what = f"It freed {many}{of} ({bytes_text(size)})." if size else f"It freed {many}{of}."
    elif call.retain_graph:
        what = "It kept all saved tensors."
    elif not watched.sees_all:
        what = "What it freed is not known."
    else:
        what = "There was nothing to free."
    results = ""
    if call.kind == "grad":
        results = listed([value_text(one) for one in call.results])
    given = f" and returns {results}" if results else ""
    made = f" It made {_counted(len(born), 'new Node')}." if born else ""
    slots: dict[str, SlotState] = {}
    for known in born:
        slots |= slot_states(known.id, known.slots)
    return Frame(
        "return",
        f"Call {watched.number} ends{given}. {what}{made}",
        call=watched.number,
        line=call.place,
        after=results or None,
        slots=slots | watched.found_freed,
        born=tuple(known.id for known in born),
    )


def stopped(
    call: Call, watched: WatchedCall, node: Node | None, calls: Sequence[CallRecord]
) -> Frame:
    """Write where and why a call failed, and what it had changed by then.

    Parameters
    ----------
    node : Node, optional
        The Node that was running.
    calls : sequence of CallRecord
        All calls of the recording, of which one may have freed what is missing.
    """
    slots = () if node is None else node.slots
    freed = [slot for slot in slots if slot.state == saved.FREED]
    changed = [slot for slot in slots if slot.state == saved.CHANGED]
    if freed and "second time" in str(call.error):
        why = f"its saved {_tensors(freed)} freed{_by(freed[0], calls)}"
    elif changed and "inplace operation" in str(call.error):
        why = f"its saved {_tensors(changed)} changed in place since"
    else:
        first = str(call.error).partition("\n")[0]
        why = f"{type(call.error).__name__}: {first[:200]}"
    where = "" if node is None else f" in {node.title}"
    text = f"Call {watched.number} stops{where}: {why}."
    if watched.updated:
        grads = listed([f"{name}.grad" for name in watched.updated])
        text += f" Before it stopped, it had already changed {grads}."
    return Frame(
        "stop",
        text,
        call=watched.number,
        node=None if node is None else node.id,
        line=call.place,
        slots=watched.found_freed,
    )


def _by(slot: Slot, calls: Sequence[CallRecord]) -> str:
    if slot.freed_by is None:
        return ""
    place = calls[slot.freed_by - 1].place
    return f" by call {slot.freed_by}" + ("" if place is None else f" ({place.where})")


def _tensors(slots: Sequence[Slot]) -> str:
    names = listed([slot.name for slot in slots])
    return f"tensor {names} was" if len(slots) == 1 else f"tensors {names} were"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
