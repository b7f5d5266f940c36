"""Recordings are what torch did: the frames' numbers are torch's own."""

import gc
import json
import os
import sys
from dataclasses import dataclass, field

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from secondpass.reading.values import value_text
from secondpass.replay.recorder import FRAME_LIMIT
from secondpass.replay.recording import follow, record


def leaf(value=2.0):
    return torch.tensor([value], requires_grad=True)


def texts(recording, *kinds):
    return [frame.text for frame in recording.frames if frame.kind in kinds]


def kinds(recording):
    return [frame.kind for frame in recording.frames]


def test_the_first_article_retained_adds_four_and_four():
    with record() as recording:
        x = leaf()
        y = x**2
        y.backward(retain_graph=True)
        y.backward(retain_graph=True)
    assert texts(recording, "accumulate") == ["Call 1: x.grad = 4", "Call 2: x.grad 4 + 4 = 8"]
    landed = [frame for frame in recording.frames if frame.kind == "accumulate"]
    assert [(f.before, f.incoming, f.after) for f in landed] == [(None, "4", "4"), ("4", "4", "8")]
    assert [f.leaf for f in landed] == ["x", "x"]
    assert x.grad.item() == 8
    assert recording.graph.stops_at is None


def test_the_first_articles_loop_zeroes_each_time():
    with record() as recording:
        x = leaf()
        y = x**2
        for _ in range(2):
            y.backward(retain_graph=True)
            x.grad.zero_()
    story = [(f.kind, f.after) for f in recording.frames if f.kind in ("accumulate", "zero")]
    assert story == [("accumulate", "4"), ("zero", "0"), ("accumulate", "4"), ("zero", "0")]
    zeroed = [frame.line.code for frame in recording.frames if frame.kind == "zero"]
    assert zeroed == ["x.grad.zero_()"] * 2


def test_setting_the_gradient_to_none_is_a_reset_too():
    x = leaf()
    y = x**2
    recording = follow([y])
    y.backward(retain_graph=True)
    torch.optim.SGD([x]).zero_grad()
    y.backward()
    assert texts(recording, "zero") == ["x.grad was reset: 4 → None"]
    assert texts(recording, "accumulate")[1] == "Call 2: x.grad = 4"


def test_every_frame_knows_its_line():
    with record() as recording:
        x = leaf()
        y = x.exp()
        y = y.sin()
        y.backward()
        with torch.no_grad():
            x.grad.mul_(2)
            y.add_(1)
    assert [(frame.kind, frame.line and frame.line.code) for frame in recording.frames] == [
        ("forward", "y = x.exp()"),
        ("forward", "y = y.sin()"),
        ("call", "y.backward()"),
        ("node", "y = y.sin()"),
        ("node", "y = x.exp()"),
        ("accumulate", None),
        ("return", "y.backward()"),
        ("write", "x.grad.mul_(2)"),
    ]


def test_a_write_to_a_saved_tensor_knows_its_line():
    with record() as recording:
        x = leaf()
        h = x.exp()
        y = h.sum()
        y.backward(retain_graph=True)
        h.detach().add_(1)
    frame = recording.frames[-1]
    assert (frame.kind, frame.line.code) == ("write", "h.detach().add_(1)")


def test_a_forward_pass_alone_is_recorded_too():
    with record() as recording:
        x = leaf()
        h = x * 3
        y = h.exp()
    assert [frame.line.code for frame in recording.frames] == ["h = x * 3", "y = h.exp()"]
    assert [root.name for root in recording.graph.roots] == ["y"]
    assert y.grad_fn is not None


def test_two_recordings_may_end_in_any_order():
    before = sys.gettrace()
    first, second = record(), record()
    one, two = first.__enter__(), second.__enter__()
    y = leaf() ** 2
    first.__exit__(None, None, None)
    y.backward()
    second.__exit__(None, None, None)
    assert sys.gettrace() is before
    assert sys._getframe().f_trace is None
    assert [call.place.code for call in two.calls] == ["y.backward()"]
    assert one.calls == ()


def test_the_rebuilt_graph_is_a_second_graph():
    with record() as recording:
        x = leaf()
        y = x**2
        y.backward()
        y = x**2
        y.backward()
    assert [f.after for f in recording.frames if f.kind == "accumulate"] == ["4", "8"]
    graph = recording.graph
    assert [node.name for node in graph.nodes] == ["PowBackward0"] * 2
    assert len(graph.leaves) == 1 and len(graph.roots) == 2
    assert [edge.id for edge in graph.edges] == ["l0-n0-0", "l0-n1-0"]


