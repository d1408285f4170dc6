"""Settings that must fit each other; what one key alone can be is in its declaration."""

from typing import TYPE_CHECKING

from lab import user_file
from lab.choices import MOST_MICROBATCHES, SAMPLED, WARMED_UP
from lab.key import parse_gradients, parse_numbers, require

if TYPE_CHECKING:
    from lab.settings import Settings


def check(settings: "Settings", everything: int):
    """Refuse settings that cannot stand together.

    Args:
        everything: all examples there are, for a task that uses them all every update.

    Raises:
        SettingsError: they cannot.
    """
    s = settings
    if s.task not in SAMPLED:
        require(
            s.batch_size == everything,
            f"batch_size={s.batch_size}: task={s.task} uses all {everything} examples every update; "
            "leave batch_size out",
        )
    if s.examples:
        what = "rows of the table that train" if s.task == "table" else f"examples of {user_file.name(s.file)}"
        require(
            s.batch_size <= s.examples,
            f"batch_size={s.batch_size}: must be 1 to {s.examples}, the {what}; use fewer",
        )
    if s.task == "scalar":
        xs, ys = len(parse_numbers(s.xs)), len(parse_numbers(s.ys))
        require(ys in (1, xs), f"ys={s.ys}: {ys} targets for {xs} inputs; give one target, or {xs}")
        require(len(parse_numbers(s.w)) == 1, f"w={s.w}: task=scalar has one parameter; give one number")
    if s.task == "hand":
        groups = parse_gradients(s.gradients)
        require(
            len(groups) <= MOST_MICROBATCHES,
            f"gradients: has {len(groups)} groups between slashes; use at most {MOST_MICROBATCHES}",
        )
        size, given = len(groups[0][0]), len(parse_numbers(s.w))
        require(given in (1, size), f"w={s.w}: {given} numbers for {size} coordinates; give one, or one each")
        require(
            len(groups) % s.devices == 0,
            f"devices={s.devices}: gradients has {len(groups)} group(s) between slashes, which {s.devices} devices "
            "cannot share evenly; give as many groups to each",
        )
        each = len(groups) // s.devices
        require(
            s.microbatches == each,
            f"microbatches={s.microbatches}: gradients has {len(groups)} group(s) between slashes"
            + (f" for {s.devices} devices" if s.devices > 1 else "")
            + f"; leave microbatches out, or set it to {each}",
        )
    if s.schedule in WARMED_UP:
        length = min(s.schedule_length, s.steps)
        require(
            s.warmup_steps < length,
            f"warmup_steps={s.warmup_steps}: must be shorter than the {length} updates of the "
            f"{'run' if length == s.steps else 'schedule'}; use at most {length - 1}, or a longer one",
        )
    if s.schedule in ("one_cycle", "piecewise"):
        require(
            s.schedule_length >= 4,
            f"schedule={s.schedule}: needs at least 4 updates for its parts, and has {s.schedule_length}; "
            "raise steps or decay_steps",
        )
