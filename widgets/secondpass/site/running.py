"""Run a notebook for a page: every view and question is kept as it stood when it was shown."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nbclient import NotebookClient
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode

from secondpass.picture.page import STATE
from secondpass.teaching.exercises import KEY, NOT_ANSWERED

PLAYER = "application/vnd.secondpass.player+json"
"""The state of a view, for the page's player; ``text/html`` beside it has the still."""

QUESTION = "application/vnd.secondpass.question+json"
"""A question with its key."""

VERDICT = "application/vnd.secondpass.verdict+json"
"""The place of a check's verdict on the answer to a question of the page."""

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

_MODEL = "IPY_MODEL_"


@dataclass
class Shown:
    """A widget in an output: which one, where, and its state at that moment."""

    model: str
    cell: int
    output: NotebookNode
    state: dict[str, Any]
    inside: bool
    """Another widget, with controls, was shown, and this one is a part of it."""


class Listener(NotebookClient):
    """Runs a notebook and notes each widget that is shown, and where a question was judged."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.shown: list[Shown] = []
        self.judged: dict[str, int] = {}

    def output(
        self, outs: list[NotebookNode], msg: dict[str, Any], display_id: str | None, cell_index: int
    ) -> NotebookNode | None:
        """Keep an output; if it is a widget, with a copy of the widget's state."""
        output = super().output(outs, msg, display_id, cell_index)
        if output is None:
            return None
        if output.output_type == "stream" and len(outs) > 1:
            _join(outs)
        view = output.get("data", {}).pop(WIDGET_VIEW, None)
        whole = str(view.get("model_id")) if isinstance(view, dict) else ""
        for model in self._family(whole):
            state = dict(self.widget_state[model])
            self.shown.append(Shown(model, cell_index, output, state, model != whole))
        return output

    def handle_comm_msg(
        self, outs: list[NotebookNode], msg: dict[str, Any], cell_index: int
    ) -> None:
        """Keep what a widget says of its state."""
        super().handle_comm_msg(outs, msg, cell_index)
        if msg["content"]["data"].get("state", {}).get("_key"):
            self.judged[msg["content"]["comm_id"]] = cell_index

    def _family(self, model: str) -> Iterator[str]:
        """Yield a widget and those inside it, as a box has them."""
        state = self.widget_state.get(model)
        if state is not None:
            yield model
            for child in state.get("children", ()):
                yield from self._family(str(child).removeprefix(_MODEL))


def _join(outs: list[NotebookNode]) -> None:
    """Put what a stream said in two parts together; nbclient's way takes ages over long lines."""
    before, last = outs[-2:]
    if before.output_type == "stream" and before.name == last.name:
        before.text += last.text
        outs.pop()


class Run(Preprocessor):
    """Runs a notebook in its own folder and puts views and questions into its outputs as data."""

    def __init__(self, *, timeout: int = 120, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._timeout = timeout

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Run the notebook; the outputs that are stored in it are dropped."""
        client = Listener(
            nb,
            timeout=self._timeout,
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": resources["metadata"]["path"]}},
            record_timing=False,
        )
        client.execute(env={**os.environ, KEY: "1"})
        nb.metadata.pop("widgets", None)
        resources["players"] = players = []
        for one in client.shown:
            last = client.widget_state[one.model]
            if "_recording" in one.state:
                state = one.output.data[PLAYER] = player_state(one.state, last)
                one.output.metadata["needs_kernel"] = one.inside
                players.append((one.output.data["text/html"], state))
            elif "question" in one.state and last.get("_key", {}).get("right"):
                one.output.data[QUESTION] = {
                    name: last[name] for name in ("question", "choices", "_key")
                }
                _cover(nb.cells, one, client.judged[one.model])
        return nb, resources


def player_state(shown: dict[str, Any], last: dict[str, Any]) -> dict[str, Any]:
    """Return what a player is given: all that was recorded in the end, at the step of then.

    A view that follows its graph has grown since it was shown; one that was given another
    recording stays as it was.
    """
    before, after = shown["_recording"], last["_recording"]
    same = [before[part] == after[part] for part in ("nodes", "leaves", "roots")]
    grown = all(same) and after["frames"][: len(before["frames"])] == before["frames"]
    state = {name: (last if grown else shown)[name] for name in STATE}
    return state | {"step": shown["step"]}


def _cover(cells: list[NotebookNode], question: Shown, judged: int) -> None:
    """Have what answers a question wait for its answer, and the check speak of it."""
    name = f"question-{question.cell}"
    question.output.data[QUESTION]["id"] = name
    _hide_source(cells[question.cell])
    for cell in cells[question.cell + 1 : judged]:
        cell.metadata["waits_for"] = name
    for output in cells[judged].outputs:
        if output.get("text", "").strip() == NOT_ANSWERED:
            data = {VERDICT: {"of": name}, "text/plain": NOT_ANSWERED}
            output.clear()
            output.update(NotebookNode(output_type="display_data", data=data, metadata={}))
            _hide_source(cells[judged])


def _hide_source(cell: NotebookNode) -> None:
    """Leave out the code of a cell whose one output says all of it; nbconvert's own mark."""
    if len(cell.outputs) == 1 and _is_plain(cell.source):
        cell.metadata["transient"] = {"remove_source": True}


def _is_plain(source: str) -> bool:
    """Say whether code is no more than a call, or one that is named and then shown."""
    try:
        statements = ast.parse(source).body
    except SyntaxError:  # magics
        return False
    kinds = [type(statement) for statement in statements]
    return kinds in ([ast.Expr], [ast.Assign, ast.Expr])
