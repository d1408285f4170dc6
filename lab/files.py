"""What is read for the command line: settings files, TOML or JSON with the keys as names, and the tables they name."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lab import tables
from lab.key import SettingsError, require
from lab.settings import Settings, split_words


def read(path: str | Path, words: Iterable[str] = ()) -> Settings:
    """The settings of a file; `words` are laid over it. A table it names lies beside it.

    Raises:
        SettingsError: it cannot be read, or holds what settings cannot be.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror}); give a TOML or JSON file") from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: is not valid {path.suffix[1:] or 'TOML'} ({error})") from None
    require(isinstance(found, dict), f"{path}: must hold keys and values, such as microbatches = 8")
    given = with_table(split_words(words))
    return Settings.from_dict({**(found if "table" in given else with_table(found, path.parent)), **given})


def from_words(words: Iterable[str]) -> Settings:
    """The settings of the command line's words."""
    return Settings.from_dict(with_table(split_words(words)))


def with_table(given: Mapping[str, Any], folder: Path = Path()) -> dict[str, Any]:
    """The keys with the fingerprint of the table in place of its file, which is read; a fingerprint stays.

    Raises:
        SettingsError: the file cannot be read, or is no table.
    """
    table = given.get("table")
    if not isinstance(table, str) or not table or tables.find(table):
        return dict(given)
    if tables.is_fingerprint(table) and not (folder / table).exists():
        return dict(given)
    return {**given, "table": tables.read_table(folder / table)}


def to_toml(settings: Settings) -> str:
    """The changed keys as a settings file."""
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in settings.changed().items()]
    return "\n".join([*lines, ""])
