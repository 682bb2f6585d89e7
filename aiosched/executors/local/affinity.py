"""Which worker gets which attempt: one that has loaded the attempt's DAG file, where there is one.

Importing a DAG file costs a worker as much as running many small tasks of it. Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence, Sized
from typing import Final, Protocol, TypeVar

from aiosched.core.values.messages import Attempt

LOOK_AHEAD: Final = 16  # attempts in line that are searched for a DAG file that the worker has loaded
PATIENCE: Final = 0.05  # seconds that an attempt may wait for a worker that knows its file while another is free
_WORTH: Final = 2.0  # ... or, if that is longer, as long as importing the file so many times
_LONG: Final = 1.0  # seconds: attempts that take longer count as such
_FILES: Final = 10_000  # of which times are known
LONGEST_LINE: Final = 64  # attempts that a worker has, the one that it runs included

FileKey = tuple[str | None, str | None]  # a DAG file and its source hash


class HasFiles(Protocol):
    """What is needed of a worker."""

    files: set[FileKey]


class HasLine(HasFiles, Protocol):
    """What is needed of a worker behind whose attempt others may wait."""

    head_since: float  # when it began what it runs

    @property
    def attempts(self) -> Sized:
        """What it runs and what waits behind that."""
        ...


Lined = TypeVar("Lined", bound=HasLine)


def file_of(attempt: Attempt) -> FileKey:
    """The DAG file that an attempt needs."""
    return attempt.run.file, attempt.run.source_hash


class FileTimes:
    """How long attempts of each DAG file take, and its import: seconds, as they were lately.

    What is not known of a file is taken to be as it is of others.
    """

    def __init__(self) -> None:
        self._runs: dict[FileKey | None, float] = {}  # None: of all files
        self._imports: dict[FileKey | None, float] = {}

    def observe(self, file: FileKey, run: float, imported: float) -> None:
        """An attempt took `run` seconds, and `imported` seconds more for its file (0 when that was loaded)."""
        self._learn(self._runs, file, min(run, _LONG))
        if imported:
            self._learn(self._imports, file, imported)

    def run(self, file: FileKey) -> float:
        """How long one attempt is expected to take; long when nothing is known."""
        return self._runs.get(file) or self._runs.get(None, _LONG)

    def imports(self, file: FileKey) -> float:
        """How long an attempt may be expected to wait, rather than have one more worker import its file."""
        return _WORTH * (self._imports.get(file) or self._imports.get(None, 0.0))

    def patience(self, file: FileKey) -> float:
        """How long it waits while another worker is free, whatever was expected."""
        return max(PATIENCE, self.imports(file))

    @staticmethod
    def _learn(known: dict[FileKey | None, float], file: FileKey, seconds: float) -> None:
        for key in (file, None):
            before = known.get(key, seconds)
            known[key] = before + (seconds - before) / 8
        if len(known) > _FILES:
            del known[next(iter(known))]


def match(idle: Sequence[HasFiles], backlog: Iterable[Attempt], passed_over: int) -> tuple[int, int]:
    """The positions of an idle worker (the last used one stands last) and of its next attempt.

    The first in line goes to any worker when none near the front fits better, and when it
    was `passed_over` too often.
    """
    look_ahead = LOOK_AHEAD if passed_over < LOOK_AHEAD else 1
    for position, attempt in enumerate(itertools.islice(backlog, look_ahead)):
        file = file_of(attempt)
        for worker in range(len(idle) - 1, -1, -1):
            if file in idle[worker].files:
                return worker, position
    return len(idle) - 1, 0


def behind(workers: Iterable[Lined], attempt: Attempt, times: FileTimes, *, free: bool, now: float) -> Lined | None:
    """The worker in whose line an attempt should wait; None if it should not wait in a line.

    That is the shortest line of those that know its file, or, when no worker is `free`, of all, if the line
    is expected to pass before patience ends. An idle worker that knows the file is better than any line.
    """
    file = file_of(attempt)
    patience = times.patience(file)
    best, rank = None, (True, LONGEST_LINE)
    for worker in workers:
        length, stranger = len(worker.attempts), file not in worker.files
        if not length:
            if not stranger:
                return None
        elif length < LONGEST_LINE and now - worker.head_since < patience and (stranger, length) < rank:
            best, rank = worker, (stranger, length)
    stranger, length = rank
    limit = times.imports(file) if free else PATIENCE
    return None if (free and stranger) or length * times.run(file) > limit else best
