"""Trainings in the background: shared, stopped when nobody looks, and never left half done."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from app import jobs
from lab import Run, Settings, fit

pytestmark = pytest.mark.page
LONG = 200_000


def wait_for(condition, seconds: float = 30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_one_training_serves_all_sessions_and_equals_fit():
    settings = Settings(task="linear", steps=400, seed=41)
    found = [jobs.watch(f"class {i}", settings) for i in range(30)]
    assert len({id(job) for job in found}) == 1
    assert found[0].ended.wait(60)
    assert found[0].run is not None
    alone = fit(settings)
    assert all(np.array_equal(found[0].run.record[name], alone.record[name]) for name in alone.record)
    assert jobs.watch("later", settings) is found[0]


def test_changing_settings_stops_the_training_left_behind():
    left = jobs.watch("one tab", Settings(task="linear", steps=LONG, seed=42))
    wait_for(left.progress)
    began = time.monotonic()
    jobs.watch("one tab", Settings(task="scalar", steps=3))
    assert left.ended.wait(30)
    assert time.monotonic() - began < 5
    assert left.run is None


def test_a_training_goes_on_while_somebody_else_watches():
    settings = Settings(task="linear", steps=LONG, seed=43)
    job = jobs.watch("first", settings)
    jobs.watch("second", settings)
    wait_for(job.progress)
    jobs.leave("first")
    time.sleep(0.3)
    assert not job.ended.is_set()
    jobs.leave("second")
    assert job.ended.wait(30)


def test_what_was_left_begins_anew():
    settings = Settings(task="linear", steps=LONG, seed=44)
    job = jobs.watch("comes and goes", settings)
    wait_for(job.progress)
    jobs.leave("comes and goes")
    assert job.ended.wait(30)
    again = jobs.watch("comes and goes", settings)
    assert again is not job
    jobs.leave("comes and goes")


def test_the_run_so_far_is_the_beginning_of_the_whole_run():
    settings = Settings(task="linear", steps=20_000, seed=45)
    job = jobs.watch("stopper", settings)
    wait_for(job.progress)
    part = job.so_far()
    jobs.leave("stopper")
    whole = fit(settings)
    assert part is not None
    assert part.stopped
    assert 0 < part.record.length < 20_000
    assert np.array_equal(part.record["loss"], whole.record["loss"][: part.record.length])


def test_before_the_first_update_there_is_nothing_and_no_waiting(monkeypatch):
    gate = threading.Event()

    class Slow(jobs.Plan):
        def __init__(self, settings):
            gate.wait(30)
            super().__init__(settings)

    monkeypatch.setattr(jobs, "Plan", Slow)
    job = jobs.watch("impatient", Settings(task="linear", steps=50, seed=46))
    assert job.so_far() is None
    assert job.progress() is None
    jobs.leave("impatient")
    gate.set()
    assert job.ended.wait(30)


def test_who_has_not_been_heard_of_no_longer_counts(monkeypatch):
    job = jobs.watch("closed tab", Settings(task="linear", steps=LONG, seed=47))
    wait_for(job.progress)
    monkeypatch.setattr(jobs.Job, "gone_after", 0.0)
    assert job.ended.wait(30)


def test_a_failure_is_one_sentence_and_is_not_tried_again(monkeypatch, capfd):
    class Broken:
        def __init__(self, settings):
            raise MemoryError("too large")

    monkeypatch.setattr(jobs, "Plan", Broken)
    settings = Settings(task="linear", seed=48)
    job = jobs.watch("unlucky", settings)
    assert job.ended.wait(30)
    assert job.failure == "This run could not be trained: MemoryError. The details are in the terminal."
    assert jobs.watch("unlucky", settings) is job
    assert "MemoryError: too large" in capfd.readouterr().err


def test_finished_runs_are_kept_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(jobs.board, "kept", 3)
    for seed in range(6):
        assert jobs.watch("collector", Settings(task="linear", steps=5, seed=100 + seed)).ended.wait(30)
    jobs.watch("collector", Settings(task="linear", steps=5, seed=105))
    assert sum(job.ended.is_set() for job in jobs.board.all.values()) <= 3


def test_an_opened_update_is_kept():
    job = jobs.watch("reader", Settings(task="scalar"))
    assert job.ended.wait(30)
    assert job.run is not None
    assert job.ask(Run.at, 2) is job.ask(Run.at, 2)
    assert job.ask(Run.at, 2).result().step == 2


def test_what_only_the_machine_can_refuse_is_told_in_its_own_words(monkeypatch):
    monkeypatch.setattr("lab.devices.jax.devices", lambda: [SimpleNamespace(platform="gpu")])
    monkeypatch.setattr("lab.devices.jax.local_devices", lambda process: [SimpleNamespace(platform="gpu")])
    job = jobs.watch("reader", Settings(task="scalar", devices=2, microbatches=1))
    assert job.ended.wait(30)
    assert job.failure == "devices=2: there is 1 here; use at most 1, or set JAX_PLATFORMS=cpu to simulate more"
