"""`show`: a view that goes on following its graph, in this cell and in later ones."""

from __future__ import annotations

import sys
import time
import weakref
from typing import Any

import torch

from secondpass.picture.widget import AutogradGraph
from secondpass.replay.recording import follow

AT_ONCE = 300
"""A recording of up to so many frames is sent to the browser after every call."""

PAUSE = 0.2
"""Seconds between two sendings of a longer one, within one cell."""

_views: weakref.WeakSet[AutogradGraph] = weakref.WeakSet()


def show(*tensors: torch.Tensor, **unknown: Any) -> AutogradGraph:
    """Show the graph behind tensors as it stands now; later backward calls add their frames.

    Parameters
    ----------
    *tensors : torch.Tensor
        One or several roots, such as a loss.

    Returns
    -------
    AutogradGraph
        Put it last in a cell to see it.

    Raises
    ------
    TypeError
        For anything that is not a tensor, and for unknown keywords.
    NoGraphError
        For a tensor without a graph; the message says why and what to do.

    Examples
    --------
    >>> import torch, secondpass as sp
    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> y = x**2
    >>> view = sp.show(y)
    >>> y.backward()
    >>> view.frame.text
    'Call 1 ends. It freed 1 saved tensor (4 B).'
    """
    if unknown:
        raise TypeError(
            f"show() got an unknown keyword: {', '.join(sorted(unknown))}. It takes tensors only: "
            "show(loss)."
        )
    recording = follow(tensors)
    view = AutogradGraph(recording)
    recording.tell(_Update(view))
    _views.add(view)
    _catch_up_after_cells()
    return view


class _Update:
    """Brings a view up to date when its recording grew; holds the view weakly."""

    def __init__(self, view: AutogradGraph) -> None:
        self._view = weakref.ref(view)
        self._sent = time.monotonic()

    def __call__(self, frames: int) -> None:
        view = self._view()
        now = time.monotonic()
        # A loop of a thousand calls in one cell must not send a thousand recordings.
        if view is not None and (frames <= AT_ONCE or now - self._sent > PAUSE):
            self._sent = now
            view.update()


def _catch_up_after_cells() -> None:
    """In IPython, look after each cell for what no call tells of: a reset ``.grad``, say."""
    interactive = sys.modules.get("IPython.core.interactiveshell")
    if interactive is None or not interactive.InteractiveShell.initialized():
        return
    events = interactive.InteractiveShell.instance().events
    if _catch_up not in events.callbacks["post_run_cell"]:
        events.register("post_run_cell", _catch_up)


def _catch_up(*_: Any) -> None:
    for view in list(_views):
        if len(view.recording.frames) != view.shown:
            view.update()
