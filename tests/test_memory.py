"""Memory of one update: what XLA counts falls with the number of microbatches, and what stays is what must."""

import jax
import numpy as np
import pytest

from lab import Settings, SettingsError
from lab.memory import measure
from lab.plan import Plan


def test_cutting_the_batch_shrinks_what_is_temporary_and_nothing_else():
    settings = Settings(hidden="256,256", batch_size=1442, microbatches=16)
    found = measure(settings)
    assert found.counts.tolist() == [1, 4, 16, 64, 256]
    assert (np.diff(found.temporary) <= 0).all() and found.temporary[2] < found.temporary[0] / 4
    weights = 64 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10
    assert found.accumulator == 4 * weights
    assert found.state == sum(leaf.nbytes for leaf in jax.tree.leaves(Plan(settings).start)) > 3 * 4 * weights
    assert found.batch == 1442 * (64 * 4 + 4)
    # Two hidden layers of 256 features must be kept for the backward pass at once.
    assert found.temporary[0] > 2 * 1442 * 256 * 4


def test_a_narrow_accumulator_is_half_as_large():
    assert measure(Settings(task="points", accumulator_dtype="float16")).accumulator == 2 * (2 * 16 + 16 + 16 * 17 + 34)


def test_the_number_in_use_is_among_those_measured_and_devices_have_their_share():
    found = measure(Settings(task="points", batch_size=60, microbatches=3, devices=4))
    assert found.counts.tolist() == [1, 3, 4] and found.batch == 15 * (2 * 4 + 4)


def test_numbers_that_shape_nothing_are_not_measured_again():
    settings = Settings(task="points")
    one, other = measure(settings), measure(settings.replace(learning_rate=1, steps=9))
    assert one is other


def test_a_handful_of_typed_numbers_is_refused():
    with pytest.raises(SettingsError, match="task=scalar: the few numbers you typed"):
        measure(Settings(task="scalar"))
