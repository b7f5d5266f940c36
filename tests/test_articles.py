"""The two articles: which cell runs each of their snippets, and which decides each claim."""

from __future__ import annotations

import re
from typing import Any

import nbformat
import pytest

from regenerate import NOTEBOOKS

CHECKED = "10_check_the_articles"
VERDICTS = {"holds", "half", "does not hold"}

# The code of each snippet, as it stands in its article, without comments and imports; then the
# cells that run it word for word, and those that walk through it.
SNIPPETS = {
    "article 1, the error": (
        ["x = torch.tensor([2.0], requires_grad=True)", "y = x**2", "y.backward()", "try:",
         "y.backward()", "except RuntimeError as e:", "print(e)"],
        f"{CHECKED}/article-1-first",
        "01_run_backward_twice/forward 01_run_backward_twice/first-call "
        "01_run_backward_twice/second-call",
    ),
    "article 1, retain_graph": (
        ["x = torch.tensor([2.0], requires_grad=True)", "y = x**2",
         "y.backward(retain_graph=True)", "print(x.grad)", "y.backward(retain_graph=True)",
         "print(x.grad)"],
        f"{CHECKED}/article-1-second",
        "02_keep_the_graph/article-1-run",
    ),
    "article 1, the loop": (
        ["x = torch.tensor([2.0], requires_grad=True)", "y = x**2", "for _ in range(2):",
         "y.backward(retain_graph=True)", "print(x.grad)", "x.grad.zero_()"],
        f"{CHECKED}/article-1-third",
        "03_watch_gradients_accumulate/loop-run",
    ),
    "article 1, Detach": (
        ["x = torch.tensor([2.0], requires_grad=True)", "y = x**2", "y.backward()", "y = x**2",
         "y.backward()", "print(x.grad)"],
        f"{CHECKED}/article-1-fourth",
        "04_rebuild_the_graph/article-1-run",
    ),
    "article 2, the error": (
        ["x = torch.tensor(2.0, requires_grad=True)", "y = x ** 2",
         "[y.backward() for _ in range(2)]"],
        f"{CHECKED}/article-2-example",
        "01_run_backward_twice/article-2-run",
    ),
    "article 2, retain_graph": (
        ["x = torch.tensor(2.0, requires_grad=True)", "y = x ** 2",
         "[y.backward(retain_graph=True) for _ in range(2)]"],
        f"{CHECKED}/article-2-retain",
        "02_keep_the_graph/article-2-run",
    ),
    "article 2, recompute": (
        ["x = torch.tensor(2.0, requires_grad=True)", "def compute_gradients(x):", "y = x ** 2",
         "y.backward()", "compute_gradients(x)", "compute_gradients(x)"],
        f"{CHECKED}/article-2-recompute",
        "04_rebuild_the_graph/article-2-run",
    ),
    "article 2, requires_grad": (
        ["x = torch.tensor(2.0)", "x.requires_grad_(True)", "..."],
        f"{CHECKED}/article-2-requires-grad",
        "",
    ),
}  # fmt: skip

# For each claim, the cells of notebook 10 that decide it.
DECIDED_BY = {
    "1.1": "message-1", "1.2": "stage-run", "1.3": "weights-backward weights-step",
    "1.4": "dynamic-run", "1.5": "default-show", "1.6": "default-before default-after",
    "1.7": "default-show", "1.8": "again-run", "1.9": "article-1-first-grad",
    "1.10": "reset-run", "1.11": "article-1-first", "1.12": "article-1-second",
    "1.13": "article-1-second", "1.14": "accumulate-run", "1.15": "article-1-third",
    "1.16": "article-1-third", "1.17": "fourth-detach", "1.18": "article-1-fourth",
    "1.19": "states-run", "1.20": "reset-run", "1.21": "ensure-rebuild ensure-detach",
    "2.1": "message-2", "2.2": "higher-without higher-after",
    "2.3": "attempts-run attempts-add", "2.4": "attempts-run attempts-add",
    "2.5": "attempts-add", "2.6": "gpu-device", "2.7": "stability-run",
    "2.8": "accumulate-run article-2-example", "2.9": "article-2-example",
    "2.10": "example-left", "2.11": "article-2-retain", "2.12": "retain-left",
    "2.13": "ensures-run", "2.14": "memory-run", "2.15": "recompute-grad",
    "2.16": "recompute-grad", "2.17": "logic-run ensure-rebuild", "2.18": "state-run",
    "2.19": "requires-same requires-run", "2.20": "solve-add",
    "2.21": "article-2-retain recompute-grad solve-add",
    "2.22": "memory-run solve-retain solve-add",
}  # fmt: skip


