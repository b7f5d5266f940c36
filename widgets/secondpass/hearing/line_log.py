"""The log of lines: which numbers the Nodes have that a line of the person's own code made.

torch numbers the Nodes of a thread in the order in which they are made. The marks that `marks`
puts into a program tell this module which line has just run; whenever the number has moved since
the last mark, an entry goes into the thread's log: all Nodes of that gap were made by that line.
Asking later means to look a Node's number up in the log. Nothing is asked of torch per operation,
and no tensor and no Node is kept.
"""

from __future__ import annotations

import itertools
import sys
import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import torch

from secondpass.reading import places
from secondpass.reading.places import Place, is_own, is_own_code, own_frame
from secondpass.reading.unheard import uncompiled

LONGEST_LOG = 1_000_000
"""Entries of one thread's log; beyond it the middle is forgotten."""

LOGS = 64
"""Logs of threads that have ended, kept so that their Nodes keep their lines."""

CHAIN = 10
"""Frames of the person's own that an entry remembers, the innermost first."""

UNKNOWN = 0


def _no_number() -> int:
    return 0


number_now: Callable[[], int] = getattr(
    getattr(torch._C, "_autograd", None), "_get_sequence_nr", _no_number
)
"""Returns the number that this thread's next Node will have."""


class Log:
    """One thread's log: entry i owns the Nodes from numbers[i - 1] up to numbers[i]."""

    def __init__(self, thread: int) -> None:
        self.thread = thread
        self.numbers = array("Q")
        self.keys = array("L")

    def add(self, number: int, key: int) -> None:
        """Give the Nodes up to a number to a line."""
        if self.keys and self.keys[-1] == key:
            self.numbers[-1] = number
            return
        self.keys.append(key)  # first: another thread may ask in between
        self.numbers.append(number)
        if len(self.keys) > LONGEST_LOG:
            first, last = LONGEST_LOG // 8, LONGEST_LOG // 2
            with _lock:
                del self.numbers[first:last], self.keys[first:last]
                self.keys[first] = UNKNOWN

    def find(self, number: int) -> int:
        """Return the key of the line that made a Node."""
        with _lock:
            if not self.numbers or not self.numbers[0] <= number < self.numbers[-1]:
                return UNKNOWN
            return self.keys[bisect_right(self.numbers, number)]

    def since(self, number: int) -> set[int]:
        """Return the keys of the lines that made the Nodes from a number on."""
        with _lock:
            return set(self.keys[bisect_right(self.numbers, number) :])


class _Thread(threading.local):
    """What is known of the running thread; `last` is the number at its last mark."""

    def __init__(self) -> None:
        self.last = -1
        self.log: Log | None = None


here = _Thread()
logs: list[Log] = []
_listeners = 0
_lock = threading.RLock()


class Table:
    """The places that entries speak of, each once."""

    def __init__(self) -> None:
        self._keys: dict[tuple[int, ...], int] = {}
        self._own_files: dict[str, bool] = {}
        self._chains: dict[int, tuple[tuple[CodeType, int], ...]] = {UNKNOWN: ()}
        self._numbers = itertools.count(UNKNOWN + 1)

    def key_of(self, frame: FrameType | None, line: int | None = None) -> int:
        """Return the key of a frame's line (its present one) and of the own frames around it."""
        # Runs at every line that makes a Node: no function is called that need not be.
        found: list[Any] = []
        own_files = self._own_files
        first = frame
        while frame is not None and len(found) < 2 * CHAIN:
            code = frame.f_code
            own = own_files.get(code.co_filename)
            if own is None:
                own = own_files[code.co_filename] = is_own(code.co_filename)
            if own:
                # The instruction stands for its line, and costs less to ask for.
                found += (id(code), -line if line and frame is first else frame.f_lasti)
            frame = frame.f_back
        if not found:
            return UNKNOWN
        way = tuple(found)
        known = self._keys.get(way)
        return known if known is not None else self._add(way, first, line)

    def _add(self, way: tuple[int, ...], frame: FrameType | None, line: int | None) -> int:
        # The table holds the code objects, so their numbers stay theirs.
        chain: list[tuple[CodeType, int]] = []
        first = frame
        while (frame := own_frame(frame)) is not None and len(chain) < CHAIN:
            at = line if line and frame is first else frame.f_lineno
            chain.append((frame.f_code, at or 0))
            frame = frame.f_back
        if not chain:
            return UNKNOWN
        key = next(self._numbers)  # no other thread gets the same
        self._chains[key] = tuple(chain)
        self._keys[way] = key
        return key

    def place(self, key: int) -> Place:
        """Return the place of a key."""
        code, line = self._chains[key][0]
        return places.place_in(code, line)

    def chain(self, key: int) -> tuple[tuple[str, int], ...]:
        """Return file and line of each own frame that was running, the innermost first."""
        return tuple((code.co_filename, line) for code, line in self._chains[key])


table = Table()


# ---- marks: what the person's transformed code calls


def mark() -> None:
    """Note that the line that calls this has made the Nodes since the last mark."""
    if number_now() != here.last:
        close_gap(sys._getframe(1))


def enter() -> None:
    """Note, on entering a function, that its caller's line made the Nodes since the last mark."""
    if number_now() != here.last:
        close_gap(sys._getframe(1).f_back)


def caught() -> None:
    """Note, in an exception handler, that the line that raised made the Nodes before."""
    if number_now() == here.last:
        return
    error = sys.exc_info()[1]
    traceback = None if error is None else error.__traceback__
    innermost = None
    while traceback is not None:
        if is_own_code(traceback.tb_frame.f_code):
            innermost = traceback
        traceback = traceback.tb_next
    if innermost is None:
        close_gap(sys._getframe(1))
    else:
        close_gap(innermost.tb_frame, innermost.tb_lineno)


def close_gap(frame: FrameType | None, line: int | None = None) -> None:
    """Close the gap since the last mark: its Nodes were made by the frame's line."""
    log, key = here.log, UNKNOWN
    if log is None:
        log = here.log = _new_log()  # what came before was not listened to
    elif _listeners:
        key = table.key_of(frame, line)
    number = number_now()  # after the key: while that was sought, a marked __del__ may have run
    log.add(number, key)
    here.last = number


def forget_gap() -> None:
    """Leave the Nodes made since the last mark without a line."""
    if here.log is None:
        here.log = _new_log()
    here.log.add(number_now(), UNKNOWN)
    here.last = number_now()


def switch(listeners: int) -> None:
    """Count who listens, up or down; with nobody there, marks name no line."""
    global _listeners
    with _lock:
        _listeners += listeners
    forget_gap()


def is_behind() -> bool:
    """Say whether Nodes were made in this thread since its last mark."""
    return number_now() != here.last


def is_on() -> bool:
    """Say whether anybody listens."""
    return _listeners > 0


def _new_log() -> Log:
    log = Log(threading.get_ident())
    with _lock:
        alive = {thread.ident for thread in threading.enumerate()}
        ended = [one for one in logs if one.thread not in alive]
        for old in ended[:-LOGS]:
            logs.remove(old)
        logs.append(log)
    return log


# A compiler that traces the person's code runs these once, at compile time, and leaves them out.
for _function in (mark, enter, caught):
    _function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    uncompiled(_function)
