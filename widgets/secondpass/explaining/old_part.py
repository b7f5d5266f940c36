"""The part of a failed pass's graph that was made before the call that freed it.

Where the pass enters it, under which names, from which lines, and which leaves lie behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from secondpass.explaining import detaching, holders, snippets
from secondpass.explaining.facts import Boundary
from secondpass.explaining.history import FREED_BY, Heard
from secondpass.explaining.holders import Held
from secondpass.explaining.passes import Pass
from secondpass.hearing import lines
from secondpass.hearing.lines import Made
from secondpass.reading import saved
from secondpass.reading.walk import name_of

_MOST_BOUNDARIES = 12
_MOST_SHARED = 24
_MOST_LINES = 200
_LINEAR = {
    "Add", "Sub", "Sum", "Mean", "Neg", "View", "Reshape", "UnsafeView", "Squeeze", "Unsqueeze",
    "Expand", "Stack", "Cat", "ToCopy", "Clone", "Select", "Alias",
}  # fmt: skip
_SCALING = {"Mul", "Div"}


class OldPart:
    """The old part of a failed pass's graph.

    Parameters
    ----------
    failed : Pass
    stopped : torch.autograd.graph.Node
        The Node in which it stopped.
    freed_by : Heard or None
        The call that freed it.
    since : Heard or None
        The same, or where it is not known the first that may have.
    """

    def __init__(
        self, failed: Pass, stopped: Any, freed_by: Heard | None, since: Heard | None
    ) -> None:
        self._failed, self._stopped, self._since = failed, stopped, since
        self.path = failed.path_to(stopped)
        self.younger = [] if since is None else [n for n in failed.nodes if is_younger(n, since)]
        self._new = set(self.younger)
        self._entry = self._entry_of(freed_by)
        self._made_since = [] if since is None else lines.made_since(since.began)
        self.entries = self._entries()
        self.carriers = self._carriers()

    def _entry_of(self, freed_by: Heard | None) -> Any:
        """Return the Node at which the path enters what the earlier call ran through."""
        if any(one in self._new for one in self.path):
            return next((one for one in self.path if one not in self._new), self.path[-1])
        # Nothing is younger: both calls were computed together, and share what the first ran.
        call = None if freed_by is None else freed_by.call
        ran = (one for one in self.path if one.metadata.get(FREED_BY) == call)
        return next(ran, self.path[-1])

    def _entries(self) -> dict[Any, Any]:
        """Return the old Nodes that a new one leads to, and behind which something is freed."""
        place = self.path.index(self._entry)
        found = {self._entry: self.path[place - 1] if place else None}
        if not self.younger:
            return found
        freed: set[Any] = set()
        for node in reversed(self._failed.nodes):  # what follows a Node comes before it
            if _is_freed(node) or any(one in freed for one, _ in node.next_functions):
                freed.add(node)
        for node in self._failed.nodes:
            for following, _ in node.next_functions if node in self._new else ():
                if following in freed and following not in self._new:
                    found.setdefault(following, node)
        return dict(list(found.items())[:_MOST_BOUNDARIES])

    def boundaries(self) -> tuple[Boundary, ...]:
        """Return where the pass enters it, the place on the path first."""
        return tuple(
            Boundary(
                lines.made_by(old),
                None if new is None else lines.made_by(new),
                tuple(self._names(old, new)),
                self.made_again(old),
            )
            for old, new in self.entries.items()
        )

    def _names(self, old: Any, new: Any) -> list[Held]:
        """Return the names of what an old Node made, exact outputs first."""
        used = {
            output
            for one in ([new] if new is not None else [])
            for following, output in one.next_functions
            if following is old
        }
        names = list(dict.fromkeys(self._failed.names_of(old)))
        return sorted(names, key=lambda held: held.output not in used)

    def _carriers(self) -> tuple[Held, ...]:
        """Return all names on the old side of the path, the nearest to the boundary first."""
        found: dict[Held, None] = {}
        start = self.path.index(self._entry)
        before = self.path[start - 1] if start else None
        for node in self.path[start:]:
            found.update(dict.fromkeys(self._names(node, before)))
            before = node
        if found:
            return tuple(found)
        hidden = holders.hidden_names(self._entry)
        return tuple(Held(name, "", output, "library") for name, output in hidden)

    def made_again(self, node: Any) -> bool:
        """Say whether the line that made a Node has made such a Node again, on the same way."""
        made, since = lines.made_by(node), self._since
        if made is None or since is None:
            return False
        way, name = _inner(made.chain, since.chain), name_of(node)

        def is_same(other: Made | None) -> bool:
            return (
                other is not None
                and other.place == made.place
                and _inner(other.chain, self._failed.heard.chain) == way
            )

        if any(name_of(one) == name and is_same(lines.made_by(one)) for one in self.younger):
            return True
        # It may be kept for a later round, and not be part of this pass at all. A line that ran
        # again may have asked a library's cache this time: then nothing of the person's holds it.
        is_kept = any(one.kind != "library" for one in self.carriers)
        return is_kept and any(map(is_same, self._made_since))

    def lines(self) -> tuple[Made, ...]:
        """Return the lines that made it, as far as the pass reaches it, the first to run first."""
        found: dict[int, Made] = {}
        reached: set[Any] = set(self.entries)
        for node in self._failed.nodes:  # what follows a Node comes after it
            if node in reached:
                made = lines.made_by(node)
                if made is not None:
                    found[made.number] = made
                reached.update(one for one, _ in node.next_functions if one is not None)
            if len(found) > _MOST_LINES:
                break
        seen: dict[tuple[tuple[str, int], ...], Made] = {}
        for number in sorted(found):
            seen.setdefault(found[number].chain, found[number])
        return tuple(seen.values())

    def only_added(self) -> bool:
        """Say whether what was carried over is only a term of the sum that the root is."""
        for node in self.path[: self.path.index(self._entry)]:
            name = name_of(node).rstrip("0123456789").removesuffix("Backward")
            others = [one for one, _ in node.next_functions if one is not None]
            if name not in _LINEAR and not (name in _SCALING and len(others) == 1):
                return False
        return True

    def shared(self) -> tuple[tuple[Held, tuple[str, ...]], ...]:
        """Return the variables that hold a part of it, and whose leaves lie behind each."""
        found = []
        for node in self._failed.nodes:
            if node in self._new or FREED_BY not in node.metadata:
                continue
            plain = [one for one in self._failed.names_of(node) if one.kind != "library"]
            if plain:
                found.append((plain[0], self._failed.owners_behind(node)))
            if len(found) >= _MOST_SHARED:
                break
        return tuple(found)

    def late(self) -> tuple[str, ...]:
        """Return the variables that came to hold a part of it only after the call that freed it."""
        found = set()
        for node in self.entries:
            then = {snippets.variable(one.name) for one in holders.names_on(node)}
            now = self._failed.names_now.get(node, ())
            found |= {snippets.variable(one.name) for one in now} - then if then else set()
        return tuple(sorted(found))

    def detaching(self, carriers: Iterable[Held]) -> tuple[tuple[str, str], ...]:
        """Return the statements that cut what some variables hold off from their graphs."""
        found: dict[str, str] = {}
        for held in carriers:
            name = snippets.variable(held.name)
            if name not in found:
                value = holders.value_of(self._failed.frame, name, held.where)
                if value is not None:
                    found[name] = detaching.statement(name, value)
        return tuple(found.items())


def is_younger(node: Any, than: Heard) -> bool:
    """Say whether a Node was made after a call began, and is not yet freed."""
    number = lines.number_of(node)
    return number is not None and number >= than.began and FREED_BY not in node.metadata


def hides(node: Any) -> bool:
    """Say whether a Node shows no saved tensors, though it may have some."""
    name = name_of(node)
    return name.endswith("CopySlices") or "CppNode" in name


def _is_freed(node: Any) -> bool:
    return saved.is_freed(node) or (hides(node) and FREED_BY in node.metadata)


def _inner(
    chain: tuple[tuple[str, int], ...], around: tuple[tuple[str, int], ...]
) -> tuple[tuple[str, int], ...]:
    """Return a chain of lines without the outer ones that it shares with another."""
    inner = list(chain)
    outer = list(around)
    while inner and outer and inner[-1] == outer[-1]:
        inner.pop()
        outer.pop()
    return tuple(inner)
