"""Memory of one update against the number of microbatches."""

import numpy as np
import plotly.graph_objects as go

from app import theme
from app.figures.base import Chart, figure
from lab.findings import percent
from lab.memory import Memory
from lab.wording import SIZES, size, unit


def memory(found: Memory, microbatches: int) -> Chart:
    """What one update needs, as bars: what the cut cannot shrink below, and what it can above."""
    per, each = unit(found.temporary.max() + found.state, SIZES)
    names = [str(count) for count in found.counts]
    fixed = {
        "parameters and optimizer": np.full(len(names), found.state),
        "examples of the batch": np.full(len(names), found.batch),
        "accumulator": np.minimum(found.accumulator, found.temporary),
    }
    rest = found.temporary - fixed["accumulator"]
    shades = (theme.REFERENCE, theme.REFERENCE, theme.REFERENCE)
    traces = [
        go.Bar(
            x=names, y=values / per, name=name, marker={"color": colour, "pattern": {"shape": shape}, "opacity": 0.75},
            hovertemplate=f"{name}: %{{y:.3g}} {each}<extra></extra>",
        )
        for (name, values), colour, shape in zip(fixed.items(), shades, ("", "/", "x"), strict=True)
    ]  # fmt: skip
    traces.append(
        go.Bar(
            x=names, y=rest / per, name="temporary", marker={"color": theme.YOURS},
            hovertemplate=f"temporary: %{{y:.3g}} {each}<extra></extra>",
        )
    )  # fmt: skip
    drawn = figure(traces, x="microbatches", y=each, barmode="stack")
    drawn.update_layout(hovermode="closest", xaxis={"type": "category"}, margin_t=44)
    first, mine = int(found.temporary[0]), int(found.temporary[list(found.counts).index(microbatches)])
    summary = f"Temporary memory {size(first)} at once, {size(mine)} in {microbatches} microbatches"
    if first > mine:
        summary += f": {percent(1 - mine / first)} less"
    return Chart(
        "Memory of one update on one device",
        drawn,
        "XLA's own count for the compiled update. Cutting the batch shrinks blue, down to what the optimizer needs; "
        "grey stays.",
        summary + ".",
    )
