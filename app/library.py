"""The chart library, packed once, and what a visit fetches while the page still starts."""

import functools
import gzip
from importlib.resources import files
from pathlib import Path

import streamlit as st
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PATH = "/plotly/plotly.min.js"
ELEMENTS = ("BidiComponent", "Html", "Selectbox", "Slider", "TextInput", "NumberInput", "Button", "Popover")
"""The elements on a first page, as Streamlit names their scripts."""


@functools.cache
def source() -> str:
    """The script of the installed plotly package."""
    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


@functools.cache
def packed() -> bytes:
    """The script as it is sent; packing it takes 0.3 seconds, so it is done once."""
    return gzip.compress(source().encode())


def send(request: Request) -> Response:
    return Response(packed(), media_type="text/javascript", headers={"content-encoding": "gzip"})


ROUTE = Route(PATH, send)


@functools.cache
def early() -> bytes:
    """A `Link` header: scripts a browser would ask for only once it has run others."""
    scripts = Path(st.__file__).parent / "static" / "static" / "js"
    found = [script.name for element in ELEMENTS for script in scripts.glob(f"{element}.*.js")]
    links = [f"<{PATH}>; rel=preload; as=script", *(f"</static/js/{name}>; rel=modulepreload" for name in found)]
    return ", ".join(links).encode()
