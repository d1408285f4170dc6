"""What cutting the batch into microbatches saves: memory of one update, as XLA's own analysis counts it."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lab.choices import SAMPLED
from lab.key import SettingsError, require
from lab.microscope import first_of
from lab.plan import Plan
from lab.precision import EXACTLY
from lab.settings import Settings
from lab.step import update

EVERY = 4
"""Factor between two numbers of microbatches that are looked at."""
MOST = 256
"""And no more microbatches than this."""


class Memory(NamedTuple):
    """Bytes one device needs for one update, by the number of microbatches.

    Attributes:
        counts: numbers of microbatches [k], increasing; the one in use is among them.
        temporary: what the compiled update needs while it runs [k], the accumulator included.
        accumulator: the running total, as large as the parameters in its dtype.
        state: parameters, optimizer state, running statistics.
        batch: the examples of the update.
    """

    counts: np.ndarray
    temporary: np.ndarray
    accumulator: int
    state: int
    batch: int


def measure(settings: Settings) -> Memory:
    """Compile one update for 1, 4, 16, ... microbatches and read what each needs. Answers are kept.

    With several devices it is the share of one of them.

    Raises:
        SettingsError: the task uses what was typed, a few numbers.
    """
    require(
        settings.task in SAMPLED,
        f"task={settings.task}: the few numbers you typed need no memory worth cutting; choose another task",
    )
    share = -(-settings.batch_size // settings.devices)
    return _measure(
        Settings.from_dict(
            {**settings.structure(), "dropout": settings.dropout, "devices": 1, "batch_size": share}
        )
    )  # fmt: skip


@functools.lru_cache(maxsize=64)
def _measure(settings: Settings) -> Memory:
    powers = EVERY ** np.arange(10)
    counts = np.unique([*powers[powers <= min(settings.batch_size, MOST)], settings.microbatches])
    plans = [Plan(settings.replace(microbatches=int(count))) for count in counts]
    params, batch = plans[0].start.params, plans[0].task.train
    width = jnp.dtype(settings.accumulator_dtype).itemsize
    return Memory(
        counts=counts,
        temporary=np.array([_temporary(plan) for plan in plans]),
        accumulator=sum(leaf.size for leaf in jax.tree.leaves(params)) * width,
        state=_bytes(plans[0].start),
        batch=sum(array.nbytes // len(array) for array in batch.values()) * settings.batch_size,
    )


def _bytes(tree: Any) -> int:
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


def _temporary(plan: Plan) -> int:
    """Bytes the compiled update needs besides what it is given and what it returns."""
    recipe, numbers, rate, examples, _ = plan.inputs(0, plan.start)
    state, rows, filled = first_of((plan.start, examples.rows, examples.filled))

    def one(state, numbers, rate, examples):
        return update(recipe, numbers, rate, state, examples)[:2]

    given = (state, numbers, rate, examples._replace(rows=rows, filled=filled))
    return needs(jax.jit(one, compiler_options=EXACTLY).lower(*given).compile()).temp_size_in_bytes


def needs(compiled: Any) -> Any:
    """XLA's own count of the bytes that a compiled program needs, by what for.

    Raises:
        SettingsError: the device does not tell.
    """
    analysis = compiled.memory_analysis()
    if analysis is None:
        raise SettingsError("memory: this device does not tell what a program needs; set JAX_PLATFORMS=cpu to see it")
    return analysis
