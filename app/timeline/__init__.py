"""Time travel: which update of the run is open, with steps, play and jumps to the updates worth opening.

The browser asks for one update at a time and always for the newest wish, so that dragging and playing go as fast as
updates can be opened, and never faster.
"""

from pathlib import Path

import streamlit as st
from streamlit.components.v2 import component

from lab.moments import Moment

HERE = Path(__file__).parent
KEYS = {",": "step back", ".": "step forward", "p": "play or pause", "b": "the first bad, or most striking, update",
        "1 to 9": "the views of the microscope", "?": "show or hide this list"}  # fmt: skip
"""Keyboard shortcuts, as the page lists them."""
HTML = f"""
<div class="lab-time" role="group" aria-label="which update is open">
  <div class="line">
    <button class="back" aria-label="step back" title="step back ( , )">◀</button>
    <button class="play" aria-label="play" title="play ( p )">▶▶</button>
    <button class="forward" aria-label="step forward" title="step forward ( . )">▶</button>
    <input class="scrub" type="range" min="0" aria-label="update">
    <label>update <input class="exact" type="number" min="0" inputmode="numeric"> <span class="of"></span></label>
  </div>
  <div class="line">
    <span class="moments" role="group" aria-label="jump to"></span>
    <details class="keys">
      <summary>Keyboard</summary>
      <div>
        <dl>{"".join(f"<dt><kbd>{key}</kbd></dt><dd>{does}</dd>" for key, does in KEYS.items())}</dl>
        <label><input class="listen" type="checkbox"> these keys work anywhere on the page</label>
      </div>
    </details>
  </div>
</div>
"""

_component = component(
    "training_lab_timeline",
    html=HTML,
    css=(HERE / "timeline.css").read_text(encoding="utf-8"),
    js=(HERE / "timeline.js").read_text(encoding="utf-8"),
    isolate_styles=False,
)


def timeline(last: int, moments: list[Moment]) -> int:
    """The update that is open, 0 to `last`, of this visit."""
    state = st.session_state
    state.step = min(state.step, last)

    def moved():
        wished = state.time.get("step")
        if type(wished) is int and 0 <= wished <= last:
            state.step = wished

    _component(
        key="time",
        data={"step": state.step, "last": last, "view": state.view, "moments": [m._asdict() for m in moments]},
        on_step_change=moved,
    )
    return state.step
