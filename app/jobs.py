"""Trainings in the background: one bounded pool, first come first served, chunk by chunk, shared by all sessions.

A job trains one setting for everybody who watches it. It goes back to the end of the queue after every chunk, so that
a long run never keeps a short one waiting, and it ends when the last watcher leaves.
"""

import os
import sys
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from lab.key import SettingsError
from lab.plan import Plan
from lab.record import Record
from lab.run import Progress, Run, Training
from lab.settings import Settings

KEPT_JOBS, KEPT_ANSWERS, KEPT_SESSIONS = 48, 128, 1000
"""Finished runs, answers about each, and sessions that are remembered for the next visit."""
GONE_AFTER = 90.0
"""Seconds after which a watcher who has not been heard of no longer counts."""

Answer = TypeVar("Answer")

_pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="training")
_jobs: "OrderedDict[Settings, Job]" = OrderedDict()
_watched: "OrderedDict[str, Job]" = OrderedDict()
_lock = threading.Lock()


class Job:
    """One training and its result.

    Attributes:
        run: the finished run, once there is one.
        failure: one sentence, if it could not be trained.
        ended: set when it is finished, has failed or was given up.
    """

    def __init__(self, settings: Settings, session: str):
        self.settings = settings
        self.run: Run | None = None
        self.failure: str | None = None
        self.ended = threading.Event()
        self._training: Training | None = None
        self._watchers = {session: time.monotonic()}
        self._turn = threading.Lock()
        self._answers: OrderedDict[tuple, Future] = OrderedDict()
        self._queue()

    def _queue(self):
        """Take a place at the end of the queue; when the server is stopping there is none."""
        try:
            _pool.submit(self._next)
        except RuntimeError:
            self._give_up()

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
        return all(now - seen > GONE_AFTER for seen in list(self._watchers.values()))

    def _next(self):
        """Compile, or train one chunk; then queue again."""
        try:
            with self._turn:
                if self.abandoned:
                    return self._give_up()
                if self._training is None:
                    self._training = Training(Plan(self.settings))
                elif not self._training.done:
                    self._training.chunk()
                if self._training.done:
                    self.run, self._training = self._training.run(), None
                    self.ended.set()
                    return None
            self._queue()
        except SettingsError as refusal:
            self.failure = str(refusal)
            self._give_up()
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            self.failure = f"This run could not be trained: {type(error).__name__}. The details are in the terminal."
            self._give_up()

    def _give_up(self):
        with _lock:
            if self.failure is None and _jobs.get(self.settings) is self:
                del _jobs[self.settings]
        self._training = None
        self.ended.set()

    def so_far(self) -> Run | None:
        """The run as far as it got; None before its first update."""
        if self.run or self._training is None:
            return self.run
        with self._turn:
            return self._training.run() if self._training and self._training.step else self.run

    def progress(self) -> tuple[Progress, Record, Record] | None:
        """Where the training stands, its record and its held-out measurements; None before the first update."""
        if self._training is None:
            return None
        with self._turn:
            training = self._training
            return (training.progress(), training.record(), training.held_out()) if training and training.step else None

    def ask(self, question: Callable[..., Answer], *about: Any) -> "Future[Answer]":
        """`question(run, *about)` of the finished run, answered in the background once and kept."""
        with self._turn:
            asked = (question, *about)
            if asked not in self._answers:
                self._answers[asked] = _pool.submit(question, self.run, *about)
                while len(self._answers) > KEPT_ANSWERS:
                    self._answers.popitem(last=False)
            return self._answers[asked]


def watch(session: str, settings: Settings) -> Job:
    """The job of these settings, begun if need be; the session leaves what it watched before."""
    with _lock:
        job = _jobs.get(settings)
        if job is None or (job.ended.is_set() and job.run is None and job.failure is None):
            job = _jobs[settings] = Job(settings, session)
        job.watch(session)
        before = _watched.get(session)
        if before is not None and before is not job:
            before.leave(session)
        _watched[session] = job
        _watched.move_to_end(session)
        if len(_watched) > KEPT_SESSIONS:
            _watched.popitem(last=False)
        _jobs.move_to_end(settings)
        finished = [settings for settings, job in _jobs.items() if job.ended.is_set()]
        for settings in finished[: len(finished) - KEPT_JOBS]:
            del _jobs[settings]
    return job


def leave(session: str):
    """The session watches nothing any more; a training nobody watches ends with its chunk."""
    with _lock:
        job = _watched.pop(session, None)
    if job is not None:
        job.leave(session)


def answer(job: Job | None, run: Run, question: Callable[..., Answer], *about: Any) -> Answer:
    """`question(run, *about)`; kept with the job, so that it is answered once."""
    return job.ask(question, *about).result() if job else question(run, *about)
