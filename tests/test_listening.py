"""Listening changes nothing, keeps nothing alive, and survives what torch may take away."""

import contextlib
import gc
import subprocess
import sys
import textwrap
import types
import weakref

import pytest
import torch
from torch import nn
from torch.autograd.variable import Variable

from secondpass import record
from secondpass.explaining import detaching, holders, listening, report
from secondpass.hearing import calls, lines, loading
from secondpass.reading import walk

FILE = "/home/me/script.py"


def run(source, **names):
    """Run a program as the person's own."""
    loading.install_marks()
    module = types.ModuleType("script")
    module.__dict__.update(torch=torch, nn=nn, **names)
    exec(loading.compile_marked(textwrap.dedent(source), FILE), module.__dict__)
    return module


@pytest.fixture
def listened():
    listening.start()
    yield
    listening.stop()


def python(code):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


TRAINING = """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.Adam(net.parameters())
for _ in range(30):
    loss = net(torch.randn(4, 3)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
end = torch.rand(3)
"""


def test_results_gradients_and_random_numbers_are_bitwise_the_same():
    plain = run(TRAINING)
    listening.start()
    try:
        heard = run(TRAINING)
    finally:
        listening.stop()
    assert torch.equal(plain.end, heard.end)
    for one, other in zip(plain.net.parameters(), heard.net.parameters(), strict=True):
        assert torch.equal(one, other) and torch.equal(one.grad, other.grad)


def test_stopping_puts_torchs_own_engine_and_optimizers_back():
    from torch.optim import optimizer

    engine, hooks = Variable._execution_engine, dict(optimizer._global_optimizer_post_hooks)
    heard = len(calls._listeners)  # a view that another test has shown may still listen
    listening.start()
    listening.start()
    listening.stop()
    within = len(calls._listeners)
    listening.stop()
    assert (within, len(calls._listeners)) == (heard + 1, heard)
    assert Variable._execution_engine is engine
    assert dict(optimizer._global_optimizer_post_hooks) == hooks


def test_no_tensor_and_no_graph_is_kept_alive(listened):
    module = run(
        """
        class Watched(torch.Tensor): pass
        x = torch.ones(3, requires_grad=True)
        y = (x * 2).exp()
        y.sum().backward()
        try: y.sum().backward()
        except RuntimeError: pass
        """
    )
    dead = [weakref.ref(module.x), weakref.ref(module.y)]
    assert listening.explain().error == report.BACKWARD_TWICE
    module.__dict__.clear()
    gc.collect()
    assert [one() for one in dead] == [None, None]


def test_a_function_may_delete_a_tensor_though_its_names_were_collected(listened):
    module = run(
        """
        import gc, weakref
        def work():
            big = torch.ones(1000, requires_grad=True) * 2
            seen = weakref.ref(big)
            (big * 3).sum().backward()
            del big
            gc.collect()
            return seen()
        kept = work()
        def looks():
            mine = locals()
            z = (torch.ones(1, requires_grad=True) * 2).sum()
            z.backward()
            return "mine" in dir()
        ok = looks()
        """
    )
    assert module.kept is None
    assert module.ok


def test_a_thousand_calls_leave_nothing_behind(listened):
    source = """
        for _ in range(1000):
            y = (torch.ones(3, requires_grad=True) * 2).exp().sum()
            y.backward()
        """
    run(source)
    gc.collect()
    before = len(gc.get_objects())
    run(source)
    gc.collect()
    assert len(gc.get_objects()) - before < 3_000  # a record of each call


def test_user_hooks_run_once_and_in_order(listened):
    module = run(
        """
        heard = []
        x = torch.ones(2, requires_grad=True)
        x.register_hook(lambda g: heard.append("tensor"))
        x.register_post_accumulate_grad_hook(lambda p: heard.append("accumulated"))
        y = x.exp()
        y.grad_fn.register_prehook(lambda g: heard.append("before"))
        y.grad_fn.register_hook(lambda a, b: heard.append("after"))
        y.sum().backward()
        """
    )
    assert module.heard == ["before", "after", "tensor", "accumulated"]


