"""How far a run has come: counted by hand, and token by token."""

import numpy as np
import pytest

from lab import Settings
from lab.axis import passed
from lab.tasks.names import words


@pytest.mark.parametrize(
    ("axis", "expected"),
    [("updates", [0, 1, 2, 3]), ("examples", [0, 50, 100, 150]), ("epochs", [0, 0.05, 0.1, 0.15])],
)
def test_updates_examples_and_epochs(axis, expected):
    assert passed(Settings(task="linear", batch_size=50), 3, axis) == pytest.approx(expected)


def test_an_update_of_everything_is_an_epoch():
    assert passed(Settings(task="scalar"), 2, "epochs").tolist() == [0, 1, 2]


def test_tokens_are_the_letters_and_the_stops_of_the_names_seen():
    settings = Settings(task="names", order="fixed", batch_size=8, steps=5000)
    trained = [name for k, name in enumerate(words()) if k % 5 != 4]
    seen = np.cumsum([len(trained[k % len(trained)]) + 1 for k in range(5000 * 8)])
    tokens = passed(settings, 5000, "tokens")
    assert tokens[0] == 0
    assert np.array_equal(tokens[1:], seen[7::8])


def test_tokens_do_not_depend_on_the_order_within_a_batch():
    shuffled, mixed = (passed(Settings(task="names", order=order), 50, "tokens") for order in ("shuffled", "sorted"))
    assert np.array_equal(shuffled, mixed)
    assert not np.array_equal(shuffled, passed(Settings(task="names", seed=1), 50, "tokens"))
