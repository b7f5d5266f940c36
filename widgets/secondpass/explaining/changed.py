"""Which saved tensor was changed in place before its pass, and which line did it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch

from secondpass.explaining import holders, report
from secondpass.explaining.facts import Failure
from secondpass.explaining.history import RAN_IN
from secondpass.explaining.passes import Pass, tag_number
from secondpass.hearing import lines, writes
from secondpass.reading import saved
from secondpass.reading.places import Place
from secondpass.reading.walk import name_of


def find(failed: Pass, error: BaseException) -> Failure:
    """Find the first saved tensor, in the engine's order, that is not what was saved."""
    for place, node in enumerate(failed.nodes):
        changed = [slot for slot in saved.read_slots(node) if slot.state == saved.CHANGED]
        if not changed:
            continue
        tensor = _saved_tensor(node, changed[0].name)
        at, name = _changed_at(failed, node, tensor, _expected(str(error)))
        return Failure(
            report.MODIFIED,
            str(error),
            failed.heard,
            node=name_of(node),
            slots=tuple(slot.name for slot in changed),
            made=lines.made_by(node),
            path=tuple(name_of(one) for one in failed.path_to(node)),
            carriers=tuple(failed.names_of(node)),
            updated=failed.updated(place),
            modified_at=at,
            modified_name=name,
            modified_leaf=tensor is not None
            and any(_same_storage(leaf.variable, tensor) for leaf in failed.leaves),
            retained=any(RAN_IN in one.metadata for one in failed.nodes),
            tag=tag_number(node),
            left_out=failed.left_out,
        )
    return Failure(report.MODIFIED, str(error), failed.heard, left_out=failed.left_out)


def _changed_at(
    failed: Pass, node: Any, tensor: torch.Tensor | None, expected: int | None
) -> tuple[Place | None, str]:
    """Return the line that changed a saved tensor, and the tensor's name."""
    if tensor is None:
        return None, ""
    version = expected if expected is not None else tensor._version - 1
    same = [
        (name, other)
        for name, other in holders.tensors_of(failed.frame)
        if _same_storage(other, tensor)
    ]
    name = same[0][0] if same else ""
    place = writes.write_after(tensor, version) or writes.stepped_after(tensor, version)
    if place is None:
        place = _rebased_at(node, [tensor, *(other for _, other in same)])
    return place, name


def _rebased_at(node: Any, tensors: Iterable[torch.Tensor]) -> Place | None:
    """Return the line of the Node that an in-place operation put behind a tensor."""
    number = lines.number_of(node) or 0
    for one in tensors:
        # A view makes its Node anew when it is asked for it: what it is a view of has the real one.
        tensor = one if one._base is None else one._base
        later = tensor.grad_fn if not tensor.is_leaf else None
        if later is not None and (lines.number_of(later) or 0) > number:
            return lines.line_of(later)
    return None


def _saved_tensor(node: Any, slot: str) -> torch.Tensor | None:
    """Return the tensor in a slot, as it is now; the caller drops it soon."""
    name, _, place = slot.partition("[")
    try:
        raw = getattr(node, f"_raw_saved_{name}")
        data = (raw[int(place.rstrip("]"))] if place else raw).data
    except (RuntimeError, AttributeError):
        return None
    return data if isinstance(data, torch.Tensor) else None


def _expected(message: str) -> int | None:
    found = re.search(r"expected version (\d+)", message)
    return int(found[1]) if found else None


def _same_storage(one: torch.Tensor, other: torch.Tensor) -> bool:
    storage = writes.storage_of(one)
    return storage is not None and storage == writes.storage_of(other)
