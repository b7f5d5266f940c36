"""Build the site: every notebook as a page, the gallery, and the index that leads to them."""

from __future__ import annotations

import html
import math
import re
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import nbformat
from bs4 import BeautifulSoup, Tag
from nbclient.exceptions import CellExecutionError
from nbconvert.filters.markdown_mistune import MarkdownWithMath

from secondpass.site.gallery import Case, Found, cases, explained
from secondpass.site.pages import Course, Entry, NotebookPage, Renderer, assets, clean
from secondpass.site.running import PLAYER, QUESTION, VERDICT

MESSAGE = (
    "RuntimeError: Trying to backward through the graph a second time (or directly access saved "
    "tensors after they have already been freed). Saved intermediate values of the graph are "
    "freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need "
    "to backward through the graph a second time or if you need to access saved tensors after "
    "calling backward."
)

WORDS_PER_MINUTE = 150
MINUTES_PER_CELL = 0.4
MOST_LETTERS = 240


def build(
    notebooks: Path,
    to: Path,
    *,
    title: str,
    launch: str = "",
    only: Sequence[str] | None = None,
    say: Callable[[str], object] = print,
) -> None:
    """Run a folder of notebooks and the gallery's scripts, and write the pages.

    Parameters
    ----------
    notebooks, to : Path
        The folder of notebooks, and the one that is written.
    title : str
        The name of the course.
    launch : str
        A URL with ``{notebook}`` in it, where a notebook can be run.
    only : list of str, optional
        Beginnings of the names of the pages to build; the index lists all of them even so.
    say : function
        Is told of each page.

    Raises
    ------
    ValueError
        Where there is no notebook in the folder, or one of them stops with an error.
    """
    paths = sorted(notebooks.glob("*.ipynb"))
    if not paths:
        raise ValueError(f"no notebook in {notebooks}: give a folder that has .ipynb files in it")
    builder = Builder(Course(title, launch=launch), to, say)
    builder.course.entries = read_entries(paths)
    (to / "gallery").mkdir(parents=True, exist_ok=True)

    def is_wanted(name: str) -> bool:
        return only is None or name.startswith(tuple(only))

    kinds = cases()
    wanted = [number for number, case in enumerate(kinds) if is_wanted(case.name)]
    with ThreadPoolExecutor(max_workers=1) as beside:  # scripts run while notebooks do
        running = [beside.submit(explained, kinds[number]) for number in wanted]
        for number, path in enumerate(paths):
            if is_wanted(path.stem):
                builder.notebook(path, number)
        for number, found in zip(wanted, running, strict=True):
            builder.case(kinds, number, found.result())
    builder.index(kinds)


class Builder:
    """Writes the pages of one site."""

    def __init__(self, course: Course, to: Path, say: Callable[[str], object]) -> None:
        self.course = course
        self._to = to
        self._say = say
        self._assets = assets()
        self._exporter = NotebookPage(course)
        self._players: list[tuple[str, dict[str, Any]]] = []

    def notebook(self, path: Path, number: int) -> None:
        """Run a notebook and write its page, and the notebook itself beside it."""
        entries = self.course.entries
        entry = entries[number]
        page = self._page(f"{words(entry.title)} · {self.course.title}", words(entry.summary)) | {
            "number": entry.number or number + 1,
            "minutes": entry.minutes,
            **_around(entries, number),
            "notebook": quote(path.name),
            "launch": self.course.launch.replace("{notebook}", quote(path.name)),
        }
        about = {
            "metadata": {"name": path.stem, "path": str(path.parent.resolve())},
            "page": page,
            "assets": self._assets,
            "mimetypes": {"player": PLAYER, "question": QUESTION, "verdict": VERDICT},
        }
        notebook = nbformat.read(path, as_version=4)
        try:
            text, resources = self._exporter.from_notebook_node(notebook, about)
        except CellExecutionError as error:
            raise ValueError(
                f"{path} stopped with {error.ename}: {error.evalue}\nMend the cell, or give it the "
                "tag raises-exception if it is meant to stop."
            ) from error
        self._players += resources["players"]
        self._write(f"{path.stem}.html", text)
        shutil.copyfile(path, self._to / path.name)

    def case(self, kinds: Sequence[Case], number: int, found: Found) -> None:
        """Write the page of a case of the gallery."""
        case = kinds[number]
        page = self._page(words(case.title), words(case.lead), up="../") | _around(kinds, number)
        self._write(
            f"gallery/{case.name}.html",
            self._render("case.html.j2", page=page, case=case, found=found),
        )

    def index(self, kinds: Sequence[Case]) -> None:
        """Write the page that leads to all the others."""
        first = self.course.entries[0]
        page = self._page(self.course.title, words(first.summary))
        stopped = [one for one in self._players if _stops(one[1])]
        still, state = next(iter(stopped or self._players), ("", None))
        self._write(
            "index.html",
            self._render(
                "course.html.j2",
                page=page,
                entries=self.course.entries,
                hours=sum(one.minutes for one in self.course.entries) / 60,
                kinds=kinds,
                still=still,
                state=state,
                message=MESSAGE,
            ),
        )

    def _page(self, title: str, description: str, up: str = "") -> dict[str, Any]:
        return {
            "title": title,
            "description": description,
            "course": self.course.title,
            "up": up,
            "torch": version("torch").partition("+")[0],
        }

    def _render(self, template: str, **values: Any) -> str:
        loaded = self._exporter.environment.get_template(template)
        return str(loaded.render(assets=self._assets, **values))

    def _write(self, name: str, text: str) -> None:
        path = self._to / name
        path.write_text(text, encoding="utf-8")
        self._say(f"{path} ({path.stat().st_size / 1e6:.2f} MB)")


