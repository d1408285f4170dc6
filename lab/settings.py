"""Settings: legal values for all keys of `lab.keys`, from Python, an address, a command line or a file.

The same keys serve Python (`Settings(microbatches=8)`), the address (`?microbatches=8`), the command line
(`training-lab run microbatches=8`) and a settings file.
"""

import dataclasses
import difflib
import math
import shlex
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from lab import consistency, tables, user_file
from lab.choices import REPEATED
from lab.key import Key, SettingsError, parse_gradients, parse_numbers, require, shown, text_of
from lab.keys import Keys

VOCABULARY = 1
"""Version of the keys and defaults, written into every address as `v`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(Keys):
    """Everything that determines a run. Immutable, hashable, checked when made.

    Keys left out, or None, take the default of the task. Values may come as text, as from an address.

    Raises:
        SettingsError: an unknown key or a value outside its limits.
    """

    def __new__(cls, **given: Any):
        """Refuses an unknown key before the generated `__init__` would."""
        check_names(given)
        return super().__new__(cls)

    def __post_init__(self):
        for name in sorted(KEYS, key=lambda name: name not in FIRST):
            given, field = getattr(self, name), KEYS[name]
            if given is None:
                value = self._default(name)
            else:
                value = about_key(name).check(name, given, text_of(self.task), whole=field.type is int)
            object.__setattr__(self, name, value)
        consistency.check(self, everything=self._default("batch_size"))

    def _default(self, name: str) -> Any:
        if name == "task":
            return about_key(name).default
        if name == "microbatches" and self.task == "hand":
            return max(1, len(parse_gradients(self.gradients)) // self.devices)
        if name == "batch_size" and self.task == "hand":
            return sum(len(group) for group in parse_gradients(self.gradients))
        if name == "batch_size" and self.task == "scalar":
            return len(parse_numbers(self.xs))
        if name == "batch_size":
            return min(about_key(name).default_for(self.task), self.examples or math.inf)
        return about_key(name).default_for(self.task)

    @property
    def examples(self) -> int | None:
        """How many examples the user's own table or file has to train on; None for other tasks, and if not loaded."""
        if self.task == "table":
            return tables.training_rows(self.table, self.target)
        return user_file.examples(self.file) if self.task == "file" else None

    @property
    def schedule_length(self) -> int:
        """Updates from the start of the schedule to its end (of one stair or cycle where it repeats)."""
        whole = max(1, self.steps // 4) if self.schedule in REPEATED else self.steps
        return self.decay_steps or whole

    def replace(self, /, **changes: Any) -> "Settings":
        """These settings with some keys changed; keys at their default follow the defaults of a new task."""
        return Settings.from_dict({**self.changed(), **changes})

    def to_dict(self) -> dict[str, Any]:
        """Every key with its value."""
        return dataclasses.asdict(self)

    def changed(self) -> dict[str, Any]:
        """The keys that differ from the default of this task, `task` itself included when it does."""
        return {name: value for name, value in self.to_dict().items() if value != self._default(name)}

    def structure(self) -> dict[str, Any]:
        """The keys that shape the compiled program; a run that differs only in others compiles nothing."""
        return {name: getattr(self, name) for name in KEYS if about_key(name).structure}

    def used(self) -> list[str]:
        """The keys that matter for the choices made, in order."""
        return [name for name in KEYS if about_key(name).used(self)]

    def unused_changes(self) -> dict[str, Any]:
        """Keys that were changed and that nothing reads under the choices made."""
        used = self.used()
        return {name: value for name, value in self.changed().items() if name not in used}

    def words(self) -> list[str]:
        """`KEY=VALUE` for every changed key: what to type on the command line."""
        return [f"{name}={text_of(value)}" for name, value in self.changed().items()]

    def command(self) -> str:
        """The words as one line for a shell."""
        return shlex.join(self.words())

    def query(self) -> dict[str, str]:
        """The address query that restores these settings."""
        return {"v": str(VOCABULARY), **{name: text_of(value) for name, value in self.changed().items()}}

    def address(self) -> str:
        """The query as it stands in an address, without the question mark."""
        return urlencode(self.query(), safe=",/:")

    @classmethod
    def from_words(cls, words: Iterable[str]) -> "Settings":
        """From `KEY=VALUE` words, as typed on the command line; a key given twice is refused."""
        return cls.from_dict(split_words(words))

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> "Settings":
        """From an address query."""
        return cls.from_dict(query)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Settings":
        """From any mapping; `v`, the version of the vocabulary, may be among the keys.

        Raises:
            SettingsError: also for an unknown key, with the nearest known one, and for another version.
        """
        version = str(given.get("v", VOCABULARY))
        require(
            version == str(VOCABULARY),
            f"v={shown(version)}: this was written for another version of the keys; this lab reads v={VOCABULARY}",
        )
        return cls(**{name: value for name, value in given.items() if name != "v"})


def check_names(given: Mapping[str, Any]):
    """Refuse unknown keys with the nearest known one."""
    for name, value in given.items():
        if name not in KEYS:
            near = difflib.get_close_matches(name, KEYS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(KEYS)}"
            raise SettingsError(f"{shown(name)}={shown(value)}: there is no setting {shown(name)}; {hint}")


def split_words(words: Iterable[str]) -> dict[str, str]:
    """`["steps=10"]` -> `{"steps": "10"}`."""
    given: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        require(bool(name and equals), f"{shown(word)}: settings are written KEY=VALUE, such as microbatches=8")
        require(name not in given, f"{word}: {name} is given twice; keep one of them")
        given[name] = value
    return given


def words_in(text: str) -> list[str]:
    """The `KEY=VALUE` words of a line; quotes hold words with blanks together, as in a shell.

    Raises:
        SettingsError: a quote is left open.
    """
    try:
        return shlex.split(text)
    except ValueError:
        raise SettingsError(f"{shown(text)}: a quote is left open; close it") from None


def about_key(name: str) -> Key:
    """What is known of the setting `name`."""
    return KEYS[name].metadata["key"]


FIRST = ("task", "devices")
"""Settings that the defaults of others follow from."""

KEYS: dict[str, dataclasses.Field] = {field.name: field for field in dataclasses.fields(Settings)}
"""Every setting in the order it is shown."""

GROUPS: tuple[str, ...] = tuple(dict.fromkeys(about_key(name).group for name in KEYS))
