"""The command line: what it writes where, and that it refuses anything bad in one sentence with status 2."""

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lab import Progress, Settings, cli, fit
from lab.bar import bar
from lab.settings import KEYS, about_key

ROOT = Path(__file__).parents[1]
COLUMNS = {"step", "loss", "learning_rate", "grad_norm", "clipped_grad_norm", "update_norm", "finite"}
SMALL = ["task=scalar", "steps=3"]


def strictly(text: str):
    def refuse(constant: str):
        raise ValueError(constant)

    return json.loads(text, parse_constant=refuse)


def main(capsys, *arguments: str) -> tuple[str, str]:
    """What a command that succeeds writes to standard output and to standard error."""
    assert cli.main(arguments) == 0
    return capsys.readouterr()


def started(*arguments: str, **how) -> subprocess.CompletedProcess[str]:
    program = "import sys; from lab.cli import main; sys.exit(main())"
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT} | how
    return subprocess.run([sys.executable, "-c", program, *arguments], **how)


def assert_refused(status: object, out: str, err: str):
    assert status == 2 and out == ""
    assert len(err.splitlines()) == 1 and err.endswith("\n") and err.startswith("training-lab")
    assert "Traceback" not in err and len(err) < 5000


@pytest.mark.parametrize("words", [SMALL, ["task=linear", "steps=17"], ["steps=2", "hidden=4"]])
def test_run_writes_nothing_but_json(capsys, words):
    out, err = main(capsys, "run", *words, "--json", "-")
    told = strictly(out)
    assert set(told) >= {"settings", "columns", "final", "seconds", "findings"}
    settings = Settings.from_words(words)
    assert told["settings"] == settings.to_dict()
    assert set(told["columns"]) >= COLUMNS
    assert {len(column) for column in told["columns"].values()} == {settings.steps}
    assert set(told["seconds"]) == {"compile", "run", "per_update"}
    assert all(set(entry) == {"level", "text"} for entry in told["findings"])
    assert all(entry["text"] in err for entry in told["findings"]) and "\r" not in err


@pytest.mark.parametrize(
    ("words", "final"),
    [
        (["task=scalar"], {"loss", "params"}),
        (["task=linear"], {"loss", "params", "held_out_loss"}),
        (["hidden=4"], {"loss", "held_out_loss", "held_out_accuracy"}),
    ],
)
def test_what_a_run_ended_in(capsys, words, final):
    told = strictly(main(capsys, "run", *words, "steps=17", "--json", "-")[0])
    assert set(told["final"]) == final and told["final"]["loss"] == told["columns"]["loss"][-1]
    steps = [0, 16, 17] if "held_out_loss" in final else []
    assert told["held_out"]["step"] == steps and {len(x) for x in told["held_out"].values()} == {len(steps)}


def test_the_numbers_of_a_run_by_hand(capsys):
    told = strictly(main(capsys, "run", *SMALL, "learning_rate=0.125", "--json", "-")[0])
    w = (1 - 15 / 8) ** np.arange(4)  # every update takes 15 w / 8 from w
    np.testing.assert_allclose(told["columns"]["loss"], 7.5 * w[:3] ** 2)
    np.testing.assert_allclose(told["columns"]["grad_norm"], 15 * abs(w[:3]))
    assert told["final"]["params"] == pytest.approx([w[3]]) and told["columns"]["step"] == [0, 1, 2]


def test_csv_on_standard_output_is_what_json_in_a_file_tells(capsys, tmp_path):
    out, _ = main(capsys, "run", *SMALL, "--csv", "-", "--json", str(tmp_path / "a.json"))
    columns = strictly((tmp_path / "a.json").read_text())["columns"]
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 3 and list(rows[0]) == list(columns)
    for name in COLUMNS - {"finite"}:
        assert [float(row[name]) for row in rows] == columns[name]
    assert [row["finite"] == "True" for row in rows] == columns["finite"]


def test_what_is_not_finite_is_a_word_in_json(capsys):
    told = strictly(main(capsys, "run", "task=hand", "gradients=nan/inf", "steps=2", "--json", "-")[0])
    assert told["columns"]["grad_norm"] == ["nan", "nan"] and told["final"]["params"] == ["nan"]
    told = strictly(main(capsys, "inspect", "--step", "0", "task=hand", "gradients=-inf", "--json", "-")[0])
    assert told["reference"] == {"gradient": ["-inf"], "norm": "inf"}


