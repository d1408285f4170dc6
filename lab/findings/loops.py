"""What the times of loops mean."""

import numpy as np

from lab.findings.sentence import Finding
from lab.loops.compared import NAMES
from lab.loops.debugging import Debugged
from lab.loops.measurement import Measured
from lab.loops.stacking import Stacking
from lab.loops.timing import Row, crossover, ratio
from lab.wording import duration, number, percent, plural, size

ENOUGH = 5
"""Of fewer timings nothing is said about noise."""
BY = {"python_loop": "a Python loop", "multisteps": "optax.MultiSteps", "torch": "eager PyTorch"}


def noise(rows: list[Row]) -> float:
    """How far the quartiles of a loop's times lie from its median, as a share; the median over the loops."""
    spreads = [(high - low) / (2 * middle) for low, middle, high in (row.per_update for row in rows)]
    return float(np.median(spreads))


def compared_to(row: Row, other: Row) -> str:
    """A loop's time beside another's: `2.1 times`, or that they cannot be told apart."""
    found = ratio(row, other)
    return f"{number(found.median)} times" if found.told_apart else "as long, within the noise"


def of_loops(measured: Measured) -> list[Finding]:
    """What the times say, each sentence as soon as it can be said."""
    rows = {row.loop: row for row in measured.loops}
    if "bare" not in rows:
        return []
    found = [_of_times(rows), _of_recording(rows)]
    if measured.debugging:
        found.append(_of_compiling(rows, measured.debugging))
    if len(measured.loops[0].seconds) >= ENOUGH:
        found.append(_of_noise(measured))
    return [finding for finding in found if finding]


def _of_times(rows: dict[str, Row]) -> Finding:
    bare = rows["bare"]
    others = [
        f"{BY[name]} in {duration(rows[name].per_update[1])} ({compared_to(rows[name], bare)})"
        for name in BY
        if name in rows
    ]
    return Finding("note", f"One scan does an update in {duration(bare.per_update[1])}; {', '.join(others)}.")


def _of_recording(rows: dict[str, Row]) -> Finding | None:
    if "ours" not in rows:
        return None
    text = f"The lab, which records every update, takes {_longer(rows['ours'], rows['bare'])} one scan"
    if "recording" in rows:
        if ratio(rows["ours"], rows["recording"]).told_apart:
            text += f"; {_longer(rows['recording'], rows['bare'])} it without measuring held-out examples"
        else:
            text += "; what its held-out measurements take of that is within the noise"
    return Finding("note", f"{text}.")


def _longer(row: Row, other: Row) -> str:
    """How a loop's time compares, up to the name of the other: `10 % longer than`, `3 times as long as`."""
    beside = ratio(row, other)
    if not beside.told_apart:
        return "as long, within the noise, as"
    if beside.median >= 2:
        return f"{number(beside.median)} times as long as"
    more = beside.median - 1
    return f"{percent(abs(more))} {'longer' if more > 0 else 'shorter'} than"


def _of_compiling(rows: dict[str, Row], debugged: Debugged) -> Finding:
    bare = rows["bare"]
    told = []
    if debugged.comparable:
        told.append(f"{_paid_back(crossover(bare, without_jit(debugged, bare.updates)))} against an update without jit")
    if "torch" in rows:
        told.append(f"{_paid_back(crossover(bare, rows['torch']))} against {NAMES['torch']}")
    if "python_loop" in rows:
        told.append(_against_python(crossover(bare, rows["python_loop"])))
    return Finding("note", f"Compiling the scan took {duration(bare.compiling)}: {'; '.join(told)}.")


def _paid_back(updates: float | None) -> str:
    if updates is None:
        return "never paid back"
    return f"paid back after {plural(int(np.ceil(max(updates, 1))), 'update')}"


def _against_python(updates: float | None) -> str:
    name = NAMES["python_loop"]
    if updates is None:
        return f"never paid back against a {name}, which compiles one update"
    if updates == 0:
        return f"a {name} has to compile its update too, for as long, and is never ahead"
    return f"{_paid_back(updates)} against a {name}, which compiles a single update"


def without_jit(debugged: Debugged, updates: int) -> Row:
    """The update without jit as if it had been timed like a loop."""
    return Row("without_jit", updates, [debugged.seconds_disabled * updates], [], None)


def _of_noise(measured: Measured) -> Finding:
    spread = noise(measured.loops)
    times = len(measured.loops[0].seconds)
    return Finding(
        "note" if spread < 0.1 else "warning",
        f"Noise: in a typical loop the middle half of its {times} timings lies within {percent(spread)} of the median. "
        + ("Something else keeps this machine busy; measure again when it is quiet." if spread >= 0.1 else "")
    )  # fmt: skip


def of_reporting(chunks: list[Row]) -> str:
    """What it costs to report more often, and from which chunk on it costs nothing that shows."""
    if len(chunks) < 2:
        return ""
    whole, each = chunks[-1], chunks[0]
    free = next((row for row in chunks if not ratio(row, whole).told_apart), whole)
    text = f"A report after every update takes {_longer(each, whole)} a single one at the end."
    if free is whole:
        return f"{text} Every chunk tried costs something."
    if free is not each:
        text += f" From {plural(int(free.loop), 'update')} between reports on the cost is within the noise."
    return text


def of_stacking(found: Stacking) -> str:
    """What stacking costs at the largest number of microbatches, and over a run."""
    most = found.microbatches[-1]
    return (
        f"In {plural(most, 'microbatch')}: carried {size(found.carried[-1])}, stacked "
        f"{size(found.stacked[-1])}. A run of {plural(found.updates, 'update')} that also returns every loss: "
        f"{size(found.run_losses - found.run_carried)} more; all parameters of every update: "
        f"{size(found.run_parameters - found.run_carried)} more."
    )
