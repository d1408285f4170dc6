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
    even = s.task != "hand" and s.batch_size % s.microbatches == 0
    size = f" x {s.batch_size // s.microbatches}" if even else ""
    rate = f"{s.learning_rate:g}"
    if s.schedule != "constant":
        rate = f"{s.schedule} {rate}"
    clip = "" if s.clip == "none" else f" · clip {s.clip} {s.clip_threshold:g} at the {s.clip_at}"
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
    own = update.reduction_agreement[update.reduction].relative_error
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
    if not np.isfinite(reduced):
        text = "The microbatches' gradients are finite and their sum is not finite: it overflows float32."
        return [Finding("warning", text)]
    parts = sum(m.adds.norm for m in update.microbatches)
    rounding = len(weights) * EPSILON * parts / (update.stages["accumulate"].norm / reduced if reduced else 1)
    if update.reduction == "mean" or error * update.reference.norm <= rounding:
        text = (
            f"{update.reduction} over {count} is {percent(error)} off the full batch, all of it rounding: the "
            f"examples' gradients cancel (their sum is {number(update.full_sum.norm / parts)} of the microbatches' "
            "together), and float32 keeps about 7 digits."
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


def _of_half_precision(update: Update, own: float, count: str) -> Finding:
    """An update whose reduction is right and whose number formats are not float32."""
    error, total = update.agreement.relative_error, update.microbatches[-1].running_total.norm
    if not np.isfinite(total):
        text = (
            f"The running total is beyond {largest_text(update.accumulator_dtype)}, the largest "
            f"{update.accumulator_dtype}, and so not finite. In float32 the same sums are {own:.1e} off."
        )
        return Finding("warning", text, {"accumulator_dtype": "float32"})
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


def of_census(census: Census) -> Finding | None:
    """What the number format makes of the gradient's entries, and the loss scale that would be right."""
    dtype = census.dtype
    if census.broken:
        return None
    now, best = scale_text(census.loss_scale), scale_text(census.best_scale)
    cure = {"loss_scaling": "static", "loss_scale": f"{census.best_scale:.12g}"}
    under = "" if census.loss_scale == 1 else f", times the loss scale {now},"
    left = (
        f"brings back all but {percent(census.flushed_at_best)}"
        if census.flushed_at_best
        else "brings back all of them"
    )
    if census.overflowed:
        return Finding(
            "warning",
            f"{percent(census.overflowed)} of the gradient's entries{under} are above {dtype}'s largest number, "
            f"{largest_text(dtype)}; a loss scale of {best} lets none overflow.",
            cure,
        )
    if census.flushed > BEARABLE:
        return Finding(
            "warning",
            f"{percent(census.flushed)} of the gradient's entries{under} are below {dtype}'s smallest number and "
            f"become 0; a loss scale of {best} {left}.",
            cure,
        )
    few = f"{percent(census.flushed)} become" if census.flushed else "none becomes"
    return Finding("ok", f"The gradient's entries{under} fit {dtype}: none overflows and {few} 0.")


def of_run(run: Run) -> list[Finding]:
    """What happened in the run that its owner would want to know."""
    settings, record = run.settings, run.record
    found = [*_settings_notes(settings)]
    if run.stopped:
        found.append(Finding("note", f"Stopped after {record.length:,} of {plural(settings.steps, 'update')}."))
    found += _of_precision(run)
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
    if len(bad) == 0 and record.length > 1 and settings.learning_rate > 0:
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
            text = f"{skipped:,} of {plural(record.length, 'update')} overflowed and {was} skipped"
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
            "Adam's 0.999 is 1 in bfloat16: its average of squared gradients adds up and never forgets, so steps keep "
            "shrinking. Keep float32 parameters."
        )
        found.append(Finding("warning", text, {"param_dtype": "float32"}))
    if settings.clip != "none" and settings.clip_at == "scaled" and settings.loss_scaling != "none":
        text = (
            f"The clip sees the gradient times the loss scale {scale_text(float(record['loss_scale'][0]))}, and the "
            "scale is divided out after it: the limit is that many times too small. Unscale first (clip_at=update)."
        )
        found.append(Finding("warning", text, {"clip_at": "update"}))
    return found


def _settings_notes(settings: Settings) -> list[Finding]:
    found = []
    for name, value in settings.unused_changes().items():
        found.append(Finding("note", f"{name}={value} changes nothing here: no other choice uses it."))
    size = -(-settings.batch_size // settings.microbatches)
    if settings.task != "hand" and settings.batch_size % settings.microbatches:
        full, rest = divmod(settings.batch_size, size)
        empty = settings.microbatches - full - (rest > 0)
        last = f", then one of {rest}" if rest else ""
        none = f", then {empty} with none" if empty else ""
        found.append(
            Finding(
                "note",
                f"{plural(settings.batch_size, 'example')} cannot be divided by {settings.microbatches}: "
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
    if settings.learning_rate == 0:
        found.append(Finding("note", "The learning rate is 0: nothing can move."))
    return found
