"""What one update's numbers mean: does its gradient agree with the full batch, and why not."""

import numpy as np

from lab.census import BEARABLE, Census
from lab.findings.sentence import Finding, largest_text
from lab.key import scale_text
from lab.opened import Update
from lab.wording import number, percent, plural

AGREES = 1e-5
"""Relative error up to which a float32 gradient counts as equal to the float64 reference: rounding, not arithmetic."""

HALF_AGREES = {"float16": 5e-3, "bfloat16": 4e-2}
"""The same for a gradient that was computed or accumulated in a half-precision format."""
EPSILON = float(np.finfo(np.float32).eps)


def tolerance(update: Update) -> float:
    """The relative error up to which the gradient of this update counts as equal to the full batch."""
    coarse = {update.compute_dtype, update.accumulator_dtype} - {"float32"}
    return max([AGREES, *(HALF_AGREES[dtype] for dtype in coarse)])


def of_update(update: Update) -> list[Finding]:
    """Does the gradient this update used agree with the full batch, and why not."""
    by_cut = _of_cut(update)
    if by_cut is None:
        return _of_sums(update)
    as_good_as_mean = update.agreement.relative_error <= 1.1 * update.reduction_agreement["mean"].relative_error
    return [by_cut] if as_good_as_mean and np.isfinite(update.agreement.relative_error) else [*_of_sums(update), by_cut]


def _of_cut(update: Update) -> Finding | None:
    """A model whose gradient depends on how the batch is cut, so that no reduction could agree with the full batch."""
    error, pieces = update.reduction_agreement["mean"].relative_error, len(update.microbatches)
    if error <= tolerance(update) or not (update.batch_norm or update.shared_keys):
        return None
    if update.shared_keys:
        text = (
            f"Shared dropout keys: all {pieces} microbatches drop the same units, and mean over them is "
            f"{percent(error)} off the full batch, in which every example has a mask of its own."
        )
        return Finding("warning", text, {"dropout_keys": "distinct"})
    text = (
        f"Batch norm normalises each of the {pieces} microbatches by itself, so mean over them is {percent(error)} off "
        "the full batch, which is normalised as one. No reduction mends that; it is what accumulation does to batch "
        "norm. Layer norm does not depend on the cut."
    )
    return Finding("note", text, {"norm": "layer"})


