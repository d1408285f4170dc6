"""How fast the lab trains, beside the same training written in other ways: `training-lab bench`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from lab.grid import Grid
from lab.loops import timing
from lab.loops.compared import NAMES, applies
from lab.loops.timing import LOOPS, Timing, ratio, updates_to_time
from lab.loops.work import Work
from lab.wording import plural


class Row(NamedTuple):
    """One loop on one piece of work.

    Attributes:
        work, microbatches, devices: what was trained.
        measured: its times.
        to_bare, to_ours: median over the rounds of its time divided by that of the other loop in the same round; None
            where the other was not measured.
    """

    work: str
    microbatches: int
    devices: int
    measured: timing.Row
    to_bare: float | None
    to_ours: float | None

    def to_dict(self) -> dict[str, Any]:
        """The row with its quartiles, as the JSON has it."""
        own = {name: value for name, value in self._asdict().items() if name != "measured"}
        return {**own, **timing.to_dict(self.measured)}


def measure(grid: Grid, say: Callable[[str], Any] = lambda text: None) -> Iterator[Row]:
    """Measure piece by piece; `say` is told what comes next."""
    for label, settings in grid.settings():
        names = [name for name in grid.loops if applies(name, settings)]
        say(
            f"{label}, {plural(settings.microbatches, 'microbatch')}, {plural(settings.devices, 'device')}: "
            f"{', '.join(names)}"
        )
        work = Work(settings.replace(steps=updates_to_time(settings)))
        timed = Timing(work, {name: LOOPS[name] for name in names}, grid.repeats)
        for _ in timed.parts():
            pass
        rows = {row.loop: row for row in timed.rows()}
        for row in rows.values():
            to_bare, to_ours = (ratio(row, rows[other]).median if other in rows else None for other in ("bare", "ours"))
            yield Row(label, settings.microbatches, settings.devices, row, to_bare, to_ours)


HEAD = (
    "work", "devices", "microbatches", "loop", "updates/s", "quartiles", "time/bare", "time/ours", "compile s",
    "memory",
)  # fmt: skip
WORDS = ("work", "loop")
"""Columns that are written from the left."""


def table(rows: Sequence[Row]) -> str:
    """The rows as plain text; times are divided, so that 1.05 is 5 % slower and 8 is eight times as slow."""
    return _aligned([HEAD, *map(_cells, rows)])


def summary(rows: Sequence[Row]) -> str:
    """One line for each piece of work: what recording costs, and how many times as long as ours every loop takes."""
    loops = [name for name in NAMES if name not in ("ours", "bare") and any(row.measured.loop == name for row in rows)]
    lines: list[tuple[str, ...]] = []
    lines.append(("work", "devices", "microbatches", "ours/s", "ours/bare", *(f"{name}/ours" for name in loops)))
    pieces: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        piece = row.work, str(row.devices), str(row.microbatches)
        pieces.setdefault(piece, {})[row.measured.loop] = row
    for piece, by in pieces.items():
        ours = by.get("ours")
        speed = (f"{1 / ours.measured.per_update[1]:,.0f}", _ratio(ours.to_bare)) if ours else ("", "")
        lines.append((*piece, *speed, *(_ratio(by[name].to_ours) if name in by else "" for name in loops)))
    return _aligned(lines)


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells below each other; the first line names the columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def padded(line):
        columns = zip(lines[0], line, widths, strict=True)
        return "  ".join(cell.ljust(width) if name in WORDS else cell.rjust(width) for name, cell, width in columns)

    return "\n".join(padded(line).rstrip() for line in lines)


def _ratio(number: float | None) -> str:
    return "" if number is None else f"{number:.2f}"


def _cells(row: Row) -> tuple[str, ...]:
    measured = row.measured
    low, median, high = measured.per_update

    return (
        row.work, str(row.devices), str(row.microbatches), measured.loop, f"{1 / median:,.0f}",
        f"{1 / high:,.0f}..{1 / low:,.0f}", _ratio(row.to_bare), _ratio(row.to_ours),
        f"{measured.compiling:.2f}", "" if measured.memory is None else f"{measured.memory / 2**20:.1f} MiB",
    )  # fmt: skip
