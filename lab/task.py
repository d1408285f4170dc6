"""The contract of a task: three functions and some arrays. A task returns sums and weights, never means."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

Params = Any
"""A pytree of parameter arrays."""

Batch = Mapping[str, jax.Array]
"""Arrays by name, the first axis over the examples [b, ...]."""


class Task(NamedTuple):
    """What is learned.

    Attributes:
        init: random key -> parameters.
        loss: (parameters, batch [b, ...]) -> loss of each example [b] and its weight [b], both float32 or wider.
        score: (parameters, batch [b, ...]) -> 1 where the prediction is right, else 0 [b]; None if no such thing.
        train: the examples to train on, [n, ...] by name.
        held_out: examples never trained on, by the same names; None if there are none.
        groups: how many examples each microbatch holds, where the task itself says so; else None.
    """

    init: Callable[[jax.Array], Params]
    loss: Callable[[Params, Batch], tuple[jax.Array, jax.Array]]
    score: Callable[[Params, Batch], jax.Array] | None
    train: dict[str, np.ndarray]
    held_out: dict[str, np.ndarray] | None = None
    groups: tuple[int, ...] | None = None

    @property
    def examples(self) -> int:
        """How many examples there are to train on, n."""
        return len(next(iter(self.train.values())))


def at_least_float32(x: jax.Array) -> jax.Array:
    """x, in float32 if it is narrower: losses and norms of half-precision models need the range."""
    return x if x.dtype.itemsize >= 4 else x.astype(jnp.float32)
