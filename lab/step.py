"""One update, in the order things happen: scale, backward, accumulate, reduce, unscale, clip, update.

Written for one device; with several, each runs it on its own share and they meet where `recipe.axis` is named.
Shapes: m microbatches, b places in a microbatch, n examples in the data.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lab import optimizers, reduction, scaling
from lab.clipping import CLIPS, cosine, norm, shortened
from lab.flat import flat, shaped
from lab.precision import add, cast, cast_like
from lab.readings import moved, spread
from lab.recipe import Examples, Numbers, Recipe, State, clips_devices, clips_microbatches
from lab.task import Context, Params

MEMORY = 0.1
"""How far an update moves the running statistics towards those it saw."""


class Totals(NamedTuple):
    """The accumulator and its companions, the carry of the scan over microbatches."""

    accumulator: Any
    unclipped: Any
    observed: Any
    sums: jax.Array
    """Objective, loss, weight, and how many gradients were clipped [4]; one vector is one addition."""

    @property
    def objective(self) -> jax.Array:
        return self.sums[0]

    @property
    def loss(self) -> jax.Array:
        return self.sums[1]

    @property
    def weight(self) -> jax.Array:
        return self.sums[2]

    @property
    def clipped(self) -> jax.Array:
        return self.sums[3]


class Seen(NamedTuple):
    """What the microscope is shown of an update; the training loop ignores it, and then it is never computed.

    Attributes:
        microbatches: what `watch` returned, for each microbatch [m].
        reduced: the gradient after the reduction, unscaled, before any clip at the update [p].
        stages: the gradient after each of `stages(recipe)` [p].
    """

    microbatches: Any
    reduced: jax.Array
    stages: tuple[jax.Array, ...]


class Backward(NamedTuple):
    """What a backward pass over some examples gives: sums over them.

    Attributes:
        loss, weight: float32 [].
        gradient: of `scale` times the loss sum, in the dtype of the parameters.
        observed: for the running statistics.
    """

    loss: jax.Array
    weight: jax.Array
    gradient: Any
    observed: Any


def context(recipe: Recipe, examples: Examples) -> Context:
    """What the loss of the examples in rows [b] may depend on while training.

    A distinct key is folded from the example, so that neither the cut nor the devices change what is drawn for it; a
    shared one from its place, the same in every microbatch and on every device.
    """
    if not recipe.draws:
        return Context(examples.filled)
    draw = examples.draw
    key = jax.random.fold_in(jax.random.key(draw.seed), draw.update)
    marks = examples.rows if recipe.dropout_keys == "distinct" else jnp.arange(len(examples.rows))
    keys = jax.vmap(lambda mark: jax.random.fold_in(key, mark))(marks)
    return Context(examples.filled, keys, draw.dropout)


def backward(recipe: Recipe, params: Params, scale: jax.Array, examples: Examples) -> Backward:
    """The backward pass of `scale` times the loss sum of the examples in rows [b] where filled [b]."""

    def scaled_loss(params):
        batch = {name: array[examples.rows] for name, array in examples.data.items()}
        each, weights, observed = recipe.loss(params, batch, context(recipe, examples))
        each, weights = (jnp.where(examples.filled, x, jnp.zeros_like(x)) for x in (each, weights))
        loss = each.sum()
        return loss * scale, (loss, weights.sum(), observed)

    (_, (loss, weight, observed)), gradient = jax.value_and_grad(scaled_loss, has_aux=True)(params)
    return Backward(loss, weight, gradient, observed)


def clip_own(recipe: Recipe, numbers: Numbers, params: Params, gradient: Any, by: jax.Array) -> tuple[Any, jax.Array]:
    """Clip the own gradient of a microbatch or a device: what it is after division by `by` []."""
    own = jax.tree.map(lambda g: g.astype(jnp.float32) / by, gradient)
    clipped = CLIPS[recipe.clip](own, params, numbers.clip_threshold)
    return cast_like(jax.tree.map(lambda g: g * by, clipped), gradient), shortened(own, clipped)


def adds(
    recipe: Recipe, numbers: Numbers, params: Params, scale: jax.Array, gradient: Any, weight: jax.Array
) -> tuple[Any, jax.Array]:
    """What a microbatch of this gradient sum and weight [] adds, and whether it was clipped for that, bool []."""
    clipped = jnp.bool_(False)
    if clips_microbatches(recipe):
        by = scale * reduction.own_divisor(recipe.reduction, weight)
        gradient, clipped = clip_own(recipe, numbers, params, gradient, by)
    return reduction.contribution(recipe.reduction, gradient, weight), clipped


def together(
    recipe: Recipe,
    numbers: Numbers,
    params: Params,
    scale: jax.Array,
    own: jax.Array,
    weight: jax.Array,
    microbatches: int,
) -> tuple[jax.Array, jax.Array, tuple[jax.Array, jax.Array], jax.Array]:
    """From every device's total [p], float32, with its weight [], to the gradient the optimizer is given.

    Returns:
        The device's own total after a clip that stands there; that of all devices, divided; the gradient after the
        clip and after the loss scale is divided out, in their order, all [p]; and whether a clip here changed it,
        bool [].
    """
    clipped = jnp.bool_(False)

    def clip(vector):
        return flat(CLIPS[recipe.clip](shaped(vector, params), params, numbers.clip_threshold))

    if clips_devices(recipe):
        by = scale * reduction.divisor(recipe.reduction, weight, microbatches)
        short, clipped = clip_own(recipe, numbers, params, shaped(own, params), by)
        own = flat(short)
    reduced = reduction.over_devices(recipe.device_reduction, recipe.reduction, own, weight, microbatches, recipe.axis)
    if recipe.clip_at == "scaled" and recipe.clip != "none":
        short = clip(reduced)
        return own, reduced, (short, short / scale), shortened(reduced, short)
    plain = reduced / scale
    if recipe.clip_at != "update" or recipe.clip == "none":
        return own, reduced, (plain, plain), clipped
    short = clip(plain)
    return own, reduced, (plain, short), shortened(plain, short)


def zeros(params: Params, dtype: Any = None) -> Params:
    """Zeros of the shapes of the parameters."""
    return jax.tree.map(lambda x: jnp.zeros_like(x, dtype), params)


def everywhere(holds: jax.Array, axis: str | None) -> jax.Array:
    """Whether it holds on every device, bool []."""
    # A maximum like that of `spread`, and of its dtype: XLA makes one meeting of the devices of both.
    return lax.pmax((~holds).astype(jnp.float32), axis) == 0 if axis else holds


def remembered(recipe: Recipe, statistics: Any, totals: Totals) -> Any:
    """The running statistics moved a tenth of the way to those of this update's examples: once, however it was cut."""
    how = "none" if recipe.device_reduction == "none" else "global"
    now = reduction.over_devices(how, "mean", totals.observed, totals.weight, 1, recipe.axis)
    return jax.tree.map(lambda old, new: old + MEMORY * (new - old), statistics, now)


