"""Charts of loops: the numbers they draw, from times made up here."""

from typing import Any

import numpy as np
import pytest

from app.figures import loops as figures
from lab.loops.debugging import Debugged
from lab.loops.stacking import Stacking
from lab.loops.timing import Row


def row(loop: str, each: float, compiling: float = 0.5) -> Row:
    return Row(loop, 10, [10 * each * factor for factor in (0.9, 1.0, 1.1)], [compiling] if compiling else [], None)


ROWS = [row("ours", 2e-3, 1.0), row("bare", 1e-3, 0.6), row("python_loop", 5e-3, 0.2), row("multisteps", 0.02, 0.2)]


def traces(chart) -> dict[str, Any]:
    return {trace.name: trace for trace in chart.figure.data}


def test_totals_are_compiling_and_training_and_a_ring_marks_where_the_scan_has_caught_up():
    without = Debugged(4, True, [], [], 1e-3, 0.3)
    chart = figures.totals(ROWS, without)
    drawn = traces(chart)
    for name, each, compiling in (("one scan", 1e-3, 0.6), ("Python loop", 5e-3, 0.2), ("without jit", 0.3, 0.0)):
        np.testing.assert_allclose(drawn[name].y, compiling + each * np.array(drawn[name].x))
    rings = drawn["caught up"]
    at = sorted([0.4 / 4e-3, 0.4 / 0.019, 0.6 / 0.299])
    np.testing.assert_allclose(sorted(rings.x), at)
    np.testing.assert_allclose(sorted(rings.y), [0.6 + 1e-3 * updates for updates in at])
    assert chart.summary == (
        "One scan catches up with without jit after 3 updates, with optax.MultiSteps after 22 updates, "
        "with Python loop after 100 updates."
    )
    assert "without jit" not in traces(figures.totals(ROWS, without._replace(comparable=False)))
    alone = figures.totals([row("bare", 1e-3), row("python_loop", 5e-3)], None)
    assert alone.summary == "One scan is ahead of all of them from the first update on."
    beaten = figures.totals([row("bare", 1e-3), row("unrolled", 5e-4)], None)
    assert beaten.summary == "One scan is behind unrolled scan in the end."


def test_every_timing_is_drawn_and_the_axis_has_few_ticks():
    chart = figures.times(ROWS)
    drawn = traces(chart)
    assert len(drawn["one timing"].x) == 12
    np.testing.assert_allclose(drawn["median"].x, [2e-3, 1e-3, 5e-3, 0.02])
    assert chart.summary == "The fastest is one scan, 1 ms an update."
    assert chart.figure.layout.xaxis.ticktext == ("1 ms", "2 ms", "5 ms", "10 ms", "20 ms")
    wide = figures.times([row("bare", 2e-6), row("multisteps", 3e-3)])
    assert wide.figure.layout.xaxis.ticktext == ("10 µs", "100 µs", "1 ms")


@pytest.mark.parametrize(("each", "unit", "drawn"), [(2e-3, "ms", 2.0), (3e-5, "µs", 30.0)])
def test_reports_are_drawn_in_the_unit_of_their_times(each, unit, drawn):
    chart = figures.reporting([row("1", each), row("16", each / 2)])
    assert chart.figure.layout.yaxis.title.text == f"{unit} an update"
    np.testing.assert_allclose(traces(chart)["median"].y, [drawn, drawn / 2])
    assert list(chart.figure.layout.xaxis.ticktext) == ["1", "16"]


def test_memory_is_drawn_in_bytes_of_a_unit():
    found = Stacking([1, 4], [2**20, 2**18], [2**20, 4 * 2**20], 50, 100, 300, 100 + 50 * 2**10)
    chart = figures.stacking(found)
    drawn = traces(chart)
    np.testing.assert_allclose(drawn["carried as a running total"].y, [1, 0.25])
    np.testing.assert_allclose(drawn["stacked, then added"].y, [1, 4])
    assert chart.figure.layout.yaxis.title.text == "MiB"
    assert "In 4 microbatches: carried 256 KiB, stacked 4 MiB" in chart.summary
    assert "every loss: 200 bytes more; all parameters of every update: 50 KiB more" in chart.summary
