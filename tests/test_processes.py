"""Several processes on this machine: the same run as one process, or one sentence that says why not."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from lab import Settings, SettingsError, compare, fit
from lab.cli import main
from lab.meeting import Team, meet
from lab.record import OF_DEVICES

ROOT = Path(__file__).parents[1]
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from lab.cli import main
sys.exit(main())
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def start(process: int, port: int, *words: str, processes: int = 2) -> subprocess.Popen:
    """`training-lab run` as one of several processes, its output piped."""
    options = ["--coordinator", f"127.0.0.1:{port}", "--processes", str(processes), "--process", str(process)]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "run", *words, *options], cwd=ROOT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip


def ended(process: subprocess.Popen, seconds: float = 60) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a process that ends in time."""
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        process.kill()
    return process.returncode, out, err


def two(*words: str) -> dict:
    """What two processes with two devices each say of a run, as JSON; the second says one line and nothing else."""
    port = free_port()
    started = [start(i, port, "devices=4", "--json", "-", *words) for i in range(2)]
    (status, out, err), second = [ended(process) for process in started]
    assert status == 0 and "4 devices" in err, err
    assert second == (0, "", "training-lab: process 1 of 2 has trained; process 0 tells and writes\n")
    return json.loads(out)


ALONE = ("device_reduction=none", "optimizer=momentum", "microbatches=2")


