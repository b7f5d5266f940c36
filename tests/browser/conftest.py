"""A real JupyterLab and Notebook 7, driven by Chromium, over scratch copies of the notebooks.

Where no browser can be found the tests are skipped, except in CI, where they fail. Set
``SECONDPASS_SCREENSHOTS`` to a folder to keep pictures of what the tests saw, and
``SECONDPASS_THEME`` to ``dark`` to have every notebook opened in the dark theme.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Locator,
    Page,
    expect,
    sync_playwright,
)

from sample import Given
from secondpass.picture.page import save
from secondpass.picture.widget import AutogradGraph

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
START_SECONDS = 60
RUN_SECONDS = 120
WATCH_CELL = """(number) => {
  const cell = document.querySelectorAll(".jp-CodeCell")[number];
  let running = false;
  window.done = 0;
  new MutationObserver((_, observer) => {
    const prompt = cell.querySelector(".jp-InputPrompt").textContent;
    if (running && /\\d/.test(prompt)) {
      window.done = performance.now();
      observer.disconnect();
    }
    running ||= prompt.includes("*");
  }).observe(cell, { childList: true, characterData: true, subtree: true });
}"""
READY = (  # before all of these, Run All asks for a kernel
    ".jp-CodeCell",
    ".jp-Toolbar-kernelName:has-text('Python 3')",
    ".jp-Notebook-ExecutionIndicator[data-status='idle']",
)
OWN_ERRORS = (  # what Notebook 7 itself reports when it opens any notebook
    "Cannot read properties of undefined (reading 'schema')",
    "Command 'filebrowser:open-path' not registered.",
    "/static/notebook/",  # its fonts, asked for before it is logged in
)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium: the machine's own, or the one that Playwright installed."""
    with sync_playwright() as playwright:
        path = next(filter(None, map(shutil.which, BROWSERS)), None)
        try:
            browser = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        except Error as error:
            reason = f"no browser to drive: {str(error).splitlines()[0]}"
            if os.environ.get("CI"):
                pytest.fail(reason)
            pytest.skip(reason)
        yield browser
        browser.close()


