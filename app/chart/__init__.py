"""A chart that is redrawn in place: zoom survives new data, and nothing flickers.

Streamlit's own Plotly element is rebuilt from nothing whenever its data change; this component calls `Plotly.react`.
The script is the `plotly.min.js` of the installed plotly package, served by `app.library`.
"""

from pathlib import Path
from typing import NamedTuple

from streamlit.components.v2 import component

from app.figures import Chart

HERE = Path(__file__).parent
HTML = """
<figure class="lab-chart">
  <header>
    <h3></h3>
    <output class="readout" aria-live="off"></output>
    <details class="take">
      <summary aria-label="take this chart along" title="take this chart along">⋯</summary>
      <div>
        <button class="png">Picture (PNG)</button>
        <button class="svg">Drawing (SVG)</button>
        <button class="table">Numbers</button>
        <button class="whole">Whole chart again</button>
      </div>
    </details>
  </header>
  <div class="canvas"><div class="plot" role="img"></div><div class="opened" hidden></div></div>
  <div class="frames" role="group" aria-label="play this chart" hidden>
    <button class="back" aria-label="step back">◀</button>
    <button class="play" aria-label="play">▶▶</button>
    <button class="forward" aria-label="step forward">▶</button>
    <input type="range" min="0" aria-label="which frame">
    <output></output>
  </div>
  <p class="formula"></p>
  <figcaption><span class="read"></span><span class="summary"></span></figcaption>
  <div class="numbers" tabindex="0" role="region" aria-label="numbers of the chart" hidden></div>
</figure>
"""
SCRIPTS = ("theme", "frames", "readout", "take", "sketch", "chart")
"""Read one after the other, as one script."""


def script() -> str:
    return "\n".join((HERE / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)


def style() -> str:
    return (HERE / "chart.css").read_text(encoding="utf-8")


_component = component("training_lab_chart", html=HTML, css=style(), js=script(), isolate_styles=False)


class Along(NamedTuple):
    """Where updates lie along the bottom of a chart, so that it can mark the one that is open, and open another.

    Update `steps[k]` lies at `x[k]`; between them in proportion.
    """

    steps: list[float]
    x: list[float]


def content(drawn: Chart, filename: str, height: int, along: Along | None = None) -> dict:
    """What the script draws."""
    return {
        "figure": drawn.figure.to_json(),
        "title": drawn.title,
        "read": drawn.read,
        "summary": drawn.summary,
        "height": height,
        "filename": filename,
        "along": along and along._asdict(),
    }


def chart(drawn: Chart, key: str, height: int = 260, along: Along | None = None):
    """Show a chart; the same key redraws the same place, and names the files it is taken along in."""
    _component(key=key, data=content(drawn, key, height, along))