@pytest.mark.parametrize(("parallel", "more"), [("pmap", ()), ("shard_map", ALONE), ("auto", ())])
def test_two_processes_of_two_devices_are_one_process_of_four(parallel, more):
    words = ("task=linear", "batch_size=250", "steps=20", f"parallel={parallel}", *more)
    told = two(*words)
    run = fit(Settings.from_words([*words, "devices=4"]))
    assert set(told["columns"]) == set(run.record) and set(OF_DEVICES) < set(run.record)
    for name, column in run.record.items():
        np.testing.assert_allclose(told["columns"][name], column, rtol=2e-5, atol=2e-6, err_msg=name)
    for name, column in run.held_out.items():
        np.testing.assert_allclose(told["held_out"][name], column, rtol=2e-5, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(told["final"]["params"], run.final["params"], rtol=2e-5, atol=1e-6)
    assert told["settings"] == run.settings.to_dict() and told["held_out"]["step"] == [0, 16, 20]
    assert (told["columns"]["spread"][-1] > 0.01) == any(told["columns"]["spread"]) == bool(more)


def test_what_broke_is_found_and_compared_runs_are_compared():
    words = ("task=hand", "gradients=1/2/60000/4", "compute_dtype=float16", "loss_scaling=static", "loss_scale=2")
    changes = ("loss_scale=1", "steps=3")
    told = two(*words, "steps=3", "--against", *changes)
    run, compared, loss, parameters = compare(
        Settings.from_words([*words, "devices=4", "steps=3"]), loss_scale=1, steps=3
    )
    assert "microbatch 1 of 1 on device 3" in told["findings"][-1]["text"]
    assert told["columns"]["finite"] == run.record["finite"].tolist() == [False] * 3
    np.testing.assert_allclose(told["compared"]["final"]["params"], compared.final["params"], rtol=2e-5)
    assert [str(x) for x in told["difference"]["loss_absolute"]] == [str(x) for x in loss["loss_absolute"].tolist()]
    assert told["difference"]["parameter_step"] == parameters["step"].tolist()


def test_processes_with_different_settings_all_say_which_before_anything_compiles():
    port, began = free_port(), time.monotonic()
    started = [start(i, port, "devices=2", f"learning_rate=0.{i + 1}") for i in range(2)]
    sentence = "training-lab: learning_rate: process 0 has 0.1 and process 1 has 0.2; start all with the same\n"
    assert [ended(process) for process in started] == [(2, "", sentence)] * 2
    assert time.monotonic() - began < 10


def test_a_process_that_is_interrupted_ends_all():
    port, who = free_port(), 0
    started = [start(i, port, "task=linear", "devices=2", "steps=200000") for i in range(2)]
    time.sleep(5)
    started[who].send_signal(signal.SIGINT)
    statuses = [ended(process, 20) for process in started]
    assert statuses[who] == (130, "", "training-lab: interrupted\n")
    assert statuses[1 - who] == (2, "", f"training-lab: process {who} of 2 has left: interrupted\n")


def test_a_process_that_is_killed_ends_the_others():
    port = free_port()
    first, second = [start(i, port, "task=linear", "devices=2", "steps=200000") for i in range(2)]
    time.sleep(5)
    second.kill()
    assert ended(first, 20) == (
        2, "", "training-lab: process 1 of 2 has left before the end; see what it says, start all again\n",
    )  # fmt: skip
    ended(second)


def team(process: int, processes: int = 2, port: int = 0, wait: float = 5.0) -> Team:
    return Team("127.0.0.1", port, processes, process, wait)


def met(*terms: dict, wait: float = 5.0) -> list:
    """What the meeting of so many processes comes to for each: a meeting or a refusal."""
    port = free_port()

    def one(process: int):
        try:
            return meet(team(process, len(terms), port, wait), terms[process])
        except SettingsError as refusal:
            return str(refusal)

    with ThreadPoolExecutor(len(terms)) as pool:
        return list(pool.map(one, range(len(terms))))


def test_processes_that_agree_meet():
    meetings = met({"a": "1"}, {"a": "1"}, {"a": "1"})
    assert [sorted(meeting.peers) for meeting in meetings] == [[1, 2], [0], [0]]
    for meeting in meetings:
        meeting.close()


def test_all_hear_of_a_disagreement_between_two():
    (sentence,) = set(met({"a": "1", "b": "x"}, {"a": "1", "b": "x"}, {"a": "1", "b": "y"}))
    assert sentence == "b: process 0 has x and process 2 has y; start all with the same"


def test_who_leaves_is_heard_and_who_is_done_is_not():
    meetings = met({}, {}, {})
    heard, left = [], threading.Event()
    meetings[0].watch(lambda text: (heard.append(text), left.set()))
    meetings[1].tell("done")
    meetings[1].close()
    meetings[2].close()
    assert left.wait(5)
    meetings[0].see_off(5)
    meetings[0].close()
    assert heard == ["process 2 of 3 has left before the end; see what it says, start all again"]


def refused(team: Team, terms: dict | None = None) -> str:
    with pytest.raises(SettingsError) as refusal:
        meet(team, terms or {})
    return str(refusal.value)


def test_a_process_that_does_not_come_is_waited_for_so_long_and_named():
    began = time.monotonic()
    sentence = refused(team(0, 3, free_port(), 0.5))
    assert sentence.startswith("process 1 and 2 of 3 have not come to 127.0.0.1:")
    assert "within 0.5 seconds; start them with the same command, or give more time with --wait" in sentence
    assert 0.4 < time.monotonic() - began < 3


def test_a_first_process_that_cannot_be_reached_is_waited_for_so_long(capsys):
    port, began = free_port(), time.monotonic()
    words = ["run", "devices=2", "--coordinator", f"127.0.0.1:{port}", "--processes", "2", "--process", "1"]
    assert main([*words, "--wait", "0.5"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"--coordinator 127.0.0.1:{port}: process 0 could not be reached for 0.5 seconds (Connection" in line
    assert "start it with the same command and --process 0, check the address, or give more time with --wait" in line
    assert 0.4 < time.monotonic() - began < 3


def test_a_port_in_use_is_refused_at_once():
    with socket.create_server(("127.0.0.1", 0)) as server:
        sentence = refused(team(0, 2, server.getsockname()[1], 30))
    assert "process 0 cannot listen there (Address already in use); give another port" in sentence


def test_a_stranger_is_neither_counted_nor_believed():
    port = free_port()
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(meet, team(0, 2, port), {"a": "1"})
        while True:
            try:
                stranger = socket.create_connection(("127.0.0.1", port), 5)
                break
            except OSError:
                time.sleep(0.05)
        stranger.sendall(b"GET / HTTP/1.1\n")
        meetings = meet(team(1, 2, port), {"a": "1"}), waiting.result()
        assert [list(meeting.peers) for meeting in meetings] == [[0], [1]]
        for meeting in (*meetings, stranger):
            meeting.close()
        with socket.create_server(("127.0.0.1", 0)) as server:
            asked = pool.submit(refused, team(1, 2, server.getsockname()[1]))
            connection, _ = server.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n")
            assert "what answers there is not process 0 of this run" in asked.result()
            connection.close()


def test_two_processes_cannot_have_one_number():
    port = free_port()
    with ThreadPoolExecutor(3) as pool:
        pool.submit(refused, team(0, 3, port, 3))
        first = pool.submit(refused, team(1, 3, port))
        time.sleep(0.5)
        second = refused(team(1, 3, port))
        assert second == "--process 1: another has this number; give each of the 3 its own"
        assert "process 2 of 3 has not come" in first.result()


def test_another_number_of_processes_is_said_to_the_one_that_has_it():
    port = free_port()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(refused, team(0, 2, port, 2))
        sentence = refused(team(2, 3, port))
        assert sentence == "--processes: process 0 has 2 and process 2 has 3; start all with the same"
        assert "process 1 of 2 has not come" in waiting.result()


HERE = "--coordinator 127.0.0.1:8600"


@pytest.mark.parametrize(
    ("options", "piece"),
    [
        (HERE, "--processes and --process: left out; several processes need"),
        ("--processes 2 --process 0", "--coordinator: left out"),
        ("--wait 3", "--coordinator and --processes and --process: left out"),
        (f"{HERE} --processes 0 --process 0", "--processes 0: must be 1 to 8"),
        (f"{HERE} --processes 9 --process 0", "--processes 9: must be 1 to 8"),
        (f"{HERE} --processes 2 --process 2", "--process 2: must be 0 to 1"),
        (f"{HERE} --processes 2 --process -1", "--process -1: must be 0 to 1"),
        (f"{HERE} --processes two --process 0", "invalid int value: 'two'"),
        (f"{HERE} --processes 2 --process 0 --wait 0", "--wait 0: must be above 0, at most 3600"),
        (f"{HERE} --processes 2 --process 0 --wait nan", "--wait nan: must be above 0"),
        ("--coordinator here --processes 2 --process 0", "--coordinator here: must be HOST:PORT"),
        ("--coordinator :8600 --processes 2 --process 0", "--coordinator :8600: must be HOST:PORT"),
        ("--coordinator a:0 --processes 2 --process 0", "the port 1 to 65535"),
        ("--coordinator a:65536 --processes 2 --process 0", "the port 1 to 65535"),
        ("--coordinator a:٣ --processes 2 --process 0", "the port 1 to 65535"),
        ("--coordinator http://a:80 --processes 2 --process 0", "must be HOST:PORT"),
        (f"{HERE} --processes 2 --process 1", "devices=1: counts those of all processes, and 2 processes cannot share"),
        (f"{HERE} --processes 2 --process 1 devices=5", "use a multiple of 2, at most 8"),
        (f"{HERE} --processes 2 --process 1 devices=2 --against devices=3", "devices=3: counts those of all"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_refused_at_once_in_one_sentence(capsys, options, piece):
    try:
        status = main(["run", *options.split()])
    except SystemExit as leaving:
        status = leaving.code
    out, err = capsys.readouterr()
    assert status == 2 and out == "" and len(err.splitlines()) == 1 and piece in err


def test_one_process_alone_is_the_plain_run(capsys):
    words = ["run", "task=scalar", "steps=2", "--coordinator", "127.0.0.1:8600", "--processes", "1", "--process", "0"]
    assert main([*words, "--csv", "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_inspect_takes_none_of_the_options():
    with pytest.raises(SystemExit):
        main(["inspect", "--step", "0", "--processes", "2"])
