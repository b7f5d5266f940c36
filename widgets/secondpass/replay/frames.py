"""The frames of a replay: what hooks saw of forward lines and backward calls, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from secondpass.reading.places import Place

SlotState = tuple[str, int | None]
"""A slot's state and the number of the call that freed it, where known."""


@dataclass(frozen=True)
class Frame:
    """One step of a replay.

    Attributes
    ----------
    kind : str
        ``forward`` (a line ran), ``call`` (one begins), ``node`` (it ran), ``accumulate`` (into a
        leaf's ``.grad``), ``zero`` (a ``.grad`` was reset outside a call), ``write`` (a saved
        tensor or a ``.grad`` was changed outside a call), ``stop`` (the call failed here),
        ``return`` (the call ended).
    call : int or None
        The number of the call that it belongs to.
    node, leaf : str or None
        The id of the Node; the name of the leaf.
    line : Place or None
        The line of the person's own code.
    before, incoming, after : str or None
        Short texts of values: of ``.grad`` for a leaf, of the gradient that came in and the
        gradients that went on for a Node.
    text : str
        The sentence that a person reads.
    leaf_id : str or None
        The id of the leaf.
    gradients : mapping
        Edge or root id to the value that travelled along it in this frame.
    slots : mapping
        ``n0.self`` to the state that this frame gave it; ``held`` again means kept.
    born : tuple of str
        The ids of the Nodes that exist from this frame on.
    held : int
        Bytes that saved tensors hold after this frame.
    """

    kind: str
    text: str
    call: int | None = None
    node: str | None = None
    leaf: str | None = None
    line: Place | None = None
    before: str | None = None
    incoming: str | None = None
    after: str | None = None
    leaf_id: str | None = field(default=None, repr=False)
    gradients: Mapping[str, str] = field(default_factory=dict, repr=False)
    slots: Mapping[str, SlotState] = field(default_factory=dict, repr=False)
    born: tuple[str, ...] = field(default=(), repr=False)
    held: int = field(default=0, repr=False)


@dataclass(frozen=True)
class CallRecord:
    """A backward or autograd.grad call that was recorded.

    Attributes
    ----------
    number : int
        From 1, in the order in which the calls began.
    kind : str
        ``backward`` or ``grad``.
    place : Place or None
    retain_graph, create_graph, failed : bool
    inside : int or None
        The number of the call inside which it ran.
    began : int
        torch's sequence number when it began: Nodes made later have this number or a higher one.
    """

    number: int
    kind: str
    place: Place | None
    retain_graph: bool
    create_graph: bool
    inside: int | None = None
    failed: bool = False
    began: int = field(default=0, repr=False, compare=False)

    @property
    def title(self) -> str:
        """What stands above its lane: ``call 1 · line 3 · retain_graph``.

        Examples
        --------
        >>> CallRecord(2, "backward", Place("a.py", 4, "y.backward()", "f"), False, False).title
        'call 2 · line 4'
        """
        parts = [f"call {self.number}", *["stopped"] * self.failed]  # first: a lane may be short
        if self.inside is not None:
            parts.append(f"inside call {self.inside}")
        if self.place is not None:
            parts.append(self.place.where)
        if self.kind == "grad":
            parts.append("autograd.grad")
        if self.create_graph:
            parts.append("create_graph")
        elif self.retain_graph:
            parts.append("retain_graph")
        return " · ".join(parts)


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return names as a list for a sentence, the rest counted.

    Examples
    --------
    >>> listed(["Pow"]), listed(["a", "b", "c"]), listed(list("abcdefg"))
    ('Pow', 'a, b and c', 'a, b, c, d and 3 more')
    """
    if len(names) > most + 1:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
