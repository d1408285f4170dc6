"""One update opened: every microbatch, the running total, all four reductions, every stage, the float64 reference."""

import functools
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from lab import devices, optimizers, reduction, reference
from lab.choices import DEVICE_REDUCTIONS, REDUCTIONS
from lab.clipping import cosine, norm
from lab.opened import Agreement, Break, Device, Microbatch, Update, Vector
from lab.precision import cast
from lab.recipe import Examples, Numbers, Recipe, State, clips_microbatches, stages
from lab.step import backward, context, update, zeros

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
        distance, length, own = (np.linalg.norm(x) for x in (vector - full, full, vector))
        if distance == 0:
            return Agreement(0.0, 1.0)
        cosine = np.clip(vector @ full / (own * length), -1, 1) if own and length else 0.0
        return Agreement(float(distance / length), float(cosine))


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


def tensor_names(params: Any) -> list[str]:
    """The name of every tensor of the parameters, such as `w` or `0.weight`."""
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    return [jax.tree_util.keystr(path, simple=True, separator=".") for path in paths]


def first_of(tree: Any) -> Any:
    """The first device's part of arrays with a device axis."""
    return jax.tree.map(lambda leaf: leaf[0], devices.fetch(tree))


def all_microbatches(examples: Examples) -> Examples:
    """The microbatches of all devices, one after the other [d * m, b]."""
    rows, filled = (np.asarray(x).reshape(-1, x.shape[-1]) for x in (examples.rows, examples.filled))
    return examples._replace(rows=jnp.asarray(rows), filled=jnp.asarray(filled))


def whole_batch(recipe: Recipe, params: Any, examples: Examples) -> tuple[np.ndarray, float]:
    """Gradient [p] of the mean loss of all microbatches' examples at once, float64 if `recipe.wide`; and their weight.

    What is drawn for an example is what distinct keys would draw.
    """
    rows = jnp.asarray(np.asarray(examples.rows)[np.asarray(examples.filled)])
    at_once = examples._replace(rows=rows, filled=jnp.ones(len(rows), bool))
    batch = {name: np.asarray(array)[np.asarray(rows)] for name, array in examples.data.items()}
    given = context(recipe._replace(dropout_keys="distinct"), at_once)
    return reference.gradient(recipe.loss, params, batch, given, recipe.wide)


def _broke(recipe: Recipe, names: list[str], seen: dict[str, np.ndarray], flags: list[np.ndarray]) -> Break | None:
    """The first number that is not finite, in the order things happen.

    Args:
        seen: of every microbatch: `loss` [d, m], and whether each tensor of its gradient and of the running total is
            finite, `gradient_is` and `total_is` [d, m, tensors].
        flags: the same of the parameters before and of every stage [d, tensors].
    """
    number, microbatches = seen["loss"].shape

    def first(stage: str, fine: np.ndarray, device: int, microbatch: int | None = None) -> Break | None:
        return None if fine.all() else Break(stage, names[int(fine.argmin())], microbatch, device)

    def in_microbatch(device: int, k: int) -> Break | None:
        if not np.isfinite(seen["loss"][device, k]):
            return Break("loss", None, k, device)
        gradient, total = seen["gradient_is"][device, k], seen["total_is"][device, k]
        return first("backward", gradient, device, k) or first("accumulate", total, device, k)

    before, _, *later = flags
    places = [first("before", before[device], device) for device in range(number)]
    places += [in_microbatch(device, k) for device in range(number) for k in range(microbatches)]
    named = zip(stages(recipe)[1:], later, strict=True)
    places += [first(stage, fine[device], device) for stage, fine in named for device in range(number)]
    return next((place for place in places if place), None)


