"""One update stage by stage: every operation with its formula, its numbers, and what it changed."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lab.findings import formulas
from lab.key import scale_text
from lab.opened import Update, Vector
from lab.settings import Settings
from lab.wording import number, percent, plural

KEPT = 1 - 1e-6
"""Cosine from which on a direction counts as kept: float32 cannot tell smaller angles, about 0.1°."""
OPTIMIZERS = {
    "sgd": "Plain gradient descent takes the gradient as it is",
    "momentum": "Momentum adds nine tenths of the direction before",
    "adam": "Adam divides the average gradient by the root of its average square, so all coordinates move about as far",
    "adamw": "Adam divides the average gradient by the root of its average square, then the decay adds λ w",
    "lion": "Lion keeps only the sign of the average gradient, then the decay adds λ w",
}


class Stage(NamedTuple):
    """One operation of an update, told.

    Attributes:
        name: as in the JSON of an opened update; `clip_microbatches` is between `microbatches` and the accumulator.
        title: what the page calls it.
        formula: with symbols.
        with_numbers: the same with the numbers of this update.
        caption: what it is and what it changed.
        before, after: the vectors it took and gave: of every microbatch, of every device while they differ, or one.
    """

    name: str
    title: str
    formula: str
    with_numbers: str
    caption: str
    before: list[Vector]
    after: list[Vector]


def stages_of(update: Update, settings: Settings) -> list[Stage]:
    """Everything that happens in an update of a run with these settings, in its order."""
    told = [_gradients(update)]
    if update.clips_microbatches:
        told.append(_clip_of_microbatches(update, settings))
    for name in update.stages:
        told.append(STAGES[name](update, settings, told[-1].after))
    return [
        stage._replace(caption=_with_break(update, stage), with_numbers=formulas.minus(stage.with_numbers))
        for stage in told
    ]


def _gradients(update: Update) -> Stage:
    given = [m.unclipped for m in update.microbatches]
    count, kind = len(given), "mean" if update.reduction.endswith("of_means") else "sum"
    sizes = [abs(formulas.amount(update, vector)) for vector in given]
    known = [size for size in sizes if np.isfinite(size)]
    what = "gradient" if formulas.alone(update) else "norm"
    text = f"One backward pass for each of the {count} microbatches gives {count} gradient {kind}s"
    if count == 1:
        text = f"One backward pass over the whole batch gives its gradient {kind}"
    elif len(known) == count and max(known) > min(known):
        text += f", {'of size' if what == 'gradient' else 'with norms'} {number(min(known))} to {number(max(known))}"
    elif len(known) == count:
        text += f", all of {'size' if what == 'gradient' else 'norm'} {number(known[0])}"
    text += ". Nothing is added yet." if count > 1 else "."
    if update.loss_scale != 1:
        text += f" They carry the loss scale s = {scale_text(update.loss_scale)}."
    formula = formulas.gradients(update)
    return Stage("microbatches", "microbatch gradients", *formula, text, [], given)


def _clip_of_microbatches(update: Update, settings: Settings) -> Stage:
    norms = []
    for m in update.microbatches:
        by = update.loss_scale * (m.weight or 1 if update.reduction == "mean" else 1)
        norms.append((m.unclipped.norm / by, m.adds.norm / by))
    over = sum(not _same(m.unclipped, m.adds) for m in update.microbatches)
    text = f"Every microbatch is clipped by itself, before it is added: {over} of {len(norms)} were over the limit."
    text += " A clip of the parts is not a clip of their sum."
    if not over:
        text = f"Nothing changed: no microbatch is over the limit {settings.clip_threshold:g}."
    formula = formulas.clip_of_microbatches(update, settings, norms)
    before, after = [m.unclipped for m in update.microbatches], [m.adds for m in update.microbatches]
    return Stage("clip_microbatches", f"clip ({settings.clip}), each microbatch", *formula, text, before, after)


def _accumulate(update: Update, settings: Settings, before: list[Vector]) -> Stage:
    after, count = _of_devices(update, "accumulate"), len(before)
    parts = sum(abs(formulas.amount(update, vector)) for vector in before)
    total = sum(abs(formulas.amount(update, vector)) for vector in after)
    text = f"The accumulator adds {plural(count, 'microbatch')}, one after the other"
    if len(after) > 1:
        text = f"Each of the {len(after)} devices adds its own {plural(count // len(after), 'microbatch')}"
    if count > len(after) and np.isfinite(parts):
        sizes = "sizes" if formulas.alone(update) else "norms"
        text += f". Their {sizes} add up to {number(parts)}"
        together = total >= KEPT * parts
        text += ": all pull the same way" if together else f"; {number(total)} of that is left, the rest cancels"
    text += "."
    if update.accumulator_dtype != "float32":
        text += f" It rounds to {update.accumulator_dtype} after every addition."
    return Stage("accumulate", "accumulate", *formulas.accumulation(update), text, before, after)


def _clip_of_devices(update: Update, settings: Settings, before: list[Vector]) -> Stage:
    after, norms = _of_devices(update, "clip_device"), []
    each = len(update.microbatches) // len(update.devices)
    for device, old, new in zip(update.devices, before, after, strict=True):
        by = update.loss_scale * {"mean": device.weight or 1, "mean_of_means": each}.get(update.reduction, 1)
        norms.append((old.norm / by, new.norm / by))
    over = sum(old > new * (1 + 1e-5) for old, new in norms)
    text = f"Every device clips its own gradient before they meet: {over} of {len(norms)} were over the limit."
    if not over:
        text = f"Nothing changed: no device's own gradient is over the limit {settings.clip_threshold:g}."
    formula = formulas.clip_of_devices(update, settings, norms)
    return Stage("clip_device", f"clip ({settings.clip}), each device", *formula, text, before, after)


def _reduce_microbatches(update: Update, settings: Settings, before: list[Vector]) -> Stage:
    after, unit = _of_devices(update, "reduce_microbatches"), update.unit
    weights = sorted(m.weight for m in update.microbatches)
    all_together, pieces, filled = sum(weights), len(weights) // len(update.devices), sum(w > 0 for w in weights)
    text = {
        "mean": f"One division by all {plural(int(all_together), unit)} gives the gradient of the mean loss",
        "sum": f"sum divides by nothing: this is {all_together:,g} times the gradient of the mean loss",
        "mean_of_means": f"The means are divided by their number, {pieces}, so all microbatches count the same",
        "sum_of_means": f"The means are added and never divided: about {filled} times too long",
    }[update.reduction]
    if update.reduction == "mean_of_means":
        even = weights[0] == weights[-1]
        text += ", as they should" if even else f", though they hold {weights[0]:g} to {weights[-1]:g} {unit}s"
    text += "."
    if len(after) > 1:
        text = f"What each device's own gradient is, by {update.reduction}."
        if update.device_reduction == "global":
            text += " Only to look at: global goes on from the totals, so that it divides once, by all."
    return Stage(
        "reduce_microbatches",
        "reduce over microbatches",
        *formulas.reduction_of_microbatches(update),
        text,
        before,
        after,
    )


def _reduce_devices(update: Update, settings: Settings, before: list[Vector]) -> Stage:
    after, how = _of_devices(update, "reduce_devices"), update.device_reduction
    weights = sorted(device.weight for device in update.devices)
    text = {
        "global": "Totals and weights of all devices are added, then divided once, as if one device had seen them all.",
        "mean": "The devices' own gradients are averaged, so each device counts the same",
        "sum": f"The devices' own gradients are added and not divided: about {len(before)} times too long.",
        "none": "Forgotten: every device keeps its own gradient, and they drift apart. From here on this is device 1.",
    }[how]
    if how == "mean":
        even = weights[0] == weights[-1]
        text += ", as it should." if even else f", though they hold {weights[0]:g} to {weights[-1]:g} {update.unit}s."
    elif how != "none" and (turn := _turn(update, "reduce_devices")):
        text += f" From device 1's own gradient {turn}."
    return Stage("reduce_devices", "reduce over devices", *formulas.reduction_of_devices(update), text, before, after)


def _unscale(update: Update, settings: Settings, before: list[Vector]) -> Stage:
    after, scale = _of_devices(update, "unscale"), scale_text(update.loss_scale)
    text = f"The loss scale {scale} is divided out again; the direction is kept."
    if settings.clip != "none" and settings.clip_at == "scaled":
        text += " Too late: the clip has seen the gradient with it."
    formula = formulas.unscaling(update, before[0], after[0])
    return Stage("unscale", "unscale", *formula, text, before, after)


def _clip(update: Update, settings: Settings, before: list[Vector]) -> Stage:
    after, limit = _of_devices(update, "clip"), f"{settings.clip_threshold:g}"
    old, new = before[0], after[0]
    if _same(old, new):
        text = {
            "global_norm": f"the norm {number(old.norm)} is not above the threshold {limit}",
            "value": f"no coordinate is beyond ±{limit}",
            "per_tensor": f"no tensor is longer than the threshold {limit}",
            "adaptive": f"no unit's gradient is longer than {limit} times its weights",
        }[settings.clip]
        text = f"Nothing changed: {text}."
    else:
        beyond = int((np.abs(old.values) > settings.clip_threshold).sum())
        of_all = f" ({beyond} of {len(old.values)})" if update.complete else ""
        text = {
            "global_norm": f"The gradient is longer than the threshold {limit} and is shortened to it",
            "value": f"Coordinates beyond ±{limit}{of_all} are cut to it",
            "per_tensor": f"A tensor longer than the threshold {limit} is shortened to it, each by itself",
            "adaptive": f"A unit's gradient longer than {limit} times its weights is shortened to that",
        }[settings.clip]
        text += f": the norm goes from {number(old.norm)} to {number(new.norm)}"
        turn = _turn(update, "clip")
        text += f", and {turn}." if turn else "."
    if settings.clip_at == "scaled" and update.loss_scale != 1:
        text += f" It sees the gradient times the loss scale {scale_text(update.loss_scale)}."
    formula = formulas.clip(update, settings, old, new)
    return Stage("clip", f"clip ({settings.clip})", *formula, text, before, after)


def _optimizer(update: Update, settings: Settings, before: list[Vector]) -> Stage:
    after, name = _of_devices(update, "optimizer"), settings.optimizer
    old, new = before[0], after[0]
    text = OPTIMIZERS[name]
    if _same(old, new):
        text += ": nothing changed." if update.count else ", and there is none yet: nothing changed."
        text = text if name != "sgd" else f"{OPTIMIZERS[name]}: nothing changed."
    elif formulas.alone(update):
        text += f": {number(formulas.amount(update, old))} becomes {number(formulas.amount(update, new))}."
    else:
        turn = _turn(update, "optimizer")
        text += f": the norm goes from {number(old.norm)} to {number(new.norm)}" + (f", and {turn}." if turn else ".")
    if name in ("adam", "adamw"):
        text += f" A hat divides by 1 − 0.9ᵗ and 1 − 0.999ᵗ; this is t = {update.count + 1:,}."
    return Stage(
        "optimizer", f"optimizer ({name})", *formulas.optimizer(update, settings, old, new), text, before, after
    )


def _learning_rate(update: Update, settings: Settings, before: list[Vector]) -> Stage:
    after, ahead = _of_devices(update, "learning_rate"), settings.schedule_counts == "microbatches"
    text = f"The rate η is {number(update.learning_rate)}"
    if settings.schedule == "constant":
        text += ", the same at every update"
    else:
        count = update.count * (settings.microbatches if ahead else 1)
        text += f", the {settings.schedule} schedule at count {count:,}; its peak is {number(settings.learning_rate)}"
        if ahead and settings.microbatches > 1:
            text += f". It counts microbatches: updates so far are {update.count:,}"
    text += ". The minus goes downhill." if update.learning_rate else ": nothing can move."
    if update.skipped:
        text = "The gradient is not finite, so this update is skipped: nothing is added, and the loss scale is halved."
    formula = formulas.rate(update, before[0], after[0])
    return Stage("learning_rate", "learning rate", *formula, text, before, after)


def _update(update: Update, settings: Settings, before: list[Vector]) -> Stage:
    old, new, moved = update.params_before, update.stages["update"], update.applied
    what = f"{update.coordinates[0]} goes" if formulas.alone(update) else "the parameters go"
    one = "the parameter" if formulas.alone(update) else "the parameters"
    if update.skipped:
        text = f"Skipped: {one} stay{'s' if formulas.alone(update) else ''} as before."
    elif moved.norm == 0:
        text = f"Nothing changed: what is added to {one} is 0."
    elif _same(old, new) and update.complete:
        text = f"Nothing changed: what is added is too small for {update.param_dtype}, where w + u is w again."
    elif formulas.alone(update):
        text = f"It is added: {what} from {number(old.values[0])} to {number(new.values[0])}."
    else:
        share = f", {percent(moved.norm / old.norm)} of their length {number(old.norm)}" if old.norm else ""
        text = f"It is added: the parameters move by {number(moved.norm)}{share}."
    if len(update.devices) > 1:
        same = update.device_reduction != "none"
        text += " Every device does the same." if same else " The other devices go elsewhere."
    return Stage("update", "update", *formulas.step(update), text, [old], [new])


STAGES: dict[str, Callable[[Update, Settings, list[Vector]], Stage]] = {
    "accumulate": _accumulate, "clip_device": _clip_of_devices, "reduce_microbatches": _reduce_microbatches,
    "reduce_devices": _reduce_devices, "unscale": _unscale, "clip": _clip, "optimizer": _optimizer,
    "learning_rate": _learning_rate, "update": _update,
}  # fmt: skip


def _of_devices(update: Update, name: str) -> list[Vector]:
    """What a stage gave: of every device while they differ, or one vector."""
    own = ("accumulate", "clip_device", "reduce_microbatches")
    if name in own or update.device_reduction == "none":
        return [device.stages[name] for device in update.devices]
    return [update.stages[name]]


def _same(old: Vector, new: Vector) -> bool:
    """Whether nothing changed, as far as float32 can tell."""
    return bool(np.array_equal(old.values, new.values)) and old.norm == new.norm


def _turn(update: Update, name: str) -> str:
    """Whether a stage turned the gradient, and by which angle; nothing where there is no direction."""
    cosine = update.stage_cosines[name]
    if formulas.alone(update) or not np.isfinite(cosine) or cosine == 0:
        return ""
    if abs(cosine) >= KEPT:
        return "the direction is kept" if cosine > 0 else "the direction is reversed"
    return f"the direction turns by {number(float(np.degrees(np.arccos(cosine))))}°"


def _with_break(update: Update, stage: Stage) -> str:
    """The caption, with what is to be said of numbers that are not finite."""
    if all(np.isfinite(vector.norm) for vector in stage.after):
        return stage.caption
    broke, parts = update.broke, ("loss", "backward")
    first = broke is not None and (broke.stage in parts if stage.name == "microbatches" else broke.stage == stage.name)
    if broke is None or not first:
        return "What comes in is not finite, and no operation mends that."
    where = f" in microbatch {broke.microbatch + 1}" if broke.microbatch is not None else ""
    tensor = f", tensor {broke.tensor}" if broke.tensor else ""
    return f"{stage.caption} Here a number is not finite for the first time{where}{tensor}."
