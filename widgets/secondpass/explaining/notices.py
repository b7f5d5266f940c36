"""Notice what raises nothing and is most likely not meant.

A notice on right code is worse than none: each rule below asks for a pattern that no right
program shows, and for its repetition.
"""

from __future__ import annotations

import ast
import gc
import itertools
import re
import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import torch

from secondpass.explaining import sources
from secondpass.explaining.history import Heard, History, Ran
from secondpass.explaining.holders import NAMES, Held
from secondpass.explaining.report import Notice
from secondpass.hearing import line_log
from secondpass.hearing.calls import Call
from secondpass.reading import walk
from secondpass.reading.places import Place

GROWING = 3
"""A graph must have grown in so many calls in a row, each running all of the last one's Nodes."""

NEW_LEAVES = 8
"""So often must a graph that is retained have grown behind calls that ask for a new leaf each."""

KEPT = 4
"""So many graphs of one call's line must be alive, each of another step."""

MANY = 50
"""So many graphs of one call's line are too many, even where they are dropped at times."""

_ALIVE = "secondpass.alive"
_VIEWS = (
    "View", "T", "Transpose", "Permute", "Expand", "Squeeze", "Unsqueeze", "Slice", "Select",
    "AsStrided", "Unbind", "Split", "SplitWithSizes", "Alias", "Diagonal", "Unfold", "Narrow",
    "ReshapeAlias", "UnsafeView", "ViewAsReal", "ViewAsComplex", "Numpy_T", "MT", "Mt",
)  # fmt: skip


class _Alive:
    """Lies in a Node's metadata: a weak reference to it says whether the Node lives."""

    __slots__ = ("__weakref__", "names", "step")

    def __init__(self, step: int, names: list[list[Held]]) -> None:
        self.step = step
        self.names = names  # the lists of this call's Nodes, still filled later: text only


@dataclass
class _Line:
    """What is known of the calls that one line makes."""

    place: Place
    calls: int = 0
    sizes: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=GROWING))
    is_optimized: bool | None = None  # an optimizer owns a leaf behind it; not asked yet
    asked: tuple[weakref.ref[torch.Tensor], ...] = ()  # the leaves that the last call asked for
    behind: list[int] = field(default_factory=list)  # Nodes behind calls in a row for new leaves
    alive: list[weakref.ref[_Alive]] = field(default_factory=list)
    kept: tuple[str, int] | None = None  # a name that holds them, and how many


@dataclass
class _Grad:
    """A ``.grad`` that was used: what it was when it was last looked at."""

    owner: weakref.ref[torch.Tensor]
    grad: weakref.ref[torch.Tensor]
    version: int
    untouched: bool = False  # it was as it had been left when the running call began
    added: Heard | None = None  # the call that added to it after its use


@dataclass
class _Optimizer:
    """An optimizer that has made a step."""

    itself: weakref.ref[Any]
    step: int = 0  # its last one, counted over all optimizers
    used: list[_Grad] = field(default_factory=list)

    def parameters(self) -> list[torch.Tensor]:
        optimizer = self.itself()
        groups = [] if optimizer is None else optimizer.param_groups
        return [one for group in groups for one in group["params"]]


@dataclass
class _Read:
    """A ``.grad`` that a line of the person's own has used."""

    grad: weakref.ref[torch.Tensor]
    version: int
    key: int
    untouched: bool = False
    added: Heard | None = None


