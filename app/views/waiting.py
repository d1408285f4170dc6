"""An answer that takes a while: said while it is on its way, drawn when it is there."""

from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

import streamlit as st

from app.jobs import Job

POLL = 0.5
"""Seconds between two looks."""


def on_its_way(job: Job | None, sentence: str, question: Callable[..., Any], *about: Any, patience: float = 0) -> bool:
    """Whether a question about a job's run is unanswered after `patience` seconds; then the sentence stands there."""
    if job is None or wait([job.ask(question, *about)], patience).done:
        return False
    _until_answered(job, sentence, question, *about)
    return True


@st.fragment(run_every=POLL)
def _until_answered(job: Job, sentence: str, question: Callable[..., Any], *about: Any):
    if job.ask(question, *about).done():
        st.rerun()
    st.caption(sentence)
