"""How the sums and weights of the microbatches become one objective and one gradient. Only this module divides.

With loss sum S_k, gradient sum G_k and weight W_k of microbatch k of m:

    mean            sum(G_k) / sum(W_k)
    sum             sum(G_k)
    mean_of_means   sum(G_k / W_k) / m
    sum_of_means    sum(G_k / W_k)
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def contribution(reduction: str, sums: Any, weight: jax.Array) -> Any:
    """What one microbatch adds to the accumulator; nothing at all if its weight is 0."""
    if reduction.endswith("of_means"):
        sums = jax.tree.map(lambda x: (x.astype(jnp.float32) / at_least_one(weight)).astype(x.dtype), sums)
    return jax.tree.map(lambda x: jnp.where(weight > 0, x, jnp.zeros_like(x)), sums)


def own_divisor(reduction: str, weight: jax.Array) -> jax.Array:
    """What makes a microbatch's gradient sum its own gradient: of its mean loss, or of its sum under a plain sum."""
    return jnp.ones_like(weight) if reduction == "sum" else at_least_one(weight)


def at_least_one(weight: jax.Array) -> jax.Array:
    """The weight, or 1 where there is none: nothing may be divided by it."""
    return jnp.where(weight > 0, weight, 1)


def divisor(reduction: str, weight: jax.Array, microbatches: int) -> jax.Array:
    """What the accumulated total is divided by at the end; `weight` is the sum of all weights."""
    if reduction == "mean":
        return at_least_one(weight)
    return jnp.full_like(weight, microbatches if reduction == "mean_of_means" else 1)


def finish(reduction: str, totals: Any, weight: jax.Array, microbatches: int) -> Any:
    """The accumulated totals as objective and gradient."""
    by = divisor(reduction, weight, microbatches)
    return jax.tree.map(lambda x: x / by.astype(x.dtype), totals)


def over_devices(kind: str, reduction: str, totals: Any, weight: jax.Array, microbatches: int, axis: str | None) -> Any:
    """The totals of every device as one objective and gradient; `axis` names the device axis, None for one device.

    global  the totals and weights of all devices added, then divided
    mean    every device divides its own, then the mean over devices
    sum     every device divides its own, then their sum
    none    every device divides its own and keeps it
    """
    if axis is None:
        return finish(reduction, totals, weight, microbatches)
    if kind == "global":
        everything, all_weight = lax.psum((totals, weight), axis)
        return finish(reduction, everything, all_weight, microbatches * lax.axis_size(axis))
    own = finish(reduction, totals, weight, microbatches)
    return {"mean": lax.pmean, "sum": lax.psum, "none": lambda tree, axis: tree}[kind](own, axis)