def test_a_second_call_stops_where_torch_stops():
    x = leaf()
    y = x**2
    recording = follow([y])
    assert recording.graph.stops_at is None
    y.backward()
    assert recording.graph.stops_at == "n0"
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    stop = recording.frames[-1]
    assert (stop.kind, stop.call, stop.node) == ("stop", 2, "n0")
    assert stop.text.startswith("Call 2 stops in Pow: its saved tensor self was freed by call 1")
    assert [call.failed for call in recording.calls] == [False, True]


def test_a_stop_names_the_leaves_already_changed():
    a, b = leaf(), leaf()
    h = b.exp()
    h.sum().backward()
    loss = h.sum() + (a * 1.0).sum()
    recording = follow([loss])
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    assert recording.frames[-1].text.endswith("Before it stopped, it had already changed a.grad.")
    assert a.grad is not None


def test_slots_are_freed_node_by_node():
    x = leaf()
    y = x.exp().sin()
    recording = follow([y])
    y.backward()
    nodes = [frame for frame in recording.frames if frame.kind == "node"]
    assert [dict(frame.slots) for frame in nodes] == [
        {"n0.self": ("freed", 1)},
        {"n1.result": ("freed", 1)},
    ]
    # Both Nodes save the same tensor: its bytes go with the second.
    assert [frame.held for frame in recording.frames] == [4, 4, 0, 0, 0]


def test_gradients_on_edges_are_torchs_own():
    x, w = leaf(2.0), leaf(5.0)
    h = x * w
    y = h**2
    h.retain_grad()
    recording = follow([y])
    y.backward()
    went = {}
    for frame in recording.frames:
        went |= frame.gradients
    assert went == {"r0": "1", "n1-n0-0": "20", "l0-n1-0": "100", "l1-n1-1": "40"}
    assert (h.grad.item(), x.grad.item(), w.grad.item()) == (20, 100, 40)


def test_only_inputs_get_gradients():
    x, w = leaf(2.0), leaf(5.0)
    y = (x * w) ** 2
    recording = follow([y])
    y.backward(inputs=[x])
    assert [frame.leaf for frame in recording.frames if frame.kind == "accumulate"] == ["x"]
    assert w.grad is None


def test_autograd_grad_accumulates_nothing_and_returns():
    x = leaf()
    y = x**3
    recording = follow([y])
    torch.autograd.grad(y, x)
    assert kinds(recording) == ["call", "node", "return"]
    assert recording.frames[-1].text.startswith("Call 1 ends and returns 12.")


def test_several_roots_enter_together():
    x = leaf()
    a, b = x**2, x**3
    recording = follow([a, b])
    torch.autograd.backward([a, b])
    assert recording.frames[0].gradients == {"r0": "1", "r1": "1"}
    assert x.grad.item() == 16
    assert texts(recording, "accumulate") == ["Call 1: x.grad = 16"]


def test_nodes_born_under_create_graph_belong_to_their_call():
    x = leaf(3.0)
    with record() as recording:
        y = x**3
        (slope,) = torch.autograd.grad(y, x, create_graph=True)
        slope.backward()
    born = [node for node in recording.graph.nodes if node.born_in == 1]
    assert {node.title for node in born} == {"Mul", "Pow"}
    ended = next(frame for frame in recording.frames if frame.kind == "return")
    assert set(ended.born) == {node.id for node in born}
    assert texts(recording, "accumulate") == ["Call 2: x.grad = 18"]
    assert x.grad.item() == 18


def test_backward_under_create_graph_gives_the_gradient_a_graph():
    x = leaf(3.0)
    y = x**3
    recording = follow([y])
    y.backward(create_graph=True)
    assert x.grad.grad_fn is not None
    assert any(node.born_in == 1 for node in recording.graph.nodes)
    assert "x.grad" in [root.name for root in recording.graph.roots]
    x.grad = None


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        (_,) = ctx.saved_tensors
        return grad * 2


def test_a_custom_function():
    x = leaf()
    y = Twice.apply(x) ** 2
    recording = follow([y])
    y.backward()
    assert [node.title for node in recording.graph.nodes] == ["Pow", "Twice"]
    assert [slot.state for slot in recording.graph.nodes[1].slots] == ["freed"]
    assert [slot.freed_by for slot in recording.graph.nodes[1].slots] == [1]
    assert texts(recording, "accumulate") == ["Call 1: x.grad = 16"]
    assert x.grad.item() == 16


