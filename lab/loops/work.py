"""What every loop is to do: the same updates, from the same parameters, on the same microbatches.

Shapes: s updates, d devices, m microbatches, b places in a microbatch.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import lax

from lab import devices, optimizers
from lab.key import require
from lab.loops.compared import NOT_COMPARED, PLAIN
from lab.plan import Plan
from lab.settings import Settings
from lab.task import Batch, Context, Params


class Work:
    """All updates of the settings' run, and one of them written by hand.

    Attributes:
        data: the examples [n, ...].
        rows: the example in every place [s, d, m, b].
        filled: whether the place counts [d, m, b].
        rates: learning rate of every update [s].
        params: the first parameters.
        weights: what the examples of every update weigh together [s].

    Raises:
        SettingsError: the settings ask for something that only the lab's own program can do.
    """

    def __init__(self, settings: Settings):
        for name, value in PLAIN.items():
            require(
                getattr(settings, name) == value,
                f"{name}={getattr(settings, name)}: loops are compared at {name}={value} only; leave it out",
            )
        require(
            settings.task not in NOT_COMPARED, f"task={settings.task}: is not compared; choose another task"
        )  # fmt: skip
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

    def update(self, unroll: bool = False, look: Callable[[jax.Array], Any] = lambda loss: None) -> Callable:
        """One update by hand: (params, optimizer state, data, rows [d, m, b], filled, weight) -> params, state, loss.

        Each device is given its own share of rows and filled. `look` is shown the loss sum of every microbatch.
        """
        optimizer, axis = self.optimizer, devices.AXIS if self.settings.devices > 1 else None

        def update(params, state, data, rows, filled, weight):
            def accumulate(total, microbatch):
                found = jax.value_and_grad(self.loss_sum)(params, data, *microbatch)
                look(found[0])
                return jax.tree.map(jnp.add, total, found), None

            nothing = jnp.float32(0), jax.tree.map(jnp.zeros_like, params)
            total, _ = lax.scan(accumulate, nothing, (rows[0], filled[0]), unroll=unroll)
            total = lax.psum(total, axis) if axis else total
            loss, gradient = jax.tree.map(lambda x: x / weight, total)
            with jax.numpy_dtype_promotion("standard"):
                change, state = optimizer.update(gradient, state, params)
            return optax.apply_updates(params, change), state, loss

        return update
