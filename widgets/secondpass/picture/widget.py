"""The view of a recording: a live player in Jupyter, and a still picture wherever none can run."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import anywidget
import traitlets

from secondpass.picture import layout
from secondpass.picture.data import RecordingData, complete
from secondpass.picture.drawing import Drawing, draw, plan
from secondpass.picture.fitting import clean
from secondpass.picture.stacks import rooms
from secondpass.picture.state import state_at
from secondpass.reading.graph import Graph
from secondpass.replay.frames import Frame

STATIC = Path(__file__).parent / "static"
STYLE = "\n".join((STATIC / name).read_text("utf-8") for name in ("picture.css", "widget.css"))

NO_ENGINE = (
    "No layout program was found, so the graph is shown as text: install graphviz-pure "
    "(pip install graphviz-pure) to see it drawn."
)

NO_LAYOUT = "The layout program could not lay this out, so the graph is shown as text."


class Recorded(Protocol):
    """What a view needs of a recording."""

    @property
    def graph(self) -> Graph:
        """The graph as it stands now."""

    @property
    def frames(self) -> Sequence[Frame]:
        """What happened, step by step."""

    def to_dict(self) -> dict[str, Any]:
        """Return the recording as plain JSON."""


class AutogradGraph(anywidget.AnyWidget):
    """The autograd graph with its saved tensors, and a player for what backward calls did to it.

    Parameters
    ----------
    recording : Recording
        What is shown.
    step : int, optional
        The position; the end where it is not given.

    Attributes
    ----------
    step : int
        How many frames have happened in the picture; 0 is before any. Setting it does what the
        slider does.
    """

    # As text: anywidget watches a path for changes, which keeps every view alive for ever.
    _esm = (STATIC / "widget.js").read_text("utf-8")
    _css = STYLE
    _recording = traitlets.Dict().tag(sync=True)
    _svg = traitlets.Unicode().tag(sync=True)
    _tree = traitlets.Unicode().tag(sync=True)  # instead of the picture, where none can be laid out
    _open = traitlets.List(traitlets.Unicode(), allow_none=True, default_value=None).tag(sync=True)
    # Without echo: a late one would throw the player back to where it was.
    step = traitlets.Int(0).tag(sync=True, echo_update=False)

    def __init__(self, recording: Recorded, *, step: int | None = None, **unknown: Any) -> None:
        if unknown:
            raise TypeError(
                f"AutogradGraph() got an unknown keyword: {', '.join(sorted(unknown))}. "
                "Valid keywords: step."
            )
        self._of = recording
        self._drawing: Drawing | None = None
        self._drawn: list[Any] = []
        self.update()
        if step is not None:
            self.step = step
        super().__init__()  # last: the message that opens the view in the browser then has it all

    @property
    def recording(self) -> Recorded:
        """The recording that is shown."""
        return self._of

    @recording.setter
    def recording(self, recording: Recorded) -> None:
        self._of = recording
        self.update()

    @property
    def graph(self) -> Graph:
        """The graph as it stands now."""
        return self._of.graph

    @property
    def frame(self) -> Frame | None:
        """The frame that the position stands after; None at step 0."""
        return self._of.frames[self.step - 1] if self.step else None

    @property
    def shown(self) -> int:
        """How many frames the browser has been sent."""
        return len(self._recording.get("frames", ()))

    def update(self) -> None:
        """Show what was recorded since; the position jumps to the end of it."""
        data = complete(cast(RecordingData, self._of.to_dict()))
        with self.hold_sync():
            self._recording = dict(data)
            self._lay_out()
            self.step = len(data["frames"])

    def _lay_out(self) -> None:
        """Lay out again, but only where what is drawn differs from what is laid out."""
        data = self._data
        stops = [frame["node"] for frame in data["frames"] if frame["kind"] == "stop"]
        parts = [data["nodes"], data["leaves"], data["roots"], data["edges"]]
        drawn = [parts, stops, self._open, rooms(data)]
        if drawn == self._drawn:
            return
        self._drawn = drawn
        self._drawing = plan(data, self._open)
        self._svg = "" if self._drawing is None else draw(data, self._drawing)
        self._tree = ""
        if self._drawing is None:
            why = NO_ENGINE if layout.find_engine() is None else NO_LAYOUT
            self._tree = f"{self.graph}\n\n{why}"

    @property
    def _data(self) -> RecordingData:
        return cast(RecordingData, self._recording)

    @traitlets.validate("step")
    def _within(self, proposal: Any) -> int:
        return max(0, min(int(proposal["value"]), len(self._recording.get("frames", ()))))

    @traitlets.observe("_open")
    def _opened(self, _: Any) -> None:
        self._lay_out()

    def still(self) -> str | None:
        """Return the picture at the present step as SVG; None where it cannot be laid out."""
        if self._drawing is None:
            return None
        return draw(self._data, self._drawing, state_at(self._data, self.step))

    @property
    def sentence(self) -> str:
        """The picture in words: the graph, and the frame that it stands after."""
        data = self._data
        frames = data["frames"][: self.step]
        text = clean(" ".join([data["summary"], *(frame["text"] for frame in frames[-1:])]))
        return text if text.endswith((".", "…")) else f"{text}."

    def image(self) -> str:
        """Return the picture as one HTML ``<img>``, or the tree where it cannot be laid out."""
        still = self.still()
        if still is None:
            return f"<pre>{html.escape(self._tree)}</pre>"
        code = base64.b64encode(still.encode()).decode()
        return f'<img alt="{html.escape(self.sentence)}" src="data:image/svg+xml;base64,{code}">'

    def __repr__(self) -> str:
        """Return how much is shown, and the position."""
        graph = self.graph
        nodes, edges = len(graph.nodes), len(graph.edges)
        return (
            f"AutogradGraph({nodes} node{'s' * (nodes != 1)}, {edges} edge{'s' * (edges != 1)}, "
            f"step={self.step})"
        )

    def _repr_mimebundle_(self, **options: Any) -> Any:
        if len(self._of.frames) != self.shown:  # something changed since the last call
            self.update()
        bundle = super()._repr_mimebundle_(**options)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return data | {"text/html": self.image(), "text/plain": str(self.graph)}, metadata
