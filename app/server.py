"""Serves the page: the Streamlit app with the chart library, protective headers and a limit on messages."""

import socket
import sys
import threading
import time
import urllib.request
import webbrowser
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import library

MAIN = Path(__file__).with_name("main.py")
HOSTS = ["127.0.0.1", "localhost"]
FIRST_PORT, LAST_PORT = 8501, 8599
MESSAGES_A_SECOND, BURST = 30, 120
"""A browser sends at most about 10 messages a second; a flood is slowed down to this, so that others are served."""

EMBED = b"embed=1"

HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"content-security-policy": (
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
        b"img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' ws: wss:; worker-src 'self' blob:"
    ),
}
"""Nothing is loaded from, or sent to, any other place."""


class Headers:
    """Adds `HEADERS` to every response, and to the page itself what to fetch early.

    `embed=1` becomes the `embed=true` that Streamlit knows, and keeps to itself.
    """

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send):
        if scope["type"] == "http" and EMBED in scope["query_string"].split(b"&"):
            query = scope["query_string"].decode("latin-1").replace(EMBED.decode(), "embed=true")
            await RedirectResponse(f"{scope['path']}?{query}")(scope, receive, send)
            return

        async def with_headers(message: Message):
            if message["type"] == "http.response.start":
                page = dict(message["headers"]).get(b"content-type", b"").startswith(b"text/html")
                early = [(b"link", library.early())] if page else []
                message["headers"] = [*message["headers"], *HEADERS.items(), *early]
            await send(message)

        await self.app(scope, receive, with_headers if scope["type"] == "http" else send)


class Limit:
    """Slows a websocket that sends more than `MESSAGES_A_SECOND` after a burst of `BURST`."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send):
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        import asyncio

        allowance, last = float(BURST), time.monotonic()

        async def slowed() -> Message:
            nonlocal allowance, last
            message = await receive()
            now = time.monotonic()
            allowance, last = min(BURST, allowance + (now - last) * MESSAGES_A_SECOND) - 1, now
            if allowance < 0:
                await asyncio.sleep(-allowance / MESSAGES_A_SECOND)
            return message

        await self.app(scope, slowed, send)


def free_port() -> int | None:
    """The first port nobody listens on."""
    return next((port for port in range(FIRST_PORT, LAST_PORT + 1) if is_free(port)), None)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def warm_up():
    """Load JAX and train the default run, so that the first visitor finds it done."""
    import gc

    from app import jobs
    from lab.run import Run
    from lab.settings import Settings

    library.packed()
    library.early()
    job = jobs.watch("warm-up", Settings())
    job.ended.wait(60)
    if job.run:
        job.ask(Run.at, 0).result(60)
    gc.collect()
    gc.freeze()


def announce(address: str, query: str, browser: bool):
    """Say where the page is as soon as it answers, and open it."""
    for _ in range(200):
        try:
            urllib.request.urlopen(f"{address}/_stcore/health", timeout=1).close()
            break
        except OSError:
            time.sleep(0.05)
    address += f"/?{query}" if query else ""
    print(f"training-lab is at {address}  (stop it with Ctrl+C)", file=sys.stderr, flush=True)
    if browser:
        webbrowser.open(address)


def serve(port: int | None, browser: bool, query: str = "") -> int:
    """Serve the page until interrupted, opened at this query; returns the exit status."""
    if port is None:
        port = free_port()
        if port is None:
            print(
                f"training-lab: ports {FIRST_PORT} to {LAST_PORT} are all taken; free one, or give --port",
                file=sys.stderr,
            )
            return 2
    elif not 1024 <= port <= 65535 or not is_free(port):
        print(f"training-lab: --port {port}: cannot be used; give a free port from 1024 to 65535", file=sys.stderr)
        return 2
    app = st.App(
        MAIN,
        routes=[library.ROUTE],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS), Middleware(Headers), Middleware(Limit)],
    )
    threading.Thread(target=warm_up, daemon=True).start()
    threading.Thread(target=announce, args=(f"http://127.0.0.1:{port}", query, browser), daemon=True).start()
    sys.argv = [str(MAIN)]
    app.run(config={"server.port": port, "server.allowedHosts": HOSTS})
    return 0
