"""Random programs over autograd: lists of small steps, run the same way each time.

A step that torch refuses (an in-place write to a leaf, a view of another shape) is skipped, in a
watched run as in an unwatched one, so every list of steps is a program.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from hypothesis import strategies as st
from torch.utils.checkpoint import checkpoint

STEPS = (8, 20)
"""Steps of a program, at least and at most."""


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class SavesResult(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        result = x.tanh()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad):
        (result,) = ctx.saved_tensors
        return grad * (1 - result**2)


class Keeps(torch.autograd.Function):
    """Saves nothing: an attribute is not a saved tensor."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.factor = 3.0
        return x * 3.0 + y

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, grad


class NeverReads(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x + 1

    @staticmethod
    def backward(ctx, grad):
        return grad


class Doubles(torch.autograd.Function):
    """Writes in place."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def _with_hooks(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
        return x.exp() * x


def _block(x):
    return (x.sin() * x).relu()


def _assign(x, y):
    x[0] = y[1]
    return x


def _write_row(x, y):
    x[0].mul_(0.5)
    return x


def _write_transposed(x, y):
    x.t().add_(y)
    return x


def _write_chunk(x, y):
    for part in x.chunk(2):  # views made at once: torch refuses some writes to these
        part.mul_(2)
    return x


def _write_detached(x, y):
    x.detach().mul_(1.5)  # seen by the version counter, not by the graph
    return x


def _hooked(x, y):
    result = x * 1.0
    if result.requires_grad:
        result.register_hook(lambda grad: grad * 2)
    return result


def _retained(x, y):
    result = x + y
    if result.requires_grad:
        result.retain_grad()
    return result


Make = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

MAKERS: list[Make] = [
    lambda x, y: x + y,
    lambda x, y: x * y,
    lambda x, y: x @ y,
    lambda x, y: x - 1,
    lambda x, y: x * 0.5,
    lambda x, y: x.exp().clamp(max=3),
    lambda x, y: x.sin(),
    lambda x, y: x.tanh(),
    lambda x, y: (x.abs() + 1).log(),
    lambda x, y: x.softmax(0),
    lambda x, y: x**2,
    lambda x, y: torch.where(x > 0, x, y),
    lambda x, y: torch.cat([x, y])[1:3],
    lambda x, y: torch.stack([x, y]).sum(0),
    lambda x, y: torch.stack([x, y]).unbind()[1],
    lambda x, y: (x.chunk(2)[0] + x.chunk(2)[1]).expand(2, 2),
    lambda x, y: x.t(),
    lambda x, y: x.reshape(4).view(2, 2),
    lambda x, y: x[0].expand(2, 2),
    lambda x, y: x[[1, 0]],
    lambda x, y: x.max(0).values * y,
    lambda x, y: x.mean() + y,
    lambda x, y: x.clone(),
    lambda x, y: x.detach(),
    lambda x, y: x.detach() * y,
    lambda x, y: Square.apply(x),
    lambda x, y: SavesResult.apply(x),
    lambda x, y: Keeps.apply(x, y),
    lambda x, y: NeverReads.apply(x),
    lambda x, y: Doubles.apply(x * 1),
    lambda x, y: checkpoint(_block, x, use_reentrant=False),
    lambda x, y: checkpoint(_block, x, use_reentrant=True),
    lambda x, y: _with_hooks(x),
    _hooked,
    _retained,
]

WRITERS: list[Make] = [
    lambda x, y: x.mul_(2),
    lambda x, y: x.add_(y),
    lambda x, y: x.relu_(),
    lambda x, y: x.zero_(),
    lambda x, y: Doubles.apply(x),
    _assign,
    _write_row,
    _write_transposed,
    _write_chunk,
    _write_detached,
]


@dataclass(frozen=True)
class Build:
    """Make a tensor of two others; a high number of steps back is taken round."""

    maker: int
    first: int
    second: int
    in_thread: bool


@dataclass(frozen=True)
class Write:
    """Change a tensor in place, a leaf under no_grad."""

    writer: int
    first: int
    second: int


@dataclass(frozen=True)
class Pass:
    """Run backward, from one or several tensors, to all leaves or to some."""

    roots: tuple[int, ...]
    retain: bool
    create: bool
    inputs: tuple[int, ...]
    grad: bool
    in_thread: bool


@dataclass(frozen=True)
class Reset:
    """Reset ``.grad`` of all leaves."""

    to_none: bool


Step = Build | Write | Pass | Reset


def programs() -> st.SearchStrategy[list[Step]]:
    back = st.integers(0, 7)
    seldom = st.sampled_from([False] * 9 + [True])
    build = st.builds(Build, st.integers(0, len(MAKERS) - 1), back, back, seldom)
    write = st.builds(Write, st.integers(0, len(WRITERS) - 1), back, back)
    run = st.builds(
        Pass,
        roots=st.lists(back, min_size=1, max_size=2).map(tuple),
        retain=st.booleans(),
        create=seldom,
        inputs=st.one_of(
            st.just(()), st.just(()), st.lists(back, min_size=1, max_size=2).map(tuple)
        ),
        grad=seldom,
        in_thread=seldom,
    )
    reset = st.builds(Reset, st.booleans())
    step = st.one_of(build, build, build, build, write, run, run, reset)
    return st.lists(step, min_size=STEPS[0], max_size=STEPS[1])


@dataclass
class Run:
    """What a program did: the numbers that nobody's looking may change."""

    tensors: list[torch.Tensor] = field(default_factory=list)
    leaves: list[torch.Tensor] = field(default_factory=list)
    results: list[torch.Tensor] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def numbers(self) -> list[object]:
        """Return all values and gradients as bytes, and what was raised."""
        seen = [*self.tensors, *self.results, *(leaf.grad for leaf in self.leaves)]
        kept = [one.detach().contiguous() for one in seen if one is not None]
        return [[one.numpy().tobytes() for one in kept], self.errors]


class Watcher:
    """What a watched run tells of; an unwatched run has one that does nothing."""

    def around(self, roots, is_whole, run_pass):
        run_pass()

    def look(self, tensors):
        """A tensor was made.

        A view whose base was changed since is not looked at: asking it for its grad_fn, as printing
        it does, makes torch give it a new Node, which then runs earlier than it else would.
        """


def execute(steps: list[Step], watcher: Watcher) -> Run:
    """Run a program."""
    run = Run()
    numbers = torch.arange(4.0).reshape(2, 2)
    run.leaves = [(numbers * 0.3 - 0.4).requires_grad_(), (numbers * -0.2 + 0.5).requires_grad_()]
    run.tensors = list(run.leaves)
    for step in steps:
        try:
            _STEPS[type(step)](step, run, watcher)
        except (RuntimeError, IndexError) as error:
            run.errors.append(str(error).partition("\n")[0])
    return run


def _build(step: Build, run: Run, watcher: Watcher) -> None:
    first, second = _pick(run, step.first), _pick(run, step.second)
    made = _in_thread(step.in_thread, lambda: MAKERS[step.maker](first, second))
    run.tensors.append(made)
    watcher.look(run.tensors)


def _write(step: Write, run: Run, watcher: Watcher) -> None:
    first, second = _pick(run, step.first), _pick(run, step.second)
    with torch.set_grad_enabled(not first.is_leaf):
        WRITERS[step.writer](first, second)


def _pass(step: Pass, run: Run, watcher: Watcher) -> None:
    roots = [_pick(run, number) for number in step.roots]
    inputs = [_pick(run, number) for number in step.inputs]
    options = {"retain_graph": step.retain or None, "create_graph": step.create}

    def run_pass():
        sums = [torch.full_like(one, 1.0) for one in roots]
        if step.grad:
            to = inputs or run.leaves
            found = torch.autograd.grad(roots, to, sums, allow_unused=True, **options)
            run.results.extend(one.detach() for one in found if one is not None)
        else:
            torch.autograd.backward(roots, sums, inputs=inputs or None, **options)

    is_whole = not (inputs or step.grad)
    _in_thread(step.in_thread, lambda: watcher.around(roots, is_whole, run_pass))


def _reset(step: Reset, run: Run, watcher: Watcher) -> None:
    for leaf in run.leaves:
        if step.to_none or leaf.grad is None:
            leaf.grad = None
        else:
            leaf.grad = leaf.grad.detach().zero_()


_STEPS: dict[type, Callable[..., None]] = {
    Build: _build,
    Write: _write,
    Pass: _pass,
    Reset: _reset,
}


def _pick(run: Run, back: int) -> torch.Tensor:
    return run.tensors[-1 - back % len(run.tensors)]


def _in_thread(wanted, call):
    """Make a call, if wanted in a thread of its own, whose sequence numbers begin at 0."""
    if not wanted:
        return call()
    outcome = []

    def target():
        try:
            outcome.append((call(), None))
        except Exception as error:
            outcome.append((None, error))

    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    result, error = outcome[0]
    if error is not None:
        raise error
    return result
