"""Charts of how long loops take, and what memory they need."""

import numpy as np
import plotly.graph_objects as go

from app import theme
from app.figures.base import Chart, figure, logarithmic
from lab.findings import loops as findings
from lab.loops.compared import NAMES
from lab.loops.debugging import Debugged
from lab.loops.stacking import Stacking
from lab.loops.timing import Row, crossover
from lab.wording import DURATIONS, SIZES, duration, plural, unit

LOOK = {
    "ours": (theme.YOURS, "solid"), "recording": (theme.YOURS, "dot"), "bare": (theme.REFERENCE, "solid"),
    "chunked": (theme.REFERENCE, "dash"),
    "python_loop": (theme.COMPARED, "dash"), "multisteps": (theme.COMPARED, "dashdot"),
    "unrolled": (theme.REFERENCE, "dot"), "torch": (theme.COMPARED, "longdash"), "without_jit": (theme.COMPARED, "dot"),
}  # fmt: skip
"""Blue is the lab, grey what the compiler sees whole, orange what Python turns."""
CALLED = {**NAMES, "without_jit": "without jit"}
MOST_UPDATES, MOST_TICKS = 100_000, 5


def times(rows: list[Row]) -> Chart:
    """Every timing of every loop as a dot, the middle half as a bar, on a logarithmic axis."""
    names = [CALLED[row.loop] for row in rows]
    x = [second / row.updates for row in rows for second in row.seconds]
    y = [name for row, name in zip(rows, names, strict=True) for _ in row.seconds]
    colours = [LOOK[row.loop][0] for row in rows for _ in row.seconds]
    every = go.Scatter(
        x=x, y=y, mode="markers", marker={"color": colours, "size": 7, "opacity": 0.45}, hoverinfo="skip",
        name="one timing",
    )  # fmt: skip
    lows, medians, highs = zip(*(row.per_update for row in rows), strict=True)
    middle = go.Scatter(
        x=medians, y=names, mode="markers", name="median",
        marker={"symbol": "line-ns", "size": 18, "line": {"width": 3, "color": [LOOK[row.loop][0] for row in rows]}},
        customdata=[
            [duration(low), duration(each), duration(high)]
            for low, each, high in zip(lows, medians, highs, strict=True)
        ],
        hovertemplate="%{y}: median %{customdata[1]}, middle half %{customdata[0]} to %{customdata[2]}<extra></extra>",
    )  # fmt: skip
    drawn = figure([every, middle], x="time of an update", y="", showlegend=False, hovermode="closest")
    drawn.update_layout(
        xaxis=_time_axis(x), yaxis={"type": "category", "autorange": "reversed", "automargin": True},
        margin={"l": 130},
    )  # fmt: skip
    fastest = min(rows, key=lambda row: row.per_update[1])
    return Chart(
        "How long an update takes",
        drawn,
        "Every dot is one timing of many updates, every stroke the median; what lies closer than the dots scatter is "
        "not told apart.",
        f"The fastest is {CALLED[fastest.loop]}, {duration(fastest.per_update[1])} an update.",
    )


def totals(rows: list[Row], debugged: Debugged | None) -> Chart:
    """Seconds to compile and to train, against the number of updates; a ring where the scan has caught up."""
    shown = [row for row in rows if row.loop not in ("chunked", "recording")]
    if debugged and debugged.comparable:
        shown.append(findings.without_jit(debugged, rows[0].updates))
    updates = np.unique(np.geomspace(1, MOST_UPDATES, 61).astype(int))
    lines = {row.loop: row.compiling + updates * row.per_update[1] for row in shown}
    traces = [
        go.Scatter(
            x=updates, y=seconds, name=CALLED[loop], mode="lines",
            line={"color": LOOK[loop][0], "dash": LOOK[loop][1], "width": 2},
            hovertemplate=f"{CALLED[loop]}: %{{y:.3g}} s<extra></extra>",
        )
        for loop, seconds in lines.items()
    ]  # fmt: skip
    bare = next((row for row in shown if row.loop == "bare"), None)
    met = {CALLED[row.loop]: crossover(bare, row) for row in shown if bare and row is not bare}
    crossings = sorted((max(at, 1.0), name) for name, at in met.items() if at and at < MOST_UPDATES)
    traces.append(
        go.Scatter(
            x=[at for at, _ in crossings], mode="markers",
            y=[bare.compiling + at * bare.per_update[1] for at, _ in crossings] if bare else [],
            marker={"symbol": "circle-open", "size": 12, "color": theme.REFERENCE, "line": {"width": 2}},
            name="caught up", hovertemplate="caught up after %{x:.3g} updates<extra></extra>",
        )
    )  # fmt: skip
    drawn = figure(traces, x="updates", y="seconds, compiling included", showlegend=False)
    every = np.log10(np.concatenate(list(lines.values())))
    low, high = float(every.min()), float(every.max())
    ends = {CALLED[loop]: float(np.log10(seconds[-1])) for loop, seconds in lines.items()}
    for name, place in _beside(ends, high - low).items():
        drawn.add_annotation(
            x=1, xref="paper", xanchor="left", y=place, text=f" {name}", showarrow=False, font_size=12, align="left"
        )  # fmt: skip
    drawn.update_layout(yaxis=logarithmic(10**every, always=True))
    drawn.update_layout(
        xaxis={"type": "log", "range": [0, np.log10(MOST_UPDATES)], "dtick": 1},
        yaxis={"type": "log", "range": [low - 0.2, high + 0.2]}, margin={"r": 140},
    )  # fmt: skip
    said = [f"with {name} after {plural(int(np.ceil(at)), 'update')}" for at, name in crossings]
    never = [name for name, at in met.items() if at is None]
    summary = "One scan is ahead of all of them from the first update on."
    if said or never:
        summary = (
            f"One scan catches up {', '.join(said)}." if said else f"One scan is behind {', '.join(never)} in the end."
        )
    return Chart(
        "From how many updates compiling pays",
        drawn,
        "Flat on the left: compiling. Rising on the right: training. A ring: there one scan has caught up.",
        summary,
    )


