"""The one place that hears every backward call: ``Tensor.backward``, ``grad``, nested ones.

torch looks its engine up at call time (``Variable._execution_engine``); while somebody listens, a
proxy stands there that tells the listeners and passes everything on. With nobody listening,
torch's own engine is back in its place.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FunctionType, TracebackType
from typing import Any, Protocol

import torch
from torch.autograd.variable import Variable

from secondpass.reading.places import Place, here
from secondpass.reading.unheard import leave_alone, uncompiled


@dataclass(eq=False)
class Call:
    """One backward or autograd.grad call.

    Attributes
    ----------
    key : int
        Higher for a later call; listeners number their own calls from 1.
    kind : str
        ``backward`` or ``grad``.
    place : Place or None
        The innermost line of the person's own code that made the call.
    retain_graph, create_graph : bool
    parent : Call or None
        The call inside which this one was made (from a hook or a Function), if any.
    thread : int
        The identity of the thread that made it.
    roots, gradients, inputs : tuple
        What was passed to torch; emptied when the call ends, so that nothing is kept alive.
    has_inputs : bool
        Whether ``inputs=`` (or autograd.grad's inputs) restricts the pass.
    results : tuple
        What autograd.grad returned; emptied like the rest, after the listeners heard of it.
    error : BaseException or None
        Set while listeners hear of the end of a failed call, emptied after.
    failed : bool
    noted : dict
        What one listener leaves for the next, so that it need not be found out twice; emptied.
    """

    key: int
    kind: str
    place: Place | None
    retain_graph: bool
    create_graph: bool
    parent: Call | None
    thread: int
    has_inputs: bool
    roots: tuple[Any, ...] = field(repr=False)
    gradients: tuple[Any, ...] = field(repr=False)
    inputs: tuple[Any, ...] = field(repr=False)
    results: tuple[Any, ...] = field(default=(), repr=False)
    error: BaseException | None = field(default=None, repr=False)
    failed: bool = False
    noted: dict[str, Any] = field(default_factory=dict, repr=False)

    @uncompiled
    def let_go(self) -> None:
        """Drop everything of torch's."""
        self.roots = self.gradients = self.inputs = self.results = ()
        self.error = None
        self.noted.clear()


class Listener(Protocol):
    """What `listen` wants: both methods run on the thread that made the call."""

    def begin(self, call: Call) -> None:
        """Hear that a call is about to run; its roots, gradients and inputs can be read."""

    def end(self, call: Call) -> None:
        """Hear that a call has ended; ``call.results`` or ``call.error`` can be read."""


# Whenever Python collects garbage, here too, a view may die, and with it goes its listener: `stop`
# runs in the midst of `listen`, on the same thread. So the lock is one that its holder may take
# again, and each change is a single step.
_listeners: dict[object, Listener] = {}
_lock = threading.RLock()
_running = threading.local()
_keys = itertools.count(1)


def listen(listener: Listener) -> Callable[[], None]:
    """Tell a listener of every backward call from now on, in any thread.

    A listener that raises is not allowed to disturb the person's call: its exception becomes a
    RuntimeWarning, once.

    Returns
    -------
    callable
        Ends it; calling it again does nothing.

    Examples
    --------
    >>> import torch
    >>> class Printer:
    ...     def begin(self, call): print(call.kind, "begins")
    ...     def end(self, call): print(call.kind, "failed" if call.failed else "ended")
    >>> stop = listen(Printer())
    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> (x**2).backward()
    backward begins
    backward ended
    >>> stop()
    """
    key = object()  # a listener may define equality as it likes
    with _lock:
        _listeners[key] = listener
        _install()

    @uncompiled
    def stop() -> None:
        with _lock:
            _listeners.pop(key, None)
            if not _listeners:
                _uninstall()

    return stop


def current_call() -> Call | None:
    """Return the innermost call that is running on this thread, None outside any."""
    stack = _stack()
    return stack[-1] if stack else None


class _Engine:
    """Stands where torch's engine stands; only ``run_backward`` is ours."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def run_backward(
        self,
        tensors: Sequence[Any],
        grad_tensors: Sequence[Any],
        keep_graph: bool,
        create_graph: bool,
        inputs: Sequence[Any] = (),
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Run torch's own engine between the listeners' `begin` and `end`."""
        stack = _stack()
        call = _new_call(
            stack,
            "backward" if kwargs.get("accumulate_grad", True) else "grad",
            bool(keep_graph),
            bool(create_graph),
            tuple(tensors),
            tuple(grad_tensors),
            tuple(inputs or ()),
        )
        heard = tuple(_listeners.copy().values())
        stack.append(call)
        try:
            for listener in heard:
                _tell(listener, "begin", call)
            try:
                results = _run(
                    self._engine,
                    (tensors, grad_tensors, keep_graph, create_graph, inputs, *args),
                    kwargs,
                )
            except BaseException as error:
                call.error = error
                call.failed = True
                error.__traceback__ = _without_ours(error.__traceback__)
                raise  # a bare raise adds no entry: the traceback reads as it does without us
            if call.kind == "grad":
                call.results = tuple(results)
            return results
        finally:
            try:
                _tell_of_end(heard, call)
            finally:
                stack.pop()
                call.let_go()


ENGINE_CODE = _Engine.run_backward.__code__
"""A frame of this code stands around all that runs inside a call."""

leave_alone(ENGINE_CODE, what_it_calls=False)  # it calls what the person's hooks are


@uncompiled
def _new_call(
    stack: Sequence[Call],
    kind: str,
    retain_graph: bool,
    create_graph: bool,
    roots: tuple[Any, ...],
    gradients: tuple[Any, ...],
    inputs: tuple[Any, ...],
) -> Call:
    return Call(
        key=next(_keys),
        kind=kind,
        place=here(),
        retain_graph=retain_graph,
        create_graph=create_graph,
        parent=stack[-1] if stack else None,
        thread=threading.get_ident(),
        has_inputs=bool(inputs),
        roots=roots,
        gradients=gradients,
        inputs=inputs,
    )


def _as_torchs_own(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function stand where torch's own call of its engine stands.

    A warning that the engine raises names the line that called it, and filters look at that
    line's module: both must read as they do with nobody listening.
    """
    torchs = torch.autograd.graph
    try:
        source, first = inspect.getsourcelines(torchs._engine_run_backward)
    except (AttributeError, OSError, TypeError):
        return function
    for number, line in enumerate(source, first):
        if ".run_backward(" in line:
            code = function.__code__
            here = max(line for _, _, line in code.co_lines() if line is not None)
            moved = code.replace(
                co_filename=torchs.__file__,
                co_name="_engine_run_backward",
                co_firstlineno=code.co_firstlineno + number - here,
            )
            return FunctionType(moved, vars(torchs))
    return function


@_as_torchs_own
def _run(engine, arguments, keywords):  # type: ignore[no-untyped-def]
    return engine.run_backward(*arguments, **keywords)


@uncompiled
def _without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """Leave out the entries of `_Engine.run_backward` and `_run`, with which it begins."""
    for _ in range(2):
        traceback = None if traceback is None else traceback.tb_next
    return traceback


@uncompiled
def _tell(listener: Listener, what: str, call: Call) -> None:
    without_dispatch = getattr(torch._C, "_DisableTorchDispatch", contextlib.nullcontext)
    try:
        # `unheard`, spelt out: a generator around every call would cost more than most of it.
        with torch._C.DisableTorchFunction(), without_dispatch():
            getattr(listener, what)(call)
    except Exception as error:
        say_not_followed(error)


@uncompiled
def _tell_of_end(heard: Sequence[Listener], call: Call) -> None:
    """Tell all, the last one first: an interrupt in one must not leave another's hooks behind."""
    if heard:
        try:
            _tell(heard[-1], "end", call)
        finally:
            _tell_of_end(heard[:-1], call)


def say_not_followed(error: Exception) -> None:
    """Warn that an error of ours ended the following of a call; it must not become the person's."""
    # Where warnings are errors, or an error cannot be written as text, that is not theirs either.
    with contextlib.suppress(Exception):
        warnings.warn(
            f"secondpass could not follow a backward call ({type(error).__name__}: {error}); "
            "the call itself was not disturbed. Please report this.",
            RuntimeWarning,
            stacklevel=3,
        )


@uncompiled
def _stack() -> list[Call]:
    try:
        return _running.stack  # type: ignore[no-any-return]
    except AttributeError:
        _running.stack = []
        return _running.stack  # type: ignore[no-any-return]


def _install() -> None:
    for owner, name in _doors():
        engine = getattr(owner, name)
        if name == _ENGINE and not isinstance(engine, _Engine):
            setattr(owner, name, _Engine(engine))
        elif name == _DOOR and not isinstance(getattr(engine, "__self__", None), _Engine):
            setattr(owner, name, _Engine(_Door(engine)).run_backward)


def _uninstall() -> None:
    for owner, name in _doors():
        ours = getattr(owner, name)
        if name == _ENGINE and isinstance(ours, _Engine):
            setattr(owner, name, ours._engine)
        elif name == _DOOR and isinstance(getattr(ours, "__self__", None), _Engine):
            setattr(owner, name, ours.__self__._engine.run_backward)


_ENGINE = "_execution_engine"
_DOOR = "_engine_run_backward"


class _Door:
    """An engine of which only the function that calls it can be had."""

    def __init__(self, run_backward: Callable[..., Any]) -> None:
        self.run_backward = run_backward


def _doors() -> list[tuple[Any, str]]:
    """Return where backward calls can be heard: the engine, or else the function that calls it."""
    if hasattr(Variable, _ENGINE):
        return [(Variable, _ENGINE)]
    if hasattr(torch.autograd, _DOOR):
        return [(torch.autograd, _DOOR)]
    warnings.warn(
        "secondpass cannot hear backward calls in this version of torch: nothing will be recorded "
        "or explained, only graphs can be shown.",
        RuntimeWarning,
        stacklevel=4,
    )
    return []
