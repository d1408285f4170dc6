"""The worked example: `sum((w*x - y)**2)` over typed-in numbers, small enough to check by hand."""

import jax.numpy as jnp
import numpy as np

from lab.key import parse_numbers
from lab.settings import Settings
from lab.task import Batch, Context, Losses, Params, Task, at_least_float32


def loss(params: Params, batch: Batch, context: Context) -> Losses:
    """(w x - y)^2 of each example [b], weight 1 [b]."""
    w = params["w"]
    error = at_least_float32(w * batch["x"].astype(w.dtype)) - batch["y"]
    return Losses(error**2, jnp.ones_like(error))


def task(settings: Settings) -> Task:
    """x and y as typed; one parameter w."""
    x = np.array(parse_numbers(settings.xs), np.float32)
    y = np.broadcast_to(np.array(parse_numbers(settings.ys), np.float32), x.shape)
    (w,) = parse_numbers(settings.w)
    return Task(lambda key: {"w": jnp.float32(w)}, loss, None, {"x": x, "y": np.ascontiguousarray(y)})
