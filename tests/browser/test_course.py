"""The notebooks as a learner meets them: opened in a browser, run through the menu, looked at."""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import OpenNotebookFunction
from playwright.sync_api import expect

from regenerate import NOTEBOOKS, course

EVERY_NOTEBOOK = pytest.mark.parametrize("path", course(), ids=lambda path: path.stem)
EVERY_PLACE = pytest.mark.parametrize(
    ("app", "theme"),
    [("lab", "light"), ("lab", "dark"), ("notebooks", "light"), ("notebooks", "dark")],
)
PICTURE = re.compile(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)")
FIRST_CALL = NOTEBOOKS / "01_run_backward_twice.ipynb"
THEME = os.environ.get("SECONDPASS_THEME", "light")
SOON_MS = 200
ROUNDS = 3

WATCH_CHIP = """() => {
  const view = document.querySelector(".secondpass");
  window.grey = 0;
  new MutationObserver((_, observer) => {
    if (!view.querySelector(".slot.freed")) return;
    window.grey = performance.now();
    observer.disconnect();
  }).observe(view, { attributes: true, childList: true, subtree: true });
}"""


def code_cells(path: Path) -> list[Any]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def nodes_in_pictures(path: Path) -> list[int]:
    """For each picture that is stored in a notebook, the number of Nodes drawn in it."""
    pages = [
        output.get("data", {}).get("text/html", "")
        for cell in code_cells(path)
        for output in cell.outputs
    ]
    pictures = [base64.b64decode(code).decode() for code in PICTURE.findall("\n".join(pages))]
    return [len(re.findall(r'class="node[ "]', picture)) for picture in pictures]


def place_of(path: Path, cell_id: str) -> int:
    return next(place for place, cell in enumerate(code_cells(path)) if cell.id == cell_id)


@EVERY_NOTEBOOK
def test_a_notebook_shows_its_stored_pictures_then_runs_and_draws_their_nodes(
    path: Path, open_notebook: OpenNotebookFunction
) -> None:
    notebook = open_notebook(path, theme=THEME)
    stored = nodes_in_pictures(path)
    assert stored
    expect(notebook.page.locator(".jp-OutputArea img[src^='data:image/svg']")).to_have_count(
        len(stored)
    )
    notebook.run_all()
    views = notebook.page.locator(".jp-OutputArea .secondpass")
    expect(views).to_have_count(len(stored))
    for place, view in enumerate(views.all()):
        # All of a stored picture; a view may have grown since, by later calls through its graph.
        expect(view.locator("g.node").nth(stored[place] - 1)).to_be_attached()
        notebook.picture(f"{path.stem}_{place}_{THEME}", of=view)
    expect(notebook.page.get_by_text("Error displaying widget")).to_have_count(0)
    assert notebook.complaints == []


@EVERY_PLACE
def test_a_chip_is_grey_soon_after_the_cell_that_freed_it(
    app: str, theme: str, open_notebook: OpenNotebookFunction
) -> None:
    notebook = open_notebook(FIRST_CALL, app, theme)
    number = place_of(FIRST_CALL, "first-call")
    first = notebook.page.locator(".secondpass").first
    delays = []
    for _ in range(ROUNDS):
        notebook.run_above(number)
        expect(first.locator("g.node")).to_have_count(1)
        expect(first.locator(".slot.held")).to_have_count(1)
        expect(first.locator(".slot.freed")).to_have_count(0)
        notebook.page.evaluate(WATCH_CHIP)
        notebook.watch(number)
        notebook.page.keyboard.press("Shift+Enter")
        notebook.wait_until_done()
        notebook.page.wait_for_function("window.grey")
        delays.append(notebook.page.evaluate("window.grey - window.done"))
    print("ms from the cell's end to the grey chip:", *map(round, delays))
    assert max(delays) <= SOON_MS
    first.scroll_into_view_if_needed()
    notebook.picture(f"freed_{app}_{theme}")
    assert notebook.complaints == []


@EVERY_PLACE
def test_questions_and_replays_are_used_by_keyboard_alone(
    app: str, theme: str, open_notebook: OpenNotebookFunction
) -> None:
    notebook = open_notebook(FIRST_CALL, app, theme)
    notebook.run_all()
    page = notebook.page
    radios = page.locator("input[type=radio]")
    radios.first.focus()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    expect(radios.nth(1)).to_be_checked()
    view = page.locator(".secondpass").first
    view.locator(".play").focus()
    page.keyboard.press("Home")
    expect(view.locator(".counter")).to_contain_text(re.compile(r"\b0 of \d+"))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(view.locator(".say")).to_contain_text("Call 1 runs Pow")
    notebook.picture(f"keys_{app}_{theme}")
    assert notebook.complaints == []
