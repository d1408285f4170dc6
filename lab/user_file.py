"""A user's own task: a Python file with `init(key)`, `loss(params, batch, key)` and `data()`.

Only the command line and Python load one; an address can name a file that was loaded, by its fingerprint, and never
makes the lab run anything. Everything is checked by shape before anything is compiled.
"""

import contextlib
import hashlib
import inspect
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lab.key import SettingsError, require, shown

FUNCTIONS = {"init": ("key",), "loss": ("params", "batch", "key"), "data": ()}
"""What the file must define, and what each is called with."""
CALLED = "loss(params, batch, key)"
MOST_BYTES = 2**30
"""The data may take this much memory."""


class UserTask(NamedTuple):
    """A loaded file.

    Attributes:
        name: of the file.
        trainable: key -> the parameters that are trained, arrays by their path in what `init` returned.
        loss: (trainable, one example [1, ...], key) -> its loss and weight, each [] or [1].
        train: examples [n, ...] by name.
        held_out: the same, or None.
    """

    name: str
    trainable: Callable[[Any], dict[str, Any]]
    loss: Callable[[dict[str, Any], dict[str, Any], Any], tuple[Any, Any]]
    train: dict[str, np.ndarray]
    held_out: dict[str, np.ndarray] | None


_loaded: dict[str, UserTask] = {}


