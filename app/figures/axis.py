"""What curves are drawn over: updates, examples, tokens or epochs; on linear or logarithmic axes."""

from typing import Any

import numpy as np

from app.figures.base import Chart, logarithmic
from lab.record import Record

COUNTED = {"updates": "update", "examples": "examples seen", "tokens": "tokens seen", "epochs": "epochs"}


def placed(record: Record, at: np.ndarray) -> Record:
    """The record with every update where it lies on the axis: update k at `at[k]`."""
    return Record({**record, "step": at[record["step"].astype(int)]})


def over(drawn: Chart, axis: str, scale: str) -> Chart:
    """A chart of placed records with its axis named, and its scales as asked for.

    `auto` is what suits the values. A value that is not positive has no place on a logarithmic axis: it is left out,
    and where no value is positive the axis stays linear.
    """
    shown = drawn.figure
    traces: Any = shown.data
    shown.update_layout(xaxis_title_text=COUNTED[axis])
    if scale == "linear":
        shown.layout.yaxis.update(type="linear", tickvals=None, ticktext=None, dtick=None, range=None)
    if scale in ("log", "log-log"):
        shown.update_layout(yaxis=logarithmic(*(trace.y for trace in traces), always=True))
    if scale == "log-log":
        x = np.concatenate([np.asarray(trace.x, float) for trace in traces])
        if (x > 0).any():
            edges = [float(np.log10(x[x > 0].min())) - 0.03, float(np.log10(x.max())) + 0.03]
            shown.update_layout(xaxis={"type": "log", "range": edges})
    return drawn
