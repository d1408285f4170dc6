"""A chart that is redrawn in place: zoom survives new data, and nothing flickers.

Streamlit's own Plotly element is rebuilt from nothing whenever its data change; this component calls `Plotly.react`.
The script is the `plotly.min.js` of the installed plotly package, served by `app.server`.
"""

from pathlib import Path

from streamlit.components.v2 import component

from app.figures import Chart

HERE = Path(__file__).parent
HTML = """
<figure class="lab-chart">
  <h3></h3>
  <div class="plot" role="img"></div>
  <div class="frames" role="group" hidden>
    <button class="back" aria-label="step back">◀</button>
    <button class="play" aria-label="play">▶▶</button>
    <button class="forward" aria-label="step forward">▶</button>
    <input type="range" min="0" aria-label="which frame">
    <output></output>
  </div>
  <p class="formula"></p>
  <figcaption><span class="read"></span><span class="summary"></span></figcaption>
</figure>
"""

_component = component(
    "training_lab_chart",
    html=HTML,
    css=(HERE / "chart.css").read_text(encoding="utf-8"),
    js=(HERE / "chart.js").read_text(encoding="utf-8"),
    isolate_styles=False,
)


def chart(drawn: Chart, key: str, height: int = 260):
    """Show a chart; the same key redraws the same place."""
    _component(
        key=key,
        data={
            "figure": drawn.figure.to_json(),
            "title": drawn.title,
            "read": drawn.read,
            "summary": drawn.summary,
            "height": height,
        },
    )
