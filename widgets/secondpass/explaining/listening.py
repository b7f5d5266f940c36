"""Listen to a whole program: lines and calls, cheap enough to leave on; explain what fails.

`start` and `stop` are counted, so that several may listen. Everything is undone by `stop`.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from secondpass.explaining import (
    copying,
    cuts,
    explanation,
    facts,
    failure,
    history,
    holders,
    pictures,
    report,
    saved_reads,
)
from secondpass.explaining.history import Heard
from secondpass.explaining.notices import Notices
from secondpass.explaining.report import Explanation
from secondpass.hearing import calls, line_log, lines, writes
from secondpass.hearing.calls import Call
from secondpass.reading import walk
from secondpass.replay.recording import Recording

SHARE = 0.015
"""Of the time that passes, so much may be spent on collecting names and marking Nodes."""

WHOLE = 10
"""The first calls of a program or a cell are looked at whole, whatever it costs."""

FAILURES = 30
"""Failed calls that are explained; a program that fails more often expects it."""


EXPLAINED = 8
"""Exceptions whose explanations are remembered, the latest: one of them may end the program."""


@dataclass(frozen=True)
class _Explained:
    """What an exception was explained by; the exception itself would keep frames alive."""

    message: str
    heard: Heard | None  # the call that raised it, if one did
    explanation: Explanation
    picture: Recording | None


class Listener:
    """Hears every call; remembers what a later failure needs to be explained."""

    def __init__(self) -> None:
        self.history = history.History()
        self.notices = Notices(self.history)
        self.last: Explanation | None = None
        self._explained: OrderedDict[int, _Explained] = OrderedDict()  # by id of the exception
        self.picture: Recording | None = None
        self.wants_pictures = False
        self._running: dict[int, Heard] = {}
        self._heard = self._before_run = 0  # calls, in all and before this run
        self._failures = 0
        self._started = self._paused = perf_counter()
        self._spent = 0.0

    def new_run(self) -> None:
        """Hear that a cell begins: what may be spent on looking starts anew."""
        self._before_run = self._heard
        self._started = perf_counter()
        self._spent = 0.0

    # Only the time in which somebody listens counts.

    def pause(self) -> None:
        """Stop the clock."""
        self._paused = perf_counter()

    def go_on(self) -> None:
        """Start the clock again."""
        self._started += perf_counter() - self._paused

    # ---- calls

    def begin(self, call: Call) -> None:
        """Hear that a call begins."""
        self._heard += 1
        heard = Heard(
            number=self._heard,
            call=call.key,
            kind=call.kind,
            place=call.place,
            key=line_log.table.key_of(sys._getframe(1)),
            retain=call.retain_graph,
            create=call.create_graph,
            parent=None if call.parent is None else self._running.get(call.parent.key),
            began=lines.number_now(),
            thread=call.thread,
            step=self.notices.steps,
            inputs=call.has_inputs,
        )
        self._running[call.key] = heard
        self.history.add(heard)
        self.notices.begin(call, heard)

    def end(self, call: Call) -> None:
        """Hear that a call has ended."""
        heard = self._running.pop(call.key, None)
        if heard is None:
            return
        if call.failed:
            heard.failed = True
            self._failed(call, heard)
            return
        begin = perf_counter()
        ran: history.Ran | None = None
        whole = heard.number - self._before_run <= WHOLE
        if whole or self._spent < SHARE * (begin - self._started):
            ran = self._look(call, heard, 0.05 if whole else 0.002)
            self._spent += perf_counter() - begin
        else:
            history.mark_roots(heard, call.roots)
        self.notices.end(call, heard, ran)

    def _look(self, call: Call, heard: Heard, seconds: float) -> history.Ran | None:
        """Mark the Nodes that ran, and write down which variables hold tensors."""
        targets = history.Targets(call.inputs) if call.has_inputs else None
        if "ran" in call.noted:  # another listener has marked the Nodes: they look run before
            first: Heard = call.noted["ran"][0]
            ran: history.Ran | None = call.noted["ran"][1]
            heard.nodes, heard.rerun, heard.tracked = first.nodes, first.rerun, first.tracked
        else:
            ran = history.mark_run(heard, call.roots, targets, call.noted.get("walk"))
            call.noted["ran"] = heard, ran
        if not heard.retain and not walk.any_too_deep():
            holders.collect(sys._getframe(1), seconds)
        return ran

    def _failed(self, call: Call, heard: Heard) -> None:
        error = call.error
        if error is None:
            return
        known = self._known(error)
        if known is not None and known.heard is not None and known.heard.is_inside(heard):
            return  # it has come out of a call inside this one
        # Any other exception of this identity is gone.
        self._explained.pop(id(error), None)
        self._failures += 1
        if self._failures > FAILURES:
            return
        kind = facts.error_of(error)
        if kind == report.NO_GRAPH:
            self._keep(error, cuts.explain(call, heard, sys._getframe(1)), heard)
            return
        found = failure.gather(call, heard, self.history, self.notices.stepped_since)
        if found is not None:
            explained = explanation.explain(found)
            self._keep(error, explained, heard)  # first: a picture can fail, and is not all
            if self.wants_pictures:
                picture = pictures.take(call, heard, found, self.history)
                self._keep(error, explained, heard, picture)

    def _keep(
        self,
        error: BaseException,
        found: Explanation,
        heard: Heard | None = None,
        picture: Recording | None = None,
    ) -> None:
        self.last, self.picture = found, picture
        self._explained[id(error)] = _Explained(report.message_of(error), heard, found, picture)
        if len(self._explained) > EXPLAINED:
            self._explained.popitem(last=False)

    def _known(self, error: BaseException) -> _Explained | None:
        known = self._explained.get(id(error))
        if known is None or known.message != report.message_of(error):
            return None
        # It may have the identity and the words of one that is gone, and yet not be of a call.
        in_call = failure.came_out_of_call(error.__traceback__)
        return known if in_call == (known.heard is not None) else None

    # ---- errors that no call raises

    def explain_error(self, error: BaseException | None) -> Explanation | None:
        """Return the explanation of an exception, or of one that led to it or is in its group."""
        for one in _with_causes(error):
            known = self._known(one)
            if known is None and (kind := facts.error_of(one)) is not None:
                self._keep(one, self._unheard(one, kind))
                return self.last
            if known is not None:
                self.last, self.picture = known.explanation, known.picture
                return self.last
        return None

    def _unheard(self, error: BaseException, kind: str) -> Explanation:
        """Explain an error that no call that was heard has raised."""
        if kind == report.LEAF_MODIFIED:
            return cuts.explain_leaf(error)
        if kind == report.COPIED:
            return copying.explain(error)
        if kind != report.NO_GRAPH and not failure.came_out_of_call(error.__traceback__):
            found = saved_reads.explain(error, kind, self.history)
            if found is not None:
                return found
        return Explanation(error=kind, message=report.message_of(error), notes=(_NOT_HEARD,))


_NOT_HEARD = (
    "What that call ran through was not heard: it may have been made in another process, before "
    "listening began, or after many others that failed."
)


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, those in it if it is a group, and those that led to it."""
    todo, seen = [error], set()
    while todo:
        one = todo.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, BaseExceptionGroup):
            todo += one.exceptions
        todo.append(one.__cause__ or one.__context__)


