"""One update opened: every microbatch, the running total, all four reductions, every stage, the float64 reference."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from lab import reduction, reference
from lab.choices import REDUCTIONS
from lab.clipping import norm
from lab.precision import EXACTLY, cast
from lab.step import Examples, Numbers, Recipe, State, backward, clips_microbatches, stages, update, zeros

LISTED = 32
"""Vectors are given in full up to this many parameters; beyond it, a few named coordinates."""
NAMED = 8
"""How many named coordinates of a larger vector are given: those with the largest reference gradient."""


class Inputs(NamedTuple):
    """What an update reads besides the state."""

    recipe: Recipe
    numbers: Numbers
    rate: jax.Array
    examples: Examples


class Vector(NamedTuple):
    """A gradient-shaped vector: norm [], and its values at the listed coordinates."""

    values: np.ndarray
    norm: float


class Agreement(NamedTuple):
    """How far one vector is from the reference: |a - r| / |r|, and the cosine of the angle between them."""

    relative_error: float
    cosine: float


class Break(NamedTuple):
    """Where an update first held a number that is not finite.

    Attributes:
        stage: before (the parameters came that way), loss, backward, or one of the stages of the update.
        tensor: the first tensor concerned, by name; None for the loss.
        microbatch: its index, for loss, backward and accumulate; else None.
    """

    stage: str
    tensor: str | None
    microbatch: int | None


class Microbatch(NamedTuple):
    """One microbatch of the update, and the accumulator after it.

    `adds` is what it added to the accumulator. `to_full` is how well the update would agree with the full batch if
    the accumulator's total were used now.
    """

    index: int
    examples: int
    weight: float
    loss_sum: float
    adds: Vector
    running_total: Vector
    to_full: Agreement


class Update(NamedTuple):
    """Everything about one update. Vectors hold the values at `coordinates`, all of them where `complete`.

    `stages` has the gradient after each operation, in the order the settings put them; the last holds the parameters.
    `broke` says where a number first was not finite, if one was.
    """

    step: int
    coordinates: list[str]
    complete: bool
    microbatches: list[Microbatch]
    full_sum: Vector
    reductions: dict[str, Vector]
    reduction_agreement: dict[str, Agreement]
    reference: Vector
    agreement: Agreement
    stages: dict[str, Vector]
    learning_rate: float
    reduction: str
    accumulator_dtype: str
    param_dtype: str
    compute_dtype: str
    clips_microbatches: bool
    loss_scale: float
    skipped: bool
    broke: Break | None

    def to_dict(self) -> dict[str, Any]:
        """As `training-lab inspect --json` writes it."""

        def shown(vector: Vector, name: str = "gradient") -> dict[str, Any]:
            if self.complete:
                return {name: vector.values, "norm": vector.norm}
            return {"coordinates": dict(zip(self.coordinates, vector.values, strict=True)), "norm": vector.norm}

        return {
            "step": self.step,
            "microbatches": [self._microbatch(entry) for entry in self.microbatches],
            "reductions": {
                name: {**shown(vector), **self.reduction_agreement[name]._asdict()}
                for name, vector in self.reductions.items()
            },
            "reference": shown(self.reference),
            "agreement": self.agreement._asdict(),
            "stages": [{"name": name, **shown(vector)} for name, vector in self.stages.items()],
            "update": {**shown(self.applied, "applied"), "learning_rate": self.learning_rate, "skipped": self.skipped},
            "loss_scale": self.loss_scale,
            "not_finite": self.broke._asdict() if self.broke else None,
        }

    @property
    def applied(self) -> Vector:
        """What was added to the parameters."""
        return self.stages["learning_rate"]

    def _microbatch(self, entry: Microbatch) -> dict[str, Any]:
        row: dict[str, Any] = {
            "device": 0,
            "index": entry.index,
            "examples": entry.examples,
            "weight": entry.weight,
            "loss_sum": entry.loss_sum,
            "gradient_norm": entry.adds.norm,
            "running_total_norm": entry.running_total.norm,
            "cosine_to_full": entry.to_full.cosine,
            "relative_error_to_full": entry.to_full.relative_error,
        }
        for name, vector in (("gradient", entry.adds), ("running_total", entry.running_total)):
            if self.complete:
                row[name] = vector.values
            else:
                row[f"{name}_coordinates"] = dict(zip(self.coordinates, vector.values, strict=True))
        return row


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


def tensor_names(params: Any) -> list[str]:
    """The name of every tensor of the parameters, such as `w` or `0.weight`."""
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    return [jax.tree_util.keystr(path, simple=True, separator=".") for path in paths]


def _broke(recipe: Recipe, names: list[str], seen: dict[str, np.ndarray], flags: list[np.ndarray]) -> Break | None:
    """The first number that is not finite, in the order things happen.

    Args:
        seen: of every microbatch: `loss` [m], and whether each tensor of its gradient and of the running total is
            finite, `gradient_is` and `total_is` [m, tensors].
        flags: the same of the parameters before and of every stage [tensors].
    """

    def first(stage: str, fine: np.ndarray, microbatch: int | None = None) -> Break | None:
        return None if fine.all() else Break(stage, names[int(fine.argmin())], microbatch)

    before, _, *later = flags
    found = first("before", before)
    for k in range(len(seen["loss"])):
        if not found and not np.isfinite(seen["loss"][k]):
            found = Break("loss", None, k)
        found = found or first("backward", seen["gradient_is"][k], k) or first("accumulate", seen["total_is"][k], k)
    for stage, fine in zip(stages(recipe)[1:], later, strict=True):
        found = found or first(stage, fine)
    return found


@functools.lru_cache(maxsize=128)
def _opened(recipe: Recipe):
    """The update with its insides, compiled: (numbers, rate, state, examples, full [p], divisor [], listed [c])."""

    def opened(numbers: Numbers, rate, state: State, examples: Examples, full, divisor, listed):
        def flat(tree):
            return ravel_pytree(tree)[0]

        def finite(tree):
            return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)])

        def summary(tree):
            return flat(tree).astype(jnp.float32)[listed], norm(tree)

        def watch(loss, weight, gradient, adds, total):
            now = flat(total).astype(jnp.float32) / (divisor * state.scale.value)
            distance, lengths = norm(now - full), norm(now) * norm(full)
            error = jnp.where(distance == 0, 0, distance / norm(full))
            cosine = jnp.where(lengths == 0, 0, jnp.clip(jnp.vdot(now, full) / lengths, -1, 1))
            cosine = jnp.where(distance == 0, 1, cosine)
            return {"loss": loss, "weight": weight, "adds": summary(adds), "total": summary(total),
                    "error": error, "cosine": cosine, "gradient_is": finite(gradient),
                    "total_is": finite(total)}  # fmt: skip

        _, row, seen = update(recipe, numbers, rate, state, examples, watch)
        precise = cast(state.params, jnp.float32)

        def both(totals, microbatch):
            _, weight, gradient = backward(recipe, precise, jnp.float32(1), Examples(examples.data, *microbatch))
            adds = [reduction.contribution(kind, gradient, weight) for kind in ("sum", "sum_of_means")]
            return jax.tree.map(jnp.add, totals, (*adds, weight)), None

        nothing = zeros(precise)
        microbatches = (examples.rows, examples.filled)
        (sums, means, weight), _ = jax.lax.scan(both, (nothing, nothing, jnp.float32(0)), microbatches)
        count = examples.rows.shape[0]
        reductions = {
            kind: flat(reduction.finish(kind, means if kind.endswith("of_means") else sums, weight, count))
            for kind in REDUCTIONS
        }
        flags = [finite(tree) for tree in (state.params, *seen.stages)]
        return seen.microbatches, reductions, flat(seen.reduced), [summary(x) for x in seen.stages], flags, row

    return jax.jit(opened, compiler_options=EXACTLY)


def look(inputs: Inputs, state: State, step: int) -> Update:
    """Open the update that `inputs` and `state` determine."""
    recipe, numbers, rate, examples = inputs
    filled = np.asarray(examples.filled)
    rows = np.asarray(examples.rows)[filled]
    full, weight = reference.gradient(
        recipe.loss, state.params, {name: np.asarray(array)[rows] for name, array in examples.data.items()}
    )
    complete = len(full) <= LISTED
    listed = np.arange(len(full)) if complete else np.argsort(-np.abs(full), kind="stable")[:NAMED]
    divisor = reduction.divisor(recipe.reduction, jnp.float32(weight), len(filled))
    with np.errstate(over="ignore"):
        narrow = full.astype(np.float32)
    seen, reductions, used, passed, flags, row = jax.device_get(
        _opened(recipe)(numbers, rate, state, examples, jnp.asarray(narrow), divisor, jnp.asarray(listed))
    )

    def vector(summary) -> Vector:
        values, length = summary
        return Vector(np.asarray(values), float(length))

    def whole(values: np.ndarray) -> Vector:
        return Vector(values[listed], float(np.linalg.norm(values.astype(np.float64))))

    microbatches = [
        Microbatch(
            index=k,
            examples=int(filled[k].sum()),
            weight=float(seen["weight"][k]),
            loss_sum=float(seen["loss"][k]),
            adds=vector([x[k] for x in seen["adds"]]),
            running_total=vector([x[k] for x in seen["total"]]),
            to_full=Agreement(float(seen["error"][k]), float(seen["cosine"][k])),
        )
        for k in range(len(filled))
    ]
    left_out = set()
    if recipe.clip == "none" or clips_microbatches(recipe):
        left_out.add("clip")
    if recipe.loss_scaling == "none":
        left_out.add("unscale")
    names = coordinate_names(state.params)
    return Update(
        step=step,
        coordinates=[names[i] for i in listed],
        complete=complete,
        microbatches=microbatches,
        full_sum=whole(full * weight),
        reductions={name: whole(values) for name, values in reductions.items()},
        reduction_agreement={name: agreement(values, full) for name, values in reductions.items()},
        reference=whole(full),
        agreement=agreement(used, full),
        stages={
            name: vector(summary) for name, summary in zip(stages(recipe), passed, strict=True) if name not in left_out
        },
        learning_rate=float(rate),
        reduction=recipe.reduction,
        accumulator_dtype=recipe.accumulator_dtype,
        param_dtype=str(jax.tree.leaves(state.params)[0].dtype),
        compute_dtype=recipe.compute_dtype,
        clips_microbatches=clips_microbatches(recipe),
        loss_scale=float(row["loss_scale"]),
        skipped=bool(row["skipped"]),
        broke=_broke(recipe, tensor_names(state.params), seen, flags),
    )
