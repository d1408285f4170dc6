"""What one update is made of: what shapes its program, the state it changes, its numbers and its examples.

Shapes: m microbatches, b places in a microbatch, n examples in the data.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from lab.devices import AXIS
from lab.scaling import Scale
from lab.task import Batch, Context, Losses, Params


class Recipe(NamedTuple):
    """What shapes the compiled program, besides the shapes of the arrays."""

    loss: Callable[[Params, Batch, Context], Losses]
    score: Callable[[Params, Batch, Context], jax.Array] | None
    draws: bool
    wide: bool
    dropout_keys: str
    reduction: str
    accumulator_dtype: str
    optimizer: str
    clip: str
    clip_at: str
    compute_dtype: str
    loss_scaling: str
    devices: int
    device_reduction: str
    parallel: str
    shapes: tuple[Any, ...]
    """What else shapes the arrays, so that a cache of programs keyed by recipes holds one program for each."""

    @property
    def axis(self) -> str | None:
        """The name of the device axis; None where there is one device."""
        return AXIS if self.devices > 1 else None

    def of_gradients(self) -> "Recipe":
        """The recipe as far as it shapes the gradients of the microbatches, all else as it is by default.

        A program that only looks at those is compiled once, and not again for another reduction or optimizer.
        """
        return self._replace(
            reduction="mean", accumulator_dtype="float32", optimizer="sgd", clip="none", clip_at="update",
            compute_dtype="float32", loss_scaling="none", device_reduction="global",
        )  # fmt: skip


class State(NamedTuple):
    """What one update hands to the next; `applied` counts the updates that were not skipped, int32 []."""

    params: Params
    statistics: Any
    optimizer: Any
    scale: Scale
    applied: jax.Array


class Numbers(NamedTuple):
    """Settings fed to the compiled program as arrays []: changing them compiles nothing."""

    clip_threshold: jax.Array
    weight_decay: jax.Array
    growth_interval: jax.Array
    dropout: jax.Array
    seed: jax.Array


class Draw(NamedTuple):
    """What the random numbers of an update come from: the run's seed [], the update [], the dropout rate []."""

    seed: jax.Array
    update: jax.Array
    dropout: jax.Array


class Examples(NamedTuple):
    """The examples of one update: all data [n, ...], which of them [m, b], and which places are filled [m, b]."""

    data: Batch
    rows: jax.Array
    filled: jax.Array
    draw: Draw


def clips_microbatches(recipe: Recipe) -> bool:
    """Whether every microbatch's gradient is clipped before it is added."""
    return recipe.clip != "none" and recipe.clip_at == "microbatch"


def clips_devices(recipe: Recipe) -> bool:
    """Whether every device's gradient is clipped before the devices meet."""
    return recipe.clip != "none" and recipe.clip_at == "device"


def stages(recipe: Recipe) -> tuple[str, ...]:
    """What the gradient goes through once it is accumulated, in the order the settings put it."""
    own = ("clip_device",) if clips_devices(recipe) else ()
    between = ("clip", "unscale") if recipe.clip_at == "scaled" else ("unscale", "clip")
    reduced = ("reduce_microbatches", "reduce_devices") if recipe.axis else ("reduce_microbatches",)
    return ("accumulate", *own, *reduced, *between, "optimizer", "learning_rate", "update")
