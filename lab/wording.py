"""Numbers as a person writes them."""

import numpy as np


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
