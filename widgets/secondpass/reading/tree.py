"""A graph as a tree of text: what ``print(graph)`` shows and what nbval compares."""

from __future__ import annotations

from collections import defaultdict

from secondpass.reading.graph import Edge, Graph, Leaf, Node
from secondpass.reading.saved import NONE

EMPTY = "No graph: nothing that requires grad was computed, and no backward call ran."

ROWS = 200
"""At most so many lines are written; a sentence speaks of the rest."""


def tree(graph: Graph) -> str:
    """Return a graph as a tree, each root first and leaves last.

    A part that several Nodes share is written once; the other places point to it.
    """
    return _Writer(graph).write()


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = {node.id: node for node in graph.nodes}
        self.leaves = {leaf.id: leaf for leaf in graph.leaves}
        self.into: dict[str, list[Edge]] = defaultdict(list)
        for edge in graph.edges:
            self.into[edge.target].append(edge)
        self.used: dict[str, int] = defaultdict(int)
        for edge in graph.edges:
            self.used[edge.source] += 1
        for root in graph.roots:
            self.used[root.source] += 1
        self.seen: set[str] = set()
        self.rows: list[str] = []
        self.left = 0

    def write(self) -> str:
        for root in self.graph.roots:
            self._add(" = ".join(filter(None, (root.name, root.value))) + f"  {root.type}".rstrip())
            self._write_below([root.source])
        if self.left:
            self._close(f"… {self.left:,} more lines")
        if self.graph.left_out:
            self._close(self.graph.left_out)
        if not self.rows:
            self.rows.append(EMPTY)
        return "\n".join(self.rows)

    def _write_below(self, top: list[str]) -> None:
        # An own stack: a chain may be longer than Python's recursion limit.
        stack = [(one, "", position == len(top) - 1) for position, one in enumerate(top)]
        stack.reverse()
        while stack:
            current, indent, last = stack.pop()
            again = current in self.seen
            self.seen.add(current)
            self._add(f"{indent}{'└─' if last else '├─'} {self._text(current, again)}")
            if again or current in self.leaves:
                continue
            below = [edge.source for edge in self.into[current]]
            deeper = indent + ("   " if last else "│  ")
            rows = [(one, deeper, place == len(below) - 1) for place, one in enumerate(below)]
            stack.extend(reversed(rows))

    def _text(self, one: str, again: bool) -> str:
        if one in self.leaves:
            return _leaf_text(self.leaves[one], again)
        node = self.nodes[one]
        shared = f" ({node.id})" if self.used[one] > 1 else ""
        if again:
            return f"{node.title}{shared}: see above"
        return node.title + shared + _node_text(node)

    def _add(self, row: str) -> None:
        if len(self.rows) < ROWS:
            self.rows.append(row)
        else:
            self.left += 1

    def _close(self, row: str) -> None:
        self.rows.append(row)


def _leaf_text(leaf: Leaf, again: bool) -> str:
    if again:
        return f"{leaf.name}: see above"
    value = "" if leaf.value.startswith(leaf.type) and leaf.type else f" = {leaf.value}"
    return f"{leaf.name}{value}  leaf {leaf.type}, grad {leaf.grad}"


def _node_text(node: Node) -> str:
    line = f"  {node.line.where}" if node.line is not None else ""
    born = f"  made by call {node.born_in}" if node.born_in is not None else ""
    slots = [slot for slot in node.slots if slot.state != NONE]
    saves = ", ".join(map(str, slots)) or "nothing"
    return f"{line}{born}  saves {saves}"
