"""Torch's own database of ops: what is said of every op's saved tensors is what torch does.

Each test goes over all of the database and collects what it finds wrong, so that the number of
calls it made can be held to as well: a list of ops that shrank would prove nothing.
"""

from __future__ import annotations

import functools
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import pytest
import torch

from secondpass.reading import saved
from secondpass.reading.reader import GraphReader, read_graph

pytest.importorskip("expecttest", reason="torch's op database needs it")

DTYPES = {torch.float32: 2, torch.complex64: 1}
"""Samples of each op: the first ones are the plainest."""

AT_LEAST = 500
"""Differentiable ops, counted once each whatever their samples."""


@dataclass(frozen=True)
class Case:
    """One differentiable call: `build` makes a fresh graph over the same numbers each time."""

    op: str
    name: str
    build: Callable[[], tuple[list[torch.Tensor], list[torch.Tensor]]]


def tensors_in(value) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def copied(value, leaves):
    """Copy a sample's arguments, its leaves as fresh leaves."""
    if isinstance(value, torch.Tensor):
        if not value.requires_grad:
            return value.clone()
        leaves.append(value.detach().clone().requires_grad_())
        return leaves[-1]
    if type(value) in (list, tuple):
        return type(value)(copied(item, leaves) for item in value)
    if type(value) is dict:
        return {key: copied(item, leaves) for key, item in value.items()}
    return value


def build(function, sample, in_place):
    leaves = []
    first, *rest = (copied(one, leaves) for one in (sample.input, *sample.args))
    options = copied(sample.kwargs, leaves)
    torch.manual_seed(0)
    if in_place:
        first = first.clone()
    results = sample.output_process_fn_grad(function(first, *rest, **options))
    return [one for one in tensors_in(results) if one.grad_fn is not None], leaves


def sparse_and_nested() -> dict[str, Callable]:
    """Layouts that the database hardly touches."""
    x = torch.arange(1.0, 17).reshape(4, 4)
    eye = torch.eye(4).to_sparse()
    nested = functools.partial(torch.nested.as_nested_tensor, layout=torch.jagged)
    return {
        "sparse.mm": lambda a: torch.sparse.mm(eye, a),
        "sparse leaf": lambda a: torch.sparse.mm(a.to_sparse(), x),
        "sparse.sum": lambda a: torch.sparse.sum(a.to_sparse()),
        "sparse softmax": lambda a: torch.sparse.softmax(a.to_sparse(), 1).to_dense(),
        "to_dense": lambda a: a.to_sparse().to_dense(),
        "to_sparse_csr": lambda a: a.to_sparse_csr().to_dense(),
        "sparse addmm": lambda a: torch.sparse.addmm(a, eye, a),
        "coalesce": lambda a: (a.to_sparse() * 2).coalesce().to_dense(),
        "nested": lambda a: nested([a[:1], a[1:]]).values(),
        "nested exp": lambda a: nested([a[:1], a[1:]]).exp().values(),
        "nested linear": lambda a: (nested([a[:1], a[1:]]) @ x).values(),
        "nested padded": lambda a: nested([a[:1] * 2, a[1:]]).to_padded_tensor(0.0),
        "nested strided": lambda a: torch.nested.as_nested_tensor(
            [a[:1].exp(), a[1:]], layout=torch.strided
        ).to_padded_tensor(0.0),
    }


def by_hand(function):
    leaf = torch.arange(1.0, 17).reshape(4, 4).div(20).requires_grad_()
    return [function(leaf)], [leaf]


@functools.cache
def cases() -> tuple[Case, ...]:
    """Return the calls that torch itself can run backward through."""
    from torch.testing._internal.common_methods_invocations import op_db

    found = [Case(n, n, functools.partial(by_hand, f)) for n, f in sparse_and_nested().items()]
    for op in op_db:
        if not op.supports_autograd:
            continue
        name = f"{op.name}{f' ({op.variant_test_name})' if op.variant_test_name else ''}"
        for dtype, count in DTYPES.items():
            if not op.supports_dtype(dtype, "cpu"):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                samples = list(islice(op.sample_inputs("cpu", dtype, requires_grad=True), count))
            for number, sample in enumerate(samples):
                for function, suffix in ((op, ""), (op.inplace_variant, "_")):
                    if function is not None:
                        make = functools.partial(build, function, sample, bool(suffix))
                        label = f"{name}{suffix} {saved.type_name(dtype)} {number}"
                        found.append(Case(name + suffix, label, make))
    return tuple(case for case in found if runs(case))