@dataclass
class Server:
    """A running Jupyter server that knows JupyterLab and Notebook 7."""

    url: str
    token: str
    folder: Path
    settings: Path

    def set_theme(self, theme: str) -> None:
        """Choose the theme, ``light`` or ``dark``, of pages opened from now on."""
        self.configure("themes", {"theme": f"JupyterLab {theme.capitalize()}"})

    def address(self, notebook: Path, app: str) -> str:
        """Return where a notebook is found, in ``lab`` (JupyterLab) or ``notebooks`` (7)."""
        where = notebook.relative_to(self.folder).as_posix()
        path = f"lab/tree/{where}?reset&" if app == "lab" else f"notebooks/{where}?"
        return f"{self.url}/{path}token={self.token}"

    def ask(self, method: str, path: str) -> Any:
        """Call the server's REST interface."""
        request = urllib.request.Request(
            f"{self.url}/api/{path}",
            method=method,
            headers={"Authorization": f"token {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read() or b"null")

    def end_kernels(self) -> None:
        """End the kernel of every notebook that was opened."""
        for session in self.ask("GET", "sessions"):
            self.ask("DELETE", f"sessions/{session['id']}")

    def configure(self, name: str, values: dict[str, object]) -> None:
        """Write one of JupyterLab's settings files."""
        file = self.settings / "@jupyterlab" / "apputils-extension" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values), encoding="utf-8")


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start a server on a free port of this machine only, with a fresh home, and end it."""
    home = tmp_path_factory.mktemp("jupyter")
    folder = home / "notebooks"
    folder.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    found = Server(f"http://127.0.0.1:{port}", token, folder, home / "settings")
    found.configure("notification", {"fetchNews": "false", "checkForUpdates": False})
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root"),
                *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}"),
                *("--ServerApp.port_retries=0", f"--ServerApp.root_dir={folder}"),
            ],
            env={
                **os.environ,
                "HOME": str(home),
                "IPYTHONDIR": str(home / "ipython"),
                "JUPYTER_CONFIG_DIR": str(home / "config"),
                "JUPYTER_DATA_DIR": str(home / "data"),
                "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
                "JUPYTER_TOKEN": token,
                "JUPYTERLAB_SETTINGS_DIR": str(found.settings),
                "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
            },
            stdout=log,
            stderr=log,
        )
        try:
            _wait_for(found, process, home / "server.log")
            yield found
        finally:
            process.terminate()  # the server ends its kernels
            process.wait(timeout=30)


def _wait_for(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            server.ask("GET", "status")
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the Jupyter server did not start:\n{log.read_text(errors='replace')[-2000:]}")


@dataclass
class OpenNotebook:
    """A notebook open in a page, and what the page complained about."""

    page: Page
    path: Path
    complaints: list[str] = field(default_factory=list)

    def note(self, message: str) -> None:
        """Keep an error that the page reported, unless it is an application's own."""
        if not any(known in message for known in OWN_ERRORS):
            self.complaints.append(message)

    def run_all(self) -> None:
        """Choose Run All Cells from the menu and wait until the last cell is done."""
        self._choose("Run All Cells", self.page.locator(".jp-CodeCell").count() - 1)

    def run_above(self, number: int) -> None:
        """Run the code cells above this one through the menu, and stand in it."""
        self.select(number)
        self._choose("Run All Above Selected Cell", number - 1)
        self.select(number)

    def _choose(self, item: str, last: int) -> None:
        """Choose from the Run menu and wait until the code cell with this number is done."""
        self.watch(last)
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name=item, exact=True).click()
        self.wait_until_done()

    def watch(self, number: int) -> None:
        """Note in the page, as ``window.done``, when this cell is done; call it before the run."""
        self.page.evaluate(WATCH_CELL, number)

    def wait_until_done(self) -> None:
        """Wait for the end of the cell that is watched."""
        self.page.wait_for_function("window.done", timeout=RUN_SECONDS * 1000)

    def select(self, number: int) -> None:
        """Click into the code cell with this number."""
        self.page.locator(".jp-CodeCell").nth(number).locator(".cm-content").click()

    def picture(self, name: str, of: Locator | None = None) -> None:
        """Keep a picture of the page or a part of it, where a folder for pictures was given."""
        folder = os.environ.get("SECONDPASS_SCREENSHOTS")
        if folder:
            (of or self.page).screenshot(path=Path(folder) / f"{name}.png")


def describe(said: ConsoleMessage) -> str:
    return f"{said.text} [{said.location['url']}]"


OpenNotebookFunction = Callable[..., OpenNotebook]


@pytest.fixture
def open_notebook(browser: Browser, server: Server) -> Iterator[OpenNotebookFunction]:
    """Open a copy of a notebook: ``open_notebook(path, app="lab", theme="light")``."""
    opened: list[OpenNotebook] = []

    def open_one(notebook: Path, app: str = "lab", theme: str = "light") -> OpenNotebook:
        server.set_theme(theme)
        folder = server.folder / secrets.token_hex(4)  # a copy of its own: a kernel of its own
        folder.mkdir()
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        here = OpenNotebook(page, Path(shutil.copy(notebook, folder)))
        opened.append(here)
        page.on("pageerror", lambda error: here.note(str(error)))
        page.on("console", lambda said: said.type == "error" and here.note(describe(said)))
        page.goto(server.address(here.path, app))
        for sign in READY:
            expect(page.locator(sign).first).to_be_visible(timeout=START_SECONDS * 1000)
        return here

    yield open_one
    for here in opened:
        here.page.close()
    server.end_kernels()


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[OpenPage]:
    """Save a recording as a page and open it; no request and no error may come of it."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_one(
        data: Any = None,
        *,
        step: int | None = None,
        width: int = 1100,
        height: int = 900,
        **options: Any,
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height}, offline=True, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        file = save(AutogradGraph(Given(data), step=step), tmp_path / "page.html")
        page.goto(file.as_uri())
        page.on("request", lambda request: complaints.append(request.url))
        expect(page.locator(".secondpass")).to_be_visible()
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert not complaints
