"""Notebooks as pages: nbconvert's exporter with this package's template, filters and policy."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import bleach
import jinja2
from latex2mathml.converter import convert
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from traitlets.config import Config

from secondpass.picture.page import embedded, place, player_script, player_style, policy
from secondpass.site.running import PLAYER, QUESTION, VERDICT, Run

HERE = Path(__file__).parent
TEMPLATES = HERE / "templates"
TEACHING = HERE.parent / "teaching" / "static"

PRIORITY = [
    *(PLAYER, QUESTION, VERDICT, "text/html", "text/markdown", "image/svg+xml", "image/png"),
    *("image/jpeg", "text/latex", "text/plain"),
]

MATH = {
    *("math", "mrow", "mi", "mo", "mn", "ms", "mtext", "mspace", "mstyle", "mpadded", "mfrac"),
    *("msqrt", "mroot", "msup", "msub", "msubsup", "mover", "munder", "munderover", "mtable"),
    *("mtr", "mtd", "mphantom", "menclose"),
}
TEXT = {
    *("a", "abbr", "b", "blockquote", "br", "caption", "code", "dd", "del", "details", "div"),
    *("dl", "dt", "em", "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i"),
    *("img", "ins", "kbd", "li", "mark", "ol", "p", "pre", "s", "samp", "small", "span", "strong"),
    *("sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul"),
    "var",
}
ATTRIBUTES = {"alt", "class", "colspan", "display", "open", "rowspan", "start", "stretchy", "title"}
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}


@dataclass
class Entry:
    """A page in the course, as the pages around it and the index speak of it."""

    name: str
    """Without a suffix: the notebook is ``name.ipynb``, its page ``name.html``."""

    title: str
    """As HTML: a title may hold code."""

    minutes: int
    summary: str = ""
    """As HTML: one line on what it shows."""

    @property
    def number(self) -> str:
        """The one that its name begins with, by which the others speak of it; "" if it has none.

        Examples
        --------
        >>> Entry("05_cut_the_graph", title="Cut the graph", minutes=25).number
        '05'
        """
        before = self.name.partition("_")[0]
        return before if before.isdecimal() else ""

    @property
    def href(self) -> str:
        """Where its page is."""
        return f"{quote(self.name)}.html"


@dataclass
class Course:
    """What every page knows of the whole."""

    title: str
    entries: list[Entry] = field(default_factory=list)
    launch: str = ""
    """Where a notebook can be run, a URL with ``{notebook}`` in it; empty where nowhere."""

    def page_of(self, link: str) -> str:
        """Return where a link from one notebook to another leads between pages."""
        path, mark, part = link.partition("#")
        for entry in self.entries:
            if unquote(path) == f"{entry.name}.ipynb":
                return entry.href + mark + part
        return link


class Renderer(IPythonRenderer):
    """Markdown as the pages have it: headings are noted, formulas are MathML."""

    def __init__(self, course: Course, headings: list[dict[str, Any]], **options: Any) -> None:
        super().__init__(escape=False, exclude_anchor_links=True, **options)
        self._course = course
        self._headings = headings

    def heading(self, text: str, level: int, **attrs: Any) -> str:
        """Return a heading with an id of its own."""
        words = re.sub(r"\W+", "-", unescape(re.sub(r"<[^>]*>", "", text)).lower()).strip("-")
        taken = {one["id"] for one in self._headings}
        name = words or "part"
        while name in taken:
            name += "-again"
        self._headings.append({"id": name, "level": level, "text": text})
        return f'<h{level} id="{name}">{text}</h{level}>\n'

    def link(self, text: str, url: str, title: str | None = None) -> str:
        """Return a link; one to a notebook of the course leads to its page."""
        return str(super().link(text, self._course.page_of(url), title))

    def block_html(self, html: str) -> str:
        """Return HTML as it stands: an element that is open here may be closed further down."""
        return str(super().block_html(html)) if "<img" in html else html

    def inline_html(self, html: str) -> str:
        """Return a tag as it stands."""
        return str(super().inline_html(html)) if "<img" in html else html

    def table(self, text: str) -> str:
        """Return a table that scrolls by itself where it is too wide."""
        return f'<div class="scrolls"><table>\n{text}</table></div>\n'

    def inline_math(self, body: str) -> str:
        """Return a formula as MathML, which browsers show by themselves."""
        return formula(body, "inline")

    def block_math(self, body: str) -> str:
        """Return a formula on a line of its own."""
        return f'<p class="formula">{formula(body, "block")}</p>\n'


class NotebookPage(HTMLExporter):
    """Turns a notebook into a page of a course."""

    def __init__(self, course: Course, **options: Any) -> None:
        self._course = course
        super().__init__(  # type: ignore[no-untyped-call]
            template_name="secondpass",
            extra_template_basedirs=[str(TEMPLATES)],
            embed_images=True,
            preprocessors=[Run],
            **options,
        )

    @property
    def default_config(self) -> Config:
        """Prefer what `Run` puts into outputs; a widget's own view would need a kernel."""
        config: Config = super().default_config.copy()
        config.merge({"NbConvertBase": {"display_data_priority": PRIORITY}})
        return config

    @jinja2.pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """Return markdown as HTML; headings are noted in the resources."""
        resources = context["resources"]
        renderer = Renderer(
            self._course,
            resources.setdefault("headings", []),
            attachments=context.get("cell", {}).get("attachments", {}),
            embed_images=True,
            path=resources["metadata"]["path"],
        )
        return clean(str(MarkdownWithMath(renderer=renderer).render(source)))

    def default_filters(self) -> Any:
        """Add this template's own filters."""
        yield from super().default_filters()  # type: ignore[no-untyped-call]
        yield from FILTERS.items()


def formula(body: str, display: str) -> str:
    """Return a formula as MathML; as its source where it cannot be read."""
    try:
        return str(convert(body, display=display))
    except Exception:  # whatever the parser stumbles over is the author's text all the same
        return f"<code>{bleach.clean(body, tags=set())}</code>"


def clean(text: str) -> str:
    """Return HTML without what could run or be asked for over the network.

    Examples
    --------
    >>> clean('<p onclick="go()">a<script>go()</script><img src="https://x/y.png" alt="b"></p>')
    '<p>ago()<img alt="b"></p>'
    """
    return str(
        bleach.clean(
            text,
            tags=TEXT | MATH,
            attributes=_is_allowed,
            protocols={"http", "https", "mailto", "data"},
            strip=True,
        )
    )


def _is_allowed(tag: str, name: str, value: str) -> bool:
    if name in ATTRIBUTES:
        return True
    if name == "id":
        return tag in HEADINGS
    if name == "src":
        return tag == "img" and value.startswith("data:image/")
    return name == "href" and tag == "a" and not value.strip().lower().startswith("data:")


def read(path: Path) -> str:
    """Return a file's text."""
    return path.read_text(encoding="utf-8")


def assets() -> dict[str, Any]:
    """Return what every page has in it once: scripts, style, and the policy that allows them."""
    first = read(HERE / "static" / "theme.js")
    modules = [
        player_script(),
        read(TEACHING / "predict.js") + "\nmountAll();\n",
        read(HERE / "static" / "site.js"),
    ]
    style = "\n".join(
        (player_style(), read(TEACHING / "predict.css"), read(HERE / "static" / "site.css"))
    )
    return {
        "first": first,
        "modules": modules,
        "style": style,
        "policy": policy([first, *modules], [style]),
    }


FILTERS = {"clean": clean, "embedded": embedded, "player": place}
