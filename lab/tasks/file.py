"""The user's own task, one example at a time: what is drawn for an example never depends on how the batch is cut."""

import functools

import jax
import jax.numpy as jnp

from lab.key import require
from lab.settings import Settings
from lab.task import Batch, Context, Losses, Params, Task, at_least_float32
from lab.user_file import check_in, loaded


@functools.lru_cache(maxsize=8)
def _loss(fingerprint: str):
    """The loss of the file with this fingerprint, always the same function."""
    task = loaded(fingerprint)
    assert task is not None

    def of_one(params: Params, example: Batch, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        each, weight = task.loss(params, {name: array[None] for name, array in example.items()}, key)
        return at_least_float32(jnp.asarray(each).sum()), at_least_float32(jnp.asarray(weight, float).sum())

    def loss(params: Params, batch: Batch, context: Context) -> Losses:
        keys = context.keys
        if keys is None:
            keys = jax.vmap(jax.random.key)(jnp.zeros(len(context.filled), jnp.uint32))
        return Losses(*jax.vmap(of_one, (None, 0, 0))(params, dict(batch), keys))

    return loss


def task(settings: Settings) -> Task:
    """What the file says.

    Raises:
        SettingsError: no file of this fingerprint was loaded.
    """
    found = loaded(settings.file)
    require(
        found is not None,
        f"file={settings.file or 'none'}: no such task was loaded here; start the lab with training-lab --task "
        "my_task.py",
    )
    assert found is not None
    check_in(found, settings.compute_dtype)
    return Task(found.trainable, _loss(settings.file), None, found.train, found.held_out, draws=True, wide=False)
