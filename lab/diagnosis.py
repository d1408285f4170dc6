"""Where a run first held a number that is not finite, the likely cause, and one change to try."""

import numpy as np

from lab.findings import Finding, largest_text, number
from lab.key import scale_text
from lab.opened import Break, Update
from lab.precision import format_of
from lab.run import Run
from lab.settings import Settings

PLACES = {
    "before": "in the parameters it started from",
    "loss": "in the loss",
    "backward": "in the backward pass",
    "accumulate": "when the gradient was added to the accumulator",
    "reduce_microbatches": "in the reduction",
    "unscale": "when the loss scale was divided out",
    "clip": "in the clip",
    "clip_device": "when a device's own gradient was clipped",
    "optimizer": "in the optimizer",
    "learning_rate": "when the direction was multiplied by the rate",
    "update": "when the update was added to the parameters",
}


def diagnose(run: Run) -> Finding | None:
    """What broke first, if anything did but an overflow that was skipped; opens the update that did it."""
    record = run.record
    bad = np.flatnonzero(~record["finite"] & ~(record["skipped"] & np.isfinite(record["loss"])))
    if not len(bad):
        return None
    update = run.at(int(bad[0]))
    if update.broke and update.broke.stage == "before" and update.step > 0:
        update = run.at(update.step - 1)
    broke = update.broke
    if broke is None:
        return None
    s = run.settings
    cause, cure = _cause(s, update, broke)
    where = f" of microbatch {broke.microbatch + 1} of {s.microbatches}" if broke.microbatch is not None else ""
    if broke.device or (where and len(update.devices) > 1):
        where += f" on device {broke.device + 1}"
    tensor = f", tensor {broke.tensor}" if broke.tensor else ""
    text = f"First not finite in update {update.step:,}, {PLACES[broke.stage]}{where}{tensor}: {cause}"
    return Finding("warning", text, cure)


def _cause(settings: Settings, update: Update, broke: Break) -> tuple[str, dict[str, str]]:
    """The likely cause, and the change to try; none where the typed numbers themselves are not finite."""
    s = settings
    compute, half = s.compute_dtype, s.compute_dtype != "float32"
    stage = broke.stage
    if not np.isfinite(update.reference.norm) and update.step == 0 and s.task in ("hand", "scalar"):
        return "the numbers typed give a gradient that is not finite, in float64 as well.", {}
    if stage == "before":
        return "the run was given parameters that are not finite.", {}
    if stage == "backward" and half and update.loss_scale > 1:
        text = (
            f"the gradient times the loss scale {scale_text(update.loss_scale)} is beyond {largest_text(compute)}, the "
        )
        text += f"largest {compute}. Let the scale find its own size."
        return text, {"loss_scaling": "dynamic"}
    if update.loss_scale > 1 and stage not in ("loss", "optimizer", "learning_rate", "update"):
        return f"times the loss scale {scale_text(update.loss_scale)} it leaves the range.", {"loss_scale": "1"}
    if stage in ("loss", "backward") and half:
        wider = "bfloat16" if compute == "float16" else "float32"
        return (
            f"a number is beyond {largest_text(compute)}, the largest {compute}. {wider} reaches further.",
            {"compute_dtype": wider},
        )
    if stage == "accumulate" and s.accumulator_dtype != "float32":
        text = f"the running total is beyond {largest_text(s.accumulator_dtype)}, the largest {s.accumulator_dtype}."
        return text, {"accumulator_dtype": "float32"}
    if stage in ("optimizer", "learning_rate", "update") and s.param_dtype != "float32":
        text = f"a number is beyond {largest_text(s.param_dtype)}, the largest {s.param_dtype}."
        seen = update.stages[list(update.stages)[list(update.stages).index("optimizer") - 1]].norm
        if s.optimizer in ("adam", "adamw") and s.param_dtype == "float16" and seen <= format_of("float16").largest:
            text = (
                f"in float16 Adam's epsilon 1e-8 is {float(np.float16(1e-8)):g}, and so is the square of a gradient "
                f"below {number((format_of('float16').smallest / 2) ** 0.5)}; it divides by their sum."
            )
        return text + " Keep float32 parameters.", {"param_dtype": "float32"}
    if update.step == 0:
        return "it is beyond the largest float32 from the start, before any rate is used.", {}
    text = "the parameters have grown until float32 overflows. Take a tenth of the learning rate."
    return text, {"learning_rate": f"{s.learning_rate / 10:.6g}"}
