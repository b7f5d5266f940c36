"""Gather the facts of a failed call while its graph is still there.

What comes out is plain data (`Failure`): no tensor and no Node. `explanation` draws the
conclusions.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

import torch

from secondpass.explaining import holders, report
from secondpass.explaining.history import (
    FREED_BY,
    RAN_IN,
    Heard,
    History,
    Targets,
    leading_to,
    nodes_behind,
    was_root,
)
from secondpass.explaining.holders import Held
from secondpass.hearing import calls, lines, writes
from secondpass.hearing.lines import Made
from secondpass.reading import saved, walk
from secondpass.reading.places import Place, is_own, place_in

_MESSAGES = (
    ("backward through the graph a second time", report.BACKWARD_TWICE),
    ("modified by an inplace operation", report.MODIFIED),
    ("leaf Variable that requires grad", report.LEAF_MODIFIED),
    ("does not require grad and does not have a grad_fn", report.NO_GRAPH),
    ("One of the differentiated Tensors does not require grad", report.NO_GRAPH),
    ("Only Tensors created explicitly by the user", report.COPIED),
)


@dataclass(frozen=True)
class Failure:
    """What was found out about a failed call.

    Attributes
    ----------
    error, message : str
    heard : Heard
    freed_by : Heard or None
        The call that freed the saved tensors.
    maybe_freed_by : tuple of Heard
        The calls that may have, where it is not known.
    node : str
        The Node's name; empty where it was not found.
    slots : tuple of str
    made : Made or None
    path : tuple of str
        Node names, from the root to the Node.
    any_younger : bool
        Whether the pass reached a Node younger than the call that freed.
    same_root : bool
        Whether both calls began in the same result.
    made_again : bool
        Whether the line that made the Node made another one for this pass, on the same way.
    carriers : tuple of Held
        Names of what leads from the new graph into the old one, the likeliest first.
    boundary : Made or None
        Where the old Node at the boundary was made.
    updated : tuple of str
        Leaves whose ``.grad`` the failed call had changed.
    behind : tuple of (str, str)
        Leaves behind the Node and the optimizer that owns each, or ``""``.
    optimizers : tuple of str
        Names of the optimizers that the running code holds.
    stepped : tuple of str
        Names of the optimizers that made a step after the call that freed.
    in_function : str
        The name of a custom Function's backward in which the error was raised.
    modified_at : Place or None
    modified_name : str
        The person's name of the tensor that was changed.
    modified_leaf : bool
        Whether it is a leaf: a parameter.
    retained : bool
        Whether an earlier call through this graph kept it.
    left_out : str
    tag : int
        The number of the Node's tag: by it, a picture finds the Node.
    """

    error: str
    message: str
    heard: Heard
    freed_by: Heard | None = None
    maybe_freed_by: tuple[Heard, ...] = ()
    node: str = ""
    slots: tuple[str, ...] = ()
    made: Made | None = None
    path: tuple[str, ...] = ()
    any_younger: bool = False
    same_root: bool = False
    made_again: bool = False
    carriers: tuple[Held, ...] = ()
    boundary: Made | None = None
    updated: tuple[str, ...] = ()
    behind: tuple[tuple[str, str], ...] = ()
    optimizers: tuple[str, ...] = ()
    stepped: tuple[str, ...] = ()
    in_function: str = ""
    modified_at: Place | None = None
    modified_name: str = ""
    modified_leaf: bool = False
    retained: bool = False
    left_out: str = ""
    tag: int = -1


def error_of(error: BaseException) -> str | None:
    """Return which of autograd's errors an exception is, None for any other."""
    if not isinstance(error, RuntimeError):
        return None
    message = str(error)
    return next((kind for words, kind in _MESSAGES if words in message), None)


def gather(
    call: calls.Call,
    heard: Heard,
    history: History,
    stepped_since: Callable[[int], set[int]],
) -> Failure | None:
    """Find out why a call failed; None where it is not one of autograd's errors.

    Parameters
    ----------
    call : Call
        Just ended, with its error.
    heard : Heard
    history : History
    stepped_since : callable
        Gives the ids of the optimizers that made a step after a number of steps.
    """
    error = call.error
    kind = None if error is None else error_of(error)
    if error is None or kind is None:
        return None
    frame = sys._getframe(1)
    pass_ = _Pass(call, heard, history, frame)
    pass_.stepped_since = stepped_since
    if kind == report.BACKWARD_TWICE:
        return pass_.second_time(error)
    if kind == report.MODIFIED:
        return pass_.modified(error)
    return Failure(kind, str(error), heard)


