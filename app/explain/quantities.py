"""What settings come to in numbers, and how the sentences say them: the cut of the batch, epochs, exact values."""

import functools
from itertools import groupby

from lab import batches
from lab.choices import SAMPLED
from lab.key import parse_gradients, parse_widths
from lab.settings import Settings, about_key
from lab.wording import plural


def exact(value: float) -> str:
    """A setting as it was chosen: 0.0183, 32,768, 1e-05."""
    return f"{value:,.12g}"


@functools.lru_cache(maxsize=32)
def sizes(settings: Settings) -> tuple[int, ...]:
    """How many examples each microbatch holds, those of the first device first."""
    pieces = settings.devices * settings.microbatches
    groups = None
    if settings.task == "hand":
        groups = tuple(len(group) for group in parse_gradients(settings.gradients))
    layout = batches.deal(settings.batch_size, pieces, groups, settings.deal)
    return tuple(layout.filled.sum(axis=1).tolist())


def cut(counts: tuple[int, ...]) -> str:
    """`8 microbatches of 32`; `8 microbatches, 7 of 32 and one of 26`; `9 microbatches of 1 to 40`."""
    said = plural(len(counts), "microbatch")
    if len(set(counts)) == 1:
        return f"{said} of {counts[0]:,}"
    runs = [(size, len(list(run))) for size, run in groupby(counts)]
    if len(runs) > 3:
        return f"{said} of {span(counts)}"
    parts = [f"{'one' if many == 1 else many} {f'of {size:,}' if size else 'empty'}" for size, many in runs]
    return f"{said}, {', '.join(parts[:-1])} and {parts[-1]}"


def span(counts: tuple[int, ...]) -> str:
    """`32` where all are the same, else `26 to 32`."""
    least, most = min(counts), max(counts)
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"


def shares(settings: Settings) -> tuple[int, ...]:
    """How many examples each device holds."""
    each = settings.microbatches
    counts = sizes(settings)
    return tuple(sum(counts[first : first + each]) for first in range(0, len(counts), each))


def noun(settings: Settings) -> str:
    """What an example is."""
    return "name" if settings.task == "names" else "example"


def batch(settings: Settings) -> str:
    """`256 examples`."""
    return plural(settings.batch_size, noun(settings))


def there(settings: Settings) -> int | None:
    """How many examples there are to train on; None where the user's table or file is not here."""
    if settings.task not in SAMPLED:
        return settings.batch_size
    if settings.task in ("table", "file"):
        return settings.examples
    return int(about_key("batch_size").high_for(settings.task))


def hidden_units(settings: Settings) -> int:
    """Units of all hidden layers together."""
    return sum(parse_widths(settings.hidden))
