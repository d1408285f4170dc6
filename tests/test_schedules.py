"""Learning rates against values worked out by hand, at both edges, in the middle and past the end."""

import math

import numpy as np
import pytest

from lab import Settings, fit
from lab.choices import SCHEDULES
from lab.schedules import rates

HALF = math.sqrt(0.5)
TABLE = [
    ({"schedule": "constant", "steps": 10}, {0: 1, 5: 1, 9: 1}),
    ({"schedule": "linear", "steps": 10}, {0: 1, 1: 0.9, 5: 0.5, 9: 0.1}),
    (
        {"schedule": "linear", "steps": 30, "decay_steps": 10, "final_fraction": 0.2},
        {0: 1, 5: 0.6, 9: 0.28, 10: 0.2, 29: 0.2},
    ),
    (
        {"schedule": "exponential", "steps": 31, "decay_steps": 10},
        {0: 1, 5: HALF, 9: 0.53589, 10: 0.5, 20: 0.25, 30: 0.125},
    ),
    ({"schedule": "exponential", "steps": 10, "decay_rate": 0.01}, {0: 1, 5: 0.1, 9: 10**-1.8}),
    # the mistake of a length of 1, half every update: 2^-10 = 0.00097656 where 0.5 was meant
    ({"schedule": "exponential", "steps": 11, "decay_steps": 1}, {0: 1, 1: 0.5, 9: 2**-9, 10: 0.00097656}),
    ({"schedule": "staircase", "steps": 11, "decay_steps": 1}, {0: 1, 1: 0.5, 9: 2**-9, 10: 0.00097656}),
    (
        {"schedule": "staircase", "steps": 31, "decay_steps": 10},
        {0: 1, 9: 1, 10: 0.5, 19: 0.5, 20: 0.25, 29: 0.25, 30: 0.125},
    ),
    ({"schedule": "staircase", "steps": 40, "decay_rate": 0.1}, {0: 1, 9: 1, 10: 0.1, 20: 0.01, 30: 0.001, 39: 0.001}),
    ({"schedule": "cosine", "steps": 10}, {0: 1, 5: 0.5, 9: 0.024472}),
    (
        {"schedule": "cosine", "steps": 25, "decay_steps": 10, "final_fraction": 0.1},
        {0: 1, 5: 0.55, 9: 0.122025, 10: 0.1, 15: 0.1, 20: 0.1, 24: 0.1},  # never climbs again; never flat at 0.1 early
    ),
    (
        {"schedule": "warmup_cosine", "warmup_steps": 100, "steps": 2001, "decay_steps": 1000},
        {0: 0, 99: 0.99, 100: 1, 550: 0.5, 900: 0.030154, 1000: 0, 2000: 0},
    ),
    # the mistake of taking the warm-up off the length, which includes it: half way at 500, over at 900
    (
        {"schedule": "warmup_cosine", "warmup_steps": 100, "steps": 1000, "decay_steps": 900},
        {100: 1, 500: 0.5, 550: (1 - math.sin(math.pi / 16)) / 2, 900: 0, 999: 0},
    ),
    ({"schedule": "warmup_cosine", "warmup_steps": 1, "steps": 3, "final_fraction": 0.4}, {0: 0, 1: 1, 2: 0.7}),
    (
        {"schedule": "warmup_linear", "warmup_steps": 100, "steps": 1200, "decay_steps": 1000},
        {0: 0, 50: 0.5, 99: 0.99, 100: 1, 550: 0.5, 955: 0.05, 1000: 0, 1199: 0},
    ),
    (
        {"schedule": "warmup_linear", "warmup_steps": 1000, "steps": 3000, "learning_rate": 1e-3},
        {0: 0, 1: 1e-6, 999: 0.000999, 1000: 0.001, 2000: 0.0005},
    ),
    # ends at peak / 25 / 10000 = 4e-6, not the peak / 10000 = 1e-4 that optax's text promises
    (
        {"schedule": "one_cycle", "steps": 15, "decay_steps": 10},
        {0: 0.04, 1: 0.36, 3: 1, 4: 0.808, 8: 0.04, 9: 0.020002, 10: 4e-6, 14: 4e-6},
    ),
    ({"schedule": "restarts", "steps": 20}, {0: 1, 1: 0.904508, 4: 0.095492, 5: 1, 9: 0.095492, 10: 1, 19: 0.095492}),
    (
        {"schedule": "restarts", "steps": 9, "decay_steps": 4, "final_fraction": 0.5},
        {0: 1, 2: 0.75, 3: 0.573223, 4: 1, 8: 1},
    ),
    (
        {"schedule": "polynomial", "steps": 20, "decay_steps": 10, "final_fraction": 0.2},
        {0: 1, 5: 0.4, 9: 0.208, 10: 0.2, 19: 0.2},
    ),
    (
        {"schedule": "piecewise", "steps": 12, "decay_steps": 8},
        {0: 1, 3: 1, 4: 0.5, 5: 0.5, 6: 0.25, 7: 0.25, 11: 0.25},
    ),
    ({"schedule": "piecewise", "steps": 8, "decay_rate": 0.1}, {3: 1, 4: 0.1, 5: 0.1, 6: 0.01, 7: 0.01}),
    (
        {"schedule": "warmup_stable_decay", "warmup_steps": 10, "steps": 80, "decay_steps": 60},
        {0: 0, 5: 0.5, 10: 1, 49: 1, 50: 1, 51: 0.9, 55: 0.5, 59: 0.1, 60: 0, 79: 0},
    ),
    # the second piece of a joined schedule starts its own clock at 0: rate 1 up to 41, then 1 to 0 over 10
    ({"schedule": "warmup_stable_decay", "warmup_steps": 1, "steps": 51}, {1: 1, 40: 1, 41: 1, 46: 0.5, 50: 0.1}),
    (
        {"schedule": "warmup_stable_decay", "warmup_steps": 5, "steps": 30, "decay_steps": 10, "final_fraction": 0.5},
        {0: 0, 4: 0.8, 5: 1, 9: 1, 10: 0.5, 29: 0.5},
    ),
]


