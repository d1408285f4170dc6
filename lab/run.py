"""Train: `fit`, and the run it returns."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from lab import census, devices, microscope, orders, rounding
from lab.bar import bar
from lab.census import Census
from lab.opened import Update
from lab.orders import Orders
from lab.plan import Plan
from lab.program import BLOCK
from lab.recipe import State
from lab.record import FLAGS, OF_DEVICES, Record, join, of_updates
from lab.rounding import Rounding
from lab.settings import Settings
from lab.task import Params, Task

CHUNK_SECONDS = 0.04
"""How long a chunk trains, about: a watched run reports, and can be stopped, between chunks."""


class Progress(NamedTuple):
    """Reported after each chunk of a watched run; `seconds` and `remaining` count training only."""

    step: int
    steps: int
    loss: float
    learning_rate: float
    seconds: float
    remaining: float
    record: Callable[[], Record]
    held_out: Callable[[], Record]


class Run:
    """A finished or stopped run.

    Attributes:
        settings: what determined it.
        record: one entry an update, see `lab.record.COLUMNS`.
        held_out: step, loss and accuracy of the held-out examples before every 16th update and after the last;
            no entries where the task holds none out.
        params: the parameters after the last update, of the first device.
        seconds: `compile`, `run` and `per_update`, in seconds.
        stopped: whether it was stopped before its last update.
    """

    def __init__(self, training: "Training"):
        self._plan = training.plan
        self._snapshots = training.snapshots()
        self.settings: Settings = training.plan.settings
        self.record = training.record()
        self.held_out = training.held_out()
        if len(self.held_out) > 1:
            last = devices.fetch(self._plan.program.measure(training.state, self._plan.share))
            self.held_out = join([self.held_out, self._plan.measured(np.array([training.step]), last[:1])])
        self.params: Params = microscope.first_of(training.state.params)
        self.seconds = training.seconds()
        self.stopped = not training.done

    @property
    def task(self) -> Task:
        """What was learned, with its data."""
        return self._plan.task

    @property
    def kept(self) -> list[int]:
        """The updates before which the state was kept: `state` gives these without replay."""
        return sorted(self._snapshots)

    @property
    def final(self) -> dict[str, Any]:
        """Loss of the last update's batch, held-out loss and accuracy where there are any, up to 32 parameters."""
        flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(self.params)])
        final: dict[str, Any] = {"loss": float(self.record["loss"][-1])}
        final |= {f"held_out_{name}": float(column[-1]) for name, column in self.held_out.items() if name != "step"}
        final["spread"] = float(self.record["spread"][-1]) if "spread" in self.record else 0.0
        return final | ({"params": flat} if len(flat) <= microscope.LISTED else {})

    def to_dict(self) -> dict[str, Any]:
        """As `training-lab run --json` writes it."""
        return {
            "settings": self.settings.to_dict(),
            "columns": dict(self.record),
            "held_out": dict(self.held_out),
            "final": self.final,
        }

    def at(self, step: int) -> Update:
        """Everything about one update, replayed from the nearest snapshot.

        Raises:
            ValueError: the run has no such update; so do `census`, `rounding` and `orders`.
        """
        return microscope.look(*self._before(step), step)

    def census(self, step: int) -> Census:
        """The gradient entries of one update against the range of the dtype it computed in."""
        return census.take(*self._before(step))

    def rounding(self, step: int) -> Rounding:
        """What each accumulator dtype would cost one update, by the number of microbatches."""
        return rounding.measure(*self._before(step))

    def orders(self, step: int) -> Orders:
        """What every combination of reduction and clip place would have given one update."""
        return orders.measure(*self._before(step))

    def _before(self, step: int) -> tuple[microscope.Inputs, State]:
        """What an update reads."""
        if not 0 <= step < self.record.length:
            raise ValueError(f"step={step}: this run has updates 0 to {self.record.length - 1}")
        states = self._states(step)
        return self._plan.inputs(step, states), states

    def state(self, step: int, device: int = 0) -> State:
        """The state of one device before update `step` (or at the end), bit-identical to what it was, by replay."""
        return jax.tree.map(lambda leaf: leaf[device], devices.fetch(self._states(step)))

    def _states(self, step: int) -> State:
        """The states of all devices before update `step` [d, ...]."""
        saved = max(start for start in self._snapshots if start <= step)
        return self._plan.replay(self._snapshots[saved], saved, step)