def test_an_lstm():
    torch.manual_seed(0)
    net = torch.nn.LSTM(2, 3)
    out, _ = net(torch.randn(4, 1, 2))
    loss = out.sum()
    recording = follow([loss])
    loss.backward()
    landed = {frame.leaf for frame in recording.frames if frame.kind == "accumulate"}
    assert landed == {f"net.{name}" for name, _ in net.named_parameters()}
    freed = [s for n in recording.graph.nodes for s in n.slots if s.state == "freed"]
    assert len(freed) >= 9 and all(slot.freed_by == 1 and slot.nbytes for slot in freed)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint(reentrant):
    x = leaf()
    y = checkpoint(lambda t: t.exp() * t, x, use_reentrant=reentrant) ** 2
    recording = follow([y])
    y.backward()
    bare = leaf()
    ((bare.exp() * bare) ** 2).backward()
    assert torch.equal(x.grad, bare.grad)
    inside = [call.inside for call in recording.calls]
    assert inside == ([None, 1] if reentrant else [None])
    landed = [frame for frame in recording.frames if frame.leaf == "x"]
    assert [frame.after for frame in landed] == [f"{x.grad.item():.4g}"]


def test_a_call_within_a_hook():
    x, w = leaf(), leaf(3.0)
    y, z = x**2, w**2
    x.register_post_accumulate_grad_hook(lambda t: z.backward())
    with record() as recording:
        y.backward()
    assert [call.title.partition(" · line")[0] for call in recording.calls] == [
        "call 1",
        "call 2 · inside call 1",
    ]
    assert texts(recording, "accumulate") == ["Call 1: x.grad = 4", "Call 2: w.grad = 6"]
    assert [f.call for f in recording.frames if f.kind == "return"] == [2, 1]
    assert "write" not in kinds(recording)


def test_a_call_in_a_hook_frees_what_the_outer_call_needs():
    x = leaf()
    shared = x.exp()
    side, y = shared.sin(), shared.cos()
    y.register_hook(lambda grad: side.backward())
    with record() as recording, pytest.raises(RuntimeError, match="second time"):
        y.backward()
    stop = recording.frames[-1]
    assert stop.call == 1 and "freed by call 2" in stop.text
    assert recording.graph.nodes[int(stop.node[1:])].name == "ExpBackward0"


def test_a_hook_that_resets_the_gradient_it_was_given():
    x = leaf()

    def step(parameter):
        parameter.grad = None

    x.register_post_accumulate_grad_hook(step)
    y = x**2
    recording = follow([y])
    y.backward()
    assert texts(recording, "accumulate", "zero") == [
        "Call 1: x.grad = 4",
        "x.grad was reset by a hook.",
    ]


def test_a_hook_that_changes_the_gradient():
    x = leaf()

    def double(parameter):
        parameter.grad.mul_(2)

    x.register_post_accumulate_grad_hook(double)
    y = x**2
    recording = follow([y])
    y.backward(retain_graph=True)
    y.backward()
    assert texts(recording, "accumulate", "write") == [
        "Call 1: x.grad = 4",
        "x.grad is 8 after a hook on it.",
        "Call 2: x.grad 8 + 4",
        "x.grad is 24 after a hook on it.",
    ]


def test_a_gradient_changed_at_the_end_of_a_call_was_changed_by_it():
    x = leaf()
    y = x**2

    def halve(grad):
        engine = torch.autograd.Variable._execution_engine
        engine.queue_callback(lambda: x.grad.div_(2))  # as DistributedDataParallel does

    y.register_hook(halve)
    recording = follow([y])
    y.backward()
    assert texts(recording, "write") == ["x.grad was changed while call 1 ran: 4 → 2"]
    assert kinds(recording)[-2:] == ["write", "return"]


def test_a_saved_tensor_written_in_place_is_a_write_frame():
    x = leaf()
    h = x * 2
    y = h**2
    recording = follow([y])
    h.add_(1)
    assert recording.graph.stops_at == "n0"
    with pytest.raises(RuntimeError, match="inplace"):
        y.backward()
    assert kinds(recording) == ["write", "call", "stop"]
    assert texts(recording, "write")[0].startswith("self, saved by Pow, was changed in place")
    assert "changed in place since" in recording.frames[-1].text


def test_an_assignment_into_a_tensor_is_known_from_its_calls():
    x = leaf()
    base = torch.zeros(2)
    base[0] = x[0]
    y = base.sum()
    recording = follow([y])
    assert recording.graph.stops_at == "unknown"
    y.backward()
    (slot,) = next(n for n in recording.graph.nodes if n.title == "CopySlices").slots
    assert (slot.state, slot.freed_by) == ("freed", 1)
    assert recording.graph.nodes[1].title == "CopySlices"
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    assert recording.frames[-1].node == "n1"


