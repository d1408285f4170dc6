"""What the settings of clipping, number formats, devices and the run do now."""

import math
from collections.abc import Callable, Mapping

from app.explain.batch import SIGNIFICANT, weighed
from app.explain.quantities import batch, exact, noun, shares, span, there
from lab.key import scale_text
from lab.settings import Settings, about_key
from lab.wording import number, plural

SMALLEST, LARGEST = 2.0**-24, 65_504
"""Of float16; the others reach beyond 1e38."""


def limit(s: Settings) -> str:
    return exact(s.clip_threshold)


def scale(s: Settings) -> str:
    """The loss scale: 32,768, or 2^-20."""
    return exact(s.loss_scale) if s.loss_scale >= 1 else scale_text(s.loss_scale)


def clip(s: Settings) -> str:
    whose = {"microbatch": "microbatch's gradient", "device": "device's gradient", "scaled": "still scaled gradient"}
    each = f"Every {whose.get(s.clip_at, 'reduced gradient')}"
    return {
        "none": f"Gradients are used at any length in all {plural(s.steps, 'update')}.",
        "global_norm": f"{each} longer than {limit(s)} is shortened to norm {limit(s)}.",
        "value": f"{each} has its coordinates cut off at -{limit(s)} and {limit(s)}.",
        "per_tensor": f"{each} has each tensor longer than {limit(s)} shortened to norm {limit(s)}.",
        "adaptive": f"{each} has each unit's part shortened to {limit(s)} times the norm of that unit's weights.",
    }[s.clip]


def clip_threshold(s: Settings) -> str:
    if s.clip == "adaptive":
        return f"A unit with weights of norm 1 keeps a gradient of norm {limit(s)} at most."
    what = {"value": "coordinate of", "per_tensor": "tensor's gradient of norm"}.get(s.clip, "gradient of norm")
    twice, half = exact(2 * s.clip_threshold), exact(s.clip_threshold / 2)
    return f"A {what} {twice} becomes {limit(s)}; one of {half} stays as it is."


def clip_at(s: Settings) -> str:
    if s.clip_at == "microbatch":
        many = plural(s.devices * s.microbatches, "microbatch gradient")
        return f"{many} an update meet the limit of {limit(s)} before they are added."
    if s.clip_at == "device":
        many = plural(s.devices, "device gradient")
        return f"{many} an update meet the limit of {limit(s)} before the devices are brought together."
    if s.clip_at == "scaled" and s.loss_scaling == "none":
        return f"There is no loss scale, so the limit of {limit(s)} acts as with clip_at=update."
    if s.clip_at == "scaled":
        first = " at first" if s.loss_scaling == "dynamic" else ""
        acts = number(s.clip_threshold / s.loss_scale)
        return f"The clip sees {scale(s)} times the gradient{first}: the limit of {limit(s)} acts as one of {acts}."
    return f"The limit of {limit(s)} meets the gradient once an update, when its reduction is done."


def param_dtype(s: Settings) -> str:
    least = number(2.0 ** -SIGNIFICANT[s.param_dtype])
    return f"A parameter of 1 is not moved up by less than {least}, half the spacing of {s.param_dtype} there."


def compute_dtype(s: Settings) -> str:
    bits = SIGNIFICANT[s.compute_dtype]
    reach = f", vanish below {number(SMALLEST / 2)} and overflow above {LARGEST:,}"
    if s.compute_dtype != "float16":
        reach = " and overflow only above 3.4e+38"
    return f"Activations and gradients keep {bits} significant bits{reach}."


def loss_scaling(s: Settings) -> str:
    return {
        "none": "The backward pass starts from the loss as it is, times 1.",
        "static": f"The loss is multiplied by {scale(s)} before the backward pass, the gradient divided by it after.",
        "dynamic": f"The scale starts at {scale(s)}, halves after an overflow, and doubles after "
        f"{plural(s.growth_interval, 'good update')} in a row.",
    }[s.loss_scaling]


def loss_scale(s: Settings) -> str:
    times = f"The loss is multiplied by {scale(s)} before the backward pass"
    if s.loss_scaling == "dynamic":
        times += " of update 0"
    if s.compute_dtype != "float16":
        return f"{times}, which {s.compute_dtype} has room for and does not need."
    least, most = number(SMALLEST / 2 / s.loss_scale), number(LARGEST / s.loss_scale)
    return f"{times}: gradients between {least} and {most} fit into float16."


def growth_interval(s: Settings) -> str:
    room = math.ceil(math.log2(about_key("loss_scale").high / s.loss_scale))
    times = min(s.steps // s.growth_interval, room)
    return (
        f"{plural(s.growth_interval, 'good update')} in a row double the scale: at most {plural(times, 'time')} in a "
        f"run of {s.steps:,} that overflows nowhere."
    )


def devices(s: Settings) -> str:
    pieces = plural(s.microbatches, "microbatch")
    if s.devices == 1:
        return f"1 device holds all {batch(s)} of an update, in {pieces}."
    return f"Each of {s.devices} devices holds {span(shares(s))} of {batch(s)}, in {pieces}."


def device_reduction(s: Settings) -> str:
    held, of_all = f"{span(shares(s))} {noun(s)}s", weighed(s, f"{s.batch_size:,}")
    right = s.reduction in ("sum", "sum_of_means")
    return {
        "global": f"The sums of {s.devices} devices are added, then divided once by {of_all}."
        if s.reduction == "mean"
        else f"The totals of {s.devices} devices are added and reduced as one batch of {batch(s)}.",
        "mean": f"{s.devices} gradients, one a device from {held}, are added and divided by {s.devices}.",
        "sum": f"{s.devices} gradients, one a device from {held}, are added"
        + (", as sums should be." if right else f" and not divided by {s.devices}."),
        "none": f"Each of {s.devices} devices goes on with the gradient of its own {held}.",
    }[s.device_reduction]


def parallel(s: Settings) -> str:
    held = f"{span(shares(s))} of {batch(s)}"
    return {
        "pmap": f"The program of one device is mapped over {s.devices}, each with {held}.",
        "shard_map": f"The program of one device runs on a mesh of {s.devices}, each with a shard of {held}.",
        "auto": f"One program sees all {batch(s)}, sharded over {s.devices} devices; the compiler divides the work.",
    }[s.parallel]


def epochs(s: Settings) -> float | None:
    """How often the run sees every example."""
    every = there(s)
    return s.steps * s.batch_size / every if every else None


def steps(s: Settings) -> str:
    seen = plural(s.steps * s.batch_size, noun(s))
    often = epochs(s)
    passes = "" if often is None else f", {number(often)} epoch{'' if often == 1 else 's'}"
    return f"{plural(s.steps, 'update')} x {batch(s)} = {seen}{passes}."


def seed(s: Settings) -> str:
    drawn = f"Seed {s.seed:,} draws the first parameters"
    if s.order == "fixed" or s.batch_size == there(s):
        return f"{drawn}; the order of the {noun(s)}s is not drawn."
    often = epochs(s)
    return f"{drawn} and the order of {'every epoch' if often is None else plural(math.ceil(often), 'epoch')}."


SENTENCES: Mapping[str, Callable[[Settings], str]] = {
    "clip": clip, "clip_threshold": clip_threshold, "clip_at": clip_at, "param_dtype": param_dtype,
    "compute_dtype": compute_dtype, "loss_scaling": loss_scaling, "loss_scale": loss_scale,
    "growth_interval": growth_interval, "devices": devices, "device_reduction": device_reduction,
    "parallel": parallel, "steps": steps, "seed": seed,
}  # fmt: skip