class _Pass:
    """A failed pass and its graph; lives no longer than the gathering."""

    def __init__(
        self, call: calls.Call, heard: Heard, history: History, frame: FrameType | None
    ) -> None:
        self.heard, self.history, self.frame = heard, history, frame
        self.names_now: dict[Any, list[Held]] = {}
        holders.collect(frame, 1.0, self.names_now)
        self.stepped_since: Callable[[int], set[int]] = lambda step: set()
        self.kind = call.kind
        self.roots = nodes_behind(call.roots)
        self.began_before = was_root(call.roots)
        walked = walk.walk(self.roots)
        self.left_out, self.leaves = walked.left_out, walked.leaves
        self.nodes = walked.nodes
        if call.has_inputs:
            self.nodes = leading_to(self.nodes, Targets(call.inputs), call.kind == "grad")
        self.parents: dict[Any, Any] = {}
        for node in self.nodes:
            for following, _ in node.next_functions:
                if following is not None and following not in self.parents:
                    self.parents[following] = node
        for root in self.roots:
            self.parents.pop(root, None)

    # ---- the graph was freed

    def second_time(self, error: BaseException) -> Failure:
        message = str(error)
        in_function = _function_in(error.__traceback__)
        place = self._stopped(bool(in_function))
        if place is None:
            return Failure(
                report.BACKWARD_TWICE,
                message,
                self.heard,
                in_function=in_function,
                left_out=self.left_out,
            )
        node = self.nodes[place]
        made = lines.made_by(node)
        freed_by = self.history.get(node.metadata.get(FREED_BY))
        maybe = () if freed_by is not None else self._maybe_freed_by(node)
        since = freed_by or (maybe[0] if maybe else None)
        path = self._path(node)
        younger = [] if since is None else [n for n in self.nodes if self._is_younger(n, since)]
        old = self._boundary(path, freed_by, since)
        return Failure(
            report.BACKWARD_TWICE,
            message,
            self.heard,
            freed_by=freed_by,
            maybe_freed_by=maybe,
            node=node.name(),
            slots=tuple(slot.name for slot in saved.read_slots(node) if slot.state == saved.FREED),
            made=made,
            path=tuple(one.name() for one in path),
            any_younger=bool(younger),
            same_root=since is not None and since.call in self.began_before,
            made_again=since is not None and self._made_again(node, made, younger, since),
            carriers=self._carriers(path, old) or self._hidden_carriers(old),
            boundary=lines.made_by(old),
            updated=self._updated(place),
            behind=self._behind(node),
            optimizers=tuple(name for name, _ in self._optimizers()),
            stepped=() if since is None else self._stepped(since.step),
            in_function=in_function,
            left_out=self.left_out,
            tag=_tag_number(node),
        )

    def _stopped(self, in_function: bool) -> int | None:
        """Return the place, in engine order, of the Node in which the pass stopped."""
        likely: int | None = None
        unheard: int | None = None  # freed by a call that ran before listening began
        for place, node in enumerate(self.nodes):
            custom = _is_custom(node)
            if custom and not in_function:
                continue  # it had something freed, but did not read it
            if FREED_BY in node.metadata:
                if custom == in_function and (_hides(node) or saved.is_freed(node)):
                    return place
            elif likely is None and saved.is_freed(node) and custom == in_function:
                number = lines.number_of(node)
                calls_since = self.history.since(number or 0, self.heard.thread)
                if any(one is not self.heard and not one.retain for one in calls_since):
                    likely = place
                elif unheard is None:
                    unheard = place
        return likely if likely is not None else unheard

    def _maybe_freed_by(self, node: Any) -> tuple[Heard, ...]:
        """Return the calls that may have freed a Node that no call marked."""
        number = lines.number_of(node)
        if number is None:
            return ()
        return tuple(
            one
            for one in self.history.since(number, self.heard.thread)
            if one is not self.heard and not one.retain and not one.tracked and not one.failed
        )

    def _is_younger(self, node: Any, than: Heard) -> bool:
        number = lines.number_of(node)
        return number is not None and number >= than.began and FREED_BY not in node.metadata

    def _path(self, node: Any) -> list[Any]:
        path = [node]
        while path[-1] in self.parents:
            path.append(self.parents[path[-1]])
        return path[::-1]

    def _boundary(self, path: list[Any], freed_by: Heard | None, since: Heard | None) -> Any:
        """Return the Node at which the path enters what the earlier call ran through."""
        if since is not None and any(self._is_younger(one, since) for one in path):
            return next((one for one in path if not self._is_younger(one, since)), path[-1])
        # Nothing is younger: both calls were computed together, and share what the first ran.
        call = None if freed_by is None else freed_by.call
        return next((one for one in path if one.metadata.get(FREED_BY) == call), path[-1])

    def _made_again(
        self, node: Any, made: Made | None, younger: Iterable[Any], since: Heard
    ) -> bool:
        """Say whether the line that made a Node made another such one, on the same way."""
        if made is None:
            return False
        way, name = _inner(made.chain, since.chain), node.name()
        for one in younger:
            other = lines.made_by(one) if one.name() == name else None
            if (
                other is not None
                and other.place == made.place
                and _inner(other.chain, self.heard.chain) == way
            ):
                return True
        return False

    def _hidden_carriers(self, node: Any) -> tuple[Held, ...]:
        """Return where a library keeps what no variable of the person's names."""
        return tuple(
            Held(name, "", output, "library") for name, output in holders.hidden_names(node)
        )

    def _carriers(self, path: list[Any], old: Any) -> tuple[Held, ...]:
        """Return the names on the old side of the boundary, the nearest to it first."""
        found: list[Held] = []
        start = path.index(old)
        used = {
            (following, output)
            for one in path[:start]
            for following, output in one.next_functions
            if following is not None
        }
        for node in path[start:]:
            # What holds it still is surer than what held it when an earlier call was made.
            names = [*self.names_now.get(node, ()), *holders.names_on(node)]
            exact = [one for one in names if (node, one.output) in used]
            for one in [*exact, *names]:
                if one not in found:
                    found.append(one)
        return tuple(found)

    def _updated(self, place: int) -> tuple[str, ...]:
        """Return the leaves that the engine reached before it stopped."""
        if self.kind == "grad":
            return ()
        last = {id(leaf): -1 for leaf in self.leaves}
        for index, node in enumerate(self.nodes):
            for following, _ in node.next_functions:
                if following is not None and id(following) in last:
                    last[id(following)] = index
        names = self._leaf_names()
        return tuple(
            names[id(leaf.variable)]
            for leaf in self.leaves
            if 0 <= last[id(leaf)] < place
            and leaf.variable.grad is not None
            and id(leaf.variable) in names
        )

    def _behind(self, node: Any) -> tuple[tuple[str, str], ...]:
        """Return the leaves behind a Node, with the optimizer that owns each."""
        owners: dict[int, str] = {}
        for name, optimizer in self._optimizers():
            for group in optimizer.param_groups:
                owners.update((id(one), name) for one in group["params"])
        names = self._leaf_names()
        return tuple(
            (names.get(id(leaf.variable), "a leaf"), owners.get(id(leaf.variable), ""))
            for leaf in walk.walk([node]).leaves
        )

    def _optimizers(self) -> Iterator[tuple[str, Any]]:
        return holders.objects_of(self.frame, torch.optim.Optimizer)

    def _stepped(self, step: int) -> tuple[str, ...]:
        """Return the names of the optimizers that made a step since."""
        ids = self.stepped_since(step)
        return tuple(name for name, optimizer in self._optimizers() if id(optimizer) in ids)

    def _leaf_names(self) -> dict[int, str]:
        names: dict[int, str] = {}
        for name, tensor in holders.tensors_of(self.frame):
            known = names.get(id(tensor))
            if known is None or _clumsiness(name) < _clumsiness(known):
                names[id(tensor)] = name
        return names

    # ---- a saved tensor was changed

    def modified(self, error: BaseException) -> Failure:
        for place, node in enumerate(self.nodes):
            changed = [slot for slot in saved.read_slots(node) if slot.state == saved.CHANGED]
            if not changed:
                continue
            tensor = _saved_tensor(node, changed[0].name)
            at, name = self._changed_at(node, tensor, _expected(str(error)))
            return Failure(
                report.MODIFIED,
                str(error),
                self.heard,
                node=node.name(),
                slots=tuple(slot.name for slot in changed),
                made=lines.made_by(node),
                path=tuple(one.name() for one in self._path(node)),
                carriers=(*self.names_now.get(node, ()), *holders.names_on(node)),
                updated=self._updated(place),
                modified_at=at,
                modified_name=name,
                modified_leaf=tensor is not None
                and any(_same_storage(leaf.variable, tensor) for leaf in self.leaves),
                retained=any(RAN_IN in one.metadata for one in self.nodes),
                tag=_tag_number(node),
                left_out=self.left_out,
            )
        return Failure(report.MODIFIED, str(error), self.heard, left_out=self.left_out)

    def _changed_at(
        self, node: Any, tensor: torch.Tensor | None, expected: int | None
    ) -> tuple[Place | None, str]:
        """Return the line that changed a saved tensor, and the tensor's name."""
        if tensor is None:
            return None, ""
        version = expected if expected is not None else tensor._version - 1
        same = [
            (name, other)
            for name, other in holders.tensors_of(self.frame)
            if _same_storage(other, tensor)
        ]
        name = same[0][0] if same else ""
        place = writes.write_after(tensor, version) or writes.stepped_after(tensor, version)
        if place is None:
            place = self._rebased_at(node, [tensor, *(other for _, other in same)])
        return place, name

    def _rebased_at(self, node: Any, tensors: Iterable[torch.Tensor]) -> Place | None:
        """Return the line of the Node that an in-place operation put behind a tensor."""
        number = lines.number_of(node) or 0
        for tensor in tensors:
            later = tensor.grad_fn if not tensor.is_leaf else None
            if later is not None and (lines.number_of(later) or 0) > number:
                return lines.line_of(later)
        return None


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


