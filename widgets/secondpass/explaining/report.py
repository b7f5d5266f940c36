"""Explanations: what went wrong in a call, as plain records, as the report's JSON and in words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from secondpass.reading.places import Place

BACKWARD_TWICE = "backward-twice"
MODIFIED = "modified-in-place"
LEAF_MODIFIED = "leaf-modified-in-place"
NO_GRAPH = "no-graph"
COPIED = "copied-non-leaf"


@dataclass(frozen=True)
class CalledAt:
    """A backward or autograd.grad call: its number, where that is known, and its line."""

    number: int | None
    place: Place | None

    def to_dict(self) -> dict[str, Any] | None:
        """Return a PLACE with the call's number; None where the line is not known."""
        return None if self.place is None else {**self.place.to_dict(), "call": self.number}


@dataclass(frozen=True)
class StoppedIn:
    """The Node in which a pass stopped: its name, its slots and the line that made it."""

    name: str
    slots: tuple[str, ...]
    created: Place | None


@dataclass(frozen=True)
class Carrier:
    """A variable that carried an old graph into a new pass."""

    name: str
    where: str


@dataclass(frozen=True)
class Fix:
    """Something to change: what, on which line, the code to write, and why it helps.

    ``also``: it belongs to the fix before it, and both are needed. ``where``: the code is to stand
    ``before`` or ``after`` the line; ``""`` where it is the line itself that changes.
    """

    do: str
    line: int | None
    code: str
    why: str
    place: Place | None = None
    also: bool = False
    where: str = ""

    @classmethod
    def at(
        cls,
        do: str,
        place: Place | None,
        code: str,
        why: str,
        line: int | None = None,
        also: bool = False,
        where: str = "",
    ) -> Fix:
        """Return a fix at a place, or at another line of the same file."""
        if place is not None and line is not None:
            place = replace(place, line=line)
        return cls(do, None if place is None else place.line, code, why, place, also, where)

    def to_dict(self) -> dict[str, Any]:
        """Return the keys ``do``, ``line``, ``code``, ``why`` of a report."""
        why = f"{self.where} this line: {self.why}" if self.where else self.why
        return {"do": self.do, "line": self.line, "code": self.code, "why": why}


@dataclass(frozen=True)
class Notice:
    """Something that raises nothing and is most likely not meant."""

    kind: str
    line: int | None
    why: str


@dataclass(frozen=True)
class Explanation:
    """Why a call failed, and what to change; ``print(explanation)`` says it in words.

    Attributes
    ----------
    error : str or None
        ``backward-twice``, ``modified-in-place``, ``leaf-modified-in-place``, ``no-graph``,
        ``copied-non-leaf``; None where nothing was raised that this package explains.
    message : str
        PyTorch's own words.
    family : str or None
        How a freed graph came to be run through again: ``carried``, ``computed-once``,
        ``shared``, ``same-root``, ``nested``.
    node : StoppedIn or None
    freed_by, failed_at : CalledAt or None
    modified_at, cut_at : Place or None
    carriers : tuple of Carrier
        The likeliest first.
    path : tuple of str
        The names of the Nodes from the root to the one in which the pass stopped.
    updated_leaves : tuple of str
        Leaves whose ``.grad`` the failed call had already changed.
    fix : tuple of Fix
        The best first.
    notices : tuple of Notice
    reached : str
        A sentence about how the Node came to be reached.
    notes : tuple of str
        What is not known, and what not to do.
    """

    error: str | None = None
    message: str = ""
    family: str | None = None
    node: StoppedIn | None = None
    freed_by: CalledAt | None = None
    failed_at: CalledAt | None = None
    modified_at: Place | None = None
    cut_at: Place | None = None
    carriers: tuple[Carrier, ...] = ()
    path: tuple[str, ...] = ()
    updated_leaves: tuple[str, ...] = ()
    fix: tuple[Fix, ...] = ()
    notices: tuple[Notice, ...] = ()
    reached: str = ""
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report: plain data, the same keys always."""
        node = self.node
        return {
            "error": self.error,
            "message": self.message,
            "family": self.family,
            "node": None
            if node is None
            else {"name": node.name, "slots": list(node.slots), "created": _dict(node.created)},
            "freed_by": None if self.freed_by is None else self.freed_by.to_dict(),
            "failed_at": None if self.failed_at is None else self.failed_at.to_dict(),
            "modified_at": _dict(self.modified_at),
            "cut_at": _dict(self.cut_at),
            "carriers": [vars(one) for one in self.carriers],
            "path": list(self.path),
            "updated_leaves": list(self.updated_leaves),
            "fix": [one.to_dict() for one in self.fix],
            "notices": [vars(one) for one in self.notices],
        }

    def __str__(self) -> str:
        """Return the explanation in words, at most twelve lines."""
        from secondpass.explaining.wording import words  # records do not need their words

        return words(self)


def message_of(error: BaseException | None) -> str:
    """Return an exception's own words; none where there is no exception, or it cannot say them."""
    try:
        return "" if error is None else str(error)
    except Exception:  # a person's own __str__ may raise anything
        return ""


def _dict(place: Place | None) -> dict[str, object] | None:
    return None if place is None else place.to_dict()
