"""task=table: the numbers a network sees, worked out by hand; and what it learns, against closed forms."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lab
from lab import Settings, SettingsError, fit, tables, tasks
from lab.findings import of_run
from lab.tables.encode import encode
from lab.task import Task

UNKNOWN = "0123456789ab"


def table(*lines: str) -> str:
    return tables.add("\n".join(lines).encode(), "d.csv")


def load(fingerprint: str, **keys) -> Task:
    return tasks.load(Settings(task="table", table=fingerprint, **keys))


HOUSES = (
    "size,heat,town,note,y",
    "1,5,rome,x,1.5",
    "2,,oslo,x,2.5",
    "?,7,,x,3.5",
    "6,9,rome,x,6.5",
    "100,NA,bern,y,9.5",
    "0,0,rome,z,",
    "3,7,oslo,x,7.5",
)
"""The fifth row is held out; the sixth has no target."""


def test_the_numbers_a_network_sees_are_those_worked_out_by_hand():
    task = load(table(*HOUSES))
    size, heat = [1, 2, 6, 3], [5, 7, 9, 7]  # rows that train and are not missing: 1 2 4 7, and 1 3 4 7
    mean, deviation = sum(size) / 4, (sum((x - 3) ** 2 for x in size) / 4) ** 0.5
    assert (mean, deviation) == (3, 3.5**0.5)
    s, h = ([(x - sum(of) / 4) / np.std(of) for x in of] for of in (size, heat))
    want = [
        # size, missing, heat, missing, oslo, rome, no town
        [s[0], 0, h[0], 0, 0, 1, 0],
        [s[1], 0, 0.0, 1, 1, 0, 0],
        [0.0, 1, h[1], 0, 0, 0, 1],
        [s[2], 0, h[2], 0, 0, 1, 0],
        [s[3], 0, h[3], 0, 1, 0, 0],
    ]
    np.testing.assert_allclose(task.train["x"], want, rtol=1e-6, atol=1e-7)
    assert task.held_out is not None
    np.testing.assert_allclose(task.held_out["x"], [[(100 - 3) / deviation, 0, 0, 1, 0, 0, 0]], rtol=1e-6)
    y = np.array([1.5, 2.5, 3.5, 6.5, 7.5])
    np.testing.assert_allclose(task.train["y"], (y - y.mean()) / y.std(), rtol=1e-6)
    np.testing.assert_allclose(task.held_out["y"], [(9.5 - y.mean()) / y.std()], rtol=1e-6)
    assert {array.dtype for array in (*task.train.values(), *task.held_out.values())} == {np.dtype(np.float32)}
    assert encode(tables.get(table(*HOUSES)), "").features == (
        "size", "size missing", "heat", "heat missing", "town=oslo", "town=rome", "town missing",
    )  # fmt: skip


def test_what_was_done_is_told_as_notes():
    run = fit(Settings(task="table", table=table(*HOUSES), steps=2))
    notes = [finding.text for finding in of_run(run) if finding.level == "note"]
    assert "1 of 7 rows have no y and are left out." in notes
    assert "town holds a text that never trained in 1 of the rows held out." in notes
    assert "The same in every row that trains, and left out: note." in notes
    assert any("y is predicted in standard deviations from its mean: 4.3 plus or minus" in text for text in notes)
    assert run.task.notes and not fit(Settings(task="points", steps=1)).task.notes


def test_what_trains_does_not_know_what_is_held_out():
    lines = ["a,b,y", *[f"{i},{'pq'[i % 2]},{i * 0.5}" for i in range(20)]]
    other = [line if i % 5 or not i else "1000,new,-70.5" for i, line in enumerate(lines)]
    one, changed = load(table(*lines)), load(table(*other))
    for name in "xy":
        np.testing.assert_array_equal(one.train[name], changed.train[name])
        assert one.held_out and changed.held_out and (one.held_out[name] != changed.held_out[name]).any()


@pytest.mark.parametrize("scale", [1e-320, 1e-30, 1.0, 1e300])
def test_standardised_numbers_do_not_depend_on_their_unit(scale):
    values = [1.0, 4.0, -2.0, 8.0, 3.0, 5.0] * 2
    task = load(table("a,y", *[f"{value * scale!r},{value % 3}" for value in values]))
    trained = np.delete(values, [4, 9])
    rtol = 1e-6 if scale > 1e-300 else 1e-2  # a number of 1e-320 has three digits
    np.testing.assert_allclose(task.train["x"][:, 0], (trained - trained.mean()) / trained.std(), rtol=rtol, atol=1e-6)


def test_a_target_of_texts_is_sorted_into_classes():
    task = load(table("a,y", *[f"{i},{['wet', 'dry', 'hot'][i % 3]}" for i in range(10)]))
    assert task.train["y"].tolist() == [2, 0, 1, 2, 1, 2, 0, 1] and task.held_out is not None
    assert task.held_out["y"].tolist() == [0, 2] and task.score is not None
    assert task.sizes is not None and task.sizes.tolist() == task.train["y"].tolist()


def least_squares(task: Task, part: dict[str, np.ndarray]) -> float:
    """The mean squared error on a part of the line that fits the training part best."""
    x, y = (task.train[name].astype(np.float64) for name in "xy")
    solution = np.linalg.lstsq(np.column_stack([np.ones(len(x)), x]), y)[0]
    return float(((np.column_stack([np.ones(len(part["x"])), part["x"]]) @ solution - part["y"]) ** 2).mean())


def test_without_hidden_layers_it_is_least_squares():
    keys: dict[str, Any] = dict(task="table", hidden="", optimizer="momentum", learning_rate=0.05, schedule="constant")
    keys["batch_size"] = tables.training_rows("example", "")
    run = fit(Settings(**keys, steps=3000, microbatches=7))
    assert run.final["loss"] == pytest.approx(least_squares(run.task, run.task.train), rel=1e-5)
    assert run.task.held_out is not None
    assert run.final["held_out_loss"] == pytest.approx(least_squares(run.task, run.task.held_out), rel=1e-3)


def test_the_prices_of_the_example_are_learned_better_than_by_a_line():
    task = load("example")
    assert task.held_out is not None
    line = least_squares(task, task.held_out)
    run = fit(Settings(task="table"))
    assert run.final["held_out_loss"] < line < 0.15 and run.final["held_out_loss"] < 0.1
    assert "held_out_accuracy" not in run.final


@pytest.mark.parametrize(("target", "least", "always"), [("garden", 0.8, 0.69), ("district", 0.5, 0.35)])
def test_classes_of_the_example_are_learned(target, least, always):
    run = fit(Settings(task="table", target=target))
    assert run.task.held_out is not None
    commonest = np.bincount(run.task.train["y"]).argmax()
    assert (run.task.held_out["y"] == commonest).mean() < always < least < run.final["held_out_accuracy"]


CUT: dict[str, Callable[[], Settings]] = {
    "number": lambda: Settings(task="table", steps=1),
    "classes": lambda: Settings(task="table", target="district", steps=1),
}


@pytest.mark.parametrize("kind", CUT)
@pytest.mark.parametrize("microbatches", [3, 32])
def test_the_mean_over_microbatches_is_the_gradient_of_the_whole_batch(kind, microbatches):
    settings = CUT[kind]().replace(microbatches=microbatches, batch_size=29)
    assert fit(settings).at(0).agreement.relative_error < 2e-6
    if microbatches == 3:
        assert fit(settings.replace(reduction="mean_of_means")).at(0).agreement.relative_error > 1e-3


@pytest.mark.parametrize(
    "keys", [dict(norm="batch"), dict(norm="layer"), dict(dropout=0.2), dict(order="sorted")], ids=str
)
@pytest.mark.parametrize("target", ["", "garden"])
def test_what_networks_can_do_works_here_too(keys, target):
    run = fit(Settings(task="table", target=target, steps=60, **keys))
    assert run.record["finite"].all() and run.record["loss"][-10:].mean() < 0.8 * run.record["loss"][:3].mean()


def test_a_small_table_has_a_small_batch():
    small = table("a,y", *[f"{i},{i % 2}" for i in range(9)])
    assert Settings(task="table", table=small).batch_size == 8 == tables.training_rows(small, "")
    with pytest.raises(SettingsError, match=r"batch_size=9: must be 1 to 8, the rows of the table that train"):
        Settings(task="table", table=small, batch_size=9)
    assert Settings(task="table").batch_size == 32 == Settings(task="table", table=UNKNOWN).batch_size
    assert fit(Settings(task="table", table=small, steps=2)).record["finite"].all()


def test_the_example_is_what_its_note_says():
    note = tables.FILE.with_suffix(".txt").read_text()
    assert "250 made-up houses" in note and "public domain" in note
    found = tables.get("example")
    assert found.rows == 250 and list(found.kinds) == ["district", "area", "age", "floor", "garden", "price"]
    column = {c.name: np.asarray(c.values) for c in found.columns}
    assert found.columns[0].texts == ("harbour", "hill", "old town", "station")
    rate = np.array([5.2, 4.1, 4.6, 3.2])[column["district"].astype(int)]
    price = column["area"] * rate * np.exp(-column["age"] / 120) + 45 * (column["garden"] == 1)
    off = (column["price"] - price)[~np.isnan(column["price"] - price + column["garden"])]
    assert len(off) > 190 and abs(off.mean()) < 3 and 13 < off.std() < 17


def test_settings_take_an_address_and_give_it_back():
    settings = Settings.from_query({"task": "table", "table": UNKNOWN, "target": "house  price "})
    assert settings.target == "house price"
    assert settings.address() == f"v=1&task=table&table={UNKNOWN}&target=house+price"
    assert Settings.from_query(dict(parse_qsl(settings.address()))) == settings
    with pytest.raises(SettingsError, match=r"table=0123456789ab: .* cannot carry its data; choose the file again"):
        tasks.load(settings)


@given(st.text(max_size=200))
def test_any_name_of_a_column_survives_the_address_and_files(text):
    settings = Settings(task="table", table=UNKNOWN, target=text)
    assert Settings.from_query(dict(parse_qsl(settings.address(), keep_blank_values=True))) == settings
    assert Settings.from_words(settings.words()) == settings


@pytest.mark.parametrize(
    ("keys", "pieces"),
    [
        ({"table": "d.csv"}, ["table=d.csv: must be the fingerprint", "table=FILE", "such as example"]),
        ({"table": "/etc/passwd"}, ["table=/etc/passwd: must be the fingerprint"]),
        ({"table": ""}, ["table=: must be the fingerprint"]),
        ({"table": UNKNOWN.upper()}, ["must be the fingerprint"]),
        ({"table": UNKNOWN, "target": "x" * 201}, ["target=xxx", "at most 200 characters"]),
        ({"target": "prise"}, ["target=prise: example.csv has no such column", "did you mean price?"]),
        ({"batch_size": 200}, ["batch_size=200: must be 1 to 199"]),
        ({"batch_size": 16_001}, ["batch_size=16001: must be 1 to 16000"]),
    ],
)
def test_a_bad_value_is_refused_in_one_sentence(keys, pieces):
    with pytest.raises(SettingsError) as refusal:
        Settings(task="table", **keys)
    assert len(str(refusal.value).splitlines()) == 1
    for piece in pieces:
        assert piece in str(refusal.value)


@pytest.mark.parametrize("name", ["secret.csv", "./secret.csv", "../secret.csv", "file:///secret.csv", "~/secret.csv"])
def test_no_address_makes_the_lab_read_a_file(monkeypatch, tmp_path, name):
    (tmp_path / "secret.csv").write_text("a,b\n" + "1,2\n" * 9)
    monkeypatch.chdir(tmp_path)
    tables.get("example")

    def read(*given, **more):
        pytest.fail("a file was opened")

    for module, function in ((os, "open"), (Path, "open"), (Path, "read_bytes"), (Path, "read_text")):
        monkeypatch.setattr(module, function, read)
    monkeypatch.setattr("builtins.open", read)
    for value in (name, str(tmp_path / "secret.csv")):
        with pytest.raises(SettingsError):
            Settings.from_query({"task": "table", "table": value})
        with pytest.raises(SettingsError):
            Settings(task="table").replace(table=value)


def test_read_table_reads_a_file(tmp_path):
    file = tmp_path / "d.csv"
    file.write_text("a,y\n" + "".join(f"{i},{i % 2}\n" for i in range(10)))
    fingerprint = lab.read_table(file)
    assert fingerprint == lab.read_table(str(file)) and tables.get(fingerprint).name == "d.csv"
    assert fit(Settings(task="table", table=fingerprint, steps=1)).task.examples == 8


@pytest.mark.parametrize("path", ["/no/such/file.csv", "/", "", "a\0b", "x" * 5000])
def test_a_file_that_cannot_be_read_is_refused(path):
    with pytest.raises(SettingsError, match=r": cannot be read \(.*\); give a CSV file$"):
        lab.read_table(path)


def test_a_file_without_end_is_refused():
    with pytest.raises(SettingsError, match="zero: is larger than 5 MB"):
        lab.read_table("/dev/zero")