def runs(case: Case) -> bool:
    """Say whether torch can make the call and run backward through it, with nobody looking."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            roots, _ = case.build()
            run_pass(roots)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
        return False
    return bool(roots)


def run_pass(roots, **options):
    torch.autograd.backward(roots, [torch.ones_like(one) for one in roots], **options)


def nodes_of(roots) -> list:
    """Return the Nodes of a graph, found without secondpass."""
    nodes = {}
    todo = [one.grad_fn for one in roots]
    while todo:
        node = todo.pop()
        if node is not None and node not in nodes:
            nodes[node] = None
            todo += [one for one, _ in node.next_functions]
    return [node for node in nodes if node.name() != "torch::autograd::AccumulateGrad"]


class Oracle:
    """Which Nodes a pass ran, heard from hooks of the test's own."""

    def __init__(self, roots, stop_in=None):
        self.began = []
        self.stop_in = stop_in
        self.handles = [
            node.register_prehook(functools.partial(self.hear, node)) for node in nodes_of(roots)
        ]

    def hear(self, node, gradients):
        self.began.append(node)
        if node is self.stop_in:
            raise ZeroDivisionError

    def run(self, roots, **options) -> str | None:
        """Run a pass; return what stopped it, None where it passed."""
        try:
            run_pass(roots, **options)
        except ZeroDivisionError:
            return "hook"
        except RuntimeError as error:
            message = str(error)
            return "freed" if "second time" in message else message
        finally:
            for handle in self.handles:
                handle.remove()
        return None


def shows_nothing(node) -> bool:
    return any(slot.state == saved.UNKNOWN for slot in saved.read_slots(node))


def is_custom(node) -> bool:
    return isinstance(node, torch.autograd.function.BackwardCFunction)


def check_all(check) -> Counter:
    """Run a check over all cases; return how often it said what."""
    said, wrong, ops = Counter(), [], set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases():
            try:
                said[check(case)] += 1
                ops.add(case.op)
            except Exception as error:
                wrong.append(f"{case.name}: {type(error).__name__}: {str(error)[:300]}")
    assert not wrong, "\n".join([f"{len(wrong)} calls are wrong", *wrong[:40]])
    assert len(ops) >= AT_LEAST
    print(f"{len(ops)} ops, {sum(said.values())} calls: {dict(said)}")
    return said


def check_stop(graph, reading, oracle, roots) -> str:
    """Run a pass and hold the prediction to what happened; return what was predicted."""
    hidden = any(map(shows_nothing, reading.ids)) or any(map(is_custom, reading.ids))
    stopped = oracle.run(roots)
    assert stopped in (None, "freed"), stopped
    predicted = graph.stops_at
    if predicted == "unknown":
        assert hidden, "unknown, though every slot shows"
        return "unknown"
    assert (stopped is not None) == (predicted is not None), (stopped, predicted)
    if predicted is not None:
        assert reading.ids[oracle.began[-1]] == predicted
    return "passes" if predicted is None else "stops"


def test_a_first_and_a_second_pass_stop_where_it_is_said():
    def check(case):
        roots, leaves = case.build()
        run_pass(roots)
        bare = [leaf.grad for leaf in leaves]

        roots, leaves = case.build()
        reader = GraphReader()
        reading = reader.add_roots(roots, {})
        before = reader.graph()
        str(before)
        slots = {slot.state for node in before.nodes for slot in node.slots}
        assert saved.FREED not in slots
        assert before.stops_at == ("unknown" if saved.UNKNOWN in slots else None)
        assert len(before.nodes) == len(nodes_of(roots))
        run_pass(roots)
        for leaf, grad in zip(leaves, bare, strict=True):
            assert same(leaf.grad, grad), "looking changed a gradient"
        reading = reader.add_roots(roots, {})
        after = reader.graph()
        # A Function refuses whether it saved anything or not: only who saw it before can tell.
        assert read_graph(roots).stops_at in (after.stops_at, "unknown")
        for node in after.nodes:
            assert {slot.state for slot in node.slots} <= {"freed", "none", "unknown"}, node
        return check_stop(after, reading, Oracle(roots), roots)

    said = check_all(check)
    assert said["stops"] > 1_000 and said["passes"] > 400
    # Copies of views that were written to, and torch's own Functions in Python.
    assert said["unknown"] < 0.05 * said.total()


