"""The run to compare with: chosen from a list, typed in words, or pinned as the baseline of every chart."""

from typing import NamedTuple

import streamlit as st

from app import visit, words
from lab.comparison import apart
from lab.key import SettingsError, require
from lab.settings import Settings, split_words, words_in

PLACE = "against"
"""Where a refused comparison is explained."""


class Compared(NamedTuple):
    """Other settings to draw beside those on screen.

    `apart` names the keys that let the two see other batches or first parameters: then curves can be compared, and
    single updates cannot.
    """

    settings: Settings
    apart: list[str]


def compared() -> Compared | None:
    """What to compare with, if there is something and it is legal."""
    state = st.session_state
    state.refused.pop(PLACE, None)
    if not state.look.against:
        return None
    try:
        other = state.settings.replace(**split_words(words_in(state.look.against)))
        require(
            other.task == state.settings.task,
            f"task={other.task}: runs of different tasks have no curve in common; compare another key",
        )
    except SettingsError as refusal:
        state.refused[PLACE] = str(refusal)
        return None
    keys = [name for name in apart(state.settings, other) if name != "steps"]
    return Compared(other, keys)


def chooser():
    """The choice of a run to compare with: the baseline, one of those offered, or any words."""
    state = st.session_state
    settings, against = state.settings, state.look.against
    nobody = words.THE_BASELINE if state.baseline == settings else f"{words.AGAINST} {words.NOBODY}"
    called = {"": nobody, **words.compared_with(settings)}
    if state.baseline and against:
        called = {**called, against: words.BASELINE.format(words=named(state.baseline))}

    def take():
        state.baseline = None
        visit.change(against=state.set_against or "")

    state.set_against = against
    st.selectbox(
        words.AGAINST, list(dict.fromkeys([*called, against])), key="set_against", on_change=take,
        format_func=lambda choice: called.get(choice, f"{words.AGAINST} {choice}"),
        accept_new_options=True, help=words.AGAINST_HELP, label_visibility="collapsed",
    )  # fmt: skip


def pin(settings: Settings | None):
    """Make a run the baseline of every chart, whatever is changed later; none for no baseline."""
    st.session_state.baseline = settings
    visit.change(against="")


def named(settings: Settings) -> str:
    """What a run is called where nobody has named it."""
    return settings.command() or words.DEFAULTS
