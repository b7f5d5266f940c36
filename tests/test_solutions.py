"""The answers to the course's questions: right ones are found right, wrong ones are not.

``solutions/NN_….toml`` holds, for each cell that asks, what is put in place of its ``...``: one
answer, or a list where several ways of being right or wrong were taken for the other once.
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


def answered(path: Path, kind: str) -> list[Any]:
    """Return notebooks with the answers of one kind filled in, as many as an answer has ways."""
    answers = tomllib.loads((SOLUTIONS / f"{path.stem}.toml").read_text(encoding="utf-8"))
    ways = {
        name: one[kind] if isinstance(one[kind], list) else [one[kind]]
        for name, one in answers.items()
    }
    notebooks = []
    for way in range(max(map(len, ways.values()))):
        notebook = nbformat.read(path, as_version=4)
        asking = [cell for cell in notebook.cells if asks(cell)]
        assert [cell.id for cell in asking] == list(ways)
        for cell in asking:
            answer = ways[cell.id][min(way, len(ways[cell.id]) - 1)]
            block = "\n" if "\n" in answer else ""  # TOML drops a block's first line break
            cell.source = cell.source.replace("...", block + answer, 1)
        notebooks.append(notebook)
    return notebooks


def verdicts(notebook: Any) -> dict[str, str]:
    """Return what each check printed last, by cell."""
    return {
        cell.id: cell.outputs[-1].text.splitlines()[-1]
        for cell in notebook.cells
        if "sp.check(" in cell.source
    }


@pytest.mark.parametrize("path", course(), ids=lambda path: path.stem)
def test_right_answers_are_right_and_wrong_ones_not_yet(path: Path) -> None:
    right, wrong = answered(path, "right"), answered(path, "wrong")
    with ThreadPoolExecutor(2) as both:  # most of the time goes into starting kernels
        list(both.map(run, right + wrong))
    asked = sum(map(asks, right[0].cells))
    for notebook in right:
        said = verdicts(notebook)
        assert {place: text for place, text in said.items() if text != "Right."} == {}
        assert len(said) == asked
    for notebook in wrong:
        said = verdicts(notebook)
        assert {place: text for place, text in said.items() if text[:8] != "Not yet."} == {}
        assert len(said) == asked
