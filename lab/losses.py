"""What a prediction costs, example by example; every function returns losses [b] and never a mean."""

import jax
import jax.numpy as jnp


def cross_entropy(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """-log softmax(scores)[label], over the last axis.

    Written as softplus(logsumexp of the other scores - the right one): the same number, without the cancellation 1 - p
    that would cost a well-learned example most of its float32 digits.

    Args:
        scores: [..., c], float32 or wider.
        labels: [...], int32 from 0 to c - 1.
    """
    right = jax.nn.one_hot(labels, scores.shape[-1], dtype=jnp.bool_)
    others = jax.nn.logsumexp(scores, axis=-1, where=~right)
    return jax.nn.softplus(others - jnp.where(right, scores, 0).sum(axis=-1))


def right(scores: jax.Array, labels: jax.Array) -> jax.Array:
    """1 where the largest score is that of the label, else 0 [...]."""
    return (scores.argmax(axis=-1) == labels).astype(jnp.float32)
