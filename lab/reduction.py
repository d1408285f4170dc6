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


def contribution(reduction: str, sums: Any, weight: jax.Array) -> Any:
    """What one microbatch adds to the accumulator; nothing at all if its weight is 0."""
    divisor = jnp.where(weight > 0, weight, 1) if reduction.endswith("of_means") else jnp.ones_like(weight)
    return jax.tree.map(lambda x: jnp.where(weight > 0, x / divisor.astype(x.dtype), jnp.zeros_like(x)), sums)


def divisor(reduction: str, weight: jax.Array, microbatches: int) -> jax.Array:
    """What the accumulated total is divided by at the end; `weight` is the sum of all weights."""
    if reduction == "mean":
        return jnp.where(weight > 0, weight, 1)
    return jnp.full_like(weight, microbatches if reduction == "mean_of_means" else 1)


def finish(reduction: str, totals: Any, weight: jax.Array, microbatches: int) -> Any:
    """The accumulated totals as objective and gradient."""
    by = divisor(reduction, weight, microbatches)
    return jax.tree.map(lambda x: x / by.astype(x.dtype), totals)
