"""The workers for coroutines and triggers: those of one process share its modules, so all of them have the same code.

There are separate workers for each team, and each version of a bundle that is in use; these end when they have been
idle for a while. The workers of the DAGs folder as it is now, for DAGs of no team, stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Protocol

from aiosched.bundles.places import NEWEST
from aiosched.core.values.messages import RunInfo
from aiosched.executors.local.affinity import code_file
from aiosched.executors.local.blocked_loops import BlockedLoops
from aiosched.executors.local.warming import Warming
from aiosched.executors.local.worker_link import WorkerLink


class AsyncHost(Protocol):
    """Starts and ends workers."""

    def spawn(self, *, is_async: bool, team: str | None, watches: bool = False) -> WorkerLink: ...
    def dismiss(self, link: WorkerLink) -> None: ...


class CodeWorkers:
    """Chooses among `links`, all workers of the host; at most about `most` for coroutines of one code."""

    def __init__(
        self, host: AsyncHost, links: Mapping[int, WorkerLink], loops: BlockedLoops, *, most: int, idle_time: float
    ) -> None:
        self._host, self._links, self._loops = host, links, loops
        self._most, self._idle_time = most, idle_time
        self._loop = asyncio.get_running_loop()

    def for_coroutine(self, run: RunInfo) -> WorkerLink:
        """A worker for a coroutine of this run's code and team."""
        links = [
            link
            for link in self._links.values()
            if link.is_async and not (link.watches or link.retiring) and (link.team, link.code) == (run.team, run.code)
        ]
        if (link := self._loops.choose(links, self._most)) is None:
            link = self._host.spawn(is_async=True, team=run.team)
            link.code = run.code
        return link

    def prepare(self, runs: Iterable[RunInfo], warming: Warming) -> None:
        """Have the worker that would get a coroutine import these files, unless it has them."""
        for run in runs:
            link, file = self.for_coroutine(run), code_file(run)
            if warming.suits(run) and file not in link.files and run not in link.warming.values():
                link.warm(run)

    def for_triggers(self, run: RunInfo) -> WorkerLink:
        """A new worker for triggers of this run's code and team."""
        link = self._host.spawn(is_async=True, team=run.team, watches=True)
        link.code = run.code
        return link

    def ended(self, link: WorkerLink) -> None:
        """Something has ended in a worker: if it was the last thing, the worker may end after a while."""
        may_end = link.team is not None or link.code != NEWEST
        if link.is_async and may_end and not link.attempts and not link.triggers:
            link.idle_since = self._loop.time()
            self._loop.call_later(self._idle_time, self._end_if_idle, link, link.idle_since)

    def _end_if_idle(self, link: WorkerLink, since: float) -> None:
        if link.idle_since == since and not (link.attempts or link.triggers or link.warming or link.retiring):
            self._host.dismiss(link)
