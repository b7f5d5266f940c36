"""What nbval does not check of the notebooks, and a proof that it checks the rest."""

from __future__ import annotations

import base64
import copy
import json
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbval.plugin import get_sanitize_patterns

from regenerate import NOTEBOOKS, ROOT, SANITIZE, WIDGET_VIEW, course

TAGS = {"predict", "exercise", "nbval-ignore-output"}
MACHINE_PATH = re.compile(r"/(?:home|root|tmp|Users|work)/|site-packages|[A-Z]:\\\\")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PICTURE = re.compile(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)")
SAMPLES = {  # for each section of the sanitize file, text as a notebook prints it
    "version of torch": "torch 2.13.0+cpu",
}
FOLLOWS = {  # cells whose picture later cells change, and why that is the lesson
    "00_start_here/show-run": "the text says that it follows every call, and sends one back to it",
    "01_run_backward_twice/show-before": "the text says that each call below will change it",
    "01_run_backward_twice/first-call": "the same view: the second call is made on its graph",
    "07_differentiate_twice/create-show": "the text says that it followed call 2",
}
EVERY_NOTEBOOK = pytest.mark.parametrize("path", course(), ids=lambda path: path.stem)


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def code_cells(path: Path) -> list[Any]:
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def output_texts(path: Path) -> Iterator[str]:
    """Every text of every output, pictures decoded."""
    for cell in code_cells(path):
        for output in cell.outputs:
            text = json.dumps(output, ensure_ascii=False)
            yield PICTURE.sub("", text)
            yield from (base64.b64decode(code).decode() for code in PICTURE.findall(text))


@EVERY_NOTEBOOK
def test_every_cell_was_run_once_from_top_to_bottom(path: Path) -> None:
    counts = [cell.execution_count for cell in code_cells(path)]
    assert counts == list(range(1, len(counts) + 1))  # nbval compares no cell without a count


@EVERY_NOTEBOOK
def test_no_widget_state_or_view_is_stored(path: Path) -> None:
    assert set(read(path).metadata) == {"kernelspec", "language_info"}
    assert set(read(path).metadata.language_info) == {"name"}
    assert WIDGET_VIEW not in path.read_text(encoding="utf-8")


@EVERY_NOTEBOOK
def test_no_output_names_a_path_of_this_machine(path: Path) -> None:
    assert [text for text in output_texts(path) if MACHINE_PATH.search(text)] == []


@EVERY_NOTEBOOK
def test_cells_are_short(path: Path) -> None:
    cells = code_cells(path)
    assert max(len(cell.source.splitlines()) for cell in cells) <= 15
    told = [cell for cell in cells if not cell.metadata.get("tags")]
    lines = [sum(map(bool, cell.source.splitlines())) for cell in told]
    assert statistics.median(lines) <= 3  # what a learner reads between two questions


@EVERY_NOTEBOOK
def test_cells_have_no_tags_but_the_allowed_ones_and_no_marker_comments(path: Path) -> None:
    for cell in read(path).cells:
        assert set(cell.metadata) <= {"tags"}
        assert set(cell.metadata.get("tags", [])) <= TAGS
        assert not re.search(r"NBVAL|PYTEST_VALIDATE", cell.source)


def test_at_most_one_cell_of_the_course_is_not_compared() -> None:
    cells = [cell for path in course() for cell in code_cells(path)]
    tags = [tag for cell in cells for tag in cell.metadata.get("tags", [])]
    assert tags.count("nbval-ignore-output") <= 1


@EVERY_NOTEBOOK
def test_cell_ids_are_words_and_differ(path: Path) -> None:
    ids = [cell.id for cell in read(path).cells]
    assert len(set(ids)) == len(ids)
    assert [name for name in ids if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name)] == []


@EVERY_NOTEBOOK
def test_a_question_has_one_place_for_its_answer_and_is_checked(path: Path) -> None:
    cells = code_cells(path)
    asked = [cell for cell in cells if "predict" in cell.metadata.get("tags", [])]
    assert [cell.source.count("answer=...") for cell in asked] == [1] * len(asked)
    for cell in cells:
        tagged = "predict" in cell.metadata.get("tags", [])
        assert tagged == ("sp.predict(" in cell.source), cell.id
    checks = [cell for cell in cells if "sp.check(" in cell.source]
    exercises = [cell for cell in cells if "exercise" in cell.metadata.get("tags", [])]
    assert len(checks) >= len(asked) + len(exercises) > 0


@EVERY_NOTEBOOK
def test_unanswered_questions_are_said_to_be_so(path: Path) -> None:
    for cell in code_cells(path):
        if "sp.check(" in cell.source:
            assert [output.text for output in cell.outputs] == ["Not answered yet.\n"], cell.id