class Notices:
    """Hears what the listener hears, and optimizers' steps."""

    def __init__(self, history: History) -> None:
        self.steps = 0
        self._history = history
        self._lines: dict[tuple[str, int], _Line] = {}
        self._optimizers: dict[int, _Optimizer] = {}  # by id: a plain dict is the fastest to walk
        self._reads: dict[int, _Read] = {}
        self._found: dict[tuple[str, int | None], Notice] = {}

    def found(self) -> tuple[Notice, ...]:
        """Return the notices so far, one per kind and line."""
        kept = [_kept_notice(line) for line in self._lines.values() if line.kept is not None]
        return tuple([*self._found.values(), *kept])

    # ---- what is heard

    def begin(self, call: Call, heard: Heard) -> None:
        """Hear that a call begins, and see which used gradients nobody has reset."""
        for known in self._optimizers.values():
            if known.used:
                known.used = [one for one in known.used if _still_there(one)]
        for number, read in list(self._reads.items()):
            grad = read.grad()
            if grad is None or grad._version != read.version or not _is_there(grad):
                del self._reads[number]
            else:
                read.untouched = True

    def end(self, call: Call, heard: Heard, ran: Ran | None) -> None:
        """Hear that a call has ended well."""
        for known in self._optimizers.values():
            for one in known.used:
                grad = one.grad()
                if grad is not None and grad._version != one.version:
                    one.version = grad._version
                    if one.untouched and one.added is None:
                        one.added = heard
        for read in self._reads.values():
            grad = read.grad()
            if grad is not None and grad._version != read.version and read.untouched:
                read.version = grad._version
                read.added = read.added or heard
        if ran is None or heard.place is None:
            return
        line = self._lines.setdefault((heard.place.file, heard.place.line), _Line(heard.place))
        line.calls += 1
        self._see_growth(line, heard, ran)
        self._see_new_leaves(line, heard, call)
        self._see_kept(line, heard, ran)
        self._see_stale(heard, ran)

    def step(self, optimizer: Any) -> None:
        """Hear that an optimizer has made a step."""
        self.steps += 1
        known = self._optimizers.get(id(optimizer))
        if known is None or known.itself() is not optimizer:
            self._optimizers = {
                key: one for key, one in self._optimizers.items() if one.itself() is not None
            }
            known = self._optimizers[id(optimizer)] = _Optimizer(weakref.ref(optimizer))
        known.step = self.steps
        for one in known.used:
            grad, owner = one.grad(), one.owner()
            if one.added is None or grad is None or owner is None or owner.grad is not grad:
                continue
            if one.version == grad._version or _is_there(grad):
                self._say(
                    "grad-accumulated",
                    one.added.line,
                    "this call added to gradients that a step() had already used: they were "
                    "never set to zero in between",
                )
        known.used = _samples(optimizer)

    def stepped_since(self, step: int) -> set[int]:
        """Return the ids of the optimizers that made a step after a number of steps."""
        return {key for key, known in self._optimizers.items() if known.step > step}

    # ---- the rules

    def _see_growth(self, line: _Line, heard: Heard, ran: Ran) -> None:
        line.sizes.append((heard.nodes, heard.rerun, heard.step))
        sizes = list(line.sizes)
        grows = all(
            earlier[0] < later[0] and earlier[1] < later[1]
            for earlier, later in itertools.pairwise(sizes)
        )
        if len(sizes) < GROWING or not grows or ("graph-grows", heard.line) in self._found:
            return
        # Several passes along one unroll, before its step, are right.
        if sizes[0][2] == heard.step:
            if line.is_optimized is None:
                line.is_optimized = _is_optimized(ran)
            if line.is_optimized:
                return
        self._say(
            "graph-grows",
            heard.line,
            f"the graph grows with every call ({', '.join(str(one) for one, *_ in sizes)} "
            "Nodes): each pass runs through all earlier ones again",
        )

    def _see_new_leaves(self, line: _Line, heard: Heard, call: Call) -> None:
        """See a graph that grows behind what calls run, each to a leaf of its own."""
        inputs = list(call.inputs) if heard.inputs and not heard.create else []
        leaves = [one for one in inputs if isinstance(one, torch.Tensor) and one.grad_fn is None]
        known = [ref() for ref in line.asked]
        is_new = bool(leaves) and len(leaves) == len(inputs)
        is_new = is_new and not any(one is other for one in leaves for other in known)
        line.asked = tuple(weakref.ref(one) for one in leaves)
        grew = bool(line.behind) and heard.behind > line.behind[-1]
        line.behind = [*(line.behind if grew else ()), heard.behind] if is_new else []
        if len(line.behind) > (NEW_LEAVES if heard.retain else GROWING):
            last = ", ".join(map(str, line.behind[-GROWING:]))
            self._say(
                "graph-grows",
                heard.line,
                f"the graph behind the result grows with every call ({last} Nodes), though each "
                "asks for the gradient of a new leaf: what is carried over keeps all earlier "
                "graphs",
            )
            line.behind = line.behind[-1:]

    def _see_kept(self, line: _Line, heard: Heard, ran: Ran) -> None:
        names = [node.metadata[NAMES] for node in ran.fresh if NAMES in node.metadata]
        for node in {*ran.roots, *ran.fresh[-1:]}:  # the oldest is behind whatever is kept
            alive = node.metadata[_ALIVE] = _Alive(heard.step, names)
            line.alive.append(weakref.ref(alive))
        living = [one for ref in line.alive if (one := ref()) is not None]
        line.alive = [weakref.ref(one) for one in living]
        steps = {one.step for one in living}
        if self.steps == 0:
            line.kept = None
            return
        many = len(steps) >= MANY
        if many or (len(steps) >= KEPT and len(steps) == line.calls):
            line.kept = _holder(living), len(steps)
        elif line.kept is not None and len(steps) < line.kept[1]:
            line.kept = None

    def _see_stale(self, heard: Heard, ran: Ran) -> None:
        for node, call in ran.again:
            earlier = self._history.get(call)
            if earlier is None or earlier.step >= heard.step or _is_view(node):
                continue
            stepped = {
                id(one)
                for known in self._optimizers.values()
                if known.step > earlier.step
                for one in known.parameters()
            }
            leaves = walk.walk([node]).leaves
            if any(id(leaf.variable) in stepped for leaf in leaves):
                self._say(
                    "stale-root",
                    heard.line,
                    f"this call ran again through a graph that call {earlier.number} had run "
                    "through before the last step(): its values are those of the old weights",
                )
            return  # one look per call is enough

    def read(self, grad: torch.Tensor, key: int) -> None:
        """Hear that a line used a leaf's ``.grad``.

        A leaf that no optimizer owns has no step() that tells when its gradient was used. So: the
        same line has used it twice, and a call has added to it in between.
        """
        if grad.is_inference():  # nothing counts how often it is written to
            return
        known = self._reads.get(id(grad))
        if known is not None and known.grad() is grad and known.added is not None:
            place = line_log.table.place
            same_line = place(known.key) == place(key)
            if same_line and known.version == grad._version and not _is_owned(grad):
                self._say(
                    "grad-accumulated",
                    known.added.line,
                    "this call added to a .grad that had been used before: it was never set to "
                    "None or zero in between",
                )
        if len(self._reads) < 64 or known is not None:
            self._reads[id(grad)] = _Read(weakref.ref(grad), grad._version, key)

    def _say(self, kind: str, line: int | None, why: str) -> None:
        self._found.setdefault((kind, line), Notice(kind, line, why))


