"""What this visit is about: its settings and its look, and the address that holds both.

A session's settings are always legal; what was refused waits in `st.session_state.refused`, by the place that shows it.
"""

import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app import look
from app.look import Look
from lab.choices import AXES, UNITS
from lab.key import SettingsError, text_of
from lab.settings import KEYS, Settings, about_key

PLACE = ("step", "view")
"""Parts of the address that the browser keeps up to date by itself, without a visit to the server."""


def session() -> str:
    """The identity of this browser tab."""
    context = get_script_run_ctx()
    assert context is not None
    return context.session_id


def settings() -> Settings:
    """The settings of this visit, read from the address when it begins and whenever somebody changed the address."""
    query = given()
    if "settings" not in st.session_state or _lasting(query) != _lasting(st.session_state.query):
        _read(query)
    return st.session_state.settings


def turn_to(view: str):
    """Note which page is on, and what its address asks for."""
    st.session_state.page = view
    settings()


def given() -> dict[str, str]:
    """What the address says. Two runs of one visit may overlap: while one writes it, the other reads again."""
    while True:
        try:
            return dict(st.query_params)
        except RuntimeError:  # the dictionary changed size while it was read
            continue


def _lasting(query: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in query.items() if name not in PLACE}


def _read(query: Mapping[str, str]):
    """Take what an address says, and keep a sentence for what it cannot mean."""
    state = st.session_state
    seen, refused = look.read(query, bool(st.context.is_embedded))
    words = {name: value for name, value in query.items() if name not in Look._fields}
    try:
        state.settings = Settings.from_query(words)
    except SettingsError as refusal:
        refused.insert(0, str(refusal))
        state.settings = legal_part(words)
    if seen.axis not in axes(state.settings):
        refused.append(f"axis={seen.axis}: the losses of task={state.settings.task} are per example; use axis=examples")
        seen = seen._replace(axis="updates")
    last = state.settings.steps - 1
    if seen.step > last:
        refused.append(f"step={seen.step}: this run has updates 0 to {last}; the last is open instead")
        seen = seen._replace(step=last)
    state.look, state.step, state.view = seen, seen.step, seen.view
    state.baseline = None
    state.refused = {"address": "\n".join(refused)} if refused else {}
    publish()


def axes(settings: Settings) -> tuple[str, ...]:
    """What curves can be drawn over in this task: tokens only where losses are per token."""
    return tuple(axis for axis in AXES if axis != "tokens" or UNITS.get(settings.task) == "token")


def seen() -> Look:
    """The look of this visit as it is now."""
    state = st.session_state
    return state.look._replace(step=state.step, view=state.view)


def change(**changes: Any):
    """Look at the run in another way."""
    state = st.session_state
    state.look = state.look._replace(**changes)
    publish()


def query() -> dict[str, str]:
    """The address that brings somebody else here."""
    return st.session_state.settings.query() | seen().query()


def address(**changes: Any) -> str:
    """The whole address of this visit, as a link; with changes to its look."""
    look = seen()._replace(**changes)
    state = st.session_state
    given = state.settings.query() | look.query() | ({"embed": "1"} if look.embed else {})
    place = (st.context.url or "").partition("?")[0].rstrip("/")
    return f"{place}{'' if state.page else '/'}?{urlencode(given, safe=',/:')}"


def publish():
    """Write settings and look into the address; a baseline stands there as what would lead to it from here."""
    state = st.session_state
    if state.baseline:
        state.look = state.look._replace(against=_leading_to(state.settings, state.baseline))
    st.session_state.query = query()
    st.query_params.from_dict(st.session_state.query)


def _leading_to(settings: Settings, other: Settings) -> str:
    """The words that turn the settings into the others."""
    mine, theirs = settings.to_dict(), other.to_dict()
    return shlex.join(f"{name}={text_of(theirs[name])}" for name in KEYS if mine[name] != theirs[name])


def choose(changes: Mapping[str, Any], place: str) -> bool:
    """Take these changes; or keep the settings, and say why not at `place`. Returns whether they were taken."""
    state = st.session_state
    try:
        take(_replaced(state.settings, changes))
    except SettingsError as refusal:
        state.refused[place] = str(refusal)
        return False
    return True


def take(settings: Settings):
    """Go to these settings."""
    state = st.session_state
    state.settings = settings
    if state.look.axis not in axes(settings):
        state.look = state.look._replace(axis="updates")
    state.refused.clear()
    publish()


def legal_part(given: Mapping[str, Any]) -> Settings:
    """The settings of a mapping without the keys that are refused."""
    settings = Settings()
    kept = {}
    for name in [key for key in KEYS if key in given]:
        try:
            settings = Settings(**kept, **{name: given[name]})
        except SettingsError:
            continue
        kept[name] = given[name]
    return settings


def _replaced(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """The settings with the changes; a new task starts from its own defaults and keeps what is not about the task."""
    if changes.get("task", settings.task) == settings.task:
        return settings.replace(**changes)
    general = {
        name: value
        for name, value in settings.changed().items()
        if not (about_key(name).by_task or about_key(name).high_by_task or about_key(name).group == "task")
    }
    return legal_part({"task": changes["task"], **general}).replace(**changes)
