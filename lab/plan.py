"""Settings -> the arrays and the compiled program of their run."""

import jax
import numpy as np

from lab import batches, devices, optimizers, scaling, schedules, tasks
from lab.microscope import Inputs
from lab.precision import cast
from lab.program import BLOCK, Data, Share, Tape, measures, program
from lab.recipe import Draw, Examples, Numbers, Recipe, State
from lab.record import Record, of_updates
from lab.settings import Settings

WINDOW, WINDOW_EXAMPLES = 16_384, 2**20
"""One call of the program covers at most this many updates, and this many examples (an order of 4 MiB)."""
SNAPSHOTS, SNAPSHOT_BYTES = 32, 32 * 2**20
"""A run keeps at most this many states, and (the first always) this much memory."""


class Plan:
    """Everything about a run that is known before it starts.

    NumPy prepares it: JAX would compile a program for every shape of every array.

    Attributes:
        window: updates one call of the program covers.
        share: what each device has for itself.
    """

    def __init__(self, settings: Settings):
        devices.check(settings.devices)
        self.settings = settings
        self.task = task = tasks.load(settings)
        self.recipe = Recipe(
            task.loss, task.score, task.draws, task.wide, settings.dropout_keys, settings.reduction,
            settings.accumulator_dtype, settings.optimizer, settings.clip, settings.clip_at, settings.compute_dtype,
            settings.loss_scaling, settings.devices, settings.device_reduction, settings.parallel,
            tuple(value for name, value in settings.structure().items() if name not in Recipe._fields),
        )  # fmt: skip
        updates = max(BLOCK, min(WINDOW, WINDOW_EXAMPLES // settings.batch_size))
        self.window = updates // BLOCK * BLOCK
        self._train = jax.device_put(dict(task.train))
        self.share = self._dealt()
        numbers = (
            np.float32(settings.clip_threshold), np.float32(settings.weight_decay), np.int32(settings.growth_interval),
            np.float32(settings.dropout), np.uint32(settings.seed),
        )  # fmt: skip
        self._numbers = Numbers(*jax.device_put(numbers))
        self._first = self._state()
        bytes_each = sum(leaf.nbytes for leaf in jax.tree.leaves(self._first)) * settings.devices
        self._slots = max(1, min(SNAPSHOTS, SNAPSHOT_BYTES // bytes_each))
        self.program = program(self.recipe)
        self._windows = -(-settings.steps // self.window)

    def _state(self) -> State:
        """The state before the first update, of one device, in NumPy's arrays."""
        settings, task = self.settings, self.task
        with jax.numpy_dtype_promotion("standard"):
            params = cast(jax.device_get(task.init(jax.random.key(settings.seed))), settings.param_dtype)
        vector = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)])
        optimizer = optimizers.init(settings.optimizer, vector)
        scale = scaling.init(settings.loss_scaling, settings.loss_scale)
        return State(*jax.device_get((params, task.statistics, optimizer, scale, np.int32(0))))

    @property
    def start(self) -> State:
        """The state before the first update, of every device [d, ...]; new each time, for a program uses it up."""
        number = self.settings.devices
        each = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (number, *np.shape(leaf))), self._first)
        return devices.place(each, number)

    def _dealt(self) -> Share:
        """What every device has for itself: its places in the batch, and its part of the held-out examples."""
        settings, number = self.settings, self.settings.devices
        layout = batches.deal(settings.batch_size, number * settings.microbatches, self.task.groups, settings.deal)
        held_out = self.task.held_out
        parts = batches.deal(len(next(iter(held_out.values()))) if held_out else 1, number)

        def for_each(array):
            return array.reshape(number, -1, array.shape[1])

        taken = {name: array[parts.rows] for name, array in held_out.items()} if held_out else None
        return Share(*devices.place((for_each(layout.rows), for_each(layout.filled), taken, parts.filled), number))

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

    def data(self, window: int, state: State) -> Data:
        """What every device reads during a window that is entered in this state."""
        settings, first, updates = self.settings, window * self.window, self.updates(window)
        applied = int(devices.fetch(state.applied)[0])
        stream = np.zeros(self.window * settings.batch_size, np.int32)
        order = self._order(first, updates)
        stream[: len(order)] = order
        rates = np.zeros(self.window, np.float32)
        rates[:updates] = schedules.rates(settings, applied, updates)
        stride = self._stride(window)
        given = self._train, stream, rates, np.int32(applied), np.int32(first), np.int32(stride), self._numbers
        return Data(*jax.device_put(given))

    def _order(self, first: int, updates: int) -> np.ndarray:
        """The example in every place of the batches of some updates."""
        settings = self.settings
        return batches.stream(self.task, settings.seed, settings.batch_size, first, updates, settings.order)

    def blank(self) -> Tape:
        """A tape with nothing on it."""
        number = self.settings.devices
        columns, measured = of_updates(number > 1), measures(self.recipe, self.task.held_out)
        tape = (
            np.zeros((number, self.window, len(columns)), np.float32),
            np.zeros((number, self.window // BLOCK, len(measured)), np.float32),
            jax.tree.map(lambda leaf: np.zeros((number, self._slots + 1, *leaf.shape), leaf.dtype), self._first),
        )
        return Tape(*devices.place(tape, number))

    def measured(self, steps: np.ndarray, rows: np.ndarray) -> Record:
        """Held-out measurements [k, measures], before updates `steps` [k], as columns; empty where there are none."""
        names = measures(self.recipe, self.task.held_out)
        columns = {name: np.array(rows[:, j]) for j, name in enumerate(names)}
        return Record({"step": steps if names else steps[:0], **columns})

    def train(self, state: State, tape: Tape, data: Data, first: int, last: int) -> tuple[State, Tape]:
        """Updates first to last - 1 of a window, waited for; state and tape are used up."""
        between = jax.device_put((np.int32(first), np.int32(last)))
        return jax.block_until_ready(self.program.train(state, tape, self.share, data, *between))

    def replay(self, state: State, first: int, last: int) -> State:
        """The state after updates `first` to `last - 1` of the run."""
        state = devices.place(state, self.settings.devices)
        while first < last:
            window, offset = divmod(first, self.window)
            stop = min(last - window * self.window, self.window)
            data = self.data(window, state)
            state, _ = self.train(state, self.blank(), data, offset, stop)
            first = window * self.window + stop
        return state

    def inputs(self, step: int, state: State) -> Inputs:
        """What update `step` reads besides the state before it."""
        settings = self.settings
        rate = schedules.rates(settings, int(devices.fetch(state.applied)[0]), 1)[0]
        rows, filled = devices.fetch((self.share.rows, self.share.filled))
        rows = self._order(step, 1)[rows]
        rate, rows, number = jax.device_put((rate, rows, np.int32(step)))
        examples = Examples(self._train, rows, filled, Draw(self._numbers.seed, number, self._numbers.dropout))
        return Inputs(self.recipe, self._numbers, rate, examples, self.task.unit)
