"""The page in a real browser: headless Chromium drives the installed `training-lab`."""

import json
import re
import subprocess
import tomllib
import urllib.error
import urllib.request
from urllib.parse import parse_qs, urlparse

import pytest
from chromium import COMMAND, PATIENT, drawn, press, query, settled, tiles
from playwright.sync_api import Browser, Page, expect

from lab import Settings, fit

pytestmark = pytest.mark.browser


def test_first_page_is_a_finished_run(page: Page):
    page.goto("/")
    settled(page)
    accuracy = re.search(r"held-out accuracy\s+([\d.]+) %", tiles(page))
    assert accuracy is not None
    assert float(accuracy.group(1)) >= 95
    assert "✓ agrees" in tiles(page)
    for title in ("Loss over the run", "Learning rate over the run", "Accumulator", "What each reduction would have"):
        expect(page.get_by_role("heading", name=title)).to_be_visible()
    expect(page.get_by_text("mean over 8 microbatches agrees with the full batch")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("Training loss 2"))).to_be_visible()
    expect(page.locator('[data-title^="Share chart"]')).to_have_count(0)


def test_a_slider_move_changes_picture_and_address(page: Page):
    page.goto("/?task=scalar")
    settled(page)
    before, address = tiles(page), query(page)
    press(page, "learning_rate", "ArrowRight")
    page.wait_for_function("before => document.querySelector('.tiles').innerText !== before", arg=before)
    assert query(page) != address
    assert query(page)["learning_rate"] == "0.02"
    page.go_back()
    page.wait_for_function("before => document.querySelector('.tiles').innerText.startsWith(before)", arg=before[:30])
    expect(page.locator(".headline")).to_contain_text("sgd, 0.01 ")


def test_an_address_restores_a_run(page: Page):
    page.goto("/?v=1&task=hand&gradients=4/2,2,2&reduction=mean_of_means&steps=5")
    settled(page)
    expect(page.locator(".headline")).to_have_text(
        "hand · 4 examples = 2 microbatches · mean_of_means · sgd, 0.1 · 5 updates"
    )
    assert "✗ off by 20 %" in tiles(page)
    expect(page.get_by_text("an example in the smallest weighs 3 times as much")).to_be_visible()
    assert page.locator(".st-key-set_gradients input").input_value() == "4/2,2,2"


def test_the_surface_plays_in_the_browser(page: Page):
    page.goto("/?task=points&steps=320")
    settled(page)
    chart = page.locator(".lab-chart", has_text="Decision surface")
    told = chart.locator(".frames output")
    expect(told).to_have_text("after 320 updates")
    chart.get_by_role("button", name="step back").click()
    expect(told).to_have_text("before update 304")
    chart.get_by_role("button", name="step forward").click()
    chart.get_by_role("button", name="play").click()
    expect(chart.get_by_role("button", name="pause")).to_be_visible()
    expect(told).to_contain_text("before update")
    expect(told).to_have_text("after 320 updates", timeout=PATIENT)
    expect(chart.get_by_role("button", name="play")).to_be_visible()
    chart.get_by_role("slider").press("Home")
    expect(told).to_have_text("before update 0")
    expect(chart.locator(".summary")).to_contain_text("of the training points lie on their side")


def test_the_running_total_grows_and_shrinks(page: Page):
    page.goto("/?task=scalar&microbatches=4")
    settled(page)
    chart = page.locator(".lab-chart", has_text="Accumulator: running total")
    scale = "() => document.querySelector('.st-key-accumulator .plot, [class*=accumulator] .plot').layout.yaxis.range"
    assert drawn(page, "accumulator") == [2, 10, 28, 60]
    whole = page.evaluate(scale)
    back, forward = (chart.get_by_role("button", name=f"step {way}") for way in ("back", "forward"))
    back.click()
    back.click()
    expect(chart.locator(".frames output")).to_have_text("after microbatch 2 of 4")
    expect(chart.locator(".summary")).to_contain_text("the total is 10")
    page.wait_for_function("() => document.querySelector('[class*=accumulator] .plot').data[0].y.length === 2")
    assert drawn(page, "accumulator") == [2, 10]
    assert page.evaluate(scale) == whole
    forward.click()
    page.wait_for_function("() => document.querySelector('[class*=accumulator] .plot').data[0].y.length === 3")
    assert drawn(page, "accumulator") == [2, 10, 28]