def test_a_call_on_a_tensor_without_a_graph_is_no_crash():
    with record() as recording, pytest.raises(RuntimeError, match="does not require grad"):
        torch.tensor([1.0]).backward()
    assert kinds(recording) == ["call", "stop"]


def test_show_follows_calls_through_its_graph_only():
    x = leaf()
    y = x**2
    recording = follow([y])
    (leaf() ** 2).backward()
    assert recording.frames == ()
    (y * 3).backward()
    assert [node.title for node in recording.graph.nodes] == ["Pow", "Mul"]
    assert texts(recording, "accumulate") == ["Call 1: x.grad = 12"]


def test_a_graph_that_dies_takes_its_saved_tensors_along():
    x = leaf()
    y = x.exp()
    recording = follow([y])
    assert recording.to_dict()["start"]["held"] == 4
    del y
    gc.collect()
    (frame,) = recording.frames
    assert frame.text == (
        "Nothing refers to Exp any more: gone, with the saved tensors. "
        "A graph lives as long as its result: keep that in a variable."
    )
    assert frame.held == 0


def test_the_number_of_frames_is_bounded():
    x = leaf()
    y = x**2
    recording = follow([y])
    for _ in range(FRAME_LIMIT // 4 + 10):
        y.backward(retain_graph=True)
    assert len(recording.frames) == FRAME_LIMIT
    assert "full (4,000 frames)" in recording.to_dict()["left_out"]


def test_the_recording_is_the_same_in_every_run():
    def run():
        x, w = leaf(), leaf(3.0)
        y = (x * w).exp()
        recording = follow([y])
        y.backward(retain_graph=True)
        y.backward()
        return recording.to_dict()

    assert run() == run()


def test_a_node_tells_after_which_call_it_was_made():
    with pytest.raises(RuntimeError, match="second time"), record() as recording:
        x = torch.tensor([2.0], requires_grad=True)
        h = x**2
        for _ in range(2):
            (3 * h).backward()
    nodes = recording.to_dict()["nodes"].values()
    assert sorted((node["title"], node["after"]) for node in nodes) == [
        ("Mul", 0),
        ("Mul", 1),
        ("Pow", 0),
    ]


def test_slots_that_share_a_storage_have_one_number():
    x = torch.ones(3, requires_grad=True)
    with record() as recording:
        h = x.exp()
        (h * h).sum().backward()
    slots = [slot for node in recording.to_dict()["nodes"].values() for slot in node["slots"]]
    assert len(slots) == 3
    assert len({slot["storage"] for slot in slots}) == 1


def test_fifty_passes_keep_nothing_but_their_frames():
    def tensors():
        gc.collect()
        return sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())

    x = leaf()
    y = (x**2).exp()
    recording = follow([y])
    y.backward(retain_graph=True)
    after_one = tensors()
    for _ in range(49):
        y.backward(retain_graph=True)
    assert tensors() == after_one
    assert recording.frames[-1].held == recording.frames[4].held
    assert len(recording.frames) == 50 * 5


def test_a_recording_of_nothing_says_so():
    with record() as recording:
        pass
    assert str(recording.graph) == recording.to_dict()["summary"]
    assert str(recording.graph).startswith("No graph: nothing that requires grad was computed")


def test_a_recording_tells_no_machines_paths():
    with record() as recording:
        torch.tensor([2.0], requires_grad=True).exp().backward()
    sources = [source["name"] for source in recording.to_dict()["sources"]]
    assert sources == ["test_recorder.py"]
    assert os.path.dirname(__file__) not in json.dumps(recording.to_dict())


def test_a_list_of_slots_of_which_one_is_empty_is_kept_where_it_is_kept():
    x = torch.ones(3, 3, requires_grad=True)
    y = x[:, torch.tensor([0, 1])].sum()
    recording = follow([y])
    y.backward(retain_graph=True)
    assert [slot.state for slot in recording.graph.nodes[1].slots] == ["none", "held"]
    assert texts(recording, "node")[1].endswith("Its saved tensor indices[1] is kept.")
    y.backward()
    assert [slot.state for slot in recording.graph.nodes[1].slots] == ["none", "freed"]


