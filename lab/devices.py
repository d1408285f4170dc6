"""How a program of one device runs on several: by pmap, by shard_map, or as one program over sharded arrays.

Every array that a device has for itself carries a leading device axis [d, ...], also where there is one device only.
Of several processes each holds the parts of its own devices. All must then run the same programs, and `fetch` the same
arrays, in the same order.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lab.choices import MOST_DEVICES
from lab.key import require
from lab.precision import EXACTLY

KEPT = 24
"""Compiled programs to keep of every kind. Each holds about 300 memory maps, and a process may have 65,530."""
Broken = jax.errors.JaxRuntimeError
"""What JAX raises when it cannot go on, such as after another process has died."""
OPTIONS = {**EXACTLY, "xla_cpu_enable_concurrency_optimized_scheduler": False}
"""Compiler options of every program. The kernels of one update are too small to be worth handing to other threads."""
AXIS = "device"
"""The name of the device axis inside a program."""


def ask():
    """Have JAX simulate `MOST_DEVICES` devices on a CPU; possible before its first operation only."""
    if jax.config.jax_num_cpu_devices < 1:  # pyright: ignore[reportAttributeAccessIssue]
        try:
            jax.config.update("jax_num_cpu_devices", MOST_DEVICES)
        except RuntimeError:
            return


def join(address: str, listen: str | None, processes: int, process: int):
    """Make this process one of several, before its first JAX operation; the others must be on their way.

    Args:
        address: where the first process answers the others.
        listen: where it listens for them; None is every address of its machine.
    """
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # It would take the signal that ends a process for a notice to be handed on.
    jax.config.update("jax_enable_preemption_service", False)
    jax.distributed.initialize(
        address, processes, process, cluster_detection_method="deactivate", coordinator_bind_address=listen
    )


def part():
    """Wait until the other processes are done too; nothing can be computed after it."""
    jax.distributed.shutdown()


def described(number: int) -> str:
    """Which devices a run on so many uses: `4 simulated devices on one CPU`, or what the accelerators are called."""
    first = jax.devices()[0]
    if first.platform == "cpu":
        return f"{number} simulated devices on one CPU" if number > 1 else "one CPU"
    return f"{number} x {first.device_kind}"


def check(number: int):
    """Refuse more devices than there are.

    Raises:
        SettingsError: there are not so many.
    """
    processes = jax.process_count()
    each = min(len(jax.local_devices(process)) for process in range(processes))
    there = each * processes
    more = (
        f"set JAX_NUM_CPU_DEVICES={MOST_DEVICES}, or import lab.devices before the first JAX operation"
        if jax.devices()[0].platform == "cpu"
        else "set JAX_PLATFORMS=cpu to simulate more"
    )
    are = "is" if there == 1 else "are"
    where = f"in {processes} processes with {each} each" if processes > 1 else "here"
    require(number <= there, f"devices={number}: there {are} {there} {where}; use at most {there}, or {more}")


def chosen(number: int) -> list[Any]:
    """The `number` devices of a run: as many of every process, the first of each."""
    each = number // jax.process_count()
    return [device for process in range(jax.process_count()) for device in jax.local_devices(process)[:each]]


def mesh(number: int) -> Mesh:
    """The devices of a run in a row."""
    return Mesh(np.array(chosen(number)), (AXIS,))


def place(tree: Any, number: int) -> Any:
    """Arrays [d, ...] with each device's part on that device, as the program returns them: nothing is traced twice.

    NumPy cuts apart what lies on one device; JAX would compile a program for it.
    """
    if number == 1:
        return jax.device_put(tree)
    sharding = NamedSharding(mesh(number), PartitionSpec(AXIS))

    def own_parts(x):
        apart = isinstance(x, jax.Array) and len(x.sharding.device_set) > 1
        if jax.process_count() == 1:
            return jax.device_put(x if apart else np.asarray(x), sharding)
        return x if apart else jax.make_array_from_callback(x.shape, sharding, np.asarray(x).__getitem__)

    return jax.tree.map(own_parts, tree)


def fetch(tree: Any) -> Any:
    """Arrays [d, ...] of a program in the memory of this process, also the parts that other processes hold."""
    if jax.process_count() > 1 and (leaves := jax.tree.leaves(tree)):
        tree = _shared(len(leaves[0]))(tree)
    return jax.device_get(tree)


@functools.lru_cache
def _shared(number: int) -> Callable:
    """The program that gives every device the parts of all."""
    return jax.jit(lambda tree: tree, out_shardings=NamedSharding(mesh(number), PartitionSpec()))


def over(
    function: Callable, number: int, how: str, split: Sequence[int], arguments: int, donate: Sequence[int] = ()
) -> Callable:
    """The compiled program that runs `function` on every device.

    Args:
        function: what one device computes; with several devices it may use collectives over `AXIS`.
        number: of devices.
        how: pmap, shard_map or auto (one program over sharded arrays); one device needs none of them.
        split: the arguments that carry a device axis, of which the function sees its own part without the axis; the
            others are the same everywhere.
        arguments: how many arguments the function takes.
        donate: the arguments whose memory may be reused.
    """
    jit = functools.partial(jax.jit, donate_argnums=tuple(donate), compiler_options=OPTIONS)
    axes = tuple(0 if i in split else None for i in range(arguments))

    def local(*given):
        own = [jax.tree.map(lambda x: x[0], x) if axis == 0 else x for x, axis in zip(given, axes, strict=True)]
        return jax.tree.map(lambda x: x[None], function(*own))

    if number == 1:
        return jit(local)
    jit = functools.partial(jit, out_shardings=NamedSharding(mesh(number), PartitionSpec(AXIS)))
    if how == "pmap":
        mapped = functools.partial(jax.pmap, function, AXIS, in_axes=axes, devices=chosen(number))
        return jit(mapped()) if jax.process_count() == 1 else _across(mapped(donate_argnums=tuple(donate)), axes)
    if how == "auto":
        return jit(jax.vmap(function, in_axes=axes, axis_name=AXIS, spmd_axis_name=AXIS))
    specs = tuple(PartitionSpec(AXIS) if axis == 0 else PartitionSpec() for axis in axes)
    # check_vma adds up the gradient of a replicated parameter by itself. Here every parameter has the device axis and
    # every result keeps it, so the function does the adding and nothing can hide behind a replicated result.
    row = PartitionSpec(AXIS)
    return jit(jax.shard_map(local, mesh=mesh(number), in_specs=specs, out_specs=row, check_vma=False))


def _across(mapped: Any, axes: Sequence[int | None]) -> Callable:
    """A pmap over several processes, compiled under the options that `jit` would have been given.

    Inside `jit` pmap would see the devices of this process only. On its own it is called with this process's part of
    every array and takes no compiler options; its compiled program takes both the options and whole arrays.
    """
    compiled = {}

    def part(x):
        return np.zeros((x.shape[0] // jax.process_count(), *x.shape[1:]), x.dtype)

    def call(*given):
        leaves, structure = jax.tree.flatten(given)
        key = structure, tuple((x.shape, x.dtype) for x in leaves)
        if key not in compiled:
            parts = [jax.tree.map(part, x) if axis == 0 else x for x, axis in zip(given, axes, strict=True)]
            compiled[key] = mapped.lower(*parts).compile(compiler_options=OPTIONS)
        return compiled[key](*given)

    return call


ask()
