"""The order in which torch's engine runs Nodes."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def engine_order(ages: Mapping[Key, int], following: Mapping[Key, Sequence[Key]]) -> list[Key]:
    """Return Nodes in the order in which the engine runs them.

    It runs a Node when all that use its outputs have run; of several that are ready, the youngest.
    Within one thread a Node is always older than those that use it; sequence numbers of different
    threads say nothing of each other.

    Parameters
    ----------
    ages : mapping
        The sequence number of each Node.
    following : mapping
        What each Node hands gradients to, one entry per edge; others than those in `ages` are
        passed over.

    Examples
    --------
    >>> engine_order({"mul": 3, "sin": 9, "add": 4}, {"add": ["mul", "sin"], "sin": ["mul"]})
    ['add', 'sin', 'mul']
    """
    waiting = dict.fromkeys(ages, 0)
    for sources in following.values():
        for source in sources:
            if source in waiting:
                waiting[source] += 1
    place = {key: number for number, key in enumerate(ages)}
    ready = [(-age, place[key], key) for key, age in ages.items() if not waiting[key]]
    heapq.heapify(ready)
    order = []
    while ready:
        key = heapq.heappop(ready)[2]
        order.append(key)
        for source in following.get(key, ()):
            if source in waiting:
                waiting[source] -= 1
                if not waiting[source]:
                    heapq.heappush(ready, (-ages[source], place[source], source))
    return order
