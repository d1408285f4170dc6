"""Which loops there are, and what all of them can do; loads no JAX."""

import importlib.util

from lab.choices import SAMPLED
from lab.settings import Settings

NAMES = {
    "ours": "the lab",
    "recording": "the lab, nothing held out",
    "bare": "one scan",
    "chunked": "scan in chunks",
    "python_loop": "Python loop",
    "multisteps": "optax.MultiSteps",
    "unrolled": "unrolled scan",
    "torch": "eager PyTorch",
}
"""What every loop is called, by its name in the code."""
PLAIN = {
    "reduction": "mean", "clip": "none", "norm": "none", "loss_scaling": "none", "dropout": 0.0,
    "param_dtype": "float32", "compute_dtype": "float32", "accumulator_dtype": "float32",
    "device_reduction": "global",
}  # fmt: skip
"""What is not compared stays as it is: every other loop would have to be written anew for each."""
NOT_COMPARED = ("file", "hand")
"""Tasks whose loops are not compared."""
UNROLLED = 16
"""More microbatches than this are not unrolled: it would compile for minutes."""


def plain(settings: Settings) -> tuple[Settings, list[str]]:
    """The nearest settings that all loops can do, and the changed keys that were left out for it."""
    kept = {name: value for name, value in settings.changed().items() if name not in PLAIN}
    dropped = [name for name in settings.changed() if name in PLAIN and name in settings.used()]
    return Settings.from_dict({**kept, **PLAIN}), dropped


def applies(name: str, settings: Settings) -> bool:
    """Whether a loop can do the work of these settings here."""
    if name == "torch":
        networks = settings.task in ("digits", "points") and settings.optimizer in ("adam", "sgd")
        return networks and settings.devices == 1 and importlib.util.find_spec("torch") is not None
    if name == "recording":
        return settings.task in SAMPLED
    if name == "unrolled":
        return settings.microbatches <= UNROLLED
    return name != "multisteps" or settings.devices == 1
