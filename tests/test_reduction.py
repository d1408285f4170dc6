"""Sums and weights to one gradient: the right division, and the wrong ones that people really make."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import Settings, fit, reduction
from lab.choices import REDUCTIONS


def reduce(kind: str, sums, weights, dtype=jnp.float32) -> np.ndarray:
    """Microbatch by microbatch, as the accumulator does it."""
    total = jnp.zeros(np.shape(sums[0]), dtype)
    for one, weight in zip(sums, weights, strict=True):
        total = total + reduction.contribution(kind, jnp.asarray(one, dtype), jnp.float32(weight))
    return np.asarray(reduction.finish(kind, total, jnp.float32(sum(weights)), len(sums)))


def moved(**keys) -> list[float]:
    """How far one update at rate 1 goes against the gradient: the gradient itself, for sgd."""
    settings = Settings(**{"task": "hand", "steps": 1, "learning_rate": 1, "w": 0} | keys)
    return (-fit(settings).params["w"]).tolist()


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 9)), min_size=1, max_size=8), st.sampled_from(REDUCTIONS)
)
def test_reductions_agree_with_their_definitions(pieces, kind):
    sums = [np.array([g, -2.0 * g, 1.0]) * (weight > 0) for g, weight in pieces]
    weights = [weight for _, weight in pieces]
    if not any(weights):
        assert reduce(kind, sums, weights).tolist() == [0, 0, 0]
        return
    (want,) = oracle.reduced(kind, [[x] for x in sums], weights)
    np.testing.assert_allclose(reduce(kind, sums, weights), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("sums", "weights", "values"),
    [
        ([4, 6], [1, 3], {"mean": 2.5, "sum": 10, "mean_of_means": 3, "sum_of_means": 6}),
        ([50, 270], [100, 900], {"mean": 0.32, "sum": 320, "mean_of_means": 0.4, "sum_of_means": 0.8}),
        ([6, 0], [3, 0], {"mean": 2, "sum": 6, "mean_of_means": 1, "sum_of_means": 2}),
        ([3, 13], [2, 2], {"mean": 4, "sum": 16, "mean_of_means": 4, "sum_of_means": 8}),
        ([8, 8, 8, 8], [4, 4, 4, 4], {"mean": 2, "sum": 32, "mean_of_means": 2, "sum_of_means": 8}),
        ([0, 0], [0, 0], {"mean": 0, "sum": 0, "mean_of_means": 0, "sum_of_means": 0}),
    ],
)
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_reductions_worked_out_by_hand(sums, weights, values, kind):
    np.testing.assert_allclose(reduce(kind, [[x] for x in sums], weights), [values[kind]], rtol=1e-6)


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_a_microbatch_of_weight_0_adds_nothing_whatever_its_sums(kind, poison):
    assert reduction.contribution(kind, jnp.float32([poison, 1]), jnp.float32(0)).tolist() == [0, 0]


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32])
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_the_dtype_of_the_gradient_is_kept(kind, dtype):
    tree = {"a": jnp.ones(3, dtype), "b": jnp.ones((), jnp.float32)}
    part = reduction.contribution(kind, tree, jnp.float32(2))
    whole = reduction.finish(kind, part, jnp.float32(2), 1)
    assert jax.tree.map(lambda x: x.dtype, whole) == jax.tree.map(lambda x: x.dtype, tree)


@pytest.mark.parametrize(("kind", "value"), [("mean", 2.5), ("sum", 10), ("mean_of_means", 3), ("sum_of_means", 6)])
def test_one_long_token_among_three_short_ones(kind, value):
    assert moved(gradients="4/2,2,2", reduction=kind) == [value]


def test_an_opened_update_shows_all_four_reductions_and_the_one_it_used():
    want = {"mean": 0.32, "sum": 32, "mean_of_means": 0.4, "sum_of_means": 0.8}
    gradients = ",".join(["0.5"] * 10) + "/" + ",".join(["0.3"] * 90)
    for kind in REDUCTIONS:
        opened = fit(Settings(task="hand", gradients=gradients, reduction=kind, steps=1)).at(0)
        assert {name: vector.values.item() for name, vector in opened.reductions.items()} == pytest.approx(
            want, rel=1e-5
        )
        np.testing.assert_allclose(opened.stages["reduce_microbatches"].values, [want[kind]], rtol=1e-5)
        np.testing.assert_allclose(opened.reference.values, [0.32], rtol=1e-6)


def test_uneven_microbatches_as_multisteps_has_them():
    grads, params = [4.0, 2.0], jnp.float32(0)
    for use_mean, kind in ((True, "mean_of_means"), (False, "sum_of_means")):
        rule = optax.MultiSteps(optax.sgd(1.0), every_k_schedule=2, use_grad_mean=use_mean)
        w, state = params, rule.init(params)
        with jax.numpy_dtype_promotion("standard"):
            for grad in grads:
                updates, state = rule.update(jnp.float32(grad), state, w)
                w = optax.apply_updates(w, updates)
        assert moved(gradients="4/2,2,2", reduction=kind) == [-float(w)]  # pyright: ignore[reportArgumentType]
        assert moved(gradients="4/2,2,2") == [2.5] != [-float(w)]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "cut", ["3,1,2,6,3,1,5,3", "3,1,2,6/3,1,5,3", "3,1/2,6/3,1/5,3", "3/1/2/6/3/1/5/3", "3/1,2,6,3,1,5/3"]
)
def test_the_mean_does_not_depend_on_the_cut(cut):
    assert moved(gradients=cut) == [3]


def test_a_sum_grows_with_the_number_of_examples_and_adam_hides_it():
    two = "2/2/2/2"
    assert [moved(gradients=two, reduction=kind) for kind in REDUCTIONS] == [[2], [8], [2], [8]]
    for kind in REDUCTIONS:
        np.testing.assert_allclose(
            moved(gradients=two, reduction=kind, optimizer="adam", learning_rate=0.1), [0.1], rtol=1e-5
        )


def test_the_float32_accumulator_does_not_stop_where_half_precision_does():
    ones = "/".join(["1"] * 512)
    assert moved(gradients=ones) == [1] and moved(gradients=ones, reduction="sum") == [512]
    for dtype, stops in ((jnp.bfloat16, 256), (jnp.float16, 2048)):
        assert reduce("sum", np.ones(2 * stops), np.ones(2 * stops), dtype) == stops


@pytest.mark.parametrize(
    ("kind", "value"), [("mean", 28 / 3), ("sum", 28), ("mean_of_means", 3.5), ("sum_of_means", 28)]
)
def test_three_examples_in_eight_microbatches(kind, value):
    run = fit(Settings(task="scalar", xs="1,2,3", microbatches=8, reduction=kind, steps=1))
    np.testing.assert_allclose(run.record["grad_norm"], [value], rtol=1e-6)
    np.testing.assert_allclose(run.record["loss"], [14 / 3], rtol=1e-6)
    assert run.record["finite"].all()


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_an_empty_microbatch_is_not_poisoned_by_its_padding(kind):
    run = fit(Settings(task="scalar", xs="1,2,1e30", ys="0,0,1e30", microbatches=8, reduction=kind, steps=1))
    assert run.record["finite"].all() and np.isfinite(run.record["grad_norm"]).all()


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_a_gradient_that_is_not_a_number_stays_one(kind):
    run = fit(Settings(task="hand", gradients="nan/1,1", reduction=kind, steps=2))
    assert np.isnan(run.params["w"]).all() and not run.record["finite"].any()
    run = fit(Settings(task="hand", gradients="1/inf,1", reduction=kind, steps=2))
    assert run.params["w"].tolist() == [-np.inf] and not run.record["finite"].any()
