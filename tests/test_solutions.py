"""The answers to the course's questions: right ones are found right, wrong ones are not.

``solutions/NN_….toml`` holds, for each cell that asks, what is put in place of its ``...``.
That nothing raises where nothing was answered is what nbval tests: the notebooks are stored so.
"""

from __future__ import annotations

import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
import pytest

from regenerate import ROOT, course, run

SOLUTIONS = ROOT / "tests" / "solutions"


def asks(cell: Any) -> bool:
    return bool({"predict", "exercise"} & set(cell.metadata.get("tags", [])))


def answered(path: Path, kind: str) -> Any:
    """Return a notebook with the answers of one kind filled in."""
    answers = tomllib.loads((SOLUTIONS / f"{path.stem}.toml").read_text(encoding="utf-8"))
    notebook = nbformat.read(path, as_version=4)
    asking = [cell for cell in notebook.cells if asks(cell)]
    assert [cell.id for cell in asking] == list(answers)
    for cell in asking:
        answer = answers[cell.id][kind]
        block = "\n" if "\n" in answer else ""  # TOML drops a block's first line break
        cell.source = cell.source.replace("...", block + answer, 1)
    return notebook


def verdicts(notebook: Any) -> dict[str, str]:
    """Return what each check printed last, by cell."""
    return {
        cell.id: cell.outputs[-1].text.splitlines()[-1]
        for cell in notebook.cells
        if "sp.check(" in cell.source
    }


@pytest.mark.parametrize("path", course(), ids=lambda path: path.stem)
def test_right_answers_are_right_and_wrong_ones_not_yet(path: Path) -> None:
    notebooks = [answered(path, "right"), answered(path, "wrong")]
    with ThreadPoolExecutor() as both:  # most of the time goes into starting kernels
        list(both.map(run, notebooks))
    right, wrong = map(verdicts, notebooks)
    assert len(right) == len(wrong) == sum(map(asks, notebooks[0].cells))
    assert {place: said for place, said in right.items() if said != "Right."} == {}
    assert {place: said for place, said in wrong.items() if not said.startswith("Not yet.")} == {}
