"""Settings files: TOML or JSON, with the keys as names."""

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path

from lab.key import SettingsError, require
from lab.settings import Settings, split_words


def read(path: str | Path, words: Iterable[str] = ()) -> Settings:
    """The settings of a file; `words` are laid over it.

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
    return Settings.from_dict({**found, **split_words(words)})


def to_toml(settings: Settings) -> str:
    """The changed keys as a settings file."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.changed().items()]
    return "\n".join([*lines, ""])
