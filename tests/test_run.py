"""Runs: the same bits however they are cut, watched, stopped or replayed; one trace; and they learn."""

from typing import Any

import jax
import numpy as np
import pytest

from lab import Run, Settings, fit, plan
from lab.plan import Plan
from lab.program import BLOCK
from lab.run import Training

RUNS: dict[str, dict[str, Any]] = {
    "digits": dict(hidden="16", batch_size=100, microbatches=3, steps=75, optimizer="adamw", schedule="one_cycle"),
    "linear": dict(batch_size=30, microbatches=4, steps=100, optimizer="momentum", schedule="linear", clip="value"),
    "scalar": dict(xs="1,2,3,4,5", microbatches=3, steps=50, optimizer="lion", clip="value", clip_at="microbatch"),
}  # fmt: skip
PARTS = ("record", "held_out")


def settings_of(task: str, **changes: Any) -> Settings:
    return Settings(task=task, **{**RUNS[task], **changes})


def assert_same(one: Any, other: Any):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


def assert_same_run(one: Run, other: Run):
    assert_same(one.params, other.params)
    for part in PARTS:
        assert_same(dict(getattr(one, part)), dict(getattr(other, part)))


@pytest.mark.parametrize("task", RUNS)
def test_a_watched_run_is_bit_identical(task):
    seen = []
    watched = fit(settings_of(task), progress=seen.append)
    assert_same_run(fit(settings_of(task)), watched)
    assert not watched.stopped and seen[-1].step == seen[-1].steps == RUNS[task]["steps"]
    for progress in seen:
        assert_same(dict(progress.record()), {k: v[: progress.record().length] for k, v in watched.record.items()})
        assert progress.step >= 1 and np.isfinite(progress.remaining) and progress.remaining >= 0


@pytest.mark.parametrize("task", RUNS)
@pytest.mark.parametrize("pieces", [[1], [5, 11], [17, 3, 30], [16], [15, 1, 1]])
def test_a_run_cut_anywhere_is_bit_identical(task, pieces):
    training, turn = Training(Plan(settings_of(task))), 0
    while not training.done:
        training.advance(pieces[turn % len(pieces)])
        turn += 1
    whole = Training(Plan(settings_of(task)))
    whole.advance(whole.plan.settings.steps)
    assert_same_run(whole.run(), training.run())
    assert_same(whole.snapshots(), training.snapshots())


@pytest.mark.parametrize("task", RUNS)
def test_the_same_settings_are_the_same_run(task):
    assert_same_run(fit(settings_of(task)), fit(settings_of(task)))


@pytest.mark.parametrize("task", ["linear", "digits"])
def test_another_seed_is_another_run(task):
    one, other = fit(settings_of(task)), fit(settings_of(task, seed=1))
    assert not np.array_equal(one.record["loss"], other.record["loss"])


@pytest.mark.parametrize("task", RUNS)
def test_a_stopped_run_is_the_beginning_of_the_whole(task):
    whole, stopped = fit(settings_of(task)), fit(settings_of(task), progress=lambda progress: progress.step < 7)
    done = stopped.record.length
    assert stopped.stopped and 7 <= done < whole.record.length
    assert_same(dict(stopped.record), {name: column[:done] for name, column in whole.record.items()})
    assert_same(stopped.params, whole.state(done).params)
    assert_same(stopped.state(done - 1), whole.state(done - 1))
    with pytest.raises(ValueError, match=f"updates 0 to {done - 1}"):
        stopped.at(done)


@pytest.mark.parametrize("task", RUNS)
@pytest.mark.parametrize("step", [0, 1, 15, 16, 17, 33, 49])
def test_any_state_is_what_a_run_of_that_length_ended_in(task, step):
    run, training = fit(settings_of(task)), Training(Plan(settings_of(task)))
    if step:
        training.advance(step)
    assert_same(run.state(step), jax.tree.map(lambda leaf: np.asarray(leaf)[0], training.state))


@pytest.mark.parametrize("task", RUNS)
def test_the_state_after_the_last_update_has_the_final_parameters(task):
    run = fit(settings_of(task))
    assert_same(run.state(run.record.length).params, run.params)


