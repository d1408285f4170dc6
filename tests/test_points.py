"""Points in the plane: where they lie, and that a small network parts them."""

import numpy as np
import pytest

from lab import Settings, fit, tasks
from lab.choices import SHAPES


@pytest.mark.parametrize("shape", SHAPES)
def test_half_of_the_points_are_of_each_class(shape):
    task = tasks.load(Settings(task="points", shape=shape))
    assert task.held_out is not None
    assert [np.bincount(part["y"]).tolist() for part in (task.train, task.held_out)] == [[200, 200], [50, 50]]
    assert task.train["x"].dtype == np.float32 and np.abs(task.train["x"]).max() < 2


def test_without_noise_the_points_lie_on_their_curves():
    x, y = (tasks.load(Settings(task="points", shape="circles", noise=0)).train[name] for name in "xy")
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), np.where(y, 0.5, 1), rtol=1e-6)
    x, y = (tasks.load(Settings(task="points", shape="moons", noise=0)).train[name] for name in "xy")
    centres = np.where(y[:, None], [0.5, 0.25], [-0.5, -0.25])
    np.testing.assert_allclose(np.linalg.norm(x - centres, axis=1), 1, rtol=1e-6)
    assert ((x - centres)[:, 1] * np.where(y, -1, 1) > -1e-6).all()
    x, y = (tasks.load(Settings(task="points", shape="spiral", noise=0)).train[name] for name in "xy")
    turn = np.arctan2(x[:, 1], x[:, 0]) - np.pi * y - 2 * np.pi * (np.linalg.norm(x, axis=1) - 0.1) / 1.4
    np.testing.assert_allclose(np.cos(turn), 1, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_no_straight_line_parts_them_and_the_network_does(shape):
    straight, network = (
        fit(Settings(task="points", shape=shape, hidden=hidden, noise=0.05)) for hidden in ("", "16,16")
    )
    assert straight.final["held_out_accuracy"] < 0.92
    assert network.final["held_out_accuracy"] > 0.95


def test_the_points_do_not_depend_on_the_seed_of_the_run():
    one, other = (tasks.load(Settings(task="points", seed=seed)).train["x"] for seed in (0, 1))
    np.testing.assert_array_equal(one, other)