def reporting(chunks: list[Row]) -> Chart:
    """Time of an update against the number of updates between two reports."""
    sizes = [int(row.loop) for row in chunks]
    lows, medians, highs = (np.array(part) for part in zip(*(row.per_update for row in chunks), strict=True))
    scale, name = unit(float(highs.max()), DURATIONS)
    line = go.Scatter(
        x=sizes, y=medians / scale, mode="lines+markers", name="median", line=theme.LINE,
        error_y={"array": (highs - medians) / scale, "arrayminus": (medians - lows) / scale, "color": theme.YOURS},
        hovertemplate=f"%{{x}} updates: %{{y:.3g}} {name}<extra></extra>",
    )  # fmt: skip
    drawn = figure([line], x="updates between two reports", y=f"{name} an update", showlegend=False)
    drawn.update_layout(
        xaxis={"type": "log", "tickvals": sizes, "ticktext": [str(size) for size in sizes]}, yaxis_rangemode="tozero"
    )
    return Chart(
        "What it costs to report progress",
        drawn,
        "The scan stops after so many updates, and Python reads the loss. Bars: the middle half of the timings.",
        findings.of_reporting(chunks),
    )


def stacking(found: Stacking) -> Chart:
    """Memory of the gradient of one update, carried and stacked, against the number of microbatches."""
    per, each = unit(max(found.stacked), SIZES)
    names = [str(count) for count in found.microbatches]
    traces = [
        go.Bar(
            x=names, y=np.array(sizes) / per, name=name, marker={"color": colour, "pattern": {"shape": shape}},
            hovertemplate=f"{name}: %{{y:.3g}} {each}<extra></extra>",
        )
        for name, sizes, colour, shape in (
            ("carried as a running total", found.carried, theme.YOURS, ""),
            ("stacked, then added", found.stacked, theme.COMPARED, "/"),
        )
    ]  # fmt: skip
    drawn = figure(traces, x="microbatches", y=each, barmode="group", hovermode="closest")
    drawn.update_layout(xaxis={"type": "category"}, margin_t=44)
    return Chart(
        "Memory of a scan that stacks and one that carries",
        drawn,
        "XLA's own count of what the gradient of one update takes on one device. Cutting the batch saves memory only "
        "where the scan carries a total.",
        findings.of_stacking(found),
    )


def _time_axis(seconds: list[float]) -> dict:
    """A logarithmic axis of times, with units."""
    low, high = np.log10(min(seconds)) - 0.08, np.log10(max(seconds)) + 0.12
    every = [(m, m * 10.0**e) for e in range(-8, 4) for m in (1, 2, 5)]
    every = [(m, tick) for m, tick in every if low <= np.log10(tick) <= high]
    at = [tick for m, tick in every if m == 1 or len(every) <= MOST_TICKS]
    text = [duration(tick) for tick in at]
    return {"type": "log", "range": [low, high], "tickvals": at, "ticktext": text, "tickangle": 0}


def _beside(ends: dict[str, float], span: float) -> dict[str, float]:
    """Where to write the names of lines that end there, without one name over another."""
    places: dict[str, float] = {}
    lowest = -np.inf
    for name, place in sorted(ends.items(), key=lambda end: end[1]):
        lowest = places[name] = max(place, lowest + 0.075 * span)
    return places