class Training:
    """A run in the making: `while not done: chunk()`, then `Run`. Making one compiles."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.state = plan.start
        self._snapshots: dict[int, State] = {}
        self._window, self._offset, self._seconds, self._chunk = 0, 0, 0.0, 1
        self._records: list[Record] = []
        self._held_out: list[Record] = []
        began = time.perf_counter()
        self._names = of_updates(plan.settings.devices > 1)
        self._data = plan.data(0, self.state)
        self._tape = plan.blank()
        self.state, self._tape = plan.train(self.state, self._tape, self._data, 0, 0)
        self._compile_seconds = time.perf_counter() - began

    @property
    def step(self) -> int:
        """Updates done."""
        return self._window * self.plan.window + self._offset

    @property
    def done(self) -> bool:
        return self.step == self.plan.settings.steps

    def advance(self, updates: int) -> float:
        """Do so many more updates, or fewer where the window ends; returns the seconds they took."""
        if self._offset == self.plan.window:
            self._turn()
        stop = min(self._offset + updates, self.plan.updates(self._window))
        began = time.perf_counter()
        self.state, self._tape = self.plan.train(self.state, self._tape, self._data, self._offset, stop)
        spent = time.perf_counter() - began
        self._seconds += spent
        self._offset = stop
        return spent

    def chunk(self):
        """Do about 40 ms worth of updates."""
        spent = self.advance(self._chunk)
        self._chunk = max(1, int(self._chunk * min(4.0, CHUNK_SECONDS / spent)))

    def _turn(self):
        """Put the window away and begin the next."""
        self._records, self._held_out = [*self._records, self._columns()], [*self._held_out, self._measured()]
        self._snapshots = self.snapshots()
        self._window, self._offset = self._window + 1, 0
        self._data = self.plan.data(self._window, self.state)

    def snapshots(self) -> dict[int, State]:
        """The states kept so far, by the update they precede."""
        first = self._window * self.plan.window
        steps = [step for step in self.plan.snapshot_steps(self._window) if step < self._offset]
        # NumPy cuts them out: JAX would compile a program for every number of them.
        slots = devices.fetch(self._tape.snapshots)
        states = [jax.tree.map(lambda leaf, slot=slot: np.array(leaf[:, slot]), slots) for slot in range(len(steps))]
        return self._snapshots | {first + step: state for step, state in zip(steps, states, strict=True)}

    def _columns(self) -> Record:
        """The record of this window so far."""
        first = self._window * self.plan.window
        steps = np.arange(first, first + self._offset)
        rows = devices.fetch(self._tape.rows)[:, : self._offset]

        def column(name: str, values: np.ndarray) -> np.ndarray:
            """The values [d, s] of one column."""
            return np.array(values.T if name in OF_DEVICES else values[0], bool if name in FLAGS else np.float32)

        return Record({"step": steps, **{name: column(name, rows[:, :, j]) for j, name in enumerate(self._names)}})

    def _measured(self) -> Record:
        """The held-out measurements of this window so far."""
        steps = self._window * self.plan.window + np.arange(0, self._offset, BLOCK)
        return self.plan.measured(steps, devices.fetch(self._tape.held_out)[0, : len(steps)])

    def record(self) -> Record:
        """All updates so far."""
        return join([*self._records, self._columns()])

    def held_out(self) -> Record:
        """All held-out measurements so far."""
        return join([*self._held_out, self._measured()])

    def run(self) -> Run:
        """The run as far as it got."""
        return Run(self)

    def seconds(self) -> dict[str, float]:
        """Seconds spent to compile (near 0 if this program was there already), in all updates, and in each."""
        return {"compile": self._compile_seconds, "run": self._seconds, "per_update": self._seconds / max(self.step, 1)}

    def progress(self) -> Progress:
        """Where the run stands, after its first update."""
        steps, row = self.plan.settings.steps, self._offset - 1
        # One device's rows, where they lie: they are looked at many times a second.
        rows = np.asarray(self._tape.rows.addressable_shards[0].data)
        now = dict(zip(self._names, rows[0, row], strict=True))
        return Progress(
            step=self.step,
            steps=steps,
            loss=float(now["loss"]),
            learning_rate=float(now["learning_rate"]),
            seconds=self._seconds,
            remaining=self._seconds / self.step * (steps - self.step),
            record=self.record,
            held_out=self.held_out,
        )


def fit(settings: Settings, progress: bool | Callable[[Progress], bool | None] = False) -> Run:
    """Train as the settings say.

    Args:
        settings: what to train.
        progress: False trains in one compiled call (one for each 16,384 updates or 2^20 examples). A function trains
            in compiled chunks of about 40 ms and is called after each; where it returns False the run stops. True
            draws a progress bar on standard error. The numbers are bit-identical in every case.
    """
    if progress is True:
        progress = bar
    training = Training(Plan(settings))
    while not training.done:
        if not progress:
            training.advance(settings.steps)
            continue
        training.chunk()
        if progress(training.progress()) is False:
            break
    return training.run()
