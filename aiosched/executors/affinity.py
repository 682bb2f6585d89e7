"""The line in front of the workers, and which worker gets which attempt of it.

Importing a DAG file costs a worker as much as running many small tasks of it, and memory as long as it
keeps the DAGs. So a file's attempts go to as few workers as keep all of them busy: nobody waits for a
worker while another is idle. Pure.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Final, Protocol

from aiosched.core.messages import Attempt, AttemptKey

LOOK_AHEAD: Final = 16  # DAG files in line among which a worker looks for one that it has loaded
PASSED_OVER: Final = 64  # times in a row that the first in line may not be the next

FileKey = tuple[str | None, str | None]  # a DAG file and its content hash


class HasFiles(Protocol):
    """What is needed of a worker."""

    files: set[FileKey]


def file_of(attempt: Attempt) -> FileKey:
    """The DAG file that an attempt needs."""
    return attempt.run.file, attempt.run.file_hash


class Line:
    """Attempts in the order in which they came."""

    def __init__(self) -> None:
        self._attempts: OrderedDict[AttemptKey, Attempt] = OrderedDict()
        self._files: dict[FileKey, OrderedDict[AttemptKey, Attempt]] = {}
        self._passed_over = 0

    def __len__(self) -> int:
        return len(self._attempts)

    def add(self, attempt: Attempt) -> None:
        """Stand at the end."""
        self._attempts[attempt.key] = attempt
        self._files.setdefault(file_of(attempt), OrderedDict())[attempt.key] = attempt

    def remove(self, key: AttemptKey) -> Attempt | None:
        """The attempt `key` leaves the line; None when it did not stand in it."""
        attempt = self._attempts.pop(key, None)
        if attempt is not None:
            file = file_of(attempt)
            waiting = self._files[file]
            del waiting[key]
            if not waiting:
                del self._files[file]
        return attempt

    def clear(self) -> list[AttemptKey]:
        """All leave; who they were."""
        keys = list(self._attempts)
        self._attempts.clear()
        self._files.clear()
        return keys

    def take(self, idle: Sequence[HasFiles], workers: Collection[HasFiles]) -> tuple[int, Attempt]:
        """The position of an idle worker (the last used one stands last; -1: that one, or a new one) and its attempt.

        Near the front of the line, in this order: a file that an idle worker has loaded; one that none of the
        `workers` has loaded; the one with the most attempts. The first in line goes next when it was passed over
        too often.
        """
        first = next(iter(self._attempts.values()))
        if self._passed_over < PASSED_OVER:
            worker, file = self._choose(idle, workers)
        else:
            file = file_of(first)
            worker = _who_knows(file, idle)
        attempt = next(iter(self._files[file].values()))
        self._passed_over = 0 if attempt is first else self._passed_over + 1
        self.remove(attempt.key)
        return (-1 if worker is None else worker), attempt

    def _choose(self, idle: Sequence[HasFiles], workers: Collection[HasFiles]) -> tuple[int | None, FileKey]:
        near = list(itertools.islice(self._files, LOOK_AHEAD))
        for file in near:
            if (worker := _who_knows(file, idle)) is not None:
                return worker, file
        for file in near:
            if not any(file in worker.files for worker in workers):
                return None, file
        return None, max(near, key=lambda file: len(self._files[file]))


def _who_knows(file: FileKey, idle: Sequence[HasFiles]) -> int | None:
    """The position of the idle worker, among those that have loaded the file, that was used last."""
    return next((worker for worker in range(len(idle) - 1, -1, -1) if file in idle[worker].files), None)
