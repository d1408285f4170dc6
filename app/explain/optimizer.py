"""What the settings of the optimizer and its schedule do now. The schedules themselves are `lab.schedules`."""

from collections.abc import Callable, Mapping

from app.explain.quantities import exact
from lab.choices import REPEATED, WARMED_UP
from lab.settings import Settings
from lab.wording import number, plural


def rate(value: float) -> str:
    """A rate that was worked out: 0.01 x 0.5 is 0.005."""
    return f"{value:.6g}"


def counts_per_update(s: Settings) -> int:
    return s.microbatches if s.schedule_counts == "microbatches" else 1


def updates(s: Settings, counts: int) -> str:
    """How many updates so many counts of the schedule take."""
    taken = counts / counts_per_update(s)
    return f"{exact(round(taken, 2))} update{'' if taken == 1 else 's'}"


def floor(s: Settings) -> str:
    """The rate at the end of a schedule that has a `final_fraction`."""
    return rate(s.learning_rate * s.final_fraction)


def at_most(s: Settings) -> str:
    """`the rate, at most 0.01,`."""
    return f"the rate, {'' if s.schedule == 'constant' else 'at most '}{exact(s.learning_rate)},"


def optimizer(s: Settings) -> str:
    shrinks = f", and by the rate x {exact(s.weight_decay)} of itself towards 0"
    return {
        "sgd": f"Each update subtracts {at_most(s)} times the gradient.",
        "momentum": f"Each update subtracts {at_most(s)} times a sum of the gradients so far, which keeps 0.9 of "
        "itself an update: a steady gradient counts up to 10 times.",
        "adam": f"Each update moves a parameter by about {at_most(s)} however long the gradient is.",
        "adamw": f"Each update moves a parameter by about {at_most(s)} however long the gradient is{shrinks}.",
        "lion": f"Each update moves a parameter up or down by {at_most(s)} whatever the gradient{shrinks}.",
    }[s.optimizer]


def learning_rate(s: Settings) -> str:
    peak, fall, length = s.learning_rate, s.decay_rate, s.schedule_length
    if peak == 0:
        return f"The rate is 0, so nothing moves in {plural(s.steps, 'update')}."
    start, end, after = exact(peak), floor(s), length
    match s.schedule:
        case "constant":
            return f"The rate is {exact(peak)} in all {plural(s.steps, 'update')}."
        case "exponential" | "staircase":
            end = rate(peak * fall)
        case "piecewise":
            end, after = rate(peak * fall**2), 3 * length // 4
        case "one_cycle":
            start, end = rate(peak / 25), rate(peak / 25 / 1e4)
    climbs = {"one_cycle": int(0.3 * length)}.get(s.schedule, s.warmup_steps if s.schedule in WARMED_UP else 0)
    if s.schedule in WARMED_UP:
        start = "0"
    over = f", peaks at {exact(peak)} after {updates(s, climbs)}" if climbs else ""
    again = {"restarts": ", again and again", "staircase": " and so on"}.get(s.schedule, "")
    ends = "falls to" if s.schedule in (*REPEATED, "exponential") else "ends at"
    late = f"; the run stops after {s.steps:,}" if after / counts_per_update(s) > s.steps else ""
    return f"The rate starts at {start}{over} and {ends} {end} after {updates(s, after)}{again}{late}."


