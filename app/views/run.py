"""A run on the page: going, stopped or finished, with one of its updates under the microscope."""

import html

import numpy as np
import streamlit as st

from app import comparison, controls, figures, jobs, stopwatch, words
from app.chart import chart
from app.history import history, remember
from app.jobs import answer
from app.views.curves import curves
from app.views.microscope import microscope
from app.views.sentences import note, tell
from app.views.tools import tools
from app.visit import session
from lab import findings, surface
from lab.diagnosis import diagnose
from lab.opened import Update
from lab.run import Run
from lab.settings import Settings

PATIENCE = 1.5
"""Seconds a change waits for its run before the page shows progress instead."""
POLL = 0.25
"""Seconds between two looks at a training in progress."""


def run(settings: Settings):
    """The run of these settings, as far as it is."""
    stopwatch.leave(session())
    stopped = st.session_state.get("stopped")
    if stopped and stopped[0] == settings:
        show_stopped(stopped[1])
        return
    job = jobs.watch(session(), settings)
    job.ended.wait(PATIENCE)
    if job.run:
        show(settings, job.run, job)
    elif job.failure:
        st.html(f'<p class="refusal" role="alert">{html.escape(job.failure)}</p>')
    else:
        in_progress(settings)


@st.fragment(run_every=POLL)
def in_progress(settings: Settings):
    """A run that is still going: progress, Stop, and the curves so far."""
    job = jobs.watch(session(), settings)
    if job.ended.is_set():
        st.rerun()
    left, right = st.columns([5, 1], vertical_alignment="center")
    seen = job.progress()
    if seen is None:
        left.progress(0.0, text=words.WAITING)
    else:
        progress, record, held_out = seen
        text = words.TRAINING.format(
            step=progress.step, steps=progress.steps, loss=findings.number(progress.loss),
            seconds=f"{progress.seconds:.1f}", remaining=f"{progress.remaining:.1f}",
        )  # fmt: skip
        left.progress(progress.step / progress.steps, text=text)
    if right.button("Stop", key="stop", icon=":material/stop_circle:", width="stretch"):
        run = job.so_far()
        jobs.leave(session())
        st.session_state.stopped = (settings, run)
        st.rerun()
    if seen is not None:
        curves(settings, record, held_out, until=settings.steps)


def show_stopped(run: Run | None):
    """A run the user stopped, as far as it got."""
    if run is None:
        st.info(words.NOTHING)
    st.button("Run again", on_click=lambda: st.session_state.pop("stopped", None), icon=":material/replay:")
    if run is not None:
        show(run.settings, run, None)


def show(settings: Settings, run: Run, job: jobs.Job | None):
    """A run, and one of its updates under the microscope."""
    tiles = st.empty()
    with tiles:
        numbers(run, None)
    row = st.container()
    broke = None if run.record["finite"].all() else answer(job, run, diagnose)
    tell([*([broke] if broke else []), *findings.of_run(run)], "run")
    compared = comparison.compared()
    beside = compared_job(compared)
    other = beside.run if beside else None
    in_step = compared is None or not compared.apart
    controls.refusal(comparison.PLACE)
    if compared and not in_step:
        note(words.APART.format(keys=" and ".join(compared.apart)))
    with row:
        tools(run, other, in_step)
    drawn = (other.settings, other.record) if other else None
    if settings.task == "points":
        left, right = st.columns([4, 3])
        with left:
            theirs = answer(beside, other, surface.through) if beside and other else None
            chart(figures.surface(answer(job, run, surface.through), theirs), key="surface", height=400)
        with right:
            curves(settings, run.record, run.held_out, drawn, in_step, stacked=True)
    else:
        curves(settings, run.record, run.held_out, drawn, in_step)
    microscope(run, job, beside if other and in_step else None)
    first = answer(job, run, Run.at, 0)
    with tiles:
        numbers(run, first)
    remember(run, verdict(first))
    if not st.session_state.look.embed:
        runs = findings.plural(len(st.session_state.history), "run")
        with st.expander(words.HISTORY.format(runs=runs), key="history_open"):
            history()


def numbers(run: Run, first: Update | None):
    """The numbers a reader looks for first."""
    final = run.final
    tiles = []
    if "held_out_accuracy" in final:
        tiles.append(("held-out accuracy", findings.percent(final["held_out_accuracy"])))
    elif "held_out_loss" in final:
        tiles.append(("held-out loss", findings.number(final["held_out_loss"])))
    elif len(final.get("params", ())) == 1:
        tiles.append(("w after the last update", findings.number(float(final["params"][0]))))
    tiles.append(("loss of the last batch", findings.number(final["loss"])))
    tiles.append(("first update against the full batch", verdict(first) if first else "…"))
    tiles.append(("an update takes", f"{findings.number(run.seconds['per_update'] * 1000)} ms"))
    cells = "".join(
        f"<div><span>{html.escape(label)}</span><strong>{html.escape(value)}</strong></div>" for label, value in tiles
    )
    st.html(f'<div class="tiles">{cells}</div>')


def verdict(update: Update) -> str:
    """Whether the gradient agrees with the full batch, in two words."""
    error = update.agreement.relative_error
    if update.skipped:
        return "– skipped"
    if not np.isfinite(error):
        return "✗ not finite"
    if error <= findings.tolerance(update):
        return "✓ agrees"
    return f"✗ off by {findings.percent(error)}" if error < 10 else f"✗ {findings.number(error + 1)} times"


def compared_job(compared: comparison.Compared | None) -> jobs.Job | None:
    """The job of the run to compare with; its run may still be on the way."""
    mine = f"{session()} compared"
    if compared is None:
        jobs.leave(mine)
        return None
    settings = compared.settings
    job = jobs.watch(mine, settings)
    job.ended.wait(PATIENCE)
    if job.failure:
        st.html(f'<p class="refusal" role="alert">{html.escape(job.failure)}</p>')
    elif not job.run:
        await_compared(mine, settings)
    return job


@st.fragment(run_every=POLL)
def await_compared(mine: str, settings: Settings):
    """Say that the compared run is on its way, and draw it when it is there."""
    if jobs.watch(mine, settings).ended.is_set():
        st.rerun()
    st.caption(words.AGAINST_WAITS)
