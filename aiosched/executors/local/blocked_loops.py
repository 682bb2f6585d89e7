"""Detects, reports and counts async workers with a blocked event loop; they get no new attempts.

One task that calls `time.sleep` stops all others in its worker. They are not ended: the loop may run again in a moment.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiosched.core.values.messages import AttemptKey
from aiosched.executors.local.worker_link import WorkerLink
from aiosched.executors.worker.loop_heartbeat import PERIOD

logger: logging.Logger = logging.getLogger(__name__)

NOTICED: Final = 1.0  # seconds without a heartbeat after which a loop counts as blocked
MOST_SHOWN: Final = 1000  # attempts of one worker
MOST_BLOCKED: Final = 4  # blocked workers for which additional ones are started


@dataclass(slots=True)
class Blockage:
    """A blocked loop. `since`: monotonic second of its last heartbeat."""

    since: float
    by: AttemptKey | None = None  # None: not known yet
    who: str = "a task"  # the same, for display
    where: str = ""


class BlockedLoops:
    """Checks those of `workers` (by number) that run coroutines, four times a second while there are any.

    A worker blocked for longer than `limit` seconds gets no new attempts.
    """

    def __init__(self, workers: Mapping[int, WorkerLink], *, limit: float) -> None:
        self._workers, self._limit = workers, limit
        self._loop = asyncio.get_running_loop()
        self._now: dict[int, Blockage] = {}  # by the number of the worker
        self._timer: asyncio.TimerHandle | None = None
        self.total: int = 0  # how often a loop was blocked

    def choose(self, workers: Sequence[WorkerLink], processes: int) -> WorkerLink | None:
        """The worker for the next attempt; None if another one is to be started.

        There are up to `processes` workers, plus a limited number of replacements for blocked ones.
        """
        if self._timer is None:
            self._timer = self._loop.call_later(PERIOD, self._check)
        open_ = [link for link in workers if self._takes_new(link)] if self._now else workers
        if not open_ and len(workers) >= processes + MOST_BLOCKED:
            open_ = workers
        best = min(open_, key=lambda link: len(link.attempts), default=None)
        return None if best is None or (best.attempts and len(open_) < processes) else best

    def close(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()

    def _takes_new(self, link: WorkerLink) -> bool:
        blockage = self._now.get(link.number)
        return blockage is None or time.monotonic() - blockage.since < self._limit

    def figures(self) -> list[dict[str, Any]]:
        """Metrics: which attempts are blocked, since when (seconds since 1970), by which attempt and where."""
        behind = time.time() - time.monotonic()
        return [
            {
                "since": round(behind + blockage.since, 3),
                "by": blockage.by,
                "who": blockage.who,
                "where": blockage.where,
                "attempts": list(link.attempts)[:MOST_SHOWN],
            }
            for link in self._workers.values()
            if (blockage := self._now.get(link.number)) is not None
        ]

    def _check(self) -> None:
        self._timer = None
        now = time.monotonic()
        links = [link for link in self._workers.values() if link.sign is not None and link.attempts]
        found: dict[int, Blockage] = {}
        for link in links:
            last = link.sign.last if link.sign is not None else 0.0
            if last and now - last >= NOTICED:
                found[link.number] = self._blockage(link, last)
        for link in links:
            if link.number in self._now and link.number not in found:
                logger.info("the event loop of worker process %s runs again", link.pid)
        self._now = found
        if links:
            self._timer = self._loop.call_later(PERIOD, self._check)

    def _blockage(self, link: WorkerLink, last: float) -> Blockage:
        blockage = self._now.get(link.number)
        if blockage is None or blockage.since != last:
            blockage = Blockage(last)
            self.total += 1
        if not blockage.where:
            blocker = link.sign.blocker if link.sign is not None else None
            if blocker is not None:
                blockage.by, blockage.where = blocker.key, blocker.where
                self._log_blocked(link, blockage)
        return blockage

    def _log_blocked(self, link: WorkerLink, blockage: Blockage) -> None:
        attempt = link.attempts.get(blockage.by) if blockage.by is not None else None
        if attempt is not None:
            blockage.who = f"{attempt.run.dag_id}.{attempt.task_id} (run {attempt.run.run_id})"
        logger.warning(
            "%s blocks the event loop of worker process %s, with %d attempts in it, at %s",
            blockage.who, link.pid, len(link.attempts), blockage.where,
        )  # fmt: skip
