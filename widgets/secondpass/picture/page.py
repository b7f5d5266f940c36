"""Save a view as one file: a page that replays with no kernel and no network, or a still."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from secondpass.picture.fitting import clean
from secondpass.picture.openings import openings, packed
from secondpass.picture.typeset import typeset
from secondpass.picture.widget import STATIC, STYLE, AutogradGraph

STATE = ("_recording", "_svg", "_tree", "step")
"""The traits of a view that its player needs."""

NONE = "'none'"

PAGE_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0 auto; max-width: 1400px; padding: 16px; background: #ffffff; color: #5b6470; }
h1 { margin: 0 0 12px; font: 600 17px/1.4 system-ui, sans-serif; overflow-wrap: anywhere; }
h1, pre, .explanation { color: #1b2129; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.5 ui-monospace, monospace; }
.explanation { margin: 0 0 16px; font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
.explanation p { max-width: 75ch; margin: 0 0 4px; }
.explanation .what { font-weight: 600; }
.explanation code { padding: 1px 5px; border-radius: 4px; background: #eef1f4; }
.explanation code { font: 0.9em ui-monospace, monospace; }
.explanation .what code { font-weight: 600; }
.explanation :is(.change, .change + .why) { margin: 8px 0; padding-left: 10px; }
.explanation :is(.change, .change + .why) { border-left: 3px solid #0c6b63; }
.explanation .change + .why { margin-top: -8px; }
.explanation .why { color: #5b6470; }
@media (prefers-color-scheme: dark) {
  body { background: #0b0d10; color: #a3acb8; }
  h1, pre, .explanation { color: #e6eaef; }
  .explanation code { background: #1f262e; }
  .explanation :is(.change, .change + .why) { border-left-color: #5fd0c0; }
  .explanation .why { color: #a3acb8; }
}
"""

PLACE_STYLE = """
[data-secondpass] > img { max-width: 100%; height: auto; background: #ffffff; }
[data-secondpass]:has(> .secondpass) > :is(img, pre) { display: none; }
@media print {
  [data-secondpass]:has(> .secondpass) > img { display: block; }
  [data-secondpass]:has(> img) > .secondpass { display: none; }
}
"""


def save(view: Any, path: str | Path) -> Path:
    """Save a view as one self-contained file.

    Parameters
    ----------
    view : AutogradGraph or Recording
        What to save; of a recording, its end.
    path : str or Path
        ``.html`` for a page with the player, ``.svg`` for a still of the present step.

    Returns
    -------
    Path
        The file that was written.

    Raises
    ------
    ValueError
        For any other suffix.
    TypeError
        For anything that is not a view or a recording.
    RuntimeError
        For a still where no layout program is found.
    """
    if not isinstance(view, AutogradGraph):
        if not callable(getattr(view, "to_dict", None)) or not hasattr(view, "frames"):
            raise TypeError(
                f"{type(view).__name__} cannot be saved: give what sp.show() returned, or a "
                "recording."
            )
        view = AutogradGraph(view)
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".html", ".svg"):
        raise ValueError(f"Cannot save {path.name!r}: the name must end in .html or .svg.")
    text = page(view) if suffix == ".html" else view.still()
    if text is None:
        raise RuntimeError(view._tree.rpartition("\n")[2])
    path.write_text(text, encoding="utf-8")
    return path


def page(view: AutogradGraph, words: str = "", title: str = "") -> str:
    """Return a whole HTML page around the player of a view, with words above it if there are."""
    title = clean(title or view._recording["summary"])
    return _document(title, f"{typeset(words)}{player(view)}\n", [player_script()])


def page_of_words(title: str, words: str) -> str:
    """Return a whole HTML page of words alone, where there is no picture."""
    return _document(title, typeset(words), [])


def _document(title: str, body: str, scripts: list[str]) -> str:
    title = html.escape(title)
    style = PAGE_STYLE + (player_style() if scripts else "")
    modules = "".join(f'<script type="module">{script}</script>' for script in scripts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(scripts, [style])}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        f"{body}</main>\n{modules}</body>\n</html>\n"
    )


def player(view: AutogradGraph) -> str:
    """Return the part of a page where the player of a view stands."""
    return place({name: getattr(view, name) for name in STATE}, view.image())


def place(state: dict[str, Any], still: str) -> str:
    """Return the part of a page where a player stands.

    Parameters
    ----------
    state : dict
        The traits of the view that `STATE` names.
    still : str
        HTML that is seen until the script has run, and on paper.
    """
    if "_views" not in state:
        state = state | {"_views": packed(openings(state["_recording"]))}
    return f"<div data-secondpass>{still}{embedded(state)}</div>"


def embedded(values: Any) -> str:
    """Return plain data as an element from which a page's script reads it."""
    # A closing tag inside a string must not end the script element.
    data = json.dumps(values, ensure_ascii=False).replace("<", "\\u003c")
    return f'<script type="application/json">{data}</script>'


def player_style() -> str:
    """Return the style sheet of the players in a page."""
    return PLACE_STYLE + STYLE


def player_script() -> str:
    """Return the module that puts players into a page."""
    source = (STATIC / "widget.js").read_text(encoding="utf-8")
    return f"{source}\nmountAll();\n"


def policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return the content security policy of a page: these scripts and styles, nothing else."""
    return (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"script-src {' '.join(map(_hash, scripts)) or NONE}; "
        f"style-src {' '.join(map(_hash, styles)) or NONE}"
    )


def _hash(text: str) -> str:
    code = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{code}'"
