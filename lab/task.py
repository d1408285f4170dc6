"""The contract of a task: functions and some arrays. A task returns sums and weights, never means."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

Params = Any
"""A pytree of parameter arrays."""

Batch = Mapping[str, jax.Array]
"""Arrays by name, the first axis over the examples [b, ...]."""


class Context(NamedTuple):
    """What a loss may depend on besides parameters and examples; most tasks ignore it.

    Attributes:
        filled: whether each place holds an example that counts [b]; the loss of the others is thrown away.
        keys: the random key of every example [b]; None where nothing is to be drawn.
        dropout: the probability of dropping a unit [], float32.
        statistics: running statistics to measure with; None while training, when the examples' own are used.
    """

    filled: jax.Array
    keys: jax.Array | None = None
    dropout: Any = 0.0
    statistics: Any = None


class Losses(NamedTuple):
    """What a batch costs.

    Attributes:
        each: the loss of every example [b], float32 or wider.
        weights: how much it counts [b], float32 or wider: 1, or a number of tokens.
        observed: sums over the examples that count, in the shapes of the task's running statistics.
    """

    each: jax.Array
    weights: jax.Array
    observed: Any = ()


class Task(NamedTuple):
    """What is learned.

    Attributes:
        init: random key -> parameters.
        loss: (parameters, batch [b, ...], context) -> losses; the same function for the same structure.
        score: (parameters, batch [b, ...], context) -> 1 where the prediction is right, else 0 [b]; None if no such
            thing.
        train: the examples to train on, [n, ...] by name.
        held_out: examples never trained on, by the same names; None if there are none.
        groups: how many examples each microbatch holds, where the task itself says so; else None.
        statistics: running statistics before the first update, means over examples; () if there are none.
        draws: whether training draws random numbers.
        wide: whether the loss means the same in float64; one that draws in the default dtype, or casts, may not.
        sizes: what sorts the examples [n]: their lengths, labels or targets; None where nothing does.
        notes: what was done to the data that their owner would want to know, in sentences.
        unit: what weights count, in a word.
    """

    init: Callable[[jax.Array], Params]
    loss: Callable[[Params, Batch, Context], Losses]
    score: Callable[[Params, Batch, Context], jax.Array] | None
    train: dict[str, np.ndarray]
    held_out: dict[str, np.ndarray] | None = None
    groups: tuple[int, ...] | None = None
    statistics: Any = ()
    draws: bool = False
    wide: bool = True
    sizes: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    unit: str = "example"

    @property
    def examples(self) -> int:
        """How many examples there are to train on, n."""
        return len(next(iter(self.train.values())))


def at_least_float32(x: jax.Array) -> jax.Array:
    """x, in float32 if it is narrower: losses and norms of half-precision models need the range."""
    return x if x.dtype.itemsize >= 4 else x.astype(jnp.float32)
