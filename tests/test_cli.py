"""The command: JSON and CSV on standard output and nothing else, one sentence on standard error for bad input."""

import csv
import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lab import Progress, Record, Settings, fit
from lab.bar import bar
from lab.choices import CLIPS, OPTIMIZERS, REDUCTIONS, SCHEDULES, TASKS
from lab.cli import main
from lab.settings import KEYS

ROOT = Path(__file__).parents[1]
COLUMNS = {"step", "loss", "learning_rate", "grad_norm", "clipped_grad_norm", "update_norm", "finite"}


def call(*words: str) -> subprocess.CompletedProcess:
    """A process of its own, its output piped."""
    command = [sys.executable, "-c", "import sys; from lab.cli import main; sys.exit(main())", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)


def refused(capsys, *words: str) -> str:
    """The one sentence that refuses the command; nothing else was written."""
    try:
        status = main(words)
    except SystemExit as leaving:
        status = leaving.code
    out, err = capsys.readouterr()
    assert status == 2 and out == "" and len(err.splitlines()) == 1 and err.startswith("training-lab")
    return err


def test_run_writes_json_and_nothing_but_json():
    done = call("run", "task=scalar", "steps=5", "--json", "-")
    told = json.loads(done.stdout)
    assert done.returncode == 0 and "\r" not in done.stderr and "Traceback" not in done.stderr
    assert {"settings", "columns", "final", "seconds", "findings"} <= set(told) and set(told["columns"]) >= COLUMNS
    assert {len(column) for column in told["columns"].values()} == {5}
    assert told["settings"] == Settings(task="scalar", steps=5).to_dict()


BLACKBOARD = {
    "task=hand gradients=4/2,2,2 microbatches=2 reduction=mean": (10, 2.5, 3, 6, [[4], [10]]),
    "task=scalar": (60, 15, 15, 30, [[10], [60]]),
}


@pytest.mark.parametrize("words", BLACKBOARD)
def test_inspect_writes_the_numbers_of_the_blackboard_and_nothing_but_json(words):
    total, mean, mean_of_means, sum_of_means, running = BLACKBOARD[words]
    done = call("inspect", "--step", "0", *words.split(), "--json", "-")
    told = json.loads(done.stdout)
    assert done.returncode == 0 and "\r" not in done.stderr and told["step"] == 0
    assert {"settings", "agreement", "stages", "update", "findings"} <= set(told)
    assert {name: entry["gradient"] for name, entry in told["reductions"].items()} == {
        "sum": [total], "mean": [mean], "mean_of_means": [mean_of_means], "sum_of_means": [sum_of_means],
    }  # fmt: skip
    assert [entry["running_total"] for entry in told["microbatches"]] == running
    assert told["reference"] == {"gradient": [mean], "norm": mean}


