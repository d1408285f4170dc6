"""The page as people use it: time travel, history, axes, files, presenting, keyboard. In headless Chromium."""

import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from chromium import PATIENT, press, query, settled, tiles
from playwright.sync_api import Browser, Locator, Page, expect

from lab import Settings, fit

pytestmark = pytest.mark.browser


def plot_of(page: Page, title: str) -> Locator:
    return page.locator(".lab-chart", has_text=title)


def taken(page: Page, chart: Locator, what: str) -> bytes:
    chart.locator(".take summary").click()
    with page.expect_download() as waiting:
        chart.get_by_role("button", name=what).click()
    return waiting.value.path().read_bytes()


def opened_update(page: Page, step: int):
    """Wait until the microscope tells of this update."""
    expect(page.get_by_text(f"Update {step:,}:").first).to_be_visible(timeout=PATIENT)


def test_time_can_be_stepped_jumped_and_played(page: Page):
    page.goto("/?task=scalar&steps=300")
    settled(page)
    opened_update(page, 0)
    page.get_by_role("button", name="step forward").first.click()
    opened_update(page, 1)
    page.wait_for_function("() => location.search.includes('step=1')")
    update = fit(Settings(task="scalar", steps=300)).at(1)
    bars = page.evaluate("Array.from(document.querySelector('[class*=-accumulator] .plot').data[0].y)")
    assert bars == pytest.approx([m.running_total.values[0] for m in update.microbatches])
    page.get_by_role("button", name="lowest loss").click()
    lowest = int(fit(Settings(task="scalar", steps=300)).record["loss"].argmin())
    opened_update(page, lowest)
    page.locator(".lab-time .exact").fill("250")
    page.keyboard.press("Enter")
    opened_update(page, 250)
    page.locator(".lab-time").get_by_role("button", name="play").click()
    opened_update(page, 299)
    expect(page.locator(".lab-time").get_by_role("button", name="play", exact=True)).to_be_visible()
    page.locator(".lab-time").get_by_role("button", name="step back").click()
    opened_update(page, 298)
    page.get_by_role("radio", name="Devices").or_(page.get_by_role("button", name="Devices")).first.click()
    page.wait_for_function("() => location.search.includes('view=devices')")
    page.reload()
    expect(page.get_by_text("This run uses one device.")).to_be_visible(timeout=PATIENT)
    opened_update(page, 298)


def test_the_first_bad_update_is_one_click_away(page: Page):
    page.goto("/?task=scalar&learning_rate=1000&steps=100")
    bad = int(np.flatnonzero(~fit(Settings(task="scalar", learning_rate=1000, steps=100)).record["finite"])[0])
    page.get_by_role("button", name=f"first not finite · {bad}").click(timeout=PATIENT)
    opened_update(page, bad)


def test_a_click_on_a_curve_opens_the_update_and_its_values_are_exact(page: Page):
    page.goto("/?task=linear&batch_size=50&axis=examples")
    settled(page)
    record = fit(Settings(task="linear", batch_size=50)).record
    chart = plot_of(page, "Loss over the run")
    area = chart.locator(".nsewdrag").bounding_box()
    assert area is not None
    page.mouse.move(area["x"] + 0.5 * area["width"], area["y"] + 0.5 * area["height"])
    told = chart.locator(".readout")
    expect(told).to_have_text(re.compile(r"examples seen [\d,]+: training batch [\d.e-]+"))
    seen = re.search(r"seen ([\d,]+): training batch ([\d.e-]+)", told.inner_text())
    assert seen is not None
    step = int(seen[1].replace(",", "")) // 50
    assert float(seen[2]) == pytest.approx(record["loss"][step], rel=1e-6)
    assert chart.locator(".hoverlayer > g").count() == 0 or not chart.locator(".hoverlayer text").count()
    page.mouse.click(area["x"] + 0.5 * area["width"], area["y"] + 0.5 * area["height"])
    opened_update(page, step)


def test_curves_are_drawn_over_what_one_chooses(page: Page):
    page.goto("/?task=linear&batch_size=50&steps=40")
    settled(page)
    page.get_by_role("button", name="Display").click()
    page.get_by_text("epochs", exact=True).click()
    seen = "() => document.querySelector('.lab-chart .plot').layout.xaxis.title.text"
    page.wait_for_function(f"{seen} === 'epochs'")
    assert query(page)["axis"] == "epochs"
    x = page.evaluate("Array.from(document.querySelector('.lab-chart .plot')._fullData[0].x)")
    assert x[20] == pytest.approx(20 * 50 / 1000)
    page.get_by_text("linear", exact=True).last.click()
    page.wait_for_function("() => document.querySelector('.lab-chart .plot').layout.yaxis.type === 'linear'")
    expect(page.locator(".lab-chart").first).not_to_contain_text("undefined")


