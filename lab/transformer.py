"""A small causal transformer: token and place embeddings, then blocks of attention and a perceptron, pre-norm.

Shapes: b sequences, t places, f features (the width), h heads, c classes. Layers compute in the dtype of the
parameters, norms and softmax in float32 or wider. No layer has a bias.
"""

import jax
import jax.numpy as jnp
import numpy as np

from lab.mlp import layer_norm
from lab.task import Params, at_least_float32

HEADS, HEAD_SIZE = 2, 16
"""Heads of every attention, and the features of each."""
WIDER = 4
"""Hidden units of a block's perceptron for each unit of its width."""


def init(key: jax.Array, classes: int, places: int, width: int, blocks: int) -> Params:
    """Gains of 1 and normal weights, of variance 1 / inputs where nothing else is said.

    What a block adds is smaller the more blocks there are, so that their sum is not (Radford et al. 2019); the first
    scores are near 0, so that every class is about as likely and the first loss is near log(classes).
    """
    inner, hidden = HEADS * HEAD_SIZE, WIDER * width
    # NumPy draws, because JAX would compile a program for every shape.
    draw = np.random.default_rng(np.asarray(jax.random.key_data(key)))

    def normal(rows: int, columns: int, variance: float) -> np.ndarray:
        return draw.standard_normal((rows, columns), np.float32) * np.float32(variance) ** 0.5

    def block() -> dict[str, np.ndarray]:
        return {
            "attention_gain": np.ones(width, np.float32),
            "query_key_value": normal(width, 3 * inner, 1 / width),
            "attention_out": normal(inner, width, 1 / (2 * blocks * inner)),
            "perceptron_gain": np.ones(width, np.float32),
            "perceptron_in": normal(width, hidden, 2 / width),
            "perceptron_out": normal(hidden, width, 1 / (2 * blocks * hidden)),
        }

    return {
        "tokens": normal(classes, width, 1 / 2),
        "places": normal(places, width, 1 / 2),
        "blocks": [block() for _ in range(blocks)],
        "gain": np.ones(width, np.float32),
        "scores": normal(width, classes, 1 / (100 * width)),
    }


def outputs(params: Params, tokens: jax.Array) -> jax.Array:
    """The scores of what comes next at every place [b, t, c], float32 or wider, from the tokens up to that place.

    Args:
        tokens: int32 [b, t], t at most the places there are.
    """
    embedding = params["tokens"]
    x = jax.nn.one_hot(tokens, len(embedding), dtype=embedding.dtype) @ embedding
    x = x + params["places"][None, : tokens.shape[1]]
    for block in params["blocks"]:
        x = x + attention(normed(x, block["attention_gain"]), block)
        hidden = jax.nn.relu(normed(x, block["perceptron_gain"]) @ block["perceptron_in"])
        x = x + hidden @ block["perceptron_out"]
    return at_least_float32(normed(x, params["gain"]) @ params["scores"])


def attention(x: jax.Array, block: dict[str, jax.Array]) -> jax.Array:
    """What every place takes from itself and the places before it [b, t, f]."""
    b, t, _ = x.shape
    apart = (x @ block["query_key_value"]).reshape(b, t, 3, HEADS, HEAD_SIZE)
    query, key, value = apart[:, :, 0], apart[:, :, 1], apart[:, :, 2]
    match = at_least_float32(jnp.einsum("bqhi,bkhi->bhqk", query * HEAD_SIZE**-0.5, key))
    before = jnp.tril(jnp.ones((t, t), jnp.bool_))[None, None]
    share = jax.nn.softmax(jnp.where(before, match, -jnp.inf), axis=-1).astype(x.dtype)
    return jnp.einsum("bhqk,bkhi->bqhi", share, value).reshape(b, t, -1) @ block["attention_out"]


def normed(x: jax.Array, gain: jax.Array) -> jax.Array:
    """The features of every place [b, t, f] normalised, times the gain [f]."""
    return layer_norm(x) * gain[None, None, :]
