"""How a program of one device runs on several: by pmap, by shard_map, or as one program over sharded arrays.

Every array that a device has for itself carries a leading device axis [d, ...], also where there is one device only.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lab.choices import MOST_DEVICES
from lab.key import require
from lab.precision import EXACTLY

KEPT = 24
"""Compiled programs to keep of every kind. Each holds about 300 memory maps, and a process may have 65,530."""
AXIS = "device"
"""The name of the device axis inside a program."""


def ask():
    """Have JAX simulate `MOST_DEVICES` devices on a CPU; possible before its first operation only."""
    if jax.config.jax_num_cpu_devices < 1:  # pyright: ignore[reportAttributeAccessIssue]
        try:
            jax.config.update("jax_num_cpu_devices", MOST_DEVICES)
        except RuntimeError:
            return


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
    there = len(jax.devices())
    more = (
        f"set JAX_NUM_CPU_DEVICES={MOST_DEVICES}, or import lab.devices before the first JAX operation"
        if jax.devices()[0].platform == "cpu"
        else "set JAX_PLATFORMS=cpu to simulate more"
    )
    are = "is" if there == 1 else "are"
    require(number <= there, f"devices={number}: there {are} {there} here; use at most {there}, or {more}")


def mesh(number: int) -> Mesh:
    """The first `number` devices in a row."""
    return Mesh(np.array(jax.devices()[:number]), (AXIS,))


def place(tree: Any, number: int) -> Any:
    """Arrays [d, ...] with each device's part on that device, as the program returns them: nothing is traced twice."""
    if number == 1:
        return jax.tree.map(jnp.asarray, tree)
    return jax.device_put(tree, NamedSharding(mesh(number), PartitionSpec(AXIS)))


def replicate(tree: Any, number: int) -> Any:
    """The tree with a device axis, the same on every device, placed."""
    return place(jax.tree.map(lambda x: jnp.broadcast_to(x, (number, *jnp.shape(x))), tree), number)


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
    jit = functools.partial(jax.jit, donate_argnums=tuple(donate), compiler_options=EXACTLY)
    axes = tuple(0 if i in split else None for i in range(arguments))

    def local(*given):
        own = [jax.tree.map(lambda x: x[0], x) if axis == 0 else x for x, axis in zip(given, axes, strict=True)]
        return jax.tree.map(lambda x: x[None], function(*own))

    if number == 1:
        return jit(local)
    jit = functools.partial(jit, out_shardings=NamedSharding(mesh(number), PartitionSpec(AXIS)))
    if how == "pmap":
        return jit(jax.pmap(function, AXIS, in_axes=axes, devices=jax.devices()[:number]))
    if how == "auto":
        return jit(jax.vmap(function, in_axes=axes, axis_name=AXIS, spmd_axis_name=AXIS))
    specs = tuple(PartitionSpec(AXIS) if axis == 0 else PartitionSpec() for axis in axes)
    # check_vma adds up the gradient of a replicated parameter by itself. Here every parameter has the device axis and
    # every result keeps it, so the function does the adding and nothing can hide behind a replicated result.
    row = PartitionSpec(AXIS)
    return jit(jax.shard_map(local, mesh=mesh(number), in_specs=specs, out_specs=row, check_vma=False))


ask()
