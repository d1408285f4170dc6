"""Work that is done once for everybody who watches it, remembered, and given up when the last watcher leaves."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from lab.settings import Settings

KEPT_SESSIONS = 1000
"""Sessions that are remembered."""


class Shared:
    """One piece of work and who watches it.

    Attributes:
        settings: what it is about.
        result: what came out, once there is something.
        failure: one sentence, if nothing can come out.
        ended: set when it is finished, has failed or was given up.
        gone_after: seconds after which a watcher who has not been heard of no longer counts.
    """

    gone_after = 90.0

    def __init__(self, settings: Settings, session: str):
        self.settings = settings
        self.result: Any = None
        self.failure: str | None = None
        self.ended = threading.Event()
        self._watchers = {session: time.monotonic()}

    def watch(self, session: str):
        """Somebody is still looking."""
        self._watchers[session] = time.monotonic()

    def leave(self, session: str):
        """Somebody looks elsewhere."""
        self._watchers.pop(session, None)

    @property
    def abandoned(self) -> bool:
        """Whether nobody has looked for a while."""
        now = time.monotonic()
        return all(now - seen > self.gone_after for seen in list(self._watchers.values()))

    @property
    def given_up(self) -> bool:
        """Whether it ended with nothing to show, and can begin anew."""
        return self.ended.is_set() and self.result is None and self.failure is None


Work = TypeVar("Work", bound=Shared)


class Board(Generic[Work]):
    """Work by settings, and which of it every session watches: one piece at a time.

    Args:
        begin: (settings, session) -> work that has begun.
        kept: how many finished pieces are remembered for the next visit.
    """

    def __init__(self, begin: Callable[[Settings, str], Work], kept: int):
        self._begin, self.kept = begin, kept
        self.all: OrderedDict[Settings, Work] = OrderedDict()
        self._watched: OrderedDict[str, Work] = OrderedDict()
        self._lock = threading.RLock()

    def watch(self, session: str, settings: Settings) -> Work:
        """The work of these settings, begun if need be; the session leaves what it watched before."""
        with self._lock:
            work = self.all.get(settings)
            if work is None or work.given_up:
                work = self.all[settings] = self._begin(settings, session)
            work.watch(session)
            before = self._watched.get(session)
            if before is not None and before is not work:
                before.leave(session)
            self._watched[session] = work
            self._watched.move_to_end(session)
            if len(self._watched) > KEPT_SESSIONS:
                self._watched.popitem(last=False)
            self.all.move_to_end(settings)
            finished = [settings for settings, work in self.all.items() if work.ended.is_set()]
            for settings in finished[: len(finished) - self.kept]:
                del self.all[settings]
        return work

    def leave(self, session: str):
        """The session watches nothing any more; work nobody watches ends soon."""
        with self._lock:
            work = self._watched.pop(session, None)
        if work is not None:
            work.leave(session)

    def forget(self, settings: Settings, work: Work):
        """Have it begun anew at the next visit."""
        with self._lock:
            if self.all.get(settings) is work:
                del self.all[settings]
