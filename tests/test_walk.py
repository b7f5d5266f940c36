"""Looking at a graph is bounded, so that no graph crashes the interpreter when it dies."""

import subprocess
import sys
import textwrap

import pytest
import torch
from secondpass.reader import read_graph
from secondpass.walk import DEPTH_LIMIT, LOOKED_AT_LIMIT, NODE_LIMIT, walk


def run(code: str) -> str:
    """Run code in a Python of its own, which must end well also after its last line."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


def test_nodes_come_in_the_order_in_which_the_engine_runs_them():
    x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    a, b = (x * 2).exp(), (w * 3).sin()
    y = ((a * b).tanh() + a).sum()
    order = []
    nodes = walk([y.grad_fn]).nodes
    handles = [
        node.register_prehook(lambda grads, node=node: order.append(node.name())) for node in nodes
    ]
    y.backward()
    for handle in handles:
        handle.remove()
    assert order == [node.name() for node in nodes]


def test_a_shared_node_comes_once():
    x = torch.ones(2, requires_grad=True)
    h = x.exp()
    assert len(walk([(h * h + h).sum().grad_fn]).nodes) == 4


@pytest.mark.parametrize("length", [10_000, 100_000])
def test_a_long_chain_is_shown_in_part_and_dies_quietly(length):
    out = run(f"""
        import time, torch, secondpass.reader
        x = torch.ones(1, requires_grad=True)
        y = x
        for _ in range({length}):
            y = y + 1
        start = time.perf_counter()
        graph = secondpass.reader.read_graph([y])
        assert time.perf_counter() - start < 5
        print(len(graph.nodes), graph.left_out, graph.stops_at)
        assert len(str(graph).splitlines()) < 300
        y.backward()
        del y, graph
        print("alive")
        """)
    assert out.startswith(f"{DEPTH_LIMIT} Only 1,500 Nodes in a row were read")
    assert "unknown" in out and out.endswith("alive\n")


def test_a_graph_that_grows_under_many_looks_dies_quietly():
    """Each look is short, together they would reach all of a chain of 60,000 Nodes."""
    out = run("""
        import torch, secondpass.walk as walk
        x = torch.ones(1, requires_grad=True)
        y, looks = x, 0
        for _ in range(1_000):
            for _ in range(60):
                y = y + 1
            if not walk.any_too_deep():
                walk.walk([y.grad_fn])
                looks += 1
        assert walk.any_too_deep()
        print(looks)
        del y
        assert not walk.any_too_deep()
        """)
    assert 0 < int(out) * 60 <= LOOKED_AT_LIMIT + DEPTH_LIMIT + 60


def test_a_short_way_to_every_node_of_a_long_chain_does_not_deceive():
    """Every Node is two steps from the root, yet they lie in one chain."""
    out = run("""
        import torch, secondpass.walk as walk
        h, parts = torch.ones(1, requires_grad=True), []
        for _ in range(20_000):
            h = h * 1.0
            parts.append(h)
        y = torch.cat(parts)
        del parts
        print(len(walk.walk([y.grad_fn]).nodes))
        del y, h
        """)
    assert int(out) <= 20_001


def test_a_hundred_thousand_leaves_are_read_in_part():
    y = torch.cat([torch.ones(1, requires_grad=True) for _ in range(100_000)])
    graph = read_graph([y])
    assert len(graph.nodes) == 1 and len(graph.leaves) == NODE_LIMIT
    assert graph.left_out == "Only the first 20,000 leaves were read; the graph has more."