def same(one, other) -> bool:
    if one is None or other is None:
        return one is other
    if one.layout != torch.strided or one.is_nested:
        return one.layout == other.layout
    return torch.equal(one.nan_to_num(7), other.nan_to_num(7)) and one.stride() == other.stride()


def test_a_slots_bytes_are_its_storages():
    def check(case):
        roots, _ = case.build()
        count = 0
        for node in nodes_of(roots):
            slots = saved.read_slots_and_storages(node)
            assert [slot for slot, _ in slots] == list(saved.read_slots(node))
            for slot, storage in slots:
                tensor = torchs_own(node, slot.name)
                if slot.state == saved.NONE:
                    assert tensor is None
                elif slot.state != saved.UNKNOWN:
                    assert slot.state == saved.HELD
                    check_slot(slot, storage, tensor)
                    count += 1
        return f"{min(count, 3)} or more slots"

    check_all(check)


def torchs_own(node, name):
    """Return what torch unpacks from a slot."""
    name, _, index = name.rstrip("]").partition("[")
    if name == "saved tensors":
        return None
    value = node.saved_tensors if name == "tensors" else getattr(node, f"_saved_{name}")
    return value[int(index)] if index else value


def check_slot(slot, storage, tensor):
    assert slot.dtype == str(tensor.dtype).removeprefix("torch.")
    if tensor.is_nested:
        if tensor.layout == torch.jagged:
            inner = (tensor.values(), tensor.offsets())
            assert slot.nbytes == sum(one.untyped_storage().nbytes() for one in inner)
        else:
            assert slot.shape is None
        return
    assert slot.shape == tuple(tensor.shape)
    try:
        own = tensor.untyped_storage()
    except NotImplementedError:
        assert slot.nbytes is None and storage is None
    else:
        assert (slot.nbytes, storage) == (own.nbytes(), own._cdata)


def test_a_pass_to_one_leaf_frees_what_it_ran():
    def check(case):
        roots, leaves = case.build()
        reached = [leaf for leaf in leaves if is_reached(leaf, roots)]
        if not reached:
            return "no leaf"
        reader = GraphReader()
        reader.add_roots(roots, {})
        oracle = Oracle(roots)
        assert oracle.run(roots, inputs=[reached[-1]]) is None
        return check_ran(roots, reader, oracle.began)

    check_all(check)


def is_reached(leaf, roots) -> bool:
    grads = torch.autograd.grad(
        roots,
        leaf,
        [torch.ones_like(one) for one in roots],
        retain_graph=True,
        allow_unused=True,
    )
    return grads[0] is not None


def check_ran(roots, reader, ran) -> str:
    """Hold the states to which Nodes ran, then the prediction to a whole pass."""
    reading = reader.add_roots(roots, {})
    graph = reader.graph()
    by_id = {node.id: node for node in graph.nodes}
    for node, node_id in reading.ids.items():
        states = {slot.state for slot in by_id[node_id].slots} - {"none", "unknown"}
        assert states <= ({"freed"} if node in ran else {"held"}), (node, states)
    return check_stop(graph, reading, Oracle(roots), roots)


def test_a_pass_that_fails_frees_what_it_ran_before():
    def check(case):
        roots, _ = case.build()
        reader = GraphReader()
        reading = reader.add_roots(roots, {})
        middle = list(reading.ids)[len(reading.ids) // 2]
        oracle = Oracle(roots, stop_in=middle)
        assert oracle.run(roots) == "hook"
        assert oracle.began == list(reading.ids)[: len(oracle.began)], "not the engine's order"
        return check_ran(roots, reader, oracle.began[:-1])

    check_all(check)
