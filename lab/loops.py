"""The same training written in several ways, to compare their speed: `LOOPS` by name.

    ours          the compiled program of `lab.fit`, with its record, snapshots and held-out measurements
    bare          one `lax.scan` over the updates, nothing recorded
    unrolled      the same, with the scan over microbatches unrolled
    chunked       `bare` in pieces of `CHUNK` updates, which report how far they are
    python_loop   one compiled update at a time, its loss read each time
    multisteps    `optax.MultiSteps`, one compiled microbatch at a time
    torch         eager PyTorch, where it is installed

All start from the same parameters, see the same microbatches and end in the same parameters, to float32 rounding.
Shapes: s updates, d devices, m microbatches, b places in a microbatch.
"""

import functools
import importlib.util
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

from lab import devices, optimizers
from lab.key import require
from lab.plan import Plan
from lab.settings import Settings
from lab.task import Batch, Context, Params

CHUNK = 16
"""Updates between two reports of the chunked scan."""
SUPPORTED = {
    "reduction": "mean", "clip": "none", "norm": "none", "loss_scaling": "none", "dropout": 0, "param_dtype": "float32",
    "compute_dtype": "float32", "accumulator_dtype": "float32", "device_reduction": "global", "weight_decay": 0.01,
}  # fmt: skip
"""What is not compared here stays as it is: the other loops would have to be written anew for each."""


class Loop(NamedTuple):
    """A way to train, compiled.

    Attributes:
        compile_seconds: to trace and compile.
        memory: bytes of the compiled program at its peak, arguments included; None where there is no one program.
        prepare: makes what `run` uses up.
        run: does all updates and waits for them; returns the parameters.
    """

    compile_seconds: float
    memory: int | None
    prepare: Callable[[], Any]
    run: Callable[[Any], Params]


class Work:
    """What every loop is to do: all updates of the settings' run.

    Attributes:
        rows: the example in every place [s, d, m, b].
        filled: whether the place counts [d, m, b].
        rates: learning rate of every update [s].
        weights: what the examples of every update weigh together [s].

    Raises:
        SettingsError: the settings ask for something that only `ours` can do.
    """

    def __init__(self, settings: Settings):
        for name, value in SUPPORTED.items():
            require(
                getattr(settings, name) == value,
                f"{name}={getattr(settings, name)}: loops are compared at {name}={value} only; leave it out",
            )
        require(settings.task not in ("file", "hand"), f"task={settings.task}: is not compared; choose another task")
        self.settings, self.plan = settings, Plan(settings)
        updates = settings.steps
        require(
            updates <= self.plan.window,
            f"steps={updates}: loops are compared over at most {self.plan.window} updates; choose fewer",
        )
        data = self.plan.data(0, self.plan.start)
        self.data: Batch = data.train
        batches = data.stream.reshape(self.plan.window, settings.batch_size)[:updates]
        self.rows = batches[:, self.plan.share.rows]
        self.filled = jnp.asarray(devices.fetch(self.plan.share.filled))
        self.rates = data.rates[:updates]
        self.params: Params = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), devices.fetch(self.plan.start.params))
        self.weights = jax.jit(self._weights)(self.params, self.data, self.rows)

    def _weights(self, params: Params, data: Batch, rows: jax.Array) -> jax.Array:
        filled = self.filled.ravel()

        def weight(update):
            given = self.plan.task.loss(params, self.batch(data, update.ravel()), Context(filled)).weights
            return jnp.where(filled, given, 0).sum()

        return lax.map(weight, rows)

    def batch(self, data: Batch, rows: jax.Array) -> Batch:
        """The examples in rows [b]."""
        return {name: array[rows] for name, array in data.items()}

    def loss_sum(self, params: Params, data: Batch, rows: jax.Array, filled: jax.Array) -> jax.Array:
        """Loss sum of the examples in rows [b] where filled [b]."""
        each = self.plan.task.loss(params, self.batch(data, rows), Context(filled)).each
        return jnp.where(filled, each, 0).sum()

    @property
    def optimizer(self) -> optax.GradientTransformation:
        """The optimizer with its learning rates."""
        kind = optimizers.transformation(self.settings.optimizer, self.settings.weight_decay)
        return optax.chain(kind, optax.scale_by_schedule(lambda count: -self.rates[count]))

    def update(self, unroll: bool = False) -> Callable:
        """One update by hand: (params, optimizer state, data, rows [d, m, b], filled, weight) -> params, state, loss.

        Each device is given its own share of rows and filled.
        """
        optimizer, axis = self.optimizer, devices.AXIS if self.settings.devices > 1 else None

        def update(params, state, data, rows, filled, weight):
            def accumulate(total, microbatch):
                found = jax.value_and_grad(self.loss_sum)(params, data, *microbatch)
                return jax.tree.map(jnp.add, total, found), None

            nothing = jnp.float32(0), jax.tree.map(jnp.zeros_like, params)
            total, _ = lax.scan(accumulate, nothing, (rows[0], filled[0]), unroll=unroll)
            total = lax.psum(total, axis) if axis else total
            loss, gradient = jax.tree.map(lambda x: x / weight, total)
            with jax.numpy_dtype_promotion("standard"):
                change, state = optimizer.update(gradient, state, params)
            return optax.apply_updates(params, change), state, loss

        return update


