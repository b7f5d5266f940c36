"""What stays where it is while the player plays: the keys, the camera, the heights."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from sample import carried, chain, frame, sample

COURSE = Path(__file__).parents[2] / "notebooks"
RUNNING = "(document.querySelector('.sp-picture g.now') ?? {getBoundingClientRect: () => ({})})"
IN_SIGHT = f"""() => {{
  const box = {RUNNING}.getBoundingClientRect();
  const stage = document.querySelector(".stage").getBoundingClientRect();
  return box.top >= stage.top && box.bottom <= stage.bottom;
}}"""


@pytest.mark.parametrize("part", [".stage", ".say", ".details", ".memory", "g.node"])
def test_a_click_anywhere_in_the_player_brings_the_keys_to_it(open_page, part):
    page = open_page(step=5)
    page.locator(part).first.click(position={"x": 6, "y": 6})
    page.keyboard.press("Home")
    expect(page.locator(".counter")).to_have_text("0 of 13")


def test_in_jupyterlab_too_and_the_notebook_does_not_move(open_notebook):
    here = open_notebook(next(COURSE.glob("00*.ipynb")))
    here.run_all()
    player = here.page.locator(".secondpass").first
    player.scroll_into_view_if_needed()
    where = "document.querySelector('.jp-WindowedPanel-outer').scrollTop"
    before = here.page.evaluate(where)
    for part in (".stage", ".say", ".details"):
        player.locator(part).click(position={"x": 6, "y": 6})
        here.page.keyboard.press("Home")
        expect(player.locator(".counter")).to_have_text(re.compile("^0 of"))
        here.page.keyboard.press("End")
        assert here.page.evaluate(where) == before


def long_way(count=120):
    data = chain(count, lines=count // 4)
    data["frames"] = [frame("call", "Call 1 begins.", call=1, gradients={"r0": "1"})]
    data["frames"] += [
        frame("node", f"Call 1 runs n{at}.", call=1, node=f"n{at}") for at in range(count)
    ]
    return data


def test_the_camera_still_follows_after_a_group_was_opened(open_page):
    page = open_page(long_way(), step=0)
    page.locator("g[aria-expanded='false']").last.focus()
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)
    for _ in range(12):
        page.locator(".lanes").press("ArrowRight")
        page.wait_for_timeout(300)
        assert page.evaluate("document.querySelector('.stage').scrollTop") == 0
        assert page.evaluate(IN_SIGHT)


def test_the_whole_graph_fits_after_fit_the_graph(open_page):
    for count in range(10, 20):  # a scale is rounded up for one height, down for another
        page = open_page(chain(count, lines=count))
        page.get_by_role("button", name="Fit the graph").click()
        picture, stage = (page.locator(one).bounding_box() for one in (".sp-picture", ".stage"))
        assert picture["y"] >= stage["y"] - 1
        assert picture["y"] + picture["height"] <= stage["y"] + stage["height"] + 1


def wordy():
    data = sample()
    for at, one in enumerate(data["frames"]):
        one["text"] += " It says more of this." * (at * 5 % 7)
    return data


@pytest.mark.parametrize("width", [400, 600, 1000, 1440])
def test_nothing_changes_its_height_or_the_width_of_the_time_line_while_it_plays(open_page, width):
    page = open_page(wordy(), step=0, width=width)
    page.locator(".lanes").focus()
    size = """() => [document.querySelector(".secondpass").getBoundingClientRect().height,
      document.querySelector(".lanes").getBoundingClientRect().width]"""
    before = page.evaluate(size)
    for _ in range(13):
        page.keyboard.press("ArrowRight")
        assert page.evaluate(size) == before


SMALLEST_TEXT = """() => {
  const svg = document.querySelector(".sp-picture");
  const scale = svg.getBoundingClientRect().width / svg.getAttribute("width");
  return scale * Math.min(...[...svg.querySelectorAll("text")].map((one) =>
    parseFloat(getComputedStyle(one).fontSize)));
}"""


@pytest.mark.parametrize("width", [400, 1000, 1440])
@pytest.mark.parametrize("count", [1, 5, 9, 24])
def test_the_text_of_a_picture_can_be_read_at_first_view(open_page, count, width):
    page = open_page(chain(count, lines=count, leaves=3), width=width)
    assert page.evaluate(SMALLEST_TEXT) > 9.4


def test_a_page_uses_the_height_of_its_window_and_shows_where_the_picture_goes_on(open_page):
    data = long_way(40)
    page = open_page(data, step=41, height=1000)
    view = page.locator(".view").bounding_box()
    assert 900 < view["y"] + view["height"] <= 1000
    beyond = page.locator(".stage").get_attribute("data-beyond")
    assert beyond.split()[-1] in ("top", "bottom")
    page.get_by_role("button", name="Fit the graph").click()
    expect(page.locator(".stage")).to_have_attribute("data-beyond", "")


def test_at_the_end_of_a_call_the_first_view_shows_where_it_went_last(open_page):
    data = long_way(20)
    data["frames"].append(frame("return", "Call 1 ends.", call=1))
    page = open_page(data, step=22)
    box, stage = (page.locator(one).bounding_box() for one in ("[data-id=n19]", ".stage"))
    assert stage["y"] <= box["y"] <= stage["y"] + stage["height"] - box["height"]


SEEN_PARTS = """(names) => names.map((name) => {
  const area = name.getBoundingClientRect();
  const place = (part) => part.getBoundingClientRect();
  const parts = [...name.children].filter((part) => place(part).top < area.bottom);
  return parts.every((part) => place(part).right <= area.right + 1) &&
    parts.map((part) => part.textContent).join(" ");
})"""
ENDS = """(lanes) => lanes.map((lane) => {
  const place = (one) => one.getBoundingClientRect();
  const dots = [...lane.querySelectorAll(".dot")];
  const last = place(dots.at(-1));
  const rest = place(lane.querySelector(".track")).right - last.left - last.width / 2;
  return [dots.length, rest, dots[0].title];
})"""


def test_a_lane_names_what_matters_first_and_cuts_no_word_in_two(open_page):
    data = sample()
    titles = ["call 1 · In [7] line 3 · autograd.grad · create_graph", "call 2 · In [7] line 4"]
    for call, title in zip(
        data["calls"], [*titles, "call 3 · stopped · In [7] line 5"], strict=True
    ):
        call["title"] = title
    page = open_page(data, width=1000)
    lanes = page.locator(".lane:not(.start)")
    seen = lanes.locator(".name").evaluate_all(SEEN_PARTS)
    assert seen[1].startswith("call 1 create_graph")
    assert seen[-1].startswith("call 3 stopped")
    assert "reset" in seen[3]
    expect(lanes.nth(1)).to_have_attribute("title", titles[0])
    page.locator(".lanes").press("Home")
    page.locator(".lanes").press("ArrowRight")
    page.locator(".lanes").press("ArrowRight")
    expect(page.locator(".lanes")).to_have_attribute(
        "aria-valuetext", f"Call 1 begins. ({titles[0]})"
    )


def test_the_line_of_a_call_ends_at_its_last_step_and_each_dot_tells_what_it_is(open_page):
    page = open_page()
    places = page.locator(".lane:not(.start)").evaluate_all(ENDS)
    assert all(count == 1 or abs(rest) < 2 for count, rest, _ in places)
    told = [title for _, _, title in places]
    assert told[:2] == ["Step 1: the forward pass", "Step 2: call 1 begins"]


def test_a_single_moment_in_which_a_call_stopped_is_no_film(open_page):
    data = carried()
    data["frames"] = data["frames"][-1:]
    page = open_page(data)
    expect(page.get_by_role("button", name="Play")).to_be_hidden()
    expect(page.locator(".say")).to_have_text("Call 2 stops in Pow.")
    heads = page.locator(".edge.failed .head.back")
    assert heads.count() == 3  # the red way points to where the call stopped
    for head in (*heads.all(), page.locator(".edge.failed .head:not(.back)").first):
        assert head.is_visible() == ("back" in head.get_attribute("class"))
