"""Update rules against NumPy and against optax's own complete optimizers, and what they must do once an update."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import oracle
import pytest

from lab import Settings, fit, optimizers
from lab.choices import OPTIMIZERS

RATE, DECAY = 0.05, 0.3
WHOLE = {
    "sgd": optax.sgd(RATE),
    "momentum": optax.sgd(RATE, momentum=0.9),
    "adam": optax.adam(RATE),
    "adamw": optax.adamw(RATE, weight_decay=DECAY),
    "lion": optax.lion(RATE, weight_decay=DECAY),
}
START = [np.array([0.5, -2.0, 0.0]), np.array(1.5)]
GRADIENTS = [
    [1.5 * np.random.default_rng(i).standard_normal(3), np.random.default_rng(i).standard_normal() * np.ones(())]
    for i in range(12)
]


def narrow(tensors):
    return [jnp.asarray(x, jnp.float32) for x in tensors]


def trained(name: str) -> list[list[np.ndarray]]:
    params = narrow(START)
    state, path = optimizers.init(name, params), []
    for gradient in GRADIENTS:
        direction, state = optimizers.direction(name, jnp.float32(DECAY), narrow(gradient), state, params)
        params = [x - jnp.float32(RATE) * d for x, d in zip(params, direction, strict=True)]
        path.append([np.asarray(x, np.float64) for x in params])
    return path


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_agree_with_numpy(name):
    params, rule = START, oracle.Optimizer(name, DECAY, START)
    for gradient, got in zip(GRADIENTS, trained(name), strict=True):
        params = [x - RATE * d for x, d in zip(params, rule.direction(gradient, params), strict=True)]
        assert oracle.distance(got, params) <= 3e-6 * oracle.length(params)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_agree_with_optax(name):
    params = narrow(START)
    with jax.numpy_dtype_promotion("standard"):
        state = WHOLE[name].init(params)
        for gradient, got in zip(GRADIENTS, trained(name), strict=True):
            updates, state = WHOLE[name].update(narrow(gradient), state, params)
            params = optax.apply_updates(params, updates)
            assert oracle.distance(got, [np.asarray(x, np.float64) for x in jax.tree.leaves(params)]) <= 3e-6


def one(**keys) -> float:
    return float(fit(Settings(**{"task": "hand", "steps": 1, "learning_rate": 0.1} | keys)).params["w"][0])


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [("sgd", 0.2, 0.2), ("momentum", 0.2, 0.38), ("adam", 0.1, 0.1), ("adamw", 0.1, 0.1), ("lion", 0.1, 0.1)],
)
def test_the_first_two_updates_worked_out_by_hand(name, first, second):
    keys = {"gradients": "2", "w": 0, "optimizer": name, "weight_decay": 0}
    np.testing.assert_allclose([one(**keys), one(**keys, steps=2)], [-first, -first - second], rtol=1e-5)


@pytest.mark.parametrize("name", ["adamw", "lion"])
def test_weight_decay_acts_once_an_update_however_many_microbatches(name):
    decayed = one(gradients="0/0/0/0", w=1, optimizer=name, weight_decay=0.1)
    np.testing.assert_allclose(decayed, 0.99, rtol=1e-6)
    assert abs(decayed - 0.9606) > 0.02


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam"])
def test_the_others_do_not_decay(name):
    assert one(gradients="0", w=1, optimizer=name, weight_decay=10) == 1


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_zero_gradient_moves_nothing_and_is_a_number(name):
    assert one(gradients="0/0", w=1, optimizer=name, weight_decay=0, steps=3) == 1


def test_moments_and_counter_move_once_an_update():
    run = fit(Settings(task="hand", gradients="3/-1", w="0", optimizer="adam", learning_rate=0.1, steps=1))
    np.testing.assert_allclose(run.params["w"], [-0.1], rtol=1e-5)
    assert abs(run.params["w"][0] + 0.140022) > 0.04
    state = run.state(1).optimizer
    assert state.count == 1
    np.testing.assert_allclose([state.mu[0], state.nu[0]], [0.1, 0.001], rtol=1e-4)


def test_an_opened_update_shows_the_direction_and_what_was_applied():
    opened = fit(Settings(task="hand", gradients="3/-1", w="0", optimizer="adam", steps=1)).at(0)
    shown = {name: vector.values.tolist() for name, vector in opened.stages.items()}
    assert shown["accumulate"] == [2] and shown["reduce_microbatches"] == [1]
    np.testing.assert_allclose(
        [shown["optimizer"], shown["learning_rate"], shown["update"]], [[1], [-0.1], [-0.1]], 1e-5
    )


@pytest.mark.parametrize("microbatches", [1, 2, 3, 8])
def test_adam_counts_updates_on_any_task(microbatches):
    run = fit(Settings(task="linear", microbatches=microbatches, optimizer="adam", steps=7))
    assert run.state(7).optimizer.count == 7


def test_adam_does_not_care_for_the_scale_of_a_gradient():
    steps = [one(gradients=g, w=0, optimizer="adam") for g in ("1e-3", "1", "1e3")]
    np.testing.assert_allclose(steps, -0.1, rtol=2e-5)


def test_weight_decay_is_decoupled():
    keys = {"gradients": "2", "w": 5, "weight_decay": 0.5}
    np.testing.assert_allclose(one(optimizer="adamw", **keys), 5 - 0.1 * (1 + 0.5 * 5), rtol=1e-6)
    np.testing.assert_allclose(one(optimizer="lion", **keys), 5 - 0.1 * (1 + 0.5 * 5), rtol=1e-6)
