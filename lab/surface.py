"""What a network of two inputs and two classes says everywhere in the plane, through its run."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lab.precision import cast
from lab.run import Run
from lab.task import Context
from lab.tasks.classifier import functions

FRAMES = 24
"""A run is looked at before this many updates at most, and after its last."""
SIDE = 48
"""Places along each side of the grid."""
EDGE = 0.1
"""How far beyond the outermost points the square grid reaches, as a share of their larger extent."""


class Surface(NamedTuple):
    """The decision surface through a run.

    Attributes:
        steps: updates done [k], increasing; the last is the end of the run.
        x, y: coordinates of the grid [r], [r].
        probability: of class 1 at every place [k, r (y), r (x)], float32.
        points: the training examples [n, 2], with their classes `labels` [n].
    """

    steps: np.ndarray
    x: np.ndarray
    y: np.ndarray
    probability: np.ndarray
    points: np.ndarray
    labels: np.ndarray


@functools.cache
def _probability(norm: str, compute_dtype: str):
    """Compiled: (parameters, running statistics, places [n, 2]) -> probability of class 1 [n]."""

    def probability(params, statistics, places):
        context = Context(jnp.ones(len(places), bool), statistics=statistics)
        scores = functions(norm).logits(cast(params, compute_dtype), {"x": places}, context)
        return jax.nn.softmax(scores, axis=1)[:, 1]

    return jax.jit(probability)


def through(run: Run) -> Surface:
    """The surface of a `task=points` run before some of its updates, evenly spread, and after the last."""
    points, labels = run.task.train["x"], run.task.train["y"]
    low, high = points.min(axis=0), points.max(axis=0)
    reach = (0.5 + EDGE) * (high - low).max()
    x, y = (np.linspace(middle - reach, middle + reach, SIDE, dtype=np.float32) for middle in (low + high) / 2)
    places = np.stack([grid.ravel() for grid in np.meshgrid(x, y)], axis=1)
    steps = steps_through(run)
    of = _probability(run.settings.norm, run.settings.compute_dtype)
    states = [run.state(int(step)) for step in steps]
    probability = [np.asarray(of(state.params, state.statistics, places)) for state in states]
    return Surface(steps, x, y, np.stack(probability).reshape(len(steps), SIDE, SIDE), points, labels)


def steps_through(run: Run) -> np.ndarray:
    """The updates to look before: the kept states, thinned, so that little is replayed; and the end of the run."""
    kept, end = run.kept, run.record.length
    chosen = np.unique(np.linspace(0, len(kept) - 1, min(FRAMES, len(kept))).round().astype(int))
    return np.unique([*(kept[i] for i in chosen), end])
