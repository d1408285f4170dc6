"""Widgets <-> `Settings` <-> address. A session's settings are always legal; a refused value stays in its widget."""

import html
import shlex
from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import own_data, words
from app.explain import tooltip
from lab import user_file
from lab.choices import MOST_DEVICES, SAMPLED, TASKS
from lab.comparison import other_side
from lab.key import Key, SettingsError, scale_text, text_of
from lab.settings import GROUPS, KEYS, Settings, about_key, split_words, words_in

AGAINST = "against"
"""The part of the address that holds the words of a comparison."""
OPEN = ("task", "batch", "optimizer")
"""Groups that are open on a first visit."""

SCALES: dict[str, list[float]] = {
    "microbatches": [1, 2, 4, 8, 16, 32, 64],
    "batch_size": [8, 16, 32, 64, 100, 128, 200, 250, 256, 400, 512, 1000, 1442],
    "learning_rate": [float(f"{m}e{e}") for e in range(-5, 1) for m in (1, 2, 3, 5)] + [10.0],
    "weight_decay": [0, 0.0001, 0.001, 0.01, 0.03, 0.1, 0.3, 1],
    "clip_threshold": [float(f"{m}e{e}") for e in range(-3, 2) for m in (1, 2, 5)] + [100.0],
    "loss_scale": [2.0**power for power in range(-24, 25)],
    "devices": list(range(1, MOST_DEVICES + 1)),
    "dropout": [0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9],
    "layers": [0, 1, 2, 3, 4],
    "width": [4, 8, 16, 32, 64, 128],
    "growth_interval": [1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 2000],
    "noise": [0, 0.01, 0.03, 0.1, 0.3, 1, 3],
    "decay_rate": [0.01, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1],
    "final_fraction": [0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 1],
    "warmup_steps": [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
    "decay_steps": [0, 5, 10, 20, 50, 100, 200, 300, 500, 1000],
    "steps": [1, 2, 5, 10, 20, 50, 100, 200, 300, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000],
}
"""The stops of every slider; a value between them becomes a stop of its own."""


def current() -> Settings:
    """The settings of this session, read from the address on the first visit and when the address was changed."""
    state = st.session_state
    query = dict(st.query_params)
    if "settings" not in state or query != state.query:
        state.refused = {}
        state.against, state.pinned = query.pop(AGAINST, ""), None
        try:
            state.settings = Settings.from_query(query)
        except SettingsError as refusal:
            state.refused = {"address": str(refusal)}
            state.settings = _legal_part(query)
        _publish()
    return state.settings


def compared() -> Settings | None:
    """The settings of the run to compare with, if there is one and it is legal."""
    state = st.session_state
    state.refused.pop(AGAINST, None)
    if not state.against:
        return None
    try:
        return other_side(state.settings, split_words(words_in(state.against)))
    except SettingsError as refusal:
        state.refused[AGAINST] = str(refusal)
        return None


def comparison() -> DeltaGenerator:
    """The choice of a run to compare with: one of those offered, a pinned one, or any words.

    Returns a place beside it.
    """
    state = st.session_state
    settings, against, pins = state.settings, state.against, state.setdefault("pins", [])
    called = words.compared_with(settings)
    called |= {_changes(settings, pin): words.PINNED.format(words=_named(pin)) for pin in pins}

    def take():
        state.against = state.set_against or ""
        state.pinned = next((pin for pin in pins if _changes(settings, pin) == state.against), None)
        _publish()

    offered = ["", *called]
    state.set_against = against
    left, right, beside = st.columns([7, 2, 4], vertical_alignment="bottom", gap="small")
    left.selectbox(
        words.AGAINST, offered if against in offered else [*offered, against], key="set_against", on_change=take,
        format_func=lambda choice: called.get(choice, choice or words.NOBODY),
        accept_new_options=True, help=words.AGAINST_HELP,
    )  # fmt: skip
    right.button(
        "", key="pin", icon=":material/keep:", help=f"{words.PIN}. {words.PIN_HELP}", width="stretch",
        disabled=settings in pins, on_click=lambda: pins.append(settings),
    )  # fmt: skip
    return beside


def _named(settings: Settings) -> str:
    """What a pinned run is called."""
    return shlex.join(settings.words()) or words.DEFAULTS


def _changes(settings: Settings, other: Settings) -> str:
    """The words that turn the settings into the others; something that changes nothing where they are equal."""
    mine, theirs = settings.to_dict(), other.to_dict()
    differ = [f"{name}={text_of(theirs[name])}" for name in KEYS if mine[name] != theirs[name]]
    return shlex.join(differ) or f"task={settings.task}"


def _legal_part(given: Mapping[str, Any]) -> Settings:
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


def _publish():
    """Write the settings into the address."""
    state = st.session_state
    if state.pinned:
        state.against = _changes(state.settings, state.pinned)
    state.query = state.settings.query() | ({AGAINST: state.against} if state.against else {})
    st.query_params.from_dict(state.query)


def choose(changes: Mapping[str, Any], place: str) -> bool:
    """Take these changes; or keep the settings, and say why not at `place`. Returns whether they were taken."""
    state = st.session_state
    try:
        state.settings = _replaced(state.settings, changes)
    except SettingsError as refusal:
        state.refused[place] = str(refusal)
        return False
    state.refused.clear()
    _publish()
    return True


def _replaced(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """The settings with the changes; a new task starts from its own defaults and keeps what is not about the task."""
    if changes.get("task", settings.task) == settings.task:
        return settings.replace(**changes)
    general = {
        name: value
        for name, value in settings.changed().items()
        if not (about_key(name).by_task or about_key(name).high_by_task or about_key(name).group == "task")
    }
    return _legal_part({"task": changes["task"], **general}).replace(**changes)


def offered() -> list[str]:
    """The tasks that can be chosen here: one's own file only where one was loaded."""
    return [task for task in TASKS if task != "file" or user_file.latest()]


def _from_widget(name: str):
    """Take what a widget holds."""
    value = st.session_state[f"set_{name}"]
    own = {"file": user_file.latest()} if (name, value) == ("task", "file") else {}
    choose({name: value, **own}, place=name)


def _exact():
    """Take the words typed into the box of exact settings."""
    try:
        if choose(split_words(words_in(st.session_state.exact)), place="exact"):
            st.session_state.exact = ""
    except SettingsError as refusal:
        st.session_state.refused["exact"] = str(refusal)


def reset(group: str):
    """Every setting of the group back to its default."""
    choose({name: None for name in KEYS if about_key(name).group == group and name != "task"}, place=group)


def refusal(name: str):
    """Why the last value of a setting was refused, if it was; text, never markdown."""
    sentence = st.session_state.refused.get(name)
    if sentence:
        st.html(f'<p class="refusal" role="alert">{html.escape(sentence)}</p>')


def sidebar():
    """Draw the controls of every group that matters for the choices made."""
    settings: Settings = st.session_state.settings
    used, changed = settings.used(), settings.changed()
    with st.sidebar:
        for group in GROUPS:
            names = [name for name in used if about_key(name).group == group]
            differs = any(name in changed for name in names if name != "task")
            title = words.GROUPS[group] + (" •" if differs else "")
            with st.expander(title, expanded=group in OPEN, key=f"group_{group}"):
                for name in names:
                    _widget(name, about_key(name), settings)
                    refusal(name)
                refusal(group)
                if differs:
                    st.button("Reset", key=f"reset_{group}", on_click=reset, args=(group,), type="tertiary")
        st.text_input(words.EXACT, key="exact", on_change=_exact, help=words.EXACT_HELP, placeholder="microbatches=7")
        refusal("exact")


def _widget(name: str, about: Key, settings: Settings):
    """One control, holding the value of the settings unless its own was refused."""
    key, value = f"set_{name}", getattr(settings, name)
    if name not in st.session_state.refused or key not in st.session_state:
        st.session_state[key] = value
    limits = "" if about.choices else about.legal(settings.task)
    legal = [words.LEGAL.format(limits=limits)] if limits else []
    compiles = [words.COMPILES] if about.structure and name != "task" else []
    common = {"label": words.label(name), "key": key, "on_change": _from_widget, "args": (name,)}
    common["help"] = tooltip(name, settings, (*legal, *compiles))
    if name == "task":
        there = [task for task in TASKS if task in (settings.task, *offered())]
        st.selectbox(**common, options=there, format_func=lambda task: f"{task}: {words.TASKS[task]}")
    elif about.choices:
        st.selectbox(**common, options=about.choices)
    elif name == "table":
        own_data.choose_table(settings, choose, common)
    elif name == "target":
        own_data.choose_target(settings, common)
    elif name == "file":
        own_data.show_file(settings, common)
    elif about.parse:
        st.text_input(**common)
    elif name == "seed":
        st.number_input(**common, min_value=int(about.low), max_value=int(about.high), step=1)
    elif name == "microbatches" and settings.task not in (*SAMPLED, "scalar"):
        st.session_state[key] = str(value)
        st.text_input(**common, disabled=True)
    else:
        whole = KEYS[name].type is int
        high = about.high_for(settings.task)
        if name == "batch_size" and settings.examples:
            high = settings.examples
        stops = sorted({*(stop for stop in SCALES[name] if stop <= high), st.session_state[key]})
        stops = [int(stop) if whole else float(stop) for stop in stops]
        st.session_state[key] = min(stops, key=lambda stop: abs(stop - st.session_state[key]))
        said = scale_text if name == "loss_scale" else (lambda stop: f"{stop:,}" if whole else f"{stop:g}")
        st.select_slider(**common, options=stops, format_func=said)
