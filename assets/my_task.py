"""An example of a task of your own: training-lab --task my_task.py"""

import jax
import jax.numpy as jnp
import numpy as np


def data():
    """A noisy parabola: arrays by name, the first axis over the examples; or (train, held_out)."""
    draw = np.random.default_rng(0)
    x = draw.uniform(-1, 1, (500, 1)).astype(np.float32)
    y = x**2 + 0.05 * draw.standard_normal(x.shape).astype(np.float32)
    return {"x": x[:400], "y": y[:400]}, {"x": x[400:], "y": y[400:]}


def init(key):
    """The first parameters: any tree of arrays."""
    first, second = jax.random.split(key)
    return {"w": jax.random.normal(first, (1, 16)), "b": jnp.zeros(16), "out": jax.random.normal(second, (16, 1)) / 4}


def loss(params, batch, key):
    """The loss and the weight of every example; never a mean. `key` is for whatever you draw, such as dropout."""
    hidden = jnp.tanh(batch["x"] @ params["w"] + params["b"])
    return jnp.sum((hidden @ params["out"] - batch["y"]) ** 2, axis=1), jnp.ones(len(batch["x"]))
