"""The same training written in several ways, timed on this machine while one looks."""

import html

import streamlit as st

from app import controls, visit, words
from lab.headline import headline
from lab.loops.compared import NOT_COMPARED, PLAIN, plain


def page():
    """Draw the page for the settings of this session, as far as all loops can do them."""
    settings = visit.settings()
    if not st.session_state.look.embed:
        controls.sidebar(without=PLAIN)
    controls.refusal("address")
    if settings.task in NOT_COMPARED:
        heading(headline(settings))
        st.info(words.NOT_COMPARED.format(task=settings.task))
        return
    compared, dropped = plain(settings)
    heading(headline(compared))
    if dropped:
        said = " ".join(f"{name}={getattr(settings, name)}" for name in dropped)
        st.html(f'<p class="look">{html.escape(words.LEFT_OUT.format(words=said))}</p>')
    from app.views.timing import timing

    timing(compared)


def heading(said: str):
    """What is trained, in one line, and what this page is for."""
    st.html(f'<p class="headline">{html.escape(said)}</p><p class="look">{html.escape(words.LOOPS_LOOK)}</p>')
