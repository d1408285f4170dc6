"""Number formats: what each can hold, and rounding to it where the step says so and nowhere else."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

EXACTLY = {"xla_allow_excess_precision": False}
"""Compiler options under which a number format rounds wherever it is used; XLA's default may carry more digits on."""


class Format(NamedTuple):
    """The magnitudes a number format can hold; anything up to half of `smallest` rounds to zero."""

    largest: float
    smallest_normal: float
    smallest: float


def format_of(dtype: str) -> Format:
    """What float32, float16 or bfloat16 holds; the smallest number is subnormal."""
    about = jnp.finfo(dtype)
    return Format(float(about.max), float(about.smallest_normal), float(about.smallest_subnormal))


def cast(tree: Any, dtype: Any) -> Any:
    """Every array rounded to the dtype."""
    return jax.tree.map(lambda x: x.astype(dtype), tree)


def cast_like(tree: Any, like: Any) -> Any:
    """Every array rounded to the dtype of its counterpart."""
    return jax.tree.map(lambda x, other: x.astype(other.dtype), tree, like)


def add(total: Any, parts: Any) -> Any:
    """total + parts, in the dtype of the total."""
    return jax.tree.map(lambda x, y: x + y.astype(x.dtype), total, parts)
