"""A compiled loop, and what compiling one takes: where its arrays lie, and how long and how large it is."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from lab import devices
from lab.loops.work import Work
from lab.task import Params


class Loop(NamedTuple):
    """A way to train, compiled.

    Attributes:
        compile_seconds: to trace and compile; 0 where nothing is compiled.
        memory: bytes of the compiled program at its peak, arguments included; None where there is no one program.
        prepare: makes what `run` uses up.
        run: does all updates and waits for them; returns the parameters.
    """

    compile_seconds: float
    memory: int | None
    prepare: Callable[[], Any]
    run: Callable[[Any], Params]


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
        all_of_it = PartitionSpec()
        specs = (all_of_it, all_of_it, all_of_it, *split, all_of_it)
        function = jax.shard_map(
            function, mesh=devices.mesh(number), in_specs=specs, out_specs=all_of_it, check_vma=False
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


def everywhere(work: Work, tree: Any) -> Any:
    """Arrays that every device reads, on all of them."""
    if work.settings.devices == 1:
        return tree
    return jax.device_put(tree, NamedSharding(devices.mesh(work.settings.devices), PartitionSpec()))


def copied(work: Work) -> tuple[Params, Any]:
    """Fresh parameters and optimizer state, on all devices."""
    with jax.numpy_dtype_promotion("standard"):
        fresh = jax.tree.map(jnp.copy, (work.params, work.optimizer.init(work.params)))
    return jax.block_until_ready(everywhere(work, fresh))


def memory_of(program: Any) -> int | None:
    """Bytes a compiled program needs: arguments, results that are not arguments reused, and what is temporary."""
    about = program.memory_analysis()
    if about is None:
        return None
    return (
        about.argument_size_in_bytes + about.output_size_in_bytes - about.alias_size_in_bytes + about.temp_size_in_bytes
    )
