"""Number formats: what each can hold, and rounding to it where the step says so and nowhere else."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class Format(NamedTuple):
    """The magnitudes a number format can hold; anything up to half of `smallest` rounds to zero."""

    largest: float
    smallest_normal: float
    smallest: float
    digits: int
    """Significant bits."""


def format_of(dtype: str) -> Format:
    """What float32, float16 or bfloat16 holds; the smallest number is subnormal."""
    about = jnp.finfo(dtype)
    return Format(float(about.max), float(about.smallest_normal), float(about.smallest_subnormal), about.nmant + 1)


def cast(tree: Any, dtype: Any) -> Any:
    """Every array rounded to the dtype.

    The barrier keeps the compiler from carrying the extra digits on, which it may do inside one fused loop.
    """
    return jax.tree.map(lambda x: x if x.dtype == jnp.dtype(dtype) else lax.optimization_barrier(x.astype(dtype)), tree)


def cast_like(tree: Any, like: Any) -> Any:
    """Every array rounded to the dtype of its counterpart."""
    return jax.tree.map(lambda x, other: cast(x, other.dtype), tree, like)


def add(total: Any, parts: Any) -> Any:
    """total + parts, each sum rounded to the dtype of the total; what is shown of it is rounded too."""

    def one(x, y):
        added = x + y.astype(x.dtype)
        return added if x.dtype.itemsize >= 4 else lax.optimization_barrier(added)

    return jax.tree.map(one, total, parts)
