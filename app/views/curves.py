"""Curves over a run, drawn over what the look of the page asks for."""

import functools
from typing import NamedTuple

import numpy as np
import streamlit as st

from app import figures
from app.chart import Along, chart
from app.figures import Chart
from app.look import Look
from lab.axis import passed
from lab.choices import UNITS
from lab.record import Record
from lab.run import Run
from lab.settings import Settings

KNOTS = 200
"""An axis that does not grow evenly is told to the browser at so many updates."""
places = functools.lru_cache(maxsize=64)(passed)


class Curve(NamedTuple):
    """A chart over the run, its key, and how high it is drawn, in pixels."""

    key: str
    chart: Chart
    height: int


def along(look: Look, settings: Settings, updates: int) -> Along:
    """Where the updates of a run lie on the axis."""
    at = places(settings, updates, look.axis)
    steps = np.unique(np.linspace(0, updates - 1, min(updates, KNOTS)).astype(int))
    return Along([float(step) for step in steps], [float(x) for x in at[steps]])


def over_run(
    look: Look, settings: Settings, record: Record, held_out: Record, other: tuple[Settings, Record] | None = None,
    in_step: bool = True, until: int | None = None, stacked: bool = False,
) -> list[Curve]:  # fmt: skip
    """The curves of a run up to update `until`, loss first; with a compared run also where the two part, in step."""
    updates = until or record.length
    at = places(settings, updates, look.axis)
    mine, measured, compared, end = figures.placed(record, at), figures.placed(held_out, at), None, float(at[-1])
    if other:
        theirs = places(other[0], other[1].length, look.axis)
        compared, end = figures.placed(other[1], theirs), max(end, float(theirs[-1]))
    parts = compared is not None and in_step
    small = 140 if parts else 170
    high = small if stacked else 260
    found = [Curve("loss", figures.loss(mine, measured, end, compared, UNITS.get(settings.task, "example")), high)]
    if compared is not None and in_step:
        found.append(Curve("divergence", figures.divergence(mine, compared, end), small))
    found.append(Curve("rate", figures.learning_rate(settings, mine, end, compared), small if parts else high))
    if settings.loss_scaling != "none":
        found.append(Curve("loss_scale", figures.loss_scale(mine, end, compared), 180))
    if settings.param_dtype != "float32":
        found.append(Curve("unmoved", figures.unmoved(mine, end, compared), 180))
    if settings.devices > 1 and settings.device_reduction == "none":
        found.append(Curve("drift", figures.spread(mine, end, compared), 180))
    return [curve._replace(chart=figures.over(curve.chart, look.axis, look.scale)) for curve in found]


def spread(run: Run):
    """How far the devices' parameters are apart, over the run."""
    look, updates = st.session_state.look, run.record.length
    at = places(run.settings, updates, look.axis)
    drawn = figures.over(figures.spread(figures.placed(run.record, at), float(at[-1])), look.axis, look.scale)
    chart(drawn, "spread", 120, along(look, run.settings, updates))


def curves(
    settings: Settings, record: Record, held_out: Record, other: tuple[Settings, Record] | None = None,
    in_step: bool = True, until: int | None = None, stacked: bool = False,
):  # fmt: skip
    """Show them: loss beside what belongs to it, and one row of what only some runs have."""
    look = st.session_state.look
    found = over_run(look, settings, record, held_out, other, in_step, until, stacked)
    left, right = (st.container(), st.container()) if stacked else st.columns(2)
    beside = {"loss": left, "divergence": right, "rate": right}
    more = [curve.key for curve in found if curve.key not in beside]
    beside |= dict(zip(more, st.columns(len(more)) if more else [], strict=True))
    for curve in found:
        with beside[curve.key]:
            chart(curve.chart, curve.key, curve.height, along(look, settings, until or record.length))
