"""DAG files that workers import before the attempts that need them: which wait, which are being imported, which failed.

An import is no attempt: it holds no slot, and nothing is reported about it. Attempts of its file wait until it has
ended, in whatever way, but not for long; those of other files are sent to other workers. Does not live here: which
worker imports a file (queueing.py, code_workers.py).
Source: decision 55.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from aiosched.core.values.messages import Attempt, AttemptKey, RunInfo
from aiosched.executors.local.affinity import FileKey, code_file
from aiosched.executors.local.worker_link import WorkerLink

logger: logging.Logger = logging.getLogger(__name__)

MOST_WAITING: Final = 256  # files
PATIENCE: Final = 5.0  # seconds that attempts wait at least for an import of their file that has begun
GRACE: Final = 5.0  # seconds beyond the time limit of imports, which the worker itself enforces
_MOST_REMEMBERED: Final = 10_000


@dataclass(slots=True, eq=False)
class _Import:
    link: WorkerLink
    patience: asyncio.TimerHandle
    end: asyncio.TimerHandle
    held: list[Attempt] = field(default_factory=list)  # in order
    holds: bool = True  # attempts still wait for it


class Warming:
    """See the module docstring. `release` puts attempts back into the queue; `give_up` ends a worker that hangs.

    At most `most` files are imported at a time, each for at most `time_limit` seconds.
    """

    def __init__(
        self,
        release: Callable[[list[Attempt]], None],
        give_up: Callable[[WorkerLink], None],
        *,
        most: int,
        time_limit: float,
    ) -> None:
        self._release, self._give_up = release, give_up
        self._most, self._time_limit = most, time_limit
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[FileKey, RunInfo] = {}  # the soonest first
        self._under_way: dict[FileKey, _Import] = {}
        self._unsuitable: dict[FileKey, None] = {}  # these failed, and would fail again
        self.held: int = 0  # attempts that wait for an import

    def __bool__(self) -> bool:
        return bool(self._waiting or self._under_way)

    def add(self, runs: Iterable[RunInfo], is_warm: Callable[[FileKey], bool]) -> None:
        """Note files that are needed soon, in this order, unless a worker has them."""
        for run in runs:
            file = code_file(run)
            if len(self._waiting) == MOST_WAITING:
                return
            if file not in self._under_way and self.suits(run) and not is_warm(file):
                self._waiting.setdefault(file, run)

    def suits(self, run: RunInfo) -> bool:
        """Whether the file can be imported beforehand, as far as known."""
        return code_file(run) not in self._unsuitable

    @property
    def waiting(self) -> int:
        """How many files are to be imported yet."""
        return len(self._waiting)

    @property
    def under_way(self) -> int:
        """How many files are being imported."""
        return len(self._under_way)

    @property
    def next(self) -> RunInfo | None:
        """What is to be imported now, if anything."""
        return next(iter(self._waiting.values()), None) if len(self._under_way) < self._most else None

    def begin(self, link: WorkerLink, patience: float) -> None:
        """Have a worker import the `next` file. Attempts wait for it for `patience` seconds, or longer."""
        file = next(iter(self._waiting))
        run = self._waiting.pop(file)
        self._under_way[file] = _Import(
            link,
            self._loop.call_later(max(PATIENCE, patience), self._let_go, file),
            self._loop.call_later(self._time_limit + GRACE, self._overdue, file),
        )
        link.warm(run)

    def hold(self, attempt: Attempt) -> bool:
        """Keep an attempt whose file is being imported; returns whether it is kept."""
        file = code_file(attempt.run)
        self._waiting.pop(file, None)  # its turn has not come: the attempt imports it
        under_way = self._under_way.get(file)
        if under_way is None or not under_way.holds:
            return False
        under_way.held.append(attempt)
        self.held += 1
        return True

    def remove(self, key: AttemptKey) -> bool:
        """Remove an attempt; returns whether it waited here."""
        for under_way in self._under_way.values():
            for attempt in under_way.held:
                if attempt.key == key:
                    under_way.held.remove(attempt)
                    self.held -= 1
                    return True
        return False

    def ended(self, link: WorkerLink, run: RunInfo, error: str | None) -> None:
        """The import of a file in a worker has ended; after an `error` only its next source is imported again."""
        if error is not None:
            logger.info("%s is not imported before its tasks are due: %s", run.file, error)
            self._unsuitable[code_file(run)] = None
            if len(self._unsuitable) > _MOST_REMEMBERED:
                del self._unsuitable[next(iter(self._unsuitable))]
        under_way = self._under_way.get(code_file(run))
        if under_way is not None and under_way.link is link:
            del self._under_way[code_file(run)]
            under_way.patience.cancel()
            under_way.end.cancel()
            self._free(under_way)

    def gone(self, link: WorkerLink) -> None:
        """The worker has ended, or is about to: what it was importing may be to blame."""
        runs, link.warming = list(link.warming.values()), {}
        for run in runs[:1]:
            self.ended(link, run, None if link.blameless else link.exit or "its worker process has ended")

    def close(self) -> list[Attempt]:
        """Begin nothing more; returns the attempts that wait."""
        self._waiting.clear()
        held = list[Attempt]()
        for under_way in self._under_way.values():
            under_way.patience.cancel()
            under_way.end.cancel()
            held += under_way.held
        self._under_way.clear()
        self.held = 0
        return held

    def _let_go(self, file: FileKey) -> None:
        under_way = self._under_way[file]
        under_way.holds = False
        self._free(under_way)

    def _free(self, under_way: _Import) -> None:
        held, under_way.held = under_way.held, []
        self.held -= len(held)
        if held:
            self._release(held)

    def _overdue(self, file: FileKey) -> None:
        self._give_up(self._under_way[file].link)
