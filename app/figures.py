"""Records -> charts. Pure: no Streamlit, no state."""

from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from app import theme
from lab.comparison import loss_difference
from lab.findings import AGREES, number
from lab.microscope import Update
from lab.record import Record
from lab.schedules import rates
from lab.settings import Settings

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
        style |= {"mode": "markers", "marker": {"color": style["line"]["color"], "size": 9}}
    return go.Scatter(x=record["step"][at], y=record[column][at], **style)


def figure(traces: list, *, x: str, y: str, **layout) -> go.Figure:
    """A figure with named axes."""
    axes = {
        "xaxis": {"title": {"text": x, "standoff": 4, "font": {"size": 13}}, "zeroline": False},
        "yaxis": {"title": {"text": y, "standoff": 6, "font": {"size": 13}}, "exponentformat": "power"},
    }
    return go.Figure(traces, {**theme.LAYOUT, **axes}).update_layout(layout)


def logarithmic(*values) -> dict:
    """The axis for these values: logarithmic if all are positive and span more than a factor of ten."""
    known = np.concatenate([v[np.isfinite(v)] for v in map(np.asarray, values)]).astype(float)
    if len(known) == 0 or known.min() <= 0 or known.max() < 10 * known.min():
        return {}
    low, high = float(np.log10(known.min())), float(np.log10(known.max()))
    if high - low > 2:
        return {"type": "log", "dtick": int(np.ceil((high - low) / 6))}
    ticks = [m * 10.0**e for e in range(int(np.floor(low)), int(np.ceil(high)) + 1) for m in (1, 2, 5)]
    return {"type": "log", "tickvals": ticks, "ticktext": [number(tick) for tick in ticks]}


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


def over_run(traces: list, until: int, **labels) -> go.Figure:
    """Curves over the updates of a run up to `until`."""
    edge = 0.02 * until
    return figure(
        traces, x="update", showlegend=len(traces) > 1, xaxis_range=[-edge, until + edge], **labels
    )  # fmt: skip


def loss(record: Record, held_out: Record, until: int, compared: Record | None = None) -> Chart:
    """Loss of every batch, of the held-out examples, and of a compared run."""
    traces = [curve(record, "loss", name="training batch", line=theme.LINE, mode="lines")]
    measured = "loss" in held_out and len(held_out["loss"]) > 0
    if measured:
        marker = {"symbol": "circle-open", "size": 6, "color": theme.YOURS}
        traces.append(
            curve(held_out, "loss", 120, name="held out", line=theme.DASHED, mode="lines+markers", marker=marker)
        )
    if compared is not None:
        traces.append(curve(compared, "loss", name="compared", line=theme.OTHER, mode="lines"))
    drawn = over_run(traces, until, y="loss per example")
    drawn.update_layout(yaxis=logarithmic(*(trace.y for trace in traces)))
    tell_if_empty(drawn, record["loss"])
    summary = f"Training loss {number(record['loss'][0])} → {number(record['loss'][-1])}"
    if measured:
        summary += f", held out {number(held_out['loss'][0])} → {number(held_out['loss'][-1])}"
    if compared is not None:
        summary += f", compared run {number(compared['loss'][0])} → {number(compared['loss'][-1])}"
    return Chart("Loss over the run", drawn, _reading_of_loss(measured), summary + ".")


def _reading_of_loss(measured: bool) -> str:
    read = "Lower is better; every point is the mean loss of one batch before its update."
    return read + " Dashes that rise while the line falls mean overfitting." if measured else read


def divergence(record: Record, compared: Record, until: int) -> Chart:
    """How far the compared run's loss is from this run's, on a logarithmic axis where that helps."""
    difference = loss_difference(record, compared)
    absolute = difference["loss_absolute"]
    positive = np.where(absolute > 0, absolute, np.nan)
    shown = Record({"step": difference["step"], "loss_absolute": positive})
    trace = curve(shown, "loss_absolute", line=theme.OTHER, mode="lines")
    drawn = over_run([trace], until, y="difference")
    drawn.update_layout(yaxis=logarithmic(positive))
    known = absolute[np.isfinite(absolute)]
    if not absolute.any():
        summary = "The two runs are equal at every update."
    else:
        first = int(difference["step"][np.flatnonzero(absolute)[0]])
        summary = (
            f"They part at update {first:,}; the largest difference is {number(known.max() if len(known) else np.inf)}."
        )
    return Chart(
        "Where the compared run parts", drawn, "|loss of one − loss of the other| at each update; a gap is 0.", summary
    )


