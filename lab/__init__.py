"""training-lab's engine: what a training loop with these settings really does.

    settings, keys, key: what can be chosen   record      what a run tells
    files     what the command line reads     findings, wording: what it means, in sentences
    tasks     what is learned                 microscope, opened: one update opened
    batches   who sees which example          reference   the same in plain float64
    recipe, step: one update, in order        run         fit, and the run it returns
    reduction, clipping, optimizers,          plan        settings -> arrays and program
    schedules: the parts of an update         program     the compiled program
    tables, user_file: the user's own data    surface, spelling, memory: more to look at
    exercise  the classic exercise            comparison  two settings, trained in step
    precision, scaling: number formats        census, rounding: what they cost one update
    readings  what the record says            orders      every reduction and clip place
    devices   pmap, shard_map, one program    choices, consistency: what settings may be
    diagnosis what broke first, and why       cli, bar    the command line
    flat      a pytree as one vector          processes, meeting: several processes, one run
    loops     the same, written in other ways bench, grid, machine: how fast each is, and where
    headline  a run in one line               cache       compiled programs kept on disk

Shapes, everywhere: d devices, s updates, m microbatches, b places in a microbatch, n examples, t tokens, f features,
c classes, p parameters. Names are imported when first used, so that settings can be read without loading JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.comparison import Comparison, compare
    from lab.diagnosis import diagnose
    from lab.exercise import microbatched_grads
    from lab.key import SettingsError
    from lab.opened import Update
    from lab.record import Record
    from lab.run import Progress, Run, fit
    from lab.settings import Settings
    from lab.tables import read_table
    from lab.user_file import read_task

HOMES = {
    "Comparison": "lab.comparison",
    "Progress": "lab.run",
    "Record": "lab.record",
    "Run": "lab.run",
    "Settings": "lab.settings",
    "SettingsError": "lab.key",
    "Update": "lab.opened",
    "compare": "lab.comparison",
    "diagnose": "lab.diagnosis",
    "fit": "lab.run",
    "microbatched_grads": "lab.exercise",
    "read_table": "lab.tables",
    "read_task": "lab.user_file",
}
"""Which module each public name lives in."""

__all__ = [
    "Comparison",
    "Progress",
    "Record",
    "Run",
    "Settings",
    "SettingsError",
    "Update",
    "compare",
    "diagnose",
    "fit",
    "microbatched_grads",
    "read_table",
    "read_task",
]


def __getattr__(name: str):
    if name not in HOMES:
        raise AttributeError(f"module 'lab' has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)
