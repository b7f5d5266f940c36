"""The player for every reader: right to left, magnified, in forced colours, by focus alone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

INSIDE_EACH_OTHER = """() => {
  const tall = document.documentElement.scrollWidth > document.documentElement.clientWidth;
  const controls = [...document.querySelectorAll(".row button, .row select, .lanes, .say")];
  const seen = controls.filter((one) => one.offsetParent);
  const boxes = seen.map((one) => one.getBoundingClientRect());
  const out = boxes.filter((box) => box.left < 0 || box.right > innerWidth + 1).length;
  const over = boxes.filter((one, at) => boxes.slice(at + 1).some((other) =>
    one.left < other.right - 1 && other.left < one.right - 1 &&
    one.top < other.bottom - 1 && other.top < one.bottom - 1)).length;
  return { tall, out, over, count: boxes.length };
}"""
FINE = {"tall": False, "out": 0, "over": 0, "count": 6}


def test_in_a_page_from_right_to_left_time_and_code_run_from_left_to_right(open_page):
    page = open_page(step=0)
    page.evaluate("document.documentElement.dir = 'rtl'")
    page.locator(".lanes").focus()
    at = "document.querySelector('.thumb').getBoundingClientRect().left"
    began = page.evaluate(at)
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".counter")).to_have_text("3 of 13")
    assert page.evaluate(at) > began
    assert (
        page.evaluate("getComputedStyle(document.querySelector('.code-line')).direction") == "ltr"
    )
    assert page.evaluate(INSIDE_EACH_OTHER) == FINE


@pytest.mark.parametrize("width", [1280, 800])
def test_magnified_to_twice_the_size_nothing_is_lost(open_page, width):
    """The browser's zoom halves the page's pixels, as this does."""
    page = open_page(step=5, width=width // 2, device_scale_factor=2)
    assert page.evaluate(INSIDE_EACH_OTHER) == FINE
    page.get_by_role("button", name="Step forward").click()
    expect(page.locator(".counter")).to_have_text("6 of 13")
    expect(page.locator(".say")).to_be_visible()


@pytest.mark.parametrize("colors", ["none", "active"])
def test_colour_is_never_the_only_sign(open_page, colors):
    page = open_page(forced_colors=colors)
    freed = page.locator(".slot.freed")
    expect(freed.locator(".words")).to_have_text("freed by call 2")
    dashes = freed.locator("rect").evaluate("one => getComputedStyle(one).strokeDasharray")
    assert dashes != "none"
    expect(page.locator(".node.stopped .badge")).to_contain_text("stopped")
    expect(page.locator(".lane.stopped .name")).to_contain_text("stopped")


def test_whatever_has_the_focus_shows_it(open_page):
    page = open_page(step=4)
    look = """() => {
      const one = document.activeElement;
      const box = one.querySelector?.("rect.box, ellipse, rect") ?? one;
      const styles = [one, box].map((each) => getComputedStyle(each));
      return styles.map((each) => [each.outlineStyle, each.boxShadow, each.stroke,
        each.strokeWidth, each.borderColor, each.display].join(" ")).join("|");
    }"""
    seen = 0
    for _ in range(16):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        focused = page.evaluate(look)
        one = page.evaluate_handle("document.activeElement")
        one.evaluate("element => element.blur()")
        page.evaluate("element => { window.left = element; }", one)
        plain = page.evaluate(look.replace("document.activeElement", "window.left"))
        assert focused != plain, one.evaluate("element => element.outerHTML.slice(0, 80)")
        one.evaluate("element => element.focus()")
        seen += 1
    assert seen >= 8
