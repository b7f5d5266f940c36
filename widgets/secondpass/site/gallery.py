"""The gallery: the commonest ways into the error, each a script that is run and explained.

A case is a folder of ``gallery/``: ``about.md`` (its title is what a person would search for),
``train.py``, which has the fault, and ``mended.py``.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from nbconvert.filters.markdown_mistune import MarkdownWithMath
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from secondpass.picture.typeset import SAID_BY
from secondpass.site.pages import Course, Renderer, clean, read

GALLERY = Path(__file__).parent / "gallery"

PLACES = ("freed_by", "failed_at", "modified_at", "cut_at")


@dataclass
class Case:
    """A kind of fault. Its texts are HTML."""

    name: str
    folder: Path
    title: str
    lead: str
    change: str

    @property
    def href(self) -> str:
        """Where its page is, for the pages beside it."""
        return f"{self.name}.html"


@dataclass
class Found:
    """What running a case gave."""

    message: str
    words: str
    broken: str
    mended: str
    still: str
    state: dict[str, Any] | None


def cases(folder: Path = GALLERY) -> list[Case]:
    """Return the cases of a folder, the commonest first, as their folders' names have it."""
    return [_read_case(about.parent) for about in sorted(folder.glob("*/about.md"))]


def _read_case(folder: Path) -> Case:
    renderer = Renderer(Course(""), [])
    text = clean(str(MarkdownWithMath(renderer=renderer).render(read(folder / "about.md"))))
    soup = BeautifulSoup(text, "html.parser")
    title, lead, change = (part for part in soup.find_all(["h1", "p"]))
    name = folder.name.partition("_")[2]
    return Case(name, folder, *(one.decode_contents() for one in (title, lead, change)))


def explained(case: Case) -> Found:
    """Run a case as a person would, with ``python -m secondpass``, and read what it wrote."""
    with tempfile.TemporaryDirectory() as scratch:
        report, page = Path(scratch, "report.json"), Path(scratch, "page.html")
        command = [sys.executable, "-m", "secondpass", "--report", str(report), "--html", str(page)]
        # In a folder of its own: what lies in this package's is not taken for a person's code.
        shutil.copy(case.folder / "train.py", scratch)
        done = subprocess.run(
            [*command, "train.py"], cwd=scratch, capture_output=True, text=True, check=False
        )
        facts = json.loads(read(report)) if report.exists() else {"error": None, "notices": []}
        if not facts["error"] and not facts["notices"]:
            raise RuntimeError(f"{case.folder / 'train.py'} was not explained:\n{done.stderr}")
        soup = BeautifulSoup(read(page), "html.parser")
    place = soup.select_one("[data-secondpass]")
    data = None if place is None else place.find("script")
    broken, mended = read(case.folder / "train.py"), read(case.folder / "mended.py")
    places = [facts[name] for name in PLACES] + [(facts["node"] or {}).get("created")]
    lines = [place["line"] for place in places if place]
    lines += [notice["line"] for notice in facts["notices"] if not lines and notice["line"]]
    state = None if data is None else json.loads(data.get_text())
    return Found(
        message=facts["message"],
        words=_explanation(done.stderr),
        broken=listing(broken, lines),
        mended=listing(mended, changed(broken, mended)),
        still="" if place is None else str(place.find(["img", "pre"])),
        state=state,
    )


def _explanation(stderr: str) -> str:
    """Return the explanation that a run printed, without what was printed before and after it."""
    _, said_by, words = stderr.partition(SAID_BY)
    return (said_by + words).partition("\n  With its picture:")[0].rstrip()


def listing(code: str, marked: list[int]) -> str:
    """Return code as HTML with numbered lines, some of them marked."""
    return str(highlight(code, PythonLexer(), HtmlFormatter(linenos="inline", hl_lines=marked)))


def changed(before: str, after: str) -> list[int]:
    r"""Return the numbers of the lines that are new.

    Examples
    --------
    >>> changed("a\nb\n", "a\nc\nb\n")
    [2]
    """
    match = SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    return [
        line + 1
        for kind, _, _, start, end in match.get_opcodes()
        if kind != "equal"
        for line in range(start, end)
    ]
