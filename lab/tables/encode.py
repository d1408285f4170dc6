"""A table and its target -> inputs x [n, f] and targets y [n] of the training part and of the rows held out.

Rows without a target are left out, and of the others every fifth is held out. Whatever is measured (means, standard
deviations, categories) is measured on the training part alone.

- A numeric column becomes (value - mean) / standard deviation, 0 where missing, and a column that is 1 where missing,
  if any training row is.
- A text column becomes one column for each of its texts, in order, and one for missing cells if any training row has
  one: 1 where the row says that, else 0. A text that training never saw is 0 in all of them.
- A target that is text, or numeric with at most 20 different values, all of them whole, is sorted into classes. Any
  other is predicted, standardised like a column.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from lab.key import SettingsError, require, shown
from lab.tables.parse import Column, Table, listed, number_of

MOST_CATEGORIES, MOST_CLASSES, MOST_FEATURES, LEAST_ROWS = 50, 20, 1000, 5
FARTHEST = 1e6
"""Standard deviations that a held-out number may lie from the mean of the training part."""


class Encoded(NamedTuple):
    """What a network can learn from.

    Attributes:
        train, held_out: x [n, f] float32; y [n], int32 for classes and float32 for a number, by name.
        features: what each of the f inputs is.
        classes: the names of the classes; empty where a number is predicted.
        notes: what was done, in sentences.
    """

    train: dict[str, np.ndarray]
    held_out: dict[str, np.ndarray]
    features: tuple[str, ...]
    classes: tuple[str, ...]
    notes: tuple[str, ...]


class Part(NamedTuple):
    """The rows that count: where they stand in the file [n], and which of them train [n]."""

    row_numbers: np.ndarray
    training: np.ndarray

    def refusal(self, place: int, column: Column, wrong: str) -> SettingsError:
        """What is wrong with one cell."""
        return SettingsError(f"row {self.row_numbers[place]}, column {column.name}: {wrong}")


@functools.lru_cache(maxsize=4)
def encode(table: Table, target: str) -> Encoded:
    """The table as numbers, in order to predict the column `target`; the empty name is the last column.

    Raises:
        SettingsError: there is nothing to learn, or more than the limits; with the column and the cure.
    """
    aim = table.column(target)
    try:
        return _encode(table, aim)
    except SettingsError as refusal:
        raise SettingsError(f"{table.name}: {refusal}") from None


def _encode(table: Table, aim: Column) -> Encoded:
    kept = ~np.isnan(np.asarray(aim.values))
    require(
        aim.filled >= LEAST_ROWS,
        f"column {aim.name}: is filled in {aim.filled} of {table.rows} rows, and a target must be in at least "
        f"{LEAST_ROWS}; choose another, or add rows",
    )
    part = Part(np.asarray(table.row_numbers)[kept], np.arange(aim.filled) % 5 != 4)
    notes = list(table.notes)
    if aim.filled < table.rows:
        notes.append(f"{table.rows - aim.filled:,} of {table.rows:,} rows have no {aim.name} and are left out.")
    y, classes = _target(aim, np.asarray(aim.values)[kept], part, notes)
    inputs: list[tuple[str, np.ndarray]] = []
    constant, widest = [], ("", 0)
    for column in table.columns:
        if column is aim:
            continue
        values = np.asarray(column.values)[kept]
        found = _numeric(column, values, part) if column.texts is None else _text(column, values, part, notes)
        if found is None:
            continue
        if not found:
            constant.append(column.name)
        widest = max(widest, (column.name, len(found)), key=lambda named: named[1])
        inputs += [(f"{column.name}{what}", values) for what, values in found.items()]
    if constant:
        notes.append(f"The same in every row that trains, and left out: {listed(constant)}.")
    require(bool(inputs), f"no column besides {aim.name} is left to learn from; give one with different values")
    require(
        len(inputs) <= MOST_FEATURES,
        f"its columns become {len(inputs):,} inputs, and at most {MOST_FEATURES:,} can be used; leave out columns of "
        f"many different texts, such as {widest[0]} with {widest[1]}",
    )
    x = np.stack([values.astype(np.float32) for _, values in inputs], axis=1)
    train, held_out = ({"x": x[rows], "y": y[rows]} for rows in (part.training, ~part.training))
    return Encoded(train, held_out, tuple(name for name, _ in inputs), classes, tuple(notes))


def _target(column: Column, values: np.ndarray, part: Part, notes: list[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """y [n] and the names of the classes."""
    different, y = np.unique(values, return_inverse=True)
    if column.texts is None and (len(different) > MOST_CLASSES or (different % 1 != 0).any()):
        require(
            not _same(values[part.training]),
            f"column {column.name}: is the same in every row that trains; choose another target",
        )
        y, mean, deviation = standardised(column, values, part)
        notes.append(
            f"{column.name} is predicted in standard deviations from its mean: {_number(mean)} plus or minus "
            f"{_number(deviation)}; a loss of 1 is that of always saying the mean."
        )
        return y.astype(np.float32), ()
    classes = column.texts or tuple(f"{value + 0.0:.0f}" for value in different)
    if column.texts is not None and len(classes) > MOST_CLASSES:
        _require_text(column, values, part)
    require(
        len(classes) <= MOST_CLASSES,
        f"column {column.name}: has {len(classes):,} different texts, and a target at most {MOST_CLASSES} classes; "
        "choose another target, or merge some",
    )
    trained = np.unique(y[part.training])
    require(
        len(trained) > 1,
        f"column {column.name}: is {shown(classes[trained[0]])} in every row that trains; choose another target, or "
        "add rows of another class",
    )
    unseen = [name for place, name in enumerate(classes) if place not in trained]
    if unseen:
        notes.append(f"No row that trains has the {column.name} {listed(unseen)}, which cannot be learned.")
    notes.append(f"{column.name} has {len(classes)} classes: {listed(classes, MOST_CLASSES)}.")
    return y.astype(np.int32), classes


def _numeric(column: Column, values: np.ndarray, part: Part) -> dict[str, np.ndarray]:
    """The inputs a numeric column becomes, by what is added to its name."""
    missing = np.isnan(values)
    trained = values[part.training & ~missing]
    found = {}
    if len(trained) and not _same(trained):
        found[""] = np.where(missing, 0, standardised(column, values, part)[0])
    return found | _if_missing(missing, part)


def _text(column: Column, values: np.ndarray, part: Part, notes: list[str]) -> dict[str, np.ndarray] | None:
    """The inputs a text column becomes, by what is added to its name; None if it has too many texts."""
    texts, missing = column.texts or (), np.isnan(values)
    trained = np.unique(values[part.training & ~missing])
    if len(trained) > MOST_CATEGORIES:
        _require_text(column, values, part)
        notes.append(
            f"{column.name} has {len(trained):,} different texts, of which at most {MOST_CATEGORIES} can be told "
            "apart, and is left out."
        )
        return None
    found = {f"={texts[int(code)]}": values == code for code in trained} | _if_missing(missing, part)
    if len(found) < 2:
        return {}
    odd = [text for text in texts if number_of(text) is None]
    if len(odd) < len(texts):
        notes.append(f"{column.name} holds numbers and texts, such as {shown(odd[0])}, and is taken as text.")
    unseen = np.isin(values, trained, invert=True) & ~missing
    if unseen.any():
        notes.append(f"{column.name} holds a text that never trained in {unseen.sum():,} of the rows held out.")
    return found


def _if_missing(missing: np.ndarray, part: Part) -> dict[str, np.ndarray]:
    """1 where a column is missing, if it is in some of the rows that train and not in all."""
    return {" missing": missing} if 0 < missing[part.training].sum() < part.training.sum() else {}


def _require_text(column: Column, values: np.ndarray, part: Part):
    """Refuse a column of too many texts if most of them are numbers: then a cell is wrong, or all commas are."""
    texts = column.texts or ()
    numbers = [number_of(text.replace(",", ".")) is not None for text in texts]
    if 2 * sum(numbers) <= len(numbers):
        return
    odd = [code for code, text in enumerate(texts) if number_of(text) is None]
    place = int(np.flatnonzero(np.isin(values, odd))[0])
    wrong = f"{shown(texts[int(values[place])])} is no number, as most of the column is"
    cure = "correct it, or leave the cell empty; decimals have a point"
    raise part.refusal(place, column, f"{wrong}; {cure}")


def standardised(column: Column, values: np.ndarray, part: Part) -> tuple[np.ndarray, float, float]:
    """(values - mean) / standard deviation, and both of them, measured where the column trains and is not missing.

    All is first multiplied by a power of two, which rounds nothing, so that no square leaves float64.
    """
    there = ~np.isnan(values)
    trained = part.training & there
    power = int(np.frexp(np.abs(values[trained]).max())[1])
    with np.errstate(over="ignore"):
        scaled = np.ldexp(values, -power)
        mean, deviation = float(scaled[trained].mean()), float(scaled[trained].std())
        found = (scaled - mean) / deviation
    far = np.flatnonzero(there & (np.abs(found) > FARTHEST))
    if len(far):
        size = f"{values[far[0]]:g} lies more than {FARTHEST:,.0f} standard deviations"
        wrong = f"{size} from the mean of the rows that train"
        raise part.refusal(int(far[0]), column, f"{wrong}; correct it, or leave the cell empty")
    return found, math.ldexp(mean, power), math.ldexp(deviation, power)


def _same(values: np.ndarray) -> bool:
    """Whether all are equal."""
    return bool((values == values[0]).all())


def _number(value: float) -> str:
    """Three digits, or a whole number with commas."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"
