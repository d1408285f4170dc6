"""What the record says of the parameters after an update."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from lab.task import Params


def unmoved(params: Params, applied: Any, after: Params) -> jax.Array:
    """Share of all parameters p whose update u is not zero and yet p + u == p, float32 []."""
    stuck = jax.tree.map(lambda p, u, q: ((u != 0) & (p == q) & jnp.isfinite(p)).sum(), params, applied, after)
    number = sum(p.size for p in jax.tree.leaves(params))
    return jnp.stack(jax.tree.leaves(stuck)).sum().astype(jnp.float32) / number


def all_finite(tree: Any) -> jax.Array:
    """Whether every entry is a finite number, bool []."""
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]).all()


def spread(params: Params, axis: str) -> jax.Array:
    """The largest difference of one parameter between devices, relative to the largest parameter, float32 [].

    0 exactly where all devices hold the same.
    """
    flat = jnp.concatenate([jnp.ravel(p).astype(jnp.float32) for p in jax.tree.leaves(params)])
    high, minus_low = lax.pmax((flat, -flat), axis)
    apart, largest = (high + minus_low).max(), jnp.maximum(jnp.abs(high), jnp.abs(minus_low)).max()
    return jnp.where((high == -minus_low).all(), 0, apart / jnp.where(largest == 0, 1, largest))
