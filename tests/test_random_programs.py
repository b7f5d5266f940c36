"""Random programs: each pass stops where it was said to, and nothing differs for being watched.

CI runs 2,000 programs, the same ones each time. To run more, other ones each time:

    SECONDPASS_PROGRAMS=50000 python -m pytest tests/test_random_programs.py
"""

from __future__ import annotations

import gc
import os
import warnings
from collections import Counter

import pytest
from hypothesis import HealthCheck, example, given, settings
from torch.autograd.variable import Variable

from programs import Build, Pass, Watcher, Write, execute, programs
from secondpass.hearing import calls
from secondpass.reading import saved
from secondpass.reading.graph import UNKNOWN, Graph
from secondpass.reading.reader import read_graph
from secondpass.reading.walk import gradient_node
from secondpass.replay.recording import follow, record

MORE = int(os.environ.get("SECONDPASS_PROGRAMS", "0"))

random_programs = settings(
    max_examples=(MORE or 2_000) // 2,  # half of them shown, half of them recorded
    derandomize=not MORE,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

ENGINE = Variable._execution_engine
TWICE = "backward through the graph a second time"
CHANGED = "inplace operation"  # so it is said of a tensor, and of a view whose base was changed


def nodes_of(roots) -> list:
    """Return the Nodes of a graph, found without secondpass."""
    nodes = {}
    todo = [gradient_node(one) for one in roots]
    while todo:
        node = todo.pop()
        if node is not None and node not in nodes:
            nodes[node] = None
            todo += [one for one, _ in node.next_functions]
    return [node for node in nodes if node.name() != "torch::autograd::AccumulateGrad"]


class Passes(Watcher):
    """Holds each pass to what was said of it before it ran."""

    def __init__(self, recordings=()):
        self.recordings = list(recordings)
        self.said = Counter()

    def around(self, roots, is_whole, run_pass):
        if any(gradient_node(root) is None for root in roots):
            run_pass()  # torch says why it cannot
            return
        with_graph = [root for root in roots if root.grad_fn is not None]
        graph = read_graph(with_graph) if with_graph else None
        known = {node.age: node for node in graph.nodes} if graph else {}
        before = [(one, len(one.calls), part(one, roots)) for one in self.recordings]
        began, error = self.run(roots, run_pass)
        for recording, count, remembered in before:
            if len(recording.calls) > count:
                check_order(recording, count + 1, began, error)
                if is_whole and remembered is not None and not ties(remembered):
                    self.compare(remembered, began, error)
        if graph is not None and not ties(graph):
            if is_whole:
                self.compare(graph, began, error)
            ages = {node.age: place for place, node in enumerate(graph.nodes)}
            places = [ages[number] for number, _ in began]
            assert places == sorted(places), "not the engine's order"
            assert all(known[number].name == name for number, name in began)
        if error is not None:
            raise error

    def run(self, roots, run_pass):
        """Run a pass; return age and name of the Nodes that ran, as hooks of our own heard."""
        began = []
        handles = [
            node.register_prehook(
                lambda grads, node=node: began.append((node._sequence_nr(), node.name()))
            )
            for node in nodes_of(roots)
        ]
        error = None
        try:
            run_pass()
        except RuntimeError as raised:
            error = raised
        for handle in handles:
            handle.remove()
        return began, error

    def compare(self, graph: Graph, began, error):
        message = "" if error is None else str(error)
        stopped = TWICE in message or CHANGED in message
        said = graph.stops_at
        if said == UNKNOWN:
            hidden = [node for node in graph.nodes if not shows(node)]
            assert hidden, "unknown, though all slots show"
            self.said["unknown"] += 1
            return
        nodes = {node.id: node for node in graph.nodes}
        if CHANGED in message and gave_back_other(graph, began[-1]):
            self.said["checkpoint of changed inputs"] += 1
            return
        assert stopped == (said is not None), f"said {said and nodes[said]}, but: {message}"
        if stopped:
            assert began[-1] == (nodes[said].age, nodes[said].name)
        self.said["stops" if stopped else "passes"] += 1


def part(recording, roots) -> Graph | None:
    """Return what a recording knows of the graph behind a shown tensor, with its history."""
    graph = recording.graph
    if len(roots) > 1 or ties(graph) or roots[0].grad_fn is None:
        return None
    # Not by its number: each thread counts its Nodes from 0.
    top = recording._recorder.reader.id_of(roots[0].grad_fn)
    found, todo = set(), [top]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += [edge.source for edge in graph.edges if edge.target == one]
    nodes = tuple(node for node in graph.nodes if node.id in found)
    if top is None or len(nodes) < len(nodes_of(roots)):
        return None
    edges = tuple(edge for edge in graph.edges if edge.target in found)
    return Graph(nodes, graph.leaves, edges, graph.roots)


def check_order(recording, number, began, error):
    """Hold a call's frames to the Nodes that ran, as hooks of our own heard."""
    ages = {node.id: (node.age, node.name) for node in recording.graph.nodes}
    frames = [frame for frame in recording.frames if frame.call == number and frame.node]
    ended = [ages[frame.node] for frame in frames if frame.kind == "node"]
    if error is None:
        assert ended == began
    else:
        assert ended == began[: len(ended)] and len(ended) >= len(began) - 1
        (stop,) = [frame for frame in frames if frame.kind == "stop"] or [None]
        assert (stop is not None and ages[stop.node] == began[-1]) or len(ended) == len(began)


def gave_back_other(graph: Graph, last) -> bool:
    """Say whether a Node's saved tensors were packed: a checkpoint looks at its inputs itself."""
    (node,) = [node for node in graph.nodes if (node.age, node.name) == last]
    return any(slot.state == saved.PACKED for slot in node.slots)


def shows(node) -> bool:
    """Say whether a Node's slots tell all: not those of CopySlices and custom Functions."""
    names = {slot.name.partition("[")[0] for slot in node.slots}
    return not (names == {"tensors"} or saved.UNKNOWN in {slot.state for slot in node.slots})


def ties(graph: Graph) -> bool:
    """Say whether several threads gave Nodes the same number: their order is then the engine's."""
    ages = [node.age for node in graph.nodes]
    return len(set(ages)) < len(ages)


class Follower(Passes):
    """Shows tensors as soon as they are made, and follows them."""

    def look(self, tensors):
        shown = tensors[-1]
        # Asking a stale view for its grad_fn, even for is_leaf, can raise.
        if len(self.recordings) < 3 and gradient_node(shown) and shown.grad_fn is not None:
            self.recordings.append(follow([shown]))
            str(self.recordings[-1].graph)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="secondpass could not follow")
        yield


