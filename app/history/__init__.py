"""Every run of this visit, in a table: open one again, pin one as the baseline, name it, clear the list."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st
from streamlit.components.v2 import component

from app import comparison, visit
from lab import findings
from lab.run import Run
from lab.settings import Settings

MOST, LONGEST_NAME = 100, 60
"""So many runs are listed, and a name has so many characters."""
HERE = Path(__file__).parent
HTML = """
<div class="lab-history">
  <div class="wide" tabindex="0" role="region" aria-label="runs of this visit">
    <table>
      <thead><tr><th scope="col">run</th><th scope="col">settings that differ from the defaults</th>
        <th scope="col">last loss</th><th scope="col">held out</th><th scope="col">first update</th>
        <th scope="col">seconds</th><th scope="col">baseline</th></tr></thead>
      <tbody></tbody>
    </table>
  </div>
  <button class="clear">Clear the list</button>
</div>
"""

_component = component(
    "training_lab_history",
    html=HTML,
    css=(HERE / "history.css").read_text(encoding="utf-8"),
    js=(HERE / "history.js").read_text(encoding="utf-8"),
    isolate_styles=False,
)


class Entry(NamedTuple):
    """A run as the table tells of it. Its numbers are kept; the run itself is trained again when it is opened."""

    settings: Settings
    name: str
    loss: str
    held_out: str
    agreement: str
    seconds: str


def remember(run: Run, agreement: str):
    """Put a finished run at the end of the list, unless it is there."""
    entries: list[Entry] = st.session_state.setdefault("history", [])
    if run.stopped or any(entry.settings == run.settings for entry in entries):
        return
    final = run.final
    held_out = "–"
    if "held_out_accuracy" in final:
        held_out = findings.percent(final["held_out_accuracy"])
    elif "held_out_loss" in final:
        held_out = findings.number(final["held_out_loss"])
    number = st.session_state.get("runs", 0) + 1
    st.session_state.runs = number
    seconds = findings.number(run.seconds["run"])
    entries.append(Entry(run.settings, f"run {number}", findings.number(final["loss"]), held_out, agreement, seconds))
    del entries[:-MOST]


def history():
    """The table. What it is asked to do is checked: a browser can send anything."""
    state = st.session_state
    entries: list[Entry] = state.setdefault("history", [])

    def rows() -> list[dict[str, Any]]:
        return [
            {
                **entry._asdict(),
                "settings": comparison.named(entry.settings),
                "shown": entry.settings == state.settings,
                "baseline": entry.settings == state.baseline,
            }
            for entry in entries
        ]

    def act():
        asked = state.history_table.get("act")
        if not isinstance(asked, Mapping):
            return
        if asked.get("do") == "clear":
            entries[:] = [entry for entry in entries if entry.settings in (state.settings, state.baseline)]
            return
        row = asked.get("row")
        if type(row) is not int or not 0 <= row < len(entries):
            return
        entry = entries[row]
        if asked.get("do") == "open":
            visit.take(entry.settings)
        elif asked.get("do") == "pin":
            comparison.pin(None if entry.settings == state.baseline else entry.settings)
        elif asked.get("do") == "name" and isinstance(asked.get("name"), str):
            name = " ".join(asked["name"].split())[:LONGEST_NAME]
            entries[row] = entry._replace(name=name or entry.name)

    _component(key="history_table", data={"rows": rows()}, on_act_change=act)
