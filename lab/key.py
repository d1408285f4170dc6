"""One setting: its default, its limits, how it is read from text, and the words that refuse a bad value."""

import dataclasses
import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any


class SettingsError(ValueError):
    """A setting that cannot be: the message is one sentence with the value, the limit and the cure."""


def require(condition: bool, refusal: str):
    """Raise `SettingsError(refusal)` unless the condition holds."""
    if not condition:
        raise SettingsError(refusal)


def shown(value: Any) -> str:
    """A value as a refusal quotes it: on one line, and cut short where nobody would read on."""
    text = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text_of(value).splitlines()))
    return text if len(text) <= 200 else f"{text[:200]}..."


@dataclasses.dataclass(frozen=True)
class Key:
    """What is known of one setting besides its value.

    `by_task` and `high_by_task` overrule `default` and `high` for the tasks they name. `structure` marks the
    settings that shape the compiled program; all others are numbers fed to it. `used` tells whether anything
    reads the setting under the choices made. A text has a parser and the form it wants, in words; `blanks` lets it
    hold blanks.
    """

    group: str
    help: str
    default: Any
    by_task: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    choices: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    high_by_task: Mapping[str, float] = dataclasses.field(default_factory=dict)
    above: float = -math.inf
    cure: str = ""
    structure: bool = False
    used: Callable[[Any], bool] = lambda settings: True
    parse: Callable[[str], Any] | None = None
    blanks: bool = False
    form: str = ""

    def default_for(self, task: str) -> Any:
        return self.by_task.get(task, self.default)

    def high_for(self, task: str) -> float:
        return self.high_by_task.get(task, self.high)

    def legal(self, task: str) -> str:
        """The legal values in words, such as `1 to 1024` or `mean, sum`."""
        high = self.high_for(task)
        if self.choices:
            return ", ".join(self.choices)
        if self.above > -math.inf:
            return f"above {self.above:g}, at most {high:g}"
        return self.form or f"{self.low:.12g} to {high:.12g}"

    def check(self, name: str, given: Any, task: str, whole: bool) -> Any:
        """`given` as this setting's type and within its limits.

        Raises:
            SettingsError: it is not.
        """
        if self.choices:
            return self._choice(name, text_of(given))
        if self.parse:
            return self._parsed_text(name, given, self.parse)
        return self._number(name, given, task, whole)

    def _choice(self, name: str, value: str) -> str:
        near = difflib.get_close_matches(value.lower(), self.choices, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        require(value in self.choices, f"{name}={shown(value)}: must be one of {', '.join(self.choices)}{hint}")
        return value

    def _parsed_text(self, name: str, given: Any, parse: Callable[[str], Any]) -> str:
        if not isinstance(given, str):
            given = ",".join(map(text_of, given)) if _is_sequence(given) else text_of(given)
        text = (" " if self.blanks else "").join(given.split())
        require(len(text) <= 4000, f"{name}: is {len(text)} characters long; at most 4000 can be typed")
        try:
            parse(text)
        except ValueError as error:
            example = f", such as {self.default}" if self.default else ""
            raise SettingsError(f"{name}={shown(text)}: {error}{example}") from None
        return text

    def _number(self, name: str, given: Any, task: str, whole: bool) -> int | float:
        refusal = f"{name}={shown(given)}: must be {'a whole number' if whole else 'a number'}, {self.legal(task)}"
        try:
            value = math.nan if isinstance(given, bool) else _number_of(given)
        except (TypeError, ValueError, ArithmeticError):
            raise SettingsError(refusal) from None
        require(not math.isnan(value) and not (whole and value % 1), refusal)
        require(
            self.low <= value <= self.high_for(task) and value > self.above,
            f"{name}={shown(given)}: must be {self.legal(task)}" + (f"; {self.cure}" if self.cure else ""),
        )
        return int(value) if whole else value


def _number_of(given: Any) -> float:
    """A number, or the text of one; `2^15` is a text too."""
    base, power, exponent = given.partition("^") if isinstance(given, str) else (given, "", "")
    return float(float(base) ** float(exponent)) if power else float(base)


def text_of(value: Any) -> str:
    """A value as it is typed: 0.01, 64, mean."""
    if isinstance(value, float):
        short = f"{value:.12g}"
        return short if float(short) == value or value != value else repr(value)
    try:
        return str(value)
    except ValueError:
        return "a number of thousands of digits"


def scale_text(scale: float) -> str:
    """A loss scale as people write it: 1, 2^15, 1000."""
    power = math.log2(scale)
    return f"2^{power:.0f}" if power == round(power) and power not in (0, 1) else f"{scale:g}"


def _is_sequence(value: Any) -> bool:
    """Whether it can be gone through; an array without axes says it can, and cannot."""
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) > 0


def _float32(word: str) -> float:
    """The number a word says, if float32 can hold it; nan and inf are numbers here."""
    value = float(word)
    if (abs(value) > 3.4028234e38 and "inf" not in word.lower()) or 0 < abs(value) < 1.1754944e-38:
        raise OverflowError
    return value


def parse_numbers(text: str) -> tuple[float, ...]:
    """`1,2,nan` -> (1.0, 2.0, nan)."""
    try:
        return tuple(_float32(word) for word in text.split(","))
    except OverflowError:
        raise ValueError("must be 0 or from 1.2e-38 to 3.4e38 in size, the range of float32") from None
    except ValueError:
        raise ValueError("must be numbers with commas between them") from None


def parse_gradients(text: str) -> tuple[tuple[tuple[float, ...], ...], ...]:
    """`2:0/0:2,1:1` -> groups of examples of vectors: (((2, 0),), ((0, 2), (1, 1)))."""
    try:
        groups = tuple(
            tuple(tuple(_float32(word) for word in example.split(":")) for example in group.split(","))
            for group in text.split("/")
        )
    except OverflowError:
        raise ValueError("must be 0 or from 1.2e-38 to 3.4e38 in size, the range of float32") from None
    except ValueError:
        raise ValueError("must be numbers with , / or : between them") from None
    if len({len(example) for group in groups for example in group}) > 1:
        raise ValueError("every example needs the same number of coordinates")
    return groups


def parse_file(text: str) -> str:
    """The fingerprint of a file that was loaded, or the empty text."""
    if text and (len(text) != 12 or set(text) - set("0123456789abcdef")):
        raise ValueError("must be the fingerprint of a loaded file; training-lab --task my_task.py loads one")
    return text


def parse_widths(text: str) -> tuple[int, ...]:
    """`64,64` -> (64, 64); the empty text is no hidden layer."""
    try:
        widths = tuple(int(word) for word in text.split(",")) if text else ()
    except ValueError:
        raise ValueError("must be whole numbers with commas between them") from None
    if len(widths) > 4 or any(not 1 <= width <= 1024 for width in widths):
        raise ValueError("must be at most 4 layers, each 1 to 1024 wide")
    return widths