def test_history_keeps_every_run(page: Page):
    page.goto("/?task=scalar")
    settled(page)
    press(page, "learning_rate", "ArrowRight")
    expect(page.locator(".headline")).to_contain_text("sgd, 0.02 ")
    settled(page)
    page.get_by_text("History: 2 runs of this visit").click()
    table = page.locator(".lab-history")
    expect(table.locator("tbody tr")).to_have_count(2)
    name = table.get_by_role("textbox", name="name of run 1")
    name.fill("slow <b>&")
    name.press("Enter")
    expect(table.get_by_role("button", name="open slow <b>&")).to_be_visible()
    table.get_by_role("button", name="pin slow <b>& as the baseline").click()
    expect(page.get_by_role("heading", name="Where the compared run parts")).to_be_visible(timeout=PATIENT)
    assert query(page)["against"] == "learning_rate=0.01"
    table.get_by_role("button", name="open slow <b>&").click()
    expect(page.locator(".headline")).to_contain_text("sgd, 0.01 ")
    expect(page.get_by_role("heading", name="Where the compared run parts")).to_have_count(0)
    table.get_by_role("button", name="unpin slow <b>& as the baseline").click()
    expect(table.get_by_role("button", name="pin slow <b>& as the baseline", exact=True)).to_be_visible()
    table.get_by_role("button", name="Clear the list").click()
    expect(table.locator("tbody tr")).to_have_count(1)


def test_a_chart_is_taken_along_as_picture_drawing_and_table(page: Page):
    page.goto("/?task=scalar&steps=5")
    settled(page)
    chart = plot_of(page, "Loss over the run")
    png = taken(page, chart, "Picture (PNG)")
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", png[16:24]) == (2100, 1200)
    svg = taken(page, chart, "Drawing (SVG)").decode()
    assert svg.startswith("<svg")
    assert "Loss over the run" in svg and "update" in svg
    chart.locator(".take summary").click()
    chart.get_by_role("button", name="Numbers").click()
    rows = chart.locator(".numbers tbody tr")
    expect(rows).to_have_count(5)
    record = fit(Settings(task="scalar", steps=5)).record
    for step, row in enumerate(rows.all_inner_texts()):
        name, update, loss = row.split("\t")
        assert (name, int(update)) == ("training batch", step)
        assert float(loss) == pytest.approx(record["loss"][step], rel=1e-6)


