"""A finding, and the largest number of a format as a finding says it."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from lab.precision import format_of
from lab.wording import number


class Finding(NamedTuple):
    """One sentence, how much it matters, and the settings that would cure it."""

    level: Literal["ok", "note", "warning"]
    text: str
    cure: Mapping[str, str] = {}


def largest_text(dtype: str) -> str:
    """The largest number of a format: 65,504 for float16."""
    largest = format_of(dtype).largest
    return f"{largest:,.0f}" if largest < 1e6 else number(largest)
