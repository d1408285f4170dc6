"""What the numbers mean, in sentences. Every number in a sentence is computed from a run or one of its updates."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

from lab.census import BEARABLE, Census
from lab.choices import REPEATED
from lab.key import scale_text
from lab.microscope import Update
from lab.precision import format_of
from lab.run import Run
from lab.settings import Settings

AGREES = 1e-5
"""Relative error up to which a float32 gradient counts as equal to the float64 reference: rounding, not arithmetic."""

HALF_AGREES = {"float16": 5e-3, "bfloat16": 4e-2}
"""The same for a gradient that was computed or accumulated in a half-precision format."""
STUCK = 0.05
"""Share of parameters that cannot move, averaged over the run, from which on it is worth a warning."""

EPSILON = float(np.finfo(np.float32).eps)


class Finding(NamedTuple):
    """One sentence, how much it matters, and the settings that would cure it."""

    level: Literal["ok", "note", "warning"]
    text: str
    cure: Mapping[str, str] = {}


def number(value: float) -> str:
    """Three significant digits, as a person would write them: 0.0183, 12.3, 1.2e-07, 12,300."""
    if not np.isfinite(value):
        return str(value)
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        rounded = float(f"{value:.3g}")
        return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.4g}"
    return f"{value:.1e}"


def percent(share: float) -> str:
    """A share as a percentage with three significant digits."""
    return f"{number(share * 100)} %"


def plural(count: int, word: str) -> str:
    """`1 update`, `2 updates`."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}{'es' if word.endswith('batch') else 's'}"


def largest_text(dtype: str) -> str:
    """The largest number of a format: 65,504 for float16."""
    largest = format_of(dtype).largest
    return f"{largest:,.0f}" if largest < 1e6 else number(largest)


def tolerance(update: Update) -> float:
    """The relative error up to which the gradient of this update counts as equal to the full batch."""
    coarse = {update.compute_dtype, update.accumulator_dtype} - {"float32"}
    return max([AGREES, *(HALF_AGREES[dtype] for dtype in coarse)])


def headline(settings: Settings) -> str:
    """The run in one line."""
    s = settings
    pieces = plural(s.microbatches, "microbatch")
    all_pieces = s.microbatches * s.devices
    even = s.task != "hand" and s.batch_size % all_pieces == 0
    size = f" x {s.batch_size // all_pieces}" if even else ""
    if s.devices > 1:
        how = "not reduced" if s.device_reduction == "none" else f"reduced by {s.device_reduction}"
        way = "" if s.device_reduction == "global" else f", devices {how}"
        pieces, size = f"{s.devices} devices x {pieces}", f"{size}{way}"
    rate = f"{s.learning_rate:g}"
    if s.schedule != "constant":
        rate = f"{s.schedule} {rate}"
    place = "before unscaling" if s.clip_at == "scaled" else f"at the {s.clip_at}"
    clip = "" if s.clip == "none" else f" · clip {s.clip} {s.clip_threshold:g} {place}"
    return (
        f"{s.task} · {plural(s.batch_size, 'example')} = {pieces}{size} · {s.reduction} · {s.optimizer}, {rate}"
        f"{clip}{_formats(s)} · {plural(s.steps, 'update')}"
    )


def _formats(s: Settings) -> str:
    """Number formats and loss scaling, where they are not the plain ones."""
    names = {"parameters": s.param_dtype, "compute": s.compute_dtype, "accumulator": s.accumulator_dtype}
    half = [f"{name} {dtype}" for name, dtype in names.items() if dtype != "float32"]
    if s.loss_scaling != "none":
        half.append(f"{s.loss_scaling} loss scale {scale_text(s.loss_scale)}")
    return "".join(f" · {text}" for text in half)