def _is_optimized(ran: Ran) -> bool:
    """Say whether an optimizer owns a leaf behind a graph; asked once a line."""
    leaves = {id(leaf.variable) for leaf in walk.walk(ran.roots).leaves}
    return any(
        id(one) in leaves
        for optimizer in gc.get_objects()
        if issubclass(type(optimizer), torch.optim.Optimizer)
        for group in optimizer.param_groups
        for one in group["params"]
    )


def _is_owned(grad: torch.Tensor) -> bool:
    """Say whether a gradient is that of an optimizer's parameter; asked seldom."""
    return any(
        one.grad is grad
        for optimizer in gc.get_objects()
        if issubclass(type(optimizer), torch.optim.Optimizer)
        for group in optimizer.param_groups
        for one in group["params"]
    )


def _samples(optimizer: Any) -> list[_Grad]:
    """Return two of an optimizer's gradients, as they are right after a step."""
    groups = optimizer.param_groups
    first = next((one for group in groups for one in group["params"] if _has_grad(one)), None)
    if first is None:
        return []
    backwards = (one for group in reversed(groups) for one in reversed(group["params"]))
    last = next(one for one in backwards if _has_grad(one))
    return [
        _Grad(weakref.ref(one), weakref.ref(one.grad), one.grad._version)
        for one in ((first,) if first is last else (first, last))
    ]


def _has_grad(one: torch.Tensor) -> bool:
    """Say whether a parameter has a gradient of which it is counted how often it is written to."""
    return one.grad is not None and not one.grad.is_inference()


def _still_there(one: _Grad) -> bool:
    """Say whether a used gradient has not been reset; note whether it was touched at all."""
    grad, owner = one.grad(), one.owner()
    if grad is None or owner is None or owner.grad is not grad:
        return False
    if grad._version == one.version:
        one.untouched = _is_there(grad)  # .data.zero_() leaves the version as it is
        return one.untouched
    # Somebody wrote into it: set it to zero, or scaled it on purpose.
    one.version = grad._version
    return one.added is not None and _is_there(grad)


def _is_there(grad: torch.Tensor) -> bool:
    try:
        return bool(grad.detach().ne(0).any())
    except (RuntimeError, NotImplementedError):
        return False


def _is_view(node: Any) -> bool:
    """Say whether a Node made another look at the same memory: that is never out of date."""
    name = walk.name_of(node).rstrip("0123456789").removesuffix("Backward")
    return name in _VIEWS


def _holder(living: list[_Alive]) -> str:
    """Return the name of the innermost container that holds most of some graphs.

    Of ``history[0][1]``, ``history[1][1]``: ``history``, not ``history[0]``, which holds one.
    """
    counts: dict[str, int] = {}
    for one in living:
        held = [held.name for names in one.names for held in names]
        for outer in {name[: at.start()] for name in held for at in re.finditer(r"\[", name)}:
            counts[outer] = counts.get(outer, 0) + 1
    most = max(counts, key=lambda name: (counts[name], len(name)), default="")
    return most if counts.get(most, 0) > 1 else ""


def _kept_notice(line: _Line) -> Notice:
    name, many = line.kept or ("", 0)
    what = f"`{name}` keeps" if name else "something keeps"
    why = (
        f"{what} the graphs of {many} calls alive: what outlives its round is to be stored without "
        "its graph, as loss.item() or detached"
    )
    return Notice("graphs-kept", _storing_line(line.place, name) or line.place.line, why)


def _storing_line(place: Place, name: str) -> int | None:
    """Return the line of ``history.append(…)``."""
    tree = sources.tree_of(place.file) if name else None
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("append", "extend", "appendleft", "add"):
                if sources.text_of(node.func.value) == name:
                    return node.lineno
    return None
