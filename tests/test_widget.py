"""The view: its traits, its stills, and that it follows its recording."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from node import node_program
from sample import Given, chain, frame, sample
from secondpass.picture import layout
from secondpass.picture.widget import AutogradGraph


def test_repr_says_how_much_is_shown_and_where_it_stands():
    view = AutogradGraph(Given())
    assert repr(view) == "AutogradGraph(1 node, 1 edge, step=13)"
    view.step = 4
    assert repr(view) == "AutogradGraph(1 node, 1 edge, step=4)"
    assert repr(AutogradGraph(Given(chain(3)))) == "AutogradGraph(3 nodes, 3 edges, step=0)"


def test_an_unknown_keyword_names_the_valid_ones():
    with pytest.raises(TypeError, match=r"unknown keyword: stpe\. Valid keywords: step\."):
        AutogradGraph(Given(), stpe=3)


def test_the_position_stays_within_the_recording_and_says_its_frame():
    view = AutogradGraph(Given(), step=4)
    assert view.frame["text"] == "Call 1: x.grad = 4"
    view.step = 99
    assert view.step == 13
    view.step = -5
    assert (view.step, view.frame) == (0, None)


def test_the_bundle_has_one_picture_and_the_tree():
    view = AutogradGraph(Given())
    data, _ = view._repr_mimebundle_()
    assert set(data) == {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"}
    assert data["text/plain"] == str(view.graph)
    found = re.fullmatch(
        r'<img alt="([^"]+)" src="data:image/svg\+xml;base64,([^"]+)">', data["text/html"]
    )
    assert found[1].startswith("The autograd graph of y: 1 Node and 1 leaf.")
    assert found[1].endswith("Call 3 stops in Pow.")
    still = ElementTree.fromstring(base64.b64decode(found[2]))
    style = still.find("{http://www.w3.org/2000/svg}style").text
    assert "var(" not in style
    assert ".ground { fill: #ffffff; }" in style


def test_the_bundle_is_the_same_every_time():
    first, second = (AutogradGraph(Given())._repr_mimebundle_()[0] for _ in range(2))
    assert first["text/html"] == second["text/html"]


def test_the_still_follows_the_position():
    view = AutogradGraph(Given())
    stills = []
    for step in (0, 4, 8, 13):
        view.step = step
        stills.append(view.still())
    assert len(set(stills)) == 4
    assert "4 + 4 = 8" in stills[2]


def test_names_in_the_alternative_text_are_escaped():
    data = sample()
    data["summary"] = 'The graph of "><script>alert(1)</script>.'
    html = AutogradGraph(Given(data)).image()
    assert html.count("<") == 1
    assert "&lt;script&gt;" in html


def test_without_a_layout_program_there_is_the_tree_and_one_sentence(monkeypatch):
    monkeypatch.setattr(layout, "find_engine", lambda: None)
    view = AutogradGraph(Given())
    assert view._svg == ""
    html = view._repr_mimebundle_()[0]["text/html"]
    assert html.startswith("<pre>")
    assert "install graphviz-pure" in html
    assert view.still() is None


def test_an_update_shows_what_was_recorded_since_and_jumps_to_the_end():
    data = sample()
    data["frames"] = data["frames"][:3]
    given = Given(data)
    view = AutogradGraph(given)
    svg = view._svg
    given.data = sample()
    view.update()
    assert (view.step, len(view._recording["frames"])) == (13, 13)
    assert view._svg == svg  # the same Nodes: not laid out again


def test_an_update_with_new_nodes_lays_out_again():
    given = Given(chain(2))
    view = AutogradGraph(given)
    given.data = chain(3)
    view.update()
    assert view._svg.count('class="node"') == 3


def test_a_step_that_shows_no_new_picture_runs_no_layout_program(monkeypatch):
    given = Given()
    view = AutogradGraph(given)
    monkeypatch.setattr(layout, "find_engine", lambda: pytest.fail("was laid out again"))
    given.data["frames"].append(frame("forward", "Line 6 ran."))
    view.update()
    view.step = 2


def test_groups_are_opened_and_closed_by_their_ids():
    view = AutogradGraph(Given(chain(200, lines=50)))
    closed = view._svg
    group = re.search(r'data-id="(gn[^"]+)"', closed)[1]
    view._open = [group]
    assert 'class="frame" transform' in view._svg
    opened = view._svg
    view._open = []
    assert view._svg != opened
    view._open = ["no such group"]
    assert 'class="frame"' not in view._svg


def test_the_functions_of_the_module_in_node():
    done = subprocess.run(
        [node_program(), "--test", str(Path(__file__).parent / "widget.test.mjs")],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "FORCE_COLOR": "0"},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_the_drawing_needs_no_widget_library():
    code = (
        "import sys, secondpass.picture.drawing; "
        "sys.exit(any(name.startswith(('ipywidgets', 'anywidget')) for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