def test_the_report_opens_offline(page: Page, browser: Browser, tmp_path: Path):
    page.goto("/?task=scalar&steps=5&step=2&against=reduction%3Dsum")
    settled(page)
    expect(page.get_by_role("heading", name="Where the compared run parts")).to_be_visible(timeout=PATIENT)
    page.get_by_role("button", name="Share").click()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Report (HTML").click()
    file = tmp_path / "report.html"
    waiting.value.save_as(file)
    context = browser.new_context(offline=True)
    report = context.new_page()
    troubles, asked = [], []
    report.on("pageerror", lambda error: troubles.append(str(error)))
    report.on("console", lambda message: troubles.append(message.text))
    report.on("request", lambda request: asked.append(request.url))
    report.goto(file.as_uri())
    report.wait_for_function("() => document.querySelectorAll('.main-svg').length >= 10")
    expect(report.get_by_role("heading", name="Update 2 under the microscope")).to_be_visible()
    expect(report.locator("code")).to_have_text("training-lab run task=scalar steps=5")
    expect(report.get_by_text("In orange, beside it: task=scalar reduction=sum steps=5")).to_be_visible()
    loss = report.evaluate("Array.from(document.querySelector('.plot')._fullData[0].y)")
    assert loss == pytest.approx(fit(Settings(task="scalar", steps=5)).record["loss"].tolist())
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert troubles == []
    context.close()


def test_presenting_enlarges_type_and_leaves_few_controls(page: Page):
    page.goto("/?task=scalar")
    settled(page)
    usual = page.evaluate("parseFloat(getComputedStyle(document.querySelector('.headline')).fontSize)")
    page.get_by_role("button", name="Display").click()
    page.get_by_role("button", name="Present").click()
    expect(page.get_by_role("button", name="Leave the presentation")).to_be_visible()
    settled(page)
    assert query(page)["present"] == "1"
    page.reload()
    settled(page)
    large = page.evaluate("parseFloat(getComputedStyle(document.querySelector('.headline')).fontSize)")
    assert large >= 1.25 * usual
    expect(page.get_by_role("button", name="Share")).to_have_count(0)
    expect(page.locator(".st-key-set_learning_rate")).not_to_be_in_viewport()
    page.get_by_role("button", name="Leave the presentation").click()
    expect(page.get_by_role("button", name="Share")).to_be_visible()
    assert "present" not in query(page)


def test_a_frame_in_another_page_holds_the_results_alone(page: Page, server: str):
    page.goto("/?embed=1&task=scalar&reduction=sum")
    settled(page)
    assert "✗ off by 300 %" in tiles(page)
    expect(page.locator("[data-testid=stSidebar]")).to_have_count(0)
    expect(page.get_by_role("button", name="Share")).to_have_count(0)
    link = page.get_by_role("link", name="Open in training-lab")
    assert link.get_attribute("href") == f"{server}/?v=1&task=scalar&reduction=sum"


def test_hidden_groups_hide_controls_and_no_result(page: Page):
    page.goto("/?task=scalar&reduction=sum&hide=batch,exact")
    settled(page)
    expect(page.locator(".st-key-group_task")).to_be_visible()
    expect(page.locator(".st-key-group_batch")).to_have_count(0)
    expect(page.locator(".st-key-exact")).to_have_count(0)
    expect(page.get_by_text("sum is 4 times the full-batch gradient")).to_be_visible()
    expect(page.get_by_role("button", name="Try reduction=mean")).to_have_count(0)
    press(page, "learning_rate", "ArrowRight")
    expect(page.locator(".headline")).to_contain_text("sgd, 0.02 ")
    assert query(page)["hide"] == "batch,exact"


def test_the_keyboard_reaches_everything(page: Page):
    page.goto("/?task=scalar")
    settled(page)
    page.keyboard.press(".")
    opened_update(page, 1)
    page.keyboard.press("?")
    expect(page.get_by_text("step back", exact=True)).to_be_visible()
    listed = page.locator(".lab-time .keys dt").all_inner_texts()
    assert listed == [",", ".", "p", "b", "1 to 9", "?"]
    page.keyboard.press("b")
    opened_update(page, 0)
    page.locator(".lab-time .listen").uncheck()
    page.locator(".lab-time .listen").blur()
    page.keyboard.press(".")
    page.keyboard.press("Escape")
    opened_update(page, 0)
    reached = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        found = page.evaluate(
            "() => { const at = document.activeElement, style = getComputedStyle(at);"
            " if (at === document.body) return ['', true];"
            " return [at.className + ' ' + (at.getAttribute('aria-label') ?? at.innerText ?? ''),"
            " style.outlineStyle !== 'none' || style.boxShadow !== 'none' || at.matches(':focus-visible')] }"
        )
        assert found[1], f"no visible focus on {found[0]}"
        reached.add(found[0])
    text = json.dumps(sorted(reached))
    for part in ("step forward", "take this chart along", "scrub", "Share", "Pin", "Display", "History"):
        assert part in text


@pytest.mark.parametrize(
    ("address", "width", "scheme"),
    [
        ("/", 1366, "light"),
        ("/?task=scalar&against=reduction%3Dsum&view=stages", 1366, "dark"),
        ("/?task=scalar&devices=2&view=devices&present=1", 1366, "light"),
        ("/?task=points&steps=20&view=precision", 420, "dark"),
        ("/?task=scalar&clip=global_norm&view=orders&embed=1", 420, "light"),
    ],
)
def test_a_checker_of_accessibility_finds_no_fault(browser: Browser, server: str, address, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 768}, base_url=server, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(PATIENT)
    page.goto(address)
    page.wait_for_function("() => document.querySelectorAll('.lab-chart .main-svg').length >= 4")
    page.wait_for_function("() => document.querySelector('.tiles')?.innerText.includes('…') === false")
    page.evaluate("() => document.querySelectorAll('.take, .keys').forEach((menu) => { menu.open = true; })")
    found = Axe().run(page).response
    assert len(found["passes"]) > 20
    assert [(fault["id"], fault["nodes"][0]["html"]) for fault in found["violations"]] == []
    context.close()


def test_curves_are_sketched_before_the_chart_library_is_read(page: Page):
    page.route("**/plotly.min.js", lambda route: None)
    page.goto("/?task=scalar&steps=30")
    line = page.locator(".lab-chart .sketch polyline").first
    expect(line).to_be_attached(timeout=PATIENT)
    heights = [float(point.split(",")[1]) for point in (line.get_attribute("points") or "").split()]
    loss = np.log10(fit(Settings(task="scalar", steps=30)).record["loss"])
    share = (loss - loss.min()) / (loss.max() - loss.min())
    top, bottom = min(heights), max(heights)
    assert heights == pytest.approx(bottom + share * (top - bottom), abs=0.01)
