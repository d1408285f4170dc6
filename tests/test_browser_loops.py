"""The page Loops in a real browser."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from chromium import PATIENT, press, settled
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.browser
SMALL = "task=linear&batch_size=8&microbatches=2"
MEASURED = 150_000


def measured(page: Page):
    """Wait until everything is measured."""
    expect(page.get_by_role("button", name="Measure again")).to_be_visible(timeout=MEASURED)
    page.wait_for_function("() => document.querySelectorAll('.lab-chart .main-svg').length >= 8", timeout=PATIENT)


def test_loops_are_timed_and_their_numbers_agree_with_each_other(page: Page):
    page.goto(f"/loops?{SMALL}")
    expect(page.locator(".loops td", has_text="…").first).to_be_visible()
    expect(page.get_by_text("In a process of its own")).to_be_visible()
    measured(page)
    expect(page.locator(".loops tbody tr")).to_have_count(7)
    rows = page.locator(".loops tbody tr").all_inner_texts()
    assert [text.split("\n")[0] for text in rows] == [
        "the lab", "the lab, nothing held out", "one scan",
        "scan in chunks", "Python loop", "optax.MultiSteps", "unrolled scan",
    ]  # fmt: skip
    cells = page.locator(".loops tbody tr").nth(2).locator("td").all_inner_texts()
    assert cells[3] == "1 ×" and "µs" in cells[0] and re.search("ms|s$", cells[4])
    for title in ("How long an update takes", "From how many updates", "What it costs to report", "Memory of a scan"):
        expect(page.get_by_role("heading", name=re.compile(title))).to_be_visible()
    expect(page.get_by_text("Compiling the scan took")).to_be_visible()
    expect(page.get_by_text("Noise: in a typical loop")).to_be_visible()
    jitted, disabled = page.locator("[data-testid=stCode]").all_inner_texts()[:2]
    assert "Tracer" in jitted and len(disabled.split()) == 2
    page.get_by_text("How each loop is written").click()
    expect(page.get_by_text("def ours(work: Work, measured: bool = True) -> Loop:")).to_be_visible()
    found = Axe().run(page).response
    assert [(fault["id"], fault["nodes"][0]["html"]) for fault in found["violations"]] == []


def test_a_measurement_is_stopped_and_goes_on(page: Page):
    page.goto("/loops?task=names")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped before anything was timed.")).to_be_visible()
    page.get_by_role("button", name="Measure again").click()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()


def test_settings_go_from_page_to_page(page: Page):
    page.add_init_script(
        "window.pushed = []; const push = history.pushState.bind(history);"
        " history.pushState = (state, title, url) => { pushed.push(String(url)); return push(state, title, url) }"
    )
    page.goto("/?task=scalar&learning_rate=0.05")
    settled(page)
    page.get_by_role("link", name="Loops").click()
    expect(page).to_have_url(re.compile(r"/loops\?.*learning_rate=0\.05"))
    expect(page.locator(".headline")).to_contain_text("sgd, 0.05 ")
    expect(page.locator(".st-key-set_reduction")).to_have_count(0)
    page.get_by_text("Optimizer").first.wait_for()
    press(page, "learning_rate", "ArrowRight")
    expect(page).to_have_url(re.compile(r"/loops\?.*learning_rate=0\.1"))
    expect(page.locator(".headline")).to_contain_text("sgd, 0.1 ")
    page.get_by_role("link", name="Lab", exact=True).click()
    expect(page).to_have_url(re.compile(r"/\?.*learning_rate=0\.1"))
    settled(page)
    expect(page.locator(".headline")).to_contain_text("sgd, 0.1 ")
    page.go_back()
    expect(page.get_by_text("One training, written in several ways")).to_be_visible()
    expect(page.locator(".headline")).to_contain_text("sgd, 0.1 ")
    pushed = page.evaluate("window.pushed")
    assert len(pushed) >= 3 and all("?" in url for url in pushed), "no empty address to go back to"


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("/loops?task=hand", "The loops of task=hand are not compared"),
        ("/loops?clip=value&reduction=sum&task=scalar", "only the lab's own program does it: reduction=sum clip=value"),
        ("/loops?microbatches=0", "microbatches=0: must be 1 to"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_said_in_a_sentence(page: Page, address, told):
    page.goto(address)
    expect(page.get_by_text(told)).to_be_visible()


@pytest.mark.parametrize("look", ["embed=1", "present=1"])
def test_it_can_be_embedded_and_presented(browser: Browser, server: str, look):
    context = browser.new_context(viewport={"width": 1366, "height": 768}, base_url=server)
    page = context.new_page()
    page.set_default_timeout(PATIENT)
    page.goto(f"/loops?{SMALL}&{look}")
    assert "/loops" in page.url
    expect(page.locator(".loops tbody tr")).to_have_count(7)
    expect(page.get_by_role("link", name="Lab", exact=True)).to_have_count(0)
    leave = page.get_by_role("button", name="Leave the presentation")
    if look == "present=1":
        leave.click()
        expect(page.get_by_role("link", name="Lab", exact=True)).to_be_visible()
    else:
        expect(leave).to_have_count(0)
        way_out = page.get_by_role("link", name="Open in training-lab").get_attribute("href") or ""
        assert "/loops?" in way_out and "embed" not in way_out
    context.close()
