"""Recordings: the frames of every call, the graph as it stands now, and both as plain data."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import torch

from secondpass.hearing import lines
from secondpass.hearing.calls import listen
from secondpass.reading import names, places
from secondpass.reading.graph import Graph
from secondpass.reading.places import Place
from secondpass.reading.roots import check_roots
from secondpass.reading.saved import short_type
from secondpass.reading.tree import EMPTY
from secondpass.reading.unheard import unheard
from secondpass.replay.frames import CallRecord, Frame, listed
from secondpass.replay.recorder import Recorder

if TYPE_CHECKING:
    from secondpass.explaining.report import Explanation

CONTEXT = 3
"""Lines of source shown before the first and after the last line that a frame speaks of."""

LONGEST_SOURCE = 200

FEW_LEAVES = 3
"""More leaves than this are counted in the summary, not listed."""


class Recording:
    """What was recorded of some backward calls. It holds no tensor and no torch Node.

    A recording is made by `record` or shown by `show`; it displays as an `AutogradGraph`.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._view: Any = None
        self._listener: Any = None  # heard the calls of a `record` block, to explain them

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The frames so far, in the order in which they happened."""
        self._recorder.catch_up()
        return tuple(self._recorder.frames)

    @property
    def calls(self) -> tuple[CallRecord, ...]:
        """The calls so far."""
        return tuple(self._recorder.calls)

    @property
    def graph(self) -> Graph:
        """The graph as it stands now."""
        with self._recorder.lock:
            self._recorder.catch_up()
            return self._recorder.reader.graph(look=not self._recorder.runs_elsewhere)

    def tell(self, listener: Callable[[int], None]) -> None:
        """Call a function with the number of frames whenever some were added."""
        self._recorder.told = lambda: listener(len(self._recorder.events))

    def __repr__(self) -> str:
        """Return a line that says how much was recorded."""
        return f"Recording({len(self.calls)} calls, {len(self._recorder.events)} frames)"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        # The widget needs ipywidgets, a recording does not: a script can record without it.
        from secondpass.picture.widget import AutogradGraph

        if self._view is None:
            self._view = AutogradGraph(self)
        return self._view._repr_mimebundle_(**options)

    def explain(self) -> Explanation:
        """Return the explanation of the last call in it that failed; see `secondpass.explain`.

        What `show` follows is not listened to: load the extension, or use ``with record():``.
        """
        from secondpass.explaining.report import Explanation  # which is written about recordings

        if self._listener is None:
            return Explanation()
        found: Explanation | None = self._listener.last
        return found or Explanation(notices=self._listener.notices.found())

    def to_dict(self) -> dict[str, Any]:
        """Return the recording as plain data for the player: JSON with no tensor in it."""
        with self._recorder.lock:  # another thread's call must not come between graph and frames
            return _Data(self._recorder, self.graph).to_dict()


def record() -> contextlib.AbstractContextManager[Recording]:
    """Record the forward lines and the backward calls that run inside.

    Returns
    -------
    context manager
        Of one block. What it binds, a `Recording`, fills while the block runs.

    Examples
    --------
    >>> import torch
    >>> with record() as recording:
    ...     x = torch.tensor([2.0], requires_grad=True)
    ...     y = x**2
    ...     y.backward()
    >>> [frame.text for frame in recording.frames if frame.kind == "accumulate"]
    ['Call 1: x.grad = 4']
    """
    return _Block()


class _Block(contextlib.AbstractContextManager[Recording]):
    """The block of one `record`."""

    def __init__(self) -> None:
        self._inside: contextlib.AbstractContextManager[Recording] | None = None

    def __enter__(self) -> Recording:
        if self._inside is not None:
            raise RuntimeError(
                "this record() has recorded a block already, and a recording is of one block: "
                "write `with record() as recording:` for each"
            )
        self._inside = _recorded()
        return self._inside.__enter__()

    def __exit__(self, *error: Any) -> bool | None:
        return None if self._inside is None else self._inside.__exit__(*error)


@contextlib.contextmanager
def _recorded() -> Iterator[Recording]:
    from secondpass.explaining.listening import Listener  # which needs recordings, for its pictures

    recorder = Recorder(lines.line_of_number, follow_all=True)
    recorder.listen()
    listener = Listener()
    deaf = listen(listener)
    since = lines.number_now()
    recording = Recording(recorder)
    recording._listener = listener
    try:
        with lines.tracing(recorder.line_ran):
            yield recording
    finally:
        deaf()
        recorder.stop()
        recorder.catch_up()
        frame = places.own_frame(sys._getframe(1))
        if not recorder.calls and frame is not None:
            recorder.add_unused(names.locals_of(frame), since)


def follow(tensors: Sequence[torch.Tensor]) -> Recording:
    """Read the graph behind tensors and record every later call through it.

    Raises
    ------
    TypeError, NoGraphError
        As `read_graph`.
    """
    with unheard():
        check_roots(tensors)
        recorder = Recorder(lines.line_of_number, follow_all=False)
        recorder.add_graph(tensors, names.names_now(sys._getframe(1)))
        recorder.listen()
        return Recording(recorder)


class _Data:
    """Writes a recording as plain data."""

    def __init__(self, recorder: Recorder, graph: Graph) -> None:
        self.recorder = recorder
        self.graph = graph
        self.sources = _sources(recorder, graph)
        self.numbers = {name: number for number, (name, _, _) in enumerate(self.sources)}

    def to_dict(self) -> dict[str, Any]:
        recorder, graph = self.recorder, self.graph
        storages = recorder.reader.held.numbers
        shown = shown_names([name for name, _, _ in self.sources])
        return {
            "calls": [
                {
                    "number": call.number,
                    "title": call.title,
                    "stopped": call.failed,
                    "line": self._line(call.place),
                }
                for call in recorder.calls
            ],
            "sources": [
                {"name": shown[name], "first": first, "lines": text}
                for name, first, text in self.sources
            ],
            "frames": [self._frame(frame) for frame in recorder.frames],
            "start": {
                "slots": {key: list(state) for key, state in recorder.start_slots.items()},
                "leaves": {key: {"grad": text} for key, text in recorder.start_grads.items()},
                "held": recorder.start_held,
            },
            "nodes": {
                node.id: {
                    "title": node.title,
                    "name": node.name,
                    "gives": node.gives,
                    "line": self._line(node.line),
                    "born_in": node.born_in,
                    "after": self._after(node.age),
                    "slots": [
                        {
                            "name": slot.name,
                            "type": ""
                            if slot.shape is None
                            else short_type(slot.dtype, slot.shape),
                            "nbytes": slot.nbytes,
                            "storage": storages.get(f"{node.id}.{slot.name}"),
                        }
                        for slot in node.slots
                    ],
                }
                for node in graph.nodes
            },
            "leaves": {
                leaf.id: {"name": leaf.name, "type": leaf.type, "value": leaf.value}
                for leaf in graph.leaves
            },
            "roots": {
                f"r{place}": {
                    "name": root.name,
                    "type": root.type,
                    "value": root.value,
                    "source": root.source,
                }
                for place, root in enumerate(graph.roots)
            },
            "edges": [
                {"id": edge.id, "source": edge.source, "target": edge.target}
                for edge in graph.edges
            ],
            "left_out": " ".join(filter(None, (graph.left_out, recorder.left_out))),
            "summary": summary(graph),
        }

    def _frame(self, frame: Frame) -> dict[str, Any]:
        return {
            "kind": frame.kind,
            "call": frame.call,
            "node": frame.node,
            "leaf": frame.leaf_id,
            "line": self._line(frame.line),
            "before": frame.before,
            "incoming": frame.incoming,
            "after": frame.after,
            "text": frame.text,
            "gradients": dict(frame.gradients),
            "slots": {key: list(state) for key, state in frame.slots.items()},
            "held": frame.held,
            "born": list(frame.born),
        }

    def _after(self, age: int) -> int:
        """Return the number of the last call that began before a Node was made; 0 for none."""
        return max((call.number for call in self.recorder.calls if call.began <= age), default=0)

    def _line(self, place: Place | None) -> list[int] | None:
        if place is None or place.file not in self.numbers:
            return None
        return [self.numbers[place.file], place.line]


def _sources(recorder: Recorder, graph: Graph) -> list[tuple[str, int, list[str]]]:
    """Return name, first line number and lines of each source that the recording speaks of."""
    spoken: dict[str, list[int]] = {}
    found = [frame.line for frame in recorder.frames] + [node.line for node in graph.nodes]
    for place in found:
        if place is not None:
            spoken.setdefault(place.file, []).append(place.line)
    sources = []
    for name, numbers in spoken.items():
        text = places.source_lines(name)
        if text:
            whole = len(text) <= 2 * CONTEXT + 20
            first = 1 if whole else max(1, min(numbers) - CONTEXT)
            last = len(text) if whole else min(len(text), max(numbers) + CONTEXT)
            last = min(last, first + LONGEST_SOURCE - 1)
            sources.append((name, first, text[first - 1 : last]))
    return sources


def shown_names(files: Sequence[str]) -> dict[str, str]:
    """Return files as they are shown: from the folder on that they share, no machine's paths.

    Examples
    --------
    >>> shown_names(["/home/me/train.py", "/home/me/model/net.py", "In [3]"])
    {'/home/me/train.py': 'train.py', '/home/me/model/net.py': 'model/net.py', 'In [3]': 'In [3]'}
    """
    paths = {file: PurePath(file) for file in files if os.path.isabs(file)}
    around = [set(path.parents) for path in paths.values()]
    shared_by = set.intersection(*around) if around else set()
    shared = max(shared_by, key=lambda one: len(one.parts), default=None)
    return {
        file: paths[file].relative_to(shared).as_posix() if shared and file in paths else file
        for file in files
    }


def summary(graph: Graph) -> str:
    """Return a graph in a sentence: the picture's alternative text."""
    if not graph.roots and not graph.nodes:
        return EMPTY
    count_of = Counter(root.name for root in graph.roots)
    roots = listed(
        [name if many == 1 else f"{many} results called {name}" for name, many in count_of.items()]
    )
    count = len(graph.nodes)
    nodes = "1 Node" if count == 1 else f"{count:,} Nodes"
    leaves = len(graph.leaves)
    ends = "1 leaf" if leaves == 1 else f"{leaves:,} leaves"
    slots = [slot for node in graph.nodes for slot in node.slots if slot.state != "none"]
    freed = [slot for slot in slots if slot.state == "freed"]
    text = f"The autograd graph of {roots}: {nodes} and {ends}"
    if leaves <= FEW_LEAVES:
        told = [
            f"{leaf.name} (grad {leaf.grad.removeprefix(f'{leaf.type} ')})" for leaf in graph.leaves
        ]
        text += f", {', '.join(told)}" if told else ""
    else:
        filled = sum(leaf.grad != "None" for leaf in graph.leaves)
        many = "all" if filled == leaves else f"{filled:,}" if filled else "none"
        text += f", {many} with .grad"
    if not slots:
        text += "; no tensor is saved."
    elif not freed:
        text += f"; {_counted(len(slots))} held."
    elif len(freed) == len(slots):
        text += f"; {_counted(len(slots))} freed."
    else:
        text += f"; {len(freed):,} of {len(slots):,} saved tensors are freed."
    return text


def _counted(count: int) -> str:
    return "its only saved tensor is" if count == 1 else f"all {count:,} saved tensors are"
