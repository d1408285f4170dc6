"""The gradient entries of one update against the range of a number format: what is lost, and which scale saves it."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lab.microscope import Inputs, all_microbatches, first_of
from lab.precision import EXACTLY, cast, format_of
from lab.recipe import Examples, Recipe, State
from lab.scaling import LEAST, MOST
from lab.step import backward

LOWEST, HIGHEST = -127, 128
"""Exponents of two that are counted; float32 has no normal number outside."""
BEARABLE = 1e-3
"""The share of entries that a good loss scale may still flush to zero."""


class Census(NamedTuple):
    """The float32 gradient entries of every microbatch that holds examples, counted against a number format.

    Attributes:
        dtype: the format.
        exponents, entries: how many entries have a magnitude from 2^exponent up to twice that.
        zeros: entries that are exactly 0.
        total: all entries, over all microbatches.
        loss_scale: what the entries are multiplied by before they are rounded.
        flushed, overflowed: shares of all entries that become 0, or infinite, in the format under that scale.
        flushed_unscaled: the share that becomes 0 without any scale.
        best_scale: the smallest power of two that flushes at most `BEARABLE` and lets nothing overflow, backward pass
            included; where no scale does both, the largest that lets nothing overflow.
        flushed_at_best: the share flushed under `best_scale`.
        fits: whether nothing overflows under `best_scale`.
        broken: whether float32 itself has an entry that is not finite; nothing else is told then.
    """

    dtype: str
    exponents: np.ndarray
    entries: np.ndarray
    zeros: int
    total: int
    loss_scale: float
    flushed: float
    overflowed: float
    flushed_unscaled: float
    best_scale: float
    flushed_at_best: float
    fits: bool
    broken: bool

    def to_dict(self) -> dict[str, Any]:
        """As `training-lab inspect --json` writes it; only exponents that occur."""
        occurs = self.entries > 0
        return self._asdict() | {"exponents": self.exponents[occurs], "entries": self.entries[occurs]}


@functools.lru_cache(maxsize=8)
def _counted(recipe: Recipe, dtype: str):
    """The counting, compiled: (params, scale [], examples) -> sums over all microbatches, by name."""

    def counted(params, scale: jax.Array, examples: Examples) -> dict[str, jax.Array]:
        precise, coarse = cast(params, jnp.float32), cast(params, dtype)

        def count(counts, microbatch):
            rows, filled = microbatch
            batch = examples._replace(rows=rows, filled=filled)
            gradient = backward(recipe, precise, jnp.float32(1), batch).gradient
            rounded_throughout = backward(recipe, coarse, scale, batch).gradient
            entries = jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(gradient)])
            rounded = cast(entries * scale, dtype)
            here = {
                "entries": jnp.bincount(
                    _exponent(entries) - LOWEST, (entries != 0).astype(jnp.int32), length=HIGHEST - LOWEST + 1
                ),
                "zeros": (entries == 0).sum(),
                "flushed": ((entries != 0) & (rounded == 0)).sum(),
                "overflowed": (jnp.isfinite(entries) & ~jnp.isfinite(rounded)).sum(),
                "broken": (~jnp.isfinite(entries)).sum(),
                "overflowed_throughout": sum((~jnp.isfinite(x)).sum() for x in jax.tree.leaves(rounded_throughout)),
            }
            there = batch.filled.any()
            return jax.tree.map(lambda total, x: total + jnp.where(there, x.astype(jnp.int32), 0), counts, here), None

        kinds = ("zeros", "flushed", "overflowed", "broken", "overflowed_throughout")
        nothing = {"entries": jnp.zeros(HIGHEST - LOWEST + 1, jnp.int32), **dict.fromkeys(kinds, jnp.int32(0))}
        return jax.lax.scan(count, nothing, (examples.rows, examples.filled))[0]

    return jax.jit(counted, compiler_options=EXACTLY)


def _exponent(x: jax.Array) -> jax.Array:
    """floor(log2 |x|), int32, between `LOWEST` and `HIGHEST`."""
    _, exponent = jnp.frexp(x)
    return jnp.clip(exponent - 1, LOWEST, HIGHEST)


def take(inputs: Inputs, state: State) -> Census:
    """Count the gradient entries of the update that `inputs` and `state` determine.

    The format is the one the update computed in; float16, as a question, where that was float32.
    """
    recipe = inputs.recipe
    dtype = "float16" if recipe.compute_dtype == "float32" else recipe.compute_dtype

    params, examples = first_of(state).params, all_microbatches(inputs.examples)

    def count(scale: float) -> dict[str, np.ndarray]:
        return jax.device_get(_counted(recipe.of_gradients(), dtype)(params, np.float32(scale), examples))

    scale = float(first_of(state).scale.value)
    now = count(scale)
    exponents, entries = np.arange(LOWEST, HIGHEST + 1), now["entries"]
    total = int(entries.sum() + now["zeros"])
    broken = bool(now["broken"])
    best = 1.0 if broken else _candidate(exponents, entries, dtype)
    at_best = count(best)
    while not broken and best > LEAST and at_best["overflowed"] + at_best["overflowed_throughout"] > 0:
        best /= 2
        at_best = count(best)
    return Census(
        dtype=dtype,
        exponents=exponents,
        entries=entries,
        zeros=int(now["zeros"]),
        total=total,
        loss_scale=scale,
        flushed=float(now["flushed"] / total),
        overflowed=float(now["overflowed"] / total),
        flushed_unscaled=float(count(1.0)["flushed"] / total),
        best_scale=best,
        flushed_at_best=float(at_best["flushed"] / total),
        fits=not at_best["overflowed"] + at_best["overflowed_throughout"],
        broken=broken,
    )


def _candidate(exponents: np.ndarray, entries: np.ndarray, dtype: str) -> float:
    """The smallest scale from 1 up that flushes at most `BEARABLE`, or less where the largest entry needs it."""
    about = format_of(dtype)
    largest = int(exponents[entries > 0].max(initial=LOWEST))
    room = int(np.floor(np.log2(about.largest))) - largest
    for power in range(int(np.log2(MOST)) + 1):
        flushed = entries[2.0 ** (exponents + power + 1.0) <= about.smallest / 2].sum()
        if flushed <= BEARABLE * entries.sum() or power >= room:
            break
    return float(2.0 ** max(min(power, room), np.log2(LEAST)))
