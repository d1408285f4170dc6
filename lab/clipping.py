"""Gradient clips: `clip(gradient, params, threshold) -> gradient`. Norms are taken in float32, always."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import lax

from lab.flat import flat
from lab.precision import cast

SMALL = 1024
"""Up to so many entries a second pass over them costs less than a branch that avoids it."""

Clip = Callable[[Any, Any, jax.Array], Any]


def norm(tree: Any) -> jax.Array:
    """Euclidean norm of all entries of a pytree together, float32 [].

    Entries whose squares would leave float32 are scaled first: the norm of [3e19, 4e19] is 5e19, not infinity.
    """
    x = flat(cast(tree, jnp.float32))
    if x.size <= SMALL:
        return norms(x)
    squares = jnp.square(x).sum()
    usual = (squares > 1e-20) & (squares < 1e30)
    return lax.cond(usual, lambda: jnp.sqrt(squares), lambda: norms(x))


def norms(x: jax.Array) -> jax.Array:
    """The norm of every row of x [..., p], in two passes; where nothing is extreme, to the same bits as in one."""
    largest = jnp.abs(x).max(axis=-1, keepdims=True)
    extreme = ((largest > 1e15) & jnp.isfinite(largest)) | ((largest < 1e-15) & (largest > 0))
    scale = jnp.where(extreme, largest, 1)
    return scale[..., 0] * jnp.sqrt(jnp.square(x / scale).sum(axis=-1))


def cosine(tree: Any, other: Any) -> jax.Array:
    """Cosine of the angle between two pytrees as vectors, float32 []; 0 where one of them is zero."""
    one, two = norm(tree), norm(other)
    pairs = zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True)
    known = (one > 0) & (two > 0)
    unit = [(x.astype(jnp.float32) / jnp.where(known, one, 1), y / jnp.where(known, two, 1)) for x, y in pairs]
    return jnp.where(known, jnp.clip(sum((x * y).sum() for x, y in unit), -1, 1), 0)


def shorten(tree: Any, threshold: jax.Array) -> Any:
    """The tree scaled to norm `threshold` where it is longer: g * c / |g|. Direction is kept."""
    length = norm(tree)
    longer = length > threshold
    factor = jnp.where(longer, threshold / jnp.where(longer, length, 1), 1)
    return jax.tree.map(lambda x: (x.astype(jnp.float32) * factor).astype(x.dtype), tree)


def shortened(before: Any, after: Any) -> jax.Array:
    """Whether a clip made any entry smaller, bool []."""
    smaller = jax.tree.map(lambda x, y: (jnp.abs(y) < jnp.abs(x)).any(), before, after)
    return jnp.stack(jax.tree.leaves(smaller)).any()


def none(gradient: Any, params: Any, threshold: jax.Array) -> Any:
    return gradient


def global_norm(gradient: Any, params: Any, threshold: jax.Array) -> Any:
    """All parameters as one vector (Pascanu et al. 2013)."""
    return shorten(gradient, threshold)


def per_tensor(gradient: Any, params: Any, threshold: jax.Array) -> Any:
    """Every tensor on its own."""
    return jax.tree.map(lambda x: shorten(x, threshold), gradient)


def value(gradient: Any, params: Any, threshold: jax.Array) -> Any:
    """Every coordinate on its own; this one turns the gradient."""
    return jax.tree.map(lambda x: jnp.clip(x, -threshold.astype(x.dtype), threshold.astype(x.dtype)), gradient)


def adaptive(gradient: Any, params: Any, threshold: jax.Array) -> Any:
    """Every unit's gradient at most `threshold` times the norm of its weights (Brock et al. 2021), by optax."""
    wide = jax.tree.map(lambda x: x.astype(jnp.float32), (gradient, params))
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        clipped, _ = optax.adaptive_grad_clip(threshold).update(wide[0], optax.EmptyState(), wide[1])  # pyright: ignore[reportArgumentType]
    return jax.tree.map(lambda x, like: x.astype(like.dtype), clipped, gradient)


CLIPS: dict[str, Clip] = {
    "none": none, "global_norm": global_norm, "value": value, "per_tensor": per_tensor, "adaptive": adaptive,
}  # fmt: skip
