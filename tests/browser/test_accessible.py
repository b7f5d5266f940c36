"""Saved pages as axe-core sees them: light and dark, wide and narrow, small and big."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

sys.path.insert(0, str(Path(__file__).parents[1]))

from sample import Given, carried, chain, frame, sample
from secondpass.picture.page import save
from secondpass.picture.widget import AutogradGraph

AXE = "axe-core@4.10.3"


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Install axe-core into a scratch folder; skip where npm is not there or reaches nothing."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("axe")
    done = subprocess.run(
        [
            npm,
            "install",
            "--prefix",
            str(folder),
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            AXE,
        ],
        capture_output=True,
        text=True,
        timeout=180,
    )
    file = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not file.exists():
        reason = f"npm could not install {AXE}: {done.stderr.strip()[-300:]}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return file.read_text(encoding="utf-8")


def big() -> dict[str, Any]:
    data = chain(80, lines=9, leaves=12)
    data["frames"] = [
        frame("call", "Call 1 begins.", call=1, gradients={"r0": "1"}),
        frame("node", "Call 1 runs n0.", call=1, node="n0", slots={"n0.other": ["freed", 1]}),
    ]
    return data


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1100, 400])
@pytest.mark.parametrize(
    ("make", "step"), [(sample, 8), (sample, 13), (carried, 4), (big, 2), (lambda: chain(3), 0)]
)
def test_a_saved_page_has_no_barrier_that_axe_finds(
    browser: Browser,
    axe: str,
    tmp_path: Path,
    make: Callable[[], dict[str, Any]],
    step: int,
    width: int,
    scheme: Any,
) -> None:
    file = save(AutogradGraph(Given(make()), step=step), tmp_path / "page.html")
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        reduced_motion="reduce",
        bypass_csp=True,  # for axe's own script only
    )
    page = context.new_page()
    page.goto(file.as_uri())
    page.locator(".secondpass").wait_for()
    page.evaluate(axe)
    found = page.evaluate("axe.run(document)")
    context.close()
    told = [
        f"{one['id']}: {one['help']}: {[part['html'][:160] for part in one['nodes'][:3]]}"
        for one in found["violations"]
    ]
    assert len(found["passes"]) > 15
    assert not told, "\n".join(told)