def compiled(
    function: Callable, work: Work, given: tuple, rows: int, donate: tuple[int, ...] = ()
) -> tuple[Any, float]:
    """A function of (params, state, data, rows, filled, weight), compiled as anybody would, and the seconds it took.

    Args:
        rows: which axis of the rows is that of the devices.
    """
    number = work.settings.devices
    if number > 1:
        split = PartitionSpec(*[None] * rows, devices.AXIS), PartitionSpec(devices.AXIS)
        everywhere = PartitionSpec()
        specs = (everywhere, everywhere, everywhere, *split, everywhere)
        function = jax.shard_map(
            function, mesh=devices.mesh(number), in_specs=specs, out_specs=everywhere, check_vma=False
        )
    began = time.perf_counter()
    program = jax.jit(function, donate_argnums=donate).lower(*given).compile()
    return program, time.perf_counter() - began


def placed(work: Work, rows: jax.Array, axis: int) -> tuple[jax.Array, jax.Array]:
    """Rows and filled, each device's part on that device."""
    number = work.settings.devices
    if number == 1:
        return rows, work.filled
    mesh = devices.mesh(number)
    split = NamedSharding(mesh, PartitionSpec(*[None] * axis, devices.AXIS))
    return jax.device_put(rows, split), jax.device_put(work.filled, NamedSharding(mesh, PartitionSpec(devices.AXIS)))


def copied(work: Work) -> tuple[Params, Any]:
    """Fresh parameters and optimizer state, on all devices."""
    with jax.numpy_dtype_promotion("standard"):
        fresh = jax.tree.map(jnp.copy, (work.params, work.optimizer.init(work.params)))
    if work.settings.devices > 1:
        fresh = jax.device_put(fresh, NamedSharding(devices.mesh(work.settings.devices), PartitionSpec()))
    return jax.block_until_ready(fresh)


def everywhere(work: Work, tree: Any) -> Any:
    """Arrays that every device reads, on all of them."""
    if work.settings.devices == 1:
        return tree
    return jax.device_put(tree, NamedSharding(devices.mesh(work.settings.devices), PartitionSpec()))


def memory_of(program: Any) -> int | None:
    """Bytes a compiled program needs: arguments, results that are not arguments reused, and what is temporary."""
    about = program.memory_analysis()
    if about is None:
        return None
    return (
        about.argument_size_in_bytes + about.output_size_in_bytes - about.alias_size_in_bytes + about.temp_size_in_bytes
    )


def ours(work: Work) -> Loop:
    """The compiled program of `lab.fit`."""
    plan, updates = work.plan, work.settings.steps
    data = plan.data(0, plan.start)
    given = plan.start, plan.blank(data), plan.share, data, jnp.int32(0), jnp.int32(updates)
    began = time.perf_counter()
    program = plan.program.train.lower(*given).compile()
    seconds = time.perf_counter() - began

    def prepare():
        return jax.block_until_ready((jax.tree.map(jnp.copy, plan.start), plan.blank(data)))

    def run(fresh):
        state, _ = jax.block_until_ready(program(*fresh, *given[2:]))
        return jax.tree.map(lambda leaf: leaf[0], state.params)

    return Loop(seconds, memory_of(program), prepare, run)


def bare(work: Work, unroll: bool = False) -> Loop:
    """One scan over all updates."""
    update = work.update(unroll)

    def train(params, state, data, rows, filled, weights):
        def step(carry, each):
            rows, weight = each
            params, state, _ = update(*carry, data, rows, filled, weight)
            return (params, state), None

        return lax.scan(step, (params, state), (rows, weights))[0]

    rest = everywhere(work, work.data), *placed(work, work.rows, 1), everywhere(work, work.weights)
    program, seconds = compiled(train, work, (*copied(work), *rest), rows=1, donate=(0, 1))
    return Loop(
        seconds,
        memory_of(program),
        functools.partial(copied, work),
        lambda fresh: jax.block_until_ready(program(*fresh, *rest))[0],
    )


