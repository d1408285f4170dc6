"""What a run tells: CSV that reads back exactly, JSON that is valid, columns of one length."""

import csv
import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lab import Record, Settings, fit
from lab.record import COLUMNS, join, plain, to_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(arrays(np.float32, 5), arrays(np.int32, 5), arrays(np.bool_, 5), arrays(np.float64, 5))
def test_csv_reads_back_exactly(loss, step, finite, wide):
    record = Record({"step": step, "loss": loss, "finite": finite, "wide": wide})
    read = list(csv.DictReader(io.StringIO(record.to_csv())))
    assert len(read) == 5 and list(read[0]) == ["step", "loss", "finite", "wide"]
    np.testing.assert_array_equal(np.array([row["loss"] for row in read], np.float32), loss)
    np.testing.assert_array_equal(np.array([row["wide"] for row in read], np.float64), wide)
    assert [int(row["step"]) for row in read] == step.tolist()
    assert [row["finite"] == "True" for row in read] == finite.tolist()


def test_csv_of_a_run_reads_back_exactly():
    record = fit(Settings(task="scalar", learning_rate=1, steps=60)).record
    read = list(csv.DictReader(io.StringIO(record.to_csv())))
    assert [row["step"] for row in read] == [str(step) for step in range(60)]
    for name in ("loss", "grad_norm", "update_norm"):
        np.testing.assert_array_equal(np.array([row[name] for row in read], np.float32), record[name])


def test_every_column_of_a_run_is_described():
    run = fit(Settings(steps=2, hidden="8"))
    assert set(run.record) | set(run.held_out) <= set(COLUMNS)


@given(JSON)
def test_anything_is_written_as_valid_json(value):
    def refuse(word):
        raise AssertionError(word)

    read = json.loads(to_json(value), parse_constant=refuse)
    assert read == plain(value)


def test_what_is_not_finite_is_a_word():
    value = {
        "a": np.array([1, np.nan, np.inf], np.float32),
        "b": (np.float64(-np.inf), float("nan")),
        3: np.bool_(True),
    }
    assert plain(value) == {"a": [1, "nan", "inf"], "b": ["-inf", "nan"], "3": True}
    assert plain(np.array([[1, 2], [3, 4]], np.int8)) == [[1, 2], [3, 4]] and plain(np.float32(0.5)) == 0.5


def test_float32_survives_json_exactly():
    column = np.random.default_rng(0).standard_normal(200).astype(np.float32)
    np.testing.assert_array_equal(np.array(json.loads(to_json(column)), np.float32), column)


def test_records_join_end_to_end():
    one, two = (
        Record({"a": np.array([1, 2]), "b": np.array([0.5, 1])}),
        Record({"a": np.array([3]), "b": np.array([2.0])}),
    )
    joined = join([one, two])
    assert joined.length == 3 and joined["a"].tolist() == [1, 2, 3] and joined["b"].tolist() == [0.5, 1, 2]
    assert join(iter([one]))["a"].tolist() == [1, 2] and dict(joined).keys() == {"a", "b"} and len(joined) == 2


@pytest.mark.parametrize("columns", [{"a": np.zeros(2), "b": np.zeros(3)}, {}])
def test_columns_of_different_lengths_are_refused(columns):
    with pytest.raises(ValueError, match="a record needs one length"):
        Record(columns)


def test_a_record_keeps_its_columns_to_itself():
    columns = {"a": np.zeros(2)}
    record = Record(columns)
    columns["b"] = np.zeros(3)
    assert list(record) == ["a"]
