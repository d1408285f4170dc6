"""Charts of number formats: the loss scale, stuck parameters, gradient entries against a format, rounding."""

import numpy as np
import plotly.graph_objects as go

from app import theme
from app.figures.base import Chart, curve, figure, over_run, tell_if_empty
from lab.census import Census
from lab.findings import largest_text, number, percent, plural
from lab.key import scale_text
from lab.precision import format_of
from lab.record import Record
from lab.rounding import Rounding


def skipped_marks(record: Record, column: str) -> go.Scatter:
    """A cross at every update that was skipped, on the curve of a column."""
    at = np.flatnonzero(record["skipped"])
    marker = {"symbol": "x", "size": 8, "color": theme.COMPARED}
    return go.Scatter(
        x=record["step"][at], y=record[column][at], mode="markers", name="skipped", marker=marker, cliponaxis=False
    )


def loss_scale(record: Record, until: float, compared: Record | None = None) -> Chart:
    """The loss scale of every update, and which were skipped."""
    traces = [curve(record, "loss_scale", name="loss scale", mode="lines", line_shape="hv", line=theme.LINE)]
    if compared is not None and not np.array_equal(record["loss_scale"], compared["loss_scale"]):
        traces.append(curve(compared, "loss_scale", name="compared", mode="lines", line_shape="hv", line=theme.OTHER))
    skipped = int(record["skipped"].sum())
    if skipped:
        traces.append(skipped_marks(record, "loss_scale"))
    drawn = over_run(traces, until, y="loss scale")
    powers = np.log2(np.concatenate([np.asarray(trace.y, float) for trace in traces]))
    low, high = int(np.floor(powers.min())) - 1, int(np.ceil(powers.max())) + 1
    every = -(-(high - low) // 6)
    ticks = [2.0**power for power in range(low, high + 1, every)]
    edges = [float(np.log10(2.0**low)), float(np.log10(2.0**high))]
    drawn.update_layout(
        yaxis={"type": "log", "tickvals": ticks, "ticktext": [scale_text(t) for t in ticks], "range": edges}
    )
    first, last = (scale_text(float(record["loss_scale"][at])) for at in (0, -1))
    return Chart(
        "Loss scale over the run",
        drawn,
        "What the loss is multiplied by. A cross is an update that overflowed: it was skipped and the scale halved.",
        f"From {first} to {last}; {plural(skipped, 'update')} skipped.",
    )


def unmoved(record: Record, until: float, compared: Record | None = None) -> Chart:
    """Share of the parameters that an update could not move."""

    def share(of: Record) -> Record:
        return Record({"step": of["step"], "percent": 100 * of["unmoved"]})

    traces = [curve(share(record), "percent", name="this run", line=theme.LINE, mode="lines")]
    if compared is not None:
        traces.append(curve(share(compared), "percent", name="compared", line=theme.OTHER, mode="lines"))
    drawn = over_run(traces, until, y="% of parameters", yaxis_rangemode="tozero")
    return Chart(
        "Parameters that could not move",
        drawn,
        "Share of parameters p whose update u is not 0 and yet p + u == p, because the format has no number between.",
        f"From {percent(float(record['unmoved'][0]))} to {percent(float(record['unmoved'][-1]))}, "
        f"on average {percent(float(record['unmoved'].mean()))}.",
    )


def gradient_range(census: Census, compared: Census | None = None) -> Chart:
    """The gradient's entries by magnitude, with the loss scale, against what the format can hold.

    A compared run's entries, with its own scale, are an orange line.
    """
    about, shift = format_of(census.dtype), float(np.log2(census.loss_scale))
    lost, subnormal, top = (float(np.log2(x)) for x in (about.smallest / 2, about.smallest_normal, about.largest))
    seen = census.exponents[census.entries > 0].astype(float)
    drawn = figure([], x="log2 of |gradient x loss scale|", y="% of entries", showlegend=False)
    if not len(seen) or census.broken:
        tell_if_empty(drawn, [np.nan])
        text = "The gradient is not finite even in float32." if census.broken else "Every entry is exactly 0."
        return Chart(f"Gradient entries against {census.dtype}", drawn, "There is nothing to count.", text)
    left = max(seen.min(), -60.0)
    low, high = min(left + min(shift, 0) - 2, lost - 8), max(seen.max() + max(shift, 0) + 2, top + 8)
    share = 100 * census.entries / census.total
    if shift:
        drawn.add_bar(
            x=census.exponents + 0.5, y=share, width=1, hoverinfo="skip",
            marker={"color": "rgba(0,0,0,0)", "line": {"color": theme.REFERENCE, "width": 1}},
        )  # fmt: skip
    x = census.exponents + shift
    inside = (x >= np.floor(lost)) & (x <= top)
    drawn.add_bar(
        x=x + 0.5, y=share, width=0.9, hovertemplate="%{y:.3g} % of the entries<extra></extra>",
        marker={"color": [theme.YOURS if fits else theme.COMPARED for fits in inside],
                "pattern": {"shape": ["" if fits else "/" for fits in inside]}},
    )  # fmt: skip
    fills = [
        (low, lost, theme.COMPARED, 0.12),
        (lost, subnormal, theme.REFERENCE, 0.15),
        (top, high, theme.COMPARED, 0.12),
    ]
    if compared is not None and not compared.broken:
        drawn.add_scatter(
            x=compared.exponents + np.log2(compared.loss_scale) + 0.5, y=100 * compared.entries / compared.total,
            mode="lines", line={**theme.OTHER, "shape": "hvh"}, hoverinfo="skip",
        )  # fmt: skip
    for start, end, colour, opacity in fills:
        drawn.add_vrect(
            x0=max(start, low), x1=min(end, high), fillcolor=colour, opacity=opacity, line_width=0, layer="below"
        )
    for start, end, text in ((low, lost, "→ 0"), (lost, subnormal, "coarse"), (top, high, "→ ∞")):
        if end - start > 3:
            drawn.add_annotation(
                x=(start + end) / 2, y=1, yref="paper", yanchor="top", text=text, showarrow=False, font_size=12
            )
    drawn.update_layout(barmode="overlay", bargap=0, xaxis={"range": [low, high], "dtick": 10}, hovermode="closest")
    scale = "" if census.loss_scale == 1 else f", times the loss scale {scale_text(census.loss_scale)},"
    read = (
        f"Blue bars fit {census.dtype}, on grey ground coarsely; striped ones become 0 or overflow above "
        f"{largest_text(census.dtype)}."
    )
    if shift:
        read += " Grey outlines: without the loss scale."
    if compared is not None:
        read += " Orange: the compared run."
    zeros = f"; {percent(census.zeros / census.total)} are exactly 0 and not drawn" if census.zeros else ""
    return Chart(
        f"Gradient entries of the microbatches against {census.dtype}",
        drawn,
        read,
        f"Of {census.total:,} entries{scale} {percent(census.flushed)} become 0 and {percent(census.overflowed)} "
        f"overflow{zeros}. The best scale is {scale_text(census.best_scale)}.",
    )


def rounding(found: Rounding, dtype: str, microbatches: int) -> Chart:
    """Error of the accumulated gradient against the number of microbatches, for each accumulator dtype."""
    symbols = {"float32": "circle", "float16": "square", "bfloat16": "diamond"}
    traces, last = [], {}
    for name, errors in found.errors.items():
        mine = name == dtype
        positive = np.where(errors > 0, errors, np.nan)
        colour = theme.YOURS if mine else theme.REFERENCE
        traces.append(
            go.Scatter(
                x=found.counts, y=positive, name=name, mode="lines+markers+text", cliponaxis=False,
                text=[""] * (len(errors) - 1) + [f"  {name}"], textposition="middle right",
                line={"color": colour, "width": 3 if mine else 1.5}, marker={"symbol": symbols[name], "size": 7},
                hovertemplate="%{x} microbatches: %{y:.2g}<extra>" + name + "</extra>",
            )
        )  # fmt: skip
        last[name] = float(errors[-1])
    drawn = figure(traces, x="microbatches", y="relative error", showlegend=False)
    drawn.update_layout(
        xaxis={"type": "log", "tickvals": found.counts, "range": [-0.1, float(np.log10(found.counts[-1])) + 0.05]},
        yaxis={"type": "log", "dtick": 1}, margin_r=90, hovermode="closest",
    )  # fmt: skip
    tell_if_empty(drawn, np.concatenate([np.asarray(trace.y) for trace in traces]))
    if microbatches <= found.counts[-1] and any(np.isfinite(errors).any() for errors in found.errors.values()):
        drawn.add_vline(x=microbatches, line={"color": theme.REFERENCE, "width": 1, "dash": "dot"})
    ends = ", ".join(f"{name} {number(error)}" for name, error in last.items())
    return Chart(
        "What the accumulator's format costs",
        drawn,
        "Error of the accumulated sum against float64 if the batch were cut into so many microbatches; blue is in "
        f"use, the dotted line its {microbatches}. A gap is an error of 0.",
        f"At {found.counts[-1]} microbatches: {ends}.",
    )
