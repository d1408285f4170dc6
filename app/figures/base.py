"""What all charts share: curves, axes, empty states."""

from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from app import theme
from lab.findings import number
from lab.record import Record

POINTS = 1200
"""A curve is drawn with about this many points at most."""


class Chart(NamedTuple):
    """A figure with what a reader needs: what is drawn, how to read it, what it shows now."""

    title: str
    figure: go.Figure
    read: str
    summary: str


def thinned(y: np.ndarray, points: int = POINTS) -> np.ndarray:
    """Indices of the points to draw: all of them, or the least and the greatest of every stretch.

    Peaks and dips survive; not-a-number counts as neither, and a stretch of nothing else keeps its first point.
    """
    if len(y) <= points:
        return np.arange(len(y))
    kept = [0, len(y) - 1]
    for stretch in np.array_split(np.arange(len(y)), points // 2):
        known = stretch[np.isfinite(y[stretch])]
        kept += [stretch[0]] if len(known) == 0 else [known[y[known].argmin()], known[y[known].argmax()]]
    return np.unique(kept)


def curve(record: Record, column: str, points: int = POINTS, **style) -> go.Scatter:
    """One column over the updates; a single finite point is a dot."""
    at = thinned(record[column], points)
    if np.isfinite(record[column]).sum() == 1:
        style |= {"mode": "markers", "marker": {**style.get("marker", {}), "color": style["line"]["color"], "size": 9}}
    return go.Scatter(x=record["step"][at], y=record[column][at], **style)


def figure(traces: list, *, x: str, y: str, **layout) -> go.Figure:
    """A figure with named axes."""
    axes = {
        "xaxis": {"title": {"text": x, "standoff": 4, "font": {"size": 13}}, "zeroline": False},
        "yaxis": {"title": {"text": y, "standoff": 6, "font": {"size": 13}}, "exponentformat": "power"},
    }
    return go.Figure(traces, {**theme.LAYOUT, **axes}).update_layout(layout)


def logarithmic(*values, ticks: int = 6, always: bool = False) -> dict:
    """The axis for these values: logarithmic if all are positive and span more than a factor of ten, or `always`."""
    known = np.concatenate([np.asarray(v, float) for v in values])
    known = known[np.isfinite(known)]
    if always:
        known = known[known > 0]
    if len(known) == 0 or known.min() <= 0 or (known.max() < 10 * known.min() and not always):
        return {}
    low, high = float(np.log10(known.min())), float(np.log10(known.max()))
    if high - low > 2:
        return {"type": "log", "dtick": int(np.ceil((high - low) / ticks))}
    at = [m * 10.0**e for e in range(int(np.floor(low)), int(np.ceil(high)) + 1) for m in (1, 2, 5)]
    return {"type": "log", "tickvals": at, "ticktext": [number(tick) for tick in at]}


def tell_if_empty(drawn: go.Figure, values):
    """Say so where there is nothing to draw."""
    if not np.isfinite(np.asarray(values, float)).any():
        drawn.add_annotation(
            text="nothing to draw: no value is a finite number",
            x=0.5,
            y=0.5,
            xref="paper",
            yref="paper",
            showarrow=False,
        )


def over_run(traces: list, until: float, **labels) -> go.Figure:
    """Curves over the updates of a run up to `until`."""
    edge = 0.02 * until
    return figure(
        traces, x="update", showlegend=len(traces) > 1, xaxis_range=[-edge, until + edge], **labels
    )  # fmt: skip
