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


def clipped(kind: str, gradient: np.ndarray, params: Any, threshold: float) -> np.ndarray:
    """The gradient [p] after one of the clips of `lab.clipping`, in float64."""
    if kind in ("none", "value"):
        return np.clip(gradient, -threshold, threshold) if kind == "value" else gradient
    if kind == "global_norm":
        return _shortened(gradient, threshold)
    weights = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(params)]
    ends = np.cumsum([weight.size for weight in weights])[:-1]
    tensors = [part.reshape(w.shape) for part, w in zip(np.split(gradient, ends), weights, strict=True)]
    if kind == "per_tensor":
        return np.concatenate([_shortened(tensor, threshold).ravel() for tensor in tensors])
    short = []
    for tensor, weight in zip(tensors, weights, strict=True):
        # A unit of a matrix is a column, of a convolution's kernel what makes one feature, of a vector all of it.
        axes = None if weight.squeeze().ndim < 2 else 0 if weight.ndim < 4 else tuple(range(weight.ndim - 1))
        longest = threshold * np.maximum(_length(weight, axes), 1e-3)
        short.append(_shortened(tensor, longest, axes).ravel())
    return np.concatenate(short)


def _length(x: np.ndarray, axes: Any = None) -> np.ndarray:
    return np.sqrt(np.square(x).sum(axis=axes, keepdims=True))


def _shortened(x: np.ndarray, longest: Any, axes: Any = None) -> np.ndarray:
    length = _length(x, axes)
    return x * np.where(length > longest, longest / np.where(length > 0, length, 1), 1)
