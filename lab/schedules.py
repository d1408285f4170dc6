"""Name and numbers -> the table of learning rates of a run, by optax."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lab.settings import Settings

PIECE = 1024
"""Rates are worked out this many at a time, so that the length of a run is never a shape."""


def schedule(settings: Settings) -> optax.Schedule:
    """The schedule as optax has it: count -> rate. The length includes the warm-up."""
    peak, end = settings.learning_rate, settings.learning_rate * settings.final_fraction
    length, warmup, fall = settings.schedule_length, settings.warmup_steps, settings.decay_rate
    climb = optax.linear_schedule(0.0, peak, warmup)
    match settings.schedule:
        case "constant":
            return optax.constant_schedule(peak)
        case "linear":
            return optax.linear_schedule(peak, end, length)
        case "exponential":
            return optax.exponential_decay(peak, length, fall)
        case "staircase":
            return optax.exponential_decay(peak, length, fall, staircase=True)
        case "cosine":
            return optax.cosine_decay_schedule(peak, length, settings.final_fraction)
        case "warmup_cosine":
            return optax.warmup_cosine_decay_schedule(0.0, peak, warmup, length, end)
        case "warmup_linear":
            return optax.join_schedules([climb, optax.linear_schedule(peak, end, length - warmup)], [warmup])
        case "one_cycle":
            return optax.linear_onecycle_schedule(length, peak)
        case "restarts":
            cycle = optax.cosine_decay_schedule(peak, length, settings.final_fraction)
            return lambda count: cycle(jnp.asarray(count) % length)
        case "polynomial":
            return optax.polynomial_schedule(peak, end, 2, length)
        case "piecewise":
            return optax.piecewise_constant_schedule(peak, {length // 2: fall, 3 * length // 4: fall})
        case "warmup_stable_decay":
            tail = max(1, (length - warmup) // 5)
            stable = optax.constant_schedule(peak)
            down = optax.linear_schedule(peak, end, tail)
            return optax.join_schedules([climb, stable, down], [warmup, length - tail])
        case unknown:
            raise AssertionError(unknown)


def rates(settings: Settings, first: int, updates: int) -> np.ndarray:
    """The rate applied to update `first`, `first + 1`, ... [updates], float32.

    With `schedule_counts=microbatches` the schedule moves on once per microbatch, the usual bug.
    """
    counts_per_update = settings.microbatches if settings.schedule_counts == "microbatches" else 1
    pieces = [np.zeros(0, np.float32)]
    with jax.numpy_dtype_promotion("standard"):
        every = jax.vmap(schedule(settings))
        for start in range(first, first + updates, PIECE):
            counts = (start + np.arange(PIECE, dtype=np.int32)) * counts_per_update
            pieces.append(np.asarray(every(jnp.asarray(counts)), np.float32))
    return np.concatenate(pieces)[:updates]
