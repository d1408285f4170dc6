"""A run to take along: its link, its settings, its columns, and a report that opens anywhere."""

import streamlit as st

from app import report, visit, words
from lab import files, findings
from lab.record import to_json
from lab.run import Run


@st.fragment
def downloads(run: Run):
    """A menu of what can be taken along; a file is written when it is asked for."""
    with st.popover(words.TAKE, icon=":material/download:", on_change="rerun", key="share") as menu:
        if menu.open:
            _offer(run)


def _offer(run: Run):
    def as_json() -> str:
        found = [finding._asdict() for finding in findings.of_run(run)]
        return to_json({**run.to_dict(), "seconds": run.seconds, "findings": found}) + "\n"

    seen = visit.seen()
    kinds = {
        "report.html": (words.REPORT_FILE, lambda: report.write(run, seen), "text/html"),
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
