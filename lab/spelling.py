"""What the model of `task=names` makes of names before an update: some it makes up, and the loss of every letter."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from lab.precision import cast
from lab.run import Run
from lab.tasks import names

MADE_UP, SHOWN = 8, 8
"""How many names are made up, and how many that were held out are read."""


class Spelling(NamedTuple):
    """The model before an update, or at the end of the run.

    Attributes:
        made_up: names drawn from the model.
        read: held-out names, their stop shown as a dot.
        losses: loss of each of their tokens [n, t], float32; nan where a name has ended.
    """

    made_up: list[str]
    read: list[str]
    losses: np.ndarray


def look(run: Run, step: int) -> Spelling:
    """Draw names from the model before update `step`, and read the same held-out names as at any other."""
    params, held_out = cast(run.state(step).params, run.settings.compute_dtype), run.task.held_out
    assert held_out is not None
    rows = np.linspace(0, len(held_out["x"]) - 1, SHOWN).astype(int)
    batch = {name: array[rows] for name, array in held_out.items()}
    losses = np.array(names.token_losses(params, {name: jnp.asarray(array) for name, array in batch.items()}))
    ended = np.arange(losses.shape[1])[None, :] >= batch["tokens"][:, None]
    return Spelling(
        made_up=names.samples(params, run.settings.seed, MADE_UP),
        read=[names.text(x) + "." for x in batch["x"]],
        losses=np.where(ended, np.nan, losses),
    )
