"""Controls <-> `Settings`. A refused value stays in its control, with the reason under it."""

import html
from collections.abc import Collection

import streamlit as st

from app import own_data, words
from app.explain import tooltip
from app.look import EXACT
from app.visit import choose
from lab import user_file
from lab.choices import MOST_DEVICES, SAMPLED, TASKS
from lab.key import Key, SettingsError, scale_text
from lab.settings import GROUPS, KEYS, Settings, about_key, split_words, words_in

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
    for sentence in st.session_state.refused.get(name, "").splitlines():
        st.html(f'<p class="refusal" role="alert">{html.escape(sentence)}</p>')


def sidebar(without: Collection[str] = ()):
    """Draw the controls of every group that matters for the choices made, except those of some keys."""
    settings: Settings = st.session_state.settings
    hidden = st.session_state.look.hide
    used, changed = settings.used(), settings.changed()
    with st.sidebar:
        for group in [group for group in GROUPS if group not in hidden]:
            names = [name for name in used if about_key(name).group == group and name not in without]
            if not names:
                continue
            differs = any(name in changed for name in names if name != "task")
            title = words.GROUPS[group] + (" •" if differs else "")
            with st.expander(title, expanded=group in OPEN, key=f"group_{group}"):
                for name in names:
                    _widget(name, about_key(name), settings)
                    refusal(name)
                refusal(group)
                if differs:
                    st.button("Reset", key=f"reset_{group}", on_click=reset, args=(group,), type="tertiary")
        if EXACT in hidden:
            return
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
