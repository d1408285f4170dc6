"""Several processes train one run: the options that say so, and the way in and out.

Every process does the same; only the first tells and writes. One that cannot go on takes the others with it.
"""

import argparse
import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING

from lab.choices import MOST_DEVICES
from lab.key import SettingsError, require, shown, text_of
from lab.meeting import HERE, Team, meet
from lab.settings import split_words

if TYPE_CHECKING:
    from lab.settings import Settings

WAIT = 30.0
"""Seconds a process waits for the others, unless it is told."""
FAREWELL_SECONDS = 2.0
"""How long a process that ends too soon gives its reason time to arrive."""


def add_options(command: argparse.ArgumentParser):
    """The options of several processes."""
    group = command.add_argument_group(
        "several processes", "one run over the devices of all; the same command for each but for --process"
    )
    group.add_argument("--coordinator", metavar="HOST:PORT", help="where process 0 is, and a port that is free there")
    group.add_argument("--processes", type=int, metavar="N", help="how many there are")
    group.add_argument("--process", type=int, metavar="I", help="which this is, from 0; 0 tells and writes")
    group.add_argument("--wait", type=float, metavar="SECONDS", help=f"for the others to come; default {WAIT:g}")


def team(given: argparse.Namespace) -> Team | None:
    """The team the options describe; none where they are left out.

    Raises:
        SettingsError: one is missing or cannot be.
    """
    needed = {
        "--coordinator": given.coordinator, "--processes": given.processes, "--process": given.process,
    }  # fmt: skip
    missing = [name for name, value in needed.items() if value is None]
    if len(missing) == len(needed) and given.wait is None:
        return None
    require(not missing, f"{' and '.join(missing)}: left out; several processes need {', '.join(needed)}")
    number, wait = given.processes, WAIT if given.wait is None else given.wait
    require(
        1 <= number <= MOST_DEVICES,
        f"--processes {number}: must be 1 to {MOST_DEVICES}, as each needs a device and there are at most "
        f"{MOST_DEVICES}; use fewer with more devices each",
    )
    require(
        0 <= given.process < number,
        f"--process {given.process}: must be 0 to {number - 1}; give each of the {number} its own number",
    )
    require(0 < wait <= 3600, f"--wait {wait:g}: must be above 0, at most 3600 seconds; leave it out for {WAIT:g}")
    host, _, port = given.coordinator.rpartition(":")
    host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    fits = bool(host) and not set(host) & set(" []/,") and port.isascii() and port.isdecimal()
    require(
        fits and 1 <= int(port[:6]) <= 65535,
        f"--coordinator {shown(given.coordinator)}: must be HOST:PORT, the port 1 to 65535, such as 127.0.0.1:8600",
    )
    return Team(host, int(port), number, given.process, wait)


def terms(team: Team, settings: "Settings", against: list[str] | None) -> dict[str, str]:
    """What all processes must agree on, by name.

    Raises:
        SettingsError: the devices of a run cannot be shared among them.
    """
    for side in (settings, settings.replace(**split_words(against or []))):
        require(
            side.devices % team.processes == 0,
            f"devices={side.devices}: counts those of all processes, and {team.processes} processes cannot share "
            f"{side.devices} evenly; use a multiple of {team.processes}, at most {MOST_DEVICES}",
        )
    return {
        "the version of JAX": version("jax"),
        **{name: text_of(value) for name, value in settings.to_dict().items()},
        "--against": " ".join(against or []) or "none",
    }


def together(team: Team, terms: dict[str, str], train: Callable[[], int]) -> int:
    """Meet the others and train; returns what `train` returned.

    A process that fails, or hears that another has, ends here: to leave by the usual way JAX would wait for the others.

    Raises:
        SettingsError: they could not meet, or do not agree.
    """
    meeting = meet(team, terms)
    leaving = threading.Lock()

    def leave(sentence: str, status: int = 2, heard: bool = False):
        if not leaving.acquire(blocking=False):
            return
        meeting.tell(sentence if heard else f"{team.named(team.process)} has left: {sentence}")
        print(f"training-lab: {sentence}", file=sys.stderr, flush=True)
        if team.process == 0:
            meeting.see_off(FAREWELL_SECONDS)
        os._exit(status)

    def finish():
        meeting.tell("done")
        devices.part()

    signal.signal(signal.SIGTERM, lambda *_: leave("ended from outside", 143))
    meeting.watch(lambda sentence: leave(sentence, heard=True))
    _keep_standard_output()
    from lab import devices

    try:
        devices.join(team.address, team.address if team.host in HERE else None, team.processes, team.process)
        status = train()
        finish()
        return status
    except BrokenPipeError:
        finish()
        raise
    except SettingsError as refusal:
        leave(str(refusal))
    except KeyboardInterrupt:
        leave("interrupted", 130)
    except devices.Broken as error:
        # The process that left says why; that is worth more than what JAX saw of it.
        time.sleep(FAREWELL_SECONDS)
        leave(f"JAX cannot go on ({shown(str(error).partition(chr(10))[0])}); see what the other processes say")
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        leave(f"{type(error).__name__}", 1)
    time.sleep(2 * FAREWELL_SECONDS)  # The thread that was first to leave ends the process.
    return 2


def _keep_standard_output():
    """Standard output is for results: what gloo writes there about its connections goes nowhere."""
    with contextlib.suppress(OSError):
        kept = os.dup(1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout = os.fdopen(kept, "w", encoding="utf-8")
