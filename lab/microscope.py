"""One update opened: every microbatch, the running total, all four reductions, every stage, the float64 reference."""

import functools
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lab import devices, optimizers, reduction, reference
from lab.choices import DEVICE_REDUCTIONS, REDUCTIONS
from lab.clipping import norms
from lab.flat import flat
from lab.opened import Agreement, Break, Device, Microbatch, Update, Vector
from lab.precision import cast
from lab.recipe import Examples, Numbers, Recipe, State, clips_microbatches, stages
from lab.step import backward, context, update

LISTED = 32
"""Vectors are given in full up to this many parameters; beyond it, a few named coordinates."""
NAMED = 8
"""How many named coordinates of a larger vector are given: those with the largest reference gradient."""


class Inputs(NamedTuple):
    """What an update reads besides the state; `examples` has each device's places [d, m, b].

    `unit` is what the task's weights count.
    """

    recipe: Recipe
    numbers: Numbers
    rate: jax.Array
    examples: Examples
    unit: str


def agreement(vector: np.ndarray, full: np.ndarray) -> Agreement:
    """How far `vector` [p] is from `full` [p], in float64; two zero vectors agree."""
    vector, full = vector.astype(np.float64), full.astype(np.float64)
    with np.errstate(all="ignore"):
        distance, length = np.linalg.norm(vector - full), np.linalg.norm(full)
        return Agreement(float(distance / length), cosine(vector, full)) if distance else Agreement(0.0, 1.0)


def cosine(one: np.ndarray, two: np.ndarray) -> float:
    """Cosine of the angle between two vectors [p], in float64; 0 where one of them is zero."""
    one, two = one.astype(np.float64), two.astype(np.float64)
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(one) * np.linalg.norm(two)
        return float(np.clip(one @ two / lengths, -1, 1)) if lengths else 0.0


def coordinate_names(params: Any) -> list[str]:
    """The name of every entry of the parameters [p], such as `w[0]` or `0.weight[3,5]`."""
    names = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        places = np.ndindex(np.shape(leaf))
        names += [f"{name}[{','.join(map(str, place))}]" if place else name for place in places]
    return names


def listing(full: np.ndarray) -> np.ndarray:
    """Which coordinates are given of a vector like this reference gradient [p]: all, or a few [c]."""
    return np.arange(len(full)) if len(full) <= LISTED else np.argsort(-np.abs(full), kind="stable")[:NAMED]


def first_of(tree: Any) -> Any:
    """The first device's part of arrays with a device axis."""
    return jax.tree.map(lambda leaf: leaf[0], devices.fetch(tree))


def all_microbatches(examples: Examples) -> Examples:
    """The microbatches of all devices, one after the other [d * m, b]."""
    rows, filled = (np.asarray(x).reshape(-1, x.shape[-1]) for x in (examples.rows, examples.filled))
    return examples._replace(**jax.device_put({"rows": rows, "filled": filled}))


def whole_batch(recipe: Recipe, params: Any, examples: Examples) -> tuple[np.ndarray, float]:
    """Gradient [p] of the mean loss of all microbatches' examples at once, float64 if `recipe.wide`; and their weight.

    What is drawn for an example is what distinct keys would draw.
    """
    rows = np.asarray(examples.rows)[np.asarray(examples.filled)]
    at_once = examples._replace(**jax.device_put({"rows": rows, "filled": np.ones(len(rows), bool)}))
    batch = {name: np.asarray(array)[rows] for name, array in examples.data.items()}
    given = context(recipe._replace(dropout_keys="distinct"), at_once)
    return reference.gradient(recipe.loss, params, batch, given, recipe.wide)


def _broke(
    recipe: Recipe, params: Any, seen: dict[str, np.ndarray], before: np.ndarray, passed: np.ndarray
) -> Break | None:
    """The first number that is not finite, in the order things happen.

    Args:
        seen: of every microbatch: `loss` [d, m], and the entry where its gradient and the running total break,
            `gradient_breaks` and `total_breaks` [d, m], as `first_bad` has it.
        before: the parameters before [d, p].
        passed: what every stage gave [d, k, p].
    """
    leaves = jax.tree_util.tree_leaves_with_path(params)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves]
    ends = np.cumsum([np.size(leaf) for _, leaf in leaves])

    def at(entry: int, stage: str, device: int, microbatch: int | None = None) -> Break | None:
        if entry == ends[-1]:
            return None
        return Break(stage, names[int(np.searchsorted(ends, entry, side="right"))], microbatch, device)

    def of(vector: np.ndarray, stage: str, device: int) -> Break | None:
        return None if np.isfinite(vector).all() else at(int(np.isfinite(vector).argmin()), stage, device)

    def in_microbatch(device: int, k: int) -> Break | None:
        if not np.isfinite(seen["loss"][device, k]):
            return Break("loss", None, k, device)
        return at(seen["gradient_breaks"][device, k], "backward", device, k) or at(
            seen["total_breaks"][device, k], "accumulate", device, k
        )

    number, microbatches = seen["loss"].shape
    places = [of(before[device], "before", device) for device in range(number)]
    places += [in_microbatch(device, k) for device in range(number) for k in range(microbatches)]
    named = list(enumerate(stages(recipe)))[1:]
    places += [of(passed[device, k], stage, device) for k, stage in named for device in range(number)]
    return next((place for place in places if place), None)


