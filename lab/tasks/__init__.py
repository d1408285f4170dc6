"""One file a task; `load` picks it by name."""

from lab.settings import Settings
from lab.task import Task
from lab.tasks import digits, file, hand, linear, names, points, scalar, table

MODULES = {
    "scalar": scalar, "hand": hand, "linear": linear, "points": points, "digits": digits, "names": names,
    "table": table, "file": file,
}  # fmt: skip


def load(settings: Settings) -> Task:
    """The task that the settings name, with its data."""
    return MODULES[settings.task].task(settings)
