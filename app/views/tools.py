"""The row of tools above the charts: compare, pin, how to draw, and what to take along."""

import html

import streamlit as st

from app import comparison, visit, words
from app.look import SCALES
from app.views.downloads import downloads
from lab.run import Run


def tools(run: Run, other: Run | None, in_step: bool):
    """The tools that fit the look of the page: a frame in another page has a way out of it, a class a way back."""
    look = st.session_state.look
    if look.embed:
        open_lab()
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if look.present:
            leave()
            return
        comparison.chooser()
        _pin(run)
        _display()
        downloads(run, other, in_step)


def open_lab():
    """The way out of a frame."""
    address = html.escape(visit.address(present=False, embed=False))
    st.html(f'<a class="open" href="{address}" target="_blank" rel="noopener">{words.OPEN_LAB}</a>')


def leave():
    """The way back from a presentation."""
    st.button(words.LEAVE, key="leave", icon=":material/close_fullscreen:", on_click=_present, args=(False,))


def _pin(run: Run):
    """Make this run the baseline, or let it go."""
    pinned = st.session_state.baseline == run.settings
    st.button(
        words.UNPIN if pinned else words.PIN, key="pin", icon=":material/keep_off:" if pinned else ":material/keep:",
        help=words.PIN_HELP, on_click=comparison.pin, args=(None if pinned else run.settings,),
    )  # fmt: skip


def _present(on: bool):
    visit.change(present=on)


def _display():
    """How curves are drawn."""
    state = st.session_state
    settings, look = state.settings, state.look
    state.set_axis, state.set_scale = look.axis, look.scale

    def take():
        visit.change(axis=state.set_axis, scale=state.set_scale)

    with st.popover(words.DISPLAY, icon=":material/show_chart:"):
        st.radio(
            words.AXIS, visit.axes(settings), key="set_axis", on_change=take, horizontal=True,
            format_func=lambda axis: words.AXES[axis], help=words.AXIS_HELP,
        )  # fmt: skip
        st.radio(
            words.SCALE, SCALES, key="set_scale", on_change=take, horizontal=True,
            format_func=lambda scale: words.SCALES[scale], help=words.SCALE_HELP,
        )  # fmt: skip
        st.button(words.PRESENT, key="present", icon=":material/slideshow:", on_click=_present, args=(True,))
        st.caption(words.PRESENT_HELP)
