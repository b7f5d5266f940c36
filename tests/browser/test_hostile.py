"""Text that would like to run, in every place where text of others is shown.

Each payload tries to set ``window.pwned``, to open a dialog, to load something or to lead away;
Chromium is watched for all four. Nothing is blocked by the test itself.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser, Page, expect

sys.path.insert(0, str(Path(__file__).parents[1]))

from pages import command
from sample import Given, sample
from secondpass.picture.page import page_of_words, save
from secondpass.picture.widget import AutogradGraph
from secondpass.site.build import Builder
from secondpass.site.gallery import cases, explained
from secondpass.site.pages import Course, Entry

RUN = "window.pwned=1"
AWAY = "http://pwned.invalid"
PAYLOADS = (
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"<!--<script>{RUN}//--></script>",
    f"</title></style></textarea></pre><script>{RUN}</script>",
    f"<img src=x onerror={RUN}>",
    f"\"'><img src={AWAY}/a.png onerror={RUN}>",
    f"<svg onload={RUN}><script>{RUN}</script></svg>",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s></svg>",
    f'<iframe srcdoc="<script>parent.{RUN}</script>"></iframe>',
    f"<object data='data:text/html,<script>{RUN}</script>'></object><embed src={AWAY}>",
    f"<details open ontoggle={RUN}><summary>s</summary></details>",
    f"<input autofocus onfocus={RUN}><body onload={RUN}>",
    f"<a href='javascript:{RUN}'>a</a> [b](javascript:{RUN})",
    f"<a href='jav&#x09;ascript:{RUN}'>a</a> <a href=' JavaScript:{RUN}'>b</a>",
    f"<a href='data:text/html,<script>{RUN}</script>'>a</a> ![b]({AWAY}/b.png)",
    f"<link rel=stylesheet href={AWAY}/s.css><style>@import url({AWAY}/t.css);</style>",
    f"<meta http-equiv=refresh content='0;url={AWAY}'><base href={AWAY}>",
    f"<div style='background:url({AWAY}/c.png)'>x</div><video poster={AWAY}/p.png></video>",
    f"<math><mtext><table><mglyph><style><!--</style><img title='--&gt;<img src=1 onerror={RUN}>'>",
    f"<form action={AWAY}><button>go</button></form><form id=body><input name=dataset></form>",
    f"]]><script>{RUN}</script><![CDATA[",
    "{{ 7 * 7 }}{% for x in y %}{{ self.__init__.__globals__ }}${7*7}`${alert(1)}`",
    "\u202e\u2066txet\u2069\u200b\ufeff\u2028\u2029\x00",
)
LONG = f"<script>{RUN}</script>" * 40_000
EVERY_PAYLOAD = pytest.mark.parametrize(
    "payload", [*PAYLOADS, LONG], ids=[*map(str, range(len(PAYLOADS))), "1 MB"]
)
SOME_PLACES = 200_000
"""A payload that is longer stands in a few places only, so that the test takes seconds."""


@pytest.fixture
def watch(browser: Browser) -> Iterator[Callable[[Path], Page]]:
    """Open a file and touch what is in it; fail if anything ran, asked, popped up, led away."""
    context = browser.new_context()
    page = context.new_page()
    told: list[str] = []

    def note_dialog(dialog: Any) -> None:
        told.append(f"dialog {dialog.message}")
        dialog.dismiss()

    page.on("dialog", note_dialog)
    page.on("request", lambda asked: asked.url.startswith("data:") or told.append(asked.url))
    page.on("pageerror", lambda error: told.append(str(error)))
    context.on("page", lambda _: told.append("another page"))

    def open_one(file: Path) -> Page:
        told.clear()
        page.goto(file.as_uri())
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        for box in page.locator("g.node, g.leaf, g.root, .code-line").all()[:12]:
            box.dispatch_event("click")
        page.wait_for_timeout(100)
        assert page.evaluate("window.pwned") is None
        links = page.evaluate("[...document.querySelectorAll('a[href]')].map((a) => a.protocol)")
        assert set(links) <= {"file:", "http:", "https:", "mailto:"}
        assert told == [file.as_uri()]
        assert page.url == file.as_uri()
        return page

    yield open_one
    context.close()


def hostile(payload: str) -> AutogradGraph:
    """A view in which every text is a payload."""
    data = sample()
    if len(payload) > SOME_PLACES:
        data["leaves"]["l0"]["name"] = data["sources"][0]["lines"][1] = payload
        data["frames"][-1]["text"] = payload
        return AutogradGraph(Given(data))
    data["leaves"]["l0"] = dict.fromkeys(("name", "type", "value"), payload)
    data["nodes"]["n0"] |= {"title": payload, "name": payload, "gives": payload}
    data["nodes"]["n0"]["slots"] = [{"name": "self", "type": payload, "nbytes": 4}]
    data["roots"]["r0"] |= {"name": payload, "value": payload, "type": payload}
    data["sources"][0] |= {"name": payload, "lines": [payload] * 3}
    data["summary"] = data["left_out"] = payload
    for one in data["frames"]:
        one["text"] = payload
        one["gradients"] = dict.fromkeys(one["gradients"], payload)
    for call in data["calls"]:
        call["title"] = payload
    return AutogradGraph(Given(data))


@EVERY_PAYLOAD
def test_a_saved_page_a_still_and_an_output_show_it_and_run_nothing(watch, tmp_path, payload):
    view = hostile(payload)
    page = watch(save(view, tmp_path / "page.html"))
    expect(page.locator(".secondpass .view")).to_have_count(1)
    watch(save(view, tmp_path / "still.svg"))
    output = tmp_path / "output.html"  # as a trusted notebook puts it into its page
    output.write_text(f"<meta charset=utf-8>{view.image()}", encoding="utf-8")
    assert watch(output).evaluate("document.body.childElementCount") == 1


def test_a_page_of_words_shows_it_and_runs_nothing(watch, tmp_path):
    for number, payload in enumerate([*PAYLOADS, LONG]):
        file = tmp_path / f"{number}.html"
        text = page_of_words(payload[:3000], f"secondpass: {payload}")
        file.write_text(text, encoding="utf-8")
        assert watch(file).locator("main > *").count() == 2


SCRIPT = """
import torch

