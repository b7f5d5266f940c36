"""Which line of the person's own code made a Node.

Lines are heard in two ways, which share one log: from code that carries `marks` (notebook cells,
scripts and modules while somebody listens), and, inside `tracing`, from any code of the person's
by ``sys.settrace``.
"""

from __future__ import annotations

import builtins
import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from secondpass.hearing import line_log, marks, writes
from secondpass.hearing.line_log import UNKNOWN
from secondpass.reading import names
from secondpass.reading.places import Place, is_own_code, own_frame
from secondpass.reading.unheard import leave_alone, uncompiled

number_now = line_log.number_now


@dataclass(frozen=True)
class Made:
    """Where a Node was made.

    Attributes
    ----------
    place : Place
    chain : tuple of (str, int)
        File and line of each own frame that was running, the innermost first.
    key : int
        The same for every Node made by the same line on the same way.
    number : int
        The Node's number in its thread.
    """

    place: Place
    chain: tuple[tuple[str, int], ...]
    key: int
    number: int


# ---- listening

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    marks.MARK: line_log.mark,
    marks.ENTER: line_log.enter,
    marks.CAUGHT: line_log.caught,
    marks.WROTE: writes.wrote,
    marks.WROTE_IN: writes.wrote_in,
    marks.GIVEN: writes.given,
    marks.READ: writes.read,
    marks.SWITCHED: writes.switched,
}


def start() -> None:
    """Begin to listen; what this thread made before stays unknown."""
    for name, function in _FUNCTIONS.items():
        setattr(builtins, name, function)
    line_log.switch(+1)


def stop() -> None:
    """End what `start` began. Code that carries marks still runs: they stay, and do nothing."""
    line_log.switch(-1)
    if not line_log.is_on():
        vars(builtins).update(marks.IDLE)


@contextlib.contextmanager
def tracing(ran: Callable[[FrameType, int], None] | None = None) -> Iterator[None]:
    """Hear the lines that run inside, whether or not the code carries marks.

    A tracer that is there already (a debugger's, a coverage tool's) goes on hearing everything.

    Parameters
    ----------
    ran : callable, optional
        Told after each line of the person's own code: its frame and its number. It must not read
        the frame's variables.
    """
    line_log.switch(+1)
    tracer = _Tracer(own_frame(sys._getframe(2)), ran)
    try:
        yield
    finally:
        tracer.stop()
        line_log.switch(-1)


def pause_tracing() -> Callable[[], None]:
    """Hear no lines on this thread until the returned function is called.

    While torch runs a backward pass there is no line to hear but those of hooks, and every
    function that a hook calls would be traced. Another tracer goes on hearing them.
    """
    trace = sys.gettrace()
    tracer = getattr(trace, "__self__", None)
    if not isinstance(tracer, _Tracer):
        return lambda: None
    sys.settrace(tracer.before)
    return lambda: sys.settrace(trace)


class _Tracer:
    """Closes gaps at every line, call and return of the person's own frames."""

    def __init__(
        self, frame: FrameType | None, ran: Callable[[FrameType, int], None] | None
    ) -> None:
        self.before = sys.gettrace()
        self.stopped = False
        self._ran = ran
        self._frames: list[tuple[FrameType, Any, Any]] = []  # each with its tracer before, and now
        outer = frame
        while outer is not None:
            if is_own_code(outer.f_code):
                before = outer.f_trace
                outer.f_trace = self._local(outer, before)
                self._frames.append((outer, before, outer.f_trace))
            outer = outer.f_back
        sys.settrace(self._trace)

    def stop(self) -> None:
        """Put back what was there; two tracers may stop in any order."""
        line_log.close_gap(own_frame(sys._getframe(1)))
        self.stopped = True
        self._ran = None  # a generator that waits to go on keeps its frame's tracer
        trace = sys.gettrace()
        while isinstance(tracer := getattr(trace, "__self__", None), _Tracer) and tracer.stopped:
            trace = tracer.before
        sys.settrace(trace)
        for frame, before, ours in self._frames:
            if frame.f_trace is ours:
                while getattr(before, "tracer", self).stopped and hasattr(before, "before"):
                    before = before.before
                frame.f_trace = before
            names.locals_of(frame)  # tracing left a copy of the variables behind: no more
        self._frames.clear()

    @uncompiled
    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        before = self.before(frame, event, arg) if self.before is not None else None  # type: ignore[arg-type]
        if self.stopped or not is_own_code(frame.f_code):
            return before
        if line_log.is_behind():
            line_log.close_gap(frame.f_back)
        return self._local(frame, before)

    def _local(self, frame: FrameType, before: Any) -> Any:
        line = frame.f_lineno
        others = before

        def heard(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal line, others
            if others is not None:
                others = others(frame, event, arg)
            if self.stopped:
                return others
            if line_log.is_behind():
                line_log.close_gap(frame, line)
            if self._ran is not None:
                self._ran(frame, line)
            line = frame.f_lineno
            return heard

        heard.tracer, heard.before = self, before  # type: ignore[attr-defined]
        return heard


for _one in _Tracer._local.__code__.co_consts:
    if isinstance(_one, CodeType):
        leave_alone(_one, what_it_calls=True)


# ---- asking


def line_of(node: Any) -> Place | None:
    """Return the line that made a Node; None where it was not listened to."""
    made = made_by(node)
    return None if made is None else made.place


def line_of_number(number: int) -> Place | None:
    """Return the line that made the Node with a sequence number; see `line_of`."""
    made = made_by_number(number)
    return None if made is None else made.place


def made_by(node: Any) -> Made | None:
    """Return where a Node was made, None where that is not known."""
    number = number_of(node)
    return None if number is None else made_by_number(number)


def made_by_number(number: int) -> Made | None:
    """Return where the Node with a sequence number was made; see `made_by`."""
    if line_log.is_on() and line_log.is_behind():
        line_log.close_gap(sys._getframe(1))
    own, table = line_log.here.log, line_log.table
    keys = {log.find(number) for log in list(line_log.logs) if log is not own} - {UNKNOWN}
    key = UNKNOWN if own is None else own.find(number)
    if key != UNKNOWN:
        # A thread's graphs are mostly its own; but the main thread also gathers those of others.
        is_main = threading.current_thread() is threading.main_thread()
        keys = {key, *keys} if is_main else {key}
    if len({table.place(one) for one in keys}) != 1:
        return None
    key = key or keys.pop()
    return Made(table.place(key), table.chain(key), key, number)


def made_since(number: int) -> list[Made]:
    """Return the lines that made Nodes in this thread from a number on, each way to one once."""
    if line_log.is_on() and line_log.is_behind():
        line_log.close_gap(sys._getframe(1))
    log, table = line_log.here.log, line_log.table
    keys = set() if log is None else log.since(number) - {UNKNOWN}
    return [Made(table.place(key), table.chain(key), key, number) for key in sorted(keys)]


def number_of(node: Any) -> int | None:
    """Return a Node's number in its thread; None for AccumulateGrad, which has none."""
    ask = getattr(node, "_sequence_nr", None)
    number = None if ask is None else int(ask())
    return None if number is None or number >= 2**63 else number
