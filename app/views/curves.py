"""Curves over a run, drawn over what the look of the page asks for."""

import functools

import numpy as np
import streamlit as st

from app import figures
from app.chart import Along, chart
from app.figures import Chart
from lab.axis import passed
from lab.choices import UNITS
from lab.record import Record
from lab.settings import Settings

KNOTS = 200
"""An axis that does not grow evenly is told to the browser at so many updates."""
places = functools.lru_cache(maxsize=64)(passed)


def along(settings: Settings, updates: int) -> Along:
    """Where the updates of a run lie on the axis of this visit."""
    at = places(settings, updates, st.session_state.look.axis)
    steps = np.unique(np.linspace(0, updates - 1, min(updates, KNOTS)).astype(int))
    return Along([float(step) for step in steps], [float(x) for x in at[steps]])


def placed(settings: Settings, record: Record, updates: int | None = None) -> Record:
    """The record on the axis of this visit."""
    return figures.placed(record, places(settings, updates or record.length, st.session_state.look.axis))


def over_run(drawn: Chart, key: str, settings: Settings, updates: int, height: int = 260):
    """Show a chart of placed records."""
    look = st.session_state.look
    chart(figures.over(drawn, look.axis, look.scale), key, height, along(settings, updates))


def curves(
    settings: Settings, record: Record, held_out: Record, other: tuple[Settings, Record] | None = None,
    in_step: bool = True, until: int | None = None, stacked: bool = False,
):  # fmt: skip
    """Loss and learning rate up to update `until`; with a compared run, where the two part, if they go in step."""
    updates, axis = until or record.length, st.session_state.look.axis
    end = float(places(settings, updates, axis)[-1])
    mine, held_out = placed(settings, record, updates), placed(settings, held_out, updates)
    compared = None
    if other:
        compared = placed(*other)
        end = max(end, float(places(other[0], other[1].length, axis)[-1]))
    parts = compared is not None and in_step
    left, right = (st.container(), st.container()) if stacked else st.columns(2)
    small = 140 if parts else 170
    unit = UNITS.get(settings.task, "example")
    with left:
        height = small if stacked else 260
        over_run(figures.loss(mine, held_out, end, compared, unit), "loss", settings, updates, height)
    with right:
        if parts and compared is not None:
            over_run(figures.divergence(mine, compared, end), "divergence", settings, updates, small)
        height = small if stacked or parts else 260
        over_run(figures.learning_rate(settings, mine, end, compared), "rate", settings, updates, height)
    more = []
    if settings.loss_scaling != "none":
        more.append(("loss_scale", figures.loss_scale))
    if settings.param_dtype != "float32":
        more.append(("unmoved", figures.unmoved))
    if settings.devices > 1 and settings.device_reduction == "none":
        more.append(("drift", figures.spread))
    for place, (key, draw) in zip(st.columns(len(more)) if more else [], more, strict=True):
        with place:
            over_run(draw(mine, end, compared), key, settings, updates, 180)
