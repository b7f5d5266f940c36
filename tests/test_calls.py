"""Every backward call is heard, once, and nothing of torch's is left changed."""

import subprocess
import sys
import threading
import traceback

import pytest
import torch

from secondpass.hearing import calls


class Notebook:
    """Writes down what it hears."""

    def __init__(self):
        self.heard = []

    def begin(self, call):
        self.heard.append(call)

    def end(self, call):
        call.was_ended = True


@pytest.fixture
def heard():
    listener = Notebook()
    stop = calls.listen(listener)
    yield listener.heard
    stop()


def leaf():
    return torch.tensor([2.0], requires_grad=True)


def test_backward_and_grad_are_told_apart(heard):
    x = leaf()
    (x**2).backward(retain_graph=True)
    torch.autograd.grad(x**2, x, create_graph=True)
    torch.autograd.backward([x**2, x**3], inputs=[x])
    assert [call.kind for call in heard] == ["backward", "grad", "backward"]
    assert [call.retain_graph for call in heard] == [True, True, False]
    assert [call.create_graph for call in heard] == [False, True, False]
    assert [call.has_inputs for call in heard] == [False, True, True]
    assert heard[0].place.code == "(x**2).backward(retain_graph=True)"
    assert heard[0].place.function == "test_backward_and_grad_are_told_apart"


def test_library_functions_that_run_backward_are_heard(heard):
    x = leaf()
    torch.autograd.functional.jacobian(lambda t: t**2, x)
    torch.autograd.functional.hessian(lambda t: (t**2).sum(), x)
    optimizer = torch.optim.LBFGS([x], max_iter=2)

    def closure():
        optimizer.zero_grad()
        loss = (x**2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    torch.func.grad(lambda t: (t**2).sum())(torch.tensor([2.0]))
    assert len(heard) >= 5


def test_a_call_within_a_call_knows_its_parent(heard):
    x, w = leaf(), leaf()
    y, z = x**2, w**2
    y.register_hook(lambda grad: z.backward())
    y.backward()
    outer, inner = heard
    assert inner.parent is outer and outer.parent is None
    assert calls.current_call() is None


def test_a_call_in_another_thread_is_heard(heard):
    thread = threading.Thread(target=lambda: (leaf() ** 2).backward())
    thread.start()
    thread.join()
    assert len(heard) == 1
    assert heard[0].thread != threading.get_ident()


def test_nothing_of_torchs_is_kept(heard):
    x = leaf()
    (x**2).backward()
    (call,) = heard
    assert call.roots == call.gradients == call.inputs == call.results == ()


def test_a_failed_call_is_told_and_its_traceback_is_torchs_own():
    def fails():
        y = leaf() ** 2
        y.backward()
        try:
            y.backward()
        except RuntimeError as error:
            return [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]

    bare = fails()
    listener = Notebook()
    stop = calls.listen(listener)
    listened = fails()
    stop()
    assert listened == bare
    assert [call.failed for call in listener.heard] == [False, True]


@pytest.mark.parametrize("flags", [[], ["-Werror"], ["-Wignore:::torch.autograd.graph"]])
def test_a_warning_of_the_engine_reads_as_without_us(flags):
    """The engine warns once in a process, so each run has its own."""

    def run(listen):
        code = f"""
import torch
from secondpass.hearing import calls
class Quiet:
    def begin(self, call): pass
    def end(self, call): pass
if {listen}:
    calls.listen(Quiet())
x = torch.ones(1, requires_grad=True)
(x**2).backward(create_graph=True)
"""
        done = subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True)
        return done.returncode, done.stderr

    bare = run(listen=False)
    assert ("create_graph=True will create a reference cycle" in bare[1]) == (
        len(flags) < 1 or "error" in flags[0]
    )
    assert run(listen=True) == bare


def test_the_engine_is_torchs_own_when_nobody_listens():
    """In a Python of its own: a view that another test has shown may still listen."""
    code = """
from torch.autograd.variable import Variable
from secondpass.hearing import calls
engine = Variable._execution_engine
first, second = calls.listen(object()), calls.listen(object())
assert Variable._execution_engine is not engine
first()
first()
assert Variable._execution_engine is not engine
second()
assert Variable._execution_engine is engine
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_listener_that_raises_does_not_disturb_the_call():
    class Broken:
        def begin(self, call):
            raise ZeroDivisionError("ours")

        def end(self, call):
            raise ZeroDivisionError("ours")

    stop = calls.listen(Broken())
    x = leaf()
    with pytest.warns(RuntimeWarning, match="could not follow a backward call"):
        (x**2).backward()
    stop()
    assert x.grad.item() == 4


@pytest.mark.filterwarnings("error")
def test_nor_where_warnings_are_errors():
    class Broken(Notebook):
        def begin(self, call):
            raise ZeroDivisionError("ours")

    stop = calls.listen(Broken())
    x = leaf()
    (x**2).backward()
    stop()
    assert x.grad.item() == 4


def test_a_view_may_die_while_another_begins_to_listen():
    """Python collects garbage wherever it likes, in the midst of `listen` too."""
    code = """
import gc, torch
from secondpass.hearing import calls
from secondpass.replay.recording import follow

def leave_a_view_behind():
    view = follow([torch.ones(1, requires_grad=True).exp()])
    view.itself = view

for allocations in range(1, 400):
    gc.disable()
    leave_a_view_behind()
    gc.set_threshold(allocations)
    gc.enable()
    calls.listen(object())()
gc.set_threshold(700)
gc.collect()
print(len(calls._listeners), type(torch.autograd.variable.Variable._execution_engine).__name__)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["0", "_EngineBase"], done.stderr


def test_an_interrupt_at_the_end_of_a_call_is_no_reason_to_tell_others_nothing():
    class Interrupted(Notebook):
        def end(self, call):
            raise KeyboardInterrupt

    first, last = Notebook(), Interrupted()
    stops = [calls.listen(first), calls.listen(last)]
    with pytest.raises(KeyboardInterrupt):
        (leaf() ** 2).backward()
    for stop in stops:
        stop()
    assert first.heard[0].was_ended and calls.current_call() is None


def test_an_error_that_cannot_be_written_as_text_does_not_disturb_the_call():
    class Unspeakable(Exception):
        def __str__(self):
            raise ZeroDivisionError("theirs")

    class Broken(Notebook):
        def begin(self, call):
            raise Unspeakable

    stop = calls.listen(Broken())
    x = leaf()
    (x**2).backward()
    stop()
    assert x.grad.item() == 4
