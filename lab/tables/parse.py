"""The bytes of a CSV file -> a table of numeric and text columns, or one sentence that says what is wrong where.

A column is numeric if every cell that is not missing is a finite number with a decimal point; else it is text. Nothing
is guessed about decimal commas, thousands, dates or units. Rows are counted as a spreadsheet does: the header is row 1.
"""

import csv
import dataclasses
import difflib
import io
import itertools
import math
import re
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lab.key import SettingsError, require, shown

MOST_BYTES, MOST_ROWS, MOST_COLUMNS = 5_000_000, 20_000, 200
LONGEST_NAME = 200
"""Characters in the name of a column."""
DELIMITERS = (",", ";", "\t")
LOOKED_AT = 20
"""Rows that the delimiter is told from."""
MISSING = ("", "na", "n/a", "nan", "+nan", "-nan", "null", "none", "?")
"""Cells that hold nothing, in any case."""


class Column(NamedTuple):
    """One column.

    Attributes:
        name: as in the header, with single blanks.
        values: one a row [n], float64, nan where missing: the number, or the place in `texts`.
        texts: the different texts of a text column, sorted; None for a numeric column.
        filled: how many rows are not missing.
    """

    name: str
    values: "array[float]"
    texts: tuple[str, ...] | None
    filled: int


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """A CSV file that was read.

    Attributes:
        name: of the file.
        columns: in the order of the file.
        row_numbers: where each row [n] stands in the file; blank lines are passed over.
        notes: what was done to read it, in sentences.
    """

    name: str
    columns: tuple[Column, ...]
    row_numbers: "array[int]"
    notes: tuple[str, ...]

    @property
    def rows(self) -> int:
        """How many rows there are below the header, n."""
        return len(self.row_numbers)

    @property
    def kinds(self) -> dict[str, str]:
        """`numeric` or `text`, by column."""
        return {column.name: "numeric" if column.texts is None else "text" for column in self.columns}

    def column(self, target: str) -> Column:
        """The column of this name; the last for the empty name.

        Raises:
            SettingsError: there is none.
        """
        names = [column.name for column in self.columns]
        if not target:
            return self.columns[-1]
        if target not in names:
            near = difflib.get_close_matches(target, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingsError(
                f"target={shown(target)}: {self.name} has no such column; its columns are {listed(names)}{hint}"
            )
        return self.columns[names.index(target)]


def parse(data: bytes, name: str) -> Table:
    """The table in the bytes of a CSV file.

    Raises:
        SettingsError: with the name of the file, the row, the column and the cure.
    """
    name = shown(name)
    try:
        text, notes = decoded(data)
        return _table(name, text, notes)
    except SettingsError as refusal:
        raise SettingsError(f"{name}: {refusal}") from None


def decoded(data: bytes) -> tuple[str, list[str]]:
    """The text, and a note if it is not UTF-8."""
    require(
        len(data) <= MOST_BYTES,
        f"is larger than {MOST_BYTES // 1_000_000} MB, the most a table may have; leave out rows or columns",
    )
    require(not data.startswith(b"PK\x03\x04"), "is a workbook or another zip file; save the sheet as CSV (UTF-8)")
    require(not data.startswith((b"\xff\xfe", b"\xfe\xff")), "is written in UTF-16; save it as CSV in UTF-8")
    lines, nul, _ = data.partition(b"\0")
    line = lines.count(b"\n") + 1
    require(not nul, f"line {line}: holds a NUL, which no text does; save the table as CSV in UTF-8")
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
    try:
        note = f"Line {line} is not UTF-8; the file is read as Windows-1252, and accents may be wrong."
        return data.decode("cp1252"), [note]
    except UnicodeDecodeError:
        raise SettingsError(f"line {line}: is not UTF-8; save the table as CSV in UTF-8") from None


def _table(name: str, text: str, notes: list[str]) -> Table:
    said = re.match(r"sep=(.)\r?\n", text)
    delimiter, before = (said[1], 1) if said else (delimiter_of(text), 0)
    records = _records(text[said.end() :] if said else text, delimiter, before + 1)
    row, header = next(records, (1, []))
    require(bool(header), "is empty; the first row must name the columns")
    names = _names(row, header, notes)
    rows, row_numbers = [], array("l")
    for number, cells in records:
        require(
            len(cells) == len(names),
            f"row {number}: the number of its cells is {len(cells)} and of the columns {len(names)}; give it as many, "
            "and put a cell that holds the delimiter in quotes",
        )
        require(len(rows) < MOST_ROWS, f"row {number}: is one more than {MOST_ROWS:,} rows; leave out some")
        rows.append(cells)
        row_numbers.append(number)
    require(bool(rows), "has no row below the header; add rows")
    columns = zip(names, zip(*rows, strict=True), strict=True)
    return Table(name, tuple(_column(*column, row_numbers) for column in columns), row_numbers, tuple(notes))


def _records(text: str, delimiter: str, first: int) -> Iterator[tuple[int, list[str]]]:
    """Row number, counted from `first`, and cells of every row that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    for number in itertools.count(first):
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            long = f"has a cell of more than {csv.field_size_limit():,} characters; shorten it"
            quote = "has a quote out of place; quotes stand around a whole cell, and a quote inside it is written twice"
            raise SettingsError(f"row {number}: {long if 'limit' in str(error) else quote}") from None
        if len(cells) > 1 or (cells and cells[0].strip()):
            yield number, cells


def delimiter_of(text: str) -> str:
    """The delimiter that cuts the first rows into equally many cells, and into the most; a comma where two do.

    Where none cuts them evenly it is the one that cuts the header into the most.
    """

    def cuts(delimiter: str) -> tuple[bool, int]:
        lengths = []
        try:
            for _, cells in itertools.islice(_records(text, delimiter, 1), LOOKED_AT):
                lengths.append(len(cells))
            even = len(set(lengths)) == 1 and lengths[0] > 1
        except SettingsError:
            even = False
        return even, max(lengths[:1], default=0)

    return max(DELIMITERS, key=cuts)


def _names(row: int, header: Sequence[str], notes: list[str]) -> list[str]:
    """The names of the columns; those without one are called by their place."""
    names = [" ".join(name.split()) for name in header]
    require(
        len(names) > 1,
        f"row {row}: names one column, and a table needs two; put commas, semicolons or tabs between them",
    )
    require(
        len(names) <= MOST_COLUMNS,
        f"row {row}: names {len(names):,} columns, and at most {MOST_COLUMNS} can be read; leave out some",
    )
    require(
        any(number_of(name) is None for name in names if name),
        f"row {row}: holds numbers, and the first row must name the columns; put a row of names above it",
    )
    places: dict[str, int] = {}
    for place, name in enumerate(names, 1):
        if not name:
            names[place - 1] = name = f"column {place}"
            notes.append(f"Column {place} has no name and is called {name}.")
        require(
            len(name) <= LONGEST_NAME,
            f"row {row}, column {place}: a name of {len(name):,} characters; shorten it to {LONGEST_NAME} at most",
        )
        require(
            name not in places,
            f"row {row}: columns {places.get(name)} and {place} are both called {shown(name)}; rename one",
        )
        places[name] = place
    return names


def _column(name: str, cells: Sequence[str], row_numbers: Sequence[int]) -> Column:
    clean = {cell: " ".join(cell.split()) for cell in set(cells)}
    texts = {text for text in clean.values() if text.lower() not in MISSING}
    numbers = {text: number for text in texts if (number := number_of(text)) is not None}
    numeric = len(numbers) == len(texts)
    infinite = {text for text, number in numbers.items() if numeric and math.isinf(number)}
    if infinite:
        place, text = next((i, clean[cell]) for i, cell in enumerate(cells) if clean[cell] in infinite)
        raise SettingsError(
            f"row {row_numbers[place]}, column {name}: {shown(text)} is not a finite number; correct it, or leave the "
            "cell empty"
        )
    different = tuple(sorted(texts))
    read = numbers if numeric else {text: float(place) for place, text in enumerate(different)}
    values = array("d", (read.get(clean[cell], math.nan) for cell in cells))
    filled = sum(clean[cell] in texts for cell in cells)
    return Column(name, values, None if numeric else different, filled)


def number_of(text: str) -> float | None:
    """The number a cell says; None if it is none."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def listed(names: Sequence[str], most: int = 12) -> str:
    """Names with commas between them, cut short where nobody would read on."""
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(shown(name) for name in names[:most]) + rest
