"""Charts over the updates of a run."""

import numpy as np

from app import theme
from app.figures.base import Chart, curve, logarithmic, over_run, tell_if_empty
from app.figures.precision import skipped_marks
from lab.comparison import loss_difference
from lab.findings import number
from lab.record import Record
from lab.schedules import rates
from lab.settings import Settings


def loss(
    record: Record, held_out: Record, until: float, compared: Record | None = None, unit: str = "example"
) -> Chart:  # fmt: skip
    """Loss of every batch, of the held-out examples, and of a compared run, per unit; skipped updates are marked."""
    traces = [curve(record, "loss", name="training batch", line=theme.LINE, mode="lines")]
    measured = "loss" in held_out and len(held_out["loss"]) > 0
    if measured:
        marker = {"symbol": "circle-open", "size": 6, "color": theme.YOURS}
        traces.append(
            curve(held_out, "loss", 120, name="held out", line=theme.DASHED, mode="lines+markers", marker=marker)
        )
    if compared is not None:
        traces.append(curve(compared, "loss", name="compared", line=theme.OTHER, mode="lines"))
    if record["skipped"].any():
        traces.append(skipped_marks(record, "loss"))
    drawn = over_run(traces, until, y=f"loss per {unit}")
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


def divergence(record: Record, compared: Record, until: float) -> Chart:
    """How far the compared run's loss is from this run's, on a logarithmic axis where that helps."""
    difference = loss_difference(record, compared)
    absolute = difference["loss_absolute"]
    positive = np.where(absolute > 0, absolute, np.nan)
    shown = Record({"step": difference["step"], "loss_absolute": positive})
    traces = [curve(shown, "loss_absolute", name="difference", line=theme.OTHER, mode="lines")]
    marked = Record({**shown, "skipped": (record["skipped"] | compared["skipped"])[: shown.length]})
    if marked["skipped"].any():
        traces.append(skipped_marks(marked, "loss_absolute"))
    drawn = over_run(traces, until, y="difference")
    drawn.update_layout(yaxis=logarithmic(positive, ticks=3))
    known = absolute[np.isfinite(absolute)]
    if len(known) == 0 or (len(known) < len(absolute) and not known.any()):
        tell_if_empty(drawn, [np.nan])
    if not absolute.any():
        summary = "The two runs are equal at every update."
    else:
        first = int(np.flatnonzero(absolute)[0])
        summary = f"They part at update {first:,}; the largest difference is {number(known.max(initial=0))}."
        if len(known) < len(absolute):
            summary = (
                f"They part at update {first:,}; from update {int(np.flatnonzero(~np.isfinite(absolute))[0]):,} on a "
                "loss is not a finite number."
            )
    return Chart(
        "Where the compared run parts", drawn, "|loss of one − loss of the other| at each update; a gap is 0.", summary
    )


def learning_rate(settings: Settings, record: Record, until: float, compared: Record | None = None) -> Chart:
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
