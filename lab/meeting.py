"""Processes meet at the address of the first, compare what they are to train, and notice when one of them leaves.

Every other process sends the first a line of JSON: its number and its terms. When all are there the first answers each
with a line, `go` or a refusal. The connections stay open: a process says `done` when its work is, and one that is gone
without that word has left. Only the standard library is needed, so what cannot be is refused before JAX is loaded.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from lab.key import SettingsError, require, shown

HERE = ("localhost", "127.0.0.1", "::1")
"""Hosts that no other machine can reach; the first process then listens there only."""
NAME = "training-lab"
"""What every line but the terms begins with, so that a stranger is not believed."""
STRANGER_SECONDS = 5
"""How long whoever connects may take to say who it is."""


class Team(NamedTuple):
    """Which process this is, `process` of `processes`, and where the first is met; `wait` is in seconds."""

    host: str
    port: int
    processes: int
    process: int
    wait: float

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def named(self, process: int) -> str:
        return f"process {process} of {self.processes}"


class Peer:
    """A connection to another process, line by line."""

    def __init__(self, connection: socket.socket):
        self.connection = connection
        self._lines = connection.makefile("r", encoding="utf-8", errors="replace", newline="\n")

    def say(self, text: str):
        """Send one line; a process that is gone does not hear it."""
        try:
            self.connection.sendall(f"{' '.join(text.splitlines())}\n".encode())
        except OSError:
            return

    def hear(self, seconds: float | None) -> str:
        """The next line; empty where the other is gone, or silent for so long."""
        self.connection.settimeout(seconds)
        try:
            return self._lines.readline(2**20).strip()
        except OSError:
            return ""

    def answer(self, seconds: float | None) -> str:
        """The next line of another training-lab; empty for any other."""
        name, _, text = self.hear(seconds).partition(": ")
        return text if name == NAME else ""

    def close(self):
        self._lines.close()
        self.connection.close()


class Meeting:
    """The connections of this process: of the first to all others, of any other to the first."""

    def __init__(self, team: Team, peers: Mapping[int, Peer]):
        self.team = team
        self.peers = dict(peers)
        self._watching: list[threading.Thread] = []

    def tell(self, text: str):
        """Say it to all."""
        for peer in self.peers.values():
            peer.say(f"{NAME}: {text}")

    def close(self):
        """Leave; who still watches hears it."""
        for peer in self.peers.values():
            peer.close()

    def watch(self, left: Callable[[str], None]):
        """From now on call `left`, in another thread, with what there is to say when another process has left."""

        def wait_for(process: int, peer: Peer):
            said = peer.answer(None)
            if said != "done":
                left(said or f"{self.team.named(process)} has left before the end; see what it says, start all again")

        for entry in self.peers.items():
            self._watching.append(threading.Thread(target=wait_for, args=entry, daemon=True))
            self._watching[-1].start()

    def see_off(self, seconds: float):
        """Wait until the others have gone, but no longer than that."""
        until = time.monotonic() + seconds
        for thread in self._watching:
            if thread is not threading.current_thread():
                thread.join(max(0, until - time.monotonic()))


def meet(team: Team, terms: Mapping[str, str]) -> Meeting:
    """Wait for all processes; they must agree on every term.

    Raises:
        SettingsError: they do not, or one did not come in time, or this one cannot reach or be the first.
    """
    terms = {"--processes": str(team.processes), **terms}
    return _gather(team, terms) if team.process == 0 else _come(team, terms)


def _gather(team: Team, terms: Mapping[str, str]) -> Meeting:
    """The first process: wait for the others, and answer them all."""
    until = time.monotonic() + team.wait
    meeting, refusals = Meeting(team, {}), []
    with _listening(team) as listener:
        while missing := [i for i in range(1, team.processes) if i not in meeting.peers]:
            listener.settimeout(max(0.01, until - time.monotonic()))
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                have, them = ("has", "it") if len(missing) == 1 else ("have", "them")
                refusals = [
                    f"process {' and '.join(map(str, missing))} of {team.processes} {have} not come to {team.address} "
                    f"within {team.wait:g} seconds; start {them} with the same command, or give more time with --wait"
                ]
                break
            peer = Peer(connection)
            process, theirs = _introduced(peer)
            if process in missing:
                meeting.peers[process] = peer
                refusals += _differences(terms, process, theirs)[:1]
            elif process is not None:
                wrong = _differences(terms, process, theirs) or [
                    f"--process {process}: another has this number; give each of the {team.processes} its own"
                ]
                peer.say(f"{NAME}: {wrong[0]}")
            if peer not in meeting.peers.values():
                peer.close()
    meeting.tell(refusals[0] if refusals else "go")
    if refusals:
        meeting.close()
        raise SettingsError(refusals[0])
    return meeting


def _listening(team: Team) -> socket.socket:
    """The socket at which the first process waits for the others."""
    try:
        if team.host in HERE:
            family = socket.AF_INET6 if ":" in team.host else socket.AF_INET
            return socket.create_server((team.host, team.port), family=family)
        both = socket.has_dualstack_ipv6()
        return socket.create_server(
            ("", team.port), family=socket.AF_INET6 if both else socket.AF_INET, dualstack_ipv6=both
        )
    except OSError as error:
        raise SettingsError(
            f"--coordinator {team.address}: process 0 cannot listen there ({_reason(error)}); give another port"
        ) from None


def _introduced(peer: Peer) -> tuple[int | None, Mapping[str, str]]:
    """Number and terms of the process that has connected; no number for a stranger."""
    try:
        told = json.loads(peer.hear(STRANGER_SECONDS))
        return int(told["process"]), dict(told["terms"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None, {}


def _differences(terms: Mapping[str, str], process: int, theirs: Mapping[str, str]) -> list[str]:
    """A sentence for every term of the first process on which another does not agree."""
    return [
        f"{name}: process 0 has {shown(mine)} and process {process} has {shown(theirs.get(name, 'none'))}; "
        "start all with the same"
        for name, mine in terms.items()
        if theirs.get(name) != mine
    ]


def _come(team: Team, terms: Mapping[str, str]) -> Meeting:
    """Any other process: go to the first, as soon as it is there."""
    until = time.monotonic() + team.wait
    while True:
        try:
            connection = socket.create_connection((team.host, team.port), max(0.1, until - time.monotonic()))
            # A port nobody listens at may be the one the system gives this very connection.
            if connection.getsockname() != connection.getpeername():
                break
            connection.close()
        except UnicodeError:
            raise SettingsError(f"--coordinator {shown(team.address)}: is no name of a host; check it") from None
        except OSError as error:
            require(
                time.monotonic() < until,
                f"--coordinator {team.address}: process 0 could not be reached for {team.wait:g} seconds "
                f"({_reason(error)}); start it with the same command and --process 0, check the address, or give more "
                "time with --wait",
            )
        time.sleep(0.1)
    peer = Peer(connection)
    peer.say(json.dumps({"process": team.process, "terms": dict(terms)}))
    answer = peer.answer(team.wait + STRANGER_SECONDS)
    if answer != "go":
        peer.close()
        raise SettingsError(
            answer
            or f"--coordinator {team.address}: what answers there is not process 0 of this run, or has left; start "
            "process 0 anew, or check the address"
        )
    return Meeting(team, {0: peer})


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
