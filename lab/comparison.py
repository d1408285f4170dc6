"""Two settings, trained in step: the same first parameters, the same batches, and how far they part."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from lab import devices
from lab.key import SettingsError, shown
from lab.plan import Plan
from lab.record import Record
from lab.run import Run, Training
from lab.settings import Settings

SHARED = (
    "task", "xs", "ys", "gradients", "w", "shape", "noise", "table", "target", "file", "hidden", "batch_size", "order",
    "steps", "seed",
)  # fmt: skip
"""Keys both sides must agree on, or they would not see the same batches from the same start."""
MEASURED = 1000
"""The parameters of both are compared before this many updates at most."""


class Comparison(NamedTuple):
    """Two runs and their difference.

    Attributes:
        run, compared: the two runs, each exactly as `fit` gives it.
        loss: step, loss_absolute |a - b| and loss_relative |a - b| / |a| of every update.
        parameters: step and parameter_distance |a - b| / |a| before every update, or before every so many of a run
            of more than 1,000, and after the last.
    """

    run: Run
    compared: Run
    loss: Record
    parameters: Record


def other_side(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """The settings with the changes.

    Raises:
        SettingsError: a change is illegal, or changes what both sides must share.
    """
    changed = settings.replace(**changes)
    for name in apart(settings, changed):
        mine, other = getattr(settings, name), getattr(changed, name)
        raise SettingsError(
            f"{name}={shown(other)}: a comparison needs the same batches and first parameters, so {name} must stay "
            f"{shown(mine)}; compare another key"
        )
    return changed


def apart(settings: Settings, other: Settings) -> list[str]:
    """The keys that keep two settings from seeing the same batches from the same first parameters."""
    return [name for name in SHARED if getattr(settings, name) != getattr(other, name)]


def compare(settings: Settings, **changes: Any) -> Comparison:
    """Train `settings`, and the same with some keys changed, update by update.

    Raises:
        SettingsError: a change is illegal, or changes what both must share.
    """
    changed = other_side(settings, changes)
    sides = Training(Plan(settings)), Training(Plan(changed))
    stride = -(-settings.steps // MEASURED)
    steps, distances = [0], [_distance(sides)]
    while not sides[0].done:
        stop = min(sides[0].step + stride, settings.steps)
        for side in sides:
            while side.step < stop:
                side.advance(stop - side.step)
        steps.append(stop)
        distances.append(_distance(sides))
    run, compared = (side.run() for side in sides)
    return Comparison(
        run,
        compared,
        loss_difference(run.record, compared.record),
        Record({"step": np.array(steps), "parameter_distance": np.array(distances)}),
    )


def _distance(sides: tuple[Training, Training]) -> float:
    mine, other = (
        np.concatenate(
            [np.ravel(leaf[0]).astype(np.float64) for leaf in jax.tree.leaves(devices.fetch(s.state.params))]
        )
        for s in sides
    )
    return float(_relative(np.linalg.norm(mine - other), np.linalg.norm(mine)))


def loss_difference(mine: Record, other: Record) -> Record:
    """Absolute and relative difference of the losses of two records, as far as both go."""
    both = min(mine.length, other.length)
    a, b = (record["loss"][:both].astype(np.float64) for record in (mine, other))
    with np.errstate(invalid="ignore"):
        absolute = np.abs(a - b)
    columns = {"loss_absolute": absolute, "loss_relative": _relative(absolute, np.abs(a))}
    return Record({"step": mine["step"][:both], **columns})


def _relative(difference: Any, length: Any) -> np.ndarray:
    """difference / length; no difference is 0, whatever the length."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(difference == 0, 0.0, np.divide(difference, length))