def learning_rate(settings: Settings, record: Record, until: int, compared: Record | None = None) -> Chart:
    """The rate of every update, the planned one where a bug changes it, and a compared run's if it differs."""
    traces = [curve(record, "learning_rate", name="applied", line=theme.LINE, mode="lines")]
    buggy = settings.schedule != "constant" and settings.schedule_counts == "microbatches" and settings.microbatches > 1
    if buggy:
        right = rates(settings.replace(schedule_counts="updates"), 0, len(record["step"]))
        planned = Record({"step": record["step"], "learning_rate": right})
        traces.append(curve(planned, "learning_rate", name="planned", line=theme.PLANNED, mode="lines"))
    if compared is not None and not np.array_equal(compared["learning_rate"], record["learning_rate"]):
        traces.append(curve(compared, "learning_rate", name="compared", line=theme.OTHER, mode="lines"))
    drawn = over_run(traces, until, y="learning rate", yaxis_rangemode="tozero")
    applied = record["learning_rate"]
    top = int(applied.argmax())
    summary = f"From {number(applied[0])} to {number(applied[-1])}"
    if 0 < top < len(applied) - 1 and applied[top] > max(applied[0], applied[-1]):
        summary += f", highest {number(applied[top])} at update {top:,}"
    read = "The rate that multiplied each update."
    if buggy:
        read += " Grey is the schedule as planned; blue ran ahead, moved on by every microbatch."
    return Chart("Learning rate over the run", drawn, read, summary + ".")


def accumulator(update: Update) -> Chart:
    """The running total after every microbatch, with the full batch's sum and mean and the four reductions."""
    scalar = len(update.coordinates) == 1 and update.complete
    index = [microbatch.index + 1 for microbatch in update.microbatches]
    totals = [float(m.running_total.values[0] if scalar else m.running_total.norm) for m in update.microbatches]
    added = [m.adds.values[0] if scalar else m.adds.norm for m in update.microbatches]
    details = [
        [m.examples, a, m.to_full.cosine, m.to_full.relative_error]
        for m, a in zip(update.microbatches, added, strict=True)
    ]
    hover = (
        "<b>%{y:.6g}</b> after microbatch %{x}<br>it held %{customdata[0]} examples and added %{customdata[1]:.4g}"
        "<br>cosine to the full batch %{customdata[2]:.4f}<br>relative error if used now %{customdata[3]:.2g}"
        "<extra></extra>"
    )
    few = len(index) <= 10
    bars = go.Bar(
        x=index, y=totals, customdata=details, hovertemplate=hover, marker={"color": theme.YOURS, "opacity": 0.8},
        width=0.6 if few else None, text=[number(total) for total in totals] if few else None,
        textposition="inside", textangle=0, insidetextanchor="end", insidetextfont={"color": theme.ON_BAR},
        cliponaxis=False,
    )  # fmt: skip
    full_sum = float(update.full_sum.values[0] if scalar else update.full_sum.norm)
    full_mean = float(update.reference.values[0] if scalar else update.reference.norm)
    drawn = figure([bars], x="after microbatch", y="gradient" if scalar else "norm of the gradient", showlegend=False)
    tallest = max(map(abs, totals))
    for value, dash in ((full_sum, "dash"), (full_mean, "dot")):
        if abs(value) <= 3 * tallest:
            drawn.add_hline(value, line={"color": theme.REFERENCE, "width": 2, "dash": dash})
    outcomes = {"full-batch sum": full_sum, "full-batch mean": full_mean}
    outcomes |= {n: float(v.values[0] if scalar else v.norm) for n, v in update.reductions.items()}
    within = {name: value for name, value in outcomes.items() if abs(value) <= 3 * tallest}
    for value, text in ladder(within, span=max(tallest, *map(abs, within.values())) if within else tallest):
        drawn.add_annotation(
            x=1, xref="paper", xanchor="left", y=value, text=f"◂ {text}", showarrow=False, font_size=12, align="left"
        )
    drawn.update_layout(
        hovermode="closest", xaxis={"dtick": 1, "range": [0.4, len(index) + 0.6]} if few else {},
        margin={"t": 20, "r": 170}, uniformtext={"minsize": 10, "mode": "hide"},
    )  # fmt: skip
    meant = "means" if update.reduction.endswith("of_means") else "sums"
    divided = {"mean": "the number of examples", "mean_of_means": "the number of microbatches"}
    clipped = "clipped " if update.clips_microbatches else ""
    without = " without the clip" if update.clips_microbatches else ""
    shown = " → ".join(number(t) for t in totals) if few else f"{number(totals[0])} → … → {number(totals[-1])}"
    return Chart(
        f"Accumulator: running total of the microbatches' {clipped}gradient {meant}",
        drawn,
        f"Each bar is the accumulator after one more microbatch; {update.reduction} then divides it by "
        f"{divided.get(update.reduction, 'nothing')}. Right: what each reduction would have made of it{without}.",
        f"{shown}; the full-batch sum is {number(full_sum)}"
        + (", off this scale." if abs(full_sum) > 3 * tallest else "."),
    )


