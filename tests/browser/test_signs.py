"""What marks something must not hide or resemble something else."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from sample import carried, sample

COVERED = """() => {
  const place = (one) => one.getBoundingClientRect();
  const marks = [...document.querySelectorAll(".badge .box, .pill .box")].map(place);
  const heads = [...document.querySelectorAll(".sp-picture .head")].map(place).filter((one) => one.width);
  const covers = (a, b) => a.left < b.right - 2 && b.left < a.right - 2 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
  return [marks.length, heads.length, heads.filter((head) => marks.some((mark) => covers(mark, head))).length];
}"""  # noqa: E501


@pytest.mark.parametrize("make", [sample, carried])
def test_no_arrow_head_lies_under_a_value_or_a_badge(open_page, make):
    page = open_page(make(), step=0)
    seen = 0
    for _ in make()["frames"]:
        page.locator(".lanes").press("ArrowRight")
        page.wait_for_timeout(50)
        marks, heads, covered = page.evaluate(COVERED)
        assert heads and not covered
        seen += marks
    assert seen > 2


def test_a_stopped_node_stays_red_when_it_is_chosen_or_has_the_focus(open_page):
    page = open_page(reduced_motion="reduce")  # no colour on its way
    border = page.locator("g.node.stopped > .box")
    colour = "(one) => getComputedStyle(one).stroke"
    before = border.evaluate(colour)
    page.locator("g.node.stopped").click()
    assert border.evaluate(colour) == before
    expect(page.locator("g.node.selected > .ring")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("g.selected")).to_have_count(0)
    page.keyboard.press("ArrowUp")  # to the leaf, by key
    expect(page.locator("g.leaf > .ring")).to_be_visible()


def test_the_line_that_runs_is_the_call_s_and_the_one_that_made_the_node_is_marked_otherwise(
    open_page,
):
    page = open_page(step=0)
    marked = []
    for _ in range(8):
        page.locator(".lanes").press("ArrowRight")
        marked.append(
            [
                page.locator(f".code-line.{name} .number").all_text_contents()
                for name in ("now", "made")
            ]
        )
    assert marked[0] == [["2"], []]  # the forward pass
    assert marked[1] == [["3"], []]  # call 1 begins on line 3
    assert marked[2] == [["3"], ["2"]]  # and runs the Node that line 2 made
    assert marked[6] == [["4"], ["2"]]
    assert marked[7] == [["4"], []]


def test_where_the_line_of_a_call_is_not_known_none_is_marked_as_running(open_page):
    data = sample()
    for call in data["calls"]:
        call["line"] = None
    page = open_page(data, step=3)
    expect(page.locator(".code-line.now")).to_have_count(0)
    expect(page.locator(".code-line.made .number")).to_have_text("2")


@pytest.mark.parametrize("width", [400, 700, 1100])
def test_no_line_of_code_is_cut(open_page, width):
    data = sample()
    data["sources"][0]["lines"][1] = "                y = " + " + ".join(["weight * x"] * 20)
    page = open_page(data, width=width)
    assert page.evaluate("""() => {
      const pane = document.querySelector(".source").getBoundingClientRect();
      return [...document.querySelectorAll(".code-line .code")].every((one) =>
        one.getBoundingClientRect().right <= pane.right && one.scrollWidth <= one.clientWidth + 1);
    }""")


def test_without_source_there_is_no_line_above_the_details(open_page):
    data = sample()
    data["sources"] = []
    for one in [*data["frames"], *data["calls"], *data["nodes"].values()]:
        one["line"] = None
    page = open_page(data)
    border = "getComputedStyle(document.querySelector('.details')).borderTopWidth"
    assert page.evaluate(border) == "0px"


def test_what_is_not_made_yet_can_be_read(open_page):
    page = open_page(step=0)
    words = page.locator(".unborn .slot text.words")
    expect(words).to_have_text("not made yet")
    faint = """(one) => { let all = 1; for (; one instanceof Element; one = one.parentNode)
      all *= getComputedStyle(one).opacity; return all; }"""
    assert words.evaluate(faint) == 1


def test_a_legend_opens_and_closes_and_tells_of_every_sign_of_the_time_line(open_page):
    page = open_page()
    button = page.get_by_role("button", name="What the signs mean")
    button.click()
    panel = page.locator(".legend")
    expect(panel).to_contain_text("its width is no scale")
    for kind in ("accumulate", "zero", "stop"):
        expect(panel.locator(f".dot.{kind}")).to_be_visible()
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(button).to_have_attribute("aria-expanded", "false")
