"""See what a PyTorch backward pass frees, replay it, and have its errors explained.

``import secondpass as sp``: `show` a graph, `record` a few lines, `explain` the last error, `save`
a picture; ``%load_ext secondpass`` and ``python -m secondpass script.py`` listen to your own code.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from secondpass.explaining.listening import explain
    from secondpass.explaining.report import Explanation
    from secondpass.ipython import load_ipython_extension, unload_ipython_extension
    from secondpass.picture.live import show
    from secondpass.picture.page import save
    from secondpass.picture.widget import AutogradGraph
    from secondpass.reading.graph import Edge, Graph, Leaf, Node, Root
    from secondpass.reading.roots import NoGraphError
    from secondpass.reading.saved import Slot
    from secondpass.replay.frames import Frame
    from secondpass.replay.recording import Recording, record
    from secondpass.teaching.exercises import check, predict
    from secondpass.teaching.playground import Playground

__version__ = "0.1.0"

# A script that is listened to needs no widget, and a notebook no command line: each part is
# imported when it is first asked for. Nothing here may import torch: a script that sets
# OMP_NUM_THREADS before its own ``import torch`` would find it set too late.
_LATER = {
    "AutogradGraph": "picture.widget",
    "Edge": "reading.graph",
    "Explanation": "explaining.report",
    "Frame": "replay.frames",
    "Graph": "reading.graph",
    "Leaf": "reading.graph",
    "NoGraphError": "reading.roots",
    "Node": "reading.graph",
    "Playground": "teaching.playground",
    "Recording": "replay.recording",
    "Root": "reading.graph",
    "Slot": "reading.saved",
    "check": "teaching.exercises",
    "explain": "explaining.listening",
    "load_ipython_extension": "ipython",
    "predict": "teaching.exercises",
    "record": "replay.recording",
    "save": "picture.page",
    "show": "picture.live",
    "unload_ipython_extension": "ipython",
}

__all__ = [
    "AutogradGraph",
    "Edge",
    "Explanation",
    "Frame",
    "Graph",
    "Leaf",
    "NoGraphError",
    "Node",
    "Playground",
    "Recording",
    "Root",
    "Slot",
    "check",
    "explain",
    "load_ipython_extension",
    "predict",
    "record",
    "save",
    "show",
    "unload_ipython_extension",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