def of_update(update: Update) -> list[Finding]:
    """Does the gradient this update used agree with the full batch, and why not."""
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
    if update.reduction == "mean" or error * update.reference.norm <= rounding:
        text = (
            f"{update.reduction} over {count} is {percent(error)} off the full batch, all of it rounding: the "
            f"examples' gradients cancel (their sum is {number(update.full_sum.norm / parts if parts else 0)} of the "
            "microbatches' together), and float32 keeps about 7 digits."
        )
        return [Finding("note", text)]
    ratio = reduced / update.reference.norm if update.reference.norm else np.inf
    uneven = len(set(weights)) > 1
    least, most = min(weights), max(weights)
    empty = f"{weights.count(0)} of them {'is' if weights.count(0) == 1 else 'are'}"
    off = f"{update.reduction} is {percent(error)} off the full batch"
    if update.reduction == "sum":
        text = (
            f"sum is {number(ratio)} times the full-batch gradient: it adds {sum(weights):g} examples and divides by "
            "none. The direction is right, the length is not; Adam hides this, clipping can too."
        )
    elif update.reduction == "mean_of_means":
        text = (
            f"{off}: microbatches of {least:g} to {most:g} examples all count the same, so an example in the smallest "
            f"weighs {number(most / least)} times as much as one in the largest."
            if least
            else f"{off}: it divides by {len(weights)} microbatches, and {empty} empty."
        )
    else:
        why = f" and counts microbatches of {least:g} to {most:g} examples the same" if uneven else ""
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
    each = most.weight / least.weight if least.weight else np.inf
    text = (
        f"The mean of the {number_of} devices' means is {percent(error)} off the gradient of all together: device "
        f"{least.index + 1} holds {least.weight:g} of the {sum(d.weight for d in update.devices):g} examples, and "
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


def of_run(run: Run) -> list[Finding]:
    """What happened in the run that its owner would want to know."""
    settings, record = run.settings, run.record
    found = [*_settings_notes(settings)]
    if run.stopped:
        found.append(Finding("note", f"Stopped after {record.length:,} of {plural(settings.steps, 'update')}."))
    found += [*_of_precision(run), *_of_devices(run)]
    bad = np.flatnonzero(~record["finite"] & ~record["skipped"])
    if len(bad):
        found.append(
            Finding(
                "warning",
                f"The loss or the gradient is not a finite number in {plural(len(bad), 'update')}, first in update "
                f"{bad[0]:,}.",
            )
        )
    if settings.clip != "none":
        share = record["clipped"]
        touched = int((share > 0).sum())
        where = "some microbatch's gradient" if settings.clip_at == "microbatch" else "the gradient"
        found.append(
            Finding("note", f"{settings.clip} clipping changed {where} in {touched:,} of {record.length:,} updates.")
        )
    known = np.isfinite(record["loss"][[0, -1]]).all()
    if len(bad) == 0 and record.length > 1 and settings.learning_rate > 0 and known:
        first, last = float(record["loss"][0]), float(record["loss"][-1])
        held_out = run.final.get("held_out_accuracy")
        accuracy = "" if held_out is None else f" Held-out accuracy {percent(held_out)}."
        tenth = -(-record.length // 10)
        fell = record["loss"][-tenth:].mean() < record["loss"][:tenth].mean()
        text = f"Loss went from {number(first)} to {number(last)}.{accuracy}"
        found.append(Finding("ok", text) if fell else Finding("warning", text + " It did not fall."))
    return found


def _of_precision(run: Run) -> list[Finding]:
    """Skipped updates, and parameters too coarse to move."""
    settings, record, found = run.settings, run.record, []
    skipped = int(record["skipped"].sum())
    if settings.loss_scaling == "dynamic":
        first, last = (scale_text(float(record["loss_scale"][at])) for at in (0, -1))
        text = "No update overflowed"
        if skipped:
            was = "was" if skipped == 1 else "were"
            what = "overflowed" if np.isfinite(record["loss"]).all() else "had a gradient that is not finite"
            text = f"{skipped:,} of {plural(record.length, 'update')} {what} and {was} skipped"
        text += f"; the loss scale went from {first} to {last}."
        all_gone = skipped == record.length
        found.append(Finding("warning" if all_gone else "note", text + (" Nothing was learned." if all_gone else "")))
    stuck = float(record["unmoved"][~record["skipped"]].mean()) if skipped < record.length else 0.0
    if settings.param_dtype != "float32" and stuck > STUCK:
        text = (
            f"In an average update {percent(stuck)} of the parameters could not move: what was added is less than half "
            f"the spacing of {settings.param_dtype} there (p + u == p). Keep float32 parameters."
        )
        found.append(Finding("warning", text, {"param_dtype": "float32"}))
    if settings.optimizer in ("adam", "adamw") and settings.param_dtype == "bfloat16":
        text = (
            "Adam's 0.999 is 1 in bfloat16: its average of squared gradients adds up and never forgets, so its steps "
            "are not as long as Adam means them. Keep float32 parameters."
        )
        found.append(Finding("warning", text, {"param_dtype": "float32"}))
    frozen = (record["update_norm"] == 0) & (record["grad_norm"] > 0) & (record["learning_rate"] > 0)
    frozen &= ~record["skipped"]
    if settings.optimizer in ("adam", "adamw") and settings.param_dtype == "float16" and frozen.any():
        text = (
            f"In {plural(int(frozen.sum()), 'update')} nothing was added to any parameter although there was a "
            f"gradient: the square of one above {number(format_of('float16').largest ** 0.5)} is infinite in float16, "
            "and Adam divides by its root. Keep float32 parameters."
        )
        found.append(Finding("warning", text, {"param_dtype": "float32"}))
    if settings.clip != "none" and settings.clip_at == "scaled" and settings.loss_scaling != "none":
        scale, limit = float(record["loss_scale"][0]), settings.clip_threshold
        text = (
            f"The clip sees the gradient times the loss scale {scale_text(scale)}, which is divided out after it: in "
            f"update 0 the limit of {limit:g} acts as one of {number(limit / scale)}. Unscale first."
        )
        found.append(Finding("warning", text, {"clip_at": "update"}))
    return found


def _of_devices(run: Run) -> list[Finding]:
    """Whether the devices hold the same parameters at the end."""
    if run.settings.devices == 1:
        return []
    spread, number_of = run.record["spread"], plural(run.settings.devices, "device")
    apart = np.flatnonzero(spread > 0)
    if np.isnan(spread).any() or not len(apart):
        return [] if len(apart) else [Finding("ok", f"{number_of} hold the same parameters, bit for bit, all along.")]
    text = (
        f"The {number_of} drifted apart: from update {apart[0]:,} on their parameters differ, at the end by up to "
        f"{percent(float(spread[-1]))} of the largest one."
    )
    return [Finding("warning", text, {"device_reduction": "global"})]


def _settings_notes(settings: Settings) -> list[Finding]:
    found = []
    for name, value in settings.unused_changes().items():
        found.append(Finding("note", f"{name}={value} changes nothing here: no other choice uses it."))
    pieces = settings.microbatches * settings.devices
    size = -(-settings.batch_size // pieces)
    if settings.task != "hand" and settings.batch_size % pieces:
        full, rest = divmod(settings.batch_size, size)
        empty = pieces - full - (rest > 0)
        last = f", then one of {rest}" if rest else ""
        none = f", then {empty} with none" if empty else ""
        found.append(
            Finding(
                "note",
                f"{plural(settings.batch_size, 'example')} cannot be divided by {pieces}: "
                f"{plural(full, 'microbatch')} of {size}{last}{none}; the empty places are masked.",
            )
        )
    if settings.schedule_counts == "microbatches" and settings.schedule != "constant" and settings.microbatches > 1:
        end = plural(-(-settings.schedule_length // settings.microbatches), "update")
        counts = plural(settings.schedule_length, "count")
        over = f"a stair or cycle of {counts} is" if settings.schedule in REPEATED else f"its {counts} are"
        found.append(
            Finding(
                "warning",
                f"The schedule moves {settings.microbatches} times an update: {over} over after {end}. "
                "Step it once an update (schedule_counts=updates).",
            )
        )
    if settings.clip != "none" and settings.clip_at == "scaled" and settings.loss_scaling == "none":
        found.append(Finding("note", "Without loss scaling there is no scale: clip_at=scaled is clip_at=update."))
    if settings.learning_rate == 0:
        found.append(Finding("note", "The learning rate is 0: nothing can move."))
    return found
