"""Loops the compiler sees: one scan over the updates, whole, in chunks, or with its microbatches unrolled."""

import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from lab.loops.loop import Loop, compiled, copied, everywhere, memory_of, placed
from lab.loops.work import Work

CHUNK = 16
"""Updates between two reports of the chunked scan."""


def ours(work: Work, measured: bool = True) -> Loop:
    """The compiled program of `lab.fit`; without the measurements of held-out examples if they are not wanted."""
    plan, updates = work.plan, work.settings.steps
    share = plan.share if measured else plan.share._replace(held_out=None)
    data = plan.data(0, plan.start)
    given = plan.start, plan.blank(), share, data, jnp.int32(0), jnp.int32(updates)
    began = time.perf_counter()
    program = plan.program.train.lower(*given).compile()
    seconds = time.perf_counter() - began

    def prepare():
        return jax.block_until_ready(jax.tree.map(jnp.copy, given[:2]))

    def run(fresh):
        state, _ = jax.block_until_ready(program(*fresh, *given[2:]))
        return jax.tree.map(lambda leaf: leaf[0], state.params)

    return Loop(seconds, memory_of(program), prepare, run)


def recording(work: Work) -> Loop:
    """The same without measuring held-out examples: what the record alone costs."""
    return ours(work, measured=False)


def bare(work: Work, unroll: bool = False) -> Loop:
    """One scan over all updates."""
    update = work.update(unroll)

    def train(params, state, data, rows, filled, weights):
        def step(carry, each):
            rows, weight = each
            params, state, _ = update(*carry, data, rows, filled, weight)
            return (params, state), None

        return lax.scan(step, (params, state), (rows, weights))[0]

    rest = everywhere(work, work.data), *placed(work, work.rows, 1), everywhere(work, work.weights)
    program, seconds = compiled(train, work, (*copied(work), *rest), rows=1, donate=(0, 1))
    return Loop(
        seconds,
        memory_of(program),
        functools.partial(copied, work),
        lambda fresh: jax.block_until_ready(program(*fresh, *rest))[0],
    )


def unrolled(work: Work) -> Loop:
    """The same, with every microbatch written out: no scan inside the scan."""
    return bare(work, unroll=True)


def chunked(work: Work, size: int = CHUNK, report: Callable[[int, float], Any] = lambda done, loss: None) -> Loop:
    """A scan over `size` updates at a time; `report(updates done, loss)` after each."""
    update, updates = work.update(), work.settings.steps

    def train(params, state, data, rows, filled, weights):
        def step(carry, each):
            rows, weight = each
            params, state, loss = update(*carry, data, rows, filled, weight)
            return (params, state), loss

        carry, losses = lax.scan(step, (params, state), (rows, weights))
        return *carry, losses[-1]

    data, everything, seconds = everywhere(work, work.data), [], 0.0
    programs: dict[int, Any] = {}
    for first in range(0, updates, size):
        stop = min(first + size, updates)
        rows, filled = placed(work, work.rows[first:stop], 1)
        rest = data, rows, filled, everywhere(work, work.weights[first:stop])
        if stop - first not in programs:
            program, took = compiled(train, work, (*copied(work), *rest), rows=1, donate=(0, 1))
            programs[stop - first], seconds = program, seconds + took
        everything.append((programs[stop - first], stop, rest))

    def run(fresh):
        params, state = fresh
        for program, stop, rest in everything:
            params, state, loss = program(params, state, *rest)
            report(stop, float(loss))
        return jax.block_until_ready(params)

    return Loop(seconds, memory_of(everything[0][0]), functools.partial(copied, work), run)
