"""The digits in assets are the ones scikit-learn distributes, and the split and the loss are as described."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_digits

from lab import Settings, tasks
from lab.task import Context
from lab.tasks import digits
from lab.tasks.classifier import functions

PLAIN = functions("none")


def test_the_file_is_the_uci_set_unchanged():
    images, labels = load_digits(return_X_y=True)
    with np.load(digits.DATA) as file:
        assert set(file.files) == {"images", "labels"}
        assert file["images"].dtype == file["labels"].dtype == np.uint8
        np.testing.assert_array_equal(file["images"], images)
        np.testing.assert_array_equal(file["labels"], labels)


def test_every_fifth_example_of_each_digit_is_held_out():
    task = tasks.load(Settings())
    images, labels = load_digits(return_X_y=True)
    held_out = np.sort(np.concatenate([np.flatnonzero(labels == digit)[4::5] for digit in range(10)]))
    assert task.held_out is not None
    np.testing.assert_array_equal(task.held_out["y"], labels[held_out])
    np.testing.assert_allclose(task.held_out["x"] * 16, images[held_out])
    np.testing.assert_array_equal(task.train["y"], np.delete(labels, held_out))
    np.testing.assert_allclose(task.train["x"] * 16, np.delete(images, held_out, axis=0))


def test_the_origin_and_the_licence_are_noted():
    note = digits.DATA.with_suffix(".txt").read_text()
    assert "10.24432/C50P49" in note and "CC BY 4.0" in note


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [*[(jnp.float16, scale) for scale in (1e-3, 1, 30)], *[(jnp.float32, 10.0**k) for k in range(-3, 9)]],
)
def test_the_loss_is_the_cross_entropy(dtype, scale):
    draw = np.random.default_rng(0)
    weight = (scale * draw.standard_normal((64, 10))).astype(dtype)
    x, y = draw.random((20, 64)).astype(dtype), draw.integers(0, 10, 20)
    params = [{"weight": jnp.asarray(weight), "bias": jnp.zeros(10, dtype)}]
    batch, everything = {"x": jnp.asarray(x), "y": jnp.asarray(y, jnp.int32)}, Context(jnp.ones(20, bool))
    losses, weights, _ = PLAIN.loss(params, batch, everything)
    scores = np.asarray(PLAIN.logits(params, batch, everything), np.float64)
    scores -= scores.max(axis=1, keepdims=True)
    want = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(20), y]
    assert losses.dtype == jnp.float32 and weights.tolist() == [1] * 20
    np.testing.assert_allclose(losses, want, rtol=2e-6, atol=1e-9)


def test_a_well_learned_example_keeps_its_digits():
    params = [{"weight": jnp.zeros((64, 10)), "bias": jnp.zeros(10).at[3].set(40)}]
    batch = {"x": jnp.zeros((2, 64)), "y": jnp.int32([3, 4])}
    losses = PLAIN.loss(params, batch, Context(jnp.ones(2, bool))).each
    np.testing.assert_allclose(losses, [9 * np.exp(-40), 40], rtol=1e-5)


@pytest.mark.parametrize("hidden", ["", "8", "8,4,2,3"])
def test_the_network_has_the_widths_that_were_typed(hidden):
    params = tasks.load(Settings(hidden=hidden)).init(jax.random.key(0))
    sizes = [64, *map(int, hidden.split(",") if hidden else []), 10]
    assert [layer["weight"].shape for layer in params] == list(pairwise(sizes))
    assert all(not layer["bias"].any() for layer in params)


def test_the_first_weights_have_the_variance_of_he():
    params = tasks.load(Settings(hidden="1024,1024")).init(jax.random.key(1))
    assert float(params[0]["weight"].var()) == pytest.approx(2 / 64, rel=0.02)
    assert float(params[1]["weight"].var()) == pytest.approx(2 / 1024, rel=0.02)
