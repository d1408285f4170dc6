"""1,797 handwritten digits of 8x8 pixels and a multilayer perceptron that reads them.

The data are the UCI set "Optical Recognition of Handwritten Digits"; see assets/digits.txt. Every fifth example of
each digit is held out.
"""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from lab.key import parse_widths
from lab.settings import Settings
from lab.task import Batch, Params, Task, at_least_float32

DATA = Path(__file__).parents[2] / "assets" / "digits.npz"
CLASSES = 10


def logits(params: Params, x: jax.Array) -> jax.Array:
    """Scores of the ten classes [b, c], float32 or wider; the layers compute in the dtype of the parameters."""
    x = x.astype(params[0]["weight"].dtype)
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["weight"] + layer["bias"][None, :])
    return at_least_float32(x @ params[-1]["weight"] + params[-1]["bias"][None, :])


def loss(params: Params, batch: Batch) -> tuple[jax.Array, jax.Array]:
    """Cross-entropy of each example [b], weight 1 [b].

    Written as softplus(logsumexp of the other logits - the right one): the same number as -log softmax, without the
    cancellation 1 - p that would cost a well-learned example most of its float32 digits.
    """
    scores = logits(params, batch["x"])
    right = jax.nn.one_hot(batch["y"], CLASSES, dtype=jnp.bool_)
    others = jax.nn.logsumexp(scores, axis=1, where=~right)
    picked = jnp.where(right, scores, 0).sum(axis=1)
    losses = jax.nn.softplus(others - picked)
    return losses, jnp.ones_like(losses)


def score(params: Params, batch: Batch) -> jax.Array:
    """1 where the largest logit is the label [b]."""
    return (logits(params, batch["x"]).argmax(axis=1) == batch["y"]).astype(jnp.float32)


def init(key: jax.Array, widths: tuple[int, ...]) -> Params:
    """Normal weights with variance 2 / inputs (He et al. 2015), zero biases: a list of layers."""
    sizes = (64, *widths, CLASSES)
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"weight": jax.random.normal(k, (i, o)) * jnp.sqrt(2 / i).astype(jnp.float32), "bias": jnp.zeros(o)}
        for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


@functools.cache
def _read() -> dict[str, np.ndarray]:
    with np.load(DATA) as file:
        return {"x": file["images"].astype(np.float32) / 16, "y": file["labels"].astype(np.int32)}


def task(settings: Settings) -> Task:
    """x [n, 64] between 0 and 1, y [n] from 0 to 9."""
    of_digit = _read()["y"][:, None] == np.arange(CLASSES)
    held_out = (of_digit.cumsum(axis=0)[of_digit] % 5) == 0
    return Task(
        init=functools.partial(init, widths=parse_widths(settings.hidden)),
        loss=loss,
        score=score,
        train={name: array[~held_out] for name, array in _read().items()},
        held_out={name: array[held_out] for name, array in _read().items()},
    )
