"""1,797 handwritten digits of 8x8 pixels and a multilayer perceptron that reads them.

The data are the UCI set "Optical Recognition of Handwritten Digits"; see assets/digits.txt. Every fifth example of
each digit is held out.
"""

import functools
from pathlib import Path

import numpy as np

from lab.settings import Settings
from lab.task import Task
from lab.tasks import classifier

DATA = Path(__file__).parents[2] / "assets" / "digits.npz"
PIXELS, CLASSES = 64, 10


@functools.cache
def _read() -> dict[str, np.ndarray]:
    with np.load(DATA) as file:
        return {"x": file["images"].astype(np.float32) / 16, "y": file["labels"].astype(np.int32)}


def task(settings: Settings) -> Task:
    """x [n, 64] between 0 and 1, y [n] from 0 to 9."""
    of_digit = _read()["y"][:, None] == np.arange(CLASSES)
    held_out = (of_digit.cumsum(axis=0)[of_digit] % 5) == 0
    train, rest = ({name: array[which] for name, array in _read().items()} for which in (~held_out, held_out))
    return classifier.task(settings, PIXELS, CLASSES, train, rest)
