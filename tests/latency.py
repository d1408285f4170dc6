"""How long a visitor waits, measured in the browser: python tests/latency.py. A benchmark; nothing here is a test.

A start is the command itself, from nothing to the first chart of the default run, with what it compiled before in its
cache folder (warm) or with an empty one (cold).
Milliseconds, the median of several with the fastest and the slowest. A visit is a browser with an empty cache that
opens a link with every setting in it, to a run nobody has trained yet, of a structure the server knows.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

from chromium import launched, press, serving, settled
from playwright.sync_api import Browser, Page

from lab.key import text_of
from lab.settings import Settings

STARTS, VISITS, MOVES = 5, 9, 25
NOTED = """new MutationObserver(() => {
  for (const [what, where] of [['first', '.lab-chart svg'], ['whole', '.main-svg']])
    if (!window[what] && document.querySelector(where)) window[what] = performance.now();
}).observe(document, { subtree: true, childList: true })"""
"""The browser itself notes when a chart is there: whoever asks it must wait while it reads the chart library."""
WATCH = """() => {
  window.drawn = [];
  for (const plot of document.querySelectorAll('.lab-chart .plot')) {
    if (!plot.watched) plot.on('plotly_afterplot', () => window.drawn.push([plot, performance.now()]));
    plot.watched = true;
  }
  window.began = performance.now();
}"""
LAST = """async (title) => {
  const charts = [...document.querySelectorAll('.lab-chart')];
  const chart = charts.find((one) => one.innerText.includes(title)).querySelector('.plot');
  while (!window.drawn.some(([plot]) => plot === chart)) await new Promise((ok) => setTimeout(ok, 5));
  return window.drawn.find(([plot]) => plot === chart)[1] - window.began;
}"""


def link(learning_rate: float) -> str:
    """An address that names every setting in use."""
    settings = Settings(learning_rate=learning_rate)
    return "/?v=1&" + "&".join(f"{name}={text_of(getattr(settings, name))}" for name in settings.used())


def visit(browser: Browser, address: str, query: str) -> list[float]:
    """From the request to the first chart, and to the first one with axes and all."""
    context = browser.new_context(viewport={"width": 1366, "height": 768}, base_url=address)
    page = context.new_page()
    page.add_init_script(NOTED)
    page.goto(query, wait_until="commit")
    page.wait_for_function("() => window.whole")
    waited = page.evaluate("[window.first, window.whole]")
    page.wait_for_timeout(1000)
    context.close()
    return waited


def move(page: Page, act: Callable[[], object], title: str) -> float:
    """From what a user does until the chart of that title is drawn anew."""
    page.evaluate(WATCH)
    act()
    waited = page.evaluate(LAST, title)
    page.wait_for_timeout(400)
    return waited


def start(browser: Browser, cache: str) -> float:
    """From the command to the first chart."""
    began = time.time()
    with serving(XDG_CACHE_HOME=cache) as address:
        page = browser.new_page(viewport={"width": 1366, "height": 768})
        page.add_init_script(NOTED)
        page.goto(address, wait_until="commit")
        page.wait_for_function("() => window.first", timeout=60_000)
        waited = page.evaluate("performance.timeOrigin + window.first") - 1000 * began
        page.close()
    return waited


def starts(browser: Browser):
    """Cold and warm starts in turn, and what they take."""
    cold, warm = [], []
    for _ in range(STARTS):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(start(browser, cache))
            warm.append(start(browser, cache))
    tell("training-lab to the first chart, nothing compiled before", cold, 8000)
    tell("training-lab to the first chart, compiled before", warm, 5000)


def tell(what: str, waited: Sequence[float], target: int):
    middle = statistics.median(waited)
    print(f"{what:58} {middle:5.0f}  ({min(waited):.0f} to {max(waited):.0f})  target {target:,}", flush=True)


def main() -> int:
    with launched() as browser:
        starts(browser)
    with serving() as address, launched() as browser:
        context = browser.new_context(viewport={"width": 1366, "height": 768}, base_url=address)
        page = context.new_page()
        page.set_default_timeout(120_000)
        page.goto("/")
        settled(page)
        page.wait_for_timeout(3000)
        visits = [visit(browser, address, link(0.011 + k / 1e4)) for k in range(VISITS)]
        first, whole = zip(*visits, strict=True)
        tell("a cold visit to a link with all settings: first chart", first, 1500)
        tell("the same, with the chart library read", whole, 1500)
        ways = ["ArrowLeft", "ArrowRight"]
        moves = [
            move(page, lambda k=k: press(page, "learning_rate", ways[k % 2]), "Loss over") for k in range(MOVES)
        ]  # fmt: skip
        tell("a slider move that compiles nothing: loss redrawn", moves[1:], 300)
        forward = page.get_by_role("button", name="step forward").first
        steps = [move(page, forward.click, "Accumulator") for _ in range(MOVES)]
        tell("one update further: accumulator redrawn", steps[1:], 200)
        jumps = [move(page, lambda: page.keyboard.press("b"), "Accumulator")]
        box = page.locator(".lab-time .exact")
        for k in range(MOVES):
            box.fill(str(37 * (k + 1) % 300))
            jumps.append(move(page, lambda: box.press("Enter"), "Accumulator"))
        tell("any update of the run: accumulator redrawn", jumps[1:], 200)
    return 0


if __name__ == "__main__":
    sys.exit(main())
