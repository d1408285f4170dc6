"""A measurement of loops on the page: going, stopped or finished."""

import html
import inspect
import textwrap

import streamlit as st

from app import jobs, stopwatch, words
from app.chart import chart
from app.figures import loops as figures
from app.views.sentences import tell
from app.views.tools import leave, open_lab
from app.visit import session
from lab.findings.loops import of_loops
from lab.loops.compared import NAMES, applies
from lab.loops.debugging import Debugged
from lab.loops.measurement import Measured
from lab.loops.scans import bare, ours
from lab.loops.timing import LOOPS, Row, ratio
from lab.loops.work import Work
from lab.settings import Settings
from lab.wording import duration, number, plural, size

POLL = 1.0
"""Seconds between two looks at a measurement in progress; drawing anew takes time from what is measured."""
SHOWN = 8
"""Of what a look inside the loop saw, so many lines are shown."""


def timing(settings: Settings):
    """The measurement of these settings, begun when somebody looks."""
    # Nothing that nobody looks at is to disturb what is timed.
    jobs.leave(session())
    if st.session_state.look.embed:
        open_lab()
    elif st.session_state.look.present:
        leave()
    stopped = st.session_state.get("stopped_timing")
    if stopped and stopped[0] == settings:
        again(settings, words.STOPPED_TIMING if stopped[1] and stopped[1].loops else words.STOPPED_BEFORE)
        show(settings, stopped[1])
        return
    work = stopwatch.watch(session(), settings)
    if work.failure:
        st.html(f'<p class="refusal" role="alert">{html.escape(work.failure)}</p>')
        again(settings, "")
    elif work.result:
        again(settings, about(work.result))
        show(settings, work.result)
    else:
        in_progress(settings)


def again(settings: Settings, said: str):
    """Where it was measured, and a way to do it again."""
    left, right = st.columns([5, 1], vertical_alignment="center")
    left.html(f'<p class="look">{html.escape(said)}</p>')
    right.button(
        words.MEASURE_AGAIN, key="again", icon=":material/replay:", on_click=_again, args=(settings,), width="stretch"
    )


def _again(settings: Settings):
    st.session_state.pop("stopped_timing", None)
    stopwatch.again(settings)


def about(measured: Measured) -> str:
    """What the numbers depend on besides the program."""
    machine = measured.machine
    return words.MEASURED_ON.format(
        cores=plural(machine["cores"], "core"), processor=machine["processor"], python=machine["python"],
        jax=machine["jax"], updates=plural(measured.loops[0].updates, "update"),
    )  # fmt: skip


@st.fragment(run_every=POLL)
def in_progress(settings: Settings):
    """What is known so far, what is being done, and Stop."""
    work = stopwatch.watch(session(), settings)
    if work.ended.is_set():
        st.rerun()
    known = work.known
    left, right = st.columns([5, 1], vertical_alignment="center")
    left.progress(
        known.share if known else 0.0, text=words.MEASURING.format(doing=known.doing if known else words.TURN)
    )
    if right.button("Stop", key="stop", icon=":material/stop_circle:", width="stretch"):
        st.session_state.stopped_timing = (settings, known)
        stopwatch.leave(session())
        st.rerun()
    show(settings, known)


def show(settings: Settings, known: Measured | None):
    """All that is known."""
    if known is None or not known.loops:
        st.html(table([], [name for name in NAMES if applies(name, settings)]))
        return
    tell(of_loops(known), "loops")
    left, right = st.columns(2)
    with left:
        chart(figures.times(known.loops), "times", 280)
    with right:
        chart(figures.totals(known.loops, known.debugging), "totals", 280)
    st.html(table(known.loops, [row.loop for row in known.loops]))
    left, right = st.columns(2)
    if known.chunks:
        with left:
            chart(figures.reporting(known.chunks), "reporting", 240)
    if known.stacking:
        with right:
            chart(figures.stacking(known.stacking), "stacking", 240)
    if known.debugging:
        debugging(known.debugging)
    written([row.loop for row in known.loops])


def table(rows: list[Row], names: list[str]) -> str:
    """The loops and their numbers, as far as there are any, as HTML."""
    measured = {row.loop: row for row in rows}
    body = []
    for name in names:
        cells = (
            numbers(measured[name], measured.get("bare")) if name in measured else ["…"] * (len(words.LOOP_COLUMNS) - 1)
        )
        head = f'<th scope="row">{NAMES[name]}<small>{html.escape(words.LOOP_IS[name])}</small></th>'
        body.append(f"<tr>{head}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    columns = "".join(f'<th scope="col">{title}</th>' for title in words.LOOP_COLUMNS)
    return (
        f'<div class="orders loops" tabindex="0" role="region" aria-label="{words.LOOP_TABLE}"><table>'
        f"<caption>{words.LOOP_TABLE}</caption><thead><tr>{columns}</tr></thead>"
        f'<tbody>{"".join(body)}</tbody></table></div><p class="look">{html.escape(words.LOOP_NOTE)}</p>'
    )


def numbers(row: Row, bare: Row | None) -> list[str]:
    """The cells of a loop."""
    low, middle, high = row.per_update
    return [
        duration(middle),
        f"{duration(low)} … {duration(high)}",
        f"{float(f'{1 / middle:.3g}'):,.0f}",
        f"{number(ratio(row, bare).median)} ×" if bare else "",
        duration(row.compiling) if row.compile_seconds else "–",
        size(row.memory) if row.memory else "–",
    ]


def debugging(found: Debugged):
    """What the look inside the loop saw, with and without jit."""
    read = words.DEBUGGING_READ if found.comparable else words.DEBUGGING_OTHER
    read = read.format(microbatches=plural(found.microbatches, "microbatch"))
    st.html(f'<h3 class="own">{words.DEBUGGING}</h3><p class="look">{html.escape(read)}</p>')
    jitted, disabled = st.columns(2)
    for column, title, seen, seconds in (
        (jitted, words.JITTED, found.jitted, found.seconds_jitted),
        (disabled, words.DISABLED, found.disabled, found.seconds_disabled),
    ):
        lines = seen[:SHOWN] + ([f"… {plural(len(seen) - SHOWN, 'more line')}"] if len(seen) > SHOWN else [])
        with column:
            st.html(f'<p class="own"><b>{title}</b> · {plural(len(seen), "line")}, {duration(seconds)} an update</p>')
            st.code("\n".join(lines), language=None)


def written(loops: list[str]):
    """The source of the loops that were timed."""
    with st.expander(words.WRITTEN, key="written"):
        chosen = st.selectbox(words.WRITTEN_LOOP, loops, format_func=NAMES.__getitem__, key="written_loop")
        if chosen == "ours":
            st.caption(words.WRITTEN_OURS)
        st.code(source(chosen), language="python")


def source(loop: str) -> str:
    """The code of a loop, and of the update that it repeats."""
    if loop == "torch":
        from lab.loops.eager import eager

        return inspect.getsource(eager)
    own = inspect.getsource(LOOPS[loop])
    if loop == "ours":
        return own
    if loop == "recording":
        return f"{own}\n\n{inspect.getsource(ours)}"
    shared = inspect.getsource(bare) if loop == "unrolled" else ""
    return "\n".join(filter(None, [own, shared, textwrap.dedent(inspect.getsource(Work.update))]))
