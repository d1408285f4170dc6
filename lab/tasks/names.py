"""Names of characters, spelled letter by letter: a transformer reads a name and says what comes next.

The data are the names Unicode 3.2 gives to letters and symbols (`unicodedata.ucd_3_2_0`, the same in every Python,
and no name ever changes). A name is its characters and a stop. What counts is the token, so a name weighs as many as
it has, and microbatches of as many names weigh differently. Every fifth name is held out.
"""

import functools
import unicodedata

import jax
import jax.numpy as jnp
import numpy as np

from lab import transformer
from lab.choices import UNITS
from lab.losses import cross_entropy
from lab.settings import Settings
from lab.task import Batch, Context, Losses, Params, Task

RANGES = (range(0x0020, 0x1200), range(0x2000, 0x2800))
"""The code points whose names are taken: letters of many scripts, and symbols."""
PLACES = 24
"""Tokens of the longest name, its stop included; longer names are left out."""
ALPHABET = "\n -0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""What the tokens stand for. Token 0 is the stop; it also begins what the model reads, and fills the places left."""


@functools.cache
def words() -> tuple[str, ...]:
    """All names of up to `PLACES` - 1 characters, in the order of their code points."""
    named = (unicodedata.ucd_3_2_0.name(chr(point), "") for points in RANGES for point in points)
    return tuple(name for name in named if 0 < len(name) < PLACES)


def arrays(names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Tokens x [n, t] int32, and how many of them spell the name and its stop: `tokens` [n] int32."""
    x = np.zeros((len(names), PLACES), np.int32)
    for row, name in zip(x, names, strict=True):
        row[: len(name)] = [ALPHABET.index(character) for character in name]
    return {"x": x, "tokens": np.array([len(name) + 1 for name in names], np.int32)}


def text(tokens: np.ndarray) -> str:
    """What tokens [t] spell, up to the first stop."""
    return "".join(ALPHABET[token] for token in tokens).partition(ALPHABET[0])[0]


def scores(params: Params, x: jax.Array) -> jax.Array:
    """The scores of every token of x [b, t] given those before it [b, t, c]."""
    return transformer.outputs(params, jnp.pad(x[:, :-1], ((0, 0), (1, 0))))


def token_losses(params: Params, batch: Batch) -> jax.Array:
    """-log of the probability of every token [b, t], float32 or wider; 0 where a name has ended."""
    there = jnp.arange(batch["x"].shape[1], dtype=jnp.int32)[None, :] < batch["tokens"][:, None]
    return jnp.where(there, cross_entropy(scores(params, batch["x"]), batch["x"]), 0)


def loss(params: Params, batch: Batch, context: Context) -> Losses:
    """The losses of a name's tokens added up [b], and how many there are [b]."""
    each = token_losses(params, batch).sum(axis=1)
    return Losses(each, batch["tokens"].astype(each.dtype))


@functools.partial(jax.jit, static_argnames="number")
def _drawn(params: Params, seed: jax.Array, temperature: jax.Array, number: int) -> jax.Array:
    """Tokens drawn one after the other [number, t]."""

    def place(x, t):
        there = scores(params, x)[:, t]
        noise = jax.random.gumbel(jax.random.fold_in(jax.random.key(seed), t), there.shape)
        return x.at[:, t].set((there + temperature * noise).argmax(axis=-1).astype(jnp.int32)), None

    return jax.lax.scan(place, jnp.zeros((number, PLACES), jnp.int32), jnp.arange(PLACES, dtype=jnp.int32))[0]


def samples(params: Params, seed: int, number: int, temperature: float = 1.0) -> list[str]:
    """Names the model makes up, each up to its stop or `PLACES` characters.

    Args:
        params: of one device, such as `run.params` or `run.state(step).params`.
        seed: draws the names; the same seed gives the same.
        number: how many.
        temperature: 1 draws as likely as the model says; 0 takes the likeliest token everywhere.
    """
    drawn = _drawn(params, jnp.uint32(seed), jnp.float32(temperature), number)
    return [text(row) for row in np.asarray(drawn)]


def task(settings: Settings) -> Task:
    """x [n, t] and tokens [n]; the same names whatever the seed of the run."""
    train = arrays(tuple(name for k, name in enumerate(words()) if k % 5 != 4))
    return Task(
        init=functools.partial(
            transformer.init, classes=len(ALPHABET), places=PLACES, width=settings.width, blocks=settings.layers
        ),
        loss=loss,
        score=None,
        train=train,
        held_out=arrays(words()[4::5]),
        sizes=train["tokens"],
        unit=UNITS["names"],
    )