def _function_in(traceback: TracebackType | None) -> str:
    """Return the custom Function's backward in which an error was raised, or ``""``."""
    name, inside = "", False
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_name.startswith("apply") and code.co_filename.endswith("function.py"):
            inside, name = True, code.co_qualname
        elif inside and is_own(code.co_filename):
            name = code.co_qualname
        elif code.co_name == "run_backward":
            inside, name = False, ""  # the error came out of a call within the Function
        traceback = traceback.tb_next
    return name


def _clumsiness(name: str) -> tuple[bool, int]:
    """Order names: ``net.weight`` before ``params[3]``, the short before the long."""
    return bool(re.fullmatch(r"\w+\[\d+\]", name)), name.count(".")


def _is_custom(node: Any) -> bool:
    return hasattr(type(node), "save_for_backward")  # on the class: asking the Node may raise


def _tag_number(node: Any) -> int:
    tag = walk.tag_of(node)
    return -1 if tag is None else tag.number


def _hides(node: Any) -> bool:
    name = str(node.name())
    return name.endswith("CopySlices") or "CppNode" in name


def _saved_tensor(node: Any, slot: str) -> torch.Tensor | None:
    """Return the tensor in a slot, as it is now; the caller drops it soon."""
    name, _, place = slot.partition("[")
    try:
        raw = getattr(node, f"_raw_saved_{name}")
        data = (raw[int(place.rstrip("]"))] if place else raw).data
    except (RuntimeError, AttributeError):
        return None
    return data if isinstance(data, torch.Tensor) else None


def _expected(message: str) -> int | None:
    found = re.search(r"expected version (\d+)", message)
    return int(found[1]) if found else None


def _same_storage(one: torch.Tensor, other: torch.Tensor) -> bool:
    storage = writes.storage_of(one)
    return storage is not None and storage == writes.storage_of(other)


def innermost_own(traceback: TracebackType | None) -> tuple[Place, FrameType] | None:
    """Return the innermost own line of a traceback, and its frame."""
    found = None
    while traceback is not None:
        frame = traceback.tb_frame
        if is_own(frame.f_code.co_filename):
            found = place_in(frame.f_code, traceback.tb_lineno), frame
        traceback = traceback.tb_next
    return found
