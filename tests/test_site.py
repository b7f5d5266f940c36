"""The course as pages: what is in them, and what the builder says of what it cannot build."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import runpy
import tempfile
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import pytest
from bs4 import BeautifulSoup

from pages import PAGES, command, site
from regenerate import NOTEBOOKS, ROOT, course
from sample import sample
from secondpass.site.build import read_entries
from secondpass.site.gallery import cases, changed
from secondpass.site.pages import Course, Entry, clean, formula
from secondpass.site.running import player_state

EVERY_PAGE = pytest.mark.parametrize("name", PAGES)
MESSAGE = "Trying to backward through the graph a second time"


def soup(name: str) -> BeautifulSoup:
    return BeautifulSoup((site() / name).read_text(encoding="utf-8"), "html.parser")


@EVERY_PAGE
def test_the_policy_allows_what_is_in_the_page_and_nothing_else(name):
    page = soup(name)
    policy = page.find("meta", {"http-equiv": True})["content"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules.pop("default-src") == rules.pop("base-uri") == rules.pop("form-action") == "'none'"
    assert rules.pop("img-src") == "data:"
    for rule, found in (
        ("script-src", page.find_all("script")),
        ("style-src", page.find_all("style")),
    ):
        texts = [one.get_text() for one in found if one.get("type") != "application/json"]
        codes = [base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in texts]
        assert rules.pop(rule) == " ".join(f"'sha256-{code.decode()}'" for code in codes)
    assert not rules


@EVERY_PAGE
def test_a_page_needs_no_other_file(name):
    page = soup(name)
    assert not page.find_all(["iframe", "object", "embed", "form", "base"])
    for tag in page.find_all(True):
        assert not [key for key in tag.attrs if key.startswith("on") or key == "style"], tag
        assert tag.get("src", "data:image/").startswith("data:image/")
        if tag.name == "link":
            assert tag["href"] == "data:,"


@EVERY_PAGE
def test_links_lead_to_pages_of_the_site_and_to_parts_that_are_there(name):
    there = {f"{path.stem}.html" for path in course()} | {path.name for path in course()[:2]}
    there |= {"index.html", *(f"gallery/{case.name}.html" for case in cases())}
    links = [urlsplit(link["href"]) for link in soup(name).find_all("a", href=True)]
    assert len(links) > 5
    for link in links:
        if link.scheme:
            assert link.scheme == "https"
            continue
        path = (Path(name).parent / link.path).as_posix() if link.path else name
        path = path.removeprefix("gallery/../")
        assert path in there
        if link.fragment and (site() / path).exists() and path.endswith(".html"):
            assert soup(path).find(id=link.fragment), link.geturl()


@pytest.mark.parametrize("path", course()[:2], ids=lambda path: path.stem)
def test_a_page_has_every_picture_and_question_of_its_notebook(path):
    page = soup(f"{path.stem}.html")
    outputs = [out for cell in nbformat.read(path, 4).cells for out in cell.get("outputs", [])]
    stored = [out.get("data", {}).get("text/html", "") for out in outputs]
    stills = [text for text in stored if text.startswith("<img")]
    players = page.select("[data-secondpass]")
    assert [one.img["src"] for one in players] == [
        BeautifulSoup(text, "html.parser").img["src"] for text in stills
    ]
    assert all(one.img["alt"].endswith(".") and one.script for one in players)
    questions = [
        json.loads(one.script.get_text()) for one in page.select("[data-secondpass-question]")
    ]
    answers = tomllib.loads((ROOT / "tests" / "solutions" / f"{path.stem}.toml").read_text("utf-8"))
    right = [one["right"] for name, one in answers.items() if name.startswith("predict")]
    assert [str(one["_key"]["right"][0]).removesuffix(".0") for one in questions] == [
        text.strip("'") for text in right
    ]


def test_what_answers_a_question_waits_for_it_and_exercises_say_that_they_need_a_kernel():
    page = soup("01_run_backward_twice.html")
    names = [one["id"] for one in page.select("[data-secondpass-question]")]
    assert len(names) == len(set(names)) == 3
    for name in names:
        assert page.select(f"details[data-waits-for={name}]:not([open])")
        assert page.select_one(f"[data-verdict-of={name}]").get_text() == "Not answered yet."
    exercises = page.select(".exercise")
    assert len(exercises) == 2
    assert all("needs a kernel" in one.get_text() for one in exercises)


def test_a_view_that_grew_is_shown_at_its_step_and_one_that_was_replaced_as_it_was():
    last = {"_recording": sample(), "_svg": "<svg/>", "_tree": "", "step": 13}
    first = last | {"_recording": sample() | {"frames": sample()["frames"][:2]}, "step": 2}
    assert player_state(first, last) == last | {"step": 2}
    other = last | {"_recording": sample() | {"frames": sample()["frames"][1:]}}
    assert player_state(first, other) == first


def test_the_index_has_the_map_the_times_the_message_and_the_gallery():
    page = soup("index.html")
    listed = page.select_one("ol.list").get_text(" ")
    assert "Why is my gradient 8 and not 4?" in listed
    assert listed.count(" min") == len(course())
    assert [one.get_text() for one in page.select("ol.list .number")] == [
        path.name[:2] for path in course()
    ]  # as the notebooks speak of each other
    assert MESSAGE in page.select_one(".error").get_text()
    assert [b.get_text() for b in page.select("ul.list b")] == [
        BeautifulSoup(case.title, "html.parser").get_text() for case in cases()
    ]
    state = json.loads(page.select_one("[data-secondpass] script").get_text())
    assert state["_recording"]["frames"][state["step"] - 1]["kind"] == "stop"


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("gallery/")])
def test_a_gallery_page_has_the_whole_explanation(name):
    words = soup(name).select_one(".explanation").get_text().strip()
    assert words.startswith("secondpass: ") and len(words.splitlines()) > 1
    assert "With its picture" not in words and tempfile.gettempdir() not in words


def test_a_gallery_page_has_the_error_the_code_the_explanation_and_the_mended_code():
    page = soup("gallery/hidden_state.html")
    assert MESSAGE in page.select_one(".error").get_text()
    assert "reached again through `hidden`" in page.select_one(".explanation").get_text()
    marked = [one.get_text() for one in page.select(".broken .hll")]
    assert [re.sub(r"^ *\d+ *", "", line).strip() for line in marked] == [
        "output, hidden = rnn(batch, hidden)",
        "loss.backward()",
    ]
    assert any("detach" in one.get_text() for one in page.select(".mended .hll"))
    state = json.loads(page.select_one("[data-secondpass] script").get_text())
    assert state["_recording"]["sources"][0]["name"] == "train.py"


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_case_of_the_gallery_stops_and_its_mended_code_does_not(case):
    with pytest.raises(RuntimeError) as stopped:
        runpy.run_path(str(case.folder / "train.py"))
    words = {"in_place": "inplace operation", "no_graph": "does not require grad"}
    assert words.get(case.name, MESSAGE) in str(stopped.value)
    runpy.run_path(str(case.folder / "mended.py"))
    broken, mended = ((case.folder / name).read_text() for name in ("train.py", "mended.py"))
    assert 0 < len(changed(broken, mended)) <= 4
    assert case.title and case.lead.endswith(".") and case.change.endswith(".")


def test_there_are_ten_cases():
    assert len({case.title for case in cases()}) == 10


def notebook(folder: Path, name: str, *cells: str) -> None:
    """Write a notebook of markdown cells and, after ``>``, code cells."""
    made = nbformat.v4.new_notebook()
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "", "language": "python"}
    for text in cells:
        new = nbformat.v4.new_code_cell if text.startswith(">") else nbformat.v4.new_markdown_cell
        made.cells.append(new(text.removeprefix(">")))
    nbformat.write(made, folder / name)


def test_any_folder_of_notebooks_can_be_built(tmp_path):
    notebook(tmp_path, "b.ipynb", "no title, $x^2$, [a](a%20first.ipynb)", ">1 + 1", ">print('é')")
    notebook(tmp_path, "a first.ipynb", "# One & two", "Words. " * 1600)
    done = command(tmp_path, "--to", tmp_path / "out", "--only", "a", "b", "--title", "Mine")
    assert done.returncode == 0, done.stderr
    index = BeautifulSoup((tmp_path / "out" / "index.html").read_text("utf-8"), "html.parser")
    listed = index.select("ol.list a")
    assert [one["href"] for one in listed] == ["a%20first.html", "b.html"]
    assert [one.b.get_text() for one in listed] == ["One & two", "b"]
    assert [one.select_one(".time").get_text() for one in listed] == ["15 min", "5 min"]
    page = BeautifulSoup((tmp_path / "out" / "b.html").read_text("utf-8"), "html.parser")
    assert page.math and page.select_one("main p a")["href"] == "a%20first.html"
    assert [pre.get_text() for pre in page.select(".out pre")] == ["2", "é\n"]


def test_a_folder_without_notebooks_and_a_cell_that_stops_are_said(tmp_path):
    done = command(tmp_path, "--to", tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr == (
        f"secondpass: no notebook in {tmp_path}: give a folder that has .ipynb files in it\n"
    )
    notebook(tmp_path, "a.ipynb", "# Title", ">1 / 0")
    done = command(tmp_path, "--to", tmp_path / "out", "--only", "a")
    assert done.returncode == 1
    assert "a.ipynb stopped with ZeroDivisionError: division by zero" in done.stderr
    assert "raises-exception" in done.stderr


def test_each_notebook_of_the_course_has_a_title_a_time_and_a_line():
    for entry in read_entries(course()):
        assert entry.title != entry.name
        assert 10 <= entry.minutes <= 30
        assert 15 < len(entry.summary) < 200


def test_links_between_notebooks_become_links_between_pages():
    known = Course("", [Entry("01_a", "", 5)])
    assert known.page_of("01_a.ipynb#part") == "01_a.html#part"
    for link in ("02_b.ipynb", "https://x.org/01_a.ipynb", "#part"):
        assert known.page_of(link) == link


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("<script>alert(1)</script>", "alert(1)"),
        ("<b onclick=alert(1)>b</b>", "<b>b</b>"),
        ('<a href="javascript:alert(1)">a</a>', "<a>a</a>"),
        ('<a href="data:text/html,<script>1</script>">a</a>', "<a>a</a>"),
        ('<img src="http://x.org/y.png" alt="b">', '<img alt="b">'),
        ("<iframe src=x></iframe><style>*{}</style><svg><script>1</script></svg>", "*{}1"),
        ('<p id="main" style="color:red">p</p>', "<p>p</p>"),
        ("<details><summary>s</summary><kbd>k</kbd></details>",) * 2,
    ],
)
def test_markup_that_runs_or_asks_is_left_out(given, kept):
    assert clean(given) == kept


def test_a_formula_that_cannot_be_read_is_shown_as_it_was_written():
    assert formula("x^2", "inline").startswith("<math")
    assert formula(r"\left{ <b>", "inline") == r"<code>\left{ &lt;b&gt;</code>"


def test_the_site_is_not_committed_and_the_workflow_builds_it():
    assert "/site/" in (ROOT / ".gitignore").read_text().splitlines()
    workflow = (ROOT / ".github" / "workflows" / "pages.yml").read_text()
    assert "python -m secondpass.site" in workflow
    assert NOTEBOOKS.name in workflow
