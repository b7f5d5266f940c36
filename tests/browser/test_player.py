"""The player in a saved page, in Chromium with the network cut."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect

sys.path.insert(0, str(Path(__file__).parents[1]))

from sample import Given, chain, frame, node, sample
from secondpass.picture.page import player
from secondpass.picture.widget import AutogradGraph


def test_it_plays_to_the_end_by_keyboard_alone_and_says_what_was_recorded(open_page):
    page = open_page(step=0)
    for _ in range(20):
        if page.evaluate("document.activeElement.getAttribute('role')") == "slider":
            break
        page.keyboard.press("Tab")
    for number, one in enumerate(sample()["frames"], 1):
        page.keyboard.press("ArrowRight")
        expect(page.locator(".say")).to_have_text(one["text"])
        expect(page.locator(".counter")).to_have_text(f"{number} of 13")
    page.keyboard.press("Home")
    expect(page.locator(".counter")).to_have_text("0 of 13")
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(page.locator(".counter")).to_have_text("13 of 13", timeout=30_000)
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_groups_open_and_close_without_a_kernel(open_page):
    page = open_page(chain(200, lines=50))
    boxes = page.locator(".sp-picture g[data-id^='n']")
    closed = page.locator(".sp-picture g[aria-expanded='false']")
    seen, expected = boxes.count(), closed.first.get_attribute("data-members").split()
    way = []
    while not set(expected) & {one.get_attribute("data-id") for one in boxes.all()}:
        group = closed.first.get_attribute("data-id")
        closed.first.focus()
        page.keyboard.press("Enter")
        frame = page.locator(f"g.frame[data-id='{group}']")
        expect(frame).to_have_attribute("aria-expanded", "true")
        way.append(frame)
    assert way and boxes.count() > seen
    for frame in reversed(way):
        frame.focus()
        page.keyboard.press("Enter")
        expect(frame).to_have_count(0)
    expect(closed.first).to_be_visible()


def test_a_step_shows_the_state_of_the_slot_the_stack_and_what_travels(open_page):
    page = open_page(step=0)
    chip, pill = page.locator(".slot"), page.locator(".pill text")
    seen = []
    for _ in range(13):
        page.get_by_role("button", name="Step forward").click()
        travels = pill.all_text_contents()
        total = page.locator("text.sum").text_content()
        seen.append((chip.get_attribute("class"), "".join(travels), total))
    assert seen[2] == ("slot kept", "4", "")
    assert seen[3] == ("slot kept", "4", "= 4")
    assert seen[6] == ("slot freed", "4", "= 4")
    assert seen[7] == ("slot freed", "4", "4 + 4 = 8")
    assert seen[9] == ("slot freed", "", "")
    assert page.locator(".node.stopped .badge").text_content() == "call 3 stopped"
    expect(page.get_by_role("button", name="Step forward")).to_be_disabled()


def test_the_still_and_the_player_show_the_same(open_page):
    view = AutogradGraph(Given())
    page = open_page(step=0)
    for step in range(14):
        view.step = step
        still = ElementTree.fromstring(view.still()).iter("{http://www.w3.org/2000/svg}text")
        live = page.locator(".sp-picture text").all_text_contents()
        assert sorted("".join(text.itertext()) for text in still) == sorted(live)
        page.locator(".lanes").press("ArrowRight")


def test_a_click_on_a_node_finds_its_line_and_back(open_page):
    page = open_page()
    page.locator("g.node").click()
    expect(page.locator(".code-line.picked")).to_contain_text("y = x**2")
    expect(page.locator(".details")).to_contain_text("PowBackward0")
    page.keyboard.press("Escape")
    expect(page.locator(".code-line.picked")).to_have_count(0)
    page.locator(".code-line").nth(1).click()
    expect(page.locator("g.node.picked")).to_have_count(1)


def test_the_time_line_can_be_scrubbed(open_page):
    page = open_page()
    lane = page.locator(".lane").nth(2).locator(".track")
    area = lane.bounding_box()
    page.mouse.move(area["x"] + 2, area["y"] + 5)
    page.mouse.down()
    expect(page.locator(".counter")).to_have_text("2 of 13")
    page.mouse.move(area["x"] + area["width"] - 2, area["y"] + 5)
    page.mouse.up()
    expect(page.locator(".counter")).to_have_text("5 of 13")


def test_a_wheel_scrolls_the_page_and_zooms_only_with_ctrl(open_page):
    page = open_page()
    width = "document.querySelector('.sp-picture').style.width"
    before = page.evaluate(width)
    page.locator(".stage").hover()
    page.mouse.wheel(0, 100)
    assert page.evaluate(width) == before
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    page.wait_for_function(f"{width} !== '{before}'")
    page.get_by_role("button", name="Fit the graph").click()
    assert page.evaluate(width) == before


def test_a_big_graph_can_be_searched_by_keyboard(open_page):
    page = open_page(chain(70, lines=20, leaves=3))
    field = page.get_by_role("searchbox")
    field.fill("w1")
    expect(page.locator(".finding")).to_have_text("1 found")
    expect(page.locator("g.found")).to_have_count(1)
    field.press("Enter")
    page.wait_for_timeout(400)
    assert page.evaluate(INSIDE, "g.at")
    expect(page.locator(".details .subject")).to_have_text("w1")
    field.press("Escape")
    expect(page.locator("g.found")).to_have_count(0)
    field.fill("nothing has this name")
    expect(page.locator(".finding")).to_have_text("none found")


def test_what_was_never_saved_does_not_make_freed_tensors_look_held(open_page):
    data = chain(3)
    kinds = {"a": "f32", "b": "f32", "c": "f32", "d": "f32", "weight": ""}  # the last two in one
    data["nodes"]["n0"] = node("Loss", 1, *((name, kind, 4) for name, kind in kinds.items()))
    slots = {f"n0.{name}": ["freed", 1] if kinds[name] else ["none", None] for name in kinds}
    data["frames"] = [frame("node", "Call 1 runs Loss.", call=1, node="n0", slots=slots)]
    page = open_page(data, step=1)
    chip = page.locator("g[data-id='n0'] .slot").last
    expect(chip).to_have_attribute("class", "slot freed")
    expect(chip.locator(".words")).to_have_text("freed by call 1")
    told = page.locator(".details dd").all_text_contents()
    assert told[:2] == ["call 1 runs now", "all 4 freed by call 1"]


def test_a_crowd_of_frames_leaves_a_clean_time_line(open_page):
    data = chain(3, leaves=60)
    data["frames"] = [frame("call", "Call 1 begins.", call=1)]
    data["frames"] += [
        frame("accumulate", f"Call 1: w{at}.grad = 1", call=1, leaf=f"l{at}", after="1")
        for at in range(60)
    ]
    data["frames"] += [frame("stop", "Call 1 stops in Mul.", call=1, node="n0")]
    page = open_page(data)
    expect(page.locator(".dot:not(.start)")).to_have_count(1)
    expect(page.locator(".dot.stop")).to_have_count(1)


def test_a_small_graph_has_no_field_to_search(open_page):
    expect(open_page().locator(".find")).to_be_hidden()


def test_before_any_call_there_is_a_hint_and_no_time_line(open_page):
    page = open_page(chain(3))
    expect(page.locator(".say")).to_have_text("Run backward in another cell: it appears here.")
    expect(page.locator(".row")).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1100])
def test_nothing_sticks_out_of_a_narrow_or_a_wide_column(open_page, width, scheme):
    page = open_page(width=width, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground = page.evaluate("getComputedStyle(document.querySelector('.view')).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")


def test_who_wants_no_motion_gets_none(open_page):
    page = open_page(step=3, reduced_motion="reduce")
    page.locator(".lanes").press("ArrowRight")
    assert page.evaluate("document.getAnimations().length") == 0


def wide_and_tall():
    """A graph of the size of a small MLP's: too big for the stage, small enough to be read."""
    data = chain(9, leaves=4)
    data["frames"] = [frame("node", "Call 1 runs n0.", call=1, node="n0")]
    data["frames"] += [frame("node", "Call 1 runs n8.", call=1, node="n8")]
    return data


