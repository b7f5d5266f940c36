"""Saved files: self-contained, strict, harmless."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from sample import Given, chain, sample
from secondpass.picture import layout
from secondpass.picture.data import complete
from secondpass.picture.openings import openings, packed
from secondpass.picture.page import page, page_of_words, save
from secondpass.picture.widget import AutogradGraph


class Parts(HTMLParser):
    """Collects the elements of a page, and the text of its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag in ("script", "style")
        if self.inside:
            self.texts.append((tag, ""))

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.texts[-1] = (self.tags[-1][0], self.texts[-1][1] + data)


def saved(tmp_path, data=None, name="page.html"):
    return save(AutogradGraph(Given(data)), tmp_path / name).read_text(encoding="utf-8")


def test_another_suffix_names_the_valid_ones(tmp_path):
    for name in ("x.png", "x", "x.htm"):
        with pytest.raises(ValueError, match=r"must end in \.html or \.svg"):
            save(AutogradGraph(Given()), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_anything_but_a_view_or_a_recording_is_refused(tmp_path):
    with pytest.raises(TypeError, match="int cannot be saved"):
        save(3, tmp_path / "x.html")


WORDS = """secondpass: call 2 stopped in Tanh, made on line 6:  h = cell(x, h < 1)
  It was reached again through `h<b>`: made in an earlier round.
  Change, line 8:  h = h.detach()
    after this line: the values go on.
  Not retain_graph=True: the graph would grow."""


def test_an_explanation_is_typeset_as_facts_code_and_reasons_and_stays_harmless():
    page_ = page(AutogradGraph(Given()), WORDS, "What stopped x.py")
    assert page_of_words("What stopped x.py", WORDS).count("<p class=") == 5
    for part in (
        "Call 2 stopped in Tanh, made on line 6: <code>h = cell(x, h &lt; 1)</code></p>",
        '<p class="fact">It was reached again through <code>h&lt;b&gt;</code>: made in an',
        '<p class="change">Change, line 8: <code>h = h.detach()</code></p>',
        '<p class="why">after this line: the values go on.</p>',
        '<p class="fact">Not retain_graph=True: the graph would grow.</p>',
    ):
        assert part in page_
    assert "secondpass: call" not in page_


def test_a_recording_is_saved_as_well_as_a_view(tmp_path):
    assert save(Given(), str(tmp_path / "x.HTML")).read_text() == saved(tmp_path)


def test_the_page_holds_the_recording_and_the_position(tmp_path):
    view = AutogradGraph(Given(), step=4)
    parts = Parts(save(view, tmp_path / "x.html").read_text())
    values = json.loads(next(text for tag, text in parts.texts if text.startswith('{"_recording"')))
    assert values["step"] == 4
    assert values["_recording"] == view._recording


def test_the_policy_allows_this_script_this_style_and_nothing_else(tmp_path):
    parts = Parts(saved(tmp_path))
    policy = next(at["content"] for tag, at in parts.tags if at.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for tag, name in (("script", "script-src"), ("style", "style-src")):
        text = next(text for kind, text in parts.texts if kind == tag and not text.startswith("{"))
        code = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name} 'sha256-{code}'" in policy


def test_the_page_speaks_of_no_other_file(tmp_path):
    text = saved(tmp_path)
    parts = Parts(text)
    links = [value for _, at in parts.tags for key, value in at.items() if key in ("src", "href")]
    assert all(link.startswith("data:image/svg+xml;base64,") for link in links)
    assert set(re.findall(r"https?://[^\s\"'\\]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\beval\(|new Function|innerHTML|@import|url\(", text)
    assert not [
        at for _, at in parts.tags if "style" in at or any(key.startswith("on") for key in at)
    ]


PAYLOADS = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\"'><img src=x onerror=alert(1)>",
    "\u2028\u2029\u202e",
    "]]>",
]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_hostile_text_stays_text(tmp_path, payload):
    data = sample()
    data["leaves"]["l0"]["name"] = data["summary"] = data["frames"][-1]["text"] = payload
    data["sources"][0]["lines"] = [payload]
    data["calls"][0]["title"] = payload
    plain, hostile = Parts(saved(tmp_path)), Parts(saved(tmp_path, data))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in plain.tags]


def test_the_same_view_gives_the_same_page(tmp_path):
    assert saved(tmp_path) == saved(tmp_path)


def test_a_still_is_one_svg_of_the_present_step(tmp_path):
    view = AutogradGraph(Given(), step=8)
    text = save(view, tmp_path / "x.svg").read_text(encoding="utf-8")
    assert "4 + 4 = 8" in text
    assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"


def test_without_a_layout_program_the_page_holds_the_tree_and_a_still_is_refused(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(layout, "find_engine", lambda: None)
    assert "install graphviz-pure" in saved(tmp_path)
    with pytest.raises(RuntimeError, match="install graphviz-pure"):
        saved(tmp_path, name="x.svg")


def test_every_group_of_a_page_can_be_opened():
    data = complete(chain(200, lines=50))
    views = openings(data)
    names = set()
    for name, view in views.items():
        drawn = set(re.findall(r'class="(?:group|frame)[^"]*"[^>]*data-id="([^"]+)"', view["svg"]))
        assert name in drawn | {""} and view["around"] in views
        names |= drawn
    assert names == views.keys() - {""} and len(names) > 3


def test_a_small_graph_needs_no_further_views_and_a_huge_one_holds_some(monkeypatch):
    assert openings(complete(chain(3))) == {} and packed({}) == ""
    monkeypatch.setattr("secondpass.picture.openings.LONGEST", 1)
    assert list(openings(complete(chain(200, lines=50)))) == [""]
