"""How far a run has come before each of its updates, in whatever one counts."""

import numpy as np

from lab import batches, tasks
from lab.settings import Settings

AT_ONCE = 4096
"""Updates whose batches are looked up together."""


def passed(settings: Settings, updates: int, axis: str) -> np.ndarray:
    """How many updates, examples, tokens or epochs came before each update, and before the end [updates + 1], float64.

    An epoch is as many examples as there are to train on; padding counts as nothing.
    """
    steps = np.arange(updates + 1, dtype=np.float64)
    if axis == "updates":
        return steps
    if axis == "examples":
        return steps * settings.batch_size
    task = tasks.load(settings)
    if axis == "epochs":
        return steps * settings.batch_size / task.examples
    assert task.sizes is not None
    counts = [np.zeros(1)]
    for first in range(0, updates, AT_ONCE):
        number = min(AT_ONCE, updates - first)
        rows = batches.stream(task, settings.seed, settings.batch_size, first, number, settings.order)
        counts.append(task.sizes[rows].reshape(number, -1).sum(axis=1, dtype=np.float64))
    return np.concatenate(counts).cumsum()