INSIDE = """(selector) => {
  const box = document.querySelector(selector).getBoundingClientRect();
  const stage = document.querySelector(".stage").getBoundingClientRect();
  return box.left >= stage.left && box.right <= stage.right && box.top >= stage.top &&
    box.bottom <= stage.bottom;
}"""


def test_a_picture_that_is_too_big_is_scaled_down_and_moved_to_where_the_frame_is(open_page):
    page = open_page(wide_and_tall(), step=1)
    scale = page.evaluate(
        "parseFloat(document.querySelector('.sp-picture').style.width) / "
        "document.querySelector('.sp-picture').getAttribute('width')"
    )
    assert 0.55 < scale < 1
    assert page.evaluate(INSIDE, "[data-id=n0]")
    assert not page.evaluate(INSIDE, "[data-id=n8]")
    page.locator(".lanes").press("ArrowRight")
    page.wait_for_timeout(400)
    assert page.evaluate(INSIDE, "[data-id=n8]")


def test_before_any_frame_the_root_is_in_sight(open_page):
    page = open_page(chain(30))
    assert page.evaluate(INSIDE, "[data-id=r0]")


def test_nothing_lies_under_the_buttons(open_page):
    page = open_page(wide_and_tall(), step=2)
    tools, stage = (page.locator(part).bounding_box() for part in (".tools", ".stage"))
    assert tools["y"] + tools["height"] <= stage["y"]


