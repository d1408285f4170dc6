"""Loops that Python turns: one compiled update, or one compiled microbatch, at a time."""

import functools
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lab.loops.loop import Loop, compiled, copied, everywhere, memory_of, placed
from lab.loops.work import Work


def python_loop(work: Work) -> Loop:
    """One compiled update at a time; its loss is read each time."""
    data = everywhere(work, work.data)
    given = [
        (data, *placed(work, jnp.asarray(rows), 0), everywhere(work, jnp.asarray(weight)))
        for rows, weight in zip(np.asarray(work.rows), np.asarray(work.weights), strict=True)
    ]
    program, seconds = compiled(work.update(), work, (*copied(work), *given[0]), rows=0, donate=(0, 1))

    def run(fresh):
        params, state = fresh
        for rest in given:
            params, state, loss = program(params, state, *rest)
            float(loss)
        return jax.block_until_ready(params)

    return Loop(seconds, memory_of(program), functools.partial(copied, work), run)


def multisteps(work: Work) -> Loop:
    """`optax.MultiSteps`, which takes the mean over microbatches: each brings m times its share of the mean loss."""
    count = work.settings.microbatches
    optimizer = optax.MultiSteps(work.optimizer, count)

    def step(params, state, data, rows, filled, weight):
        def share(params):
            return work.loss_sum(params, data, rows, filled) * count / weight

        gradient = jax.grad(share)(params)
        with jax.numpy_dtype_promotion("standard"):
            change, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, change), state

    def prepare():
        with jax.numpy_dtype_promotion("standard"):
            return jax.tree.map(jnp.copy, (work.params, optimizer.init(work.params)))

    given = [
        (work.data, jnp.asarray(rows), filled, jnp.asarray(weight))
        for update, weight in zip(np.asarray(work.rows), np.asarray(work.weights), strict=True)
        for rows, filled in zip(update[0], list(work.filled[0]), strict=True)
    ]
    began = time.perf_counter()
    program = jax.jit(step, donate_argnums=(0, 1)).lower(*prepare(), *given[0]).compile()
    seconds = time.perf_counter() - began

    def run(fresh):
        params, state = fresh
        for rest in given:
            params, state = program(params, state, *rest)
        return jax.block_until_ready(params)

    return Loop(seconds, memory_of(program), lambda: jax.block_until_ready(prepare()), run)
