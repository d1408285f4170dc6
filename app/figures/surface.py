"""The decision surface of a network over the plane, frame by frame through its run."""

import numpy as np
import plotly.graph_objects as go

from app import theme
from app.figures.base import Chart, figure
from lab.findings import percent
from lab.surface import Surface

WHOSE = ("this run", "compared")
SIDES = {1: [(0.0, 1.0)], 2: [(0.0, 0.485), (0.515, 1.0)]}
"""Where the surfaces of one run, or of two, stand across the chart."""


def surface(mine: Surface, compared: Surface | None = None) -> Chart:
    """Probability of class 1 in the plane; a compared run beside it, at the nearest of its updates."""
    shown = [mine] if compared is None else [mine, compared]
    traces: list = []
    for k, one in enumerate(shown):
        axes = {"xaxis": f"x{k + 1}", "yaxis": f"y{k + 1}"}
        traces.append(
            go.Contour(
                x=one.x, y=one.y, z=_hundredths(one, -1), zmin=0, zmax=100, colorscale=theme.CLASSES, showscale=k == 0,
                contours={"start": 50, "end": 50, "size": 1, "coloring": "heatmap"}, line={"color": theme.ON_HEAT},
                colorbar={"title": {"text": "% class 1", "side": "right"}, "thickness": 12, "tickvals": [0, 50, 100]},
                hovertemplate="%{x:.2f}, %{y:.2f}: %{z} % class 1<extra></extra>", **axes,
            )
        )  # fmt: skip
        for label, (symbol, colour) in enumerate(theme.CLASS_MARKS):
            at = one.points[one.labels == label]
            marker = {"symbol": symbol, "size": 6, "color": colour, "line": {"color": "#FFFFFF", "width": 0.7}}
            traces.append(
                go.Scatter(
                    x=at[:, 0], y=at[:, 1], mode="markers", name=f"class {label}", marker=marker, hoverinfo="skip",
                    showlegend=k == 0, **axes,
                )
            )  # fmt: skip
    drawn = figure(traces, x="x₁", y="x₂")
    for k, (left, right) in enumerate(SIDES[len(shown)]):
        drawn.update_layout(
            {
                f"xaxis{k + 1}": {"domain": [left, right], "anchor": f"y{k + 1}", "showgrid": False,
                                  "title": {"text": "x₁" if compared is None else f"x₁ · {WHOSE[k]}", "standoff": 0,
                                            "font": {"size": 13}}},
                f"yaxis{k + 1}": {"scaleanchor": f"x{k + 1}", "anchor": f"x{k + 1}", "showgrid": False,
                                  "constrain": "domain", "showticklabels": k == 0, "ticks": "" if k else None},
            }
        )  # fmt: skip
    drawn.update_layout(hovermode="closest", margin_b=36)
    drawn.frames = [
        go.Frame(
            name=_name(step, k == len(mine.steps) - 1),
            data=[go.Contour(z=_hundredths(one, _nearest(one, step))) for one in shown],
            traces=[3 * side for side in range(len(shown))],
            layout={"meta": _summary(shown, step)},
        )
        for k, step in enumerate(mine.steps)
    ]
    read = "What the network says everywhere; it changes its mind at the dark line. Play it from the first update."
    return Chart("Decision surface", drawn, read, _summary(shown, mine.steps[-1]))


def _hundredths(of: Surface, k: int) -> np.ndarray:
    """Probabilities in whole per cent, a byte each where they are numbers."""
    rounded = np.round(100 * of.probability[k])
    return rounded.astype(np.uint8) if np.isfinite(rounded).all() else rounded


def _nearest(of: Surface, step: int) -> int:
    """The frame closest to an update."""
    return int(np.abs(of.steps - step).argmin())


def _name(step: int, last: bool) -> str:
    return f"after {step:,} updates" if last else f"before update {step:,}"


def _summary(shown: list[Surface], step: int) -> str:
    """How many of the training points lie on the side of their class."""
    said = [_right(one, _nearest(one, step)) for one in shown]
    if np.isnan(said[0]):
        return "What the network says is not a number here."
    compared = f"; in the compared run {percent(said[1])}" if len(said) > 1 else ""
    return f"{percent(said[0])} of the training points lie on their side{compared}."


def _right(of: Surface, k: int) -> float:
    """Share of the training points on the side of their class, by the nearest place of the grid; nan if it has none."""
    if not np.isfinite(of.probability[k]).all():
        return np.nan
    column, row = (np.abs(of.points[:, axis, None] - grid).argmin(axis=1) for axis, grid in enumerate((of.x, of.y)))
    return float(((of.probability[k][row, column] > 0.5) == of.labels).mean())