def test_deep_graphs_do_not_crash_now_or_later():
    out = python(
        """
        import torch
        from secondpass.explaining import listening
        from secondpass.hearing import loading
        listening.start()
        loading.install_marks()
        code = '''
        x = torch.ones(1, requires_grad=True)
        y = x
        for _ in range(30_000):
            y = y + 1
        y.backward()
        y.backward()
        total = x + 1
        for _ in range(200):
            for _ in range(60):
                total = total + x
            total.backward()
        del y, total
        '''
        exec(loading.compile_marked(code, "/home/me/a.py"), {"torch": torch})
        print("alive")
        """
    )
    assert out.endswith("alive\n")


def test_a_mode_of_the_persons_hears_no_more(listened):
    module = run(
        """
        from torch.utils._python_dispatch import TorchDispatchMode
        class Count(TorchDispatchMode):
            n = 0
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                Count.n += 1
                return func(*args, **(kwargs or {}))
        x = torch.ones(2, requires_grad=True)
        opt = torch.optim.SGD([x], lr=0.1)
        with Count():
            for _ in range(3):
                y = (x * 2).sum(); y.backward(); opt.step(); opt.zero_grad()
        """
    )
    heard = module.Count.n
    listening.stop()
    try:
        assert (
            run(
                """
            from torch.utils._python_dispatch import TorchDispatchMode
            class Count(TorchDispatchMode):
                n = 0
                def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                    Count.n += 1
                    return func(*args, **(kwargs or {}))
            x = torch.ones(2, requires_grad=True)
            opt = torch.optim.SGD([x], lr=0.1)
            with Count():
                for _ in range(3):
                    y = (x * 2).sum(); y.backward(); opt.step(); opt.zero_grad()
            """
            ).Count.n
            == heard
        )
    finally:
        listening.start()


@pytest.mark.parametrize("name", ["numbers", "slots"])
def test_without_a_private_name_it_says_less_and_does_not_raise(name):
    """The sequence numbers, then the saved slots: each switched off in turn."""
    switch = {
        "numbers": "del torch._C._autograd._get_sequence_nr",
        "slots": "import secondpass.reading.saved as saved; saved._raw_names = lambda kind: ()",
    }[name]
    out = python(
        f"""
        import torch
        {switch}
        from secondpass.explaining import listening
        from secondpass.hearing import loading
        listening.start()
        loading.install_marks()
        code = "x = torch.ones(1, requires_grad=True)\\ny = x**2\\ny.backward()\\ny.backward()\\n"
        try:
            exec(loading.compile_marked(code, "/home/me/a.py"), {{"torch": torch}})
        except RuntimeError as error:
            print(listening.explain_error(error))
        """
    )
    assert out.startswith("secondpass: call 2 stopped")
    assert len(out.splitlines()) <= 12


def test_a_call_in_the_middle_of_an_interrupted_pass_leaves_nothing(listened):
    module = run(
        """
        x = torch.ones(2, requires_grad=True)
        def stop(grad): raise KeyboardInterrupt
        y = x.exp()
        y.register_hook(stop)
        try: y.sum().backward()
        except KeyboardInterrupt: done = True
        """
    )
    assert module.done
    assert calls.current_call() is None


def test_names_reach_into_objects_containers_and_closures():
    class Box:
        pass

    box = Box()
    box.items = {"a": [torch.ones(1, requires_grad=True) * 2]}
    found = dict(holders.tensors_of(sys._getframe()))
    assert "box.items['a'][0]" in found
    assert found["box.items['a'][0]"] is box.items["a"][0]


def test_nothing_of_the_persons_runs_while_names_are_collected():
    class Loud:
        @property
        def tensor(self):
            raise AssertionError("a property was read")

        def __getattr__(self, name):
            raise AssertionError(f"{name} was asked for")

        def __iter__(self):
            raise AssertionError("it was iterated over")

        def __len__(self):
            raise AssertionError("its length was asked for")

    loud = Loud()
    y = torch.ones(1, requires_grad=True) * 2
    assert holders.collect(sys._getframe(), 1.0)
    assert any(held.name == "y" for held in holders.names_on(y.grad_fn))
    del loud


