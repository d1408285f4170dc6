"""What the tasks of multilayer perceptrons have in common."""

import functools
from collections.abc import Callable

import numpy as np

from lab import mlp
from lab.key import parse_widths
from lab.settings import Settings
from lab.task import Task


def task(
    settings: Settings, features: int, outputs: int, train: dict[str, np.ndarray], held_out: dict[str, np.ndarray],
    loss: Callable, score: Callable | None,
) -> Task:  # fmt: skip
    """The task of predicting y [n] from x [n, f] by a network of the settings' shape."""
    sizes = (features, *parse_widths(settings.hidden), outputs)
    return Task(
        init=functools.partial(mlp.init, sizes=sizes, norm=settings.norm),
        loss=loss,
        score=score,
        train=train,
        held_out=held_out,
        statistics=mlp.statistics(sizes, settings.norm),
        draws=settings.dropout > 0,
        sizes=train["y"],
    )
