"""Measurements of loops: one at a time, each once for everybody, ended when nobody looks."""

import threading
import time

import pytest

from app import stopwatch
from lab import Settings, SettingsError
from lab.loops.measurement import Measured

pytestmark = pytest.mark.page
DONE = Measured({}, doing="", share=1.0)


class Measuring:
    """A measuring process that tells when it is told to, by settings."""

    all: "dict[Settings, Measuring]" = {}

    def __init__(self, settings: Settings):
        self.told, self.go_on = [Measured({}, doing="compiling bare"), DONE], threading.Event()
        self.stopped = False
        Measuring.all[settings] = self

    def __iter__(self):
        yield self.told[0]
        assert self.go_on.wait(30)
        if not self.stopped:
            yield self.told[1]

    def stop(self):
        self.stopped = True
        self.go_on.set()


@pytest.fixture(autouse=True)
def measuring(monkeypatch):
    monkeypatch.setattr(stopwatch, "Apart", Measuring)
    Measuring.all.clear()
    stopwatch.board.all.clear()


def begun(settings: Settings) -> Measuring:
    deadline = time.monotonic() + 30
    while settings not in Measuring.all:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return Measuring.all[settings]


def test_one_measurement_serves_everybody_and_the_next_waits():
    one, two = Settings(seed=1), Settings(seed=2)
    work = stopwatch.watch("first", one)
    assert stopwatch.watch("second", one) is work
    later = stopwatch.watch("third", two)
    begun(one)
    assert two not in Measuring.all and later.known is None
    begun(one).go_on.set()
    assert work.ended.wait(30) and work.result == DONE
    begun(two).go_on.set()
    assert later.ended.wait(30) and later.result == DONE
    assert stopwatch.watch("fourth", one) is work


def test_it_ends_when_the_last_one_leaves_and_can_begin_anew():
    settings = Settings(seed=3)
    work = stopwatch.watch("first", settings)
    stopwatch.watch("second", settings)
    begun(settings)
    stopwatch.leave("first")
    assert not begun(settings).stopped
    stopwatch.leave("second")
    assert work.ended.wait(30) and work.result is None and begun(settings).stopped
    assert stopwatch.watch("first", settings) is not work
    stopwatch.leave("first")


def test_what_was_left_before_its_turn_is_never_begun():
    one, two = Settings(seed=4), Settings(seed=5)
    work = stopwatch.watch("first", one)
    waiting = stopwatch.watch("second", two)
    begun(one)
    stopwatch.leave("second")
    begun(one).go_on.set()
    assert work.ended.wait(30) and waiting.ended.wait(30)
    assert two not in Measuring.all


def test_again_measures_anew():
    settings = Settings(seed=6)
    work = stopwatch.watch("first", settings)
    stopwatch.again(settings)
    assert stopwatch.watch("first", settings) is work, "one that is under way goes on"
    begun(settings).go_on.set()
    assert work.ended.wait(30)
    stopwatch.again(settings)
    again = stopwatch.watch("first", settings)
    assert again is not work
    stopwatch.leave("first")
    assert again.ended.wait(30)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SettingsError("devices=2: there is 1 here; use at most 1"), "devices=2: there is 1 here; use at most 1"),
        (RuntimeError("killed"), "The loops could not be timed: the measuring process failed."),
        (OSError("no more processes"), "The loops could not be timed"),
    ],
)
def test_a_failure_is_one_sentence_and_is_tried_again_on_demand_only(error, told, monkeypatch, capfd):
    def broken(settings):
        raise error

    monkeypatch.setattr(stopwatch, "Apart", broken)
    settings = Settings(seed=7)
    work = stopwatch.watch("unlucky", settings)
    assert work.ended.wait(30) and work.failure is not None and work.failure.startswith(told)
    assert stopwatch.watch("unlucky", settings) is work
    stopwatch.again(settings)
    again = stopwatch.watch("unlucky", settings)
    assert again is not work and again.ended.wait(30)