def test_odd_objects_among_the_variables_are_looked_at_as_python_has_them():
    class Gone:
        pass

    class Liar:
        @property
        def __class__(self):
            raise AssertionError("its class was asked for")

    class Lists(list):
        def __getitem__(self, key):
            raise AssertionError("an item was asked for")

        __len__ = __iter__ = __getitem__

    class Slots:
        __slots__ = ("empty", "full")

        def __getattr__(self, name):
            raise AssertionError(f"{name} was asked for")

    Liar.__module__ = None
    loud = types.ModuleType("loud")
    loud.__getattr__ = lambda name: 1 / 0
    del loud.__doc__
    slots, lists = Slots(), Lists([torch.ones(1, requires_grad=True) * 2])
    slots.full = torch.ones(1, requires_grad=True) * 3
    odd = [weakref.proxy(Gone()), Liar(), loud, slots, {1.5: 2}]
    found = dict(holders.tensors_of(sys._getframe()))
    assert found["slots.full"] is slots.full
    assert found["lists[0]"] is list.__getitem__(lists, 0)
    assert detaching.statement("lists", lists) == "lists[:] = [one.detach() for one in lists]"
    assert dict(holders.objects_of(sys._getframe(), Slots)) == {"slots": slots}
    exec("import sys; print(list(tensors_of(sys._getframe())))", {1: 2, **vars(holders)})
    del odd


TWICE = """
x = torch.ones(2, requires_grad=True)
def twice(make):
    z = make(x).sum()
    z.backward()
    z.backward()
"""


def test_each_exception_is_explained_by_its_own_call(listened):
    module = run(
        TWICE
        + """
kept = []
for make in (torch.exp, torch.tanh, torch.sigmoid):
    try: twice(make)
    except RuntimeError as error:
        if make is not torch.sigmoid: kept.append(error)
"""
    )
    # The one that nobody has kept is gone: its identity may be another's now.
    nodes = [listening.explain_error(error).node.name for error in module.kept]
    assert nodes == ["ExpBackward0", "TanhBackward0"]
    assert listening.explain().node.name == "TanhBackward0"


def test_an_exception_that_takes_the_identity_of_one_that_is_gone_is_another(listened):
    run(
        TWICE
        + """
for make in (torch.exp, torch.tanh, torch.sigmoid):
    try: twice(make)
    except RuntimeError: pass
"""
    )
    assert listening.explain().node.name == "SigmoidBackward0"


def test_of_a_call_that_was_not_heard_nothing_is_made_up(listened, monkeypatch):
    monkeypatch.setattr(listening, "FAILURES", 0)
    module = run(TWICE)
    for raised in (lambda: module.twice(torch.exp), lambda: handed_on("a second time")):
        with pytest.raises(RuntimeError) as caught:
            raised()
        words = str(listening.explain_error(caught.value))
        assert words.startswith("secondpass: a call stopped\n")
        assert "was not heard" in words and "was read" not in words


def handed_on(words):
    """Raise what a worker process has raised, as a pool does."""
    raise RuntimeError(f"Trying to backward through the graph {words}")


def test_an_error_in_a_group_is_explained(listened):
    module = run(TWICE)
    with pytest.raises(RuntimeError) as caught:
        module.twice(torch.exp)
    group = ExceptionGroup("several", [ValueError("first"), caught.value])
    assert listening.explain_error(group).node.name == "ExpBackward0"


def test_a_saved_tensor_that_is_read_is_told_from_a_call(listened):
    module = run(
        TWICE
        + """
try: twice(torch.exp)
except RuntimeError: pass
y = x.exp()
y.sum().backward()
def look(): return y.grad_fn._saved_result
"""
    )
    with pytest.raises(RuntimeError) as caught:
        module.look()
    assert "a saved tensor was read" in str(listening.explain_error(caught.value))


