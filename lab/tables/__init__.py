"""The user's own data: CSV files that were read, kept in memory and known by the fingerprint of their bytes.

Settings, addresses and links hold a fingerprint and never a path: no address can make the lab read a file.
"""

import hashlib
import re
import threading
from pathlib import Path

from lab.key import SettingsError, shown
from lab.tables.parse import LONGEST_NAME, MOST_BYTES, MOST_ROWS, Table, parse

EXAMPLE = "example"
"""The table that ships; see assets/example.txt."""
FILE = Path(__file__).parents[2] / "assets" / "example.csv"
MOST_TABLES = 12
"""Tables kept at a time, none larger than `MOST_BYTES`; the one that was not used for longest goes first."""

MOST_TRAINING_ROWS = MOST_ROWS - MOST_ROWS // 5

_tables: dict[str, Table] = {}
"""By fingerprint, from the one used longest ago to the latest."""
_lock = threading.Lock()


def add(data: bytes, name: str) -> str:
    """Read the bytes of a CSV file, keep the table, and return its fingerprint.

    Raises:
        SettingsError: it is no table, or too large; with the row, the column and the cure.
    """
    fingerprint = hashlib.sha256(data).hexdigest()[:12]
    if find(fingerprint) is None:
        keep(fingerprint, parse(data, name))
    return fingerprint


def read_table(path: str | Path) -> str:
    """Read a CSV file, keep the table, and return its fingerprint, the value of the setting `table`.

    Raises:
        SettingsError: the file cannot be read, or is no table.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise SettingsError(f"{shown(path)}: cannot be read ({why}); give a CSV file") from None
    return add(data, Path(path).name)


def find(fingerprint: str) -> Table | None:
    """The table of this fingerprint, if it is kept; `example` always is."""
    with _lock:
        if fingerprint in _tables:
            _tables[fingerprint] = _tables.pop(fingerprint)
            return _tables[fingerprint]
    if fingerprint != EXAMPLE:
        return None
    return keep(EXAMPLE, parse(FILE.read_bytes(), FILE.name))


def get(fingerprint: str) -> Table:
    """The table of this fingerprint.

    Raises:
        SettingsError: it is not kept.
    """
    table = find(fingerprint)
    if table is None:
        raise SettingsError(
            f"table={shown(fingerprint)}: settings and links name a table and cannot carry its data; choose the file "
            "again, under Task on the page or with table=FILE on the command line"
        )
    return table


def keep(fingerprint: str, table: Table) -> Table:
    with _lock:
        _tables[fingerprint] = table
        while len(_tables) > MOST_TABLES:
            del _tables[next(iter(_tables))]
    return table


def training_rows(fingerprint: str, target: str) -> int | None:
    """How many rows there are to train on: those with a target, less every fifth. None if the table is not kept.

    Raises:
        SettingsError: the table has no such target.
    """
    table = find(fingerprint)
    if table is None:
        return None
    filled = table.column(target).filled
    return filled - filled // 5


def is_fingerprint(text: str) -> bool:
    """Whether the text is 12 hexadecimal digits."""
    return re.fullmatch("[0-9a-f]{12}", text) is not None


def parse_table(text: str) -> str:
    """The setting `table`."""
    if text != EXAMPLE and not is_fingerprint(text):
        raise ValueError(
            "must be the fingerprint of a file that was read (table=FILE on the command line), or one that ships"
        )
    return text


def parse_target(text: str) -> str:
    """The setting `target`."""
    if len(text) > LONGEST_NAME:
        raise ValueError(f"must be the name of a column, at most {LONGEST_NAME} characters")
    return text
