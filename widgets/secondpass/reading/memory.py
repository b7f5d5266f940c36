"""Count the bytes that saved tensors hold, each storage once."""

from __future__ import annotations

from collections.abc import Hashable


class HeldBytes:
    """A running sum over slots; two slots that share a storage count it once.

    Examples
    --------
    >>> held = HeldBytes()
    >>> held.hold("n0.self", storage=7, nbytes=4)
    >>> held.hold("n0.other", storage=7, nbytes=4)
    >>> held.total
    4
    >>> held.release("n0.self")
    >>> held.release("n0.other")
    >>> held.total
    0
    """

    def __init__(self) -> None:
        self.total = 0
        self._slots: dict[str, tuple[Hashable, int]] = {}
        self._users: dict[Hashable, int] = {}
        self.numbers: dict[str, int] = {}
        """Slot to the number of the storage that it holds or held: equal where it is the same."""
        self._living: dict[Hashable, int] = {}

    def hold(self, slot: str, *, storage: Hashable, nbytes: int) -> None:
        """Count a slot's storage; a storage that cannot be told from others counts by itself."""
        self.release(slot)
        identity = slot if storage is None else storage
        self._slots[slot] = identity, nbytes
        self._users[identity] = self._users.get(identity, 0) + 1
        # The identity is an address: when its last user has gone, another storage may get it.
        number = self._living.setdefault(identity, self.numbers.get(slot, len(self.numbers)))
        self.numbers.setdefault(slot, number)
        if self._users[identity] == 1:
            self.total += nbytes

    def release(self, slot: str) -> None:
        """Count a slot no more; does nothing for one that is not counted."""
        if slot in self._slots:
            identity, nbytes = self._slots.pop(slot)
            self._users[identity] -= 1
            if not self._users[identity]:
                del self._users[identity]
                del self._living[identity]
                self.total -= nbytes