def test_the_picture_is_that_of_the_error_that_is_explained(listened):
    listening.keep_pictures()
    module = run(TWICE)
    caught = []
    for make in (torch.exp, torch.tanh):
        with pytest.raises(RuntimeError) as one:
            module.twice(make)
        caught.append(one.value)
    listening.explain_error(caught[0])
    (stop,) = [one for one in listening.picture().frames if one.kind == "stop"]
    assert "stops in Exp" in stop.text
    with pytest.raises(RuntimeError) as leaf:
        module.x.add_(1)
    assert listening.explain_error(leaf.value).error == report.LEAF_MODIFIED
    assert listening.picture() is None
    listening.explain_error(caught[1])
    with pytest.raises(RuntimeError):
        torch.ones(2).sum().backward()
    assert listening.explain().error == report.NO_GRAPH
    assert listening.picture() is None


def test_a_step_over_gradients_of_inference_mode_is_as_without_us(listened):
    module = run(
        """
        p = nn.Parameter(torch.ones(3))
        opt = torch.optim.SGD([p], lr=0.5)
        for _ in range(3):
            with torch.inference_mode():
                p.grad = torch.ones(3)
                doubled = p.grad * 2
            opt.step()
        """
    )
    assert module.p.tolist() == [-0.5] * 3


@pytest.mark.parametrize(
    ("begin", "store", "holder"),
    [
        ("kept = []", "kept.append(loss)", "`kept` keeps"),
        ("kept = []", "kept.append((step, loss))", "`kept` keeps"),
        ("kept = []", "kept.append({'loss': loss})", "`kept` keeps"),
        ("kept = []", "kept.append(types.SimpleNamespace(loss=loss))", "`kept` keeps"),
        ("kept = {'loss': [], 'n': []}", "kept['loss'].append(loss)", "`kept['loss']` keeps"),
        ("kept = [[], []]", "kept[step % 2].append(loss)", "`kept` keeps"),
        ("kept = 0.0", "kept = kept + loss", "something keeps"),
    ],
)
def test_who_keeps_the_graphs_is_named_whole(listened, begin, store, holder):
    run(
        f"""
        net = nn.Linear(3, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        {begin}
        for step in range(8):
            loss = net(torch.ones(2, 3)).pow(2).sum()
            opt.zero_grad()
            loss.backward()
            opt.step()
            {store}
        """,
        types=types,
    )
    (notice,) = listening.explain().notices
    assert notice.why.startswith(holder)


def test_an_exception_that_cannot_say_its_words_has_none(listened):
    class Mute(RuntimeError):
        def __str__(self):
            raise ValueError("no words")

    assert listening.last_words(Mute()).message == ""


def test_line_of_and_walk_agree_after_listening_stopped(listened):
    module = run("x = torch.ones(1, requires_grad=True)\ny = x.exp()\n")
    listening.stop()
    try:
        assert lines.line_of(walk.walk([module.y.grad_fn]).nodes[0]).line == 2
    finally:
        listening.start()


def test_a_recording_explains_its_failed_call():
    with record() as recording, contextlib.suppress(RuntimeError):
        x = torch.ones(2, requires_grad=True)
        y = (x**2).sum()
        y.backward()
        y.backward()
    found = recording.explain()
    assert (found.error, found.family) == (report.BACKWARD_TWICE, "same-root")
    assert found.node.created.code == "y = (x**2).sum()"
    assert [one.line for one in recording.frames if one.kind == "stop"] == [found.failed_at.place]
    with record() as recording:
        pass
    assert str(recording.explain()) == "secondpass: no call has failed."


def test_two_who_listen_do_not_disturb_each_other(listened):
    with record() as recording, contextlib.suppress(RuntimeError):
        x = torch.ones(2, requires_grad=True)
        for _ in range(3):
            (x * 2).exp().sum().backward()
        y = x.exp()
        y.sum().backward()
        y.sum().backward()
    found = [recording.explain(), listening.explain()]
    assert [one.freed_by.number for one in found] == [4, 4]
    assert [one.family for one in found] == ["shared", "shared"]


