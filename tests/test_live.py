"""A shown view follows its graph through later calls and cells."""

import contextlib
import gc
import io

import pytest
import torch

import secondpass as sp
from secondpass.hearing import calls
from secondpass.picture import live


def leaf(value=2.0):
    return torch.tensor([value], requires_grad=True)


def test_the_view_is_up_to_date_when_the_call_is_over():
    x = leaf()
    y = x**2
    view = sp.show(y)
    assert (view.step, view.frame) == (0, None)
    y.backward(retain_graph=True)
    assert (view.step, view.frame.kind) == (4, "return")
    assert view.graph.stops_at is None
    y.backward()
    assert view.step == 8
    assert view.graph.nodes[0].slots[0].freed_by == 2
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    assert view.frame.kind == "stop"


def test_step_and_frame_can_be_set_and_read():
    x = leaf()
    y = x**2
    view = sp.show(y)
    y.backward()
    view.step = 2
    assert view.frame.text.startswith("Call 1 runs Pow: 1 comes in, 4 goes on.")
    view.step = 99
    assert view.step == 4
    view.step = -1
    assert (view.step, view.frame) == (0, None)


def test_an_unknown_keyword_says_what_is_valid():
    with pytest.raises(TypeError, match="unknown keyword: depth"):
        sp.show(leaf() * 2, depth=3)


def test_a_long_loop_does_not_send_a_thousand_recordings():
    x = leaf()
    y = x**2
    view = sp.show(y)
    sent = []
    view.observe(lambda change: sent.append(len(change["new"]["frames"])), "_recording")
    for _ in range(900):
        y.backward(retain_graph=True)
    assert len(sent) < 150
    view._repr_mimebundle_()
    assert view.step == 3_600


@pytest.fixture
def shell():
    """A real IPython."""
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    yield shell
    InteractiveShell.clear_instance()


def test_a_cell_that_zeroes_the_gradient_is_seen(shell):
    def run(cell):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            shell.run_cell(cell, store_history=True)
        return out.getvalue()

    run("import torch, secondpass as sp")
    run("x = torch.tensor([2.0], requires_grad=True)\ny = x**2\nview = sp.show(y)")
    run("y.backward(retain_graph=True)")
    run("x.grad.zero_()")
    assert "x.grad was reset: 4 → 0" in run("print(view.frame.text)")
    assert run("print(view.frame.line, view.recording.calls[0].place.file)").startswith("None In [")
    run("del view, x, y")


def test_a_cell_that_runs_again_has_its_new_number(shell):
    shell.run_cell("import torch, secondpass as sp", store_history=True)
    build = "x = torch.tensor([2.0], requires_grad=True)\ny = x**2\nview = sp.show(y)"
    shell.run_cell(build, store_history=True)
    for _ in range(2):
        shell.run_cell("y.backward(retain_graph=True)", store_history=True)
    places = [call.place.file for call in shell.user_ns["view"].recording.calls]
    count = shell.execution_count
    assert places == [f"In [{count - 2}]", f"In [{count - 1}]"]


def test_views_that_are_gone_hear_nothing():
    gc.collect()
    before = len(calls._listeners)
    y = leaf() ** 2
    view = sp.show(y)
    assert len(calls._listeners) == before + 1
    view.close()
    del view
    gc.collect()
    assert len(calls._listeners) == before


def test_a_view_of_a_dead_graph_stops_listening():
    y = leaf() ** 2
    view = sp.show(y)
    ears = calls._listeners.values()
    (ear,) = [one for one in ears if one._recorder() is view.recording._recorder]
    del y
    (leaf() ** 2).backward()
    assert ear not in ears
    assert view in live._views
