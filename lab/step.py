"""One update, in the order things happen: backward, accumulate, reduce, clip, update.

Shapes: m microbatches, b places in a microbatch, n examples in the data.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lab import optimizers, reduction
from lab.clipping import CLIPS, norm, shortened
from lab.task import Batch, Params


class Recipe(NamedTuple):
    """What shapes the compiled program, besides the shapes of the arrays."""

    loss: Callable[[Params, Batch], tuple[jax.Array, jax.Array]]
    score: Callable[[Params, Batch], jax.Array] | None
    reduction: str
    accumulator_dtype: str
    optimizer: str
    clip: str
    clip_at: str


class State(NamedTuple):
    """What one update hands to the next."""

    params: Params
    optimizer: Any


class Numbers(NamedTuple):
    """Settings fed to the compiled program as arrays []: changing them compiles nothing."""

    clip_threshold: jax.Array
    weight_decay: jax.Array


class Examples(NamedTuple):
    """The examples of one update: all data [n, ...], which of them [m, b], and which places are filled [m, b]."""

    data: Batch
    rows: jax.Array
    filled: jax.Array


class Totals(NamedTuple):
    """The accumulator and its companions, the carry of the scan over microbatches."""

    accumulator: Any
    unclipped: Any
    objective: jax.Array
    loss: jax.Array
    weight: jax.Array
    clipped: jax.Array


class Seen(NamedTuple):
    """What the microscope is shown of an update; the training loop ignores it, and then it is never computed."""

    microbatches: Any
    accumulated: Any
    reduced: Any
    clipped: Any
    direction: Any
    applied: Any


def backward(recipe: Recipe, params: Params, examples: Examples) -> tuple[jax.Array, jax.Array, Any]:
    """Loss sum [], weight [] and gradient of the loss sum, of the examples in rows [b] where filled [b]."""

    def loss_sum(params):
        batch = {name: array[examples.rows] for name, array in examples.data.items()}
        losses, weights = recipe.loss(params, batch)
        losses, weights = (jnp.where(examples.filled, x, jnp.zeros_like(x)) for x in (losses, weights))
        return losses.sum(), weights.sum()

    (loss, weight), gradient = jax.value_and_grad(loss_sum, has_aux=True)(params)
    return loss, weight, gradient


def clip_microbatch(
    recipe: Recipe, numbers: Numbers, params: Params, gradient: Any, weight: jax.Array
) -> tuple[Any, jax.Array]:
    """Clip a microbatch's own gradient: of its mean loss, or of its sum where the reduction is a plain sum."""
    own = jnp.ones_like(weight) if recipe.reduction == "sum" else jnp.where(weight > 0, weight, 1)
    mean = lax.optimization_barrier(jax.tree.map(lambda g: g / own.astype(g.dtype), gradient))
    clipped = CLIPS[recipe.clip](mean, params, numbers.clip_threshold)
    return jax.tree.map(lambda g: g * own.astype(g.dtype), clipped), shortened(mean, clipped)


def update(
    recipe: Recipe,
    numbers: Numbers,
    rate: jax.Array,
    state: State,
    examples: Examples,
    watch: Callable[[jax.Array, jax.Array, Any, Any], Any] | None = None,
) -> tuple[State, dict[str, jax.Array], Seen]:
    """One optimizer step.

    Args:
        rate: the learning rate of this update [].
        watch: (loss sum, weight, what the microbatch added, running total) -> anything, kept for each microbatch.

    Returns:
        The next state, the row of the record, and what the microscope sees.
    """
    params = state.params
    microbatches = examples.rows.shape[0]
    clip = CLIPS[recipe.clip]
    at_microbatch = recipe.clip != "none" and recipe.clip_at == "microbatch"

    def accumulate(totals: Totals, microbatch):
        rows, filled = microbatch
        loss, weight, gradient = backward(recipe, params, Examples(examples.data, rows, filled))
        adds = reduction.contribution(recipe.reduction, gradient, weight)
        unclipped, clipped = (), jnp.float32(0)
        if at_microbatch:
            unclipped = jax.tree.map(jnp.add, totals.unclipped, adds)
            shorter, touched = clip_microbatch(recipe, numbers, params, gradient, weight)
            clipped = touched.astype(jnp.float32)
            adds = reduction.contribution(recipe.reduction, shorter, weight)
        accumulator = jax.tree.map(lambda total, x: total + x.astype(total.dtype), totals.accumulator, adds)
        after = Totals(
            accumulator=accumulator,
            unclipped=unclipped,
            objective=totals.objective + reduction.contribution(recipe.reduction, loss, weight),
            loss=totals.loss + jnp.where(weight > 0, loss, 0),
            weight=totals.weight + weight,
            clipped=totals.clipped + clipped,
        )
        # Behind the barrier the total is rounded to its dtype; without it XLA may show the sum before the rounding.
        return after, watch and watch(loss, weight, adds, lax.optimization_barrier(accumulator))

    zeros = jax.tree.map(jnp.zeros_like, params)
    empty = jax.tree.map(lambda x: x.astype(recipe.accumulator_dtype), zeros)
    nothing = Totals(empty, zeros if at_microbatch else (), *[jnp.float32(0)] * 4)
    totals, watched = lax.scan(accumulate, nothing, (examples.rows, examples.filled))

    def finish(total):
        return reduction.finish(recipe.reduction, total, totals.weight, microbatches)

    widened = jax.tree.map(lambda total, like: total.astype(like.dtype), totals.accumulator, params)
    reduced = lax.optimization_barrier(finish(widened))
    before_clip = norm(finish(totals.unclipped) if at_microbatch else reduced)
    clipped = reduced if at_microbatch else clip(reduced, params, numbers.clip_threshold)
    after_clip = norm(clipped) if recipe.clip != "none" else before_clip
    direction, optimizer = optimizers.direction(
        recipe.optimizer, numbers.weight_decay, clipped, state.optimizer, params
    )
    applied = jax.tree.map(lambda d: -rate.astype(d.dtype) * d, direction)

    loss = reduction.finish("mean", totals.loss, totals.weight, microbatches)
    row = {
        "loss": loss,
        "objective": finish(totals.objective),
        "learning_rate": rate,
        "grad_norm": before_clip,
        "clipped_grad_norm": after_clip,
        "clipped": totals.clipped / microbatches if at_microbatch else shortened(reduced, clipped).astype(jnp.float32),
        "update_norm": norm(applied),
        "finite": jnp.isfinite(loss) & jnp.isfinite(before_clip) & jnp.isfinite(after_clip),
    }
    after = State(jax.tree.map(jnp.add, params, applied), optimizer)
    return after, row, Seen(watched, totals.accumulator, reduced, clipped, direction, applied)
