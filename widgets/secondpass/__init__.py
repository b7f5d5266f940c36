"""See what a PyTorch backward pass frees, replay it, and have its errors explained."""

from secondpass.graph import Edge, Graph, Leaf, Node, Root
from secondpass.reader import NoGraphError
from secondpass.saved import Slot

__all__ = ["Edge", "Graph", "Leaf", "NoGraphError", "Node", "Root", "Slot"]
__version__ = "0.1.0"