@pytest.mark.parametrize("task", RUNS)
def test_an_opened_update_is_the_one_that_happened(task):
    run = fit(settings_of(task))
    for step in (0, 16, 30, 49):
        update = run.at(step)
        loss = sum(entry.loss_sum for entry in update.microbatches) / sum(entry.weight for entry in update.microbatches)
        np.testing.assert_allclose(loss, run.record["loss"][step], rtol=1e-6)
        np.testing.assert_allclose(update.stages["learning_rate"].norm, run.record["update_norm"][step], rtol=1e-6)
        assert update.learning_rate == run.record["learning_rate"][step] and update.step == step
    for step in (-1, run.record.length):
        with pytest.raises(ValueError, match=f"step={step}: this run has updates 0 to {run.record.length - 1}"):
            run.at(step)


@pytest.mark.parametrize("task", RUNS)
def test_many_windows_are_bit_identical_to_one(task, monkeypatch):
    whole = fit(settings_of(task))
    monkeypatch.setattr(plan, "WINDOW", 32)
    assert Plan(settings_of(task)).window == 32
    parts, watched = fit(settings_of(task)), fit(settings_of(task), progress=lambda progress: None)
    assert_same_run(whole, parts)
    assert_same_run(whole, watched)
    for step in (0, 31, 32, 33, 49):
        assert_same(parts.state(step), whole.state(step))
    assert parts.at(40).to_dict()["update"]["norm"] == whole.at(40).to_dict()["update"]["norm"]


def test_a_large_batch_has_shorter_windows_of_whole_blocks(monkeypatch):
    monkeypatch.setattr(plan, "WINDOW_EXAMPLES", 5000)
    assert Plan(settings_of("digits")).window == 48
    assert Plan(settings_of("digits", batch_size=1442)).window == BLOCK
    assert_same(fit(settings_of("digits")).record["step"], np.arange(75))


@pytest.mark.parametrize(("window", "slots"), [(16_384, 32), (16_384, 3), (16_384, 1), (32, 8), (48, 2)])
def test_snapshots_stay_within_their_memory(window, slots, monkeypatch):
    settings = settings_of("digits")
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(Plan(settings).start))
    monkeypatch.setattr(plan, "WINDOW", window)
    monkeypatch.setattr(plan, "SNAPSHOT_BYTES", slots * size + size // 2)
    training = Training(Plan(settings))
    while not training.done:
        training.advance(1000)
    kept = training.snapshots()
    assert 0 in kept and all(step % BLOCK == 0 for step in kept) and len(kept) <= slots
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(kept)) <= plan.SNAPSHOT_BYTES
    assert_same(training.run().state(74), fit(settings).state(74))


def test_a_run_of_many_windows_keeps_to_the_memory_of_one(monkeypatch):
    settings = settings_of("digits")
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(Plan(settings).start))
    monkeypatch.setattr(plan, "WINDOW", 16)
    monkeypatch.setattr(plan, "SNAPSHOT_BYTES", 2 * size)
    training = Training(Plan(settings))
    while not training.done:
        training.advance(1000)
    assert len(training.snapshots()) <= 2


def test_held_out_examples_are_measured_before_every_block_and_at_the_end():
    run = fit(settings_of("digits"))
    assert run.held_out["step"].tolist() == [0, 16, 32, 48, 64, 75]
    assert run.final["held_out_accuracy"] == run.held_out["accuracy"][-1]
    assert run.final["held_out_loss"] == run.held_out["loss"][-1] and run.final["loss"] == run.record["loss"][-1]
    assert fit(settings_of("digits", steps=64)).held_out["step"].tolist() == [0, 16, 32, 48, 64]
    assert fit(settings_of("scalar")).held_out["step"].tolist() == []


def test_seconds_are_told():
    seconds = fit(settings_of("linear")).seconds
    assert set(seconds) == {"compile", "run", "per_update"} and min(seconds.values()) >= 0
    assert seconds["per_update"] == pytest.approx(seconds["run"] / 100)
