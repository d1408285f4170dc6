"""What `training-lab bench` measures: pieces of work and loops by name, and the options that choose among them."""

import argparse
from typing import Any, NamedTuple

from lab.key import SettingsError, require, shown
from lab.loops.compared import NAMES, applies
from lab.settings import Settings
from lab.wording import plural

WORK: dict[str, dict[str, Any]] = {
    "digits": dict(task="digits"),
    "names": dict(task="names"),
    "points-4-2": dict(task="points", hidden="4,2"),
    "points-64-64": dict(task="points", hidden="64,64"),
    "linear": dict(task="linear"),
}
"""What can be trained, by the name it has here; all else is as the task has it by default."""
MOST_REPEATS = 101


class Grid(NamedTuple):
    """Every piece of work with every number of microbatches on every number of devices, trained by every loop."""

    work: tuple[str, ...] = ("digits",)
    microbatches: tuple[str, ...] = ("1", "8", "16")
    devices: tuple[str, ...] = ("1",)
    loops: tuple[str, ...] = tuple(NAMES)
    repeats: int = 9

    def settings(self) -> list[tuple[str, Settings]]:
        """Every combination, by the name of its work.

        Raises:
            SettingsError: a number is outside its limits.
        """
        return [
            (work, Settings.from_dict({**WORK[work], "microbatches": count, "devices": number}))
            for work in self.work
            for number in self.devices
            for count in self.microbatches
        ]


FULL = Grid(tuple(WORK)[:4], ("1", "4", "16", "64"), ("1", "4"))
"""What the README reports."""


def add_options(commands: Any):
    """Add the command `bench` to the others."""
    text = "time the lab beside other ways to train the same"
    about = f"{text.capitalize()}. Without options: {', '.join(Grid().work)} on one device."
    command = commands.add_parser("bench", help=text, description=about)
    for name, legal in (("work", tuple(WORK)), ("loops", tuple(NAMES))):
        command.add_argument(f"--{name}", metavar="NAME,...", help=f"which of {', '.join(legal)}")
    for name in ("microbatches", "devices"):
        command.add_argument(f"--{name}", metavar="NUMBER,...", help=f"numbers of {name}, such as 1,4")
    command.add_argument("--repeats", metavar="NUMBER", help=f"timings of each, {Grid().repeats} if not said")
    command.add_argument(
        "--full", action="store_true", help=f"{', '.join(FULL.work)} on 1 and 4 devices: about ten minutes"
    )
    command.add_argument("--json", metavar="FILE", help="write everything as JSON; - is standard output")


def read(given: argparse.Namespace) -> Grid:
    """The grid that the options choose.

    Raises:
        SettingsError: a name is not known, or a number is outside its limits.
    """
    grid = FULL if given.full else Grid()
    lists = {name: getattr(given, name) for name in ("work", "microbatches", "devices", "loops")}
    chosen = {name: tuple(dict.fromkeys(text.split(","))) for name, text in lists.items() if text is not None}
    grid = grid._replace(**chosen)
    for name, legal in (("work", tuple(WORK)), ("loops", tuple(NAMES))):
        for word in getattr(grid, name):
            require(word in legal, f"--{name} {shown(word)}: must be among {', '.join(legal)}")
    for work, settings in grid.settings():
        require(
            any(applies(name, settings) for name in grid.loops),
            f"--loops {','.join(grid.loops)}: none of them can do {work} on {plural(settings.devices, 'device')} here; "
            "choose other loops (multisteps and torch take one device, torch must be installed)",
        )
    return grid if given.repeats is None else grid._replace(repeats=_repeats(given.repeats))


def _repeats(text: str) -> int:
    refusal = f"--repeats {shown(text)}: must be a whole number from 1 to {MOST_REPEATS}"
    try:
        number = int(text)
    except ValueError:
        raise SettingsError(refusal) from None
    require(1 <= number <= MOST_REPEATS, refusal)
    return number
