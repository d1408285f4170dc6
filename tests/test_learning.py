"""Numbers move and shapes compile; and the tasks are learned, to answers known from elsewhere."""

from typing import Any

import jax
import numpy as np
import oracle
import pytest

from lab import Settings, fit
from lab.plan import Plan
from lab.program import TRACES

FIRST: dict[str, Any] = dict(
    task="linear", batch_size=71, microbatches=5, clip="global_norm", optimizer="adamw", hidden="17"
)


def traces(settings: Settings) -> int:
    fit(settings)
    return TRACES[Plan(settings).recipe]


@pytest.mark.parametrize(
    "numbers",
    [
        dict(learning_rate=0.5), dict(clip_threshold=0.01), dict(weight_decay=1), dict(seed=9), dict(steps=3),
        dict(steps=2000), dict(schedule="cosine"), dict(schedule="one_cycle", decay_steps=50), dict(noise=2),
        dict(schedule="linear", schedule_counts="microbatches", final_fraction=0.5),
    ],
    ids=str,
)  # fmt: skip
def test_a_number_that_moves_compiles_nothing(numbers):
    before = traces(Settings(**FIRST))
    assert before >= 1
    assert traces(Settings(**FIRST | numbers)) == before


@pytest.mark.parametrize("shape", [dict(batch_size=50), dict(microbatches=6)], ids=str)
def test_a_shape_that_changes_is_another_program_compiled_once(shape):
    first, other = Settings(**FIRST), Settings(**FIRST | shape)
    assert Plan(first).recipe != Plan(other).recipe
    before = traces(first)
    assert traces(other) == 1 == traces(other)
    assert traces(first) == before


@pytest.mark.parametrize(
    "kind", [dict(reduction="sum"), dict(optimizer="lion"), dict(clip="value"), dict(clip_at="microbatch")], ids=str
)
def test_a_kind_that_changes_is_another_program_compiled_once(kind):
    settings = Settings(**FIRST | kind)
    assert Plan(settings).recipe != Plan(Settings(**FIRST)).recipe
    before = TRACES[Plan(settings).recipe]
    assert traces(settings) == before + 1 == traces(settings.replace(learning_rate=0.3))


def test_a_watched_run_and_a_replay_compile_nothing():
    settings = Settings(**FIRST)
    before = traces(settings)
    run = fit(settings, progress=lambda progress: None)
    run.at(37)
    assert TRACES[Plan(settings).recipe] == before


def test_the_state_survives_jax_tree_map():
    for optimizer in ("sgd", "momentum", "adam", "adamw", "lion"):
        state = Plan(Settings(task="linear", optimizer=optimizer)).start
        copy = jax.tree.map(lambda leaf: leaf + 0, state)
        assert type(copy) is type(state) and jax.tree.structure(copy) == jax.tree.structure(state)


def test_digits_are_learned():
    run = fit(Settings())
    assert run.final["held_out_accuracy"] >= 0.95
    assert run.record["loss"][-10:].mean() < 0.05 < 2 < run.record["loss"][0]


def test_the_held_out_numbers_of_digits_agree_with_numpy():
    run = fit(Settings(hidden="12", steps=20))
    params = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(run.params)]
    held_out = run.task.held_out
    assert held_out is not None and len(held_out["y"]) == 355
    loss, _ = oracle.digits(params, {"x": held_out["x"].astype(np.float64), "y": held_out["y"]})
    assert run.final["held_out_loss"] == pytest.approx(loss / 355, rel=1e-5)
    hidden = np.maximum(held_out["x"] @ params[1] + params[0], 0)
    right = (hidden @ params[3] + params[2]).argmax(axis=1) == held_out["y"]
    assert run.final["held_out_accuracy"] == pytest.approx(right.mean(), abs=1e-7)


def test_linear_reaches_the_least_squares_solution():
    run = fit(Settings(task="linear", batch_size=1000, steps=400, noise=1))
    x, y = (run.task.train[name].astype(np.float64) for name in "xy")
    columns = np.column_stack([np.ones(len(x)), x])
    solution, residual, *_ = np.linalg.lstsq(columns, y)
    np.testing.assert_allclose(run.final["params"], solution, atol=2e-6)
    assert run.final["loss"] == pytest.approx(residual[0] / 1000, rel=1e-5)
    held_out = run.task.held_out
    assert held_out is not None
    error = np.column_stack([np.ones(250), held_out["x"]]) @ solution - held_out["y"]
    assert run.final["held_out_loss"] == pytest.approx((error**2).mean(), rel=1e-5)


def test_linear_is_the_same_task_whatever_the_seed():
    one, other = (fit(Settings(task="linear", seed=seed, steps=1)).task.train for seed in (0, 1))
    np.testing.assert_array_equal(one["x"], other["x"])
    np.testing.assert_array_equal(one["y"], other["y"])


def test_scalar_shrinks_by_a_fixed_factor():
    run = fit(Settings(task="scalar", steps=30))
    np.testing.assert_allclose(run.params["w"], (1 - 2 * 0.01 * 7.5) ** 30, rtol=1e-5)


@pytest.mark.parametrize("microbatches", [1, 2, 5, 64])
def test_the_mean_learns_the_same_however_the_batch_is_cut(microbatches):
    one, cut = (fit(Settings(task="linear", batch_size=64, microbatches=m, steps=50)) for m in (1, microbatches))
    np.testing.assert_allclose(cut.record["loss"], one.record["loss"], rtol=1e-5)
    np.testing.assert_allclose(cut.final["params"], one.final["params"], atol=2e-6)


def test_the_mean_of_means_learns_something_else_where_microbatches_are_uneven():
    keys: dict[str, Any] = dict(task="linear", batch_size=9, microbatches=8, steps=50)
    right, wrong = fit(Settings(**keys)), fit(Settings(**keys, reduction="mean_of_means"))
    assert abs(right.record["loss"] - wrong.record["loss"]).max() > 0.01


def test_divergence_is_recorded_and_not_repaired():
    run = fit(Settings(task="scalar", learning_rate=1, steps=200))
    first = np.flatnonzero(~run.record["finite"])[0]
    assert 0 < first < 60 and not run.record["finite"][first:].any() and run.record["finite"][:first].all()


@pytest.mark.parametrize(("large", "end"), [("3e38", -np.inf), ("-3e38", np.inf)])
def test_numbers_whose_squares_leave_float32_are_infinite_without_a_warning(large, end):
    run = fit(Settings(task="scalar", xs=f"{large},1", steps=2))
    assert not run.record["finite"].any()
    run = fit(Settings(task="hand", gradients=f"{large},{large}/1", steps=2))
    assert run.params["w"].tolist() == [end]
