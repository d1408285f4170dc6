"""One update opened: what there is to see of it."""

from typing import Any, NamedTuple

import numpy as np


class Vector(NamedTuple):
    """A gradient-shaped vector: norm [], and its values at the listed coordinates."""

    values: np.ndarray
    norm: float


class Agreement(NamedTuple):
    """How far one vector is from the reference: |a - r| / |r|, and the cosine of the angle between them."""

    relative_error: float
    cosine: float


class Break(NamedTuple):
    """Where an update first held a number that is not finite.

    Attributes:
        stage: before (the parameters came that way), loss, backward, or one of the stages of the update.
        tensor: the first tensor concerned, by name; None for the loss.
        microbatch: its index, for loss, backward and accumulate; else None.
        device: the first device concerned.
    """

    stage: str
    tensor: str | None
    microbatch: int | None
    device: int


class Microbatch(NamedTuple):
    """One microbatch of the update, and its device's accumulator after it; `index` counts within the device.

    `adds` is what it added to the accumulator, `unclipped` what it would have without a clip of its own. `to_full` is
    how well the update would agree with the full batch if the accumulator's total were used now.
    """

    device: int
    index: int
    examples: int
    weight: float
    loss_sum: float
    unclipped: Vector
    adds: Vector
    running_total: Vector
    to_full: Agreement


class Device(NamedTuple):
    """One device's part in the update.

    Attributes:
        loss: mean loss of its own examples, what it would report by itself.
        gradient: its own gradient, as the reduction makes one of its microbatches alone, in float32.
        cosine: of that to the gradient reduced over all devices.
        to_others: cosine to the own gradient of every device [d].
        stages: what it had after each operation, as `Update.stages` tells it of the first device.
        params_after: its parameters after the update.
    """

    index: int
    examples: int
    weight: float
    loss: float
    gradient: Vector
    cosine: float
    to_others: np.ndarray
    stages: dict[str, Vector]
    params_after: Vector


class Update(NamedTuple):
    """Everything about one update. Vectors hold the values at `coordinates`, all of them where `complete`.

    `stages` has the gradient after each operation, in the order the settings put them; the last holds the parameters,
    which were `params_before`. `stage_cosines` has the cosine of each but the last to the one before.
    `moments` has the optimizer's running averages by symbol, before the update and after; `count` is how many updates
    it had seen before.
    `device_reductions` has what each device reduction would have given (`none`: the first device's own gradient).
    `batch_norm` and `shared_keys` tell of models whose gradient depends on the cut.
    `unit` is what weights count, in a word. `broke` says where a number first was not finite, if one was. Where
    devices differ, what is not told of each device is that of the first.
    """

    step: int
    coordinates: list[str]
    complete: bool
    microbatches: list[Microbatch]
    full_sum: Vector
    reductions: dict[str, Vector]
    reduction_agreement: dict[str, Agreement]
    reference: Vector
    agreement: Agreement
    stages: dict[str, Vector]
    stage_cosines: dict[str, float]
    params_before: Vector
    moments: dict[str, tuple[Vector, Vector]]
    count: int
    learning_rate: float
    reduction: str
    accumulator_dtype: str
    param_dtype: str
    compute_dtype: str
    clips_microbatches: bool
    batch_norm: bool
    shared_keys: bool
    devices: list[Device]
    device_reduction: str
    device_reductions: dict[str, Vector]
    device_reduction_agreement: dict[str, Agreement]
    loss_scale: float
    skipped: bool
    unit: str
    broke: Break | None

    def to_dict(self) -> dict[str, Any]:
        """As `training-lab inspect --json` writes it."""

        def shown(vector: Vector, name: str = "gradient") -> dict[str, Any]:
            if self.complete:
                return {name: vector.values, "norm": vector.norm}
            return {"coordinates": dict(zip(self.coordinates, vector.values, strict=True)), "norm": vector.norm}

        return {
            "step": self.step,
            "microbatches": [self._microbatch(entry) for entry in self.microbatches],
            "reductions": {
                name: {**shown(vector), **self.reduction_agreement[name]._asdict()}
                for name, vector in self.reductions.items()
            },
            "reference": shown(self.reference),
            "agreement": self.agreement._asdict(),
            "stages": [
                {"name": name, **shown(vector), "cosine_to_previous": self.stage_cosines.get(name)}
                for name, vector in self.stages.items()
            ],
            "update": {
                **shown(self.applied, "applied"),
                "learning_rate": self.learning_rate,
                "skipped": self.skipped,
                "count": self.count,
                "params_before": shown(self.params_before, "params"),
                "moments": {
                    symbol: {"before": shown(before, "moment"), "after": shown(after, "moment")}
                    for symbol, (before, after) in self.moments.items()
                },
            },
            "devices": [
                {
                    "device": device.index,
                    "examples": device.examples,
                    "weight": device.weight,
                    "loss": device.loss,
                    **shown(device.gradient),
                    "cosine": device.cosine,
                    "params_after": shown(device.params_after, "params"),
                }
                for device in self.devices
            ],
            "device_reductions": {
                name: {**shown(vector), **self.device_reduction_agreement[name]._asdict()}
                for name, vector in self.device_reductions.items()
            },
            "loss_scale": self.loss_scale,
            "not_finite": self.broke._asdict() if self.broke else None,
        }

    @property
    def applied(self) -> Vector:
        """What was added to the parameters."""
        return self.stages["learning_rate"]

    def _microbatch(self, entry: Microbatch) -> dict[str, Any]:
        row: dict[str, Any] = {
            "device": entry.device,
            "index": entry.index,
            "examples": entry.examples,
            "weight": entry.weight,
            "loss_sum": entry.loss_sum,
            "gradient_norm": entry.adds.norm,
            "unclipped_norm": entry.unclipped.norm,
            "running_total_norm": entry.running_total.norm,
            "cosine_to_full": entry.to_full.cosine,
            "relative_error_to_full": entry.to_full.relative_error,
        }
        for name, vector in (("gradient", entry.adds), ("running_total", entry.running_total)):
            if self.complete:
                row[name] = vector.values
            else:
                row[f"{name}_coordinates"] = dict(zip(self.coordinates, vector.values, strict=True))
        return row