def update(
    recipe: Recipe,
    numbers: Numbers,
    rate: jax.Array,
    state: State,
    examples: Examples,
    watch: Callable[[jax.Array, jax.Array, Any, Any, Any], Any] | None = None,
) -> tuple[State, dict[str, jax.Array], Seen]:
    """One optimizer step.

    Args:
        rate: the learning rate of this update [].
        watch: (loss sum, weight, gradient, what the microbatch added, running total) -> anything, kept for each
            microbatch.

    Returns:
        The next state, the row of the record, and what the microscope sees.
    """
    params, scale = state.params, state.scale.value
    microbatches = examples.rows.shape[0]
    at_microbatch = clips_microbatches(recipe)
    computing = cast(params, recipe.compute_dtype)

    def accumulate(totals: Totals, microbatch):
        rows, filled = microbatch
        own = examples._replace(rows=rows, filled=filled)
        loss, weight, gradient, observed = backward(recipe, computing, scale, own)
        unclipped = ()
        if at_microbatch:
            unclipped = add(totals.unclipped, reduction.contribution(recipe.reduction, gradient, weight))
        added, clipped = adds(recipe, numbers, params, scale, gradient, weight)
        accumulator = add(totals.accumulator, added)
        objective = reduction.contribution(recipe.reduction, loss, weight)
        sums = jnp.stack([objective, jnp.where(weight > 0, loss, 0), weight, clipped.astype(jnp.float32)])
        after = Totals(
            accumulator=accumulator,
            unclipped=unclipped,
            observed=jax.tree.map(jnp.add, totals.observed, observed),
            sums=totals.sums + sums,
        )
        return after, watch and watch(loss, weight, gradient, added, accumulator)

    empty = zeros(params, recipe.accumulator_dtype)
    unclipped = zeros(params, jnp.float32) if at_microbatch else ()
    nothing = Totals(empty, unclipped, zeros(state.statistics), jnp.zeros(4))
    totals, watched = lax.scan(accumulate, nothing, (examples.rows, examples.filled))

    def reduce(total, kind=recipe.device_reduction):
        return reduction.over_devices(kind, recipe.reduction, total, totals.weight, microbatches, recipe.axis)

    # From here to the optimizer everything is float32, whatever the accumulator was; and it is one vector [p], because
    # a kernel for every leaf would take longer than the arithmetic.
    before = flat(params)

    def tree(vector):
        return shaped(vector, params)

    accumulated = flat(cast(totals.accumulator, jnp.float32))
    unclipped = flat(totals.unclipped) if at_microbatch else accumulated
    own, reduced, between, clipped = together(
        recipe, numbers, params, scale, accumulated, totals.weight, microbatches
    )  # fmt: skip
    touched = totals.clipped / microbatches if at_microbatch else clipped.astype(jnp.float32)
    if recipe.axis and recipe.clip != "none":
        touched = lax.psum(touched, recipe.axis) / lax.axis_size(recipe.axis)
    gradient = between[-1]
    before_clip = norm(reduce(unclipped) / scale)
    after_clip = norm(gradient) if recipe.clip != "none" else before_clip
    finite = everywhere(jnp.isfinite(before_clip) & jnp.isfinite(after_clip), recipe.axis)
    skipped = scaling.skips(recipe.loss_scaling, finite)

    def unless_skipped(new, old):
        return jax.tree.map(lambda x, y: jnp.where(skipped, y, x), new, old)

    direction, optimizer = optimizers.direction(
        recipe.optimizer, numbers.weight_decay, gradient.astype(before.dtype), state.optimizer, before
    )
    step = (-rate * direction.astype(jnp.float32)).astype(before.dtype)
    applied = unless_skipped(step, jnp.zeros_like(before))
    after = unless_skipped(before + applied, before)
    following = State(
        params=tree(after),
        statistics=unless_skipped(remembered(recipe, state.statistics, totals), state.statistics),
        optimizer=unless_skipped(optimizer, state.optimizer),
        scale=scaling.adjust(recipe.loss_scaling, state.scale, finite, numbers.growth_interval),
        applied=state.applied + (~skipped).astype(jnp.int32),
    )

    loss = reduction.over_devices("global", "mean", totals.loss, totals.weight, microbatches, recipe.axis)
    unmoved, whole = moved(before, applied, after)
    row = {
        "loss": loss,
        "objective": reduce(totals.objective),
        "learning_rate": rate,
        "grad_norm": before_clip,
        "clipped_grad_norm": after_clip,
        "clipped": touched,
        "update_norm": norm(applied),
        "loss_scale": scale,
        "skipped": skipped,
        "unmoved": unmoved,
        "finite": finite & everywhere(jnp.isfinite(loss) & whole, recipe.axis),
    }
    if recipe.axis:
        mine = reduction.finish(recipe.reduction, accumulated, totals.weight, microbatches) / scale
        row |= {
            "spread": spread(after.astype(jnp.float32), recipe.axis),
            "device_loss": reduction.finish("mean", totals.loss, totals.weight, microbatches),
            "device_grad_norm": norm(mine),
            "device_cosine": cosine(mine, reduce(accumulated, "global") / scale),
        }
    shared = [own] if clips_devices(recipe) else []
    shared += [reduction.finish(recipe.reduction, own, totals.weight, microbatches)] if recipe.axis else []
    seen = Seen(watched, reduced / scale, (accumulated, *shared, reduced, *between, direction, applied, after))
    return following, row, seen
