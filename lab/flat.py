"""A pytree as one vector and back. What is done to a vector is one kernel where a pytree needs one for every leaf."""

from typing import Any

import jax
import jax.numpy as jnp


def flat(tree: Any) -> jax.Array:
    """All entries in one vector [p], leaf by leaf; the leaves have one dtype."""
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def shaped(vector: jax.Array, like: Any) -> Any:
    """The entries [p] in the shapes of `like`."""
    leaves, structure = jax.tree.flatten(like)
    starts = [sum(leaf.size for leaf in leaves[:i]) for i in range(len(leaves))]
    parts = [vector[start : start + leaf.size] for start, leaf in zip(starts, leaves, strict=True)]
    return jax.tree.unflatten(structure, [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)])
