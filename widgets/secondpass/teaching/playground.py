"""A playground: choose an expression and how backward is called, and see that very code run."""

from __future__ import annotations

import html
import warnings
from typing import Any

import anywidget
import ipywidgets
import traitlets

from secondpass.hearing import lines
from secondpass.hearing.loading import compile_marked
from secondpass.picture.widget import AutogradGraph
from secondpass.reading import places
from secondpass.replay.recording import Recording, record
from secondpass.teaching.snippet import (
    BETWEEN,
    EXPRESSIONS,
    MOST_PASSES,
    RETAIN,
    ZERO,
    ExpressionError,
    Snippet,
)

FILENAME = "playground"


class Playground(ipywidgets.VBox):  # type: ignore[misc]
    """Controls that build a snippet, and the replay of it beside its lines.

    Parameters
    ----------
    expression, passes, retain, create_graph, zero, between
        The choices to begin with, as the attributes of the same names.

    Attributes
    ----------
    expression : str
        Of ``x``, ``w``, numbers, + - * / ** and a few functions; it is parsed before it is run.
    passes : int
        How many times backward is run, 1 to 5.
    retain : str
        Which passes get ``retain_graph=True``: ``none``, ``all but the last`` or ``all``.
    create_graph : bool
    zero : str
        Between two passes: ``no``, ``x.grad.zero_()`` or ``x.grad = None``.
    between : str
        Between two passes: ``nothing``, ``rebuild y`` or ``detach y``.
    code : str
        The lines that were run, character for character.
    error : str
        What stopped them; empty where nothing did.
    view : AutogradGraph

    Examples
    --------
    >>> playground = Playground(expression="x**2", passes=2)
    >>> playground.view.frame.text
    'Call 2 stops in Pow: its saved tensor self was freed by call 1 (line 5).'
    >>> playground.retain = "all but the last"
    >>> [frame.text for frame in playground.view.recording.frames if frame.kind == "accumulate"]
    ['Call 1: x.grad = 4', 'Call 2: x.grad 4 + 4 = 8']
    """

    expression = traitlets.Unicode("x**2")
    passes = traitlets.Int(2, min=1, max=MOST_PASSES)
    retain = traitlets.Enum(RETAIN, "none")
    create_graph = traitlets.Bool(False)
    zero = traitlets.Enum(ZERO, "no")
    between = traitlets.Enum(BETWEEN, "nothing")

    def __init__(self, **choices: Any) -> None:
        unknown = sorted(set(choices) - set(_CHOICES))
        if unknown:
            raise TypeError(
                f"Playground() got an unknown keyword: {', '.join(unknown)}. "
                f"Valid keywords: {', '.join(_CHOICES)}."
            )
        super().__init__(**choices)
        self.code = ""
        self.error = ""
        self._ran: Snippet | None = None
        self._message = ipywidgets.HTML()
        self.view = AutogradGraph(_nothing_recorded())
        self.children = (*self._controls(), self.view, self._message)
        self.observe(self._run, list(_CHOICES))
        self._run()

    def _controls(self) -> list[ipywidgets.Widget]:
        style = {"description_width": "11em"}
        wide = {"width": "26em"}
        expression = ipywidgets.Combobox(
            description="y =",
            options=EXPRESSIONS,
            ensure_option=False,
            continuous_update=False,
            style=style,
            layout=wide,
        )
        passes = ipywidgets.IntSlider(
            description="passes", min=1, max=MOST_PASSES, style=style, layout=wide
        )
        controls = {
            "expression": expression,
            "passes": passes,
            "retain": _dropdown("retain_graph=True", RETAIN, style, wide),
            "zero": _dropdown("zero in between", ZERO, style, wide),
            "between": _dropdown("before a next pass", BETWEEN, style, wide),
            "create_graph": ipywidgets.Checkbox(
                description="create_graph=True", style={"description_width": "0"}, indent=True
            ),
        }
        for name, control in controls.items():
            traitlets.link((self, name), (control, "value"))
        grid = ipywidgets.Layout(grid_template_columns="repeat(auto-fill, minmax(26em, 1fr))")
        return [ipywidgets.GridBox(list(controls.values()), layout=grid)]

    def _run(self, _: Any = None) -> None:
        snippet = Snippet(**{name: getattr(self, name) for name in _CHOICES})
        if snippet == self._ran:
            return
        self._ran = snippet
        try:
            self.code = snippet.code()
        except ExpressionError as error:
            self.error = str(error)
            self._message.value = _note(self.error)
            return
        recording, self.error = run(self.code)
        self._message.value = _note(self.error) if self.error else ""
        self.view.recording = recording

    def __repr__(self) -> str:
        """Return the code that was run, and what stopped it."""
        return "\n".join(filter(None, (self.code, self.error)))

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        data = bundle[0] if isinstance(bundle, tuple) else bundle or {}
        # What a host must know of a widget that is not ipywidgets' own; in Colab, it is needed.
        _, metadata = anywidget.AnyWidget._repr_mimebundle_(self.view) or ({}, {})
        note = f"<p>{html.escape(self.error)}</p>" if self.error else ""
        picture = f"<pre>{html.escape(self.code)}</pre>{note}{self.view.image()}"
        return data | {"text/html": picture, "text/plain": repr(self)}, metadata


_CHOICES = ("expression", "passes", "retain", "create_graph", "zero", "between")


def run(code: str) -> tuple[Recording, str]:
    """Run a snippet and record it.

    Returns
    -------
    Recording
        What its calls did, up to where it stopped.
    str
        The message of the exception that stopped it; empty where none did.
    """
    places.set_source(FILENAME, code)
    lines.start()
    error = ""
    try:
        with record() as recording, warnings.catch_warnings():
            # create_graph warns of a reference cycle; these tensors die with the snippet.
            warnings.filterwarnings("ignore", message="Using backward.. with create_graph")
            try:
                exec(compile_marked(code, FILENAME), {"__name__": FILENAME})
            except Exception as stopped:
                error = f"{type(stopped).__name__}: {stopped}"
        recording.frames, recording.graph  # noqa: B018 - written while its tensors live
    finally:
        lines.stop()
    return recording, error


def _nothing_recorded() -> Recording:
    with record() as recording:
        pass
    return recording


def _dropdown(name: str, options: tuple[str, ...], style: Any, layout: Any) -> ipywidgets.Dropdown:
    return ipywidgets.Dropdown(description=name, options=options, style=style, layout=layout)


def _note(text: str) -> str:
    return (
        '<p role="alert" style="line-height: 1.5; margin: 0.5em 0">'
        f"<b>Stopped.</b> {html.escape(text)}</p>"
    )
