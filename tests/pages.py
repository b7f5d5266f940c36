"""A small site for the tests: two notebooks and two pages of the gallery, built once."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from pathlib import Path

from regenerate import NOTEBOOKS

BUILT = ("00", "01", "hidden_state", "no_graph")
PAGES = (
    "index.html",
    "00_start_here.html",
    "01_run_backward_twice.html",
    "gallery/hidden_state.html",
    "gallery/no_graph.html",
)

_scratch = tempfile.TemporaryDirectory(prefix="secondpass-site-")  # removed when Python ends


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run ``python -m secondpass.site`` with arguments."""
    return subprocess.run(
        [sys.executable, "-m", "secondpass.site", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@functools.cache
def site() -> Path:
    """Build the site and return its folder."""
    folder = Path(_scratch.name, "site")
    done = command(NOTEBOOKS, "--to", folder, "--only", *BUILT)
    assert done.returncode == 0, done.stderr
    return folder
