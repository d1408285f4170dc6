"""A run to take along: its link, its settings, its columns, and a report that opens anywhere."""

import streamlit as st

from app import report, visit, words
from lab import files, findings
from lab.record import Record, to_json
from lab.run import Run
from lab.settings import Settings


@st.fragment
def downloads(run: Run, other: Run | None, in_step: bool):
    """A menu of what can be taken along, with the compared run; a file is written when it is asked for."""
    with st.popover(words.TAKE, icon=":material/download:", on_change="rerun", key="share") as menu:
        if menu.open:
            _offer(run, (other.settings, other.record) if other else None, in_step)


def _offer(run: Run, other: tuple[Settings, Record] | None, in_step: bool):
    def as_json() -> str:
        found = [finding._asdict() for finding in findings.of_run(run)]
        return to_json({**run.to_dict(), "seconds": run.seconds, "findings": found}) + "\n"

    seen = visit.seen()
    kinds = {
        "report.html": (words.REPORT_FILE, lambda: report.write(run, seen, other, in_step), "text/html"),
        "settings.toml": (words.SETTINGS_FILE, lambda: files.to_toml(run.settings), "application/toml"),
        "run.csv": (words.CSV_FILE, run.record.to_csv, "text/csv"),
        "run.json": (words.JSON_FILE, as_json, "application/json"),
    }
    st.caption(words.LINK)
    st.code(visit.address(), language=None, wrap_lines=True)
    for name, (label, write, mime) in kinds.items():
        st.download_button(
            label, data=write, file_name=f"{run.settings.task}_{name}", mime=mime, on_click="ignore",
            key=f"take_{name}", width="stretch",
        )  # fmt: skip
    st.caption(words.SHARE_MORE)
