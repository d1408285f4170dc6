"""A run to take along: its link, its settings, its columns."""

import streamlit as st

from app import words
from lab import files, findings
from lab.record import to_json
from lab.run import Run


def downloads(run: Run):
    """A menu of what can be taken along; a file is written when it is asked for."""

    def as_json() -> str:
        found = [finding._asdict() for finding in findings.of_run(run)]
        return to_json({**run.to_dict(), "seconds": run.seconds, "findings": found}) + "\n"

    kinds = {
        "settings.toml": (words.SETTINGS_FILE, lambda: files.to_toml(run.settings), "application/toml"),
        "run.csv": (words.CSV_FILE, run.record.to_csv, "text/csv"),
        "run.json": (words.JSON_FILE, as_json, "application/json"),
    }
    with st.popover(words.TAKE, icon=":material/download:", width="stretch"):
        st.caption(words.LINK)
        place = (st.context.url or "").partition("?")[0].rstrip("/")
        st.code(f"{place}/?{run.settings.address()}", language=None, wrap_lines=True)
        for name, (label, write, mime) in kinds.items():
            st.download_button(
                label, data=write, file_name=f"{run.settings.task}_{name}", mime=mime, on_click="ignore",
                key=f"take_{name}", width="stretch",
            )  # fmt: skip
