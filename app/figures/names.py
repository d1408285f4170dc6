"""Charts of names spelled letter by letter: tokens of every microbatch, and the loss of every letter."""

import numpy as np
import plotly.graph_objects as go

from app import theme
from app.figures.base import Chart, figure, tell_if_empty
from lab.findings import number
from lab.opened import Update
from lab.spelling import Spelling


def tokens(update: Update) -> Chart:
    """The weight of every microbatch, and what a token in each would weigh if all microbatches counted the same."""
    weights = np.array([microbatch.weight for microbatch in update.microbatches])
    examples = [microbatch.examples for microbatch in update.microbatches]
    even = float(weights.sum() / len(weights))
    bars = go.Bar(
        x=[str(k + 1) for k in range(len(weights))], y=weights, marker={"color": theme.YOURS, "opacity": 0.8},
        customdata=list(zip(examples, np.divide(even, weights, out=np.zeros_like(weights), where=weights > 0),
                            strict=True)),
        hovertemplate="microbatch %{x}: <b>%{y}</b> tokens in %{customdata[0]} names<br>under mean_of_means each "
        "weighs %{customdata[1]:.3g} times as much as in the full batch<extra></extra>",
    )  # fmt: skip
    drawn = figure([bars], x="microbatch", y="tokens", showlegend=False)
    drawn.add_hline(even, line={"color": theme.REFERENCE, "width": 2, "dash": "dot"})
    drawn.update_layout(hovermode="closest", xaxis={"type": "category"})
    return Chart(
        "Tokens in every microbatch",
        drawn,
        "Dotted: an equal share. mean_of_means counts every bar the same, so a token in a short bar weighs more.",
        f"From {weights.min():,.0f} to {weights.max():,.0f} tokens, {number(even)} on average.",
    )


def letters(spelling: Spelling, compared: Spelling | None = None) -> Chart:
    """The loss of every letter of names the model never trained on."""
    names, losses = spelling.read, spelling.losses
    text = [[*name, *[""] * (losses.shape[1] - len(name))] for name in names]
    heat = go.Heatmap(
        z=losses, text=text, texttemplate="%{text}", textfont={"color": theme.ON_HEAT, "family": "monospace"},
        colorscale=theme.CHEAP_TO_DEAR, zmin=0, zmax=6, xgap=1, ygap=2, hoverongaps=False,
        colorbar={"title": {"text": "loss", "side": "right"}, "thickness": 12},
        hovertemplate="%{text}: loss %{z:.3g}<extra></extra>",
    )  # fmt: skip
    drawn = figure([heat], x="place in the name", y="")
    longest = max(map(len, names))
    drawn.update_layout(
        hovermode="closest", margin_l=24, xaxis={"range": [-0.5, longest - 0.5], "showgrid": False},
        yaxis={"showticklabels": False, "ticks": "", "showgrid": False, "autorange": "reversed"},
    )  # fmt: skip
    tell_if_empty(drawn, losses)
    known = losses[np.isfinite(losses)]
    summary = f"{number(float(known.mean()))} per token on average." if len(known) else "No loss is a finite number."
    if compared is not None and len(known):
        summary = f"{summary[:-1]}; {number(float(np.nanmean(compared.losses)))} in the compared run."
    return Chart(
        "What every letter costs",
        drawn,
        "Held-out names, read from the left: a pale letter was expected, a dark one was not. The dot is the stop.",
        summary,
    )
