"""Norms and dropout: what cutting the batch may change, and what it may not."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lab import Settings, fit, mlp, tasks
from lab.findings import of_run, of_update
from lab.microscope import first_of
from lab.plan import Plan
from lab.recipe import Draw, Examples
from lab.step import context
from lab.task import Context


def flat(tree) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def everything(number: int) -> Context:
    return Context(jnp.ones(number, bool))


def by_hand(layers, x: np.ndarray, norm: str, rows: np.ndarray | None = None) -> np.ndarray:
    """The network in float64; batch norm by the mean and variance of `rows`."""
    for layer in layers[:-1]:
        x = x @ np.asarray(layer["weight"], np.float64)
        if norm != "none":
            axis, seen = (1, x) if norm == "layer" else (0, x if rows is None else x[rows])
            x = (x - seen.mean(axis=axis, keepdims=True)) / np.sqrt(seen.var(axis=axis, keepdims=True) + 1e-5)
            x = x * np.asarray(layer["gain"], np.float64)
        x = np.maximum(x + np.asarray(layer["bias"], np.float64), 0)
    return x @ np.asarray(layers[-1]["weight"], np.float64) + np.asarray(layers[-1]["bias"], np.float64)


@pytest.mark.parametrize("norm", ["none", "layer", "batch"])
def test_the_network_is_the_one_written_out(norm):
    draw = np.random.default_rng(0)
    params = mlp.init(jax.random.key(3), (5, 7, 6, 3), norm)
    params = jax.tree.map(lambda x: x + draw.standard_normal(x.shape).astype(np.float32), params)
    x = draw.standard_normal((12, 5)).astype(np.float32)
    got, observed = mlp.outputs(params, jnp.asarray(x), everything(12), norm)
    np.testing.assert_allclose(got, by_hand(params, x.astype(np.float64), norm), rtol=2e-4, atol=2e-4)
    assert len(observed) == (2 if norm == "batch" else 0)


def test_places_that_are_not_filled_do_not_count_in_a_batch_norm():
    draw = np.random.default_rng(1)
    x = draw.standard_normal((6, 4)).astype(np.float32)
    filled = np.array([True, True, False, True, False, False])
    normed, sums = mlp.batch_norm(jnp.asarray(x), jnp.asarray(filled), None)
    some = x[filled].astype(np.float64)
    want = (some - some.mean(axis=0)) / np.sqrt(some.var(axis=0) + 1e-5)
    np.testing.assert_allclose(np.asarray(normed)[filled], want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(sums, [some.sum(axis=0), (some**2).sum(axis=0)], rtol=1e-5)


def test_a_microbatch_with_nothing_in_it_has_a_finite_norm_and_gradient():
    def total(x):
        return mlp.batch_norm(x, jnp.zeros(3, bool), None)[0].sum()

    assert np.isfinite(jax.grad(total)(jnp.ones((3, 2)))).all()


def test_batch_norm_of_two_microbatches_is_not_that_of_the_batch():
    """Inputs 0, 2, 10, 12 with targets 0, 0, 1, 1: 1.0194 at once, 2 in two microbatches."""
    x, t = jnp.array([[0.0], [2.0], [10.0], [12.0]]), jnp.array([[0.0], [0.0], [1.0], [1.0]])

    def gradient(x, t):
        y, _ = mlp.batch_norm(x, jnp.ones(len(x), bool), None)
        return jax.grad(lambda w: ((w * y - t) ** 2).sum())(jnp.float32(1))

    assert float(gradient(x, t)) / 4 == pytest.approx(1.0194, abs=1e-4)
    assert float(gradient(x[:2], t[:2]) + gradient(x[2:], t[2:])) / 4 == pytest.approx(2, abs=1e-4)


@pytest.mark.parametrize(("devices", "microbatches"), [(1, 4), (2, 2)])
def test_layer_norm_agrees_with_the_full_batch_and_batch_norm_does_not(devices, microbatches):
    keys: dict[str, Any] = dict(task="points", batch_size=60, devices=devices, microbatches=microbatches, steps=3)
    layer, batch = (fit(Settings(norm=norm, **keys)).at(2) for norm in ("layer", "batch"))
    assert layer.agreement.relative_error < 2e-6
    assert batch.agreement.relative_error > 1e-2
    (finding,) = of_update(batch)
    assert finding.level == "note" and finding.cure == {"norm": "layer"}
    assert f"each of the {devices * microbatches} microbatches" in finding.text
    assert f"{batch.agreement.relative_error * 100:.3g} % off" in finding.text


def test_batch_norm_in_one_piece_is_the_full_batch():
    update = fit(Settings(task="points", norm="batch", microbatches=1, steps=3)).at(2)
    assert update.agreement.relative_error < 1e-5
    assert of_update(update)[0].level == "ok"


@pytest.mark.parametrize(("devices", "microbatches"), [(1, 1), (1, 4), (2, 2), (2, 4)])
def test_running_statistics_move_once_an_update_by_a_tenth_to_those_of_all_its_examples(devices, microbatches):
    settings = Settings(
        task="points", norm="batch", hidden="5", batch_size=50, devices=devices, microbatches=microbatches, steps=2
    )
    run, plan = fit(settings), Plan(settings)
    rows = np.asarray(plan.inputs(0, plan.start).examples.rows)[np.asarray(plan.share.filled)]
    x = plan.task.train["x"][rows].astype(np.float64) @ np.asarray(first_of(plan.start.params)[0]["weight"], np.float64)
    seen = np.stack([x.mean(axis=0), (x**2).mean(axis=0)])
    for device in range(devices):
        (got,) = run.state(1, device).statistics
        np.testing.assert_allclose(got, 0.9 * np.stack([np.zeros(5), np.ones(5)]) + 0.1 * seen, rtol=1e-5)


def test_statistics_of_devices_are_those_of_all_examples_together():
    """0, 0 on one device and 2, 2 on the other: variance 1, where each device by itself sees 0."""
    x = np.array([[0.0], [0.0], [2.0], [2.0]], np.float32)
    together = mlp.batch_norm(jnp.asarray(x), jnp.ones(4, bool), None)
    np.testing.assert_allclose(together[0].ravel(), [-0.99999, -0.99999, 0.99999, 0.99999], atol=1e-5)
    halves = [mlp.batch_norm(jnp.asarray(half), jnp.ones(2, bool), None) for half in (x[:2], x[2:])]
    assert not any(np.asarray(normed).any() for normed, _ in halves)
    mean, square = np.sum([sums for _, sums in halves], axis=0) / 4
    assert float(square[0] - mean[0] ** 2) == 1


def test_devices_that_forgot_to_meet_remember_their_own_statistics():
    keys: dict[str, Any] = dict(task="points", norm="batch", devices=2, steps=2)
    apart = fit(Settings(device_reduction="none", **keys))
    first, second = (flat(apart.state(1, device).statistics) for device in (0, 1))
    assert np.abs(first - second).max() > 1e-3
    together = fit(Settings(**keys))
    first, second = (flat(together.state(1, device).statistics) for device in (0, 1))
    np.testing.assert_array_equal(first, second)


def test_held_out_examples_are_measured_by_the_running_statistics():
    settings = Settings(task="points", norm="batch", steps=40, batch_size=100)
    run = fit(settings)
    held_out = tasks.load(settings).held_out
    assert held_out is not None
    state = run.state(32)
    x = held_out["x"].astype(np.float64)
    for layer, (mean, square) in zip(state.params[:-1], state.statistics, strict=True):
        x = (x @ layer["weight"] - mean) / np.sqrt(square - mean**2 + 1e-5) * layer["gain"] + layer["bias"]
        x = np.maximum(x, 0)
    scores = x @ state.params[-1]["weight"] + state.params[-1]["bias"]
    accuracy = (scores.argmax(axis=1) == held_out["y"]).mean()
    assert run.held_out["accuracy"][2] == pytest.approx(accuracy, abs=1e-6)


def masks(dropout_keys: str, rows, update: int = 0, seed: int = 0) -> np.ndarray:
    """What dropout at rate 1/2 leaves of ones, for the examples in rows."""
    settings = Settings(dropout=0.5, dropout_keys=dropout_keys)
    rows = jnp.asarray(rows)
    draw = Draw(jnp.uint32(seed), jnp.int32(update), jnp.float32(0.5))
    given = context(Plan(settings).recipe, Examples({}, rows, jnp.ones(len(rows), bool), draw))
    return np.asarray(mlp.dropout(jnp.ones((len(rows), 64)), given, 0))


def test_distinct_masks_belong_to_examples_and_shared_ones_to_places():
    np.testing.assert_array_equal(masks("distinct", [3, 7, 9])[[0, 2]], masks("distinct", [3, 9]))
    assert (masks("distinct", [3, 7]) != masks("distinct", [4, 8])).any()
    np.testing.assert_array_equal(masks("shared", [3, 7]), masks("shared", [4, 8]))
    assert set(masks("distinct", [0]).ravel()) == {0.0, 2.0}


def test_masks_change_with_the_update_the_seed_and_the_layer():
    first = masks("distinct", [3])
    assert (first != masks("distinct", [3], update=1)).any()
    assert (first != masks("distinct", [3], seed=1)).any()
    one = Context(jnp.ones(1, bool), jax.random.split(jax.random.key(0), 1), jnp.float32(0.5))
    assert (mlp.dropout(jnp.ones((1, 64)), one, 0) != mlp.dropout(jnp.ones((1, 64)), one, 1)).any()


def test_one_mask_for_all_microbatches_does_not_average_out():
    """Rate 1/2, four microbatches of one: dead in the whole update 1/16 of the units, or 1/2; variance 1/4, or 1."""
    for keys, dead, variance in (("distinct", 0.0625, 0.25), ("shared", 0.5, 1.0)):
        factors = np.concatenate(
            [np.concatenate([masks(keys, [row], update) for row in range(4)]).T for update in range(150)]
        )
        assert (factors.sum(axis=1) == 0).mean() == pytest.approx(dead, abs=0.02)
        assert factors.mean(axis=1).var() == pytest.approx(variance, abs=0.03)


CUTS = [(1, 1), (1, 8), (4, 2)]


def test_neither_the_cut_nor_the_devices_change_what_distinct_keys_drop():
    keys: dict[str, Any] = dict(task="points", dropout=0.3, batch_size=48, steps=20)
    runs = [fit(Settings(devices=d, microbatches=m, **keys)) for d, m in CUTS]
    for run in runs:
        assert run.at(7).agreement.relative_error < 2e-6
        np.testing.assert_allclose(flat(run.params), flat(runs[0].params), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("cut", CUTS[1:])
def test_shared_keys_are_off_the_full_batch_and_the_page_says_so(cut):
    devices, microbatches = cut
    run = fit(Settings(task="points", dropout=0.3, dropout_keys="shared", devices=devices, microbatches=microbatches))
    assert run.at(3).agreement.relative_error > 1e-2
    (finding,) = of_update(run.at(3))
    assert finding.cure == {"dropout_keys": "distinct"} and f"all {devices * microbatches} microbatches" in finding.text
    masks = 64 // (devices * microbatches)
    assert any(f"64 examples draws {masks} masks" in found.text for found in of_run(run))


def test_dropout_is_for_training_only():
    settings = Settings(task="points", dropout=0.9, steps=1, seed=4)
    plain = fit(settings.replace(dropout=0))
    dropped = fit(settings)
    assert dropped.held_out["loss"][0] == plain.held_out["loss"][0]
    assert dropped.record["loss"][0] != plain.record["loss"][0]


def test_every_update_draws_anew():
    run = fit(Settings(task="points", dropout=0.5, batch_size=400, learning_rate=0, steps=20))
    assert len(set(run.record["loss"].tolist())) == 20


def test_the_dropout_rate_is_a_number_and_compiles_nothing():
    from lab.program import TRACES

    runs = [fit(Settings(task="points", dropout=rate, steps=5)) for rate in (0.2, 0.4)]
    plans = [Plan(run.settings) for run in runs]
    assert plans[0].recipe == plans[1].recipe and TRACES[plans[0].recipe] == 1
    assert runs[0].record["loss"][0] != runs[1].record["loss"][0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_norms_stand_half_precision(norm, dtype):
    run = fit(Settings(task="points", norm=norm, dropout=0.1, compute_dtype=dtype, steps=60))
    assert run.record["finite"].all()
    assert run.record["loss"][-10:].mean() < run.record["loss"][:10].mean()
