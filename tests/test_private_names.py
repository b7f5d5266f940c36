"""Each private name of torch's that is leaned on may go away: then it is said what is missing."""

import subprocess
import sys
import textwrap

import pytest

START = """
import warnings
import torch
from secondpass.hearing import calls, line_log, lines
from secondpass.reading import reader, saved, unheard, walk
from secondpass.reading.reader import read_graph
from secondpass.replay.recording import follow, record

def make():
    x = torch.tensor([2.0], requires_grad=True)
    return x, (x.exp() * x).sum()
"""

OFF = {
    "saved tensors": """
saved._RAW = "_gone_"
saved.SHOWN = saved._is_shown()
assert not saved.SHOWN
""",
    "engine": 'calls._ENGINE = "_gone"',
    "engine and its door": 'calls._ENGINE = calls._DOOR = "_gone"',
    "sequence number": 'walk._NUMBER = "_gone"',
    "metadata of outputs": 'reader._OUTPUTS = "_gone"',
    "modes": """
unheard._dispatch_modes = unheard._function_modes = unheard._perhaps_one
del torch._C._DisableTorchDispatch
""",
}


def run(code, before=""):
    code = before + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout, done.stderr


@pytest.mark.parametrize("name", OFF)
def test_nothing_raises_and_gradients_are_torchs(name):
    run(
        START
        + OFF[name]
        + """
warnings.simplefilter("ignore")
bare, y = make()
y.backward(retain_graph=True)
y.backward()
x, y = make()
view = follow([y])
str(view.graph), view.to_dict()
y.backward(retain_graph=True)
with record() as recording:
    y.backward()
try:
    y.backward()
except RuntimeError as error:
    assert "second time" in str(error)
str(view.graph), view.to_dict(), view.frames
str(recording.graph), recording.to_dict()
assert torch.equal(x.grad, bare.grad)
"""
    )


def test_without_saved_tensors_nothing_is_said_of_them():
    out, _ = run(
        START
        + OFF["saved tensors"]
        + """
x, y = make()
view = follow([y])
y.backward()
print({slot.state for node in view.graph.nodes for slot in node.slots}, view.graph.stops_at)
print(view.graph.left_out)
print([frame.kind for frame in view.frames])
"""
    )
    states, left_out, kinds = out.splitlines()
    assert states == "{'unknown'} unknown"
    assert left_out == (
        "This version of torch does not show saved tensors: which are freed is not known."
    )
    assert kinds == "['call', 'node', 'node', 'node', 'accumulate', 'return']"


def test_without_the_engine_calls_are_heard_at_the_door():
    out, err = run(
        START
        + OFF["engine"]
        + """
own = torch.autograd._engine_run_backward
x, y = make()
view = follow([y])
y.backward(retain_graph=True)
torch.autograd.grad(y, x)
print([call.kind for call in view.calls])
del view
assert torch.autograd._engine_run_backward is own
"""
    )
    assert out == "['backward', 'grad']\n" and not err


def test_without_any_door_it_says_that_it_is_deaf():
    out, err = run(
        START
        + OFF["engine and its door"]
        + """
x, y = make()
view = follow([y])
y.backward()
print(view.calls, [slot.state for node in view.graph.nodes for slot in node.slots])
"""
    )
    assert out == "() ['freed', 'freed', 'freed']\n"
    assert "secondpass cannot hear backward calls in this version of torch" in err


def test_without_numbers_there_are_names_and_no_lines():
    out, _ = run(
        START
        + OFF["sequence number"]
        + """
with record() as recording:
    x, y = make()
    y.backward()
graph = recording.graph
print([node.title for node in graph.nodes], {node.line for node in graph.nodes}, graph.stops_at)
"""
    )
    assert out == "['Sum', 'Mul', 'Exp'] {None} unknown\n"


def test_without_metadata_there_are_no_shapes():
    out, _ = run(
        START
        + OFF["metadata of outputs"]
        + """
x, y = make()
graph = read_graph([y])
print([node.gives for node in graph.nodes], graph.stops_at)
"""
    )
    assert out == "['', '', ''] None\n"


def test_without_torchs_counter_there_are_no_lines():
    out, _ = run(
        """
x = torch.ones(1, requires_grad=True)
with record() as recording:
    y = x.exp()
    y.backward()
print([node.title for node in recording.graph.nodes], recording.graph.stops_at)
""",
        before="""
import torch
del torch._C._autograd._get_sequence_nr
from secondpass.replay.recording import record
""",
    )
    assert out == "['Exp'] n0\n"
