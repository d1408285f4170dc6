"""Gradients typed by hand: the loss of an example is w . x, so its gradient is x itself."""

import jax.numpy as jnp
import numpy as np

from lab.key import parse_gradients, parse_numbers
from lab.settings import Settings
from lab.task import Batch, Context, Losses, Params, Task, at_least_float32


def loss(params: Params, batch: Batch, context: Context) -> Losses:
    """w . x of each example [b], weight 1 [b]."""
    product = (at_least_float32(params["w"])[None, :] * batch["x"]).sum(axis=1)
    return Losses(product, jnp.ones_like(product))


def task(settings: Settings) -> Task:
    """x [n, f] as typed, in groups of any size; w [f]."""
    groups = parse_gradients(settings.gradients)
    x = np.array([example for group in groups for example in group], np.float32)
    w = np.broadcast_to(np.array(parse_numbers(settings.w), np.float32), x.shape[1])
    return Task(lambda key: {"w": jnp.array(w)}, loss, None, {"x": x}, groups=tuple(map(len, groups)))
