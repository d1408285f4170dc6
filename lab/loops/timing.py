"""Compile and run times of loops on one piece of work, taken in turn so that what disturbs one disturbs all."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from lab.loops.loop import Loop
from lab.loops.scans import bare, chunked, ours, recording, unrolled
from lab.loops.stepwise import multisteps, python_loop
from lab.loops.work import Work
from lab.settings import Settings

SECONDS = 0.05
"""About how long one timing of `ours` takes."""
FEWEST, ENOUGH = 3, 2.0
"""A loop is timed no further after so many timings that took so many seconds together."""
COMPILED_ENOUGH = 2.0
"""A loop is not compiled again once that took so many seconds."""
MOST_UPDATES, MOST_CALLS = 2048, 4096
"""No timing has more updates than this, nor more microbatches."""

Maker = Callable[[Work], Loop]


def in_torch(work: Work) -> Loop:
    """Eager PyTorch, imported when it is wanted."""
    from lab.loops.eager import eager

    return Loop(0.0, None, *eager(work))


LOOPS: dict[str, Maker] = {
    "ours": ours, "recording": recording, "bare": bare, "chunked": chunked, "python_loop": python_loop,
    "multisteps": multisteps, "unrolled": unrolled, "torch": in_torch,
}  # fmt: skip


class Row(NamedTuple):
    """What was measured of one loop.

    Attributes:
        loop: its name.
        updates: in each timing.
        seconds: of each timing, in the order they were taken.
        compile_seconds: to trace and compile, each time it was done; empty where nothing is compiled.
        memory: bytes of the compiled program at its peak; None where there is no one program.
    """

    loop: str
    updates: int
    seconds: list[float]
    compile_seconds: list[float]
    memory: int | None

    @property
    def per_update(self) -> tuple[float, float, float]:
        """Seconds of an update: lower quartile, median, upper quartile."""
        low, median, high = np.quantile(np.array(self.seconds) / self.updates, [0.25, 0.5, 0.75])
        return float(low), float(median), float(high)

    @property
    def compiling(self) -> float:
        """Median seconds to compile; 0 where nothing is compiled."""
        return float(np.median(self.compile_seconds)) if self.compile_seconds else 0.0


class Ratio(NamedTuple):
    """A loop's time divided by another's in the same round: lower quartile, median, upper quartile of the rounds."""

    low: float
    median: float
    high: float
    rounds: int

    @property
    def told_apart(self) -> bool:
        """Whether in three of four rounds, and of three at least, the same loop was the slower one."""
        return self.rounds >= FEWEST and (self.low > 1 or self.high < 1)


def ratio(row: Row, other: Row) -> Ratio:
    """How many times as long as another a loop takes."""
    of_rounds = [mine / theirs for mine, theirs in zip(row.seconds, other.seconds, strict=False)]
    low, median, high = np.quantile(of_rounds, [0.25, 0.5, 0.75])
    return Ratio(float(low), float(median), float(high), len(of_rounds))


def updates_to_time(settings: Settings) -> int:
    """How many updates to time: `SECONDS` worth of the lab's own, in whole blocks of 16."""
    loop = ours(Work(settings.replace(steps=16)))
    timed(loop)
    each = min(timed(loop) for _ in range(3)) / 16
    most = min(MOST_UPDATES, MOST_CALLS // settings.microbatches)
    return 16 * max(1, round(min(SECONDS / each, most) / 16))


def timed(loop: Loop) -> float:
    """Seconds of all its updates, waited for."""
    fresh = loop.prepare()
    began = time.perf_counter()
    loop.run(fresh)
    return time.perf_counter() - began


class Timing:
    """Loops that are compiled and then timed in turn, every other round in reverse order.

    Args:
        work: what they are to do.
        makers: how each is made, by name.
        rounds: timings of each, at most.
        compiles: how often each is compiled, unless that takes `COMPILED_ENOUGH` seconds.
    """

    def __init__(self, work: Work, makers: Mapping[str, Maker], rounds: int, compiles: int = 1):
        self._work, self._makers, self._rounds, self._compiles = work, makers, rounds, compiles
        self._loops: dict[str, Loop] = {}
        self._seconds: dict[str, list[float]] = {}
        self._compile_seconds: dict[str, list[float]] = {}

    def parts(self) -> Iterator[str]:
        """Do it part by part, and say before each what it will be."""
        for name in self._makers:
            yield f"compiling {name}"
            self._compile(name)
        names = list(self._makers)
        for turn in range(self._rounds):
            yield f"timing, round {turn + 1} of {self._rounds}"
            for name in names if turn % 2 == 0 else names[::-1]:
                if turn < FEWEST or sum(self._seconds[name]) < ENOUGH:
                    self._seconds[name].append(timed(self._loops[name]))
        for name in self._makers:
            while 0 < len(self._compile_seconds[name]) < self._compiles:
                if sum(self._compile_seconds[name]) > COMPILED_ENOUGH:
                    break
                yield f"compiling {name} once more"
                self._compile(name)

    def _compile(self, name: str):
        # What JAX remembers of another loop's compilation must not make this one's look short.
        jax.clear_caches()
        loop = self._makers[name](self._work)
        if name not in self._loops:
            self._loops[name], self._seconds[name], self._compile_seconds[name] = loop, [], []
            timed(loop)
        if loop.compile_seconds:
            self._compile_seconds[name].append(loop.compile_seconds)

    def rows(self) -> list[Row]:
        """What is known so far: loops that were timed at least once."""
        return [
            Row(name, self._work.settings.steps, list(seconds), list(self._compile_seconds[name]), loop.memory)
            for name, loop in self._loops.items()
            if (seconds := self._seconds[name])
        ]


def crossover(scan: Row, other: Row) -> float | None:
    """From how many updates on the scan, compiling included, has taken no longer than another loop, by medians.

    0 if it is ahead from the start, and None if it never is.
    """
    longer_to_compile = scan.compiling - other.compiling
    gained = other.per_update[1] - scan.per_update[1]
    if longer_to_compile <= 0:
        return 0.0 if gained >= 0 else None
    return longer_to_compile / gained if gained > 0 else None


def to_dict(row: Row) -> dict[str, Any]:
    """The row with its quartiles, as JSON has it."""
    low, median, high = row.per_update
    rates = {"updates_per_second": 1 / median, "lower_quartile": 1 / high, "upper_quartile": 1 / low}
    return {**row._asdict(), **rates}