def first_bad(vector: jax.Array) -> jax.Array:
    """Which entry of the vector [p] is the first that is not finite; p if all are."""
    return jnp.where(jnp.isfinite(vector), vector.size, jnp.arange(vector.size)).min()


@functools.lru_cache(maxsize=devices.KEPT)
def _reduced(recipe: Recipe):
    """What every reduction makes of gradients in float32, compiled over the devices.

    (params, rows, filled, data, draw) -> each device's weight [d], and the gradient by device reduction and reduction
    [d, p].
    """

    def reduced(params, rows, filled, data, draw):
        precise, count = cast(params, jnp.float32), rows.shape[0]

        def both(totals, microbatch):
            own = Examples(data, *microbatch, draw=draw)
            _, weight, gradient, _ = backward(recipe, precise, jnp.float32(1), own)
            adds = [reduction.contribution(kind, flat(gradient), weight) for kind in ("sum", "sum_of_means")]
            return jax.tree.map(jnp.add, totals, (*adds, weight)), None

        nothing = jnp.zeros_like(flat(precise))
        (sums, means, weight), _ = jax.lax.scan(both, (nothing, nothing, jnp.float32(0)), (rows, filled))

        def finished(how, kind):
            total = means if kind.endswith("of_means") else sums
            return reduction.over_devices(how, kind, total, weight, count, recipe.axis)

        ways = DEVICE_REDUCTIONS if recipe.axis else ("global", "none")
        return weight, {how: {kind: finished(how, kind) for kind in REDUCTIONS} for how in ways}

    return devices.over(reduced, recipe.devices, recipe.parallel, (0, 1, 2), 5)


@functools.lru_cache(maxsize=devices.KEPT)
def _opened(recipe: Recipe):
    """The update with its insides, compiled over the devices.

    (state, rows, filled, weight, data, draw, numbers, rate, full [p], listed [c]) -> what `look` tells, by name, each
    [d, ...].
    """

    def opened(state: State, rows, filled, weight, data, draw, numbers: Numbers, rate, full, listed):
        divisor = reduction.divisor(recipe.reduction, weight, rows.shape[0])

        def wide(tree):
            return flat(cast(tree, jnp.float32))

        def watch(loss, weight, gradient, adds, total):
            unclipped = reduction.contribution(recipe.reduction, gradient, weight)
            told = jnp.stack([wide(unclipped), wide(adds), wide(total)])
            now = told[2] / (divisor * state.scale.value)
            *lengths, distance, one, two = norms(jnp.stack([*told, now - full, now, full]))
            known = (one > 0) & (two > 0)
            along = ((now / jnp.where(known, one, 1)) * (full / jnp.where(known, two, 1))).sum()
            return {
                "loss": loss, "weight": weight, "listed": told[:, listed], "norms": jnp.stack(lengths),
                "error": jnp.where(distance == 0, 0, distance / two),
                "cosine": jnp.where(distance == 0, 1, jnp.where(known, jnp.clip(along, -1, 1), 0)),
                "gradient_breaks": first_bad(wide(gradient)), "total_breaks": first_bad(told[2]),
            }  # fmt: skip

        after, row, seen = update(recipe, numbers, rate, state, Examples(data, rows, filled, draw), watch)
        old, new = (optimizers.moments(recipe.optimizer, now.optimizer) for now in (state, after))
        return {
            "microbatches": seen.microbatches,
            "used": seen.reduced,
            "stages": jnp.stack([stage.astype(jnp.float32) for stage in seen.stages]),
            "before": wide(state.params),
            "moments": {symbol: (wide(old[symbol]), wide(new[symbol])) for symbol in old},
            "row": row,
        }

    return devices.over(opened, recipe.devices, recipe.parallel, (0, 1, 2, 3), 10)


