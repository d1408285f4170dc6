"""What a run tells: columns of equal length, one entry an update, with their units; CSV and JSON."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

COLUMNS = {
    "step": "number of the update, from 0",
    "loss": "mean loss of the update's batch, before the update: per example, or per token of task=names",
    "objective": "the loss as the chosen reduction would report it",
    "learning_rate": "the rate applied to this update",
    "grad_norm": "Euclidean norm of the reduced gradient without any clip",
    "clipped_grad_norm": "the same after the clip; equal where nothing was clipped",
    "clipped": "share of the gradients that were clipped: 0 or 1 at the update, a fraction at the microbatches",
    "update_norm": "Euclidean norm of what was added to the parameters",
    "loss_scale": "what the loss was multiplied by before the backward pass",
    "skipped": "whether the update was left out because its gradient was not finite",
    "unmoved": "share of the parameters p with an update u that is not 0 and yet p + u == p",
    "finite": "whether loss, gradient and the parameters after the update were finite numbers",
    "spread": "largest difference of one parameter between devices after the update, relative to the largest parameter",
    "device_loss": "mean loss of each device's own examples [devices]",
    "device_grad_norm": "norm of each device's own gradient, before any clip and the device reduction [devices]",
    "device_cosine": "cosine of each device's own gradient to the one reduced over all of them [devices]",
    "accuracy": "share of examples predicted right",
}
"""What each column holds."""


OF_DEVICES = ("device_loss", "device_grad_norm", "device_cosine")
"""Columns with one entry a device [s, d]; only where there are several."""
FLAGS = ("skipped", "finite")
"""Columns of bool; the others but `step` are float32."""


def of_updates(several: bool) -> list[str]:
    """The columns that an update itself tells, on one device or on several."""
    return [
        name
        for name in COLUMNS
        if name not in ("step", "accuracy") and (several or name not in ("spread", *OF_DEVICES))
    ]


class Record(Mapping[str, np.ndarray]):
    """Columns by name, all of one length [s] or [s, d]."""

    def __init__(self, columns: Mapping[str, np.ndarray]):
        self._columns = dict(columns)
        lengths = {len(column) for column in self._columns.values()}
        if len(lengths) != 1:
            raise ValueError(f"columns of lengths {sorted(lengths)}: a record needs one length")
        (self.length,) = lengths

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def to_csv(self) -> str:
        """The columns as CSV with a header line; floats so that they read back exactly."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        flat: dict[str, np.ndarray] = {}
        for name, column in self.items():
            flat |= {name: column} if column.ndim == 1 else {f"{name}_{d}": c for d, c in enumerate(column.T)}
        writer.writerow(flat)
        writer.writerows(zip(*(column.tolist() for column in flat.values()), strict=True))
        return out.getvalue()


def join(records: Iterable[Record]) -> Record:
    """Records of the same columns, one after the other."""
    records = list(records)
    return Record({name: np.concatenate([record[name] for record in records]) for name in records[0]})


def plain(value: Any) -> Any:
    """The value as JSON can hold it: arrays as lists, not-a-number and infinities as "nan", "inf", "-inf"."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value


def to_json(value: Any) -> str:
    """`plain(value)` as JSON text."""
    return json.dumps(plain(value), allow_nan=False)