def test_a_function_may_give_its_context_a_name():
    class Named(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.name, ctx.register_hook = "mine", "mine too"
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    y = Named.apply(leaf())
    recording = follow([y])
    y.backward()
    assert [node.name for node in recording.graph.nodes] == ["NamedBackward"]
    assert "node" in kinds(recording)


def test_a_gradient_made_in_inference_mode_is_seen():
    with record() as recording:
        x = leaf()
        y = x**2
        y.backward()
        with torch.inference_mode():
            x.grad = torch.ones(1)
            x.grad.add_(1)
    assert texts(recording, "write") == [
        "x.grad was changed outside the recorded calls: 4 → 1",
        "x.grad was changed outside the recorded calls: 1 → 2",
    ]
    assert x.grad.item() == 2


@pytest.mark.parametrize(
    "dtype, number",
    [
        (torch.float16, 6e4),
        (torch.bfloat16, 2.5),
        (torch.float32, 1e-25),
        (torch.float32, 1e30),
        (torch.complex64, 1e-25),
    ],
)
def test_a_norm_is_right_in_the_digits_that_are_shown(dtype, number):
    numbers = torch.full((8,), number, dtype=dtype)
    true = sum(abs(one) ** 2 for one in numbers.to(torch.complex128).tolist()) ** 0.5
    assert value_text(numbers).endswith(f" norm {true:.4g}")


class SavesAndDoesNotRead(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_a_node_that_saves_nothing_is_told_from_one_of_which_that_is_not_so():
    y = SavesAndDoesNotRead.apply(leaf())
    base = torch.zeros(2)
    base[0] = leaf()[0]
    z = base.sum()
    with record() as recording:
        y.backward()
        y.backward()
        z.backward(retain_graph=True)
    assert [text.partition(" on. ")[2] for text in texts(recording, "node")] == [
        "Its saved tensor tensors[0] is freed (4 B).",
        "What it saved was freed before.",
        "It saves nothing.",  # Sum
        "What it saves is not shown.",  # CopySlices
        "It saves nothing.",  # Select
    ]
    made = texts(recording, "forward")[1]
    assert made.endswith("Select, CopySlices and Sum, which save nothing that torch shows.")


def test_what_was_freed_out_of_sight_is_not_said_to_be_nothing():
    y = leaf().exp()
    for _ in range(1_600):
        y = y + 1
    recording = follow([y])
    y.backward()
    assert texts(recording, "return") == ["Call 1 ends. What it freed is not known."]
    z = y.detach().requires_grad_()
    for _ in range(1_600):
        z = z + 1
    z = z.exp()
    recording = follow([z])
    z.backward()
    assert texts(recording, "return") == [
        "Call 1 ends. It freed 1 saved tensor of the Nodes that were looked at (4 B)."
    ]


def test_a_graph_is_gone_in_the_line_that_let_it_go():
    gc.disable()  # it must not need the collector
    try:
        with record() as recording:
            x = leaf()
            for _ in range(2):  # the second round lets the first result go
                y = x**2
                y.backward(retain_graph=True)
            kinds_so_far = kinds(recording)
            del y
            assert len(recording.frames) > len(kinds_so_far)
    finally:
        gc.enable()
    told = [(frame.kind, frame.call, frame.line and frame.line.code) for frame in recording.frames]
    rebound = told.index(("write", None, "y = x**2"))
    assert told[rebound - 1][:2] == ("return", 1)
    assert told[rebound + 1][:2] == ("forward", None)
    assert told[-1] == ("write", None, "del y")


@dataclass
class Batch:
    x: torch.Tensor
    twice: torch.Tensor = field(default_factory=lambda: _weight * 2)


_weight = leaf(3.0)


def test_what_a_dataclass_wrote_for_itself_is_no_line_of_the_program():
    with record() as recording:
        batch = Batch(leaf())
        (batch.x * batch.twice).backward()
    files = {frame.line.file for frame in recording.frames if frame.line}
    assert {os.path.basename(file) for file in files} == {os.path.basename(__file__)}


def test_frames_read_as_sentences():
    kept = []
    with record() as recording:
        x = leaf()
        y = x**2
        y.backward()
        (-x).backward()
        for _ in range(2):
            loss = (x * x) * (x * x)
            kept.append(loss)
            loss.backward()
    made = texts(recording, "forward")
    assert made[0].endswith("it made Pow, which saves self.")
    assert made[-1].endswith("it made Mul, Mul and Mul, which save other and self.")
    landed = texts(recording, "accumulate")
    assert landed[:2] == ["Call 1: x.grad = 4", "Call 2: x.grad 4 − 1 = 3"]
    assert " 2 results called loss:" in recording.to_dict()["summary"]