def read_task(path: str | Path) -> str:
    """Load a task file; returns the fingerprint to give as `Settings(task="file", file=...)`.

    A file that was loaded before is not run again: the same fingerprint is the same task.

    Raises:
        SettingsError: it cannot be read or run, or a function takes or returns what it should not.
    """
    path = Path(path)
    try:
        source = path.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a file name"
        raise SettingsError(f"{shown(str(path))}: cannot be read ({why}); give a Python file") from None
    fingerprint = hashlib.sha256(source).hexdigest()[:12]
    if fingerprint not in _loaded:
        _loaded[fingerprint] = _checked(path, source, fingerprint)
    return fingerprint


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """Standard output is for results: what a user's task prints meanwhile goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
            if "jax" in sys.modules:
                sys.modules["jax"].effects_barrier()
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def loaded(fingerprint: str) -> UserTask | None:
    """The file with this fingerprint, if it was loaded."""
    return _loaded.get(fingerprint)


def name(fingerprint: str) -> str:
    """The name of the file, if it was loaded; else its fingerprint."""
    return _loaded[fingerprint].name if fingerprint in _loaded else fingerprint


def examples(fingerprint: str) -> int | None:
    """How many examples the file has to train on, if it was loaded."""
    return len(next(iter(_loaded[fingerprint].train.values()))) if fingerprint in _loaded else None


def latest() -> str | None:
    """The fingerprint of the file that was loaded last, if any was."""
    return next(reversed(_loaded), None)


def _run(file: str, what: str, function: Callable, *given: Any) -> Any:
    """`function(*given)`, where whatever goes wrong is one sentence with the line of the file."""
    try:
        return function(*given)
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        at = f" in line {lines[-1]}" if lines else ""
        said = str(error).strip().splitlines()
        raise SettingsError(
            f"{file}: {what} raised {type(error).__name__}{at}" + (f": {shown(said[0])}" if said else "")
        ) from None


def _checked(path: Path, source: bytes, fingerprint: str) -> UserTask:
    from lab import devices  # noqa: F401  # asks for the simulated devices before the file can start JAX

    file = path.name
    try:
        code = compile(source, file, "exec")
    except (SyntaxError, ValueError) as error:
        line = f" in line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise SettingsError(f"{file}: is not Python{line}; give a file that Python can run") from None
    module = types.ModuleType(f"training_lab_task_{fingerprint}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    if (folder := str(path.parent.resolve())) not in sys.path:
        sys.path.append(folder)
    _run(file, "running it", exec, code, module.__dict__)
    for function, takes in FUNCTIONS.items():
        _check_function(file, module, function, takes)
    train, held_out = _data(file, _run(file, "data()", module.data))
    checked = _shape_checked(file, module, train, held_out)
    _check_width(file)
    return checked


def _check_width(file: str):
    """Refuse a file that has switched JAX to 64 bits; it is switched back."""
    import jax

    wide = jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
    jax.config.update("jax_enable_x64", False)
    require(not wide, f"{file}: sets jax_enable_x64, and the lab trains in 32 bits and fewer; leave it out")


def _check_function(file: str, module: types.ModuleType, function: str, takes: tuple[str, ...]):
    call = f"{function}({', '.join(takes)})"
    require(callable(getattr(module, function, None)), f"{file}: has no function {call}; define it")
    try:
        inspect.signature(getattr(module, function)).bind(*takes)
    except TypeError:
        raise SettingsError(f"{file}: {function} cannot be called as {call}; give it those arguments") from None
    except ValueError:
        return


def _data(file: str, given: Any) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray] | None]:
    """What `data()` returned: the training examples, or a pair of those and held-out ones."""
    parts = given if isinstance(given, tuple) else (given,)
    require(1 <= len(parts) <= 2, f"{file}: data() returned {len(parts)} parts; return train, or (train, held_out)")
    arrays = [_examples(file, part) for part in parts]
    if len(arrays) == 1:
        return arrays[0], None
    kinds = [{key: (array.shape[1:], array.dtype) for key, array in part.items()} for part in arrays]
    require(
        kinds[0] == kinds[1],
        f"{file}: data() returned held-out examples unlike those to train on; give both the same names, shapes and "
        "dtypes",
    )
    return arrays[0], arrays[1]


def _examples(file: str, part: Any) -> dict[str, np.ndarray]:
    require(
        isinstance(part, dict) and bool(part) and all(isinstance(key, str) for key in part),
        f"{file}: data() returned {type(part).__name__}; return a dict of arrays by name, the first axis over the "
        "examples",
    )
    arrays = {}
    for key, value in part.items():
        array = _run(file, f"data() as an array, entry {shown(key)},", np.asarray, value)
        if array.dtype.name == "bfloat16":
            array = array.astype(np.float32)
        require(
            array.dtype.kind in "fiub",
            f"{file}: data()[{shown(key)!r}] has dtype {array.dtype}; give numbers (floating, integer or bool)",
        )
        arrays[key] = _narrow(file, key, array)
        require(array.ndim > 0, f"{file}: data()[{shown(key)!r}] is a single number; its first axis is the examples")
    lengths = {key: len(array) for key, array in arrays.items()}
    require(
        len(set(lengths.values())) == 1,
        f"{file}: data() returned arrays of {', '.join(f'{n} ({shown(key)})' for key, n in lengths.items())} examples; "
        "give all the same first axis",
    )
    require(min(lengths.values()) > 0, f"{file}: data() returned no example; give at least one")
    size = sum(array.nbytes for array in arrays.values())
    require(size <= MOST_BYTES, f"{file}: data() takes {size:,} bytes; use at most {MOST_BYTES:,}")
    return arrays


def _narrow(file: str, key: str, array: np.ndarray) -> np.ndarray:
    """The array in at most 32 bits, where its numbers fit."""
    if array.dtype.itemsize <= 4:
        return array
    dtype = {"f": np.float32, "i": np.int32, "u": np.uint32}[array.dtype.kind]
    with np.errstate(over="ignore"):
        narrow = array.astype(dtype)
    same = np.isfinite(narrow) == np.isfinite(array) if array.dtype.kind == "f" else narrow == array
    wrong = array[~same]
    require(
        not len(wrong),
        f"{file}: data()[{shown(key)!r}] holds {wrong.ravel()[0] if len(wrong) else 0:g}, beyond the range of "
        f"{np.dtype(dtype)}; give smaller numbers",
    )
    return narrow


def _shape_checked(
    file: str, module: types.ModuleType, train: dict[str, np.ndarray], held_out: dict[str, np.ndarray] | None
) -> UserTask:
    """The parameters parted into what is trained and what is not, and a loss of the former."""
    import jax
    import jax.numpy as jnp

    key = jax.random.key(0)
    tree = _run(file, "init(key)", module.init, key)
    paths, form = _run(file, "init(key) as a tree of arrays", jax.tree_util.tree_flatten_with_path, tree)

    def trained(leaf: Any) -> bool:
        return isinstance(leaf, jax.Array | np.ndarray | np.generic) and jnp.issubdtype(leaf.dtype, jnp.inexact)

    names = [jax.tree_util.keystr(path, simple=True, separator=".") or "params" for path, _ in paths]
    if len(set(names)) < len(names):
        names = [jax.tree_util.keystr(path) for path, _ in paths]
    for at, (_, leaf) in zip(names, paths, strict=True):
        if trained(leaf):
            real = jnp.issubdtype(leaf.dtype, jnp.floating)
            require(real, f"{file}: init(key) returned complex numbers at {shown(at)}; give floating-point ones")
            require(
                np.size(leaf) > 0, f"{file}: init(key) returned an array without entries at {shown(at)}; leave it out"
            )
    fixed = [None if trained(leaf) else leaf for _, leaf in paths]
    require(
        any(trained(leaf) for _, leaf in paths),
        f"{file}: init(key) returned {type(tree).__name__} without a floating-point array; return a tree of parameters",
    )

    def trainable(key: Any) -> dict[str, Any]:
        leaves, now = jax.tree.flatten(_run(file, "init(key)", module.init, key))
        shapes = [np.shape(leaf) for leaf in leaves]
        require(
            now == form and shapes == [np.shape(leaf) for _, leaf in paths],
            f"{file}: init(key) returned another tree or other shapes than the first time; always return the same",
        )
        return {at: jnp.asarray(leaf) for at, leaf in zip(names, leaves, strict=True) if trained(leaf)}

    def loss(params: dict[str, Any], example: dict[str, Any], key: Any) -> tuple[Any, Any]:
        leaves = [params[at] if leaf is None else leaf for at, leaf in zip(names, fixed, strict=True)]
        came = _run(file, CALLED, module.loss, jax.tree.unflatten(form, leaves), example, key)
        _check_loss(file, came)
        return came

    checked = UserTask(file, trainable, loss, train, held_out)
    check_in(checked, "float32")
    return checked


def check_in(task: UserTask, dtype: str):
    """Trace the loss of one example with parameters in the dtype.

    Raises:
        SettingsError: it cannot be traced, or gives what a loss must not.
    """
    import jax

    key = jax.random.key(0)
    shapes = jax.eval_shape(task.trainable, key)
    params = {at: jax.ShapeDtypeStruct(leaf.shape, dtype) for at, leaf in shapes.items()}
    one = {at: jax.ShapeDtypeStruct((1, *array.shape[1:]), array.dtype) for at, array in task.train.items()}
    try:
        jax.eval_shape(task.loss, params, one, key)
    except SettingsError as refusal:
        inside = "" if dtype == "float32" else f" (compute_dtype={dtype}; its parameters come in that format)"
        raise SettingsError(f"{refusal}{inside}") from None


def _check_loss(file: str, came: Any):
    """What the loss of one example must be."""
    import jax.numpy as jnp

    pair = isinstance(came, tuple | list) and len(came) == 2
    require(
        pair and all(hasattr(x, "shape") for x in came),
        f"{file}: {CALLED} returned {type(came).__name__}"
        + (f" of {len(came)}" if isinstance(came, tuple | list) else "")
        + "; return two arrays, the loss and the weight of every example, or their two sums",
    )
    for what, x in zip(("loss", "weight"), came, strict=True):
        require(
            x.shape in ((), (1,)),
            f"{file}: {CALLED} returned a {what} of shape {x.shape} for a batch of 1 example; expected "
            "(1,), one for each example, or (), their sum",
        )
    require(
        jnp.issubdtype(came[0].dtype, jnp.floating),
        f"{file}: {CALLED} returned a loss of dtype {came[0].dtype}; expected a floating-point number",
    )
