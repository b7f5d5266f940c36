"""Make the picture in README.md from the real thing: record, save as a page, take a screenshot.

python tests/picture.py
"""

from __future__ import annotations

import contextlib
import runpy
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import secondpass as sp

PICTURE = Path(__file__).resolve().parent.parent / "README.png"
SCRIPT = """import torch

x = torch.tensor([2.0], requires_grad=True)
h = x**2
for _ in range(2):
    loss = 3 * h
    loss.backward()
"""
SIZE = {"width": 1000, "height": 780}


def record(script: Path) -> sp.Recording:
    """Run a script whose second round stops, and return what was recorded of it."""
    with contextlib.suppress(RuntimeError), sp.record() as recording:
        runpy.run_path(str(script))
    return recording


def main() -> None:
    """Write README.png."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        script = Path(folder) / "train.py"
        script.write_text(SCRIPT, encoding="utf-8")
        saved = sp.save(record(script), Path(folder) / "replay.html")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport=SIZE, device_scale_factor=2)
        page.goto(saved.as_uri())
        page.locator(".secondpass").first.screenshot(path=PICTURE)
        browser.close()


if __name__ == "__main__":
    main()
