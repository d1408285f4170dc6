"""Least squares with a known answer: 1,000 examples of 10 features, y = x . w + b + noise."""

import jax
import jax.numpy as jnp
import numpy as np

from lab.settings import Settings
from lab.task import Batch, Context, Losses, Params, Task, at_least_float32

EXAMPLES, HELD_OUT, FEATURES = 1000, 250, 10


def loss(params: Params, batch: Batch, context: Context) -> Losses:
    """(x . w + b - y)^2 of each example [b], weight 1 [b]."""
    w, b = params["w"], params["b"]
    error = at_least_float32(batch["x"].astype(w.dtype) @ w + b) - batch["y"]
    return Losses(error**2, jnp.ones_like(error))


def task(settings: Settings) -> Task:
    """x [n, f] standard normal, y [n]; the same draw whatever the seed of the run."""
    draw = np.random.default_rng(10)
    x = draw.standard_normal((EXAMPLES + HELD_OUT, FEATURES))
    w, b = draw.standard_normal(FEATURES), draw.standard_normal()
    y = x @ w + b + settings.noise * draw.standard_normal(len(x))
    arrays = {"x": x.astype(np.float32), "y": y.astype(np.float32)}
    return Task(
        init=lambda key: {"w": jax.random.normal(key, (FEATURES,)), "b": jnp.zeros(())},
        loss=loss,
        score=None,
        train={name: array[:EXAMPLES] for name, array in arrays.items()},
        held_out={name: array[EXAMPLES:] for name, array in arrays.items()},
        sizes=arrays["y"][:EXAMPLES],
    )
