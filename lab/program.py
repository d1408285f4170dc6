"""The compiled program: blocks of updates around `step.update`, with the record written to a tape.

The program loops over blocks of `BLOCK` updates; every block saves its first state to a snapshot slot, measures the
held-out examples and scans its updates. How many updates to do is a number, so no length of run compiles anything new.
"""

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lab import cache, devices
from lab.precision import cast
from lab.recipe import Draw, Examples, Numbers, Recipe, State
from lab.record import of_updates
from lab.reduction import over_devices
from lab.step import update
from lab.task import Context

BLOCK = 16
"""Updates between two measurements of the held-out examples."""

TRACES: Counter[Recipe] = Counter()
"""How often the program of each recipe has been traced."""


class Share(NamedTuple):
    """What a device has for itself; outside the program every array has a leading device axis [d, ...]."""

    rows: jax.Array
    """Place in the batch [m, b]."""
    filled: jax.Array
    """Whether the place counts [m, b]."""
    held_out: dict[str, jax.Array] | None
    """Its part of the held-out examples [h, ...]."""
    held_out_filled: jax.Array
    """Whether that example counts [h]."""


class Data(NamedTuple):
    """All arrays a call reads that are the same on every device; changing their values compiles nothing."""

    train: dict[str, jax.Array]
    """The examples [n, ...]."""
    stream: jax.Array
    """The example in every place of every batch [updates * batch size]."""
    rates: jax.Array
    """Learning rate of every applied update [updates], from the first of them."""
    applied: jax.Array
    """Updates applied before the first rate []."""
    updates: jax.Array
    """Updates done before the first batch []."""
    stride: jax.Array
    """Blocks from one snapshot to the next []."""
    numbers: Numbers


class Tape(NamedTuple):
    """What a call writes, on every device; outside the program with a leading device axis."""

    rows: jax.Array
    """The record, in the order of `of_updates` [updates, columns], float32."""
    held_out: jax.Array
    """What `measures` names, before every block [blocks, measures], float32."""
    snapshots: State
    """States by slot; the last slot is for those not kept [slots + 1, ...]."""


class Program(NamedTuple):
    """Compiled functions of one recipe, over all its devices; `train` donates state and tape."""

    train: Callable[[State, Tape, Share, Data, jax.Array, jax.Array], tuple[State, Tape]]
    """(state, tape, share, data, first, last) -> state and tape after updates first to last - 1."""
    measure: Callable[[State, Share], jax.Array]
    """(state, share) -> what `measures` names, of the held-out examples [d, measures]."""


def measures(recipe: Recipe, held_out: Any) -> list[str]:
    """What is measured of the held-out examples: their mean loss and, where predictions can be right, accuracy."""
    if held_out is None:
        return []
    return ["loss"] if recipe.score is None else ["loss", "accuracy"]


def measure(recipe: Recipe, state: State, share: Share) -> jax.Array:
    """What `measures` names, each device measuring its part [measures]."""
    if share.held_out is None:
        return jnp.zeros(0)
    computing = cast(state.params, recipe.compute_dtype)
    context = Context(share.held_out_filled, statistics=state.statistics)
    losses, weights, _ = recipe.loss(computing, share.held_out, context)
    losses, weights = (jnp.where(share.held_out_filled, x, jnp.zeros_like(x)) for x in (losses, weights))

    def mean(of, weight):
        return over_devices("global", "mean", of.sum(), weight.sum(), 1, recipe.axis)

    measured = [mean(losses, weights)]
    if recipe.score is not None:
        counts = share.held_out_filled.astype(jnp.float32)
        measured.append(mean(recipe.score(computing, share.held_out, context) * counts, counts))
    return jnp.stack(measured)


def one(recipe: Recipe, share: Share, data: Data, state: State, i: jax.Array) -> tuple[State, dict[str, jax.Array]]:
    """Update number i of the stream, and its row of the record."""
    batch_size = data.stream.shape[0] // data.rates.shape[0]
    order = lax.dynamic_slice_in_dim(data.stream, i * batch_size, batch_size)
    draw = Draw(data.numbers.seed, data.updates + i, data.numbers.dropout)
    examples = Examples(data.train, order[share.rows], share.filled, draw)
    after, row, _ = update(recipe, data.numbers, data.rates[state.applied - data.applied], state, examples)
    return after, row


def train(
    recipe: Recipe, state: State, tape: Tape, share: Share, data: Data, first: jax.Array, last: jax.Array
):  # fmt: skip
    """Updates first to last - 1 of the stream; a block may be left and entered again at any of its updates."""
    TRACES[recipe] += 1
    names = of_updates(recipe.devices > 1)
    not_kept = jax.tree.leaves(tape.snapshots)[0].shape[0] - 1

    def begin(k, tape: Tape, state: State) -> Tape:
        """What is done before the first update of a block: measure the held-out examples, keep the state."""
        slot = jnp.where(lax.rem(k, data.stride) == 0, lax.div(k, data.stride), not_kept)

        def put(array, new, place):
            return lax.dynamic_update_index_in_dim(array, new, place, 0)

        return tape._replace(
            held_out=put(tape.held_out, measure(recipe, state, share), k),
            snapshots=jax.tree.map(lambda kept, now: put(kept, now, slot), tape.snapshots, state),
        )

    def block(k, carry):
        state, tape = carry
        start = k * BLOCK
        tape = lax.cond(start >= first, lambda t: begin(k, t, state), lambda t: t, tape)

        def step(place, carry):
            state, rows = carry
            state, row = one(recipe, share, data, state, start + place)
            row = jnp.stack([row[name].astype(jnp.float32) for name in names])
            return state, lax.dynamic_update_index_in_dim(rows, row, start + place, 0)

        stop = jnp.minimum(last - start, BLOCK)
        state, rows = lax.fori_loop(jnp.maximum(first - start, 0), stop, step, (state, tape.rows))
        return state, tape._replace(rows=rows)

    return lax.fori_loop(first // BLOCK, (last + BLOCK - 1) // BLOCK, block, (state, tape))


@functools.lru_cache(maxsize=devices.KEPT)
def program(recipe: Recipe) -> Program:
    """The program of a recipe; it is compiled once for each set of array shapes."""
    cache.trim()

    def over(function, split, arguments, donate=()):
        part = functools.partial(function, recipe)
        return devices.over(part, recipe.devices, recipe.parallel, split, arguments, donate)

    return Program(
        over(train, (0, 1, 2), 6, (0, 1)),
        over(measure, (0, 1), 2),
    )