def ladder(outcomes: dict[str, float], span: float) -> list[tuple[float, str]]:
    """Heights and labels for named values beside an axis of that span; values too close to tell apart share a label."""
    rungs: list[list[tuple[float, str]]] = []
    for name, value in sorted(outcomes.items(), key=lambda item: item[1]):
        if not np.isfinite(value):
            continue
        if rungs and value - rungs[-1][0][0] < 0.09 * span:
            rungs[-1].append((value, name))
        else:
            rungs.append([(value, name)])
    return [(rung[0][0], "<br>".join(f"{name} {number(value)}" for value, name in rung)) for rung in rungs]


def reductions(update: Update) -> Chart:
    """The gradient every reduction would have given, against the full batch."""
    scalar = len(update.coordinates) == 1 and update.complete
    names = list(update.reductions)[::-1]
    values = [update.reductions[n].values[0] if scalar else update.reductions[n].norm for n in names]
    full = float(update.reference.values[0] if scalar else update.reference.norm)
    chosen = [name == update.reduction for name in names]
    agrees = [update.reduction_agreement[name].relative_error <= AGREES for name in names]
    axis = logarithmic(np.array([*values, full])) or {"rangemode": "tozero"}
    middle = (max(values) * min(values)) ** 0.5 if "type" in axis else max(values) / 2
    trace = go.Scatter(
        x=values,
        y=[f"<b>{name}</b>" if mine else name for name, mine in zip(names, chosen, strict=True)],
        mode="markers+text",
        text=[f"  {number(value)}  " for value in values],
        textposition=["middle left" if value > middle else "middle right" for value in values],
        cliponaxis=False,
        marker={
            "size": [15 if mine else 11 for mine in chosen],
            "symbol": ["circle" if right else "x" for right in agrees],
            "color": [theme.YOURS if right else theme.COMPARED for right in agrees],
        },
        customdata=[
            [update.reduction_agreement[name].relative_error, update.reduction_agreement[name].cosine] for name in names
        ],
        hovertemplate="<b>%{x:.6g}</b><br>relative error %{customdata[0]:.2g}<br>cosine %{customdata[1]:.6f}"
        "<extra></extra>",
    )
    drawn = figure([trace], x="gradient" if scalar else "norm of the gradient", y="", showlegend=False)
    tell_if_empty(drawn, values)
    if np.isfinite(full):
        drawn.add_vline(x=full, line={"color": theme.REFERENCE, "width": 2, "dash": "dot"})
    drawn.update_layout(
        hovermode="closest",
        xaxis=axis,
        yaxis={"automargin": True, "title": "", "range": [-0.5, 3.7]},
        margin_l=8,
    )
    right = [name for name, good in zip(names, agrees, strict=True) if good][::-1]
    equal = "No reduction" if not right else " and ".join(right)
    return Chart(
        "What each reduction would have given",
        drawn,
        "Dotted grey: the full-batch mean in float64. A dot agrees, a cross does not; bold is in use. Before any clip.",
        f"{equal} {'gives' if len(right) < 2 else 'give'} {number(full)}."
        if right
        else "The full-batch mean is not a finite number."
        if not np.isfinite(full)
        else f"{equal} gives {number(full)}, the full-batch mean.",
    )