def cells(notebook: str) -> dict[str, Any]:
    path = NOTEBOOKS / f"{notebook}.ipynb"
    return {cell.id: cell for cell in nbformat.read(path, as_version=4).cells}


def verdicts() -> list[tuple[str, str, str]]:
    """Number, words and verdict of each claim, from the tables at the end of notebook 10."""
    tables = [cell.source for name, cell in cells(CHECKED).items() if name.startswith("verdicts-")]
    rows = re.findall(r"^\| (\d\.\d+) \| (.+) \| (.+) \|$", "\n".join(tables), flags=re.MULTILINE)
    assert len(tables) == 2
    return rows


def code(lines: list[str]) -> list[str]:
    """Lines of code without comments, indentation and the spaces that a formatter changes."""
    plain = [re.sub(r"\s+", "", line.partition("#")[0]) for line in lines]
    return [line for line in plain if line]


def is_within(wanted: list[str], lines: list[str]) -> bool:
    """Say whether lines stand in a text, in this order."""
    rest = iter(lines)
    return all(line in rest for line in wanted)


@pytest.mark.parametrize("name", SNIPPETS)
def test_each_snippet_is_run_word_for_word(name: str) -> None:
    snippet, place, _ = SNIPPETS[name]
    notebook, _, cell_id = place.partition("/")
    cell = cells(notebook)[cell_id]
    assert cell.execution_count
    assert is_within(code(snippet), code(cell.source.splitlines()))


@pytest.mark.parametrize("name", SNIPPETS)
def test_each_snippet_is_walked_through_in_the_notebook_that_teaches_it(name: str) -> None:
    snippet, _, places = SNIPPETS[name]
    lines = []
    for place in places.split():
        notebook, _, cell_id = place.partition("/")
        lines += cells(notebook)[cell_id].source.splitlines()
    wanted = {line for line in code(snippet) if not line.startswith(("except", "print(e)"))}
    assert not places or wanted <= set(code(lines))


def test_each_claim_has_a_verdict_and_a_cell_that_decides_it() -> None:
    assert [number for number, _, _ in verdicts()] == list(DECIDED_BY)
    deciding = cells(CHECKED)
    for number, places in DECIDED_BY.items():
        found = [deciding[place] for place in places.split()]
        assert all(cell.cell_type == "code" and cell.execution_count for cell in found), number
        assert any(cell.outputs for cell in found), number


def test_each_claim_is_quoted_and_judged_in_the_text_as_in_the_table() -> None:
    prose = "\n".join(
        cell.source
        for name, cell in cells(CHECKED).items()
        if cell.cell_type == "markdown" and not name.startswith("verdicts-")
    )
    for number, _, verdict in verdicts():
        assert verdict in VERDICTS
        assert re.search(rf"\*\*{re.escape(number)}\*\*", prose), f"{number} is not quoted"
    assert {verdict for _, _, verdict in verdicts()} == VERDICTS


def test_the_words_in_the_table_are_those_that_the_text_quotes() -> None:
    prose = "\n".join(
        cell.source for name, cell in cells(CHECKED).items() if not name.startswith("verdicts-")
    )
    for number, words, _ in verdicts():
        for quote in re.findall(r'"([^"]+)"', words):
            assert quote in prose, f"{number}: {quote}"
