"""Regression by a multilayer perceptron: a number y is predicted from x [b, f], and the squared error is the loss."""

import functools
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from lab import mlp
from lab.settings import Settings
from lab.task import Batch, Context, Losses, Params, Task
from lab.tasks import network


@functools.cache
def loss(norm: str) -> Callable[[Params, Batch, Context], Losses]:
    """(parameters, batch, context) -> losses of networks with this norm, always the same function."""

    def squared_error(params: Params, batch: Batch, context: Context) -> Losses:
        outputs, observed = mlp.outputs(params, batch["x"], context, norm)
        each = (outputs[:, 0] - batch["y"]) ** 2
        return Losses(each, jnp.ones_like(each), observed)

    return squared_error


def task(settings: Settings, features: int, train: dict[str, np.ndarray], held_out: dict[str, np.ndarray]) -> Task:
    """The task of predicting y [n] from x [n, f] by a network of the settings' shape."""
    return network.task(settings, features, 1, train, held_out, loss(settings.norm), None)
