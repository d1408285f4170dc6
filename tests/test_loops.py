"""The loops of the bench: other ways to write one training, which end where ours ends."""

import functools

import jax
import numpy as np
import pytest

from lab import Settings, SettingsError, bench, fit
from lab.grid import Grid
from lab.loops.compared import NAMES, applies
from lab.loops.scans import CHUNK, chunked
from lab.loops.timing import LOOPS
from lab.loops.work import Work

HERE = [name for name in NAMES if name != "torch"]
WORK = {
    "digits": Settings(hidden="16", batch_size=60, microbatches=4, steps=20, optimizer="sgd", learning_rate=0.1),
    "names": Settings(task="names", width=8, batch_size=16, microbatches=4, steps=3, optimizer="sgd"),
    "linear": Settings(task="linear", batch_size=30, microbatches=4, steps=20, optimizer="adam"),
    "four devices": Settings(hidden="8", batch_size=64, microbatches=2, devices=4, steps=20, optimizer="momentum"),
}


@functools.cache
def work(name: str) -> Work:
    return Work(WORK[name])


def ends(loop) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(loop.run(loop.prepare()))]


@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("of", WORK)
def test_every_loop_ends_where_the_run_ends(of, name):
    if not applies(name, WORK[of]):
        assert (of, name) == ("four devices", "multisteps")
        return
    loop = LOOPS[name](work(of))
    wanted = jax.tree.leaves(fit(WORK[of]).params)
    for again in range(2):
        for got, want in zip(ends(loop), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-6, err_msg=f"run {again}")
    assert loop.compile_seconds > 0 and loop.memory is not None and loop.memory > 0


def test_a_loop_that_took_another_rate_would_end_elsewhere():
    other = jax.tree.leaves(fit(WORK["digits"].replace(learning_rate=0.101)).params)
    loop = LOOPS["bare"](work("digits"))
    assert max(np.abs(a - b).max() for a, b in zip(ends(loop), other, strict=True)) > 1e-4


def test_the_chunked_scan_reports_where_it_is():
    told = []
    loop = chunked(work("digits"), report=lambda done, loss: told.append((done, loss)))
    loop.run(loop.prepare())
    loss = fit(WORK["digits"]).record["loss"]
    assert [done for done, _ in told] == [CHUNK, 20]
    np.testing.assert_allclose([value for _, value in told], loss[[CHUNK - 1, 19]], rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (dict(reduction="sum"), "reduction=sum: loops are compared at reduction=mean"),
        (dict(clip="value"), "clip=value"),
        (dict(compute_dtype="float16"), "compute_dtype=float16"),
        (dict(task="hand"), "task=hand"),
        (dict(steps=200_000), "steps=200000: loops are compared over at most"),
    ],
)
def test_what_only_ours_can_do_is_refused(changes, told):
    with pytest.raises(SettingsError, match=told):
        Work(Settings(**changes))


def test_the_bench_times_every_loop_and_tells_their_ratios():
    grid = Grid(("linear",), ("2",), ("1",), ("ours", "bare", "multisteps"), repeats=3)
    rows = list(bench.measure(grid))
    assert [row.measured.loop for row in rows] == list(grid.loops)
    for measured in (row.measured for row in rows):
        assert len(measured.seconds) == 3 and min(measured.seconds) > 0 and measured.updates % 16 == 0
        low, median, high = measured.per_update
        assert 0 < low <= median <= high
    bare = rows[1]
    assert bare.to_bare == 1 and rows[0].to_ours == 1
    want = np.median(np.array(rows[0].measured.seconds) / np.array(bare.measured.seconds))
    np.testing.assert_allclose(rows[0].to_bare or 0, want)
    lines = bench.table(rows).splitlines()
    assert len(lines) == 4 and lines[0].split()[:4] == ["work", "devices", "microbatches", "loop"]
    assert lines[2].split()[:4] == ["linear", "1", "2", "bare"]
