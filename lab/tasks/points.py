"""Points in the plane in two classes that no straight line parts: moons, circles, or two arms of a spiral."""

import numpy as np

from lab.settings import Settings
from lab.task import Task
from lab.tasks import classifier

EXAMPLES, HELD_OUT = 400, 100
"""How many points, half of each class."""


def moons(t: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Two half circles that reach into each other, one standing and one hanging."""
    angle = np.pi * t
    standing = np.stack([np.cos(angle) - 0.5, np.sin(angle) - 0.25])
    hanging = np.stack([0.5 - np.cos(angle), 0.25 - np.sin(angle)])
    return np.where(which, hanging, standing)


def circles(t: np.ndarray, which: np.ndarray) -> np.ndarray:
    """A circle of radius 1/2 in one of radius 1."""
    angle = 2 * np.pi * t
    return np.where(which, 0.5, 1.0) * np.stack([np.cos(angle), np.sin(angle)])


def spiral(t: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Two arms, half a turn apart, that wind once around the middle."""
    angle = 2 * np.pi * t + np.pi * which
    return (0.1 + 1.4 * t) * np.stack([np.cos(angle), np.sin(angle)])


CURVES = {"moons": moons, "circles": circles, "spiral": spiral}
"""Each: (t from 0 to 1 [n], which class [n]) -> points [2, n] within about 1.5 of the middle."""


def task(settings: Settings) -> Task:
    """x [n, 2], y [n] 0 or 1; the same points whatever the seed of the run."""
    draw = np.random.default_rng(2)
    number = EXAMPLES + HELD_OUT
    y = np.arange(number) % 2
    x = CURVES[settings.shape](draw.random(number), y) + settings.noise * draw.standard_normal((2, number))
    arrays = {"x": x.T.astype(np.float32), "y": y.astype(np.int32)}
    train = {name: array[:EXAMPLES] for name, array in arrays.items()}
    return classifier.task(settings, 2, 2, train, {name: array[EXAMPLES:] for name, array in arrays.items()})
