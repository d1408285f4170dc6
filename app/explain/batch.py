"""What the settings of the batch do now."""

from collections.abc import Callable, Mapping

from app.explain.quantities import batch, cut, noun, shares, sizes, span, there
from lab.settings import Settings
from lab.wording import number, plural

SIGNIFICANT = {"float32": 24, "float16": 11, "bfloat16": 8}
"""Bits of the significand of each number format, the leading one included."""
SORTED_BY = {
    "linear": ("target", "lowest"), "points": ("class", "first class"), "digits": ("digit", "lowest"),
    "names": ("length", "shortest"), "table": ("class or number", "lowest"),
}  # fmt: skip
"""What `order=sorted` goes by in each task, and what that puts first."""


def batch_size(s: Settings) -> str:
    every = there(s)
    if every is None:
        return f"Each update sees {batch(s)}."
    if s.batch_size == every:
        return f"Each update sees all there are, {batch(s)}: a whole epoch."
    epoch = number(every / s.batch_size)
    return f"Each update sees {s.batch_size:,} of {plural(every, noun(s))}; {epoch} updates make an epoch."


def microbatches(s: Settings) -> str:
    device = f"{s.devices} devices x {s.microbatches:,} = " if s.devices > 1 else ""
    return f"The batch of {batch(s)} is cut into {device}{cut(sizes(s))}."


def order(s: Settings) -> str:
    every = there(s)
    if s.order == "sorted" and s.task == "file":
        return f"A file says nothing to sort by: batches of {s.batch_size:,} come as with order=shuffled."
    if s.order == "sorted":
        by, first = SORTED_BY[s.task]
        pieces = plural(s.devices * s.microbatches, "microbatch")
        goes = f"dealt to {pieces} in turn" if s.deal == "strided" else f"the {first} in the first of {pieces}"
        return f"Each batch of {s.batch_size:,} is sorted by {by}, {goes}."
    if s.batch_size == every:
        return f"Every batch holds the same {batch(s)}, in the order in which they come."
    if s.order == "fixed":
        return f"Update 0 sees {noun(s)}s 1 to {s.batch_size:,}, update 1 the next, round and round."
    if every is None:
        return f"Batches of {s.batch_size:,} follow an order that is drawn anew every epoch."
    return f"A new order of {plural(every, noun(s))} is drawn every {number(every / s.batch_size)} updates."


def deal(s: Settings) -> str:
    pieces = s.devices * s.microbatches
    if pieces == 1:
        return f"The only microbatch takes all {batch(s)}."
    if s.deal == "contiguous":
        last = f"s 1 to {sizes(s)[0]:,}" if sizes(s)[0] > 1 else " 1"
        return f"The first of {plural(pieces, 'microbatch')} takes {noun(s)}{last} of the batch."
    taken = [f"{place:,}" for place in range(1, s.batch_size + 1, pieces)]
    several, more = "s" if len(taken) > 1 else "", " and so on" if len(taken) > 3 else ""
    return f"The first of {plural(pieces, 'microbatch')} takes {noun(s)}{several} {', '.join(taken[:3])}{more}."


def reduction(s: Settings) -> str:
    alone = s.devices > 1 and s.device_reduction != "global"
    pieces = s.microbatches if alone else s.devices * s.microbatches
    held = weighed(s, f"its own {span(shares(s))}" if alone else f"{s.batch_size:,}")
    before = "On each device " if alone else ""
    several = plural(pieces, "microbatch gradient")
    own = f"each divided by {weighed(s, f'its own {span(sizes(s))}')}"
    sentence = {
        "mean": f"the sum of {several} is divided by {held}.",
        "sum": f"the sum of {several} is used as it is, not divided by {held}.",
        "mean_of_means": f"{several}, {own}, are added and divided by {pieces:,}.",
        "sum_of_means": f"{several}, {own}, are added and not divided by {pieces:,}.",
    }[s.reduction]
    return before + sentence if before else sentence[0].upper() + sentence[1:]


def weighed(s: Settings, how_many: str) -> str:
    """What examples weigh together, in words."""
    of = {"names": "the tokens of ", "file": "the weight of "}.get(s.task, "")
    return f"{of}{how_many} {noun(s)}{'' if how_many in ('1', 'its own 1') else 's'}"


def accumulator_dtype(s: Settings) -> str:
    stops = 2 ** SIGNIFICANT[s.accumulator_dtype]
    return (
        f"Each {'update' if s.devices == 1 else 'device'} adds {plural(s.microbatches, 'microbatch gradient')} in "
        f"{s.accumulator_dtype}, where adding 1 stops at {stops:,}."
    )


SENTENCES: Mapping[str, Callable[[Settings], str]] = {
    "batch_size": batch_size, "microbatches": microbatches, "order": order, "deal": deal, "reduction": reduction,
    "accumulator_dtype": accumulator_dtype,
}  # fmt: skip
