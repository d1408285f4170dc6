"""A measurement in a process of its own, where the page disturbs no timing and no program is compiled already."""

import atexit
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator

from lab import cache, tables
from lab.key import SettingsError
from lab.loops.measurement import Measured, from_dict, measure, to_dict
from lab.settings import Settings


class Apart:
    """The process that measures.

    Iterating gives what is known, again and again, until all is measured or `stop` is called.
    """

    def __init__(self, settings: Settings):
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "lab.loops.apart"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**os.environ, **cache.UNCACHED}, start_new_session=True,
        )  # fmt: skip
        # Ctrl+C reaches this process alone; what it leaves behind it ends itself.
        atexit.register(self.stop)
        table = tables.find(settings.table) if settings.task == "table" else None
        self._given = pickle.dumps((settings.to_dict(), table))
        self._stopped = False

    def __iter__(self) -> Iterator[Measured]:
        """What is known.

        Raises:
            SettingsError: the settings are refused there.
            RuntimeError: the process failed; the message is what it said.
        """
        process = self._process
        with process:
            assert process.stdin and process.stdout and process.stderr
            try:
                process.stdin.write(self._given)
                process.stdin.close()
            except BrokenPipeError:
                pass
            last = None
            for line in process.stdout:
                told = json.loads(line)
                if "refused" in told:
                    raise SettingsError(told["refused"])
                last = from_dict(told)
                yield last
            said = process.stderr.read().decode(errors="replace").strip()
        atexit.unregister(self.stop)
        if self._stopped:
            return
        if process.returncode or last is None:
            raise RuntimeError(said or f"exit status {process.returncode}")

    def stop(self):
        """End it where it stands."""
        self._stopped = True
        self._process.kill()


def main():
    """The other side: settings from standard input, a line of JSON to standard output for all that is known."""
    given, table = pickle.loads(sys.stdin.buffer.read())
    try:
        if table is not None:
            tables.keep(given["table"], table)
        for known in measure(Settings.from_dict(given)):
            print(json.dumps(to_dict(known)), flush=True)
    except SettingsError as refusal:
        print(json.dumps({"refused": str(refusal)}), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
