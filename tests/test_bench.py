"""`training-lab bench`: what it measures is chosen in words, and bad words are refused in one sentence."""

import json

import pytest

from lab.cli import main
from lab.grid import FULL, WORK
from lab.loops.compared import NAMES


def test_the_table_goes_to_standard_output_and_progress_to_standard_error(capsys):
    assert main(["bench", "--work", "linear", "--microbatches", "2", "--loops", "ours,bare", "--repeats", "2"]) == 0
    out, err = capsys.readouterr()
    table, summary = out.split("\n\n")
    about, head, *rows = table.splitlines()
    assert "cores" in about and "jax" in about and "time/bare" in head
    assert [row.split()[3] for row in rows] == ["ours", "bare"]
    names, values = (line.split() for line in summary.splitlines())
    assert names == ["work", "devices", "microbatches", "ours/s", "ours/bare"]
    assert values[:4] == ["linear", "1", "2", rows[0].split()[4]] and values[4] == rows[0].split()[6]
    assert err.splitlines() == ["linear, 2 microbatches, 1 device: ours, bare"]


def test_json_alone_on_standard_output(capsys):
    words = ["bench", "--work", "linear", "--microbatches", "1", "--loops", "bare", "--repeats", "2", "--json", "-"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"machine", "rows"} and told["machine"]["cores"] >= 1
    (row,) = told["rows"]
    assert row["loop"] == "bare" and len(row["seconds"]) == 2 and row["to_ours"] is None
    assert row["lower_quartile"] <= row["updates_per_second"] <= row["upper_quartile"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--work", "mnist"], "--work mnist: must be among digits, names"),
        (["--loops", "ours,pytorch"], "--loops pytorch: must be among ours"),
        (["--microbatches", "0"], "microbatches=0: must be 1 to 1024"),
        (["--microbatches", "1,,2"], "microbatches=: must be a whole number"),
        (["--devices", "9"], "devices=9: must be 1 to 8"),
        (["--repeats", "0"], "--repeats 0: must be a whole number from 1 to 101"),
        (["--repeats", "many"], "--repeats many: must be a whole number"),
        (["--work", "linear", "--loops", "torch"], "--loops torch: none of them can do linear on 1 device here"),
        (["--loops", "multisteps", "--devices", "1,2"], "--loops multisteps: none of them can do digits on 2 devices"),
        (["--json", "no/such/folder.json"], "no/such/folder.json: cannot be written"),
        (["steps=3"], "unrecognized arguments: steps=3"),
    ],
)
def test_bad_words_are_refused_in_one_sentence(words, told, capsys):
    try:
        status = main(["bench", *words])
    except SystemExit as ended:
        status = ended.code
    out, err = capsys.readouterr()
    assert status == 2 and out == "" and told in err and err.count("\n") == 1


def test_the_full_grid_is_the_one_that_was_promised():
    assert set(FULL.work) == {"digits", "names", "points-4-2", "points-64-64"} <= set(WORK)
    assert (FULL.microbatches, FULL.devices, FULL.loops) == (("1", "4", "16", "64"), ("1", "4"), tuple(NAMES))
    assert len(FULL.settings()) == 4 * 4 * 2
