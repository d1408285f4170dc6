"""What the accumulator's number format costs one update, for every number of microbatches it could be cut into."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lab import batches
from lab.choices import DTYPES
from lab.key import require
from lab.microscope import Inputs, first_of, whole_batch
from lab.precision import EXACTLY, add, cast
from lab.recipe import Examples, Recipe, State
from lab.step import backward

PIECES = 256
"""The batch is cut into at most this many pieces; fewer microbatches are sums of neighbouring pieces."""
COORDINATES = 65_536
"""Of a larger model this many parameters are looked at, evenly spaced."""


class Rounding(NamedTuple):
    """Relative error |a - r| / |r| of the accumulated gradient against float64, by accumulator dtype.

    Attributes:
        counts: numbers of microbatches [k].
        errors: for every dtype the error at each count [k].
    """

    counts: np.ndarray
    errors: dict[str, np.ndarray]


@functools.lru_cache(maxsize=8)
def _totals(recipe: Recipe):
    """Compiled: (params, pieces, ends [pieces, k], listed [c]) -> for every dtype the accumulated sums [k, c].

    `ends` marks the pieces that end a microbatch, for each number of microbatches.
    """

    def totals(params, pieces: Examples, ends: jax.Array, listed: jax.Array):
        def take(carry, piece):
            rows, filled, ended = piece
            microbatch, accumulators = carry
            own = pieces._replace(rows=rows, filled=filled)
            gradient = backward(recipe, params, jnp.float32(1), own).gradient
            entries = jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(gradient)])[listed]
            microbatch = microbatch + entries[None, :]
            added = {
                dtype: jnp.where(ended[:, None], add(total, microbatch), total) for dtype, total in accumulators.items()
            }
            return (jnp.where(ended[:, None], 0, microbatch), added), None

        shape = (ends.shape[1], listed.shape[0])
        nothing = jnp.zeros(shape), {dtype: jnp.zeros(shape, dtype) for dtype in DTYPES}
        (_, accumulators), _ = jax.lax.scan(take, nothing, (pieces.rows, pieces.filled, ends))
        return cast(accumulators, jnp.float32)

    return jax.jit(totals, compiler_options=EXACTLY)


def measure(inputs: Inputs, state: State) -> Rounding:
    """Accumulate the update's gradient sum in every dtype, in 1, 2, 4, ... microbatches.

    The pieces' gradients are float32, so that only the accumulator rounds.

    Raises:
        SettingsError: the model has a batch norm.
    """
    require(
        not jax.tree.leaves(state.statistics),
        "norm=batch: the gradient itself depends on the cut, so the accumulator's error cannot be told from that; "
        "use norm=layer",
    )
    recipe, examples, params = inputs.recipe._replace(dropout_keys="distinct"), inputs.examples, first_of(state).params
    rows = np.asarray(examples.rows)[np.asarray(examples.filled)]
    layout = batches.deal(len(rows), min(PIECES, len(rows)), None)
    number = len(layout.rows)
    counts = 2 ** np.arange(number.bit_length())
    last = [np.linspace(0, number, count + 1).astype(int)[1:] - 1 for count in counts]
    ends = np.stack([np.isin(np.arange(number), ending) for ending in last], axis=1)
    full, weight = whole_batch(recipe, params, examples)
    listed = np.unique(np.linspace(0, len(full) - 1, min(len(full), COORDINATES)).astype(np.int32))
    pieces = examples._replace(**jax.device_put({"rows": rows[layout.rows], "filled": layout.filled}))
    found = jax.device_get(_totals(recipe.of_gradients())(cast(params, np.float32), pieces, ends, listed))
    sums = full[listed] * weight
    with np.errstate(all="ignore"):
        errors = {
            dtype: np.linalg.norm(totals.astype(np.float64) - sums, axis=1) / np.linalg.norm(sums)
            for dtype, totals in found.items()
        }
    return Rounding(counts, errors)