def _of_sums(update: Update) -> list[Finding]:
    """The same for a model whose losses add up."""
    error, cosine = update.agreement
    weights = [microbatch.weight for microbatch in update.microbatches]
    count = plural(len(weights), "microbatch")
    broken = [k for k, m in enumerate(update.microbatches) if not np.isfinite(m.adds.norm)]
    if broken:
        left_out = f" The update was skipped and the loss scale {scale_text(update.loss_scale)} halved."
        return [
            Finding(
                "warning",
                f"The gradient of microbatch {broken[0] + 1} of {len(weights)} is not finite, nor is their sum."
                + (left_out if update.skipped else ""),
            )
        ]
    if not all(np.isfinite(m.running_total.norm) for m in update.microbatches):
        return [_of_overflow(update)]
    own = update.reduction_agreement[update.reduction].relative_error
    if len(update.devices) > 1:
        count += f" on {len(update.devices)} devices"
        among = update.device_reduction_agreement
        if among[update.device_reduction].relative_error > max(AGREES, 2 * among["global"].relative_error):
            return [_of_device_reduction(update)]
    if error <= AGREES:
        size = "exactly" if error == 0 else f"to a relative error of {error:.1e}, the rounding of float32"
        if update.clips_microbatches and own > AGREES:
            text = f"{update.reduction} over {count} agrees with the full batch, but only because of the clip."
            return [Finding("note", text)]
        return [Finding("ok", f"{update.reduction} over {count} agrees with the full batch {size}.")]
    if own <= AGREES and not update.clips_microbatches and tolerance(update) > AGREES:
        return [_of_half_precision(update, own, count)]
    if own <= AGREES:
        return [
            Finding(
                "warning",
                f"Clipping every microbatch before they are added leaves a gradient that is {percent(error)} off "
                f"the full batch, at a cosine of {cosine:.4f}; clip the reduced gradient instead (clip_at=update).",
            )
        ]
    reduced = update.reductions[update.reduction].norm
    parts = sum(m.adds.norm for m in update.microbatches)
    rounding = len(weights) * EPSILON * parts / (update.stages["accumulate"].norm / reduced if reduced else 1)
    if update.reduction == "mean" and error * update.reference.norm > 100 * rounding:
        text = (
            f"mean over {count} is {percent(error)} off the full batch, far more than rounding: what an example costs "
            "depends on the cut, on other examples, or on something drawn anew."
        )
        return [Finding("warning", text)]
    if update.reduction == "mean" or error * update.reference.norm <= rounding:
        text = (
            f"{update.reduction} over {count} is {percent(error)} off the full batch, all of it rounding: the "
            f"examples' gradients cancel (their sum is {number(update.full_sum.norm / parts if parts else 0)} of the "
            "microbatches' together), and float32 keeps about 7 digits."
        )
        return [Finding("note", text)]
    ratio = reduced / update.reference.norm if update.reference.norm else np.inf
    uneven = len(set(weights)) > 1
    least, most, unit = min(weights), max(weights), update.unit
    one = f"{'an' if unit == 'example' else 'a'} {unit}"
    empty = f"{weights.count(0)} of them {'is' if weights.count(0) == 1 else 'are'}"
    off = f"{update.reduction} is {percent(error)} off the full batch"
    if update.reduction == "sum":
        text = (
            f"sum is {number(ratio)} times the full-batch gradient: it adds {sum(weights):,g} {unit}s and divides by "
            "none. The direction is right, the length is not; Adam hides this, clipping can too."
        )
    elif update.reduction == "mean_of_means":
        text = (
            f"{off}: microbatches of {least:g} to {most:g} {unit}s all count the same, so {one} in the smallest "
            f"weighs {number(most / least)} times as much as one in the largest."
            if least
            else f"{off}: it divides by {len(weights)} microbatches, and {empty} empty."
        )
    else:
        why = f" and counts microbatches of {least:g} to {most:g} {unit}s the same" if uneven else ""
        text = (
            f"sum_of_means is {number(ratio)} times as long as the full-batch gradient: it adds the means of {count} "
            f"and never divides by {len(weights)}{why}."
        )
    return [Finding("warning", text)]


def _of_device_reduction(update: Update) -> Finding:
    """An update whose devices were not brought together as the full batch would have."""
    error, cosine = update.device_reduction_agreement[update.device_reduction]
    number_of, cure = len(update.devices), {"device_reduction": "global"}
    if update.device_reduction == "none":
        mine = update.devices[0]
        text = (
            f"No device sees the others' gradients: the first used its own {plural(mine.examples, 'example')} of "
            f"{sum(d.examples for d in update.devices):,}, {percent(error)} off the full batch at a cosine of "
            f"{cosine:.4f}, and the devices drift apart."
        )
        return Finding("warning", text, cure)
    right = update.device_reductions["global"].norm
    times = update.device_reductions[update.device_reduction].norm / right if right else np.inf
    if update.device_reduction == "sum":
        text = (
            f"The {number_of} devices' gradients are added and not divided: {number(times)} times the gradient of all "
            "together. The direction is about right, the length is not; Adam hides this."
        )
        return Finding("warning", text, cure)
    least, most = (pick(update.devices, key=lambda device: device.weight) for pick in (min, max))
    each, all_together = most.weight / least.weight if least.weight else np.inf, sum(d.weight for d in update.devices)
    text = (
        f"The mean of the {number_of} devices' means is {percent(error)} off the gradient of all together: device "
        f"{least.index + 1} holds {least.weight:g} of the {all_together:,g} {update.unit}s, and "
        f"each of them weighs {number(each)} times as much as one on device {most.index + 1}."
    )
    if update.reduction == "sum" or update.reduction == "sum_of_means":
        text = (
            f"The mean over {number_of} devices of gradients that are sums is {number(times)} times the gradient of "
            "all together."
        )
    return Finding("warning", text, cure)


