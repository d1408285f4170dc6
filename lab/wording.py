"""Numbers as a person writes them."""

import numpy as np

DURATIONS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "bytes"))


def number(value: float) -> str:
    """Three significant digits, as a person would write them: 0.0183, 12.3, 1.2e-07, 12,300."""
    if not np.isfinite(value):
        return str(value)
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        rounded = float(f"{value:.3g}")
        return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.4g}"
    return f"{value:.1e}"


def percent(share: float) -> str:
    """A share as a percentage with three significant digits."""
    return f"{number(share * 100)} %"


def plural(count: int, word: str) -> str:
    """`1 update`, `2 updates`."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}{'es' if word.endswith('batch') else 's'}"


def unit(value: float, units: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    """The largest of the units that the value reaches, or the smallest of them."""
    return next((pair for pair in units if value >= pair[0]), units[-1])


def duration(seconds: float) -> str:
    """Seconds with a unit: 291 µs."""
    scale, name = unit(seconds, DURATIONS)
    return f"{number(seconds / scale)} {name}"


def size(count: float) -> str:
    """Bytes with a unit: 2.4 MiB."""
    scale, name = unit(count, SIZES)
    return f"{number(count / scale)} {name}"
