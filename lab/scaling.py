"""Loss scaling: the loss is multiplied before the backward pass and the gradient divided after it.

A scale moves small gradients into the range of float16. `none` and `static` keep theirs; `dynamic` halves it after an
update whose gradient is not finite, and leaves that update out, and doubles it after every `growth_interval` good ones
(Micikevicius et al. 2018). It stays between `LEAST` and `MOST`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

LEAST, MOST = 2.0**-24, 2.0**24


class Scale(NamedTuple):
    """The scale of the next update, float32 [], and how many good updates in a row it has seen, int32 []."""

    value: jax.Array
    good: jax.Array


def init(kind: str, value: float) -> Scale:
    """The scale of the first update."""
    return Scale(jnp.float32(1 if kind == "none" else value), jnp.int32(0))


def adjust(kind: str, scale: Scale, finite: jax.Array, growth_interval: jax.Array) -> Scale:
    """The scale after an update whose gradient was finite or not [], one `growth_interval` [] for all updates."""
    if kind != "dynamic":
        return scale
    good = jnp.where(finite, scale.good + 1, 0)
    grows = good >= growth_interval
    factor = jnp.where(finite, jnp.where(grows, 2.0, 1.0), 0.5).astype(jnp.float32)
    return Scale(jnp.clip(scale.value * factor, LEAST, MOST), jnp.where(grows, 0, good))


def skips(kind: str, finite: jax.Array) -> jax.Array:
    """Whether the update is left out, bool []: an overflow under dynamic scaling."""
    return ~finite if kind == "dynamic" else jnp.bool_(False)
