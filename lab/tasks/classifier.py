"""Classification by a multilayer perceptron, shared by the tasks that sort x [b, f] into classes."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lab import mlp
from lab.losses import cross_entropy, right
from lab.settings import Settings
from lab.task import Batch, Context, Losses, Params, Task
from lab.tasks import network


class Functions(NamedTuple):
    """(parameters, batch, context) -> losses; whether each is right [b]; the scores of the classes [b, c]."""

    loss: Callable[[Params, Batch, Context], Losses]
    score: Callable[[Params, Batch, Context], jax.Array]
    logits: Callable[[Params, Batch, Context], jax.Array]


@functools.cache
def functions(norm: str) -> Functions:
    """The functions of networks with this norm, always the same ones."""

    def loss(params: Params, batch: Batch, context: Context) -> Losses:
        scores, observed = mlp.outputs(params, batch["x"], context, norm)
        each = cross_entropy(scores, batch["y"])
        return Losses(each, jnp.ones_like(each), observed)

    def logits(params: Params, batch: Batch, context: Context) -> jax.Array:
        return mlp.outputs(params, batch["x"], context, norm)[0]

    def score(params: Params, batch: Batch, context: Context) -> jax.Array:
        return right(logits(params, batch, context), batch["y"])

    return Functions(loss, score, logits)


def task(
    settings: Settings, features: int, classes: int, train: dict[str, np.ndarray], held_out: dict[str, np.ndarray]
) -> Task:
    """The task of sorting x [n, f] into classes y [n] by a network of the settings' shape."""
    loss, score, _ = functions(settings.norm)
    return network.task(settings, features, classes, train, held_out, loss, score)