def schedule(s: Settings) -> str:
    peak, fall, end, length = exact(s.learning_rate), exact(s.decay_rate), floor(s), s.schedule_length
    climb = f"A line takes the rate from 0 to {peak} in {updates(s, s.warmup_steps)}"
    rest = length - s.warmup_steps
    match s.schedule:
        case "constant":
            return f"The rate stays at {peak} for {plural(s.steps, 'update')}."
        case "exponential":
            return f"The rate is multiplied by {fall} over every {updates(s, length)}, a little in each."
        case "staircase":
            return f"The rate is multiplied by {fall} at once after every {updates(s, length)}."
        case "piecewise":
            first, second = updates(s, length // 2), updates(s, 3 * length // 4)
            return f"The rate is {peak}, times {fall} from after {first} and once more from after {second}."
        case "warmup_cosine":
            return f"{climb}, and half a cosine wave on to {end} in {updates(s, rest)}."
        case "warmup_linear":
            return f"{climb}, and another on to {end} in {updates(s, rest)}."
        case "warmup_stable_decay":
            tail = max(1, rest // 5)
            stays = f"it stays for {updates(s, rest - tail)}"
            return f"{climb}; {stays}, and another takes it to {end} in {updates(s, tail)}."
        case "one_cycle":
            up, down = int(0.3 * length), int(0.85 * length)
            return (
                f"Lines take the rate from {rate(s.learning_rate / 25)} to {peak} in {updates(s, up)}, back in "
                f"{updates(s, down - up)}, and to {rate(s.learning_rate / 25 / 1e4)} in {updates(s, length - down)}."
            )
        case "restarts":
            times = number(s.steps * counts_per_update(s) / length)
            wave = f"Half a cosine wave takes the rate from {peak} to {end} in {updates(s, length)}"
            return f"{wave}, {times} times in this run."
    line = {"linear": "A line", "polynomial": "A parabola", "cosine": "Half a cosine wave"}[s.schedule]
    return f"{line} takes the rate from {peak} to {end} in {updates(s, length)}."


def weight_decay(s: Settings) -> str:
    share = f"{exact(s.learning_rate)} x {exact(s.weight_decay)} = {rate(s.learning_rate * s.weight_decay)}"
    return f"At the peak rate an update also takes {share} of every parameter away."


def warmup_steps(s: Settings) -> str:
    counted = f"{plural(s.warmup_steps, 'count')}, " if counts_per_update(s) > 1 else ""
    return f"The rate climbs from 0 to {exact(s.learning_rate)} in {counted}{updates(s, s.warmup_steps)}."


def decay_steps(s: Settings) -> str:
    what = {"staircase": "a stair", "restarts": "a cycle"}.get(s.schedule, "the schedule")
    counted = f"{plural(s.schedule_length, 'count')}, " if counts_per_update(s) > 1 else ""
    whole = "" if s.schedule_length == s.steps * counts_per_update(s) else f", and the run {s.steps:,}"
    takes = f"{what} takes {counted}{updates(s, s.schedule_length)}{whole}"
    if s.decay_steps == 0:
        return f"0 stands for {'a quarter of the run' if s.schedule in REPEATED else 'the whole run'}: {takes}."
    return f"{takes[0].upper()}{takes[1:]}."


def decay_rate(s: Settings) -> str:
    length, product = s.schedule_length, f"{exact(s.learning_rate)} x {exact(s.decay_rate)}"
    if s.schedule == "piecewise":
        length //= 2
    return f"After {updates(s, length)} the rate is {product} = {rate(s.learning_rate * s.decay_rate)}."


def final_fraction(s: Settings) -> str:
    product = f"{exact(s.learning_rate)} x {exact(s.final_fraction)}"
    last = "each cycle" if s.schedule in REPEATED else "the schedule"
    return f"After {updates(s, s.schedule_length)} {last} ends at {product} = {floor(s)}."


def schedule_counts(s: Settings) -> str:
    length = plural(s.schedule_length, "count")
    each = plural(counts_per_update(s), "count")
    return f"An update is {each}, so that the schedule's {length} take {updates(s, s.schedule_length)}."


SENTENCES: Mapping[str, Callable[[Settings], str]] = {
    "optimizer": optimizer, "learning_rate": learning_rate, "weight_decay": weight_decay, "schedule": schedule,
    "warmup_steps": warmup_steps, "decay_steps": decay_steps, "decay_rate": decay_rate,
    "final_fraction": final_fraction, "schedule_counts": schedule_counts,
}  # fmt: skip
