"""Binder without Binder: its image built in a scratch environment, started, and visited."""

from __future__ import annotations

import re
import runpy
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from conftest import READY, START_SECONDS, OpenNotebook, describe
from playwright.sync_api import Browser, expect

import image
from regenerate import ROOT, course

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the image is one for Linux"),
]
LINKS = runpy.run_path(str(ROOT / "binder" / "links.py"))
MB = 1024**2


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> image.Image:
    """Build the image, and say where its torch came from."""
    if f"{sys.version_info[0]}.{sys.version_info[1]}" != image.python_version():
        pytest.skip(f"the image has Python {image.python_version()}, this is {sys.version}")
    built = image.build(tmp_path_factory.mktemp("image"))
    print(*re.findall(r"^.*\btorch-\S+\.whl.*$", built.said, flags=re.MULTILINE), sep="\n")
    return built


@pytest.fixture(scope="module")
def visited(built: image.Image) -> Iterator[tuple[str, psutil.Process]]:
    """Start the image as Binder does; the server's address, ready for a path, and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    with (built.home.parent / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(*built.entry_point(), "jupyter-lab", "--ip=127.0.0.1", f"--port={port}"),
                *("--ServerApp.port_retries=0", "--no-browser", "--allow-root"),
                f"--IdentityProvider.token={token}",
            ],
            cwd=built.home,
            env=built.variables,
            stdout=log,
        )
        try:
            wait_for(f"http://127.0.0.1:{port}/api/status?token={token}", process)
            (server,) = psutil.Process(process.pid).children()
            yield f"http://127.0.0.1:{port}/{{path}}?token={token}&reset", server
        finally:
            process.terminate()  # the entry point passes it on, and the server ends its kernels
            process.wait(timeout=30)


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail("JupyterLab did not start")


def visit(browser: Browser, where: str, notebook: Path) -> OpenNotebook:
    """Open a notebook by the path that stands in its Binder link, and no other beside it."""
    link = LINKS["binder_link"]("https://github.com/a/b", "v1", f"notebooks/{notebook.name}")
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    here = OpenNotebook(page, notebook)
    page.on("pageerror", lambda error: here.note(str(error)))
    page.on("console", lambda said: said.type == "error" and here.note(describe(said)))
    page.goto(where.format(path=link.partition("?urlpath=")[2]))
    for sign in READY:
        expect(page.locator(sign).first).to_be_visible(timeout=START_SECONDS * 1000)
    return here


def test_a_visitor_sees_the_pictures_runs_the_first_notebook_and_plays_it(
    browser: Browser, visited: tuple[str, psutil.Process]
) -> None:
    here = visit(browser, visited[0], course()[0])
    pictures = here.page.locator(".jp-OutputArea img[src^='data:image/svg']")
    expect(pictures).to_have_count(2)  # as nobody has trusted this notebook yet
    here.picture("binder_opened")
    here.run_all()
    views = here.page.locator(".jp-OutputArea .secondpass")
    expect(views).to_have_count(2)
    views.last.locator(".play").focus()
    here.page.keyboard.press("Home")
    here.page.keyboard.press("ArrowRight")
    expect(views.last.locator(".counter")).to_contain_text(re.compile(r"\b1 of \d+"))
    here.picture("binder_run")
    assert here.complaints == []
    here.page.close()


def test_as_many_notebooks_fit_as_the_readme_says(
    browser: Browser, visited: tuple[str, psutil.Process]
) -> None:
    (fit,) = re.findall(r"(\d+) notebooks at\s+once", (ROOT / "binder" / "README.md").read_text())
    where, server = visited
    for notebook in course()[1:4]:
        here = visit(browser, where, notebook)
        here.run_all()
        assert here.complaints == []
        here.page.close()
    sizes = [kernel.memory_full_info().pss / MB for kernel in server.children()]
    own = server.memory_full_info().pss / MB
    print(f"server {own:.0f} MB, kernels", *(f"{size:.0f}" for size in sizes), "MB")
    assert own + int(fit) * max(sizes) < 1000


def test_the_kernel_has_one_thread(built: image.Image) -> None:
    said = subprocess.run(
        [*built.entry_point(), "python", "-c", "import torch; print(torch.get_num_threads())"],
        cwd=built.home,
        env=built.variables,
        capture_output=True,
        text=True,
    )
    assert said.stdout.strip() == "1", said
