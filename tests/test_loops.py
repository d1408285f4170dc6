"""The loops of the bench: other ways to write one training, which end where ours ends."""

import functools
import json
from typing import Any

import jax
import numpy as np
import pytest

from lab import Settings, SettingsError, bench, cache, fit
from lab.findings.loops import compared_to, of_loops, of_reporting
from lab.grid import Grid
from lab.loops import debugging, stacking
from lab.loops.apart import Apart
from lab.loops.compared import NAMES, applies, plain
from lab.loops.debugging import Debugged
from lab.loops.measurement import Measured, from_dict, to_dict
from lab.loops.scans import CHUNK, chunked
from lab.loops.timing import LOOPS, Row, crossover, ratio
from lab.loops.work import Work
from lab.tables import read_table

HERE = [name for name in NAMES if name != "torch"]
WORK = {
    "digits": Settings(hidden="16", batch_size=60, microbatches=4, steps=20, optimizer="sgd", learning_rate=0.1),
    "names": Settings(task="names", width=8, batch_size=16, microbatches=4, steps=3, optimizer="sgd"),
    "decay": Settings(
        task="points", hidden="8", batch_size=32, microbatches=2, steps=20, optimizer="adamw", weight_decay=0.3
    ),
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


def row(loop: str, seconds: list[float], compiling: float = 0.0, updates: int = 10) -> Row:
    return Row(loop, updates, seconds, [compiling] if compiling else [], None)


def test_the_crossover_is_where_two_straight_lines_meet():
    scan, slow = row("bare", [0.01], compiling=2.0), row("python_loop", [0.03], compiling=1.0)
    at = crossover(scan, slow)
    assert at is not None
    np.testing.assert_allclose(2.0 + at * 0.001, 1.0 + at * 0.003)
    np.testing.assert_allclose(at, 500)
    assert crossover(scan, row("torch", [0.005])) is None, "slower to start and slower after"
    assert crossover(scan, row("unrolled", [0.02], compiling=3.0)) == 0, "ahead from the start"
    assert crossover(scan, row("unrolled", [0.005], compiling=3.0)) is None, "ahead at first, overtaken later"


def test_two_loops_are_told_apart_only_where_most_rounds_agree():
    steady = row("bare", [1.0, 1.1, 0.9, 1.0])
    assert ratio(row("multisteps", [2.0, 2.1, 1.9, 2.0]), steady).told_apart
    wavering = ratio(row("chunked", [0.9, 1.3, 0.8, 1.2]), steady)
    assert not wavering.told_apart and wavering.low < 1 < wavering.high
    assert compared_to(row("chunked", [0.9, 1.3, 0.8, 1.2]), steady) == "as long, within the noise"
    assert compared_to(row("multisteps", [2.0, 2.2, 1.8, 2.0]), steady) == "2 times"


def test_sentences_say_what_the_times_say():
    debugged = Debugged(4, True, ["Tracer"], ["1.0"] * 4, 1e-3, 0.5)
    loops = [
        row("ours", [0.0011, 0.00111, 0.00109], 1.0), row("recording", [0.00105, 0.00105, 0.00105], 1.0),
        row("bare", [0.001, 0.001, 0.001], 0.8),
        row("python_loop", [0.003, 0.0029, 0.0031], 0.4), row("multisteps", [0.01, 0.01, 0.01], 0.4),
    ]  # fmt: skip
    text = " ".join(finding.text for finding in of_loops(Measured({}, loops, debugging=debugged)))
    assert (
        "One scan does an update in 100 µs; a Python loop in 300 µs (3 times), optax.MultiSteps in 1 ms (10 times)"
        in text
    )
    assert "takes 10 % longer than one scan; 5 % longer than it without measuring held-out examples." in text
    # 0.8 s are paid back at 0.5 - 0.0001 s an update, and 0.4 s more than the Python loop's at 0.0002 s.
    assert "paid back after 2 updates against an update without jit" in text
    assert "paid back after 2,000 updates against a Python loop, which compiles a single update" in text
    assert of_loops(Measured({}, loops[:1])) == []
    chunks = [row("1", [0.004, 0.0044, 0.004]), row("4", [0.002, 0.001, 0.0009]), row("16", [0.001, 0.0011, 0.001])]
    each = "A report after every update takes 4 times as long as a single one at the end."
    assert of_reporting(chunks) == f"{each} From 4 updates between reports on the cost is within the noise."
    assert of_reporting([chunks[0], chunks[2]]) == f"{each} Every chunk tried costs something."
    assert "within the noise, as a single one" in of_reporting(chunks[1:])


def test_nothing_is_claimed_of_few_rounds_of_noise_or_of_another_update():
    hardly = [row("ours", [0.2]), row("bare", [0.1])]
    assert "as long, within the noise, as one scan" in of_loops(Measured({}, hardly))[1].text
    noisy = [row("ours", [0.2] * 5), row("recording", [0.15, 0.25] * 2 + [0.2]), row("bare", [0.1] * 5, 0.5)]
    text = " ".join(finding.text for finding in of_loops(Measured({}, noisy)))
    assert "takes 2 times as long as one scan; what its held-out measurements take of that is within the noise" in text
    assert "in a typical loop the middle half of its 5 timings" in text
    another = Debugged(16, False, [], [], 1e-3, 0.5)
    told = " ".join(finding.text for finding in of_loops(Measured({}, hardly, debugging=another)))
    assert "without jit" not in told


def test_stacked_gradients_take_as_much_memory_as_there_are_microbatches_and_a_total_does_not():
    settings = Settings(hidden="32", batch_size=64, steps=50)
    found = stacking.measure(settings)
    parameters = 4 * (64 * 32 + 32 + 32 * 10 + 10)
    assert found.microbatches == [1, 4, 16, 64]
    for count, carried, stacked in zip(found.microbatches, found.carried, found.stacked, strict=True):
        assert stacked >= count * parameters
        assert carried < 3 * parameters + 64 * 4 * 200 // count
    assert 0 <= found.run_losses - found.run_carried - 4 * 50 < 1024
    assert 0 <= found.run_parameters - found.run_carried - 50 * parameters < 2 * parameters


def test_without_jit_the_look_inside_sees_every_loss_and_with_it_one_tracer():
    settings = Settings(hidden="16", batch_size=60, microbatches=4, steps=3)
    found = debugging.look_inside(settings)
    losses = [float(microbatch.loss_sum) for microbatch in fit(settings).at(0).microbatches]
    np.testing.assert_allclose([float(line) for line in found.disabled], losses, rtol=1e-5)
    assert len(found.jitted) == 1 and "Tracer" in found.jitted[0]
    assert found.microbatches == 4 and found.seconds_disabled > found.seconds_jitted > 0
    many = Settings(task="linear", batch_size=60, microbatches=60)
    assert len(debugging.look_inside(many).disabled) == debugging.MOST


def test_a_measurement_in_a_process_of_its_own_tells_everything():
    tables_known = Settings(task="linear", batch_size=8, microbatches=2, steps=16)
    *before, last = Apart(tables_known)
    assert any(known.doing.startswith("compiling") for known in before)
    shares = [known.share for known in [*before, last]]
    assert shares == sorted(shares) and shares[-1] == 1 and last.doing == ""
    assert [row.loop for row in last.loops] == [name for name in HERE if applies(name, tables_known)]
    for measured in last.loops:
        assert len(measured.seconds) >= 3 and min(measured.compile_seconds) > 0.005, "compiled, not remembered"
    assert [int(row.loop) for row in last.chunks][:3] == [1, 4, 16] and last.stacking and last.debugging
    assert from_dict(json.loads(json.dumps(to_dict(last)))) == last


def test_a_measurement_is_stopped_where_it_stands():
    apart = Apart(Settings(task="names"))
    seen = []
    for known in apart:
        seen.append(known)
        apart.stop()
    assert seen and seen[-1].doing


def test_a_process_that_refuses_or_fails_says_why(monkeypatch):
    with pytest.raises(SettingsError, match="clip=value: loops are compared at clip=none"):
        list(Apart(Settings(clip="value")))
    monkeypatch.setitem(cache.UNCACHED, "JAX_PLATFORMS", "abacus")
    with pytest.raises(RuntimeError, match="abacus"):
        list(Apart(Settings(task="scalar")))


def test_an_own_table_goes_along(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("a,b\n" + "\n".join(f"{k},{3 * k % 7}" for k in range(40)))
    settings = Settings(task="table", table=read_table(file), target="b", batch_size=8, microbatches=2, steps=16)
    apart = Apart(settings)
    for known in apart:
        if known.loops:
            apart.stop()
            assert known.loops[0].loop == "ours"
            return
    raise AssertionError("nothing was timed")


def test_what_cannot_be_compared_is_left_out_and_named():
    kept: dict[str, Any] = dict(microbatches=4, seed=3, clip_threshold=0.5, optimizer="adamw", weight_decay=0.3)
    compared, dropped = plain(Settings(clip="global_norm", reduction="sum", **kept))
    assert compared == Settings(**kept) and dropped == ["reduction", "clip"]
    Work(compared)
    assert plain(Settings()) == (Settings(), [])
