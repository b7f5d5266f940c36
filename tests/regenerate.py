"""Run the notebooks from top to bottom and write what they print back into them.

    python tests/regenerate.py                    # all notebooks, in order
    python tests/regenerate.py notebooks/02*      # some

Cell ids stay, and so does an output that differs only in what tests/nbval_sanitize.cfg masks;
widget state, widget views and facts about the machine are left out. Where nothing changed, no
file changes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbval.plugin import get_sanitize_patterns

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
SANITIZE = ROOT / "tests" / "nbval_sanitize.cfg"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def course() -> list[Path]:
    """Return the notebooks in the order in which they are read."""
    return sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


def run(notebook: nbformat.NotebookNode) -> None:
    """Run all cells of a notebook in place, from its own folder, as a learner would."""
    NotebookClient(
        notebook,
        timeout=60,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],  # kernels warn that they talk over TCP
        resources={"metadata": {"path": str(NOTEBOOKS)}},
        store_widget_state=False,
        record_timing=False,
        coalesce_streams=True,
    ).execute()


def clean(notebook: nbformat.NotebookNode) -> None:
    """Leave out what is true of this machine or this run only."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {
                "display_name": "Python 3 (ipykernel)",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
        }
    )
    for cell in notebook.cells:
        cell.metadata = {key: value for key, value in cell.metadata.items() if key == "tags"}
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET_VIEW, None)


def keep_masked(notebook: nbformat.NotebookNode, before: nbformat.NotebookNode) -> None:
    """Put back each stored output that equals the new one after sanitizing."""
    stored = {cell.id: cell.get("outputs") for cell in before.cells}
    for cell in notebook.cells:
        old = stored.get(cell.id)
        if old is not None and _masked(old) == _masked(cell.outputs):
            cell.outputs = old


def _masked(value: Any) -> Any:
    """Return outputs with every string sanitized, as nbval compares them."""
    if isinstance(value, dict):
        return {key: _masked(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_masked(entry) for entry in value]
    if isinstance(value, str):
        for pattern, replacement in get_sanitize_patterns(SANITIZE.read_text(encoding="utf-8")):
            value = re.sub(pattern, replacement, value)
    return value


def regenerate(path: Path) -> bool:
    """Run one notebook and write it back; say whether the file changed."""
    old_text = path.read_text(encoding="utf-8")
    before = nbformat.reads(old_text, as_version=4)
    notebook = nbformat.reads(old_text, as_version=4)
    run(notebook)
    clean(notebook)
    keep_masked(notebook, before)
    new_text = nbformat.writes(notebook).rstrip("\n") + "\n"
    path.write_text(new_text, encoding="utf-8")
    return new_text != old_text


if __name__ == "__main__":
    for path in [Path(argument) for argument in sys.argv[1:]] or course():
        print(f"{path.name}: {'changed' if regenerate(path) else 'unchanged'}")
