"""Trainings in the background: one bounded pool, first come first served, chunk by chunk, shared by all sessions.

A job trains one setting for everybody who watches it. It goes back to the end of the queue after every chunk, so that
a long run never keeps a short one waiting, and it ends when the last watcher leaves.
"""

import os
import sys
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from app.shared import Board, Shared
from lab.key import SettingsError
from lab.plan import Plan
from lab.record import Record
from lab.run import Progress, Run, Training
from lab.settings import Settings

KEPT_JOBS, KEPT_ANSWERS = 48, 128
"""Finished runs, and answers about each, that are remembered for the next visit."""

Answer = TypeVar("Answer")

_pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="training")


class Job(Shared):
    """One training; its result is the finished run."""

    def __init__(self, settings: Settings, session: str):
        super().__init__(settings, session)
        self._training: Training | None = None
        self._turn = threading.Lock()
        self._answers: OrderedDict[tuple, Future] = OrderedDict()
        self._queue()

    @property
    def run(self) -> Run | None:
        """The finished run, once there is one."""
        return self.result

    def _queue(self):
        """Take a place at the end of the queue; when the server is stopping there is none."""
        try:
            _pool.submit(self._next)
        except RuntimeError:
            self._give_up()

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
                    self.result, self._training = self._training.run(), None
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
        if self.failure is None:
            board.forget(self.settings, self)
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


board = Board(Job, KEPT_JOBS)
watch, leave = board.watch, board.leave


def answer(job: Job | None, run: Run, question: Callable[..., Answer], *about: Any) -> Answer:
    """`question(run, *about)`; kept with the job, so that it is answered once."""
    return job.ask(question, *about).result() if job else question(run, *about)
