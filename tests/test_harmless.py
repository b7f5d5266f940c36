"""Looking at a graph changes nothing and keeps nothing alive."""

import contextlib
import copy
import gc
import io
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
import threading
import warnings
import weakref

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from models import MODELS
from secondpass.reading.reader import read_graph
from secondpass.replay.recording import follow, record


def gradients(make, around=None, passes=1):
    loss, net = make()
    if around == "follow":
        view = follow([loss])
    if around == "record":
        with record() as view:
            for _ in range(passes):
                loss.backward(retain_graph=passes > 1)
    else:
        for _ in range(passes):
            loss.backward(retain_graph=passes > 1)
    if around:
        assert view.frames[-1].kind == "return"
    return {name: p.grad for name, p in net.named_parameters()}, torch.get_rng_state()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("around", ["follow", "record"])
@pytest.mark.parametrize("passes", [1, 3])
def test_gradients_are_bitwise_the_same(name, around, passes):
    bare, rng = gradients(MODELS[name], passes=passes)
    seen, seen_rng = gradients(MODELS[name], around, passes)
    assert bare.keys() == seen.keys()
    for key in bare:
        assert torch.equal(bare[key], seen[key]), key
        assert bare[key].stride() == seen[key].stride()
        assert bare[key].untyped_storage().nbytes() == seen[key].untyped_storage().nbytes()
    assert torch.equal(rng, seen_rng)


@pytest.mark.parametrize("around", [None, "follow", "record"])
def test_the_grad_object_stays_the_persons_own(around):
    loss, net = MODELS["mlp"]()
    parameter = next(net.parameters())
    parameter.grad = own = torch.zeros_like(parameter)
    if around == "record":
        with record():
            loss.backward()
    else:
        view = follow([loss]) if around else None
        loss.backward()
        del view
    assert parameter.grad is own and own.count_nonzero()


def test_a_checkpoint_is_not_run_again():
    runs = []

    def block(x):
        runs.append(1)
        return x.exp().sin()

    def count(look):
        runs.clear()
        x = torch.ones(3, requires_grad=True)
        y = checkpoint(block, x, use_reentrant=False).sum()
        view = follow([y]) if look else None
        if look:
            str(view.graph)
        before = len(runs)
        y.backward()
        if look:
            str(view.graph)
            read_graph([y])
            view.to_dict()
        return before, len(runs)

    assert count(look=True) == count(look=False) == (1, 2)


def test_unpack_hooks_are_not_called():
    unpacked = []
    x = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: t.clone(), lambda t: unpacked.append(1) or t
    ):
        y = (x**2).sum()
    view = follow([y])
    str(view.graph)
    assert [slot.state for node in view.graph.nodes for slot in node.slots] == ["packed"]
    assert not unpacked
    y.backward(retain_graph=True)
    assert len(unpacked) == 1
    view.to_dict()
    assert len(unpacked) == 1
    y.backward()
    assert [slot.state for node in view.graph.nodes for slot in node.slots] == ["freed"]


def test_the_persons_hooks_run_once_and_in_order():
    def run(look):
        heard = []
        x = torch.tensor([2.0], requires_grad=True)
        h = x * 3
        y = h**2
        x.register_hook(lambda g: heard.append(("x", g.item())))
        h.register_hook(lambda g: heard.append(("h", g.item())) or g * 2)
        h.grad_fn.register_prehook(lambda g: heard.append(("before", g[0].item())))
        h.grad_fn.register_hook(lambda i, o: heard.append(("after", i[0].item())))
        x.register_post_accumulate_grad_hook(lambda t: heard.append(("landed", t.grad.item())))
        view = follow([y]) if look else None
        y.backward(retain_graph=True)
        y.backward()
        del view
        return heard, x.grad.item()

    assert run(look=True) == run(look=False)


