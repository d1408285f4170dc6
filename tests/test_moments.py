"""The updates worth opening, from records written by hand."""

import numpy as np

from lab.moments import Moment, moments
from lab.record import Record


def record(**columns) -> Record:
    length = len(next(iter(columns.values())))
    usual = {
        "step": np.arange(length), "loss": np.linspace(2, 1, length), "grad_norm": np.ones(length),
        "finite": np.ones(length, bool), "skipped": np.zeros(length, bool), "clipped": np.zeros(length),
    }  # fmt: skip
    return Record({**usual, **{name: np.array(values) for name, values in columns.items()}})


def test_what_broke_comes_first_and_stands_there_once():
    found = moments(
        record(
            loss=[3.0, 2.0, 5.0, np.nan, np.nan, 1.0],
            finite=[True, True, False, False, False, True],
            skipped=[False, True, True, False, False, False],
        )
    )
    assert found[:2] == [Moment(3, "first not finite", True), Moment(1, "first skipped", True)]
    assert Moment(2, "loss rises most", False) in found
    assert len({moment.step for moment in found}) == len(found)


def test_a_quiet_run_offers_its_extremes_and_its_end():
    found = moments(record(loss=[4.0, 1.0, 3.0, 2.0, 2.0], grad_norm=[1.0, 2.0, 3.0, 9.0, 1.0]))
    assert found == [
        Moment(3, "largest gradient", False), Moment(2, "loss rises most", False), Moment(1, "lowest loss", False),
        Moment(4, "last", False),
    ]  # fmt: skip


def test_clipping_and_devices_that_part_are_moments():
    found = moments(record(clipped=[0.0, 0.0, 0.5, 1.0], spread=[0.0, 0.1, 0.2, 0.3]))
    assert found[0] == Moment(1, "devices first apart", True)
    assert Moment(2, "first clipped", False) in found


def test_losses_that_are_no_numbers_are_not_extremes():
    found = moments(record(loss=[np.inf, np.inf, np.nan], grad_norm=[np.nan, np.inf, np.nan], finite=[False] * 3))
    assert found == [Moment(0, "first not finite", True), Moment(2, "last", False)]
