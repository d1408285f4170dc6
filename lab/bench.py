"""How fast the lab trains, beside the same training written in other ways: `training-lab bench`."""

import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from lab.grid import Grid
from lab.loops import LOOPS, Loop, Work, applies
from lab.settings import Settings

SECONDS = 0.05
"""About how long one timing of `ours` takes."""
FEWEST, ENOUGH = 3, 2.0
"""A loop is timed no further after so many timings that took so many seconds together."""
MOST_UPDATES, MOST_CALLS = 2048, 4096
"""No timing has more updates than this, nor more microbatches."""


class Row(NamedTuple):
    """One loop on one piece of work.

    Attributes:
        work, microbatches, devices, loop: what was measured.
        updates: in each timing.
        seconds: of each timing, in the order they were taken.
        compile_seconds: to trace and compile.
        memory: bytes of the compiled program at its peak; None where there is no one program.
        to_bare, to_ours: median over the rounds of its time divided by that of the other loop in the same round; None
            where the other was not measured.
    """

    work: str
    microbatches: int
    devices: int
    loop: str
    updates: int
    seconds: list[float]
    compile_seconds: float
    memory: int | None
    to_bare: float | None
    to_ours: float | None

    def per_second(self) -> tuple[float, float, float]:
        """Updates a second: lower quartile, median, upper quartile."""
        low, median, high = np.quantile(self.updates / np.array(self.seconds), [0.25, 0.5, 0.75])
        return float(low), float(median), float(high)

    def to_dict(self) -> dict[str, Any]:
        """The row with its quartiles, as the JSON has it."""
        low, median, high = self.per_second()
        rate = {"updates_per_second": median, "lower_quartile": low, "upper_quartile": high}
        return {**self._asdict(), **rate}


def machine() -> dict[str, Any]:
    """What the numbers depend on besides the program."""
    return {
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "device": jax.devices()[0].device_kind,
        "python": platform.python_version(),
        "jax": jax.__version__,
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def measure(grid: Grid, say: Callable[[str], Any] = lambda text: None) -> Iterator[Row]:
    """Measure piece by piece; `say` is told what comes next."""
    for work, settings in grid.settings():
        names = [name for name in grid.loops if applies(name, settings)]
        say(f"{work}, {settings.microbatches} microbatches, {settings.devices} devices: {', '.join(names)}")
        yield from of_settings(work, settings, names, grid.repeats)


def of_settings(label: str, settings: Settings, names: Sequence[str], repeats: int) -> list[Row]:
    """Compile the loops, then time them in turn, every other round in reverse order."""
    settings = settings.replace(steps=_updates(settings))
    # What was compiled to find the number of updates must not make the compile seconds look good.
    jax.clear_caches()
    work = Work(settings)
    loops = {name: LOOPS[name](work) for name in names}
    for loop in loops.values():
        timed(loop)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(repeats):
        for name in names if turn % 2 == 0 else reversed(names):
            if turn < FEWEST or sum(seconds[name]) < ENOUGH:
                seconds[name].append(timed(loops[name]))

    def ratio(name, other):
        both = zip(seconds[name], seconds.get(other, []), strict=False)
        return float(np.median([a / b for a, b in both])) if other in names else None

    return [
        Row(
            label, settings.microbatches, settings.devices, name, settings.steps, seconds[name],
            loop.compile_seconds, loop.memory, ratio(name, "bare"), ratio(name, "ours"),
        )
        for name, loop in loops.items()
    ]  # fmt: skip


def timed(loop: Loop) -> float:
    """Seconds of all its updates, waited for."""
    fresh = loop.prepare()
    began = time.perf_counter()
    loop.run(fresh)
    return time.perf_counter() - began


def _updates(settings: Settings) -> int:
    """How many updates to time: `SECONDS` worth of the lab's own, in whole blocks of 16."""
    trial = settings.replace(steps=16)
    loop = LOOPS["ours"](Work(trial))
    timed(loop)
    each = min(timed(loop) for _ in range(3)) / 16
    most = min(MOST_UPDATES, MOST_CALLS // settings.microbatches)
    return 16 * max(1, round(min(SECONDS / each, most) / 16))


HEAD = (
    "work", "devices", "microbatches", "loop", "updates/s", "quartiles", "time/bare", "time/ours", "compile s",
    "memory",
)  # fmt: skip
WORDS = ("work", "loop")
"""Columns that are written from the left."""


def table(rows: Sequence[Row]) -> str:
    """The rows as plain text; times are divided, so that 1.05 is 5 % slower and 8 is eight times as slow."""
    lines = [HEAD, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def padded(line):
        columns = zip(HEAD, line, widths, strict=True)
        return "  ".join(cell.ljust(width) if name in WORDS else cell.rjust(width) for name, cell, width in columns)

    return "\n".join(padded(line).rstrip() for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    low, median, high = row.per_second()

    def shown(number, form):
        return "" if number is None else format(number, form)

    return (
        row.work, str(row.devices), str(row.microbatches), row.loop, f"{median:,.0f}", f"{low:,.0f}..{high:,.0f}",
        shown(row.to_bare, ".2f"), shown(row.to_ours, ".2f"), f"{row.compile_seconds:.2f}",
        "" if row.memory is None else f"{row.memory / 2**20:.1f} MiB",
    )  # fmt: skip
