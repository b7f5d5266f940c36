"""A small recording made by hand: every kind of frame, for the tests of the picture."""

from __future__ import annotations

from typing import Any


def frame(kind: str, text: str, **facts: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {
        "call": None,
        "node": None,
        "leaf": None,
        "line": None,
        "before": None,
        "incoming": None,
        "after": None,
        "gradients": {},
        "slots": {},
        "held": 0,
        "born": [],
    }
    return empty | {"kind": kind, "text": text} | facts


def node(title: str, line: int, *slots: tuple[str, str, int], born_in: int | None = None) -> Any:
    return {
        "title": title,
        "name": f"{title}Backward0",
        "gives": "f32[1]",
        "line": [0, line],
        "born_in": born_in,
        "slots": [{"name": name, "type": kind, "nbytes": size} for name, kind, size in slots],
    }


def sample() -> dict[str, Any]:
    """Return two passes over y = x**2 (kept, freed), a reset, a write, a pass that stops."""
    run = {"node": "n0", "gradients": {"l0-n0-0": "4"}}
    enter = {"gradients": {"r0": "1"}}
    return {
        "calls": [
            {"number": number, "title": title, "stopped": number == 3, "line": [0, number + 2]}
            for number, title in enumerate(["call 1", "call 2", "call 3 · stopped"], 1)
        ],
        "sources": [
            {
                "name": "In [1]",
                "first": 1,
                "lines": [
                    "x = torch.tensor([2.0], requires_grad=True)",
                    "y = x**2",
                    "y.backward(retain_graph=True)",
                    "y.backward()",
                    "y.backward()",
                ],
            }
        ],
        "frames": [
            frame("forward", "Line 2 ran.", line=[0, 2], born=["n0"], held=4,
                  slots={"n0.self": ["held", None]}),
            frame("call", "Call 1 begins.", call=1, line=[0, 3], held=4, **enter),
            frame("node", "Call 1 runs Pow.", call=1, line=[0, 2], held=4, incoming="1",
                  slots={"n0.self": ["held", None]}, **run),
            frame("accumulate", "Call 1: x.grad = 4", call=1, leaf="l0", incoming="4", after="4",
                  held=4),
            frame("return", "Call 1 ends.", call=1, held=4),
            frame("call", "Call 2 begins.", call=2, line=[0, 4], held=4, **enter),
            frame("node", "Call 2 runs Pow.", call=2, line=[0, 2], incoming="1",
                  slots={"n0.self": ["freed", 2]}, **run),
            frame("accumulate", "Call 2: x.grad 4 + 4 = 8", call=2, leaf="l0", before="4",
                  incoming="4", after="8"),
            frame("return", "Call 2 ends.", call=2),
            frame("zero", "x.grad was reset.", leaf="l0", before="8"),
            frame("write", "x.grad was changed.", leaf="l0", after="0.5"),
            frame("call", "Call 3 begins.", call=3, line=[0, 5], **enter),
            frame("stop", "Call 3 stops in Pow.", call=3, node="n0"),
        ],
        "start": {"slots": {}, "leaves": {"l0": {"grad": None}}, "held": 0},
        "nodes": {"n0": node("Pow", 2, ("self", "f32[1]", 4))},
        "leaves": {"l0": {"name": "x", "type": "f32[1]", "value": "2"}},
        "roots": {"r0": {"name": "y", "type": "f32[1]", "value": "4", "source": "n0"}},
        "edges": [
            {"id": "l0-n0-0", "source": "l0", "target": "n0"},
            {"id": "n0-r0-0", "source": "n0", "target": "r0"},
        ],
        "left_out": "",
        "summary": "The autograd graph of y: 1 Node and 1 leaf.",
    }  # fmt: skip


def chain(count: int, *, lines: int = 0, leaves: int = 1) -> dict[str, Any]:
    """Return a recording without frames: a chain of Nodes, n0 last, with leaves at its top."""
    nodes = {f"n{at}": node("Mul", 1 + at * lines // count if lines else 1, ("other", "f32", 4))
             for at in range(count)}  # fmt: skip
    if not lines:
        for facts in nodes.values():
            facts["line"] = None
    edges = [(f"n{at + 1}", f"n{at}") for at in range(count - 1)]
    edges += [(f"l{at}", f"n{count - 1}") for at in range(leaves)]
    edges.append(("n0", "r0"))
    return sample() | {
        "calls": [],
        "frames": [],
        "start": {"slots": {}, "leaves": {}, "held": 0},
        "nodes": nodes,
        "leaves": {
            f"l{at}": {"name": f"w{at}", "type": "f32", "value": "1"} for at in range(leaves)
        },
        "edges": [{"id": f"{a}-{b}-{at}", "source": a, "target": b}
                  for at, (a, b) in enumerate(edges)],
    }  # fmt: skip


def carried() -> dict[str, Any]:
    """Return a call that stopped: loss 2 was made from h after call 1 had freed it."""
    data = sample()
    data["nodes"] = {
        "n0": node("Mul", 3, ("other", "f32[1]", 4)) | {"after": 1},
        "n1": node("View", 2) | {"after": 0},
        "n2": node("Pow", 2, ("self", "f32[1]", 4)) | {"after": 0},
    }
    data["roots"]["r0"]["source"] = "n0"
    ways = [("l0", "n2"), ("n2", "n1"), ("n1", "n0"), ("n0", "r0")]
    data["edges"] = [{"id": f"{a}-{b}-0", "source": a, "target": b} for a, b in ways]
    data["start"]["slots"] = {"n2.self": ["freed", 1]}
    data["frames"] = [
        frame("call", "Call 2 begins.", call=2, gradients={"r0": "1"}),
        frame("node", "Call 2 runs Mul.", call=2, node="n0", gradients={"n1-n0-0": "3"}),
        frame("node", "Call 2 runs View.", call=2, node="n1", gradients={"n2-n1-0": "3"}),
        frame("stop", "Call 2 stops in Pow.", call=2, node="n2"),
    ]
    return data


class Given:
    """A recording of given data: what a view needs of one, with no torch behind it."""

    def __init__(self, data: dict[str, Any] | None = None) -> None:
        self.data = data or sample()

    @property
    def frames(self) -> tuple[Any, ...]:
        return tuple(self.data["frames"])

    @property
    def graph(self) -> Any:
        from secondpass.reading.graph import Edge, Graph, Leaf, Node, Root

        data = self.data
        return Graph(
            tuple(Node(name, facts["name"], ()) for name, facts in data["nodes"].items()),
            tuple(Leaf(name, **facts, grad="None") for name, facts in data["leaves"].items()),
            tuple(
                Edge(edge["source"], edge["target"], 0, 0)
                for edge in data["edges"]
                if edge["target"] not in data["roots"]
            ),
            tuple(Root(**facts) for facts in data["roots"].values()),
        )

    def to_dict(self) -> dict[str, Any]:
        return self.data