def test_inspect_tells_every_order_of_reduction_and_clip(capsys):
    words = ["task=hand", "gradients=3:4/0:1", "clip=global_norm", "reduction=sum"]
    assert main(["inspect", "--step", "0", *words, "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)["orders"]
    assert [(entry["reduction"], entry["clip_at"]) for entry in told] == [
        (kind, place) for kind in REDUCTIONS for place in ("update", "microbatch")
    ]
    assert [entry["norm"] for entry in told] == pytest.approx([1, 0.9**0.5, 1, 3.6**0.5] * 2, rel=1e-6)
    assert [entry["angle"] for entry in told] == pytest.approx([0, 12.528808] * 4, abs=1e-4)
    assert [entry["used"] for entry in told] == [False, False, True, *[False] * 5]
    assert all(entry["clipped"] for entry in told)
    assert set(told[0]) == {"reduction", "clip_at", "norm", "angle", "relative_error", "clipped", "used"}
    assert main(["inspect", "--step", "0", "task=hand", "gradients=nan/1", "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["orders"]
    assert [(entry["clip_at"], entry["norm"], entry["angle"]) for entry in told] == [(None, "nan", "nan")] * 4


def test_bad_input_leaves_no_traceback_and_status_2():
    done = call("run", "microbatches=0", "--json", "-")
    assert (done.returncode, done.stdout) == (2, "") and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("training-lab: microbatches=0")


def test_json_of_run_agrees_with_fit(capsys):
    assert main(["run", "task=linear", "steps=9", "optimizer=adam", "--json", "-"]) == 0
    out, err = capsys.readouterr()
    told, run = json.loads(out), fit(Settings(task="linear", steps=9, optimizer="adam"))
    for name, column in run.record.items():
        np.testing.assert_array_equal(np.array(told["columns"][name], column.dtype), column)
    np.testing.assert_array_equal(np.float32(told["final"]["params"]), run.final["params"])
    assert told["final"]["loss"] == run.final["loss"] and told["final"]["held_out_loss"] == run.final["held_out_loss"]
    assert set(told["seconds"]) == {"compile", "run", "per_update"} and told["held_out"]["step"] == [0, 9]
    for finding in told["findings"]:
        assert finding["level"] in ("ok", "note", "warning") and finding["text"] in err


def test_json_of_a_run_that_is_not_finite_is_valid(capsys):
    assert main(["run", "task=hand", "gradients=nan/1", "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert told["final"]["params"] == ["nan"] and told["columns"]["finite"] == [False] * 10


def test_csv_on_standard_output_reads_back(capsys):
    assert main(["run", "task=scalar", "steps=6", "--csv", "-"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    record = fit(Settings(task="scalar", steps=6)).record
    assert list(rows[0]) == list(record) and len(rows) == 6
    np.testing.assert_array_equal(np.array([row["loss"] for row in rows], np.float32), record["loss"])


def test_files_are_written_and_standard_output_stays_empty(capsys, tmp_path):
    table, told = tmp_path / "a.csv", tmp_path / "a.json"
    assert main(["run", "task=scalar", "steps=3", "--csv", str(table), "--json", str(told)]) == 0
    assert capsys.readouterr().out == ""
    assert len(table.read_text().splitlines()) == 4 and json.loads(told.read_text())["settings"]["steps"] == 3


def test_one_of_them_may_have_standard_output(capsys, tmp_path):
    assert main(["run", "task=scalar", "steps=3", "--csv", str(tmp_path / "a.csv"), "--json", "-"]) == 0
    json.loads(capsys.readouterr().out)


def test_without_a_file_the_findings_go_to_standard_error(capsys):
    assert main(["run", "task=scalar", "steps=4"]) == 0
    out, err = capsys.readouterr()
    assert (
        out == "" and "scalar · 4 examples = 2 microbatches x 2" in err and "Loss went from" in err and "\r" not in err
    )
    assert main(["inspect", "--step", "0", "task=hand", "reduction=sum"]) == 0
    assert "sum is 4 times" in capsys.readouterr().err


def test_settings_may_stand_on_both_sides_of_an_option(capsys):
    assert main(["run", "task=scalar", "--json", "-", "steps=3"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["steps"] == 3


def test_words_overrule_the_settings_file(capsys, tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('task = "scalar"\nsteps = 4\nmicrobatches = 4\n')
    assert main(["run", "steps=6", "--settings", str(file), "--json", "-"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert (settings["task"], settings["steps"], settings["microbatches"]) == ("scalar", 6, 4)


def test_the_settings_of_a_run_make_the_same_run_again(capsys, tmp_path):
    assert main(["run", "task=linear", "steps=7", "seed=3", "--json", "-"]) == 0
    first = json.loads(capsys.readouterr().out)
    (tmp_path / "again.json").write_text(json.dumps(first["settings"]))
    assert main(["run", "--settings", str(tmp_path / "again.json"), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"] == first["columns"]


@pytest.mark.parametrize("step", ["0", "5", "19"])
def test_inspect_opens_the_update_of_the_whole_run(capsys, step):
    assert main(["inspect", "--step", step, "task=linear", "steps=20", "schedule=cosine", "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    update = fit(Settings(task="linear", steps=20, schedule="cosine")).at(int(step))
    assert told["step"] == int(step) and told["update"]["learning_rate"] == update.learning_rate
    assert told["update"]["applied"] == update.stages["learning_rate"].values.tolist()


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        (["run", "microbatch=8"], "did you mean microbatches?"),
        (["run", "steps"], "settings are written KEY=VALUE"),
        (["run", "steps=0"], "steps=0: must be 1 to 200000"),
        (["run", "steps=1", "steps=2"], "steps is given twice"),
        (["run", "xs="], "xs=: must be numbers"),
        (["run", "task=scalar", "--json", "-", "--csv", "-"], "both cannot go to one place"),
        (["run", "--json", "/no/such/folder/a.json"], "/no/such/folder/a.json: cannot be written"),
        (["run", "--csv", "/no/such/folder/a.csv"], "/no/such/folder/a.csv: cannot be written"),
        (["run", "--csv", "/"], "/: cannot be written"),
        (["run", "--json", "x" * 3000], "cannot be written"),
        (["run", "--json", ""], "cannot be written"),
        (["run", "--json", "a", "--csv", "a"], "both cannot go to one place"),
        (["run", "--settings", ""], "cannot be read"),
        (["run", "--settings", "x" * 3000], "cannot be read"),
        (["inspect", "--step", "0", "--json", "/no/such/folder/a"], "cannot be written"),
        (["run", "--settings", "/no/such/file.toml"], "/no/such/file.toml: cannot be read"),
        (["inspect", "--step", "20", "task=scalar"], "--step 20: must be 0 to 19"),
        (["inspect", "--step", "-1", "task=scalar"], "--step -1: must be 0 to 19"),
        (["inspect", "--step", "two"], "invalid int value: 'two'"),
        (["inspect", "task=scalar"], "--step"),
        (["inspect", "--step", "0", "--csv", "-"], "--csv"),
        (["train"], "invalid choice: 'train'"),
        (["run", "--jsn", "-"], "--jsn"),
        (["run", "task=scalar", "--json"], "expected one argument"),
        (["--port", "x"], "invalid int value: 'x'"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(capsys, words, piece):
    assert piece in refused(capsys, *words)


def test_a_value_with_a_line_break_is_refused_in_one_sentence(capsys):
    assert "steps=" in refused(capsys, "run", "steps=1\n2x")


def test_a_full_disk_is_told_in_one_sentence(capsys, monkeypatch, tmp_path):
    def full(*given, **more):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    assert main(["run", "task=scalar", "steps=2", "--csv", str(tmp_path / "a.csv")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "a.csv: cannot be written (No space left on device)" in line


def test_a_full_standard_output_is_told_in_one_sentence(capsys, monkeypatch):
    def full():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(sys, "stdout", SimpleNamespace(write=lambda text: None, flush=full))
    assert main(["run", "task=scalar", "steps=1", "--csv", "-"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "standard output: cannot be written (No space left on device)" in line


def test_an_interruption_is_told_in_a_word(capsys, monkeypatch):
    def interrupted(*given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("lab.run.fit", interrupted)
    assert main(["run", "task=scalar"]) == 130
    assert capsys.readouterr() == ("", "\ntraining-lab: interrupted\n")


@pytest.mark.parametrize(
    ("words", "served"), [([], (None, True, "")), (["--port", "90", "--no-browser"], (90, False, ""))]
)
def test_the_bare_command_serves_the_page(monkeypatch, words, served):
    page = SimpleNamespace(serve=lambda port, browser, query: 7 if (port, browser, query) == served else 1)
    monkeypatch.setitem(sys.modules, "app.server", page)
    assert main(words) == 7


@pytest.mark.parametrize("columns", [20, 60, 80, 200])
@pytest.mark.parametrize("step", [1, 150, 300])
def test_the_progress_bar_fits_its_terminal(capsys, monkeypatch, columns, step):
    monkeypatch.setenv("COLUMNS", str(columns))
    nothing = Record({"step": np.zeros(0)})
    bar(Progress(step, 300, 0.25, 0.01, 1.5, 2.5, lambda: nothing, lambda: nothing))
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("\r") and err.endswith("\n") == (step == 300)
    assert len(err.strip("\r\n")) < columns
    if columns == 200:
        assert f"update {step}/300  loss 0.25  rate 0.01  1.5 s" in err and err.count("#") == 30 * step // 300


def test_a_reader_that_leaves_is_no_error():
    program = "import sys; from lab.cli import main; sys.exit(main())"
    command = f"{sys.executable} -c '{program}' run task=scalar steps=2000 --csv -"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    piped = f"set -o pipefail; {command} | head -n 1"
    done = subprocess.run(["bash", "-c", piped], capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert done.returncode == 0 and "Traceback" not in done.stderr and done.stdout.startswith("step,")


@pytest.mark.parametrize("command", ["run", "inspect"])
def test_help_names_every_key_with_its_legal_values(capsys, command):
    with pytest.raises(SystemExit) as leaving:
        main([command, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert leaving.value.code == 0
    for name in KEYS:
        assert f" {name} " in text
    for choices in (TASKS, REDUCTIONS, OPTIMIZERS, SCHEDULES, CLIPS):
        assert f"values: {', '.join(choices)}" in text
    for limits in ("1 to 1442", "1 to 1000", "1 to 1024", "1 to 200000", "0 to 2147483647", "above 0, at most 1 "):
        assert limits in text
    assert "--step" in text if command == "inspect" else "--csv" in text


def test_help_of_the_whole_command(capsys):
    with pytest.raises(SystemExit) as leaving:
        main(["--help"])
    assert leaving.value.code == 0 and "{run,inspect,bench}" in capsys.readouterr().out
