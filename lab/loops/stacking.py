"""What it takes to keep what a scan computes, as XLA counts it: outputs stacked, or a running total carried."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lab.loops.work import Work
from lab.memory import needs
from lab.settings import Settings

COUNTS = (1, 4, 16, 64)
"""Numbers of microbatches that are looked at, as far as the batch has examples."""


class Stacking(NamedTuple):
    """Bytes beside the arguments that a compiled program needs: what is temporary, and what it returns.

    Attributes:
        microbatches: how many, increasing.
        carried: where the gradient is added to a running total, for each of them.
        stacked: where every microbatch's gradient is returned and they are added afterwards.
        updates: in a whole run.
        run_carried, run_losses, run_parameters: of the run that returns its last parameters only; every loss too; the
            parameters after every update too.
    """

    microbatches: list[int]
    carried: list[int]
    stacked: list[int]
    updates: int
    run_carried: int
    run_losses: int
    run_parameters: int


def measure(settings: Settings) -> Stacking:
    """Compile each, for one device; nothing is run.

    Raises:
        SettingsError: the settings ask for what loops are not compared at.
    """
    updates, settings = settings.steps, settings.replace(devices=1, steps=1)
    counts = [count for count in COUNTS if count <= settings.batch_size]
    work = Work(settings)
    return Stacking(
        microbatches=counts,
        carried=[_gradient(work, count, stack=False) for count in counts],
        stacked=[_gradient(work, count, stack=True) for count in counts],
        updates=updates,
        run_carried=_run(work, updates, "nothing"),
        run_losses=_run(work, updates, "losses"),
        run_parameters=_run(work, updates, "parameters"),
    )


def _gradient(work: Work, microbatches: int, stack: bool) -> int:
    def accumulated(params, data, rows, filled):
        def carry(total, microbatch):
            gradient = jax.grad(work.loss_sum)(params, data, *microbatch)
            return (None, gradient) if stack else (jax.tree.map(jnp.add, total, gradient), None)

        nothing = None if stack else jax.tree.map(jnp.zeros_like, params)
        total, outputs = lax.scan(carry, nothing, (rows, filled))
        return jax.tree.map(lambda each: each.sum(0), outputs) if stack else total

    places = microbatches, -(-work.settings.batch_size // microbatches)
    rows, filled = (jax.ShapeDtypeStruct(places, array.dtype) for array in (work.rows, work.filled))
    return _bytes(accumulated, work.params, work.data, rows, filled)


def _run(work: Work, updates: int, kept: str) -> int:
    update = work.update()

    def train(params, state, data, rows, filled, weights):
        def step(carry, each):
            rows, weight = each
            params, state, loss = update(*carry, data, rows, filled, weight)
            return (params, state), {"nothing": None, "losses": loss, "parameters": params}[kept]

        (params, _), outputs = lax.scan(step, (params, state), (rows, weights))
        return params, outputs

    with jax.numpy_dtype_promotion("standard"):
        state = work.optimizer.init(work.params)
    rows, weights = (
        jax.ShapeDtypeStruct((updates, *array.shape[1:]), array.dtype) for array in (work.rows, work.weights)
    )
    return _bytes(train, work.params, state, work.data, rows, work.filled, weights)


def _bytes(function, *given) -> int:
    about = needs(jax.jit(function).lower(*given).compile())
    return about.temp_size_in_bytes + about.output_size_in_bytes