def _of_overflow(update: Update) -> Finding:
    """An accumulator whose total left its format while all that was added is finite."""
    dtype = update.accumulator_dtype
    text = (
        f"The microbatches' gradients are finite and their sum is not finite: it is beyond {largest_text(dtype)}, the "
        f"largest {dtype}."
    )
    return Finding("warning", text, {"accumulator_dtype": "float32"} if dtype == "float16" else {})


def _of_half_precision(update: Update, own: float, count: str) -> Finding:
    """An update whose reduction is right and whose number formats are not float32."""
    error, total = update.agreement.relative_error, update.microbatches[-1].running_total.norm
    if error <= tolerance(update):
        dtypes = " and ".join(sorted({update.compute_dtype, update.accumulator_dtype} - {"float32"}))
        text = (
            f"{update.reduction} over {count} agrees with the full batch to {percent(error)}, the rounding of {dtypes}."
        )
        return Finding("ok", text)
    if update.compute_dtype != "float32":
        text = (
            f"Computing in {update.compute_dtype} leaves a gradient that is {percent(error)} off the full batch; in "
            f"float32 it would be {own:.1e} off."
        )
        return Finding("warning", text, {"compute_dtype": "float32"})
    text = (
        f"The {update.accumulator_dtype} accumulator rounds at every one of {count}: its total ends at norm "
        f"{number(total)}, and the gradient is {percent(error)} off the full batch. In float32 the same sums "
        f"are {own:.1e} off (accumulator_dtype=float32)."
    )
    return Finding("warning", text, {"accumulator_dtype": "float32"})


def of_census(census: Census, dynamic: bool = False) -> Finding | None:
    """What the number format makes of the gradient's entries, and the loss scale that would be right.

    Under a dynamic loss scale an overflow is part of the search for it, and needs no cure.
    """
    if census.broken:
        return None
    dtype, best = census.dtype, scale_text(census.best_scale)
    under = "" if census.loss_scale == 1 else f", times the loss scale {scale_text(census.loss_scale)},"
    level, cure = "warning", {"loss_scaling": "static", "loss_scale": best}
    if census.overflowed:
        text = (
            f"{percent(census.overflowed)} of the gradient's entries{under} are above {dtype}'s largest number, "
            f"{largest_text(dtype)}; "
        )
        if not census.fits:
            cure = {"compute_dtype": "bfloat16" if dtype == "float16" else "float32"}
            return Finding(level, f"{text}no loss scale makes them fit.", cure)
        if dynamic:
            return Finding("note", f"{text}dynamic scaling halves the scale and tries again.")
        return Finding(level, f"{text}a loss scale of {best} lets none overflow.", cure)
    if census.flushed > BEARABLE:
        text = f"{percent(census.flushed)} of the gradient's entries{under} are below {dtype}'s smallest number and "
        text += "become 0; "
        if census.flushed_at_best >= census.flushed:
            cure = {"compute_dtype": "bfloat16"} if dtype == "float16" else {}
            return Finding(level, f"{text}no loss scale does better without overflow.", cure)
        left = census.flushed_at_best
        back = f"brings back all but {percent(left)}" if left else "brings back all of them"
        return Finding("note" if dynamic else level, f"{text}a loss scale of {best} {back}.", {} if dynamic else cure)
    few = f"{percent(census.flushed)} become" if census.flushed else "none becomes"
    return Finding("ok", f"The gradient's entries{under} fit {dtype}: none overflows and {few} 0.")