@pytest.fixture(autouse=True, scope="module")
def nothing_is_left():
    before = list(calls._listeners)  # views that other tests have shown may still listen
    yield
    gc.collect()
    assert [one for one in calls._listeners if one not in before] == []
    assert calls._listeners or Variable._execution_engine is ENGINE


COUNTED = Counter()


VIEW_CHANGED = [
    Build(0, 0, 0, False),
    Build(1, 0, 0, False),
    Build(12, 0, 0, False),
    Build(0, 0, 0, False),
    Write(0, 3, 0),
    Build(0, 0, 0, False),
    Write(0, 2, 0),
    Pass(roots=(3,), retain=False, create=False, inputs=(), grad=False, in_thread=False),
]
"""A shown view is written to, then what a Node behind it saved: only its base leads there."""


@random_programs
@given(programs())
@example(VIEW_CHANGED)
def test_a_program_that_is_shown_does_what_it_does_alone(steps):
    bare = execute(steps, Watcher()).numbers()
    watcher = Follower()
    run = execute(steps, watcher)
    assert run.numbers() == bare
    for view in watcher.recordings:
        view.to_dict()
        check_frames(view)
    assert run.numbers() == bare
    COUNTED.update(watcher.said)


TWO_THREADS = [
    Build(1, 0, 0, True),
    Write(0, 0, 0),
    Build(0, 0, 0, False),
    Write(0, 0, 0),
    Build(0, 0, 0, False),
    Pass(roots=(0,), retain=False, create=False, inputs=(), grad=False, in_thread=False),
    Build(0, 3, 3, True),
    Pass(roots=(0,), retain=False, create=False, inputs=(), grad=False, in_thread=False),
]
"""The Nodes of two threads have the same numbers."""


@random_programs
@given(programs())
@example(TWO_THREADS)
def test_a_program_that_is_recorded_does_what_it_does_alone(steps):
    bare = execute(steps, Watcher()).numbers()
    with record() as recording:
        watcher = Passes([recording])
        run = execute(steps, watcher)
    assert run.numbers() == bare
    recording.to_dict()
    check_frames(recording)
    assert run.numbers() == bare
    COUNTED.update(watcher.said)


def check_frames(recording):
    """Hold a recording's frames to each other and to the graph."""
    graph = recording.graph
    nodes = {node.id: node for node in graph.nodes}
    calls_seen = {call.number: call for call in recording.calls}
    for frame in recording.frames:
        assert frame.node is None or frame.node in nodes
        assert frame.call is None or frame.call in calls_seen
    ended = [frame.call for frame in recording.frames if frame.kind in ("return", "stop")]
    assert sorted(ended) == sorted(calls_seen), "each call ends once"
    for number, call in calls_seen.items():
        ran = [f.node for f in recording.frames if f.kind == "node" and f.call == number]
        assert len(ran) == len(set(ran)), "a Node runs once in a call"
        kinds = {f.kind for f in recording.frames if f.call == number}
        assert ("stop" in kinds) == call.failed


def test_enough_was_said():
    """The programs are such that something is known of most passes, and many of them stop."""
    if not COUNTED:
        pytest.skip("needs the other tests of this file")
    print(dict(COUNTED))
    known = COUNTED["stops"] + COUNTED["passes"]
    assert known > 4 * COUNTED["unknown"]
    assert COUNTED["stops"] > known / 10
