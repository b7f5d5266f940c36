"""Looking at a graph changes nothing and keeps nothing alive."""

import gc
import weakref

import pytest
import torch
from models import MODELS
from torch.utils.checkpoint import checkpoint

from secondpass.reader import read_graph
from secondpass.recording import follow, record


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
    from secondpass import calls

    x = torch.tensor([2.0], requires_grad=True)
    y = x**2
    view = follow([y])
    assert len(calls._listeners) == 1
    del view
    gc.collect()
    assert calls._listeners == []


@pytest.mark.parametrize("raised", [ZeroDivisionError, KeyboardInterrupt])
def test_an_exception_in_the_middle_leaves_no_hook_behind(raised):
    from secondpass import calls

    x = torch.tensor([2.0], requires_grad=True)
    h = x * 3
    y = h**2
    armed = [True]

    def hook(grad):
        if armed[0]:
            raise raised("in the middle")

    h.register_hook(hook)
    with record() as recording, pytest.raises(raised):
        y.backward(retain_graph=True)
    assert calls._listeners == []
    assert recording.frames[-1].kind == "stop"
    assert raised.__name__ in recording.frames[-1].text
    count = len(recording.frames)
    armed[0] = False
    y.backward()
    assert x.grad.item() == 36
    assert len(recording.frames) == count + 1  # x.grad changed after the recording had ended