def _around(pages: Sequence[Any], number: int) -> dict[str, Any]:
    """Return the pages before and after one."""
    return {
        "before": pages[number - 1] if number else None,
        "after": pages[number + 1] if number + 1 < len(pages) else None,
    }


def read_entries(paths: Sequence[Path]) -> list[Entry]:
    """Return title, time and a line about each notebook.

    The line is what stands beside the link to it in a table of the first notebook, the map; where
    there is none, the first sentence below its title.
    """
    map_: dict[str, str] = {}
    entries = []
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        text = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        renderer = Renderer(Course(""), [], embed_images=False)
        soup = BeautifulSoup(
            clean(str(MarkdownWithMath(renderer=renderer).render(text))), "html.parser"
        )
        if path is paths[0]:
            map_ = _map(soup)
        heading, paragraph = soup.find("h1"), soup.find("p")
        entries.append(
            Entry(
                name=path.stem,
                title=heading.decode_contents() if isinstance(heading, Tag) else path.stem,
                minutes=_minutes(soup.get_text(), len(notebook.cells)),
                summary=map_.get(path.name) or _line(paragraph),
            )
        )
    return entries


def _line(paragraph: Any) -> str:
    """Return a paragraph, or its first sentence where all of it is too much for a list."""
    if not isinstance(paragraph, Tag):
        return ""
    for link in paragraph.find_all("a"):
        link.unwrap()  # the line will be a part of a link itself
    if len(paragraph.get_text()) <= MOST_LETTERS:
        return paragraph.decode_contents()
    return html.escape(re.split(r"(?<=[.?!:])\s", paragraph.get_text(), maxsplit=1)[0])


def _map(soup: BeautifulSoup) -> dict[str, str]:
    """Return, by the notebook that a row of a table links to, what the row says of it."""
    found = {}
    for row in soup.find_all("tr"):
        cells = row.find_all("td")
        link = cells[0].find("a", href=True) if len(cells) > 1 else None
        if link is not None:
            found[unquote(str(link["href"]))] = _line(cells[-1])
    return found


def _minutes(text: str, cells: int) -> int:
    """Return the time that a notebook says it takes, or one guessed from its length."""
    said = re.search(r"\bTime:\s*(\d+)\s*min", text)
    if said:
        return int(said[1])
    guess = len(text.split()) / WORDS_PER_MINUTE + cells * MINUTES_PER_CELL
    return max(5, 5 * math.ceil(guess / 5))


def words(text: str) -> str:
    """Return the words of a piece of HTML.

    Examples
    --------
    >>> words("What does <code>retain_graph</code> keep &amp; cost?")
    'What does retain_graph keep & cost?'
    """
    return BeautifulSoup(text, "html.parser").get_text()


def _stops(state: dict[str, Any]) -> bool:
    """Say whether a picture, as it is first seen, shows a call that stopped."""
    frames = state["_recording"]["frames"][: state["step"]]
    return any(frame["kind"] == "stop" for frame in frames)
