"""A browser at the page: headless Chromium, and the installed `training-lab` it looks at."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlparse

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

COMMAND = Path(sys.executable).with_name("training-lab")
CHROMIUM = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENT = 60_000


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def serving(**environment: str) -> Iterator[str]:
    """The address of a lab of its own, started with more in its environment."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [COMMAND, "--no-browser", "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=os.environ | environment) as process:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"{address}/_stcore/health", timeout=1).close()
                break
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield address
        process.terminate()


@contextmanager
def launched() -> "Iterator[Browser]":
    """A browser."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM)
        yield found
        found.close()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with launched() as found:
        yield found


def is_trouble(message: "ConsoleMessage") -> bool:
    """Whether a line of the browser's console is an error; on other pages than the first Streamlit looks for itself."""
    return message.type == "error" and "/loops/_stcore/" not in message.location["url"]


@pytest.fixture
def page(browser: "Browser", server: str) -> "Iterator[Page]":
    """A page that fails the test on any script error or on any request to another place."""
    context = browser.new_context(viewport={"width": 1366, "height": 768}, base_url=server)
    opened = context.new_page()
    opened.set_default_timeout(PATIENT)
    troubles: list[str] = []
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.on("console", lambda message: troubles.append(message.text) if is_trouble(message) else None)
    opened.on(
        "request", lambda request: None if urlparse(request.url).netloc in ("", urlparse(server).netloc)
        else troubles.append(request.url),
    )  # fmt: skip
    yield opened
    context.close()
    assert troubles == []


def drawn(page: "Page", key: str) -> list[float]:
    """The heights Plotly drew for the first trace of a chart."""
    return page.evaluate(
        "key => Array.from(document.querySelector(`.st-key-${key} .plot, [class*='-${key}'] .plot`).data[0].y)", key
    )


def settled(page: "Page"):
    """Wait until the run, and its first update, are on the page."""
    page.wait_for_function(
        "() => { const t = document.querySelector('.tiles'); return t && !t.innerText.includes('…')"
        " && document.querySelectorAll('.lab-chart .main-svg').length >= 8 }"
    )


def tiles(page: "Page") -> str:
    return page.locator(".tiles").inner_text()


def press(page: "Page", key: str, arrow: str):
    """Move a slider of the sidebar one stop."""
    page.locator(f".st-key-set_{key} input[type=range]").focus()
    page.keyboard.press(arrow)


def query(page: "Page") -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlparse(page.url).query).items()}
