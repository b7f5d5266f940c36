"""The course's pages in Chromium, with the network cut: read, answered, replayed, printed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from test_accessible import axe  # noqa: F401 (a fixture)

sys.path.insert(0, str(Path(__file__).parents[1]))

from pages import PAGES, site

Open = Callable[..., Page]
EVERY_PAGE = pytest.mark.parametrize("name", PAGES)
SCHEMES = pytest.mark.parametrize("scheme", ["light", "dark"])
FIRST = "01_run_backward_twice.html"


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Open a page of the site; no request and no complaint may come of it."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_one(name: str, *, width: int = 1440, scheme: Any = "light", **options: Any) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            reduced_motion="reduce",
            offline=True,
            **options,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text))
        page.on("request", lambda request: complaints.append(request.url))
        page.goto((site() / name).as_uri())
        complaints[:] = [one for one in complaints if not one.startswith(("data:", page.url))]
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert not [one for one in complaints if not one.startswith(("data:", "file:"))]


@EVERY_PAGE
@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1440, "light")])
def test_a_page_shows_its_players_and_does_not_scroll_sideways(open_page, name, scheme, width):
    page = open_page(name, width=width, scheme=scheme)
    places = page.locator("[data-secondpass]")
    expect(page.locator(".secondpass .view")).to_have_count(places.count())
    expect(page.locator("[data-secondpass] > img:visible")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    contents = page.locator(".contents")
    if contents.count():
        assert contents.is_visible() == (width == 1440)
    for code in page.locator("main pre").all():
        scrolls = code.evaluate("(one) => one.scrollWidth > one.clientWidth")
        assert (code.get_attribute("tabindex") == "0") == scrolls


@pytest.mark.parametrize("name", PAGES[:4])
@SCHEMES
def test_a_page_has_no_barrier_that_axe_finds(open_page, axe, name, scheme):  # noqa: F811
    page = open_page(name, scheme=scheme, bypass_csp=True)  # for axe's own script only
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    page.evaluate(axe)
    found = page.evaluate("axe.run(document)")
    told = [
        f"{one['id']}: {one['help']}: {[part['html'][:160] for part in one['nodes'][:3]]}"
        for one in found["violations"]
    ]
    assert len(found["passes"]) > 20
    assert not told, "\n".join(told)


def test_a_choice_is_judged_uncovers_what_happened_and_is_repeated_by_the_check(open_page):
    page = open_page(FIRST)
    question = page.locator("[data-secondpass-question]").first
    covered = page.locator("details.covered").first
    verdict = page.locator(".verdict").first
    expect(verdict).to_have_text("Not answered yet.")
    expect(covered.locator(".secondpass")).not_to_be_visible()
    question.get_by_role("radio", name="held").check()
    for place in (question.get_by_role("status"), verdict):
        expect(place).to_have_text("Not yet. Look at: the chip inside Pow")
    expect(covered.locator(".secondpass g.node")).to_be_visible()
    page.keyboard.press("ArrowDown")
    for place in (question.get_by_role("status"), verdict):
        expect(place).to_have_text("Right.")
    expect(page.locator("details.covered").nth(1)).not_to_have_attribute("open", "")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("6", "Right."),
        ("6,0", "Right."),
        ("5", "Not yet."),
        ("six", "That is no number."),
        (" ", ""),
    ],
)
def test_a_number_is_judged(open_page, given, said):
    page = open_page("00_start_here.html")
    field = page.get_by_role("textbox", name="a number")
    field.fill(given)
    field.blur()
    status = page.locator("[data-secondpass-question]").get_by_role("status")
    expect(status).to_contain_text(said)
    if not said:
        expect(status).to_have_text("")


def test_a_player_replays_by_keyboard_from_where_its_view_stood(open_page):
    page = open_page(FIRST)
    view = page.locator(".secondpass").first
    expect(view.locator(".counter")).to_have_text("0 of 6")
    view.locator(".lanes").focus()
    page.keyboard.press("End")
    expect(view.locator(".say")).to_contain_text("Call 2 stops in Pow")
    expect(page.locator(".secondpass .counter").nth(2)).to_have_text("6 of 6")


def test_the_theme_can_be_switched_for_pages_and_players_and_is_kept(open_page):
    page = open_page(FIRST)
    button = page.get_by_role("button", name="Dark theme")
    ground = "getComputedStyle(document.querySelector('.secondpass .view')).backgroundColor"
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    assert page.evaluate(ground) == "rgb(17, 20, 24)"
    page.get_by_role("link", name="Next").click()
    page.goto((site() / "index.html").as_uri())
    expect(page.get_by_role("button", name="Dark theme")).to_have_attribute("aria-pressed", "true")
    assert page.evaluate(ground) == "rgb(17, 20, 24)"


def test_on_paper_a_still_stands_for_each_player_and_nothing_is_covered_or_cut(open_page):
    page = open_page(FIRST, scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator(".secondpass:visible")).to_have_count(0)
    stills = page.locator("[data-secondpass] > img")
    expect(page.locator("[data-secondpass] > img:visible")).to_have_count(stills.count())
    expect(page.locator("details:not([open])")).to_have_count(0)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for code in page.locator("main pre").all():
        assert code.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(page.locator("details.covered:not([open])")).to_have_count(3)


def test_without_script_the_stills_the_choices_and_the_links_are_there(browser):
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto((site() / FIRST).as_uri())
    stills = page.locator("[data-secondpass] > img")
    assert stills.count() == 5
    assert stills.first.is_visible()
    assert (
        "there is no Pow any more" in page.locator("[data-secondpass-question]").first.inner_text()
    )
    context.close()
