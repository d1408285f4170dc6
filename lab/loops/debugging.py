"""What `jax.disable_jit` shows: a look at the loss inside the scan finds a tracer once, or every number."""

import statistics
import time
from typing import NamedTuple

import jax

from lab.loops.loop import copied
from lab.loops.work import Work
from lab.settings import Settings

MOST = 16
"""The update is cut into no more microbatches than this: without jit each takes its time."""
TIMES, ENOUGH = 3, 2.0
"""An update is timed so often, unless that took so many seconds."""


class Debugged(NamedTuple):
    """One update, looked into at every microbatch.

    Attributes:
        microbatches: into how many the update was cut.
        comparable: whether that is the update of the settings: their number of microbatches, on one device.
        jitted: what the look at the loss sum saw while the update was compiled and run, in order.
        disabled: what it saw under `jax.disable_jit`.
        seconds_jitted, seconds_disabled: median of an update, compiled already.
    """

    microbatches: int
    comparable: bool
    jitted: list[str]
    disabled: list[str]
    seconds_jitted: float
    seconds_disabled: float


def look_inside(settings: Settings) -> Debugged:
    """The first update of a run, on one device, under `jax.jit` and under `jax.disable_jit`.

    Raises:
        SettingsError: the settings ask for what loops are not compared at.
    """
    work = Work(settings.replace(devices=1, steps=1, microbatches=min(settings.microbatches, MOST)))
    seen: list[str] = []
    update = work.update(look=lambda loss: seen.append(str(loss)))
    given = work.data, work.rows[0], work.filled, work.weights[0]

    def run(function) -> float:
        params, state = copied(work)
        began = time.perf_counter()
        jax.block_until_ready(function(params, state, *given))
        return time.perf_counter() - began

    def median(function) -> float:
        seconds: list[float] = []
        while len(seconds) < TIMES and sum(seconds) < ENOUGH:
            seconds.append(run(function))
        return statistics.median(seconds)

    compiled = jax.jit(update)
    run(compiled)
    seconds_jitted = median(compiled)
    jitted = seen.copy()
    with jax.disable_jit():
        seen.clear()
        run(update)
        disabled = seen.copy()
        seconds_disabled = median(update)
    comparable = settings.devices == 1 and settings.microbatches <= MOST
    return Debugged(work.settings.microbatches, comparable, jitted, disabled, seconds_jitted, seconds_disabled)
