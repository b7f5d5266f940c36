"""The course in Voila, which shows a notebook as a page with a kernel; run by .ci/voila."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import RUN_SECONDS, START_SECONDS
from playwright.sync_api import Browser, expect

from regenerate import NOTEBOOKS, course


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start Voila on a free port of this machine; where it shows notebooks."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = tmp_path_factory.mktemp("home")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "voila", "--no-browser", f"--port={port}"),
            *("--Voila.ip=127.0.0.1", "--strip_sources=False", str(NOTEBOOKS)),
        ],
        env={**os.environ, "HOME": str(home), "JUPYTER_CONFIG_DIR": str(home / "config")},
    )
    try:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and process.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
                break
            except OSError:
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/voila/render"
    finally:
        process.terminate()  # Voila ends its kernels
        process.wait(timeout=30)


@pytest.mark.parametrize("path", course(), ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_players_play(path: Path, browser: Browser, address: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{address}/{path.name}", timeout=RUN_SECONDS * 1000)
    views = page.locator(".secondpass")
    expect(views.first.locator("g.node").first).to_be_attached(timeout=RUN_SECONDS * 1000)
    assert views.count() == path.read_text("utf-8").count("data:image/svg+xml;base64,")
    played = views.filter(has_not=page.locator(".counter", has_text="0 of 0")).last
    played.locator(".play").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(played.locator(".counter")).to_contain_text(re.compile(r"\b1 of \d+"))
    expect(page.get_by_text("Error displaying widget")).to_have_count(0)
    assert complaints == []
    folder = os.environ.get("SECONDPASS_SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"voila_{path.stem}.png")
    page.close()
