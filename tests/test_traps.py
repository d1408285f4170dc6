"""Families A and G of known mistakes: the right number by the lab's settings, the wrong one by the mistake itself.

Where a setting makes the mistake, the setting is used; where only a library does, optax is asked.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lab import Settings, fit, mlp
from lab.losses import cross_entropy
from lab.reduction import contribution, finish
from lab.tasks import names


def hand(gradients: str, **keys: Any):
    """The first update of gradients typed by hand."""
    return fit(Settings(task="hand", gradients=gradients, steps=1, **keys)).at(0)


def applied(gradients: str, **keys: Any) -> list[float]:
    return np.asarray(hand(gradients, **keys).applied.values).tolist()


def by_multisteps(inner: Any, gradients: list, steps: int, params: Any = None, **keys: Any) -> tuple[list, Any]:
    """The updates optax.MultiSteps gives for a gradient each time, and its last state."""
    wrapped = optax.MultiSteps(inner, steps, **keys)
    params = jnp.zeros_like(jnp.asarray(gradients[0])) if params is None else params
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        state, updates = wrapped.init(params), []
        for gradient in gradients:
            update, state = wrapped.update(jnp.asarray(gradient, params.dtype), state, params)
            updates.append(np.asarray(update, np.float64))
    return updates, state


@pytest.mark.parametrize(
    ("gradients", "right", "wrong"),
    [("4/2,2,2", 2.5, 3), (",".join([".5"] * 100) + "/" + ",".join([".3"] * 900), 0.32, 0.4)],
    ids=["1 and 3 tokens", "100 and 900 tokens"],
)
def test_a01_averaging_means_of_uneven_microbatches(gradients, right, wrong):
    for kind, value in (("mean", right), ("mean_of_means", wrong)):
        update = hand(gradients, reduction=kind)
        assert update.reductions[kind].values == pytest.approx([value], rel=1e-5)
        run = fit(Settings(task="hand", gradients=gradients, reduction=kind, steps=1))
        assert run.record["objective"][0] == pytest.approx(value, rel=1e-5)


def test_a03_a_fully_masked_microbatch_is_neither_nan_nor_counted():
    sums, weights = jnp.float32([6, 0]), jnp.float32([3, 0])

    def reduced(kind):
        total = sum(contribution(kind, s, w) for s, w in zip(sums, weights, strict=True))
        return float(finish(kind, total, weights.sum(), 2))

    assert (reduced("mean"), reduced("mean_of_means")) == (2, 1)


def test_a04_what_is_guarded_has_a_finite_gradient():
    def unguarded(n):
        return jnp.where(n > 0, 6 / n, 0)

    assert np.isnan(jax.grad(unguarded)(jnp.float32(0)))
    run = fit(Settings(task="scalar", xs="1,2,3", microbatches=8, steps=1, clip="global_norm", clip_at="microbatch"))
    assert run.record["finite"].all()
    zero = fit(Settings(task="hand", gradients="0:0/0:0", clip="global_norm", steps=1))
    assert zero.record["finite"].all() and zero.record["grad_norm"][0] == 0


def test_a05_and_a06_dividing_twice_or_never():
    twos = "2/2/2/2"
    assert hand(twos).reductions["mean"].values == [2] and hand(twos, reduction="sum").reductions["sum"].values == [8]
    for kind in ("mean", "sum"):
        first = applied(twos, reduction=kind, optimizer="adam", learning_rate=0.1)
        assert first == pytest.approx([-0.099999], abs=1e-6)
    assert applied("0.5", optimizer="adam", learning_rate=0.1) == pytest.approx([-0.099999], abs=1e-6)


def test_a07_dividing_by_the_devices_too():
    keys: dict[str, Any] = dict(devices=2)
    assert hand("4/2,2,2", **keys).device_reductions["global"].values == [2.5]
    assert hand("4/2,2,2", device_reduction="mean", **keys).device_reductions["mean"].values == [3]


def test_a08_multisteps_weighs_uneven_microbatches_alike():
    for kind, want in (("mean", -2.5), ("mean_of_means", -3), ("sum_of_means", -6)):
        assert applied("4/2,2,2", reduction=kind, learning_rate=1) == [want]
    assert by_multisteps(optax.sgd(1.0), [4.0, 2.0], 2)[0][-1] == -3
    assert by_multisteps(optax.sgd(1.0), [4.0, 2.0], 2, use_grad_mean=False)[0][-1] == -6
    assert by_multisteps(optax.sgd(1.0), [4.0 * 2 / 4, 2.0 * 3 * 2 / 4], 2)[0][-1] == -2.5


def test_a09_a_window_that_is_not_full():
    """Five gradients, two to a window: MultiSteps keeps the last back; a batch of everything divides by what it has."""
    updates, state = by_multisteps(optax.sgd(0.1), [1.0, 2.0, 3.0, 4.0, 5.0], 2)
    assert np.sum(updates) == pytest.approx(-0.5) and float(state.acc_grads) == 5
    whole = [applied(window, learning_rate=0.1)[0] for window in ("1/2", "3/4", "5")]
    assert sum(whole) == pytest.approx(-1)
    short = fit(Settings(task="scalar", xs="1,2,3,4,5", microbatches=2, steps=1)).at(0)
    assert [m.examples for m in short.microbatches] == [3, 2]
    assert short.reductions["mean"].values == pytest.approx([2 * (1 + 4 + 9 + 16 + 25) / 5])


def test_a10_clipping_before_the_sum():
    """apply_every clips each gradient and then adds: -1, -1 for 3, 0 and 0, 4, where the clipped mean is 0.6, 0.8."""
    keys: dict[str, Any] = dict(clip="global_norm", learning_rate=1)
    assert applied("3:0/0:4", **keys) == pytest.approx([-0.6, -0.8])
    assert applied("3:0/0:4", clip_at="microbatch", reduction="sum", **keys) == pytest.approx([-1, -1])
    with jax.numpy_dtype_promotion("standard"):
        chain = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(1.0), optax.apply_every(2))
        state = chain.init(jnp.zeros(2))
        _, state = chain.update(jnp.array([3.0, 0.0]), state)
        assert np.asarray(chain.update(jnp.array([0.0, 4.0]), state)[0]).tolist() == pytest.approx([-1, -1])


def test_a11_weight_decay_on_every_microbatch():
    keys: dict[str, Any] = dict(optimizer="adamw", weight_decay=0.1, learning_rate=0.1)
    once = fit(Settings(task="hand", gradients="0/0/0/0", steps=1, **keys))
    each = fit(Settings(task="hand", gradients="0", steps=4, **keys))
    assert once.params["w"] == pytest.approx(0.99) and each.params["w"] == pytest.approx(0.9606, abs=1e-4)


def test_a12_moments_on_every_microbatch():
    keys: dict[str, Any] = dict(optimizer="adam", learning_rate=0.1, w="0")
    once = fit(Settings(task="hand", gradients="3/-1", steps=1, **keys))
    assert once.params["w"] == pytest.approx(-0.099999, abs=1e-6)
    with jax.numpy_dtype_promotion("standard"):
        adam = optax.adam(0.1)
        state, total = adam.init(jnp.float32(0)), 0.0
        for gradient in (3.0, -1.0):
            update, state = adam.update(jnp.float32(gradient), state)
            total += np.asarray(update).item()
    assert total == pytest.approx(-0.14002, abs=1e-5)


def test_a13_a_sum_of_ones_stops_in_half_precision():
    ones = "/".join(["1"] * 512)
    for dtype, mean in (("float32", 1), ("bfloat16", 0.5), ("float16", 1)):
        assert applied(ones, accumulator_dtype=dtype, learning_rate=1) == [-mean]
    assert applied("2048" + "/1" * 512, accumulator_dtype="float16", learning_rate=1) == [-np.float32(2048) / 513]


@pytest.mark.parametrize(("dtype", "wrong"), [("bfloat16", -2.5938), ("float16", -1.0312)])
def test_a14_a_running_mean_in_half_precision(dtype, wrong):
    def mean(accumulator):
        total = accumulator(1024)
        for n in range(2, 1025):
            total = accumulator(total + accumulator((accumulator(0) - total) / accumulator(n)))
        return -float(total)

    assert mean(jnp.dtype(dtype).type) == pytest.approx(wrong, rel=0.01)
    sums = "1024" + "/0" * 1023
    assert applied(sums, accumulator_dtype=dtype, learning_rate=1) == [-1]


def test_a15_one_nan_and_nothing_is_learned_again():
    updates, _ = by_multisteps(optax.sgd(0.1), [np.nan, 1.0, 1.0, 1.0, 1.0, 1.0], 2)
    assert np.isnan(updates[-1])
    run = fit(Settings(task="scalar", xs="1,nan", ys="0", steps=3))
    assert not run.record["finite"].any() and np.isnan(run.params["w"])
    skipping = fit(Settings(task="scalar", xs="1,nan", ys="0", steps=3, loss_scaling="dynamic"))
    assert skipping.record["skipped"].all() and skipping.params["w"] == 1


def test_a17_nothing_is_multiplied_by_0_to_be_left_out():
    """MultiSteps evaluates Adam on every mini-step and multiplies by 0; an update here is made once, when it is due."""
    settings = Settings(task="hand", gradients="0/0", param_dtype="float16", optimizer="sgd", steps=1)
    with jax.disable_jit():
        assert fit(settings).params["w"] == 1
    assert fit(settings).params["w"] == 1


def test_a18_the_size_of_a_microbatched_gradient():
    cut = fit(Settings(task="hand", gradients="1,2/3,10", steps=1)).at(0)
    assert cut.reductions["mean"].values == [4] and cut.reductions["sum_of_means"].values == [8]
    assert [m.examples for m in hand("1,2/3").microbatches] == [2, 1] and hand("1,2/3").reductions["mean"].values == [2]


def test_a20_labels_that_stand_for_nothing():
    scores = jnp.zeros((2, 2))
    with jax.numpy_rank_promotion("allow"):
        plain = optax.softmax_cross_entropy_with_integer_labels(scores, jnp.array([1, -100]))
    assert np.isnan(plain[1])
    assert np.asarray(cross_entropy(scores[:1], jnp.array([1])))[0] == pytest.approx(0.69315, abs=1e-5)
    params = names.task(Settings(task="names")).init(jax.random.key(0))
    spelled = names.arrays(("DOT",))
    batch = {name: jnp.asarray(array) for name, array in spelled.items()}
    masked = names.token_losses(params, batch | {"x": batch["x"].at[0, 4:].set(-100)})
    np.testing.assert_array_equal(masked, names.token_losses(params, batch))
    assert np.count_nonzero(masked) == 4


def test_g01_a_batch_norm_of_each_microbatch():
    run = fit(Settings(task="digits", norm="batch", steps=1, hidden="16"))
    assert run.at(0).agreement.relative_error > 1e-2
    assert fit(Settings(task="digits", norm="layer", steps=1, hidden="16")).at(0).agreement.relative_error < 2e-6


def test_g02_running_statistics_that_move_with_every_microbatch():
    """What is left of the first statistics after one update in four microbatches: 0.9, and not 0.9^4."""
    keys: dict[str, Any] = dict(task="points", norm="batch", hidden="3", batch_size=400, order="fixed", steps=2)
    left = fit(Settings(microbatches=4, **keys)).state(1).statistics[0] - 0.1 * _seen(keys)
    np.testing.assert_allclose(left[1], 0.9, atol=1e-5)


def _seen(keys: dict[str, Any]) -> np.ndarray:
    """Mean of x and x^2 of the first layer over all examples, by hand."""
    run = fit(Settings(**keys))
    x = run.task.train["x"].astype(np.float64) @ np.asarray(run.state(0).params[0]["weight"], np.float64)
    return np.stack([x.mean(axis=0), (x**2).mean(axis=0)])


def test_g06_keys_split_by_microbatch_are_not_those_of_the_full_batch():
    keys: dict[str, Any] = dict(task="points", dropout=0.5, steps=1)
    for microbatches in (1, 8):
        assert fit(Settings(microbatches=microbatches, **keys)).at(0).agreement.relative_error < 2e-6
    shared = fit(Settings(dropout_keys="shared", microbatches=8, **keys)).at(0)
    assert shared.agreement.relative_error > 1e-2


def test_g07_the_same_mask_at_every_update():
    run = fit(Settings(task="points", dropout=0.5, batch_size=400, learning_rate=0, steps=4))
    assert len(set(run.record["loss"].tolist())) == 4


def test_g09_a_draw_that_does_not_depend_on_the_batch_belongs_to_the_example():
    """Two examples alike in all but their place in the data get different masks, the same ones whatever the cut."""
    ones, keys = jnp.ones((2, 32)), jax.vmap(lambda i: jax.random.fold_in(jax.random.key(0), i))(jnp.arange(2))
    together = mlp.dropout(ones, mlp.Context(jnp.ones(2, bool), keys, jnp.float32(0.5)), 0)
    alone = mlp.dropout(ones[1:], mlp.Context(jnp.ones(1, bool), keys[1:], jnp.float32(0.5)), 0)
    np.testing.assert_array_equal(together[1:], alone)
    assert (together[0] != together[1]).any()