def test_a_graph_freed_while_another_session_listened_is_not_put_on_a_wrong_call():
    x = torch.ones(2, requires_grad=True)
    listening.start()
    module = run("y = x.exp()\ny.sum().backward()\n", x=x)
    listening.stop()
    listening.start()
    try:
        run("(x * 2).exp().sum().backward()", x=x)
        with pytest.raises(RuntimeError) as caught:
            run("y.sum().backward()", y=module.y)
        found = listening.explain_error(caught.value)
        assert found.freed_by is None
        assert "before listening began" in str(found)
    finally:
        listening.stop()


def test_a_recording_within_listening_hides_nothing_from_it():
    listening.start()
    try:
        w = torch.tensor([0.5], requires_grad=True)
        h = torch.tensor([1.0])
        with record() as recording:
            for _ in range(3):
                h = w * h
                h.sum().backward(retain_graph=True)
        assert [one.kind for one in listening.explain().notices] == ["graph-grows"]
        assert [one.kind for one in recording.explain().notices] == ["graph-grows"]
    finally:
        listening.stop()


def explained(tmp_path, source):
    """Run a script that fails; return its explanation."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(source).lstrip())
    listening.start()
    try:
        with pytest.raises(RuntimeError):
            exec(loading.compile_marked(script.read_bytes(), str(script)), {"__name__": "script"})
    finally:
        listening.stop()
    return listening.explain()


@pytest.fixture
def looks_at_nothing(monkeypatch):
    monkeypatch.setattr(listening, "WHOLE", 0)
    monkeypatch.setattr(listening, "SHARE", 0.0)


def test_two_calls_over_one_result_are_known_even_if_neither_was_looked_at(
    tmp_path, looks_at_nothing
):
    found = explained(
        tmp_path,
        """
        import torch
        x = torch.ones(2, requires_grad=True)
        (x * 3).sum().backward()
        y = x.exp().sum()
        y.backward()
        y.backward()
        """,
    )
    assert found.family == "same-root"
    assert (found.freed_by.number, found.freed_by.place.line) == (2, 5)


def test_what_was_not_looked_at_is_not_called_shared(tmp_path, looks_at_nothing):
    found = explained(
        tmp_path,
        """
        import torch
        x = torch.ones(2, requires_grad=True)
        y = x.exp()
        (y * 2).sum().backward()
        for scale in range(3):
            ((y if scale == 2 else x) * scale).sum().backward()
        """,
    )
    assert found.family is None
    assert found.freed_by is None
    assert "Freed by one of the calls on lines 4, 6." in str(found)
    assert "is not known: to stay cheap" in str(found)


def test_the_number_of_one_of_many_calls_of_a_line_is_not_guessed(tmp_path, looks_at_nothing):
    found = explained(
        tmp_path,
        """
        import torch
        x = torch.ones(2, requires_grad=True)
        y = x.exp()
        for scale in range(4):
            ((y if scale in (1, 3) else x.exp()) * scale).sum().backward()
        """,
    )
    assert found.family == "computed-once"
    assert found.freed_by.number is None
    assert "freed by an earlier call, line 5:" in str(found)


def test_each_run_has_first_calls_of_its_own(monkeypatch):
    monkeypatch.setattr(listening, "SHARE", 0.0)
    x = torch.ones(2, requires_grad=True)
    listening.start()
    try:
        for _ in range(listening.WHOLE + 2):
            x.exp().sum().backward()
        listening.new_run()
        y = x.exp().sum()
        y.backward()
        tracked = [one.tracked for one in listening._listener.history._calls.values()]
    finally:
        listening.stop()
    assert tracked == [True] * listening.WHOLE + [False] * 2 + [True]


def test_one_record_is_for_one_block():
    block = record()
    with block as recording:
        torch.ones(2, requires_grad=True).exp().sum().backward()
    with pytest.raises(RuntimeError, match=r"one block: write `with record\(\) as recording:`"):
        with block:
            pass
    assert len(recording.calls) == 1