@pytest.mark.parametrize("how", ["read", "follow", "record"])
def test_nothing_is_kept_alive(how):
    class Payload(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.payload = payload = type("Payload", (), {})()
            died.append(weakref.ref(payload))
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    died = []
    x = torch.tensor([2.0], requires_grad=True)
    y = Payload.apply(x) ** 2
    if how == "read":
        kept = read_graph([y])
    elif how == "follow":
        kept = follow([y])
        y.backward(retain_graph=True)
        kept.to_dict()
    else:
        with record() as kept:
            y.backward(retain_graph=True)
        kept.to_dict()
    died += [weakref.ref(x), weakref.ref(y)]
    del x, y
    gc.collect()
    assert [ref() for ref in died] == [None, None, None]
    assert str(kept)


def test_a_recording_that_nobody_holds_hears_nothing():
    from secondpass.hearing import calls

    gc.collect()
    before = list(calls._listeners)  # a view of another test may stand in a list of ipywidgets
    x = torch.tensor([2.0], requires_grad=True)
    y = x**2
    view = follow([y])
    assert len(calls._listeners) == len(before) + 1
    del view
    gc.collect()
    assert list(calls._listeners) == before


@pytest.mark.parametrize("raised", [ZeroDivisionError, KeyboardInterrupt])
def test_an_exception_in_the_middle_leaves_no_hook_behind(raised):
    from secondpass.hearing import calls

    x = torch.tensor([2.0], requires_grad=True)
    h = x * 3
    y = h**2
    armed = [True]

    def hook(grad):
        if armed[0]:
            raise raised("in the middle")

    h.register_hook(hook)
    before = list(calls._listeners)
    with record() as recording, pytest.raises(raised):
        y.backward(retain_graph=True)
    assert list(calls._listeners) == before
    assert recording.frames[-1].kind == "stop"
    assert raised.__name__ in recording.frames[-1].text
    count = len(recording.frames)
    armed[0] = False
    y.backward()
    assert x.grad.item() == 36
    assert len(recording.frames) == count + 1  # x.grad changed after the recording had ended


COMPILER = shutil.which("g++") or shutil.which("clang++")


def loss_of(name="mlp"):
    loss, net = MODELS[name]()
    return loss, net


def looked_at(run, how):
    """Run something that makes a loss and runs backward, watched in one of three ways."""
    if how == "record":
        with record() as recording:
            result = run(lambda *tensors: None)
        recording.to_dict()
        return result
    views = []

    def look(*tensors):
        if how == "follow":
            views.append(follow(tensors))
            str(views[-1].graph)
            views[-1].to_dict()

    result = run(look)
    for view in views:
        str(view.graph)
        view.to_dict()
    return result


same_in_every_way = pytest.mark.parametrize("how", ["follow", "record"])


@same_in_every_way
def test_random_numbers_are_the_same(how):
    def run(look):
        torch.manual_seed(3)
        x = torch.randn(9, requires_grad=True)
        y = torch.nn.functional.dropout(x * torch.rand(9), 0.5).sum()
        look(y)
        y.backward()
        return x.grad, torch.rand(3), torch.get_rng_state()

    for bare, seen in zip(looked_at(run, None), looked_at(run, how), strict=True):
        assert torch.equal(bare, seen)


@same_in_every_way
def test_modes_and_subclasses_hear_the_same(how):
    """FlopCounterMode and its like count what the person's code does, not what we look at."""
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Ops(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            heard.append(str(function))
            return function(*args, **(kwargs or {}))

    class Functions(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            heard.append(function.__name__)
            return function(*args, **(kwargs or {}))

    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            heard.append(f"Own.{function.__name__}")
            return super().__torch_function__(function, types, args, kwargs or {})

    def run(look):
        heard.clear()
        with Ops(), Functions():
            x = torch.ones(4, 4, requires_grad=True)
            own = torch.ones(4, 4).as_subclass(Own).requires_grad_()
            y = (x * x.exp() + own.sin()).sum()
            look(y)
            y.backward(retain_graph=True)
            x.grad = None
            y.backward()
        (own * 2).sum().backward()
        return list(heard)

    heard = []
    assert looked_at(run, how) == looked_at(run, None)


@same_in_every_way
@pytest.mark.parametrize("kind", ["meta", "fake", "wrapper", "sparse", "nested", "strided nested"])
def test_tensors_of_every_kind(how, kind):
    """No error, no warning, and the same gradients, whatever the tensors are."""
    from torch._subclasses import FakeTensorMode
    from torch.testing._internal.two_tensor import TwoTensor

    def nested(leaf, layout):
        return torch.nested.as_nested_tensor([leaf[:1].exp(), leaf[1:]], layout=layout)

    def run(look):
        x = torch.ones(3, 3)
        if kind == "meta":
            x = x.to("meta")
        if kind == "wrapper":
            x = TwoTensor(x, x + 1)
        x.requires_grad_()
        y = {
            "sparse": lambda: torch.sparse.sum(x.to_sparse() * 2),
            "nested": lambda: nested(x, torch.jagged),
            "strided nested": lambda: nested(x, torch.strided),
        }.get(kind, lambda: x.exp() * x.sin())()
        look(y)
        y.backward(torch.ones_like(y))
        x.grad = None
        y = x.exp().sum()
        y.backward()
        return x.grad

    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="(secondpass|Accessing the data pointer)")
        with FakeTensorMode() if kind == "fake" else torch.enable_grad():
            bare, seen = looked_at(run, None), looked_at(run, how)
    assert type(seen) is type(bare) and seen.shape == bare.shape
    if kind not in ("meta", "fake"):
        assert torch.equal(seen, bare)


@same_in_every_way
@pytest.mark.parametrize(
    "transform",
    [
        lambda f: torch.func.grad(f),
        lambda f: torch.func.jacrev(f),
        lambda f: torch.func.hessian(f),
        lambda f: torch.func.jacfwd(f),
        lambda f: lambda x: torch.func.vmap(torch.func.grad(f))(x.expand(2, 3)),
        lambda f: lambda x: torch.func.jvp(f, (x,), (x,)),
        lambda f: lambda x: torch.func.vjp(f, x)[1](torch.ones(())),
    ],
)
def test_functorch(how, transform):
    def run(look):
        def function(x):
            y = (x.exp() * x).sum()
            if y.grad_fn is not None:
                look(y)
            return y

        return transform(function)(torch.tensor([1.0, 2.0, 3.0]))

    torch.testing.assert_close(looked_at(run, how), looked_at(run, None), rtol=0, atol=0)


@same_in_every_way
def test_forward_mode_and_gradients_in_a_batch(how):
    import torch.autograd.forward_ad as forward_ad

    def run(look):
        x = torch.tensor([2.0, 3.0], requires_grad=True)
        with forward_ad.dual_level():
            y = (forward_ad.make_dual(x, torch.ones(2)) ** 2).sum()
            look(y)
            y.backward()
            tangent = forward_ad.unpack_dual(y).tangent.detach()
        z = x**3
        look(z)
        (rows,) = torch.autograd.grad(z, x, torch.eye(2), is_grads_batched=True)
        return x.grad, tangent, rows

    for bare, seen in zip(looked_at(run, None), looked_at(run, how), strict=True):
        assert torch.equal(bare, seen)


@same_in_every_way
def test_gradients_of_gradients(how):
    def run(look):
        x = torch.tensor([2.0, 3.0], requires_grad=True)
        y = (x.exp() * x).sum()
        look(y)
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        look(first)
        (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        second.sum().backward()
        return first.detach(), second.detach(), x.grad

    for bare, seen in zip(looked_at(run, None), looked_at(run, how), strict=True):
        assert torch.equal(bare, seen)


@same_in_every_way
def test_autocast_and_channels_last(how):
    def run(look):
        torch.manual_seed(0)
        net = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        x = torch.randn(2, 3, 5, 5).to(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16):
            y = net(x)
            look(y)
            y.sum().backward()
        (net(x) ** 2).sum().backward()
        return [p.grad for p in net.parameters()]

    for bare, seen in zip(looked_at(run, None), looked_at(run, how), strict=True):
        assert torch.equal(bare, seen)
        assert bare.dtype == seen.dtype and bare.stride() == seen.stride()


@same_in_every_way
@pytest.mark.parametrize(
    "backend",
    [
        "aot_eager",
        pytest.param("inductor", marks=pytest.mark.skipif(not COMPILER, reason="no gcc")),
    ],
)
def test_compiled_graphs_are_the_same(how, backend):
    """As many graphs and compilations with somebody looking as with nobody."""
    from torch._dynamo.testing import CompileCounterWithBackend

    def run(look):
        torch._dynamo.reset()
        torch.manual_seed(0)
        counter = CompileCounterWithBackend(backend)
        net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        compiled = torch.compile(net, backend=counter, fullgraph=True)
        x = torch.ones(2, 4)
        for _ in range(3):
            loss = compiled(x).sum()
            look(loss)
            loss.backward()
        return counter.frame_count, counter.op_count, [p.grad for p in net.parameters()]

    bare, seen = looked_at(run, None), looked_at(run, how)
    assert bare[:2] == seen[:2] and bare[0] == 1
    for one, other in zip(bare[2], seen[2], strict=True):
        assert torch.equal(one, other)


def test_a_watched_model_is_copied_and_saved_as_any_other():
    loss, net = loss_of()
    view = follow([loss])
    loss.backward(retain_graph=True)
    twin = copy.deepcopy(net)
    file = io.BytesIO()
    torch.save({"net": net, "state": net.state_dict()}, file)
    file.seek(0)
    back = torch.load(file, weights_only=False)["net"]
    thawed = pickle.loads(pickle.dumps(net))
    for other in (twin, back, thawed):
        for one, two in zip(net.parameters(), other.parameters(), strict=True):
            assert torch.equal(one, two) and not two._backward_hooks
    graph = view.graph
    assert pickle.loads(pickle.dumps(graph)) == copy.deepcopy(graph) == graph
    assert pickle.loads(pickle.dumps(view.frames)) == view.frames


def live_tensors():
    gc.collect()
    return sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())


def test_a_thousand_views_and_recordings_leave_nothing():
    from secondpass.hearing import calls

    def once(number):
        x = torch.ones(64, requires_grad=True)
        y = (x.exp() * x).sum()
        storage = weakref.ref(x), weakref.ref(y)
        if number % 2:
            view = follow([y])
            y.backward(retain_graph=True)
            view.to_dict()
        else:
            with record() as view:
                y.backward()
        return *storage, weakref.ref(view), weakref.ref(view._recorder)

    once(0), once(1)
    before, listeners = live_tensors(), list(calls._listeners)
    died = [ref for number in range(1_000) for ref in once(number)]
    assert live_tensors() <= before
    assert not any(ref() is not None for ref in died)
    assert list(calls._listeners) == listeners


def test_views_that_live_hold_no_storage():
    """A hundred views of dead graphs hold records: no tensor of 4 MB each."""
    views = []
    before = live_tensors()
    for _ in range(100):
        x = torch.ones(1_000, requires_grad=True)
        y = (x.exp() * x).sum()
        views.append(follow([y]))
        y.backward(retain_graph=True)
        views[-1].to_dict()
    del x, y
    assert live_tensors() <= before
    assert all(view.frames for view in views)


def test_threads_watch_each_their_own():
    """Eight threads at once: the same gradients, every frame in its own recording."""

    def work(number):
        x = torch.full((3,), float(number), requires_grad=True)
        for _ in range(20):
            y = (x.exp() * x).sum()
            view = follow([y])
            y.backward()
            kinds = [frame.kind for frame in view.frames]
            results.append((kinds.count("node"), len(view.calls)))
        with torch.no_grad():
            expected = 20 * (x.exp() * x + x.exp())
        torch.testing.assert_close(x.grad, expected)
        finished.append(number)

    results, finished = [], []
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(finished) == list(range(8))
    assert set(results) == {(3, 1)}


def python(code, **environment):
    """Run code in a Python of its own and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_of_a_watching_process():
    out = python("""
        import os, torch
        from secondpass.replay.recording import follow
        torch.set_num_threads(1)
        x = torch.ones(3, requires_grad=True)
        y = (x * 3).sum()
        view = follow([y])
        child = os.fork()
        if child == 0:
            # torch's own rule: a child of a process that ran backward may not; this one did not.
            y.backward()
            assert view.frames[-1].kind == "return" and x.grad.sum().item() == 9
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert view.frames == ()
        y.backward()
        print(view.frames[-1].kind, x.grad.tolist())
        """)
    assert out == "return [3.0, 3.0, 3.0]\n"


def test_a_data_loader_with_workers():
    out = python("""
        import torch
        from secondpass.replay.recording import record
        data = torch.utils.data.TensorDataset(torch.arange(8.0))
        w = torch.ones(1, requires_grad=True)
        with record() as recording:
            for (x,) in torch.utils.data.DataLoader(data, batch_size=4, num_workers=2):
                (w * x).sum().backward()
        print(len(recording.calls), w.grad.item())
        """)
    assert out == "2 28.0\n"


@pytest.mark.parametrize("how", ["bare", "follow", "record"])
def test_ddp_on_gloo(how, tmp_path):
    """Two processes; DDP's own hooks and buckets run as they do alone."""
    python(
        """
        import os, sys, torch
        import torch.distributed as dist
        import torch.multiprocessing as mp
        from contextlib import nullcontext
        from torch.nn.parallel import DistributedDataParallel
        from secondpass.replay.recording import follow, record

        def work(rank):
            store = os.environ["STORE"]
            dist.init_process_group("gloo", f"file://{store}", rank=rank, world_size=2)
            torch.manual_seed(0)
            net = DistributedDataParallel(torch.nn.Linear(4, 2))
            how = os.environ["HOW"]
            with record() if how == "record" else nullcontext() as view:
                for step in range(3):
                    loss = net(torch.full((3, 4), rank + step + 1.0)).pow(2).sum()
                    if how == "follow":
                        view = follow([loss])
                    loss.backward()
            if view is not None:
                assert [f.kind for f in view.frames].count("accumulate") % 2 == 0
                assert view.frames[-1].kind == "return"
            if rank == 0:
                torch.save([p.grad for p in net.parameters()], store + ".grads")
            dist.destroy_process_group()

        processes = [mp.get_context("fork").Process(target=work, args=(r,)) for r in range(2)]
        [process.start() for process in processes]
        [process.join() for process in processes]
        assert [process.exitcode for process in processes] == [0, 0]
        """,
        STORE=str(tmp_path / "store"),
        HOW=how,
    )
    grads = torch.load(tmp_path / "store.grads")
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 2)
    for step in range(3):
        for rank in range(2):
            (net(torch.full((3, 4), rank + step + 1.0)).pow(2).sum() / 2).backward()
    for one, other in zip(grads, net.parameters(), strict=True):
        torch.testing.assert_close(one, other.grad)


def test_an_error_of_ours_inside_a_pass_does_not_end_it(monkeypatch):
    from secondpass.replay import hooks

    def broken(gradient):
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(hooks, "Value", broken)
    x = torch.tensor([2.0], requires_grad=True)
    y = x.exp() * 3
    view = follow([y])
    with pytest.warns(RuntimeWarning, match="could not follow a backward call") as warned:
        y.backward()
    assert len(warned) == 1
    assert torch.equal(x.grad, 3 * x.detach().exp())
    assert view.frames[-1].kind == "return"


@pytest.mark.parametrize("look", [record, lambda: follow([torch.ones(1).requires_grad_() * 2])])
def test_the_dict_that_locals_gave_keeps_what_it_holds(look):
    x = torch.ones(1, requires_grad=True)
    held = locals()
    around = look()
    with around if hasattr(around, "__enter__") else contextlib.nullcontext():
        (x * 2).backward()
    assert "x" in held and held["look"] is look


def test_a_debugger_in_which_backward_runs_deletes_no_variable():
    """Up to Python 3.12 what a tracer leaves in f_locals becomes the function's variables."""
    y = torch.ones(1, requires_grad=True) * 2
    view = follow([y])

    def trace(frame, event, arg):
        if event == "line" and "second" in frame.f_locals and not view.calls:
            y.backward()
        return trace

    def work():
        first = 1
        second = 2
        return first + second

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert work() == 3
    finally:
        sys.settrace(before)
    assert len(view.calls) == 1


def test_a_recorded_block_without_a_call_keeps_no_variable():
    x = torch.ones(1, requires_grad=True)
    with record() as recording:
        y = x * 2
    died = weakref.ref(y)
    del y
    assert died() is None and recording.frames[0].kind == "forward"


def test_an_interrupt_while_hooks_are_taken_away_keeps_no_graph():
    x = torch.ones(1, requires_grad=True)
    y = x.exp().sin().cos()
    view = follow([y])
    ends = [0]

    def trace(frame, event, arg):
        if frame.f_code.co_name == "remove" and "hooks.py" in frame.f_code.co_filename:
            ends[0] += 1
            if ends[0] == 3:  # taking the first hook away
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with pytest.raises(KeyboardInterrupt):
            y.backward(retain_graph=True)
    finally:
        sys.settrace(before)
    died = weakref.ref(x)
    y.backward()
    del x, y
    gc.collect()
    assert died() is None
    assert view.calls


def test_an_error_of_ours_at_a_line_does_not_end_the_persons_code():
    class Own(torch.nn.Parameter):
        @property
        def grad(self):
            if armed:
                raise LookupError("theirs")
            return torch.Tensor.grad.__get__(self)

    armed = []
    with pytest.warns(RuntimeWarning, match="could not follow"), record() as recording:
        x = Own(torch.ones(1))
        x.exp().backward()
        armed.append(True)
        ran = [1]
        ran.append(2)
        armed.clear()
    assert ran == [1, 2] and len(recording.calls) == 1


def test_a_recording_can_be_read_while_another_thread_adds_to_it():
    """While a call runs, torch frees what it saved without Python's lock: nobody may look then."""

    def read():
        while going:
            try:
                view.frames, view.to_dict()
            except Exception as error:
                failed.append(error)

    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    for _ in range(20):
        going, failed = [True], []
        with record() as view:
            reading = threading.Thread(target=read)
            reading.start()
            for _ in range(100):
                x = torch.ones(1, requires_grad=True)
                (x * 2).exp().backward()
            going.clear()
            reading.join()
        assert not failed
        assert len(view.frames) == len(view._recorder.events)
    sys.setswitchinterval(often)


def test_a_mode_hears_nothing_of_a_block_in_which_no_call_ran():
    from torch.overrides import TorchFunctionMode

    class Functions(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            heard.append(function.__name__)
            return function(*args, **(kwargs or {}))

    x, heard = torch.ones(1, requires_grad=True), []
    with Functions(), record() as recording:
        y = x * 2
    assert heard == ["mul"] and len(recording.frames) == 1
    assert y.grad_fn is not None


@same_in_every_way
@pytest.mark.parametrize("traced", [False, True])
def test_a_compiled_step_that_runs_backward(how, traced):
    """It runs in parts; what runs in between, our own functions too, is offered to the compiler."""
    from torch._dynamo import config, utils
    from torch._dynamo.testing import CompileCounter

    def run(look):
        torch._dynamo.reset()
        utils.counters.clear()
        torch.manual_seed(0)
        net, counter = torch.nn.Linear(3, 3), CompileCounter()
        look(net(torch.ones(3)).sum())

        def step(x):
            y = net(x).relu()
            y.register_hook(lambda gradient: gradient * 2)
            loss = Twice.apply(y).sum()
            loss.backward()
            return loss * 2

        def slope(x):
            return torch.autograd.grad((x**2).sum(), x, create_graph=True)[0] * 2

        for _ in range(3):
            torch.compile(step, backend=counter)(torch.ones(2, 3))
            torch.compile(slope, backend=counter)(torch.ones(3, requires_grad=True))
        seen = {name: dict(utils.counters[name]) for name in ("stats", "frames")}
        return counter.frame_count, counter.op_count, seen, net.weight.grad.tolist()

    with warnings.catch_warnings(), config.patch(trace_autograd_ops=traced):
        warnings.filterwarnings("error", message="(secondpass|Dynamo does not know)")
        assert looked_at(run, how) == looked_at(run, None)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 + ctx.saved_tensors[0] * 0


@same_in_every_way
def test_compiled_autograd_compiles_no_hook_of_ours(how):
    from torch._dynamo import compiled_autograd

    def run(look):
        torch._dynamo.reset()
        torch.manual_seed(0)
        net, sizes = torch.nn.Linear(3, 1), []

        def count(graph, examples):
            sizes.append(len(graph.graph.nodes))
            return graph

        for _ in range(2):
            loss = net(torch.ones(2, 3)).tanh().sum()
            look(loss)
            with compiled_autograd._enable(lambda graph: torch.compile(graph, backend=count)):
                loss.backward()
        return sizes, [one.grad.tolist() for one in net.parameters()]

    assert looked_at(run, how) == looked_at(run, None)


def test_what_compiled_autograd_freed_is_looked_for_at_its_end():
    from torch._dynamo import compiled_autograd

    x = torch.ones(1, requires_grad=True)
    y = x.exp()
    view = follow([y])
    with compiled_autograd._enable(lambda graph: graph):
        y.backward()
    states = {slot.state for node in view.graph.nodes for slot in node.slots}
    ended = view.frames[-1]
    assert ended.kind == "return" and [frame.leaf for frame in view.frames[:-1]] == [None, "x"]
    if states == {"freed"}:
        assert ended.text == "Call 1 ends. It freed 1 saved tensor (4 B)."
        assert ended.slots == {"n0.result": ("freed", 1)}
    else:
        assert ended.text == "Call 1 ends. What it freed is not known."


@same_in_every_way
def test_a_subclass_may_have_written_anew_what_is_read(how):
    def run(look):
        x = Rewritten(torch.ones(2)).requires_grad_()
        y = (x * 2).exp().as_subclass(torch.Tensor).sum()  # torch asks a loss for its numel()
        look(y)
        y.backward(retain_graph=True)
        y.backward()
        return torch.Tensor.tolist(x.grad)

    class Rewritten(torch.Tensor):
        def theirs(self, *args, **options):
            raise LookupError("theirs")

        tolist = numel = detach = untyped_storage = nbytes = theirs

    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="secondpass")
        assert looked_at(run, how) == looked_at(run, None)


def test_a_generator_that_waits_to_go_on_keeps_no_recording():
    def waiting():
        yield torch.ones(1, requires_grad=True)
        yield None

    with record() as recording:
        generator = waiting()
        (next(generator) * 2).backward()
    died = weakref.ref(recording._recorder)
    del recording
    gc.collect()
    assert died() is None and next(generator) is None
