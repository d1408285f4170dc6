"""Settings -> the arrays and the compiled program of their run."""

import jax
import jax.numpy as jnp
import numpy as np

from lab import batches, optimizers, scaling, schedules, tasks
from lab.microscope import Inputs
from lab.precision import cast
from lab.program import BLOCK, Data, Tape, program
from lab.settings import Settings
from lab.step import Examples, Numbers, Recipe, State

WINDOW, WINDOW_EXAMPLES = 16_384, 2**20
"""One call of the program covers at most this many updates, and this many examples (an order of 4 MiB)."""
SNAPSHOTS, SNAPSHOT_BYTES = 32, 32 * 2**20
"""A run keeps at most this many states, and (the first always) this much memory."""


class Plan:
    """Everything about a run that is known before it starts.

    Attributes:
        window: updates one call of the program covers.
        start: the state before the first update.
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        self.task = task = tasks.load(settings)
        self.recipe = Recipe(
            task.loss, task.score, settings.reduction, settings.accumulator_dtype, settings.optimizer,
            settings.clip, settings.clip_at, settings.compute_dtype, settings.loss_scaling,
        )  # fmt: skip
        self.program = program(self.recipe)
        updates = max(BLOCK, min(WINDOW, WINDOW_EXAMPLES // settings.batch_size))
        self.window = updates // BLOCK * BLOCK
        layout = batches.deal(settings.batch_size, settings.microbatches, task.groups)
        self._train, self.held_out = jax.tree.map(jnp.asarray, (task.train, task.held_out))
        self._rows, self._filled = jnp.asarray(layout.rows), jnp.asarray(layout.filled)
        self._numbers = Numbers(
            jnp.float32(settings.clip_threshold),
            jnp.float32(settings.weight_decay),
            jnp.int32(settings.growth_interval),
        )
        with jax.numpy_dtype_promotion("standard"):
            params = cast(task.init(jax.random.key(settings.seed)), settings.param_dtype)
        self.start = State(
            params, optimizers.init(settings.optimizer, params),
            scaling.init(settings.loss_scaling, settings.loss_scale), jnp.int32(0),
        )  # fmt: skip
        bytes_each = sum(leaf.nbytes for leaf in jax.tree.leaves(self.start))
        self._slots = max(1, min(SNAPSHOTS, SNAPSHOT_BYTES // bytes_each))
        self._windows = -(-settings.steps // self.window)

    def updates(self, window: int) -> int:
        """How many updates of the run fall into a window."""
        return min(self.window, self.settings.steps - window * self.window)

    def snapshot_steps(self, window: int) -> list[int]:
        """The updates of a window, counted from its start, before which the state is kept.

        A run of more windows than there may be snapshots keeps the first state of every so many windows.
        """
        if window % -(-self._windows // self._slots):
            return []
        return list(range(0, self.updates(window), BLOCK * self._stride(window)))

    def _stride(self, window: int) -> int:
        """Blocks between snapshots, so that all windows together keep about as many as one may."""
        return -(-self.updates(window) // (BLOCK * max(1, self._slots // self._windows)))

    def data(self, window: int, applied: jax.Array) -> Data:
        """What the program reads during a window that begins after so many applied updates []."""
        settings, first, updates = self.settings, window * self.window, self.updates(window)
        stream = np.zeros(self.window * settings.batch_size, np.int32)
        order = batches.stream(self.task, settings.seed, settings.batch_size, first, updates)
        stream[: len(order)] = order
        rates = np.zeros(self.window, np.float32)
        rates[:updates] = schedules.rates(settings, int(applied), updates)
        return Data(
            self._train, self.held_out, self._rows, self._filled, jnp.asarray(stream), jnp.asarray(rates),
            applied, jnp.int32(self._stride(window)), self._numbers,
        )  # fmt: skip

    def blank(self, data: Data) -> Tape:
        """A tape with nothing on it."""
        return self.program.blank(self.start, data, self._slots)

    def train(self, state: State, tape: Tape, data: Data, first: int, last: int) -> tuple[State, Tape]:
        """Updates first to last - 1 of a window, waited for; state and tape are used up."""
        return jax.block_until_ready(self.program.train(state, tape, data, jnp.int32(first), jnp.int32(last)))

    def replay(self, state: State, first: int, last: int) -> State:
        """The state after updates `first` to `last - 1` of the run."""
        state = jax.tree.map(jnp.array, state)
        while first < last:
            window, offset = divmod(first, self.window)
            stop = min(last - window * self.window, self.window)
            data = self.data(window, jnp.array(state.applied))
            state, _ = self.train(state, self.blank(data), data, offset, stop)
            first = window * self.window + stop
        return state

    def inputs(self, step: int, state: State) -> Inputs:
        """What update `step` reads besides the state before it."""
        settings = self.settings
        order = jnp.asarray(batches.stream(self.task, settings.seed, settings.batch_size, step, 1))
        rate = jnp.float32(schedules.rates(settings, int(state.applied), 1)[0])
        examples = Examples(self._train, order[self._rows], self._filled)
        return Inputs(self.recipe, self._numbers, rate, examples)
