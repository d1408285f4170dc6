"""The chart library, packed once, and what a visit fetches while the page still starts."""

import functools
import gzip
import re
from importlib.resources import files
from pathlib import Path

import streamlit as st
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PATH = "/plotly/plotly.min.js"
IMPORTED = re.compile(r"""(?:from|import)\s*["']\./([\w.-]+\.js)["']""")
"""How one of Streamlit's scripts names another that it cannot start without."""
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
    """A `Link` header: scripts a browser would ask for only once it has run others.

    The chart library is not among them: it would hold up those that the first, sketched curves wait for.
    """
    scripts = Path(st.__file__).parent / "static" / "static" / "js"
    wanted = [script.name for element in ELEMENTS for script in scripts.glob(f"{element}.*.js")]
    for name in wanted:
        imported = IMPORTED.findall((scripts / name).read_text(encoding="utf-8"))
        wanted += [other for other in dict.fromkeys(imported) if other not in wanted and (scripts / other).is_file()]
    return ", ".join(f"</static/js/{name}>; rel=modulepreload" for name in wanted).encode()
