"""The lab: settings on the left, the run they give on the right. What needs no JAX is drawn before it is loaded."""

import html

import streamlit as st

from app import controls, visit, words
from lab.headline import headline
from lab.settings import Settings


def page():
    """Draw the page for the settings of this session."""
    settings = visit.settings()
    if not st.session_state.look.embed:
        controls.sidebar()
    controls.refusal("address")
    controls.refusal("cure")
    heading(settings)
    from app.views.run import run

    run(settings)


def heading(settings: Settings):
    """What is trained, in one line, and what to look at."""
    look = words.TASK_LOOK[settings.task]
    st.html(f'<p class="headline">{html.escape(headline(settings))}</p><p class="look">{html.escape(look)}</p>')
