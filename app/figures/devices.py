"""Charts of several devices: do their gradients and their parameters agree."""

import numpy as np
import plotly.graph_objects as go

from app import theme
from app.figures.base import Chart, curve, figure, logarithmic, over_run, tell_if_empty
from lab.findings import number, percent, plural
from lab.opened import Update
from lab.record import Record


def names(update: Update) -> list[str]:
    """What the devices are called on an axis, counted from 1."""
    return [str(device.index + 1) for device in update.devices]


def spread(record: Record, until: float, compared: Record | None = None) -> Chart:
    """Largest difference of one parameter between devices over the run."""
    drawn_of = {"this run": (record, theme.LINE)}
    if compared is not None and "spread" in compared:
        drawn_of["compared"] = (compared, theme.OTHER)
    traces = []
    for name, (of, line) in drawn_of.items():
        positive = Record({"step": of["step"], "spread": np.where(of["spread"] > 0, of["spread"], np.nan)})
        traces.append(curve(positive, "spread", name=name, line=line, mode="lines"))
    drawn = over_run(traces, until, y="spread")
    drawn.update_layout(yaxis=logarithmic(*(trace.y for trace in traces), ticks=4))
    last, apart = float(record["spread"][-1]), np.flatnonzero(record["spread"] != 0)
    if not any(np.isfinite(trace.y).any() for trace in traces):
        drawn.add_annotation(text="0 at every update", x=0.5, y=0.5, xref="paper", yref="paper", showarrow=False)
    summary = "Exactly 0 at every update: the devices agree bit for bit."
    if len(apart):
        summary = f"The devices differ from update {apart[0]:,} on; at the end by up to {percent(last)} of the largest."
    read = "Largest difference of one parameter between devices after each update, relative to the largest parameter."
    return Chart("Spread of the parameters over the devices", drawn, read, summary)


def device_gradients(update: Update) -> Chart:
    """Norm of every device's own gradient, with its cosine to the reduced one."""
    norms = [device.gradient.norm for device in update.devices]
    cosines = [device.cosine for device in update.devices]
    bars = go.Bar(
        x=names(update), y=norms, width=0.6, marker={"color": theme.YOURS, "opacity": 0.8}, customdata=cosines,
        text=[f"cos {cosine:.2f}" for cosine in cosines], textposition="inside", insidetextanchor="end", textangle=0,
        insidetextfont={"color": theme.ON_BAR},
        hovertemplate="device %{x}<br>norm <b>%{y:.6g}</b><br>cosine to the reduced gradient %{customdata:.4f}"
        "<extra></extra>",
    )  # fmt: skip
    drawn = figure([bars], x="device", y="norm of its own gradient", showlegend=False)
    right = update.device_reductions["global"].norm
    if np.isfinite(right):
        drawn.add_hline(right, line={"color": theme.REFERENCE, "width": 2, "dash": "dot"})
    tell_if_empty(drawn, norms)
    drawn.update_layout(hovermode="closest", xaxis={"type": "category"}, uniformtext={"minsize": 9, "mode": "hide"})
    return Chart(
        "Every device's own gradient",
        drawn,
        "cos is the cosine to the gradient of all devices together, whose norm is the dotted line; devices that point "
        "apart cancel, so the line lies lower.",
        f"Norms {number(min(norms))} to {number(max(norms))}, cosines {min(cosines):.2f} to {max(cosines):.2f}; "
        f"all together {number(right)}.",
    )


def device_agreement(update: Update) -> Chart:
    """Cosine between the own gradients of every two devices."""
    cosines = np.array([device.to_others for device in update.devices])
    heat = go.Heatmap(
        x=names(update), y=names(update), z=cosines, zmin=-1, zmax=1, texttemplate="%{z:.2f}", showscale=False,
        colorscale=theme.APART_TO_SAME, textfont={"color": theme.ON_HEAT}, xgap=2, ygap=2,
        hovertemplate="devices %{x} and %{y}: cosine %{z:.4f}<extra></extra>",
    )  # fmt: skip
    drawn = figure([heat], x="device", y="device")
    drawn.update_layout(
        hovermode="closest", xaxis={"type": "category"}, yaxis={"type": "category", "autorange": "reversed"}
    )
    others = cosines[~np.eye(len(cosines), dtype=bool)]
    return Chart(
        "Do the devices point the same way?",
        drawn,
        "Cosine between two devices' own gradients: 1 the same direction, 0 unrelated, -1 opposite.",
        f"Between two different devices {others.min():.2f} to {others.max():.2f}.",
    )


def device_losses(update: Update) -> Chart:
    """The loss every device would report by itself, and the loss of the batch."""
    losses = np.array([device.loss for device in update.devices])
    weights = np.array([device.weight for device in update.devices])
    right = float((losses * weights).sum() / weights.sum())
    dots = go.Scatter(
        x=names(update), y=losses, mode="markers", marker={"color": theme.YOURS, "size": 10},
        hovertemplate="device %{x} alone: %{y:.6g}<extra></extra>",
    )  # fmt: skip
    drawn = figure([dots], x="device", y="mean loss", showlegend=False)
    drawn.add_hline(right, line={"color": theme.REFERENCE, "width": 2, "dash": "dot"})
    tell_if_empty(drawn, losses)
    drawn.update_layout(hovermode="closest", xaxis={"type": "category"})
    return Chart(
        "The loss each device would report",
        drawn,
        "A dot is the mean over one device's own examples; the dotted line is the whole batch.",
        f"Alone they say {number(losses.min())} to {number(losses.max())}; the batch is {number(right)}, and the mean "
        f"of what they say {number(float(losses.mean()))}.",
    )


def dealt(update: Update, deal: str) -> Chart:
    """How many examples every microbatch of every device holds."""
    number_of = len(update.devices)
    counts = np.array([microbatch.examples for microbatch in update.microbatches]).reshape(number_of, -1)
    firsts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    spans = [f"{first} to {first + n - 1}" if n else "none" for first, n in zip(firsts, counts.ravel(), strict=True)]
    if deal == "strided":
        spans = [f"every {counts.size}th from {k} on" if n else "none" for k, n in enumerate(counts.ravel())]
    heat = go.Heatmap(
        x=[str(k + 1) for k in range(counts.shape[1])], y=names(update), z=counts, xgap=2, ygap=2,
        customdata=np.reshape(spans, counts.shape),
        texttemplate="%{z}" if counts.shape[1] <= 16 else None, showscale=False, zmin=0,
        zmax=max(counts.max(), 1), colorscale=theme.NONE_TO_ALL, textfont={"color": theme.ON_HEAT},
        hovertemplate="device %{y}, microbatch %{x}: %{z} examples<br>places in the batch: %{customdata}"
        "<extra></extra>",
    )  # fmt: skip
    drawn = figure([heat], x="microbatch", y="device")
    drawn.update_layout(
        hovermode="closest", xaxis={"type": "category"}, yaxis={"type": "category", "autorange": "reversed"}
    )
    held = [device.examples for device in update.devices]
    return Chart(
        "Who sees which examples",
        drawn,
        "Examples in every microbatch; the batch is dealt "
        + ("in order, device by device" if deal == "contiguous" else "in turn, like cards")
        + ". Hover for the places.",
        f"{plural(sum(held), 'example')}: {', '.join(map(str, held))}.",
    )