PAYLOADS = {payloads}

class Named(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for number, text in enumerate(PAYLOADS):
            name = text.replace(".", "") + str(number)
            self.register_parameter(name, torch.nn.Parameter(torch.ones(2)))

    def forward(self, x):
        for weight in self.parameters():
            x = x * weight  # <script>window.pwned=1</script> <img src=x onerror=window.pwned=1>
        return x

net = Named()
loss = net(torch.ones(2)).sum(); "</script><script>window.pwned=1</script>"
loss.backward()
loss.backward()
"""


def test_an_explanation_of_a_hostile_program_runs_nothing(watch, tmp_path):
    script = tmp_path / "<img src=x onerror=window.pwned=1>.py"
    script.write_text(SCRIPT.format(payloads=repr(PAYLOADS)), encoding="utf-8")
    page = tmp_path / "why.html"
    done = subprocess.run(
        [sys.executable, "-m", "secondpass", "--html", page, script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "secondpass: call 2 stopped" in done.stderr
    page = watch(page)
    expect(page.locator(".source")).to_contain_text("<script>window.pwned=1</script>")
    assert page.locator("g.leaf, g.group.leaves").count() > 0


HOSTILE_CELLS = (
    "import sys\nimport secondpass as sp\nfrom IPython.display import display",
    f"PAYLOADS = {PAYLOADS!r}",
    "def show(kind, metadata=None):\n"
    "    for text in PAYLOADS:\n"
    "        display({kind: text, 'text/plain': text}, metadata=metadata, raw=True)",
    "for kind in ('html', 'markdown', 'latex', 'plain', 'vnd.mermaid'):\n    show(f'text/{kind}')",
    "for kind in ('svg+xml', 'png', 'jpeg'):\n"
    "    show(f'image/{kind}', {f'image/{kind}': {'alt': PAYLOADS[4], 'width': PAYLOADS[5]}})",
    "for kind in ('javascript', 'json', 'pdf', 'vnd.jupyter.widget-view+json'):\n"
    "    show(f'application/{kind}')",
    "for text in PAYLOADS:\n    print(text)\n    print(text, file=sys.stderr)",
    "q = sp.predict(''.join(PAYLOADS), *PAYLOADS)\nq",
    "1 + 1  # <script>window.pwned=1</script>",
    "sp.check(q, PAYLOADS[0], look=''.join(PAYLOADS))",
    "raise RuntimeError(''.join(PAYLOADS))",
    f"print({PAYLOADS[0]!r} * 40_000)",
)


def hostile_notebook() -> Any:
    """A notebook that has each payload in prose, code, questions and every kind of output."""
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "", "language": "python"}
    prose, code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    cells = [prose(f"# {PAYLOADS[0]} title {PAYLOADS[4]}")]
    cells += [prose(f"## Part {payload}\n\n{payload}\n\n- `{payload}`") for payload in PAYLOADS]
    cells += [prose(f"| [x](a.ipynb) {payload} | ${payload}$ |\n|-|-|\n") for payload in PAYLOADS]
    cells += [code(source) for source in HOSTILE_CELLS]
    cells[-2].metadata["tags"] = ["raises-exception", PAYLOADS[4]]
    notebook.cells = cells
    return notebook


def test_a_site_of_a_hostile_notebook_runs_nothing(watch, tmp_path):
    name = "a <img src=x onerror=window.pwned=1>"
    nbformat.write(hostile_notebook(), tmp_path / f"{name}.ipynb")
    title = "".join(PAYLOADS[:5])
    done = command(tmp_path, "--to", tmp_path / "out", "--only", "a ", "--title", title)
    assert done.returncode == 0, done.stderr
    page = watch(tmp_path / "out" / f"{name}.html")
    choices = page.locator("[data-secondpass-question] input")
    assert choices.count() == len(PAYLOADS)
    choices.nth(1).check()
    expect(page.locator(".verdict")).to_contain_text("Not yet. Look at: <script>window.pwned=1")
    assert page.evaluate("window.pwned") is None
    for one in (name, "index"):
        page = watch(tmp_path / "out" / f"{one}.html")
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == 400


def test_a_gallery_of_hostile_cases_runs_nothing(watch, tmp_path):
    folder = tmp_path / "01_case"
    folder.mkdir()
    text = " ".join(PAYLOADS)
    (folder / "about.md").write_text(f"# T {text}\n\nlead {text[:40]}\n\nchange\n", "utf-8")
    code = SCRIPT.format(payloads=repr(PAYLOADS))
    (folder / "train.py").write_text(code, encoding="utf-8")
    (folder / "mended.py").write_text(code + text.replace("\x00", ""), "utf-8")
    (tmp_path / "out" / "gallery").mkdir(parents=True)
    builder = Builder(Course(text, [Entry("a", text, 5, "")]), tmp_path / "out", print)
    case = cases(tmp_path)[0]
    builder.case([case], 0, explained(case))
    page = watch(tmp_path / "out" / "gallery" / "case.html")
    expect(page.locator(".secondpass .view")).to_have_count(1)
