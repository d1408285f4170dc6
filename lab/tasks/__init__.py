"""One file a task; `load` picks it by name."""

from lab.settings import Settings
from lab.task import Task
from lab.tasks import digits, hand, linear, names, points, scalar

MODULES = {"scalar": scalar, "hand": hand, "linear": linear, "points": points, "digits": digits, "names": names}


def load(settings: Settings) -> Task:
    """The task that the settings name, with its data."""
    return MODULES[settings.task].task(settings)
