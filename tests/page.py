"""The page's script without a browser: opening it, and reading what it shows."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).parents[1]
MAIN = ROOT / "app" / "main.py"


def opened(**query: str) -> AppTest:
    app = AppTest.from_file(str(MAIN), default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = value
    return settled(app.run())


def settled(app: AppTest) -> AppTest:
    """The page once its run is there; a browser looks four times a second, this looks as often as it can."""
    while any(button.key == "stop" for button in app.button):
        app.run()
    assert not app.exception
    return app


def said(app: AppTest) -> str:
    """Every word of the main page and the refusals in the sidebar."""
    return "\n".join([*(m.value for m in app.markdown), *(e.proto.body for e in app.get("html"))])


def upload(app: AppTest, name: str, data: bytes):
    """Choose a CSV file."""
    chooser: Any = app.get("file_uploader")[0]
    chooser.set_value((name, data, "text/csv"))
    settled(app.run())


def charts(app: AppTest) -> dict[str, dict[str, Any]]:
    """Key -> what the chart component was given, with the figure read."""
    found = {}
    for element in app.get("bidi_component"):
        data = json.loads(element.proto.json)
        if "figure" not in data:
            continue
        found[element.proto.id.rsplit("-", 1)[-1]] = data | {"figure": json.loads(data["figure"])}
    return found


def numbers(array: Any) -> np.ndarray:
    """A Plotly array, plain or packed."""
    if isinstance(array, dict):
        return np.frombuffer(base64.b64decode(array["bdata"]), array["dtype"])
    return np.array(array, float)


def address(app: AppTest) -> dict[str, str]:
    return {name: value[0] if isinstance(value, list) else value for name, value in app.query_params.items()}


def choose(app: AppTest, name: str, value: str):
    app.selectbox(key=f"set_{name}").set_value(value)
    settled(app.run())
