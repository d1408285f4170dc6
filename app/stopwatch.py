"""Loops are timed one measurement at a time, each once for everybody who watches it."""

import sys
import threading

from app.shared import Board, Shared
from lab.key import SettingsError
from lab.loops.apart import Apart
from lab.loops.measurement import Measured
from lab.settings import Settings

KEPT = 32
"""Finished measurements that are remembered for the next visit."""

_one_at_a_time = threading.Lock()


class Stopwatch(Shared):
    """One measurement; `known` is what there is so far, and None while it waits for its turn."""

    gone_after = 10.0

    def __init__(self, settings: Settings, session: str):
        super().__init__(settings, session)
        self.known: Measured | None = None
        self._apart: Apart | None = None
        # A server that is stopped does not wait for it.
        threading.Thread(target=self._in_turn, name="stopwatch", daemon=True).start()

    def _in_turn(self):
        with _one_at_a_time:
            if self.abandoned:
                self._give_up()
            else:
                self._measure()

    def _measure(self):
        try:
            self._apart = Apart(self.settings)
            for known in self._apart:
                self.known = known
                if self.abandoned:
                    self._apart.stop()
            if self.known is None or self.known.doing:
                return self._give_up()
            self.result = self.known
            self.ended.set()
        except SettingsError as refusal:
            self.failure = str(refusal)
            self.ended.set()
        except Exception as error:
            print(f"timing the loops of {self.settings.command() or 'the defaults'}: {error}", file=sys.stderr)
            self.failure = (
                "The loops could not be timed: the measuring process failed. The details are in the terminal."
            )
            self.ended.set()

    def leave(self, session: str):
        """Somebody looks elsewhere; what nobody looks at ends at once."""
        super().leave(session)
        if self.abandoned and self._apart is not None and not self.ended.is_set():
            self._apart.stop()

    def _give_up(self):
        board.forget(self.settings, self)
        self.ended.set()


board = Board(Stopwatch, KEPT)
watch, leave = board.watch, board.leave


def again(settings: Settings):
    """Forget a measurement, so that the next look begins it anew."""
    work = board.all.get(settings)
    if work is not None and work.ended.is_set():
        board.forget(settings, work)