_listener: Listener | None = None
_count = 0
_undo: list[Callable[[], None]] = []


def start() -> None:
    """Begin to listen; what was heard before is forgotten, but not where somebody listens."""
    global _listener
    if _count == 0:
        _listener = Listener()
    resume()


def resume() -> None:
    """Begin to listen, or go on after `stop`."""
    global _listener, _count
    _count += 1
    if _count > 1:
        return
    _listener = _listener or Listener()
    _listener.go_on()
    lines.start()
    _undo.append(lines.stop)
    _undo.append(calls.listen(_listener))
    _undo.append(_hear_steps(_listener))
    writes.readers.append(_listener.notices.read)
    _undo.append(writes.readers.clear)


def stop() -> None:
    """End what `start` began; what was explained can still be asked for."""
    global _count
    _count -= 1
    if _count == 0:
        if _listener is not None:
            _listener.pause()
        while _undo:
            _undo.pop()()


def new_run() -> None:
    """Hear that a cell begins to run; see `Listener.new_run`."""
    if _listener is not None:
        _listener.new_run()


def explain() -> Explanation:
    """Return the explanation of the last failed call, like ``pdb.pm()``.

    Returns
    -------
    Explanation
        ``print`` it, or take its ``to_dict()``. Where no call has failed, it says so.
    """
    if _listener is None or _listener.last is None:
        return Explanation(notices=() if _listener is None else _listener.notices.found())
    return _listener.last


def explain_error(error: BaseException | None) -> Explanation | None:
    """Return the explanation of an exception, None where there is none."""
    if _listener is None:
        return None
    try:
        return _listener.explain_error(error)
    except Exception as ours:  # a fault of ours must not follow the person's own error
        calls.say_not_followed(ours)
        return None


def picture() -> Recording | None:
    """Return a recording of the graph in which the last failed call stopped, if one was asked for.

    See `keep_pictures`.
    """
    return None if _listener is None else _listener.picture


def keep_pictures() -> None:
    """Read the graph of every failed call from now on, so that it can be shown."""
    if _listener is not None:
        _listener.wants_pictures = True


def last_words(error: BaseException | None, known: Explanation | None = None) -> Explanation:
    """Return the explanation of how a program ended, with all notices.

    Parameters
    ----------
    error : BaseException, optional
        What ended it.
    known : Explanation, optional
        What was explained while it ran: of an error in a thread.
    """
    found = explain_error(error) or known
    notices = () if _listener is None else _listener.notices.found()
    if found is None:
        return Explanation(message=report.message_of(error), notices=notices)
    return replace(found, notices=notices)


def _hear_steps(listener: Listener) -> Callable[[], None]:
    """Hear every optimizer's step."""
    compiling = torch.compiler.is_dynamo_compiling

    def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
        if compiling():
            return
        try:
            writes.note_step(optimizer, sys._getframe(1))
            listener.notices.step(optimizer)
        except Exception as ours:  # a fault of ours must not become the person's error
            calls.say_not_followed(ours)

    handle = register_optimizer_step_post_hook(stepped)
    return handle.remove
