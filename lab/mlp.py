"""A multilayer perceptron: linear layers with relu between them, optionally normalised and with dropout.

Shapes: b examples, f features of a layer. Layers compute in the dtype of the parameters, norms in float32 or wider.
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lab.task import Context, Params, at_least_float32

EPSILON = 1e-5
"""Added to every variance before its root is taken."""


def init(key: jax.Array, sizes: tuple[int, ...], norm: str) -> Params:
    """A list of layers: normal weights of variance 2 / inputs (He et al. 2015), zero biases, gains of 1 for a norm."""
    shapes = list(itertools.pairwise(sizes))
    # What is drawn depends on key and place alone: as many for every layer are one program, not one for each shape.
    most = max(i * o for i, o in shapes)
    drawn = np.asarray(jax.vmap(lambda key: jax.random.normal(key, (most,)))(jax.random.split(key, len(shapes))))
    layers = [
        {"weight": own[: i * o].reshape(i, o) * np.sqrt(np.float32(2 / i)), "bias": np.zeros(o, np.float32)}
        for own, (i, o) in zip(drawn, shapes, strict=True)
    ]
    if norm != "none":
        layers[:-1] = [{**layer, "gain": np.ones_like(layer["bias"])} for layer in layers[:-1]]
    return layers


def statistics(sizes: tuple[int, ...], norm: str) -> Any:
    """Running statistics before the first update: for each batch norm the means of x and of x^2 [2, f]."""
    return [np.stack([np.zeros(f), np.ones(f)]).astype(np.float32) for f in sizes[1:-1]] if norm == "batch" else ()


def outputs(params: Params, x: jax.Array, context: Context, norm: str) -> tuple[jax.Array, Any]:
    """What the last layer gives [b, f], float32 or wider, and what its batch norms observed."""
    observed = []
    x = x.astype(params[0]["weight"].dtype)
    for i, layer in enumerate(params[:-1]):
        x = x @ layer["weight"]
        if norm == "layer":
            x = layer_norm(x) * layer["gain"][None, :]
        elif norm == "batch":
            running = None if context.statistics is None else context.statistics[i]
            x, seen = batch_norm(x, context.filled, running)
            x = x * layer["gain"][None, :]
            observed.append(seen)
        x = dropout(jax.nn.relu(x + layer["bias"][None, :]), context, i)
    last = params[-1]
    return at_least_float32(x @ last["weight"] + last["bias"][None, :]), observed or ()


def layer_norm(x: jax.Array) -> jax.Array:
    """The features along the last axis [..., f] shifted to mean 0 and scaled to variance 1."""
    wide = at_least_float32(x)
    centred = wide - wide.mean(axis=-1, keepdims=True)
    return (centred * jax.lax.rsqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)).astype(x.dtype)


def batch_norm(x: jax.Array, filled: jax.Array, running: jax.Array | None) -> tuple[jax.Array, jax.Array]:
    """Every feature shifted and scaled over the examples.

    Args:
        x: [b, f].
        filled: the examples that count [b].
        running: the means of x and x^2 to go by [2, f]; None goes by those of these examples.

    Returns:
        The normalised features, and the sums of x and x^2 over the examples that count [2, f].
    """
    wide = at_least_float32(x)
    there = filled.astype(wide.dtype)[:, None]
    sums = jnp.stack([(wide * there).sum(axis=0), (wide**2 * there).sum(axis=0)])
    if running is None:
        number = jnp.maximum(there.sum(), 1)
        centre = sums[0] / number
        variance = (((wide - centre[None, :]) ** 2) * there).sum(axis=0) / number
    else:
        centre = running[0].astype(wide.dtype)
        variance = jnp.maximum(running[1].astype(wide.dtype) - centre**2, 0)
    normed = (wide - centre[None, :]) * jax.lax.rsqrt(variance + EPSILON)[None, :]
    return normed.astype(x.dtype), jax.lax.stop_gradient(sums)


def dropout(x: jax.Array, context: Context, layer: int) -> jax.Array:
    """Every unit [b, f] zero with the probability `context.dropout`, by the key of its example; the rest scaled up."""
    if context.keys is None:
        return x
    keys = jax.vmap(lambda key: jax.random.fold_in(key, layer))(context.keys)
    drawn = jax.vmap(lambda key: jax.random.uniform(key, x.shape[1:], jnp.float32))(keys)
    factor = jnp.where(drawn < context.dropout, 0, 1 / (1 - context.dropout))
    return x * factor.astype(x.dtype)
