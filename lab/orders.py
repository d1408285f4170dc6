"""What every combination of reduction and clip place would have given one update."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lab import devices, reference
from lab.choices import CLIP_PLACES, REDUCTIONS
from lab.clipping import norm
from lab.flat import flat
from lab.microscope import Inputs, first_of, listing, whole_batch
from lab.opened import Vector
from lab.precision import add, cast
from lab.recipe import Examples, Numbers, Recipe, State
from lab.step import adds, backward, everywhere, together, zeros


class Order(NamedTuple):
    """One combination, and the gradient it would have given the optimizer; of the first device, where they differ.

    Attributes:
        clip_at: where the clip stands; None where there is no clip.
        gradient: what the optimizer would have been given, unscaled and clipped.
        angle: degrees between that and the right one; nan where one of them is zero or not finite.
        relative_error: |a - r| / |r| to the right one.
        clipped: whether the clip changed anything on its way.
        used: whether the run did it this way.
    """

    reduction: str
    clip_at: str | None
    gradient: Vector
    angle: float
    relative_error: float
    clipped: bool
    used: bool

    def to_dict(self) -> dict[str, Any]:
        """As `training-lab inspect --json` writes it."""
        told = {name: value for name, value in self._asdict().items() if name != "gradient"}
        return {**told, "norm": self.gradient.norm}


class Orders(NamedTuple):
    """All combinations; vectors hold the values at the coordinates that `Run.at` lists.

    `right` is the mean over the whole batch at once in float64, then clipped: no reduction, devices or loss scale.
    """

    right: Vector
    all: list[Order]


def places(recipe: Recipe) -> tuple[str, ...]:
    """Where the clip could stand: on a device where there are several, before unscaling where there is a scale."""
    if recipe.clip == "none":
        return (recipe.clip_at,)
    matters = {"device": recipe.devices > 1, "scaled": recipe.loss_scaling != "none"}
    return tuple(place for place in CLIP_PLACES if matters.get(place, True) or place == recipe.clip_at)


def combinations(recipe: Recipe, at: tuple[str, ...]) -> list[Recipe]:
    """The recipe with every reduction and the clip in every one of these places."""
    return [recipe._replace(reduction=kind, clip_at=place) for kind in REDUCTIONS for place in at]


def shaping(recipe: Recipe) -> tuple[Recipe, tuple[str, ...]]:
    """What shapes the program of all combinations, and so is the same whichever of them is in use."""
    of_update = ("accumulator_dtype", "compute_dtype", "clip", "device_reduction")
    general = recipe.of_gradients()._replace(**{name: getattr(recipe, name) for name in of_update})
    return general, places(recipe)


def accumulates(recipe: Recipe) -> tuple[str, bool]:
    """Which combinations add the same: only the divisions that come before an addition, or before a clip, matter."""
    clips = recipe.clip != "none" and recipe.clip_at == "microbatch"
    if recipe.reduction.endswith("of_means"):
        return "of_means", clips
    return recipe.reduction if clips else "of_sums", clips


@functools.lru_cache(maxsize=8)
def _ordered(recipe: Recipe, at: tuple[str, ...]):
    """All combinations with the clip in these places, compiled over the devices; one backward pass a microbatch.

    (params, scale, rows, filled, data, draw, numbers, right [p], listed [c]) -> for every combination, by name,
    [d, ...].
    """
    ways = combinations(recipe, at)
    fills = {accumulates(way): way for way in ways}

    def ordered(params, scale, rows, filled, data, draw, numbers: Numbers, right, listed):
        computing = cast(params, recipe.compute_dtype)

        def accumulate(carry, microbatch):
            totals, touched, weights = carry
            _, weight, gradient, _ = backward(recipe, computing, scale, Examples(data, *microbatch, draw=draw))
            added = {key: adds(way, numbers, params, scale, gradient, weight) for key, way in fills.items()}
            totals = {key: add(totals[key], added[key][0]) for key in fills}
            touched = {key: jnp.logical_or(touched[key], added[key][1]) for key in fills}
            return (totals, touched, weights + weight), None

        empty, untouched = zeros(params, recipe.accumulator_dtype), jnp.zeros((), bool)
        nothing = dict.fromkeys(fills, empty), dict.fromkeys(fills, untouched), jnp.float32(0)
        (totals, touched, weight), _ = jax.lax.scan(accumulate, nothing, (rows, filled))

        def told(way: Recipe):
            key = accumulates(way)
            total = flat(cast(totals[key], jnp.float32))
            _, _, between, clipped = together(way, numbers, params, scale, total, weight, rows.shape[0])
            gradient = between[-1]
            length, apart, along = norm(gradient), norm(gradient - right), norm(right)
            one, other = (jnp.where(size > 0, x / size, jnp.nan) for x, size in ((gradient, length), (right, along)))
            # Kahan: the arc cosine of a number near 1 would be off by a hundredth of a degree.
            angle = jnp.rad2deg(2 * jnp.arctan2(norm(one - other), norm(one + other)))
            return {
                "values": gradient[listed],
                "norm": length,
                "angle": jnp.where(apart == 0, 0, angle),
                "relative_error": jnp.where(apart == 0, 0, apart / along),
                "clipped": ~everywhere(~jnp.logical_or(touched[key], clipped), recipe.axis),
            }

        return [told(way) for way in ways]

    return devices.over(ordered, recipe.devices, recipe.parallel, (0, 1, 2, 3), 9)


def measure(inputs: Inputs, state: State) -> Orders:
    """Every combination for the update that `inputs` and `state` determine, with its number formats and loss scale."""
    recipe, numbers, _, examples, _ = inputs
    params = first_of(state).params
    full, _ = whole_batch(recipe, params, examples)
    listed, right = listing(full), reference.clipped(recipe.clip, full, params, float(numbers.clip_threshold))
    with np.errstate(over="ignore"):
        narrow = right.astype(np.float32)
    placed = devices.place((state.params, state.scale.value, examples.rows, examples.filled), recipe.devices)
    told = devices.fetch(_ordered(*shaping(recipe))(*placed, examples.data, examples.draw, numbers, narrow, listed))
    found = []
    for way, numbers_of in zip(combinations(recipe, places(recipe)), first_of(told), strict=True):
        gradient = Vector(numbers_of["values"], float(numbers_of["norm"]))
        found.append(
            Order(
                reduction=way.reduction,
                clip_at=None if recipe.clip == "none" else way.clip_at,
                gradient=gradient,
                angle=float(numbers_of["angle"]),
                relative_error=float(numbers_of["relative_error"]),
                clipped=bool(numbers_of["clipped"]),
                used=way == recipe,
            )
        )
    return Orders(Vector(right[listed], float(np.linalg.norm(right))), found)
