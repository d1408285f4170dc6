"""All that the page tells about loops, measured part by part."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from lab.loops import debugging, stacking
from lab.loops.compared import NAMES, applies
from lab.loops.debugging import Debugged
from lab.loops.scans import chunked
from lab.loops.stacking import Stacking
from lab.loops.timing import LOOPS, Row, Timing, updates_to_time
from lab.loops.work import Work
from lab.machine import machine
from lab.settings import Settings

ROUNDS, COMPILES = 9, 3
"""How often each loop is timed, and compiled."""
SIZES = (1, 4, 16, 64, 256, 1024)
"""Updates in a chunk, as far as there are so many in a timing."""


class Measured(NamedTuple):
    """What is known so far.

    Attributes:
        machine: what the numbers depend on besides the program.
        loops: every loop that was timed.
        chunks: chunked scans, by the number of updates between two reports: "16"; the last reports once, at the end.
        stacking: memory; None until it is known.
        debugging: what `jax.disable_jit` shows; None until it is known.
        doing: what comes next; empty when all is done.
        share: how much of the work is done, about, from 0 to 1.
    """

    machine: dict[str, Any]
    loops: list[Row] = []
    chunks: list[Row] = []
    stacking: Stacking | None = None
    debugging: Debugged | None = None
    doing: str = "starting"
    share: float = 0.0


def measure(settings: Settings) -> Iterator[Measured]:
    """Measure, and tell what is known before every part of the work and at its end.

    Raises:
        SettingsError: the settings ask for what loops are not compared at.
    """
    known = Measured(machine())
    yield known
    work = Work(settings.replace(steps=updates_to_time(settings)))
    loops = {name: LOOPS[name] for name in NAMES if applies(name, settings)}
    timing = Timing(work, loops, ROUNDS, COMPILES)
    for k, doing in enumerate(timing.parts()):
        known = known._replace(loops=timing.rows(), doing=doing, share=0.6 * k / (COMPILES * len(loops) + ROUNDS))
        yield known
    known, chunks = known._replace(loops=timing.rows()), _chunks(work.settings.steps)
    timing = Timing(work, chunks, ROUNDS)
    for k, doing in enumerate(timing.parts()):
        share = 0.6 + 0.2 * k / (len(chunks) + ROUNDS)
        yield known._replace(chunks=timing.rows(), doing=f"chunks: {doing}", share=share)
    known = known._replace(chunks=timing.rows(), doing="reading off the memory of compiled programs", share=0.8)
    yield known
    known = known._replace(stacking=stacking.measure(settings), doing="an update without jit", share=0.9)
    yield known
    yield known._replace(debugging=debugging.look_inside(settings), doing="", share=1.0)


def _chunks(updates: int):
    sizes = [size for size in SIZES if 2 * size <= updates] + [updates]
    return {str(size): lambda work, size=size: chunked(work, size) for size in sizes}


def to_dict(measured: Measured) -> dict[str, Any]:
    """Everything, as JSON has it."""
    return {
        **measured._asdict(),
        "loops": [row._asdict() for row in measured.loops],
        "chunks": [row._asdict() for row in measured.chunks],
        "stacking": measured.stacking and measured.stacking._asdict(),
        "debugging": measured.debugging and measured.debugging._asdict(),
    }


def from_dict(told: dict[str, Any]) -> Measured:
    """What `to_dict` told."""
    return Measured(
        told["machine"],
        [Row(**row) for row in told["loops"]],
        [Row(**row) for row in told["chunks"]],
        told["stacking"] and Stacking(**told["stacking"]),
        told["debugging"] and Debugged(**told["debugging"]),
        told["doing"],
        told["share"],
    )
