"""The updates of a run that are worth opening, the bad ones first."""

from typing import NamedTuple

import numpy as np

from lab.record import Record

MOST = 5
"""More than this many are no help."""


class Moment(NamedTuple):
    """An update and why it is worth a look; `bad` where something went wrong in it."""

    step: int
    what: str
    bad: bool


def moments(record: Record) -> list[Moment]:
    """At most `MOST` moments of a run, no update twice: what broke first, then what stands out."""
    bad = {
        "first not finite": ~record["finite"] & ~record["skipped"],
        "first skipped": record["skipped"],
        "devices first apart": record["spread"] > 0 if "spread" in record else np.zeros(record.length, bool),
    }
    found = [Moment(int(holds.argmax()), what, True) for what, holds in bad.items() if holds.any()]
    with np.errstate(invalid="ignore"):
        rises = np.diff(record["loss"].astype(np.float64), prepend=np.nan)
    standing_out = [("largest gradient", record["grad_norm"])]
    if (rises > 0).any():
        standing_out.append(("loss rises most", rises))
    if (record["clipped"] > 0).any() and not (record["clipped"] > 0).all():
        standing_out.append(("first clipped", np.where(record["clipped"] > 0, 1.0, np.nan)))
    standing_out += [("lowest loss", -record["loss"].astype(np.float64)), ("last", record["step"].astype(np.float64))]
    for what, values in standing_out:
        known = np.where(np.isfinite(values), values, -np.inf)
        step = int(known.argmax())
        if np.isfinite(known[step]) and step not in {moment.step for moment in found}:
            found.append(Moment(step, what, False))
    return found[:MOST]
