"""One update stage by stage: the norm after every operation, and a few coordinates before and after it."""

import html

import numpy as np
import plotly.graph_objects as go

from app import theme
from app.figures.base import Chart, figure, logarithmic
from lab.findings import Stage, number, stages_of
from lab.opened import Update, Vector
from lab.settings import Settings

SHOWN = 8
"""Coordinates drawn, at most: those with the largest reference gradient."""
DOTS = 256
"""Microbatches drawn in a row, at most."""
LONGEST = 26
"""A longer name of a coordinate loses its middle."""
EVERY = 1700
"""Milliseconds a stage is shown when they are played."""
ROW, EDGES = 36, 74
"""Height of a row, and of an axis with its title, in pixels."""


def stages(update: Update, settings: Settings) -> Chart:
    """Every stage a row with the norm after it, and beside them the coordinates the current stage took and gave."""
    told, listed = stages_of(update, settings), _listed(update)
    rows, lines = len(told), max(len(listed), 4)
    spots = [_spots(stage) for stage in told]
    axis, low, high = _axis(np.concatenate(spots))
    places = [_placed(spot, low, high, "type" in axis) for spot in spots]
    drawn = figure([go.Scatter(**style) for style in _styles()], x="norm after each stage", y="", showlegend=False)
    drawn.update_layout(
        xaxis={**axis, "domain": [0, 0.47], "range": [low, high]},
        yaxis={**_rows(rows), "domain": [0, 1]},
        xaxis2={"domain": [0.53, 1], "anchor": "y2", "zeroline": True, "zerolinewidth": 2, "nticks": 6,
                "title": {"text": "coordinate before ○ and after ●", "standoff": 4, "font": {"size": 13}}},
        yaxis2={**_rows(lines), "domain": [0, 1], "anchor": "x2"},
        hovermode="closest", margin={"l": 8, "r": 8, "t": 6, "b": 42},
        meta={"every": EVERY, "start": 0, "narrow": _narrow(rows, lines)},
    )  # fmt: skip
    drawn.frames = [_frame(told, k, update, listed, places) for k in range(rows)]
    read = (
        "Left: filled is done, hollow is to come, the large one is this stage"
        + (", with a dot for each device while they differ" if len(update.devices) > 1 else "")
        + ". Right: grey before this stage, blue after it, each stage on a scale of its own."
    )
    marks = {mark for _, row in places for mark in row}
    read += " A triangle at the left is 0." * ("triangle-left" in marks)
    read += " A cross at the right is not finite." * ("x" in marks)
    if len(update.microbatches) > DOTS:
        read += f" {DOTS} of the {len(update.microbatches):,} microbatches are drawn."
    return Chart("One update, stage by stage", drawn, read, told[0].caption)


def _styles() -> list[dict]:
    """The traces, empty: trail, to come, done, this one; coordinates' way, before, after."""
    right = {"xaxis": "x2", "yaxis": "y2"}
    grey, blue = {"color": theme.REFERENCE, "width": 1.5}, theme.YOURS
    norms = {"hovertemplate": "%{text}<br><b>%{customdata}</b><extra></extra>", "cliponaxis": False}
    return [
        {"mode": "lines", "line": {**grey, "dash": "dot"}, "hoverinfo": "skip"},
        {"mode": "markers", "marker": {"color": theme.REFERENCE, "size": 9}, **norms},
        {"mode": "markers", "marker": {"color": blue, "size": 9}, **norms},
        {"mode": "markers", "marker": {"color": blue, "size": 16}, **norms},
        {"mode": "lines", "line": grey, "hoverinfo": "skip", **right},
        {"mode": "markers", "hovertemplate": "before: <b>%{x:.6g}</b><extra></extra>", **right},
        {"mode": "markers", "hovertemplate": "after: <b>%{x:.6g}</b><extra></extra>", **right},
    ]


def _rows(count: int) -> dict:
    """An axis of so many rows from top to bottom, with room for a label over each."""
    return {
        "range": [count - 0.7, -0.95], "tickvals": list(range(count)), "showticklabels": False,
        "title": "", "zeroline": False,
    }  # fmt: skip


