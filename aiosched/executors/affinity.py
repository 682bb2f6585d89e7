"""Which idle worker gets which attempt: one that has loaded the attempt's DAG file, where there is one.

Importing a DAG file costs a worker as much as running several small tasks of it. Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from aiosched.core.messages import Attempt

LOOK_AHEAD: Final = 16  # attempts in line among which a worker looks for a DAG file that it has loaded

FileKey = tuple[str | None, str | None]  # a DAG file and its content hash


class HasFiles(Protocol):
    """What is needed of a worker."""

    files: set[FileKey]


def file_of(attempt: Attempt) -> FileKey:
    """The DAG file that an attempt needs."""
    return attempt.run.file, attempt.run.file_hash


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
