"""How the page looks at a run: all of the address that is not settings. It changes what is drawn, never a number."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from app import words
from lab.choices import AXES
from lab.key import SettingsError, require, shown
from lab.settings import GROUPS

SCALES = ("auto", "linear", "log", "log-log")
EXACT = "exact"
"""What `hide` calls the box of exact settings."""


class Look(NamedTuple):
    """What an address may say besides the settings.

    Attributes:
        against: the words of a comparison; empty for none.
        axis, scale: what curves are drawn over, and whether their axes are logarithmic.
        present: large type and few controls, for a class.
        embed: the results alone, for a frame in another page.
        hide: groups of controls that are not shown.
        step, view: the update under the microscope, and which view of it.
    """

    against: str = ""
    axis: str = "updates"
    scale: str = "auto"
    present: bool = False
    embed: bool = False
    hide: tuple[str, ...] = ()
    step: int = 0
    view: str = "accumulator"

    def query(self) -> dict[str, str]:
        """What the address says of it: whatever is not as usual. `embed` is the frame's own, see `app.server`."""
        text = {"present": "1", "hide": ",".join(self.hide), "step": str(self.step)}
        usual = Look(embed=self.embed)._asdict()
        return {name: text.get(name) or value for name, value in self._asdict().items() if value != usual[name]}


def read(query: Mapping[str, str], embed: bool = False) -> tuple[Look, list[str]]:
    """The look an address asks for, and a sentence for every part of it that is refused and left as usual."""
    taken: dict[str, Any] = {"against": query.get("against", "")}
    refused = []
    for name, parse in PARSERS.items():
        if name not in query:
            continue
        try:
            taken[name] = parse(name, query[name])
        except SettingsError as refusal:
            refused.append(str(refusal))
    return Look(**taken, embed=embed), refused


def _one_of(choices: tuple[str, ...]):
    def parse(name: str, value: str) -> str:
        require(value in choices, f"{name}={shown(value)}: choose one of {', '.join(choices)}")
        return value

    return parse


def _switch(name: str, value: str) -> bool:
    require(value in ("0", "1"), f"{name}={shown(value)}: write {name}=1, or leave it out")
    return value == "1"


def _hidden(name: str, value: str) -> tuple[str, ...]:
    known = (*GROUPS, EXACT)
    groups = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    for group in groups:
        require(group in known, f"{name}={shown(group)}: there is no such group; choose from {', '.join(known)}")
    return groups


def _update(name: str, value: str) -> int:
    require(
        value.isascii() and value.isdigit() and len(value) < 10,
        f"{name}={shown(value)}: must be the number of an update, from 0 on",
    )
    return int(value)


PARSERS = {
    "axis": _one_of(AXES), "scale": _one_of(SCALES), "present": _switch, "hide": _hidden,
    "step": _update, "view": _one_of(tuple(words.VIEWS)),
}  # fmt: skip
"""Every part of a look but the comparison, whose words are checked where it is made."""