def test_a_run_without_a_file_tells_people_only(capsys):
    out, err = main(capsys, "run", *SMALL)
    assert out == "" and "scalar · 4 examples" in err and "Loss went from 7.5" in err and "\r" not in err


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.toml", 'task = "scalar"\nsteps = 5\nxs = "1,2"\n'), ("a.json", '{"task": "scalar", "steps": 5, "xs": "1,2"}')],
)
def test_words_overrule_a_file_of_settings(capsys, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    out, _ = main(capsys, "run", "--settings", str(tmp_path / name), "steps=7", "--json", "-")
    settings = strictly(out)["settings"]
    assert (settings["task"], settings["steps"], settings["xs"]) == ("scalar", 7, "1,2")


BLACKBOARD = {
    "task=hand gradients=4/2,2,2 microbatches=2 reduction=mean": (10, 2.5, 3, 6, [[4], [10]]),
    "task=scalar": (60, 15, 15, 30, [[10], [60]]),
}


@pytest.mark.parametrize("words", BLACKBOARD)
def test_inspect_gives_the_numbers_of_the_blackboard(words):
    total, mean, mean_of_means, sum_of_means, running = BLACKBOARD[words]
    done = started("inspect", "--step", "0", *words.split(), "--json", "-")
    assert done.returncode == 0 and "\r" not in done.stderr and "Traceback" not in done.stderr
    told = strictly(done.stdout)
    assert {name: entry["gradient"] for name, entry in told["reductions"].items()} == {
        "sum": [total], "mean": [mean], "mean_of_means": [mean_of_means], "sum_of_means": [sum_of_means],
    }  # fmt: skip
    assert [entry["running_total"] for entry in told["microbatches"]] == running
    assert told["reference"] == {"gradient": [mean], "norm": mean} and told["step"] == 0
    assert told["agreement"] == {"relative_error": 0, "cosine": 1}


def test_inspect_opens_the_update_that_a_run_made(capsys):
    words = ["task=linear", "steps=60", "optimizer=momentum", "clip=global_norm"]
    out, err = main(capsys, "inspect", "--step", "37", *words, "--json", "-")
    told, record = strictly(out), fit(Settings.from_words(words)).record
    names = ["accumulate", "reduce_microbatches", "clip", "optimizer", "learning_rate", "update"]
    assert told["step"] == 37 and [stage["name"] for stage in told["stages"]] == names and "update 37" in err
    norms = {stage["name"]: stage["norm"] for stage in told["stages"]}
    assert norms["reduce_microbatches"] == pytest.approx(record["grad_norm"][37], rel=1e-6)
    assert norms["clip"] == pytest.approx(record["clipped_grad_norm"][37], rel=1e-6)
    assert told["update"]["norm"] == pytest.approx(record["update_norm"][37], rel=1e-6)
    assert {"settings", "step", "microbatches", "reductions", "reference", "agreement", "stages", "update",
            "findings"} <= set(told)  # fmt: skip


def test_inspect_without_a_file_tells_the_reductions_to_people(capsys):
    out, err = main(capsys, "inspect", "--step", "0", "task=hand")
    assert out == ""
    for name, norm in (("mean", 2.5), ("sum", 10), ("mean_of_means", 3), ("sum_of_means", 6)):
        assert re.search(rf"^ +{name} +norm {norm:g} ", err, re.MULTILINE)


BAD = """run stepz=3 | run steps=0 | run steps | run =3 | run steps=1 steps=2 | run task=digit | run task=hand w=1,2
run --settings {tmp}/none.toml | run --settings {tmp} | run --settings {tmp}/bad.toml | run --settings {tmp}/bad.json
run task=scalar --json {tmp}/none/a.json | run task=scalar --csv {tmp} | run task=scalar --json {long}
run task=scalar --json - --csv - | run task=scalar --json {tmp}/a --csv {tmp}/a | run task=scalar --json=
run --settings= task=scalar | inspect --step 20 task=scalar | inspect --step -1 task=scalar
inspect --step 0 task=scalar --json {tmp}/none/a | inspect --step 0 steps=1e9 | run steps=1e400 | run learning_rate=nan
run seed=9999999999999 | run clip_threshold=0 | run hidden=x | run task=scalar xs=1e39 | run --settings {long}"""


@pytest.mark.parametrize("line", re.split(r" \| |\n", BAD))
def test_bad_input_is_refused(capsys, tmp_path, line):
    (tmp_path / "bad.toml").write_text("steps 3")
    (tmp_path / "bad.json").write_text("[1]")
    status = cli.main([word.format(tmp=tmp_path, long="x" * 3000) for word in line.split()])
    assert_refused(status, *capsys.readouterr())


@pytest.mark.parametrize(
    "line",
    ["frob", "inspect", "inspect --step", "inspect --step 1.5", "inspect --step one", "run --frob", "run --csv",
     "--port x", "run --step 3"],
)  # fmt: skip
def test_a_bad_command_is_refused(capsys, line):
    with pytest.raises(SystemExit) as end:
        cli.main(line.split())
    assert_refused(end.value.code, *capsys.readouterr())
    assert cli.parser().parse_args(["run", "steps=3"]).words == ["steps=3"]


def test_a_file_that_fills_the_disk_is_refused(capsys, monkeypatch, tmp_path):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    assert_refused(cli.main(["run", *SMALL, "--json", str(tmp_path / "a")]), *capsys.readouterr())


def test_a_full_standard_output_is_refused(capsys, monkeypatch):
    def full():
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stdout", SimpleNamespace(write=lambda text: None, flush=full))
    assert_refused(cli.main(["run", *SMALL, "--csv", "-"]), *capsys.readouterr())


def test_a_reader_that_leaves_early_is_no_error():
    reader = subprocess.Popen([sys.executable, "-c", "pass"], stdin=subprocess.PIPE)
    reader.wait()
    done = started("run", *SMALL, "--json", "-", stdout=reader.stdin)
    assert done.returncode == 0 and "Traceback" not in done.stderr and "Error" not in done.stderr
    assert reader.stdin and reader.stdin.close() is None


def test_an_interruption_is_told_in_a_word(capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("lab.run.fit", interrupted)
    assert cli.main(["run", *SMALL]) == 130
    assert capsys.readouterr() == ("", "\ntraining-lab: interrupted\n")


@pytest.mark.parametrize(("arguments", "served"), [([], (None, True)), (["--port", "90", "--no-browser"], (90, False))])
def test_the_bare_command_serves_the_page(monkeypatch, arguments, served):
    page = SimpleNamespace(serve=lambda port, browser: 7 if (port, browser) == served else 1)
    monkeypatch.setitem(sys.modules, "app.server", page)
    assert cli.main(arguments) == 7


def told_in_help(capsys, command: str) -> dict[str, str]:
    """What `run --help` says of every key."""
    with pytest.raises(SystemExit) as end:
        cli.main([command, "--help"])
    out, err = capsys.readouterr()
    assert end.value.code == 0 and err == "" and max(map(len, out.splitlines())) <= 120
    found = re.findall(r"^    (\w+)\n((?: {8}.*\n?)+)", out, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def test_the_help_of_both_commands_names_the_same_keys(capsys):
    assert told_in_help(capsys, "run") == told_in_help(capsys, "inspect")
    assert set(told_in_help(capsys, "run")) == set(KEYS)


@pytest.mark.parametrize("name", KEYS)
def test_the_help_names_every_key_with_its_legal_values(capsys, name):
    text, about = told_in_help(capsys, "run")[name], about_key(name)
    assert " values: " in text and " default: " in text
    for choice in about.choices:
        assert re.search(rf"values: .*\b{choice}\b.* default:", text)
    if about.low in (0, 1):
        assert re.search(rf"values: {about.low:g} to \d+", text)
    assert all(f"{about.by_task[task]} for {task}" in text for task in about.by_task)


@pytest.mark.parametrize("columns", [20, 60, 80, 200])
@pytest.mark.parametrize("step", [1, 150, 300])
def test_the_progress_bar_fits_its_terminal(capsys, monkeypatch, columns, step):
    monkeypatch.setenv("COLUMNS", str(columns))
    bar(Progress(step, 300, 0.25, 0.01, 1.5, 2.5, lambda: None, lambda: None))  # pyright: ignore[reportArgumentType]
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("\r") and err.endswith("\n") == (step == 300)
    assert len(err.strip("\r\n")) < columns
    if columns == 200:
        assert f"update {step}/300  loss 0.25  rate 0.01  1.5 s" in err
        assert err.count("#") == 30 * step // 300 and err.count(".", 0, err.index("]")) == 30 - 30 * step // 300
