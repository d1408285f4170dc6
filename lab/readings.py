"""What the record says of the parameters after an update."""

import jax
import jax.numpy as jnp
from jax import lax


def moved(params: jax.Array, applied: jax.Array, after: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Share of the parameters p [p] whose update u is not zero and yet p + u == p, float32 [], and whether all of p + u
    are finite, bool [].
    """
    stuck = ((applied != 0) & (params == after) & jnp.isfinite(params)).astype(jnp.float32)
    # 0 x q is 0 where q is finite and nan where not; a sum is faster than a search.
    return stuck.sum() / params.size, jnp.isfinite((0 * after.astype(jnp.float32)).sum())


def spread(params: jax.Array, axis: str) -> jax.Array:
    """The largest difference of one parameter [p] between devices, relative to the largest parameter, float32 [].

    0 exactly where all devices hold the same.
    """
    high, minus_low = lax.pmax((params, -params), axis)
    apart, largest = (high + minus_low).max(), jnp.maximum(jnp.abs(high), jnp.abs(minus_low)).max()
    return jnp.where((high == -minus_low).all(), 0, apart / jnp.where(largest == 0, 1, largest))
