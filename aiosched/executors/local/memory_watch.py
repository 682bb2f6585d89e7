"""Notices worker processes that use more memory than they may.

Counted is the memory of a worker and of all processes that it started: what they share once, and no pages of files, as
of an index that a task has mapped. Of a plain function it is what has been added since the function began; of a process
that coroutines or triggers share it is everything. Needs /proc.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from aiosched import leftovers
from aiosched.core.values.messages import Attempt
from aiosched.executors.local.worker_link import WorkerLink
from aiosched.executors.worker.processes import own_memory, share_of_memory
from aiosched.sizes import in_units

PERIOD: Final = 0.25  # seconds between two looks


class MemoryWatch:
    """Looks at those of `workers` (by number) that have a limit, and calls `exceeded` for one that is above it.

    `limit`: bytes, for all workers; None: only attempts that name one in their executor_config have one.
    """

    def __init__(
        self, workers: Mapping[int, WorkerLink], limit: int | None, exceeded: Callable[[WorkerLink, str], None]
    ) -> None:
        self._workers, self._limit, self._exceeded = workers, limit, exceeded
        self._looking: asyncio.Task[None] | None = None

    def began(self, link: WorkerLink) -> None:
        """An attempt begins in a worker."""
        if self._limit_of(link) is None:
            return
        link.memory_before = 0 if link.is_async or link.pid is None else own_memory(link.pid) or 0
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def close(self) -> None:
        """Stop looking."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look(self) -> None:
        while watched := {
            link: (link.pid, _head(link), limit, link.memory_before + limit)
            for link in self._workers.values()
            if link.pid is not None and not link.killed and (limit := self._limit_of(link)) is not None
        }:
            greedy = await asyncio.to_thread(
                lambda: [link for link, (pid, _, _, most) in watched.items() if memory_of(pid, most) > most]
            )
            for link in greedy:
                _, head, limit, _ = watched[link]
                if _head(link) is head:
                    self._exceeded(link, f"used more than {in_units(limit)} of memory")
            await asyncio.sleep(PERIOD)
        self._looking = None

    def _limit_of(self, link: WorkerLink) -> int | None:
        head = _head(link)
        if link.is_async:
            return self._limit if head is not None or link.triggers else None
        return None if head is None else (head.executor_config or {}).get("memory_limit", self._limit)


def _head(link: WorkerLink) -> Attempt | None:
    """The attempt that runs in a worker of plain functions; the oldest one of a shared worker."""
    return next(iter(link.attempts.values()), None)


def memory_of(pid: int, most: int) -> int:
    """The memory of a process and its descendants in bytes; exact if it is above `most`, otherwise quickly found."""
    pids = (pid, *leftovers.descendants_of([pid]))
    used = sum(own_memory(one) or 0 for one in pids)
    if used <= most or len(pids) == 1:
        return used
    shares = [share_of_memory(one) for one in pids]  # of processes of another user it cannot always be read
    return sum(own_memory(one) or 0 if share is None else share for one, share in zip(pids, shares, strict=True))
