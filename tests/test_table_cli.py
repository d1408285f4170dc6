"""table=FILE on the command line: the file is read, settings hold its fingerprint, what is wrong is one sentence."""

import json
from pathlib import Path

import pytest

from lab import tables
from lab.cli import main

TABLE = "size,house price\n" + "".join(f"{i},{i * 1.5}\n" for i in range(20))
SHORT = ("task=table", "steps=2")


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "my data.csv"
    path.write_text(TABLE)
    return path


def refused(capsys, *words: str) -> str:
    """The one sentence that refuses the command; nothing else was written."""
    status = main(words)
    out, err = capsys.readouterr()
    assert status == 2 and out == "" and len(err.splitlines()) == 1 and err.startswith("training-lab: ")
    return err


def told(capsys, *words: str) -> dict:
    assert main([*words, "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("command", [["run"], ["inspect", "--step", "0"]])
def test_a_file_becomes_its_fingerprint(capsys, file, command):
    settings = told(capsys, *command, *SHORT, f"table={file}")["settings"]
    assert settings["table"] == tables.add(TABLE.encode(), "again.csv") and settings["target"] == ""


def test_the_notes_are_told(capsys, file):
    file.write_text(f"{TABLE}7,\n")
    assert main(["run", *SHORT, f"table={file}", "target=house price"]) == 0
    assert "note: 1 of 21 rows have no house price and are left out." in capsys.readouterr().err
    findings = told(capsys, "run", *SHORT, f"table={file}")["findings"]
    assert {"level": "note", "text": "1 of 21 rows have no house price and are left out.", "cure": {}} in findings


def test_example_and_a_table_that_was_read_need_no_file(capsys, monkeypatch, tmp_path, file):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "example").write_text("no table")
    assert told(capsys, "run", *SHORT, "table=example")["settings"]["table"] == "example"
    fingerprint = tables.read_table(file)
    assert told(capsys, "run", *SHORT, f"table={fingerprint}")["settings"]["table"] == fingerprint


def test_a_settings_file_names_a_table_beside_it(capsys, monkeypatch, file):
    settings = file.parent / "a.toml"
    settings.write_text('task = "table"\nsteps = 2\ntable = "my data.csv"\ntarget = "size"\n')
    found = told(capsys, "run", "--settings", str(settings))["settings"]
    assert (found["table"], found["target"]) == (tables.read_table(file), "size")
    settings.write_text('task = "table"\nsteps = 2\ntable = "gone.csv"\n')
    assert "gone.csv: cannot be read" in refused(capsys, "run", "--settings", str(settings))
    monkeypatch.chdir(file.parent)
    assert told(capsys, "run", "--settings", str(settings), "table=my data.csv")["settings"]["table"] == found["table"]
    settings.write_text("table = 3\n")
    assert "table=3: must be the fingerprint" in refused(capsys, "run", "--settings", str(settings))


def test_the_other_side_of_a_comparison_reads_it_too(capsys, file):
    words = ["run", *SHORT, f"table={file}", "--against"]
    assert told(capsys, *words, f"table={file}", "reduction=sum")["compared"]["settings"]["reduction"] == "sum"
    assert "table must stay" in refused(capsys, *words, "table=example", "reduction=sum")
    assert "target must stay" in refused(capsys, *words, "target=size")


@pytest.mark.parametrize(
    ("word", "pieces"),
    [
        ("table=/no/such/file.csv", ["/no/such/file.csv: cannot be read (No such file", "give a CSV file"]),
        ("table=/", ["/: cannot be read (Is a directory)", "give a CSV file"]),
        ("table=", ["table=: must be the fingerprint of a file that was read"]),
        ("table=a\nb", ["a b: cannot be read"]),
        ("table=" + "x" * 5000, ["cannot be read"]),
        ("table=0123456789ab", ["table=0123456789ab", "cannot carry its data", "table=FILE"]),
        ("target=prise", ["target=prise: example.csv has no such column", "did you mean price?"]),
        ("target", ["KEY=VALUE"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_one_sentence(capsys, word, pieces):
    sentence = refused(capsys, "run", *SHORT, word)
    for piece in pieces:
        assert piece in sentence


def test_a_file_that_may_not_be_read_is_refused(capsys, monkeypatch, file):
    def forbidden(*given, **more):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", forbidden)
    assert "my data.csv: cannot be read (Permission denied)" in refused(capsys, "run", *SHORT, f"table={file}")


def test_a_damaged_file_is_refused_with_its_row(capsys, file):
    file.write_text(f"{TABLE}1,2,3\n")
    assert "my data.csv: row 22: the number of its cells is 3" in refused(capsys, "run", *SHORT, f"table={file}")
    file.write_text(TABLE.replace("\n1,", "\ninf,"))
    assert "my data.csv: row 3, column size: inf" in refused(capsys, "inspect", "--step", "0", *SHORT, f"table={file}")
