"""What the settings of a task do now."""

import math
from collections.abc import Callable, Mapping

from app.explain.quantities import batch, exact, hidden_units, noun, sizes, span, there
from lab import tables
from lab.choices import SAMPLED
from lab.key import parse_gradients, parse_numbers, parse_widths
from lab.settings import Settings
from lab.wording import number, plural


def task(s: Settings) -> str:
    every = there(s)
    if s.task not in SAMPLED:
        return f"Each of {plural(s.steps, 'update')} sees the whole batch of {batch(s)}."
    if every is None:
        return "The data of this link are not here, so nothing can train."
    return f"{plural(s.steps, 'update')} draw batches of {s.batch_size:,} from {plural(every, noun(s))}."


def errors(s: Settings) -> list[tuple[float, float]]:
    """The input x and the error w x - y of every example of `task=scalar` before the first update."""
    xs, ys, (w,) = parse_numbers(s.xs), parse_numbers(s.ys), parse_numbers(s.w)
    return [(x, w * x - y) for x, y in zip(xs, ys * len(xs) if len(ys) == 1 else ys, strict=True)]


def xs(s: Settings) -> str:
    total = sum(2 * x * error for x, error in errors(s))
    return f"At the first w = {s_w(s)} the gradients 2x(wx − y) of {batch(s)} add up to {number(total)}."


def ys(s: Settings) -> str:
    total = sum(error * error for _, error in errors(s))
    return f"At the first w = {s_w(s)} the losses (wx − y)² of {batch(s)} add up to {number(total)}."


def s_w(s: Settings) -> str:
    return exact(parse_numbers(s.w)[0])


def w(s: Settings) -> str:
    if s.task == "scalar":
        return f"Update 0 starts at w = {s_w(s)}, and {plural(s.steps, 'update')} move it on."
    coordinates, given = len(parse_gradients(s.gradients)[0][0]), parse_numbers(s.w)
    if len(set(given)) == 1:
        return f"{plural(coordinates, 'coordinate')} of w {'starts' if coordinates == 1 else 'start'} at {s_w(s)}."
    return f"{coordinates:,} coordinates of w start at values of their own, the first at {s_w(s)}."


def gradients(s: Settings) -> str:
    typed = [example for group in parse_gradients(s.gradients) for example in group]
    mean = [sum(values) / len(typed) for values in zip(*typed, strict=True)]
    length = math.hypot(*mean)
    return (
        f"{plural(len(typed), 'gradient')} of {plural(len(mean), 'coordinate')} in "
        f"{plural(len(sizes(s)), 'microbatch')} of {span(sizes(s))}; their mean has norm {number(length)}."
    )


def shape(s: Settings) -> str:
    each = int(there(s) or 0) // 2
    lie = {
        "moons": "on each of two half circles that reach into each other",
        "circles": "on each of two circles, of radius 0.5 and 1",
        "spiral": "on each of two arms that wind once around the middle",
    }
    return f"{each} of the points that train lie {lie[s.shape]}."


def noise(s: Settings) -> str:
    if s.task == "points":
        return f"Noise of standard deviation {exact(s.noise)} moves both coordinates of a point off its curve."
    floor = number(s.noise**2)
    return f"Targets have noise of standard deviation {exact(s.noise)}: the true weights would still lose {floor}."


def table(s: Settings) -> str:
    found, training = tables.find(s.table), s.examples
    if found is None or training is None:
        return "The table of this link is not here, so nothing can train."
    return f"{training:,} of its {plural(found.rows, 'row')} train, and every fifth with a target is held out."


def target(s: Settings) -> str:
    found = tables.find(s.table)
    if found is None:
        return "The table of this link is not here, so nothing can be predicted."
    columns = len(found.columns)
    place = found.columns.index(found.column(s.target)) + 1
    return f"Column {place} of {columns} is predicted from the other {columns - 1}."


def hidden(s: Settings) -> str:
    widths = parse_widths(s.hidden)
    if not widths:
        return "0 hidden layers: the model is linear in its inputs."
    layers = f"{plural(len(widths), 'hidden layer')} of {span(widths)}"
    return f"{layers}: every example passes {plural(hidden_units(s), 'hidden unit')}, with relu."


def file(s: Settings) -> str:
    every = there(s)
    if every is None:
        return "No file of this fingerprint was loaded, so nothing can train."
    return f"It has {plural(every, 'example')} to train on, and each update sees {s.batch_size:,}."


def norm(s: Settings) -> str:
    widths = parse_widths(s.hidden)
    if not widths:
        return "There are 0 hidden layers, so there is nothing to normalise."
    if s.norm == "layer":
        return f"The {span(widths)} units of a layer get mean 0 and variance 1 in every example by itself."
    if s.norm == "batch":
        return f"Each unit gets mean 0 and variance 1 over the {span(sizes(s))} examples of its microbatch."
    return f"Nothing is normalised in {plural(len(widths), 'hidden layer')}."


def dropout(s: Settings) -> str:
    units = hidden_units(s)
    if not units:
        return f"There are 0 hidden units to leave out with probability {exact(s.dropout)}."
    if not s.dropout:
        return f"Dropout is 0: all {units:,} hidden units take part in every update."
    zero, factor = number(s.dropout * units), number(1 / (1 - s.dropout))
    share = f"{exact(s.dropout)} x {units:,} = {zero}"
    return f"About {share} hidden units are zero in every example, and the others are multiplied by {factor}."


def dropout_keys(s: Settings) -> str:
    what = "key" if s.task == "file" else "mask"
    if s.dropout_keys == "distinct":
        return f"An update of {batch(s)} draws {plural(s.batch_size, what)}."
    return f"An update of {batch(s)} shares {plural(max(sizes(s)), what)}, the same in every microbatch."


def layers(s: Settings) -> str:
    if not s.layers:
        return "0 blocks: the next character is guessed from the last one and its place alone."
    return f"Every character passes {plural(s.layers, 'block')} that {'looks' if s.layers == 1 else 'look'} back."


def width(s: Settings) -> str:
    return f"Every character is carried as {s.width} numbers, from its embedding to the scores of the next one."


SENTENCES: Mapping[str, Callable[[Settings], str]] = {
    "task": task, "xs": xs, "ys": ys, "gradients": gradients, "w": w, "shape": shape, "noise": noise, "table": table,
    "target": target, "hidden": hidden, "file": file, "norm": norm, "dropout": dropout, "dropout_keys": dropout_keys,
    "layers": layers, "width": width,
}  # fmt: skip
