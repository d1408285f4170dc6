"""A run in one line, for page, report and command line; loads no JAX."""

from lab.key import scale_text
from lab.settings import Settings
from lab.wording import plural


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
