"""Committed notebooks where nothing runs: a fresh clone, no kernel, nbconvert's page, GitHub.

What GitHub lets through is not documented to the letter; here it is what its pages are known to
drop: scripts, styles, inline SVG, every attribute that could run.
"""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bleach
import nbformat
import pytest
from conftest import READY, START_SECONDS, Server
from nbconvert import HTMLExporter
from nbformat.sign import NotebookNotary
from playwright.sync_api import Browser, Page, expect

sys.path.insert(0, str(Path(__file__).parents[1]))

from regenerate import course

EVERY_NOTEBOOK = pytest.mark.parametrize("path", course(), ids=lambda path: path.stem)
SOME = [path for path in course() if path.name[:2] in ("01", "08", "11")]
SENTENCE = re.compile(r"[A-Z].{20,}\.", re.DOTALL)
RUNS_IF_TRUSTED = "<p>probe</p><script>window.trusted = true</script>"
PICTURES = """() => [...document.querySelectorAll("img[src^='data:image/svg']")].map((one) => ({
  alt: one.alt, width: one.naturalWidth, shown: one.getBoundingClientRect().width > 0 }))"""
GITHUB_DROPS = {"script", "style", "svg", "iframe", "object", "embed", "form", "input", "link"}


def alts(path: Path) -> list[str]:
    """The alternative text of every picture that is stored in a notebook."""
    outputs = [out for cell in nbformat.read(path, 4).cells for out in cell.get("outputs", [])]
    text = "".join(out.get("data", {}).get("text/html", "") for out in outputs)
    return re.findall(r'<img alt="([^"]*)" src="data:image/svg', text)


@EVERY_NOTEBOOK
def test_every_picture_is_told_in_whole_sentences(path: Path) -> None:
    assert alts(path)
    assert [alt for alt in alts(path) if not SENTENCE.fullmatch(alt)] == []


def check_pictures(page: Page, path: Path) -> None:
    found = page.evaluate(PICTURES)
    assert [one["alt"].replace('"', "&quot;") for one in found] == [
        alt.replace("&#x27;", "'").replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
        for alt in alts(path)
    ]
    assert all(one["width"] > 0 and one["shown"] for one in found)


@pytest.fixture
def open_file(browser: Browser, tmp_path: Path) -> Iterator[Callable[[str], Page]]:
    """Open a text as a page, with the network cut."""
    context = browser.new_context(offline=True)

    def open_one(text: str) -> Page:
        (tmp_path / "page.html").write_text(f"<meta charset=utf-8>{text}", encoding="utf-8")
        page = context.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        return page

    yield open_one
    context.close()


@pytest.mark.parametrize("path", SOME, ids=lambda path: path.stem)
def test_a_page_that_nbconvert_makes_has_the_pictures(path: Path, open_file: Any) -> None:
    text, _ = HTMLExporter().from_filename(str(path))
    check_pictures(open_file(text), path)


@pytest.mark.parametrize("path", SOME, ids=lambda path: path.stem)
def test_what_github_leaves_of_an_output_has_the_pictures(path: Path, open_file: Any) -> None:
    outputs = [out for cell in nbformat.read(path, 4).cells for out in cell.get("outputs", [])]
    text = "".join(out.get("data", {}).get("text/html", "") for out in outputs)
    used = set(re.findall(r"<([a-z]+)", text))
    assert not used & GITHUB_DROPS
    left = bleach.clean(
        text, tags=used, attributes={"img": ["src", "alt"]}, protocols={"data"}, strip=True
    )
    check_pictures(open_file(left), path)


@pytest.mark.parametrize("trusted", [False, True], ids=["fresh clone", "trusted"])
def test_a_notebook_without_a_kernel_shows_its_pictures_and_no_error(
    trusted: bool, browser: Browser, server: Server
) -> None:
    path = SOME[0]
    folder = server.folder / secrets.token_hex(4)
    folder.mkdir()
    notebook = nbformat.read(path, as_version=4)
    probe = nbformat.v4.new_output("display_data", data={"text/html": RUNS_IF_TRUSTED})
    notebook.cells.append(nbformat.v4.new_code_cell("probe", execution_count=99, outputs=[probe]))
    copy = folder / path.name
    nbformat.write(notebook, copy)
    if trusted:
        notary = NotebookNotary(data_dir=str(server.settings.parent / "data"))
        notary.sign(nbformat.read(copy, as_version=4))
        notary.store.close()
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    page.goto(server.address(copy, "lab"))
    for sign in READY:
        expect(page.locator(sign).first).to_be_visible(timeout=START_SECONDS * 1000)
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_role("menuitem", name="Shut Down Kernel", exact=True).click()
    name = page.locator(".jp-Toolbar-kernelName")
    expect(name).to_have_text("No Kernel", timeout=START_SECONDS * 1000)
    expect(page.locator(".jp-OutputArea img[src^='data:image/svg']").first).to_be_visible()
    page.locator(".jp-OutputArea", has_text="probe").scroll_into_view_if_needed()
    assert page.evaluate("window.trusted === true") == trusted
    for _ in alts(path):  # a picture out of sight is attached when it is scrolled to
        page.mouse.wheel(0, -400)
    check_pictures(page, path)
    expect(page.get_by_text(re.compile("Error displaying widget|model not found"))).to_have_count(0)
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.close()
