"""Which examples every update and every microbatch sees."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from lab.task import Task


class Layout(NamedTuple):
    """Where the examples of a batch go: position in the batch [m, b] and whether the place is filled [m, b].

    A place that is not filled counts for nothing; it repeats an example of its own microbatch, or the last of the
    batch where the microbatch has none.
    """

    rows: np.ndarray
    filled: np.ndarray


def deal(batch_size: int, microbatches: int, groups: tuple[int, ...] | None = None, how: str = "contiguous") -> Layout:
    """Contiguous microbatches, equal until the batch runs out, or of the sizes `groups` says; or strided, in turn."""
    if how == "strided":
        first = np.arange(microbatches)[:, None]
        rows = first + microbatches * np.arange(-(-batch_size // microbatches))[None, :]
        filled = rows < batch_size
        last = np.where(first < batch_size, first + (batch_size - 1 - first) // microbatches * microbatches, first)
        return Layout(np.minimum(np.minimum(rows, last), batch_size - 1).astype(np.int32), filled)
    if groups is None:
        size = -(-batch_size // microbatches)
        starts = np.arange(microbatches) * size
        sizes = np.clip(batch_size - starts, 0, size)
    else:
        sizes = np.array(groups)
        starts = np.cumsum(sizes) - sizes
    places = np.arange(sizes.max())
    filled = places[None, :] < sizes[:, None]
    last = np.minimum(starts + np.maximum(sizes, 1), batch_size) - 1
    rows = np.minimum(starts[:, None] + places[None, :], last[:, None])
    return Layout(rows.astype(np.int32), filled)


def epoch_order(seed: int, epoch: int, examples: int) -> np.ndarray:
    """A permutation of the examples [n]; epoch and seed are folded into the key of a counter-based generator."""
    return np.random.Generator(np.random.Philox(key=[seed, epoch])).permutation(examples).astype(np.int32)


def stream(
    task: "Task", seed: int, batch_size: int, first: int, updates: int, order: str = "shuffled"
) -> np.ndarray:  # fmt: skip
    """The example of every place of `updates` batches from update `first` on [updates * batch_size].

    Epochs follow one another without a gap: a batch may end one and begin the next, and no example is dropped.
    A batch of everything there is keeps the order in which it was given, unless it is sorted.
    """
    start, stop = first * batch_size, (first + updates) * batch_size
    if batch_size == task.examples or order == "fixed":
        taken = (np.arange(start, stop) % task.examples).astype(np.int32)
    else:
        epochs = range(start // task.examples, -(-stop // task.examples))
        orders = np.concatenate([epoch_order(seed, epoch, task.examples) for epoch in epochs])
        taken = orders[start - epochs.start * task.examples :][: stop - start]
    if order != "sorted" or task.sizes is None:
        return taken
    batches = taken.reshape(updates, batch_size)
    return np.take_along_axis(batches, task.sizes[batches].argsort(axis=1, kind="stable"), axis=1).ravel()
