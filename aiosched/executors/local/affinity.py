"""Assigns attempts to workers: preferably to one that has loaded the attempt's DAG file.

Importing a DAG file takes a worker as long as running many of its small tasks. Pure.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterable, Sequence, Sized
from typing import Final, Protocol, TypeVar

from aiosched.core.values.messages import Attempt, AttemptKey, RunInfo

LOOK_AHEAD: Final = 16  # queued attempts that are searched for a DAG file loaded by the worker
PATIENCE: Final = 0.05  # seconds that an attempt can wait for a worker with its file while another one is free
_WORTH: Final = 2.0  # ... or this many import times of the file, if that is longer
_LATE: Final = 5.0  # seconds after which a file that was needed is no longer expected to be
_SHARE: Final = 0.125  # of the time of an import: the expected duration of an attempt if none is known
_LONG: Final = 1.0  # seconds: longer attempts count as this long
_FILES: Final = 10_000  # number of files with known times
LONGEST_LINE: Final = 64  # attempts of a worker, including the running one

# A DAG file, its source hash, the version of its bundle, and the team whose processes may import it.
FileKey = tuple[str | None, str | None, str | None, str | None]


class HasFiles(Protocol):
    """A worker with loaded files, which are all of one team."""

    team: str | None
    files: set[FileKey]


class HasWarmFiles(HasFiles, Protocol):
    """A worker with files that it has imported for runs to come."""

    due: dict[FileKey, float]  # when they are needed


class HasLine(HasFiles, Protocol):
    """A worker in whose line attempts can wait."""

    head_since: float  # start time of the running attempt

    @property
    def attempts(self) -> Sized:
        """The running attempt and those that wait in its line."""
        ...


Lined = TypeVar("Lined", bound=HasLine)


def code_file(run: RunInfo) -> FileKey:
    """The DAG file that attempts of a run need."""
    return run.file, run.source_hash, run.bundle_version, run.team


class FileTimes:
    """Recent durations of the attempts of each DAG file, and of its import, in seconds.

    Files without known times use the averages of others.
    """

    def __init__(self) -> None:
        self._runs: dict[FileKey | None, float] = {}  # None: of all files
        self._imports: dict[FileKey | None, float] = {}

    def observe(self, file: FileKey, run: float, imported: float) -> None:
        """Record that an attempt took `run` seconds, plus `imported` seconds for its file (0 if it was loaded)."""
        self._learn(self._runs, file, min(run, _LONG))
        if imported:
            self._learn(self._imports, file, imported)

    def observe_import(self, file: FileKey, seconds: float) -> None:
        """Record that a worker took `seconds` to import a file, without an attempt."""
        self._learn(self._imports, file, seconds)

    def run(self, file: FileKey) -> float:
        """The expected duration of one attempt; a part of its import's, or long, if no attempt is known."""
        if not self._runs:
            return min(_LONG, _SHARE * self._imports[file]) if file in self._imports else _LONG
        return self._runs.get(file) or self._runs[None]

    def imports(self, file: FileKey) -> float:
        """The longest expected wait of an attempt before another worker imports its file instead."""
        return _WORTH * (self._imports.get(file) or self._imports.get(None, 0.0))

    def patience(self, file: FileKey) -> float:
        """The longest real wait while another worker is free, regardless of expectations."""
        return max(PATIENCE, self.imports(file))

    @staticmethod
    def _learn(known: dict[FileKey | None, float], file: FileKey, seconds: float) -> None:
        if not 0 <= seconds < math.inf:  # what a worker says; its code of authors can send anything
            return
        for key in (file, None):
            before = known.get(key, seconds)
            known[key] = before + (seconds - before) / 8
        if len(known) > _FILES:
            del known[next(iter(known))]


def match(
    idle: Sequence[HasFiles], backlog: Sequence[Attempt], passed_over: int, but: Container[AttemptKey] = ()
) -> tuple[int, int] | None:
    """The positions of an idle worker (the most recently used is last) and of its next attempt.

    The first attempt goes to any worker of its team if no attempt near the front fits better, or if it was
    `passed_over` too often; None if its team has none. Attempts in `but` are left alone; the first is none of them.
    """
    look_ahead = LOOK_AHEAD if passed_over < LOOK_AHEAD else 1
    for position, attempt in enumerate(itertools.islice(backlog, look_ahead)):
        if attempt.key in but:
            continue
        file = code_file(attempt.run)
        for worker in range(len(idle) - 1, -1, -1):
            if file in idle[worker].files:
                return worker, position
    team = backlog[0].run.team
    return next(((worker, 0) for worker in range(len(idle) - 1, -1, -1) if idle[worker].team == team), None)


def behind(workers: Iterable[Lined], attempt: Attempt, times: FileTimes, *, free: bool, now: float) -> Lined | None:
    """The worker in whose line an attempt should wait; None if it should not wait in a line.

    It is the shortest line among its team's workers with its file, or among all of these if no worker is `free`, if the
    expected wait is within the limit. An idle worker with the file is better than any line.
    """
    file = code_file(attempt.run)
    patience = times.patience(file)
    best, rank = None, (True, LONGEST_LINE)
    for worker in workers:
        if worker.team != attempt.run.team:
            continue
        length, stranger = len(worker.attempts), file not in worker.files
        if not length:
            if not stranger:
                return None
        elif length < LONGEST_LINE and now - worker.head_since < patience and (stranger, length) < rank:
            best, rank = worker, (stranger, length)
    stranger, length = rank
    limit = times.imports(file) if free else PATIENCE
    return None if (free and stranger) or length * times.run(file) > limit else best


def choose_for_import(
    idle: Sequence[HasWarmFiles], file: FileKey, *, files: int, spawns: bool, now: float, until: float
) -> int | None:
    """The position of the idle worker that imports a file for a run that is expected, `until` then; None: a new worker.

    It is one of the file's team with few files, so that these are spread; without a file of another version of a
    bundle; and none that is needed before it has imported the file. There is a new one (if it `spawns`) while more
    `files` wait than workers are idle.
    """
    fitting = [
        place
        for place, worker in enumerate(idle)
        if worker.team == file[3]
        and all(known[2] == file[2] for known in worker.files)
        and not any(now - _LATE < due < until for due in worker.due.values())
    ]
    best = min(fitting, key=lambda place: len(idle[place].files), default=None)
    return None if spawns and best is not None and files > len(idle) and idle[best].files else best