def of(**keys) -> np.ndarray:
    settings = Settings(**{"task": "linear", "learning_rate": 1.0} | keys)
    return rates(settings, 0, settings.steps)


@pytest.mark.parametrize(("keys", "values"), TABLE, ids=[f"{k['schedule']}{k['steps']}" for k, _ in TABLE])
def test_rates_worked_out_by_hand(keys, values):
    table = of(**keys)
    assert table.dtype == np.float32 and table.shape == (keys["steps"],)
    np.testing.assert_allclose(table[list(values)], list(values.values()), rtol=2e-5, atol=1e-7)


def test_every_schedule_is_in_the_table():
    assert {keys["schedule"] for keys, _ in TABLE} == set(SCHEDULES)


@pytest.mark.parametrize("keys", [keys for keys, _ in TABLE])
def test_the_peak_is_the_learning_rate_and_scales_everything(keys):
    one = of(**{**keys, "learning_rate": 1.0})
    assert one.max() <= 1 and one.min() >= 0
    np.testing.assert_allclose(of(**{**keys, "learning_rate": 0.25}), one / 4, rtol=1e-6, atol=1e-9)
    assert not of(**{**keys, "learning_rate": 0.0}).any()


def test_a_schedule_counts_updates_and_not_microbatches():
    right = {"schedule": "linear", "steps": 10, "microbatches": 4}
    np.testing.assert_allclose(of(**right)[:5], [1, 0.9, 0.8, 0.7, 0.6], rtol=1e-6)
    np.testing.assert_allclose(of(**right, schedule_counts="microbatches")[:5], [1, 0.6, 0.2, 0, 0], atol=1e-6)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_counting_microbatches_runs_that_many_times_too_fast(schedule):
    whole = of(schedule=schedule, steps=120, decay_steps=40, microbatches=3)
    fast = of(schedule=schedule, steps=40, decay_steps=40, microbatches=3, schedule_counts="microbatches")
    np.testing.assert_array_equal(fast, whole[::3])


def test_one_microbatch_counts_the_same_either_way():
    keys = {"schedule": "cosine", "steps": 30, "microbatches": 1}
    np.testing.assert_array_equal(of(**keys), of(**keys, schedule_counts="microbatches"))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("first", "updates"), [(0, 1), (5, 7), (1023, 2), (1000, 1500), (2999, 1), (0, 0)])
def test_a_piece_of_the_table_is_the_same_as_in_the_whole(schedule, first, updates):
    settings = Settings(task="linear", schedule=schedule, steps=3000)
    np.testing.assert_array_equal(rates(settings, first, updates), rates(settings, 0, 3000)[first : first + updates])


def test_the_longest_run_ends_at_its_final_rate():
    settings = Settings(
        task="scalar", xs="1" + ",1" * 1023, microbatches=1024, schedule="linear", steps=200_000, learning_rate=1
    )
    np.testing.assert_allclose(rates(settings, 199_999, 1), [5e-6], rtol=0.02)
    assert rates(settings.replace(schedule_counts="microbatches"), 199_999, 1) == [0]


@pytest.mark.parametrize("counts", ["updates", "microbatches"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_recorded_rate_is_the_one_that_was_applied(schedule, counts):
    settings = Settings(
        task="hand", gradients="1/1", w="0", schedule=schedule, steps=12, learning_rate=0.5, schedule_counts=counts
    )
    run = fit(settings)
    np.testing.assert_array_equal(run.record["learning_rate"], rates(settings, 0, 12))
    w = np.float32(0)
    for step, rate in enumerate(run.record["learning_rate"]):
        assert run.state(step).params["w"].item() == w
        w = w - rate
    assert run.params["w"].item() == w


def test_update_number_3_of_a_linear_schedule_is_made_and_recorded_at_0_7():
    run = fit(Settings(task="hand", gradients="1", w="0", schedule="linear", steps=10, learning_rate=1))
    np.testing.assert_allclose(run.record["learning_rate"][3], 0.7, rtol=1e-6)
    opened, before, after = run.at(3), run.state(3).params["w"], run.state(4).params["w"]
    np.testing.assert_allclose([opened.learning_rate, (before - after).item()], [0.7, 0.7], rtol=1e-6)
    np.testing.assert_allclose([before.item(), after.item(), run.params["w"].item()], [-2.7, -3.4, -5.5], rtol=1e-6)


def test_a_warm_up_from_zero_makes_the_first_update_a_no_op_while_moments_move():
    settings = Settings(task="hand", gradients="5", w="1", optimizer="adam", schedule="warmup_linear", steps=10)
    run = fit(settings)
    assert run.state(1).params["w"].item() == 1 and run.record["update_norm"][0] == 0
    np.testing.assert_allclose(run.state(1).optimizer.mu, [0.5], rtol=1e-6)