def _narrow(rows: int, lines: int) -> dict:
    """The layout where the two halves stand one below the other."""
    height = (rows + lines) * ROW + 2 * EDGES
    upper, lower = 1 - rows * ROW / (height - EDGES), lines * ROW / (height - EDGES)
    return {
        "height": height, "xaxis": {"domain": [0, 1], "anchor": "y"}, "yaxis": {"domain": [upper, 1]},
        "xaxis2": {"domain": [0, 1]}, "yaxis2": {"domain": [0, lower]},
    }  # fmt: skip


def _picked(vectors: list[Vector]) -> list[Vector]:
    """As many vectors as are drawn, spread evenly over all."""
    if len(vectors) <= DOTS:
        return vectors
    return [vectors[i] for i in np.linspace(0, len(vectors) - 1, DOTS).round().astype(int)]


def _spots(stage: Stage) -> np.ndarray:
    """The norms of a stage."""
    return np.array([vector.norm for vector in _picked(stage.after)], float)


def _axis(norms: np.ndarray) -> tuple[dict, float, float]:
    """The axis of all norms, and its range; logarithmic over those above 0 if they span a decade."""
    positive = norms[np.isfinite(norms) & (norms > 0)]
    axis = logarithmic(positive)
    if "type" in axis:
        low, high = np.log10(positive.min()), np.log10(positive.max())
        return axis, float(low - 0.08 * (high - low)), float(high + 0.08 * (high - low))
    top = float(positive.max(initial=0)) or 1.0
    return {}, -0.05 * top, 1.08 * top


def _placed(norms: np.ndarray, low: float, high: float, log: bool) -> tuple[np.ndarray, list[str]]:
    """Where norms stand on the axis and with which mark: 0 at the left end of a logarithm, not finite at the right."""
    left, right = (10**low, 10**high) if log else (low, high)
    zero, broken = (norms == 0) & log, ~np.isfinite(norms)
    marks = np.where(broken, "x", np.where(zero, "triangle-left", "circle"))
    return np.where(broken, right, np.where(zero, left, norms)), marks.tolist()


def _frame(told: list[Stage], now: int, update: Update, listed: list[int], places: list) -> go.Frame:
    """The chart at one stage."""
    stage, finished = told[now], told[now].name == "update"
    hints = [f"{one.title}<br>{one.formula}<br>{one.with_numbers}" for one in told]

    def dots(of: range, colour: str, size: int, hollow: bool = False) -> dict:
        """The dots of some stages; crosses are not finite."""
        parts = [(k, *places[k]) for k in of]
        marks = [mark for _, _, symbols in parts for mark in symbols]
        colours = [theme.COMPARED if mark == "x" else colour for mark in marks]
        square = [told[k].name == "update" for k, at, _ in parts for _ in at]
        symbols = ["square" if box and mark == "circle" else mark for mark, box in zip(marks, square, strict=True)]
        return {
            "x": np.concatenate([np.zeros(0), *(at for _, at, _ in parts)]),
            "y": np.concatenate([np.zeros(0), *(np.full(len(at), k) for k, at, _ in parts)]),
            "text": [told[k].title if len(at) > 8 else hints[k] for k, at, _ in parts for _ in at],
            "customdata": [number(v.norm) for k in of for v in _picked(told[k].after)],
            "marker": {"color": colours, "size": size,
                       "symbol": [f"{symbol}-open" if hollow else symbol for symbol in symbols]},
        }  # fmt: skip

    trail = [k for k in range(now + 1) if len(told[k].after) == 1 and told[k].name != "update"]
    trail = [k for k in trail if np.isfinite(told[k].after[0].norm)]
    labels = [_label(other, k, now) for k, other in enumerate(told)]
    before, after = ([_coordinates(vector, listed) for vector in _picked(of)] for of in (stage.before, stage.after))
    rows = np.arange(len(listed), dtype=float)
    way = len(before) == len(after) == 1
    gap = np.full(len(listed), np.nan)
    line = {
        "x": np.stack([before[0], after[0], gap], axis=1).ravel() if way else np.zeros(0),
        "y": np.repeat(rows, 3) if way else np.zeros(0),
    }
    small = 7 if max(len(before), len(after)) > 8 else 10

    def points(of: list[np.ndarray], marker: dict) -> dict:
        return {"x": np.concatenate([np.zeros(0), *of]), "y": np.tile(rows, len(of)), "marker": marker}

    names = [_name(update.coordinates[i]) for i in listed]
    texts = [_moved(name, [b[i] for b in before], [a[i] for a in after]) for i, name in enumerate(names)]
    data = [
        {"x": [float(places[k][0][0]) for k in trail], "y": trail},
        dots(range(now + 1, len(told)), theme.REFERENCE, 9, hollow=True),
        dots(range(now), theme.YOURS, 9),
        dots(range(now, now + 1), theme.YOURS, 16 if len(places[now][0]) <= 8 else 10),
        line,
        points(before, {"color": theme.REFERENCE, "size": small + 2, "symbol": "circle-open", "line": {"width": 2}}),
        points(after, {"color": theme.YOURS, "size": small, "symbol": "square" if finished else "circle"}),
    ]
    return go.Frame(
        name=stage.title,
        data=[go.Scatter(fields) for fields in data],
        traces=list(range(len(data))),
        layout={
            "meta": {"formula": f"{stage.formula}\n{stage.with_numbers}", "summary": stage.caption},
            "xaxis2": {"range": _span([*before, *after])},
            "annotations": [*_over(labels, ""), *_over(texts, "2")],
        },
    )


