"""What plain full-batch mathematics in float64 gives. Shares no code with the training step."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@functools.lru_cache(maxsize=24)
def _mean_gradient(loss: Callable, shapes: tuple) -> Callable[[Any, Mapping[str, Any], Any], tuple[Any, Any]]:
    def mean_loss(params, batch, context):
        losses, weights, _ = loss(params, batch, context)
        return losses.sum() / weights.sum(), weights.sum()

    return jax.jit(jax.grad(mean_loss, has_aux=True))


def gradient(
    loss: Callable, params: Any, batch: Mapping[str, Any], context: Any, wide: bool = True
) -> tuple[np.ndarray, float]:  # fmt: skip
    """Gradient of the mean loss of all examples at once, and their weight.

    Args:
        loss: the task's loss.
        params: pytree of arrays.
        batch: the examples [n, ...], none of them padding.
        context: what else the loss depends on.
        wide: whether to compute in float64; else in float32, and the result is float64 all the same.

    Returns:
        The gradient as one vector [p], float64, in the order of `jax.tree.leaves`; and the sum of weights.
    """

    def cast(array):
        array = np.asarray(array)
        dtype = np.float64 if wide else np.float32
        return array.astype(dtype) if jnp.issubdtype(array.dtype, jnp.floating) else array

    params, batch = jax.tree.map(cast, params), {name: cast(array) for name, array in batch.items()}
    shapes = tuple(leaf.shape for leaf in jax.tree.leaves((params, batch)))
    with jax.enable_x64(wide):
        tree, weight = _mean_gradient(loss, shapes)(params, batch, context)
        return np.concatenate([np.ravel(np.asarray(leaf, np.float64)) for leaf in jax.tree.leaves(tree)]), float(weight)
