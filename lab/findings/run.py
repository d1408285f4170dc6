"""What a run's numbers mean."""

import numpy as np

from lab.choices import REPEATED
from lab.findings.sentence import Finding
from lab.key import scale_text
from lab.precision import format_of
from lab.run import Run
from lab.settings import Settings
from lab.wording import number, percent, plural

STUCK = 0.05
"""Share of parameters that cannot move, averaged over the run, from which on it is worth a warning."""


def of_run(run: Run) -> list[Finding]:
    """What happened in the run that its owner would want to know."""
    settings, record = run.settings, run.record
    found = [*_settings_notes(settings), *(Finding("note", text) for text in run.task.notes)]
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
        per = "" if run.task.unit == "example" else f" per {run.task.unit}"
        text = f"Loss{per} went from {number(first)} to {number(last)}.{accuracy}"
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
        if settings.deal == "strided":
            full = settings.batch_size - (size - 1) * pieces
            last, none = f", then {plural(pieces - full, 'microbatch')} of {size - 1}", ""
        found.append(
            Finding(
                "note",
                f"{plural(settings.batch_size, 'example')} cannot be divided by {pieces}: "
                f"{plural(full, 'microbatch')} of {size}{last}{none}; the empty places are masked.",
            )
        )
    if settings.dropout_keys == "shared" and "dropout_keys" in settings.used() and pieces > 1:
        text = (
            f"Shared dropout keys: an update of {plural(settings.batch_size, 'example')} draws {size} masks, the same "
            f"ones in each of its {pieces} microbatches, so that its noise does not average out."
        )
        found.append(Finding("warning", text, {"dropout_keys": "distinct"}))
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