def chunked(work: Work, report: Callable[[int, float], Any] = lambda done, loss: None) -> Loop:
    """A scan over `CHUNK` updates at a time; `report(updates done, loss)` after each."""
    update, updates = work.update(), work.settings.steps

    def train(params, state, data, rows, filled, weights):
        def step(carry, each):
            rows, weight = each
            params, state, loss = update(*carry, data, rows, filled, weight)
            return (params, state), loss

        carry, losses = lax.scan(step, (params, state), (rows, weights))
        return *carry, losses[-1]

    data, everything, seconds = everywhere(work, work.data), [], 0.0
    programs: dict[int, Any] = {}
    for first in range(0, updates, CHUNK):
        stop = min(first + CHUNK, updates)
        rows, filled = placed(work, work.rows[first:stop], 1)
        rest = data, rows, filled, everywhere(work, work.weights[first:stop])
        if stop - first not in programs:
            program, took = compiled(train, work, (*copied(work), *rest), rows=1, donate=(0, 1))
            programs[stop - first], seconds = program, seconds + took
        everything.append((programs[stop - first], stop, rest))

    def run(fresh):
        params, state = fresh
        for program, stop, rest in everything:
            params, state, loss = program(params, state, *rest)
            report(stop, float(loss))
        return jax.block_until_ready(params)

    return Loop(seconds, memory_of(everything[0][0]), functools.partial(copied, work), run)


def python_loop(work: Work) -> Loop:
    """One compiled update at a time."""
    data = everywhere(work, work.data)
    given = [
        (data, *placed(work, rows, 0), everywhere(work, weight))
        for rows, weight in zip(work.rows, work.weights, strict=True)
    ]
    program, seconds = compiled(work.update(), work, (*copied(work), *given[0]), rows=0, donate=(0, 1))

    def run(fresh):
        params, state = fresh
        for rest in given:
            params, state, loss = program(params, state, *rest)
            float(loss)
        return jax.block_until_ready(params)

    return Loop(seconds, memory_of(program), functools.partial(copied, work), run)


def multisteps(work: Work) -> Loop:
    """`optax.MultiSteps`, which takes the mean over microbatches: each brings m times its share of the mean loss."""
    count = work.settings.microbatches
    optimizer = optax.MultiSteps(work.optimizer, count)

    def step(params, state, data, rows, filled, weight):
        def share(params):
            return work.loss_sum(params, data, rows, filled) * count / weight

        gradient = jax.grad(share)(params)
        with jax.numpy_dtype_promotion("standard"):
            change, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, change), state

    def prepare():
        with jax.numpy_dtype_promotion("standard"):
            return jax.tree.map(jnp.copy, (work.params, optimizer.init(work.params)))

    given = [
        (work.data, rows, filled, weight)
        for update, weight in zip(work.rows, work.weights, strict=True)
        for rows, filled in zip(update[0], work.filled[0], strict=True)
    ]
    began = time.perf_counter()
    program = jax.jit(step, donate_argnums=(0, 1)).lower(*prepare(), *given[0]).compile()
    seconds = time.perf_counter() - began

    def run(fresh):
        params, state = fresh
        for rest in given:
            params, state = program(params, state, *rest)
        return jax.block_until_ready(params)

    return Loop(seconds, memory_of(program), lambda: jax.block_until_ready(prepare()), run)


def in_torch(work: Work) -> Loop:
    """Eager PyTorch, imported when it is wanted."""
    from lab.eager import eager

    return Loop(0.0, None, *eager(work))


LOOPS: dict[str, Callable[[Work], Loop]] = {
    "ours": ours, "bare": bare, "unrolled": functools.partial(bare, unroll=True), "chunked": chunked,
    "python_loop": python_loop, "multisteps": multisteps, "torch": in_torch,
}  # fmt: skip
UNROLLED = 16
"""More microbatches than this are not unrolled: it would compile for minutes."""


def applies(name: str, settings: Settings) -> bool:
    """Whether a loop can do the work of these settings here."""
    if name == "torch":
        networks = settings.task in ("digits", "points") and settings.optimizer in ("adam", "sgd")
        return networks and settings.devices == 1 and importlib.util.find_spec("torch") is not None
    if name == "unrolled":
        return settings.microbatches <= UNROLLED
    return name != "multisteps" or settings.devices == 1