@functools.lru_cache(maxsize=devices.KEPT)
def _opened(recipe: Recipe):
    """The update with its insides, compiled over the devices.

    (state, rows, filled, data, draw, numbers, rate, full [p], listed [c]) -> what `look` tells, by name, each [d, ...].
    """

    def opened(state: State, rows, filled, data, draw, numbers: Numbers, rate, full, listed):
        def flat(tree):
            return ravel_pytree(tree)[0]

        def finite(tree):
            return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)])

        def summary(tree):
            return flat(tree).astype(jnp.float32)[listed], norm(tree)

        precise = cast(state.params, jnp.float32)

        def both(totals, microbatch):
            own = Examples(data, *microbatch, draw=draw)
            _, weight, gradient, _ = backward(recipe, precise, jnp.float32(1), own)
            adds = [reduction.contribution(kind, gradient, weight) for kind in ("sum", "sum_of_means")]
            return jax.tree.map(jnp.add, totals, (*adds, weight)), None

        nothing, count = zeros(precise), rows.shape[0]
        (sums, means, weight), _ = jax.lax.scan(both, (nothing, nothing, jnp.float32(0)), (rows, filled))
        divisor = reduction.divisor(recipe.reduction, weight, count)

        def reduced(how, kind):
            total = means if kind.endswith("of_means") else sums
            return flat(reduction.over_devices(how, kind, total, weight, count, recipe.axis))

        def watch(loss, weight, gradient, adds, total):
            now = flat(total).astype(jnp.float32) / (divisor * state.scale.value)
            distance = norm(now - full)
            unclipped = reduction.contribution(recipe.reduction, gradient, weight)
            return {
                "loss": loss, "weight": weight, "unclipped": summary(unclipped), "adds": summary(adds),
                "total": summary(total),
                "error": jnp.where(distance == 0, 0, distance / norm(full)),
                "cosine": jnp.where(distance == 0, 1, cosine(now, full)),
                "gradient_is": finite(gradient), "total_is": finite(total),
            }  # fmt: skip

        after, row, seen = update(recipe, numbers, rate, state, Examples(data, rows, filled, draw), watch)
        ways = DEVICE_REDUCTIONS if recipe.axis else ("none",)
        pairs = itertools.pairwise(cast(stage, jnp.float32) for stage in seen.stages[:-1])
        old, new = (optimizers.moments(recipe.optimizer, now.optimizer) for now in (state, after))
        return {
            "microbatches": seen.microbatches,
            "reductions": {kind: reduced("global", kind) for kind in REDUCTIONS},
            "device_reductions": {how: reduced(how, recipe.reduction) for how in ways},
            "used": flat(seen.reduced),
            "stages": [summary(x) for x in seen.stages],
            "cosines": [cosine(one, other) for one, other in pairs],
            "before": summary(state.params),
            "moments": {symbol: (summary(old[symbol]), summary(new[symbol])) for symbol in old},
            "flags": [finite(tree) for tree in (state.params, *seen.stages)],
            "weight": weight,
            "row": row,
        }

    return devices.over(opened, recipe.devices, recipe.parallel, (0, 1, 2), 9)


def look(inputs: Inputs, state: State, step: int) -> Update:
    """Open the update that `inputs` and `state` determine."""
    recipe, numbers, rate, examples, unit = inputs
    filled = np.asarray(examples.filled)
    params = first_of(state.params)
    full, weight = whole_batch(recipe, params, examples)
    complete, listed = len(full) <= LISTED, listing(full)
    with np.errstate(over="ignore"):
        narrow = full.astype(np.float32)
    placed = devices.place((state, examples.rows, examples.filled), recipe.devices)
    told = devices.fetch(
        _opened(recipe)(*placed, examples.data, examples.draw, numbers, rate, jnp.asarray(narrow), jnp.asarray(listed))
    )
    seen, row = told["microbatches"], told["row"]

    def vector(summary, *at: int) -> Vector:
        values, length = summary
        return Vector(np.asarray(values)[at], float(length[at]))

    def whole(values: np.ndarray) -> Vector:
        return Vector(values[listed], float(np.linalg.norm(values.astype(np.float64))))

    def first(vectors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: values[0] for name, values in vectors.items()}

    microbatches = [
        Microbatch(
            device=d,
            index=k,
            examples=int(filled[d, k].sum()),
            weight=float(seen["weight"][d, k]),
            loss_sum=float(seen["loss"][d, k]),
            unclipped=vector(seen["unclipped"], d, k),
            adds=vector(seen["adds"], d, k),
            running_total=vector(seen["total"], d, k),
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

    own, order = told["device_reductions"]["none"], stages(recipe)
    alone = [
        Device(
            index=d,
            examples=int(filled[d].sum()),
            weight=float(told["weight"][d]),
            loss=float(row["device_loss" if recipe.axis else "loss"][d]),
            gradient=whole(own[d]),
            cosine=float(row["device_cosine"][d]) if recipe.axis else 1.0,
            to_others=np.array([agreement(own[d], other).cosine for other in own]),
            stages=shown(order, [vector(summary, d) for summary in told["stages"]]),
            params_after=vector(told["stages"][-1], d),
        )
        for d in range(recipe.devices)
    ]
    names, reductions, ways = coordinate_names(params), first(told["reductions"]), first(told["device_reductions"])
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
        stage_cosines=shown(order[1:-1], [float(cosines[0]) for cosines in told["cosines"]]),
        params_before=vector(told["before"], 0),
        moments={name: (vector(old, 0), vector(new, 0)) for name, (old, new) in told["moments"].items()},
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
        broke=_broke(recipe, tensor_names(params), seen, told["flags"]),
    )
