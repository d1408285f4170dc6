"""Which examples every update and microbatch sees: none dropped, none twice, the same however the run is cut."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.batches import deal, stream
from lab.task import Losses, Task


def a_task(examples: int) -> Task:
    return Task(lambda key: {}, lambda *given: Losses(jnp.zeros(1), jnp.ones(1)), None, {"x": np.zeros(examples)})


@given(st.integers(1, 300), st.integers(1, 400))
def test_every_example_is_dealt_exactly_once(batch_size, microbatches):
    layout = deal(batch_size, microbatches)
    size = -(-batch_size // microbatches)
    assert layout.rows.shape == layout.filled.shape == (microbatches, size)
    assert layout.rows[layout.filled].tolist() == list(range(batch_size))
    counts = [max(0, min(size, batch_size - k * size)) for k in range(microbatches)]
    assert layout.filled.sum(axis=1).tolist() == counts


@given(st.integers(1, 300), st.integers(1, 400))
def test_padding_repeats_an_example_of_its_own_microbatch(batch_size, microbatches):
    for rows, filled in zip(*deal(batch_size, microbatches), strict=True):
        own = rows[filled] if filled.any() else np.arange(batch_size)
        assert set(rows.tolist()) <= set(own.tolist())


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_groups_of_any_size_are_dealt_in_order(groups):
    layout = deal(sum(groups), len(groups), tuple(groups))
    assert layout.rows.shape == (len(groups), max(groups))
    assert layout.rows[layout.filled].tolist() == list(range(sum(groups)))
    assert layout.filled.sum(axis=1).tolist() == groups
    for rows, filled in zip(*layout, strict=True):
        assert set(rows.tolist()) == set(rows[filled].tolist())


@pytest.mark.parametrize(
    ("batch_size", "microbatches", "rows"),
    [
        (8, 2, [[0, 1, 2, 3], [4, 5, 6, 7]]),  # contiguous; not [0, 2, 4, 6] column by column
        (4, 4, [[0], [1], [2], [3]]),
        (10, 4, [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 9, 9]]),  # not [6, 7, 8, 9] again, as a clamped slice gives
        (3, 5, [[0], [1], [2], [2], [2]]),
        (5, 4, [[0, 1], [2, 3], [4, 4], [4, 4]]),
    ],
)
def test_the_members_of_microbatches_worked_out_by_hand(batch_size, microbatches, rows):
    assert deal(batch_size, microbatches).rows.tolist() == rows


def test_a_strided_deal_worked_out_by_hand():
    layout = deal(5, 2, how="strided")
    assert layout.rows.tolist() == [[0, 2, 4], [1, 3, 3]]
    assert layout.filled.tolist() == [[True, True, True], [True, True, False]]
    assert deal(2, 3, how="strided").filled.tolist() == [[True], [True], [False]]


@given(st.integers(1, 300), st.integers(1, 400))
def test_a_strided_deal_gives_every_example_once_and_in_turn(batch_size, microbatches):
    layout = deal(batch_size, microbatches, how="strided")
    for k, (rows, filled) in enumerate(zip(layout.rows, layout.filled, strict=True)):
        assert rows[filled].tolist() == list(range(k, batch_size, microbatches))
        assert (rows.max() < batch_size and set(rows) <= set(rows[filled])) or not filled.any()


def test_the_groups_worked_out_by_hand():
    layout = deal(6, 3, (1, 3, 2))
    assert layout.rows.tolist() == [[0, 0, 0], [1, 2, 3], [4, 5, 5]]
    assert layout.filled.tolist() == [[True, False, False], [True, True, True], [True, True, False]]


@given(st.integers(2, 60), st.data())
def test_every_epoch_visits_every_example_exactly_once(examples, data):
    batch_size = data.draw(st.integers(1, examples - 1))
    updates = -(-3 * examples // batch_size)
    order = stream(a_task(examples), 5, batch_size, 0, updates)
    assert len(order) == updates * batch_size
    for epoch in range(3):
        assert sorted(order[epoch * examples : (epoch + 1) * examples]) == list(range(examples))


def test_a_batch_may_end_one_epoch_and_begin_the_next():
    order = stream(a_task(10), 0, 4, 0, 5)
    straddling = order[8:12]
    assert sorted(order[:10]) == sorted(order[10:]) == list(range(10))
    assert set(straddling[:2]) == set(range(10)) - set(order[:8])


@given(st.integers(1, 40), st.integers(0, 30), st.integers(0, 30), st.integers(0, 2**31 - 1), st.data())
def test_a_window_of_the_stream_is_a_piece_of_the_whole(examples, first, updates, seed, data):
    batch_size = data.draw(st.integers(1, examples))
    whole = stream(a_task(examples), seed, batch_size, 0, first + updates + 1)
    part = stream(a_task(examples), seed, batch_size, first, max(updates, 1))
    assert part.tolist() == whole[first * batch_size : (first + max(updates, 1)) * batch_size].tolist()


def test_seeds_and_epochs_differ():
    epochs = [stream(a_task(50), seed, 10, 0, 15).reshape(3, 50) for seed in (0, 1, 2**31 - 1)]
    orders = {tuple(order) for epoch in epochs for order in epoch}
    assert len(orders) == 9 and tuple(range(50)) not in orders


def test_the_same_seed_gives_the_same_stream():
    assert stream(a_task(50), 7, 8, 3, 9).tolist() == stream(a_task(50), 7, 8, 3, 9).tolist()


def test_a_batch_of_everything_keeps_the_order_given():
    assert stream(a_task(5), 9, 5, 4, 2).tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]


def test_a_fixed_order_goes_round_the_data_as_they_come():
    assert stream(a_task(5), 9, 3, 1, 3, "fixed").tolist() == [3, 4, 0, 1, 2, 3, 4, 0, 1]


@given(st.integers(2, 40), st.integers(0, 9), st.data())
def test_sorted_batches_are_the_shuffled_ones_sorted(examples, first, data):
    batch_size = data.draw(st.integers(1, examples))
    sizes = np.array(data.draw(st.lists(st.integers(0, 5), min_size=examples, max_size=examples)))
    task = a_task(examples)._replace(sizes=sizes)
    shuffled, by_size = (stream(task, 1, batch_size, first, 4, order) for order in ("shuffled", "sorted"))
    for one, other in zip(shuffled.reshape(4, -1), by_size.reshape(4, -1), strict=True):
        assert sorted(one) == sorted(other)
        assert sizes[other].tolist() == sorted(sizes[one])


def test_an_epoch_order_is_no_favourite_of_any_place():
    first = np.array([stream(a_task(10), seed, 5, 0, 2) for seed in range(2000)])
    counts = np.array([[np.sum(first[:, place] == example) for example in range(10)] for place in range(10)])
    assert abs(counts - 200).max() < 5 * np.sqrt(200 * 0.9)