def test_stages_are_played_in_the_browser(page: Page):
    page.goto("/?task=scalar&clip=global_norm")
    settled(page)
    page.get_by_role("radio", name="Stages").or_(page.get_by_role("button", name="Stages", exact=True)).first.click()
    chart = page.locator(".lab-chart", has_text="One update, stage by stage")
    told, formula = chart.locator(".frames output"), chart.locator(".formula")
    expect(told).to_have_text("microbatch gradients")
    chart.get_by_role("button", name="step forward").click()
    expect(told).to_have_text("accumulate")
    expect(formula).to_contain_text("A = 10 + 50 = 60")
    chart.get_by_role("button", name="play").click()
    expect(chart.get_by_role("button", name="pause")).to_be_visible()
    expect(told).to_have_text("clip (global_norm)", timeout=PATIENT)
    expect(formula).to_contain_text("g = 15 · min(1, 1 / 15) = 1")
    expect(told).to_have_text("update", timeout=PATIENT)
    expect(chart.get_by_role("button", name="play")).to_be_visible()
    expect(chart.locator(".summary")).to_have_text("It is added: w goes from 1 to 0.99.")
    chart.get_by_role("button", name="step back").click()
    expect(formula).to_contain_text("u = −0.01 · 1 = −0.01")
    page.set_viewport_size({"width": 420, "height": 800})
    page.wait_for_function(
        "() => { const plot = document.querySelector('[class*=stages] .plot');"
        " return plot.clientWidth <= 420 && plot.layout.yaxis2.domain[1] < plot.layout.yaxis.domain[0] }"
    )
    expect(formula).to_contain_text("u = −0.01 · 1 = −0.01")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 420


def test_a_run_can_be_taken_along(page: Page):
    page.goto("/?task=scalar&steps=3&microbatches=4")
    settled(page)
    run = fit(Settings(task="scalar", steps=3, microbatches=4))
    page.get_by_role("button", name="Share").click()
    link = page.get_by_test_id("stCode").locator("code").inner_text()
    assert urlparse(link)._replace(query="").geturl() == urlparse(page.url)._replace(query="").geturl()
    given = {name: values[0] for name, values in parse_qs(urlparse(link).query).items()}
    assert Settings.from_query(given) == run.settings

    def taken(label: str) -> str:
        with page.expect_download() as waiting:
            page.get_by_role("button", name=label).click()
        return waiting.value.path().read_text()

    assert taken("All columns (CSV)") == run.record.to_csv()
    assert Settings.from_dict(tomllib.loads(taken("Settings (TOML)"))) == run.settings
    told = json.loads(taken("Everything (JSON)"))
    assert told["columns"]["loss"] == run.record["loss"].tolist() and told["findings"]


def test_scalar_bars_are_10_and_60(page: Page):
    page.goto("/?task=scalar")
    settled(page)
    assert drawn(page, "accumulator") == [10, 60]


def test_stop_stops_the_training(page: Page):
    page.goto("/?task=digits&steps=200000")
    stop = page.get_by_role("button", name="Stop")
    page.wait_for_function("() => /update [\\d,]+ of 200,000/.test(document.body.innerText)")
    stop.click()
    expect(page.get_by_text(re.compile(r"Stopped after [\d,]+ of 200,000"))).to_be_visible()
    expect(stop).to_have_count(0)
    settled(page)
    page.get_by_role("button", name="Run again").click()
    expect(stop).to_be_visible()
    press(page, "microbatches", "ArrowLeft")
    expect(page.locator(".headline")).to_contain_text("4 microbatches x 64")


def test_zoom_survives_new_data(page: Page):
    page.goto("/?task=scalar")
    settled(page)
    area = page.locator(".lab-chart .plot .nsewdrag").first.bounding_box()
    assert area is not None
    page.mouse.move(area["x"] + 0.2 * area["width"], area["y"] + 0.5 * area["height"])
    page.mouse.down()
    page.mouse.move(area["x"] + 0.6 * area["width"], area["y"] + 0.5 * area["height"], steps=5)
    page.mouse.up()
    seen = "document.querySelector('.lab-chart .plot').layout.xaxis.range"
    page.wait_for_function(f"() => {seen}[0] > 1")
    zoomed, before = page.evaluate(f"() => {seen}"), tiles(page)
    press(page, "learning_rate", "ArrowRight")
    page.wait_for_function("before => document.querySelector('.tiles').innerText !== before", arg=before)
    settled(page)
    assert page.evaluate(f"() => {seen}") == zoomed


def test_a_bad_address_is_explained_and_nothing_in_it_runs(page: Page):
    page.goto("/?task=scalar&steps=<img src=x onerror=\"document.title='owned'\">")
    settled(page)
    expect(page.get_by_role("alert").first).to_contain_text("steps=<img src=x")
    assert page.title() != "owned"
    assert drawn(page, "accumulator") == [10, 60]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_shows_everything_without_scrolling_sideways(browser: Browser, server: str, scheme):
    context = browser.new_context(viewport={"width": 420, "height": 800}, base_url=server, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(PATIENT)
    page.goto("/?task=scalar")
    settled(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 420
    widths = page.evaluate("() => [...document.querySelectorAll('.lab-chart .plot')].map(plot => plot.scrollWidth)")
    assert max(widths) <= 420
    context.close()


def test_every_response_is_protected(server: str):
    with urllib.request.urlopen(server) as response:
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'self'" in response.headers["Content-Security-Policy"]


def test_other_host_names_are_refused(server: str):
    request = urllib.request.Request(f"{server}/_stcore/host-config", headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(request)


def test_a_busy_port_is_refused_in_one_sentence(server: str):
    port = server.rsplit(":", 1)[1]
    done = subprocess.run([COMMAND, "--no-browser", "--port", port], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == f"training-lab: --port {port}: cannot be used; give a free port from 1024 to 65535\n"
