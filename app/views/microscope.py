"""One update of a run under the microscope."""

import streamlit as st

from app import figures, jobs, words
from app.chart import chart
from app.jobs import answer
from app.views.sentences import tell
from lab import findings
from lab.census import Census
from lab.devices import described
from lab.opened import Update
from lab.run import Run


@st.fragment
def microscope(run: Run, job: jobs.Job | None, beside: jobs.Job | None):
    """One update: the running total, all reductions, and whether they agree; a compared run's beside it."""
    st.subheader(words.MICROSCOPE)
    last = run.record.length - 1
    step = 0
    if last > 0:
        st.session_state.step = min(st.session_state.get("step", 0), last)
        step = st.slider("update", 0, last, key="step", help="Any update of the run, replayed bit for bit.")
    st.session_state.setdefault("view", "accumulator")
    view = st.segmented_control(
        "view",
        list(words.VIEWS),
        format_func=lambda name: words.VIEWS[name],
        key="view",
        required=True,
        label_visibility="collapsed",
    )
    there = beside.run if beside and beside.run and step < beside.run.record.length else None
    update = answer(job, run, Run.at, step)
    found = findings.of_update(update)
    census = answer(job, run, Run.census, step) if view == "precision" else None
    if census:
        fits = findings.of_census(census, run.settings.loss_scaling == "dynamic")
        found += [fits] if fits else []
    tell([finding._replace(text=f"**Update {step:,}**: {finding.text}") for finding in found], "update")
    if view == "devices":
        devices(run, update)
    elif census:
        precision(run, job, census, answer(beside, there, Run.census, step) if there else None, step)
    else:
        accumulator(update, answer(beside, there, Run.at, step) if there else None)


def accumulator(update: Update, compared: Update | None):
    """The running total, and all reductions."""
    left, right = st.columns([3, 2])
    with left:
        chart(figures.accumulator(update, compared), key="accumulator")
    with right:
        chart(figures.reductions(update), key="reductions")


def precision(run: Run, job: jobs.Job | None, census: Census, compared: Census | None, step: int):
    """The gradient's entries against the number format, and what the accumulator's would cost."""
    left, right = st.columns([3, 2])
    with left:
        chart(figures.gradient_range(census, compared), key="gradient_range")
    with right:
        settings = run.settings
        if "norm" in settings.used() and settings.norm == "batch":
            st.info(words.BATCH_NORM)
            return
        rounding = answer(job, run, Run.rounding, step)
        chart(figures.rounding(rounding, settings.accumulator_dtype, settings.microbatches), key="rounding")


def devices(run: Run, update: Update):
    """Do the devices' gradients agree in this update, and their parameters over the run."""
    number = len(update.devices)
    if number == 1:
        st.info(words.ONE_DEVICE)
        return
    st.caption(words.RUNS_ON.format(devices=described(number)))
    left, right = st.columns(2)
    with left:
        chart(figures.device_gradients(update), key="device_gradients")
        chart(figures.device_losses(update), key="device_losses", height=220)
    with right:
        chart(figures.device_agreement(update), key="device_agreement")
        chart(figures.dealt(update), key="dealt", height=220)
    if run.settings.device_reduction != "none":
        chart(figures.spread(run.record, run.record.length), key="spread", height=120)