def _over(texts: list[str], panel: str) -> list[dict]:
    """Labels over the rows of a panel; Plotly's own inside an axis would hide ticks of the other."""
    return [
        {"text": text, "x": 0, "xref": f"x{panel} domain", "xanchor": "left", "y": row, "yref": f"y{panel}",
         "yanchor": "bottom", "yshift": 6, "showarrow": False, "borderpad": 0}
        for row, text in enumerate(texts)
    ]  # fmt: skip


def _label(stage: Stage, k: int, now: int) -> str:
    """The name of a stage over its row, with the norm where it is done."""
    if k > now:
        return stage.title
    norms = [vector.norm for vector in stage.after]
    least, most = number(min(norms)), number(max(norms))
    size = least if least == most else f"{least} to {most}"
    if not np.isfinite(norms).all():
        size = number(next(norm for norm in norms if not np.isfinite(norm)))
    text = f"{stage.title}{', length of w' if stage.name == 'update' else ''}: {size}"
    return f"<b>{text}</b>" if k == now else text


def _listed(update: Update) -> list[int]:
    """Which coordinates are drawn, in their order: those with the largest reference gradient."""
    largest = np.argsort(-np.abs(update.reference.values), kind="stable")[:SHOWN]
    return sorted(largest.tolist())


def _coordinates(vector: Vector, listed: list[int]) -> np.ndarray:
    return np.asarray(vector.values, float)[listed]


def _name(name: str) -> str:
    """The name of a coordinate, which may be a user's own, as text of bearable length."""
    half = LONGEST // 2
    return html.escape(name if len(name) <= LONGEST else f"{name[:half]}…{name[-half:]}")


def _moved(name: str, before: list[float], after: list[float]) -> str:
    """`w[0]: 15 → 1`; of several the least and the greatest."""

    def short(values: list[float]) -> str:
        few = [number(value) for value in dict.fromkeys(values)]
        return ", ".join(few) if len(few) <= 3 else f"{number(min(values))} to {number(max(values))}"

    text = f"{short(before)} → {short(after)}" if before else short(after)
    return f"{name}: {text}".replace("-", "−")


def _span(values: list[np.ndarray]) -> list[float]:
    """The range of an axis that shows these values and 0."""
    known = np.concatenate([np.zeros(1), *values])
    known = known[np.isfinite(known)]
    room = 0.06 * (np.ptp(known) or 1)
    return [float(known.min() - room), float(known.max() + room)]