def look(inputs: Inputs, state: State, step: int) -> Update:
    """Open the update that `inputs` and `state` determine."""
    recipe, numbers, rate, examples, unit = inputs
    filled = np.asarray(examples.filled)
    params = first_of(state.params)
    full, weight = whole_batch(recipe, params, examples)
    complete, listed = len(full) <= LISTED, listing(full)
    with np.errstate(over="ignore"):
        narrow = full.astype(np.float32)
    state, *places = devices.place((state, examples.rows, examples.filled), recipe.devices)
    given = examples.data, examples.draw
    weights, reduced = _reduced(recipe.of_gradients())(state.params, *places, *given)
    told = devices.fetch(_opened(recipe)(state, *places, weights, *given, numbers, rate, narrow, listed))
    weights, reduced = devices.fetch((weights, reduced))
    seen, row = told["microbatches"], told["row"]

    def of_microbatch(which: int, *at: int) -> Vector:
        return Vector(seen["listed"][at][which], float(seen["norms"][at][which]))

    def whole(values: np.ndarray) -> Vector:
        return Vector(values[listed], float(np.linalg.norm(values.astype(np.float64))))

    microbatches = [
        Microbatch(
            device=d,
            index=k,
            examples=int(filled[d, k].sum()),
            weight=float(seen["weight"][d, k]),
            loss_sum=float(seen["loss"][d, k]),
            unclipped=of_microbatch(0, d, k),
            adds=of_microbatch(1, d, k),
            running_total=of_microbatch(2, d, k),
            to_full=Agreement(float(seen["error"][d, k]), float(seen["cosine"][d, k])),
        )
        for d, k in np.ndindex(filled.shape[:2])
    ]
    left_out = set()
    if recipe.clip == "none" or recipe.clip_at in ("microbatch", "device"):
        left_out.add("clip")
    if recipe.loss_scaling == "none":
        left_out.add("unscale")

    def shown(of_stages: tuple[str, ...], told: list[Any]) -> dict[str, Any]:
        return {name: what for name, what in zip(of_stages, told, strict=True) if name not in left_out}

    own, order = reduced["none"][recipe.reduction], stages(recipe)
    alone = [
        Device(
            index=d,
            examples=int(filled[d].sum()),
            weight=float(weights[d]),
            loss=float(row["device_loss" if recipe.axis else "loss"][d]),
            gradient=whole(own[d]),
            cosine=float(row["device_cosine"][d]) if recipe.axis else 1.0,
            to_others=np.array([agreement(own[d], other).cosine for other in own]),
            stages=shown(order, [whole(stage) for stage in told["stages"][d]]),
            params_after=whole(told["stages"][d, -1]),
        )
        for d in range(recipe.devices)
    ]
    names = coordinate_names(params)
    reductions = {kind: values[0] for kind, values in reduced["global"].items()}
    ways = {how: of[recipe.reduction][0] for how, of in reduced.items() if recipe.axis or how == "none"}
    return Update(
        step=step,
        coordinates=[names[i] for i in listed],
        complete=complete,
        microbatches=microbatches,
        full_sum=whole(full * weight),
        reductions={name: whole(values) for name, values in reductions.items()},
        reduction_agreement={name: agreement(values, full) for name, values in reductions.items()},
        reference=whole(full),
        agreement=agreement(told["used"][0], full),
        stages=alone[0].stages,
        stage_cosines=shown(order[1:-1], [cosine(*pair) for pair in itertools.pairwise(told["stages"][0, :-1])]),
        params_before=whole(told["before"][0]),
        moments={name: (whole(old[0]), whole(new[0])) for name, (old, new) in told["moments"].items()},
        count=int(devices.fetch(state.applied)[0]),
        learning_rate=float(rate),
        reduction=recipe.reduction,
        accumulator_dtype=recipe.accumulator_dtype,
        param_dtype=str(jax.tree.leaves(params)[0].dtype),
        compute_dtype=recipe.compute_dtype,
        clips_microbatches=clips_microbatches(recipe),
        batch_norm=bool(jax.tree.leaves(state.statistics)),
        shared_keys=recipe.draws and recipe.dropout_keys == "shared",
        devices=alone,
        device_reduction=recipe.device_reduction,
        device_reductions={name: whole(values) for name, values in ways.items()},
        device_reduction_agreement={name: agreement(values, full) for name, values in ways.items()},
        loss_scale=float(row["loss_scale"][0]),
        skipped=bool(row["skipped"][0]),
        unit=unit,
        broke=_broke(recipe, params, seen, told["before"], told["stages"]),
    )
