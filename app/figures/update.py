"""Charts of one update under the microscope."""

import numpy as np
import plotly.graph_objects as go

from app import theme
from app.figures.base import Chart, figure, logarithmic, tell_if_empty
from lab.findings import AGREES, number, percent, plural
from lab.opened import Update

MOST_FRAMES = 512
"""Of more microbatches than this not every one has a frame."""


def accumulator(update: Update, compared: Update | None = None) -> Chart:
    """The running total after every microbatch, with the full batch's sum and mean and the four reductions.

    A compared run's totals lie over it, spread over the same width however many microbatches it has.
    """
    scalar = len(update.coordinates) == 1 and update.complete
    several = len(update.devices) > 1
    index = list(range(1, len(update.microbatches) + 1))
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
    drawn_too: list = [] if compared is None else [_totals_of(compared, scalar, len(index))]
    full_sum = float(update.full_sum.values[0] if scalar else update.full_sum.norm)
    full_mean = float(update.reference.values[0] if scalar else update.reference.norm)
    along = "after microbatch, device by device" if several else "after microbatch"
    drawn = figure([bars, *drawn_too], x=along, y="gradient" if scalar else "norm of the gradient", showlegend=False)
    tallest = max(map(abs, totals))
    for value, dash in ((full_sum, "dash"), (full_mean, "dot")):
        if abs(value) <= 3 * tallest:
            drawn.add_hline(value, line={"color": theme.REFERENCE, "width": 2, "dash": dash})
    outcomes = {"full-batch sum": full_sum, "full-batch mean": full_mean}
    outcomes |= {n: float(v.values[0] if scalar else v.norm) for n, v in update.reductions.items()}
    within = {name: value for name, value in outcomes.items() if abs(value) <= 3 * tallest}
    highest = max([tallest, *map(abs, within.values()), *(abs(y) for trace in drawn_too for y in _heights(trace))])
    for value, text in ladder(within, span=highest):
        drawn.add_annotation(
            x=1, xref="paper", xanchor="left", y=value, text=f"◂ {text}", showarrow=False, font_size=12, align="left"
        )
    each = len(index) // len(update.devices)
    for device in update.devices if several else []:
        start = device.index * each + 0.5
        drawn.add_vline(start, line={"color": theme.REFERENCE, "width": 1})
        drawn.add_annotation(
            x=start + each / 2, y=1, yref="paper", yanchor="bottom", text=f"device {device.index + 1}",
            showarrow=False, font_size=12,
        )  # fmt: skip
    drawn.update_layout(
        hovermode="closest", xaxis={"dtick": 1, "range": [0.4, len(index) + 0.6]} if few else {},
        margin={"t": 20, "r": 170}, uniformtext={"minsize": 10, "mode": "hide"},
    )  # fmt: skip
    meant = "means" if update.reduction.endswith("of_means") else "sums"
    divided = {"mean": f"the number of {update.unit}s", "mean_of_means": "the number of microbatches"}
    clipped = "clipped " if update.clips_microbatches else ""
    without = " without the clip" if update.clips_microbatches else ""
    shown = " → ".join(number(t) for t in totals) if few else f"{number(totals[0])} → … → {number(totals[-1])}"
    summary = f"{shown}; the full-batch sum is {number(full_sum)}"
    summary += ", off this scale." if abs(full_sum) > 3 * tallest else "."
    if len(index) > 1:
        drawn.frames = _growing(update, totals, added, summary)
        heights = [*totals, *within.values(), *(y for trace in drawn_too for y in trace.y)]
        drawn.update_layout(
            xaxis={} if few else {"range": [0.4, len(index) + 0.6]}, yaxis_range=_room(heights),
            meta={"every": float(np.clip(8000 / len(index), 60, 900))},
        )  # fmt: skip
    return Chart(
        f"Accumulator: running total of the microbatches' {clipped}gradient {meant}",
        drawn,
        f"Each bar is the accumulator after one more microbatch; {update.reduction} then divides it by "
        f"{divided.get(update.reduction, 'nothing')}. Right: what each reduction would have made of it{without}."
        + (" Orange: the compared run." if compared is not None else ""),
        summary,
    )


def _growing(update: Update, totals: list[float], added: list[float], whole: str) -> list[dict]:
    """A frame after every microbatch (of many, after some), the last with the words of the whole chart."""
    count = len(totals)
    each, frames = count // len(update.devices), []
    for k in np.unique(np.linspace(0, count - 1, min(count, MOST_FRAMES)).round().astype(int)).tolist():
        entry = update.microbatches[k]
        on = f"device {entry.device + 1}, " if len(update.devices) > 1 else ""
        error = entry.to_full.relative_error
        off = "in full agreement with the full batch" if error <= AGREES else f"off by {percent(error)}"
        text = (
            f"Microbatch {k + 1} held {plural(entry.examples, 'example')} and added {number(added[k])}: the total is "
            f"{number(totals[k])}. Used now, the gradient would be {off if np.isfinite(error) else 'not finite'}."
        )
        told = {"summary": whole if k == count - 1 else text, "shown": k + 1}
        frames.append({"name": f"{on}after microbatch {entry.index + 1} of {each}", "layout": {"meta": told}})
    return frames


def _room(heights: list[float]) -> list[float] | None:
    """The range of an axis for bars of these heights, so that it stays while they grow."""
    known = [height for height in heights if np.isfinite(height)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    low, high = min(low, 0.0), max(high, 0.0)
    edge = 0.06 * (high - low)
    return [low - edge * (low < 0), high + edge] if edge else None


def _totals_of(compared: Update, scalar: bool, width: int) -> go.Scatter:
    """The running totals of a compared run in orange, over a chart of so many bars."""
    totals = [m.running_total for m in compared.microbatches]
    y = [float(total.values[0] if scalar else total.norm) for total in totals]
    x = (np.arange(len(y)) + 1) * width / len(y)
    marker = {"symbol": "diamond-open", "size": 8, "color": theme.COMPARED}
    return go.Scatter(
        x=x, y=y, mode="lines+markers", line=theme.OTHER, marker=marker,
        hovertemplate="compared run: <b>%{y:.6g}</b><extra></extra>",
    )  # fmt: skip


def _heights(trace: go.Scatter) -> list[float]:
    """The finite heights of a trace."""
    return [float(y) for y in np.asarray(trace.y, float) if np.isfinite(y)]


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
