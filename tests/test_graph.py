"""Graphs are plain records, named as the person names things, and print as a tree."""

import dataclasses
import pickle
import weakref

import pytest
import torch

import secondpass as sp
from secondpass.reading.names import names_now, names_of
from secondpass.reading.reader import read_graph


def leaf(value=2.0):
    return torch.tensor([value], requires_grad=True)


def read(*tensors):
    return read_graph(tensors, names=names_now())


def test_the_tree_of_a_shared_graph():
    x, w = leaf(), leaf(3.0)
    h = x * w
    y = h.exp() + h
    assert str(read(y)) == "\n".join(
        [
            "y = 409.4  f32[1]",
            "└─ Add  saves nothing",
            "   ├─ Exp  saves result f32[1] 4 B held",
            "   │  └─ Mul (n2)  saves other f32[1] 4 B held, self f32[1] 4 B held",
            "   │     ├─ x = 2  leaf f32[1], grad None",
            "   │     └─ w = 3  leaf f32[1], grad None",
            "   └─ Mul (n2): see above",
        ]
    )


def test_several_roots_share_their_nodes():
    x = leaf()
    h = x.exp()
    a, b = h.sin(), h.cos()
    graph = read(a, b)
    assert [root.name for root in graph.roots] == ["a", "b"]
    assert sorted(node.title for node in graph.nodes) == ["Cos", "Exp", "Sin"]
    assert len(graph.edges) == 3


def test_an_edge_knows_which_input_and_which_output_it_is():
    x = torch.tensor([3.0, 1.0], requires_grad=True)
    values, _ = x.sort()
    low, high = values.unbind()
    graph = read(high - low)
    sub = next(node for node in graph.nodes if node.title == "Sub")
    edges = [edge for edge in graph.edges if edge.target == sub.id]
    assert [(edge.index, edge.output) for edge in edges] == [(0, 1), (1, 0)]


def test_parameters_are_named_by_their_module():
    net = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.ReLU())
    loss = net(torch.ones(1, 2)).sum()
    assert {leaf.name for leaf in read(loss).leaves} == {"net.0.weight", "net.0.bias"}


def test_names_come_from_the_innermost_frame_and_not_from_ipythons_history():
    x, _3, Out = leaf(), leaf(), {1: leaf()}

    def inner(renamed):
        return names_now()[id(x)]

    assert inner(x) == "renamed"
    names = names_of({"_3": _3, "Out": Out, "items": [x], "table": {"k": _3}})
    assert names == {id(x): "items[0]", id(_3): "table['k']"}


def test_what_has_no_name_is_numbered():
    graph = read_graph([torch.ones(1, requires_grad=True) * torch.ones(1, requires_grad=True)])
    assert [leaf.name for leaf in graph.leaves] == ["leaf 1", "leaf 2"]
    assert graph.roots[0].name == "result"


def test_records_are_frozen_and_hold_nothing_of_torchs():
    x = leaf()
    graph = read(x**2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.nodes[0].name = "Other"
    assert pickle.loads(pickle.dumps(graph)) == graph


def test_reading_twice_gives_the_same():
    x, w = leaf(), leaf()
    y = (x * w).exp() * x
    assert read(y) == read(y)
    assert str(read(y)) == str(read(y))


def test_stops_at_is_the_youngest_node_whose_tensors_are_gone():
    x = leaf()
    h = x.exp()
    h.sin().backward()
    y = h.cos() * 2
    graph = read(y)
    stops = next(node for node in graph.nodes if node.id == graph.stops_at)
    assert stops.title == "Exp"
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


@pytest.mark.parametrize(
    "make, reason",
    [
        (lambda: leaf(), "it is a leaf"),
        (lambda: leaf().detach(), "it was detached"),
        (lambda: torch.ones(2), "none of the tensors it was computed from"),
        (lambda: torch.ones(2, dtype=torch.int64), "int64 has no gradient"),
        (lambda: torch.ones(2) > 0, "bool has no gradient"),
        (lambda: under(torch.no_grad()), "made under torch.no_grad"),
        (lambda: under(torch.inference_mode()), "torch.inference_mode"),
    ],
)
def test_a_tensor_without_a_graph_is_told_why(make, reason):
    with pytest.raises(sp.NoGraphError, match=reason):
        sp.show(make())


def test_switched_off_gradients_are_named():
    with torch.no_grad(), pytest.raises(sp.NoGraphError, match="switched off here"):
        sp.show(leaf() * 2)


def under(context):
    with context:
        return leaf() * 2


@pytest.mark.parametrize("thing", [3, "y", None, [1.0], torch.nn.Linear(1, 1)])
def test_anything_but_a_tensor_is_a_type_error(thing):
    with pytest.raises(TypeError, match=f"{type(thing).__name__} is not a tensor"):
        sp.show(thing)
    with pytest.raises(TypeError, match="at least one tensor"):
        sp.show()


def test_a_stale_view_and_a_sparse_tensor_are_no_crash():
    base = leaf() * torch.ones(3)
    view = base[:2]
    base.mul_(2)  # the view's grad_fn is stale: reading it makes a new Node
    assert read(base).nodes
    sparse = torch.eye(3).to_sparse().requires_grad_()
    assert read(torch.sparse.mm(sparse, torch.ones(3, 1)).sum()).leaves[0].value == "f32[3×3]"
    del view


class Lying:
    @property
    def __class__(self):
        raise KeyError("class")


class Renamed(torch.nn.Linear):
    def named_parameters(self, prefix="", recurse=True):  # as it was before torch 2.0
        raise AssertionError("the person's own: not for us to run")


@pytest.mark.parametrize(
    "make",
    [
        lambda: weakref.proxy(Lying()),  # dead at once
        Lying,
        lambda: Renamed.__new__(Renamed),  # before its __init__
        lambda: Renamed(1, 1),
    ],
)
def test_names_are_found_whatever_else_the_variables_hold(make):
    x = leaf()
    thing = make()
    inside = [thing, x]
    assert names_now()[id(x)] == "x"
    assert names_of({"thing": thing, "inside": inside, 3: 4})[id(x)] == "inside[1]"


def test_parameters_are_found_without_the_modules_own_methods():
    net = Renamed(1, 1)
    assert names_of({"net": net}) == {id(net.weight): "net.weight", id(net.bias): "net.bias"}


def test_a_module_that_holds_itself_is_named_once():
    net = torch.nn.Sequential(torch.nn.Linear(1, 1))
    net[0].back = net
    assert names_of({"net": net}) == {
        id(net[0].weight): "net.0.weight",
        id(net[0].bias): "net.0.bias",
    }