def sent(client: NotebookClient, model: str) -> dict[str, Any]:
    """What the browser was sent of a widget, and of the widgets that it consists of."""
    state = copy.deepcopy(client.widget_state.get(model, {}))
    parts = re.findall(r'"IPY_MODEL_(\w+)"', json.dumps(state.get("children", [])))
    return {model: state} | {part: own for one in parts for part, own in sent(client, one).items()}


@EVERY_NOTEBOOK
def test_what_a_cell_shows_is_still_shown_at_the_end_of_the_notebook(path: Path) -> None:
    """A view is live: a later cell that uses its graph would change it under its text."""
    shown: list[tuple[str, str, dict[str, Any]]] = []
    client = NotebookClient(
        read(path),
        timeout=60,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(NOTEBOOKS)}},
    )

    def keep(cell: Any, cell_index: int, execute_reply: Any) -> None:
        for output in cell.get("outputs", []):
            view = output.get("data", {}).get(WIDGET_VIEW)
            if view:
                shown.append((cell.id, view["model_id"], sent(client, view["model_id"])))

    client.on_cell_executed = keep
    client.execute()
    changed = {cell for cell, model, then in shown if sent(client, model) != then}
    assert any("_recording" in state for _, _, then in shown for state in then.values())
    assert changed == {
        cell for name, _, cell in map(lambda key: key.partition("/"), FOLLOWS) if name == path.stem
    }


@EVERY_NOTEBOOK
def test_links_between_notebooks_lead_somewhere(path: Path) -> None:
    prose = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    local = [link for link in LINK.findall(prose) if not link.startswith(("http", "#"))]
    assert [link for link in local if not (NOTEBOOKS / link.partition("#")[0]).exists()] == []
    following = dict(zip(course(), course()[1:], strict=False)).get(path)
    assert following is None or following.name in local


def test_the_map_has_every_notebook() -> None:
    prose = "\n".join(cell.source for cell in read(course()[0]).cells)
    assert [path.name for path in course()[1:] if f"({path.name})" not in prose] == []


def test_links_of_the_readme_lead_somewhere() -> None:
    links = LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    local = [link for link in links if not link.startswith(("http", "#"))]
    assert local
    assert [link for link in local if not (ROOT / link.partition("#")[0]).exists()] == []


def test_each_sanitize_rule_is_read_matches_its_sample_and_is_needed() -> None:
    text = SANITIZE.read_text(encoding="utf-8")
    sections = re.findall(r"^\[(.+)\]$", text, flags=re.MULTILINE)
    rules = get_sanitize_patterns(text)  # nbval passes over what it cannot read, without a word
    assert sections == list(SAMPLES)
    assert len(rules) == len(sections)
    printed = "\n".join(text for path in course() for text in output_texts(path))
    for (pattern, replacement), sample in zip(rules, SAMPLES.values(), strict=True):
        assert re.sub(pattern, replacement, sample) != sample
        assert re.search(pattern, printed), f"no notebook needs {pattern}"


def nbval(notebook: Path) -> tuple[int, str]:
    """Run strict nbval over one notebook and return the number of failed cells and the log."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-c",
            "pyproject.toml",
            "-p",
            "no:cacheprovider",
            notebook,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    failed = re.search(r"(\d+) failed", done.stdout)
    return int(failed[1]) if failed else 0, done.stdout


def alter_number(output: Any) -> bool:
    if output.output_type != "stream" or not re.search(r"\d", output.text):
        return False
    output.text = re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), output.text, count=1)
    return True


def alter_picture(output: Any) -> bool:
    page = output.get("data", {}).get("text/html", "")
    found = PICTURE.search(page)
    if not found:
        return False
    picture = base64.b64decode(found[1]).replace(b"held", b"none", 1)
    output.data["text/html"] = page.replace(found[1], base64.b64encode(picture).decode())
    return True


@pytest.mark.parametrize("alter", [alter_number, alter_picture])
def test_nbval_fails_when_one_stored_output_is_altered(alter: Any, tmp_path: Path) -> None:
    notebook = read(NOTEBOOKS / "01_run_backward_twice.ipynb")
    place = next(
        place
        for place, cell in enumerate(notebook.cells)
        if any(alter(output) for output in cell.get("outputs", []))
    )
    notebook.cells = notebook.cells[: place + 1]  # what follows need not be run for this
    nbformat.write(notebook, tmp_path / "altered.ipynb")
    shutil.copy(ROOT / "conftest.py", tmp_path)
    failed, log = nbval(tmp_path / "altered.ipynb")
    assert failed == 1, log