@pytest.mark.parametrize("width", [300, 360, 480, 620, 640, 800, 1100])
def test_the_details_never_break_a_word_letter_by_letter(open_page, width):
    page = open_page(width=width)
    page.locator("g.node").click(force=True)
    heights = page.evaluate("""() => [...document.querySelectorAll(".details dt, .details th")].map(
        (one) => one.getBoundingClientRect().height)""")
    widths = page.evaluate("""() => [...document.querySelectorAll(".details dd, .details td")].map(
        (one) => one.getBoundingClientRect().width)""")
    assert len(heights) > 5
    assert max(heights) < 30
    assert min(widths) > 24


PAYLOADS = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "javascript:alert(1)",
    "\"' onmouseover=alert(1) x='",
    "]]><script>alert(1)</script>",
    "\u202e\u2066\u0000{{constructor.constructor('alert(1)')()}}",
    "<b>" * 100_000,
)


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_hostile_text_is_shown_and_never_runs(open_page, payload):
    data = sample()
    data["leaves"]["l0"] = dict.fromkeys(("name", "type", "value"), payload)
    data["nodes"]["n0"] |= {"title": payload, "name": payload, "gives": payload}
    data["roots"]["r0"] |= {"name": payload, "value": payload, "type": payload}
    data["sources"][0] |= {"name": payload, "lines": [payload] * 5}
    data["summary"] = data["left_out"] = payload
    for one in data["frames"]:
        one["text"] = payload
        one["gradients"] = dict.fromkeys(one["gradients"], payload)
    for call in data["calls"]:
        call["title"] = payload
    page = open_page(data)
    for kind in ("node", "leaf", "root"):
        page.locator(f"g.{kind}").click(force=True)
    page.locator(".code-line").first.click()
    page.locator(".lanes").press("Home")
    page.locator(".lanes").press("ArrowRight")
    assert page.locator(".secondpass img, .secondpass script, .secondpass b b").count() == 0


def test_two_players_in_one_page_move_by_themselves_and_share_no_id(open_page, tmp_path):
    page = open_page()
    part = player(AutogradGraph(Given()))
    file = tmp_path / "two.html"
    one = (tmp_path / "page.html").read_text(encoding="utf-8")
    file.write_text(one.replace(part, part + part), encoding="utf-8")
    page.close()
    page = page.context.new_page()
    page.goto(file.as_uri())
    expect(page.locator(".secondpass")).to_have_count(2)
    page.locator(".lanes").first.press("Home")
    assert page.locator(".counter").all_text_contents() == ["0 of 13", "13 of 13"]
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids)) == 6
