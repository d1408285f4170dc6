"""One update of a run under the microscope."""

import html

import streamlit as st

from app import figures, jobs, words
from app.chart import chart
from app.jobs import answer
from app.timeline import timeline
from app.views.curves import spread
from app.views.orders import orders
from app.views.sentences import tell
from app.views.waiting import on_its_way
from lab import findings
from lab.census import Census
from lab.choices import SAMPLED
from lab.devices import described
from lab.key import SettingsError
from lab.memory import Memory, measure
from lab.moments import moments
from lab.opened import Update
from lab.run import Run
from lab.spelling import look


@st.fragment
def microscope(run: Run, job: jobs.Job | None, beside: jobs.Job | None):
    """One update: the running total, all reductions, and whether they agree; a compared run's beside it."""
    st.subheader(words.MICROSCOPE, help=words.MICROSCOPE_HELP)
    step = timeline(run.record.length - 1, moments(run.record))
    view = _chosen_view(run.settings.task)
    there = beside.run if beside and beside.run and step < beside.run.record.length else None
    update = answer(job, run, Run.at, step)
    found = findings.of_update(update)
    census = answer(job, run, Run.census, step) if view == "precision" else None
    if census:
        fits = findings.of_census(census, run.settings.loss_scaling == "dynamic")
        found += [fits] if fits else []
    tell(found, "update", about=f"Update {step:,}:")
    if view == "devices":
        devices(run, update)
    elif view == "names":
        names(run, job, update, beside if there else None, step)
    elif view == "stages":
        chart(figures.stages(update, run.settings), key="stages", height=400)
    elif view == "memory":
        memory(run, job)
    elif view == "orders":
        orders(run, job, update, step)
    elif census:
        precision(run, job, census, answer(beside, there, Run.census, step) if there else None, step)
    else:
        accumulator(update, answer(beside, there, Run.at, step) if there else None)


def _chosen_view(task: str) -> str:
    """The view of this visit, where the task has it; else the first."""
    state = st.session_state
    views = [view for view in words.VIEWS if offers(task, view)]
    state.set_view = state.view if state.view in views else views[0]

    def take():
        state.view = state.set_view

    chosen = st.segmented_control(
        "view", views, format_func=lambda name: words.VIEWS[name], key="set_view", required=True,
        label_visibility="collapsed", on_change=take,
    )  # fmt: skip
    return chosen or views[0]


def offers(task: str, view: str) -> bool:
    """Whether a view has something to show for a task."""
    return {"names": task == "names", "memory": task in SAMPLED}.get(view, True)


def names(run: Run, job: jobs.Job | None, update: Update, beside: jobs.Job | None, step: int):
    """Names the model makes up, what every letter costs, and how many tokens every microbatch holds."""
    spelling = answer(job, run, look, step)
    compared = answer(beside, beside.run, look, step) if beside and beside.run else None
    left, right = st.columns([3, 2])
    with left:
        chart(figures.letters(spelling, compared), key="letters", height=300)
    with right:
        chart(figures.tokens(update), key="tokens", height=180)
        made_up = "".join(f"<li>{html.escape(name) or '–'}</li>" for name in spelling.made_up)
        st.html(f'<h3 class="own">{words.MADE_UP}</h3><ul class="made-up">{made_up}</ul>')


def memory(run: Run, job: jobs.Job | None):
    """What cutting the batch saves; measured in the background."""
    if on_its_way(job, words.MEMORY_WAITS, memory_of):
        return
    try:
        found = answer(job, run, memory_of)
    except SettingsError as refusal:
        st.html(f'<p class="refusal" role="alert">{html.escape(str(refusal))}</p>')
        return
    chart(figures.memory(found, run.settings.microbatches), key="memory")


def memory_of(run: Run) -> Memory:
    """The memory of one update of a run."""
    return measure(run.settings)


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
        chart(figures.dealt(update, run.settings.deal), key="dealt", height=220)
    if run.settings.device_reduction != "none":
        spread(run)
