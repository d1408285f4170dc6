"""The classic exercise: accumulate a gradient over microbatches with `lax.scan`."""

import jax
import jax.core
import jax.numpy as jnp
from jax import lax


def microbatched_grads(
    w: jax.Array, b: jax.Array, x_full: jax.Array, y_full: jax.Array, n_microbatches: float
) -> jax.Array:
    """Sum over equal, contiguous microbatches of the gradient of `sum((w*x - y)**2)` with respect to w.

    The result is the gradient of the whole sum, `sum(2 * (w*x - y) * x)`; it is not averaged, and w stays as it is
    from microbatch to microbatch. Under `jax.jit` the count must be static:
    `jax.jit(microbatched_grads, static_argnames="n_microbatches")`.

    Args:
        w: parameter, real floating scalar [].
        b: a second parameter, real floating scalar [], which the loss does not use.
        x_full: inputs [N], real floating.
        y_full: targets [N], of the dtype of x_full.
        n_microbatches: how many microbatches, a whole number that may come as a float such as 2.0. It divides N.

    Returns:
        The accumulated gradient [], of w's dtype.

    Raises:
        ValueError: the count is not a positive whole number or does not divide N; or shapes or dtypes do not fit.
        TypeError: the count is traced, or no number.
    """
    count = _whole(n_microbatches)
    w, b, x_full, y_full = (jnp.asarray(a) for a in (w, b, x_full, y_full))
    for name, value in (("w", w), ("b", b)):
        if value.ndim or not jnp.issubdtype(value.dtype, jnp.floating):
            raise ValueError(f"{name}: must be a real floating scalar, and is {value.dtype}{list(value.shape)}")
    if x_full.ndim != 1 or x_full.shape != y_full.shape:
        raise ValueError(f"x_full and y_full: must both have shape (N,), and have {x_full.shape} and {y_full.shape}")
    if x_full.dtype != y_full.dtype or not jnp.issubdtype(x_full.dtype, jnp.floating):
        raise ValueError(
            f"x_full and y_full: must have one real floating dtype, and have {x_full.dtype} and {y_full.dtype}"
        )
    if len(x_full) % count:
        raise ValueError(f"n_microbatches={count}: must divide the {len(x_full)} examples")

    def loss(w, x, y):
        return jnp.sum((w.astype(x.dtype) * x - y) ** 2)

    def accumulate(total, microbatch):
        return total + jax.grad(loss)(w, *microbatch), None

    microbatches = x_full.reshape(count, -1), y_full.reshape(count, -1)
    total, _ = lax.scan(accumulate, jnp.zeros_like(w), microbatches)
    return total


def _whole(count: float) -> int:
    if isinstance(count, jax.core.Tracer):
        raise TypeError(
            "n_microbatches: is traced, and must be known when compiling; "
            'use jax.jit(microbatched_grads, static_argnames="n_microbatches")'
        )
    if isinstance(count, str | bytes):
        raise TypeError(f"n_microbatches={count!r}: must be a number such as 2.0")
    try:
        number = float(count)
    except OverflowError:
        number = float("inf")
    except (TypeError, ValueError):
        raise TypeError(f"n_microbatches={count!r}: must be a number such as 2.0") from None
    if not number >= 1 or number != number // 1 or number == float("inf"):
        raise ValueError(f"n_microbatches={count}: must be a positive whole number")
    return int(number)
