"""A fleet of both versions on one database, requests that arrive all the time, and people who look at its pages."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import httpx2

from aiosched.core.values.ids import PARTITIONS, partition_of
from aiosched.db.server.engine import Database
from tests.faults.two_versions import CHAINS, CLOCKED, TICKS, Version, names
from tests.patience import PATIENCE

PAUSE = 0.4  # seconds between two requests
LOOK = 1.0  # seconds between two rounds of a person's pages
PAGES = (
    "summary", "dags", "runs", "commands", "pools", "schedulers", "backfills", "assets", "files", "timeline",
    f"dags/{CLOCKED}/grid", f"dags/{CLOCKED}/runs/latest/tasks", "metrics/summary",
)  # fmt: skip

OWNED = """
    SELECT count(*) FROM partition_lease JOIN scheduler AS s USING (incarnation) WHERE s.name = $1 AND NOT s.draining
"""
SUCCEEDED = "SELECT count(*) FROM dag_run WHERE state = 'success'"
FAILED = "SELECT count(*) FROM dag_run WHERE state = 'failed'"
UNFINISHED = "SELECT count(*) FROM dag_run WHERE state IN ('queued', 'running')"
SCHEDULED = f"SELECT count(*) FROM dag_run WHERE dag_id = '{CLOCKED}'"
WAITING = "SELECT count(*) FROM request WHERE state = 'waiting'"
REFUSED = "SELECT dag_id, result ->> 'error' AS error FROM request WHERE state = 'refused' AND verb = 'trigger'"
LEFT = (
    "SELECT (SELECT count(*) FROM task_report) + (SELECT count(*) FROM callback_outbox) + (SELECT sum(used) FROM pool)"
)
REQUEST = """
    INSERT INTO request (partition, dag_id, verb, args, requested_by)
    VALUES ($1, $2, 'trigger', json_build_object('run_id', $3::text), 'test')
"""
UNPAUSE = """
    INSERT INTO request (partition, dag_id, verb, requested_by)
    SELECT partition, dag_id, 'unpause', 'test' FROM unnest($1::text[], $2::smallint[]) AS d (dag_id, partition)
"""
UNPAUSED = "SELECT count(DISTINCT dag_id) FROM request WHERE verb = 'unpause' AND state = 'applied'"


@dataclass
class Fleet:
    """Both versions on one database, and requests that arrive all the time."""

    db: Database
    old: Version
    new: Version
    webs: tuple[Version, ...] = ()
    asked: list[tuple[str, str]] = field(default_factory=list)

    @property
    def processes(self) -> tuple[Version, ...]:
        return (self.old, self.new, *self.webs)

    async def number(self, query: str, *args: object) -> int:
        found: int = await self.db.fetchval(query, *args)
        return found

    async def until(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        """Wait for something that must happen while no process ends by itself."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not await condition():
                    await asyncio.sleep(0.05)
                    for process in self.processes:
                        process.check()
        except TimeoutError:
            words = "\n".join(process.last_words() for process in self.processes)
            raise AssertionError(f"waited {PATIENCE:.0f} s for {what}:\n{words}") from None

    async def owning_all(self, version: Version) -> None:
        await self._owning(version, PARTITIONS)

    async def sharing(self, version: Version) -> None:
        """Wait until a version that has joined has its share: by load, so not always the half."""
        await self._owning(version, PARTITIONS // 8)

    async def _owning(self, version: Version, partitions: int) -> None:
        async def is_so() -> bool:
            return await self.number(OWNED, version.name) >= partitions

        await self.until(is_so, f"{version.name} to own {partitions} partitions")

    async def all_dags(self) -> None:
        """Wait until the owner knows every DAG: requests for those that it does not know are refused."""

        async def is_known() -> bool:
            async with self.db.acquire() as conn:
                await conn.execute(UNPAUSE, names(), list(map(partition_of, names())))
                await conn.execute("SELECT pg_notify('aiosched_news', 'requests ')")
            await self.until(self.is_answered, "answers")
            return await self.number(UNPAUSED) == CHAINS

        await self.until(is_known, "the DAGs to be known")

    async def is_answered(self) -> bool:
        return await self.number(WAITING) == 0

    async def looked(self, *visitors: Visitor) -> None:
        """Wait until each of them has seen every page."""

        async def is_so() -> bool:
            return all(visitor.rounds for visitor in visitors)

        await self.until(is_so, "every page of the web servers")

    async def more_runs(self, count: int = 6) -> None:
        """Wait until so many more runs have succeeded."""
        goal = await self.number(SUCCEEDED) + count

        async def is_so() -> bool:
            return await self.number(SUCCEEDED) >= goal

        await self.until(is_so, f"{count} more runs")

    async def stop(self, version: Version) -> None:
        """Stop one version in order, while requests arrive."""
        version.ask_to_stop()
        await self.ended(version)

    async def ended(self, version: Version) -> None:
        """Wait until a process that was asked to end has done so."""

        async def has_ended() -> bool:
            return version.has_ended()

        await self.until(has_ended, f"{version.name} to end")

    async def finished(self) -> None:
        """Wait until every request is answered, the schedule is at its end, and every run has ended."""

        async def is_so() -> bool:
            if await self.number(SCHEDULED) < TICKS:
                return False
            return await self.number(WAITING) + await self.number(UNFINISHED) == 0

        await self.until(is_so, "all runs to end")

    async def nothing_left(self) -> None:
        """Wait until no report and no callback waits, and no slot is used."""

        async def is_so() -> bool:
            return await self.number(LEFT) == 0

        await self.until(is_so, "nothing to be left")

    async def keep_asking(self, pause: float) -> None:
        """Request one run after the other."""
        while True:
            dag_id = names()[len(self.asked) % len(names())]
            run_id = f"asked{len(self.asked)}"
            async with self.db.acquire() as conn:
                await conn.execute(REQUEST, partition_of(dag_id), dag_id, run_id)
                await conn.execute("SELECT pg_notify('aiosched_news', $1)", f"requests {partition_of(dag_id)}")
            self.asked.append((dag_id, run_id))
            await asyncio.sleep(pause)


@contextlib.asynccontextmanager
async def asking(fleet: Fleet, pause: float = PAUSE) -> AsyncIterator[None]:
    task = asyncio.create_task(fleet.keep_asking(pause))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@dataclass
class Visitor:
    """A person who looks at the pages of one web server.

    `answers` counts status codes, `rounds` is how often every page was asked for; `failures` are answers from 500 on;
    `unanswered` counts requests without one.
    """

    web: Version
    rounds: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    unanswered: int = 0

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=f"http://127.0.0.1:{self.web.port}/api/v1/", timeout=30.0)

    async def ready(self) -> None:
        """Wait until the server answers."""
        async with asyncio.timeout(PATIENCE), self.client() as client:
            while True:
                with contextlib.suppress(httpx2.TransportError):
                    await client.get("dags")
                    return
                self.web.check()
                await asyncio.sleep(0.1)

    async def look(self) -> None:
        """Ask for every page, again and again, once the server answers."""
        await self.ready()
        async with self.client() as client:
            while True:
                for page in PAGES:
                    await self._ask(client, "GET", page)
                self.rounds += 1
                await asyncio.sleep(LOOK)

    async def trigger(self, dag_id: str, run_id: str) -> None:
        """Trigger a run; the request is stored when this returns."""
        async with self.client() as client:
            await self._ask(client, "POST", f"dags/{dag_id}/runs", {"run_id": run_id})

    async def _ask(self, client: httpx2.AsyncClient, method: str, page: str, body: object = None) -> None:
        try:
            answer = await client.request(method, page, json=body)
        except httpx2.TransportError:
            self.unanswered += 1
            return
        self.answers[answer.status_code] += 1
        if answer.status_code >= 500:
            self.failures.append(f"{self.web.name}: {method} {page}: {answer.status_code} {answer.text:.300}")


@contextlib.asynccontextmanager
async def looking(*visitors: Visitor) -> AsyncIterator[None]:
    """Visitors who look while the block lasts."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(visitor.look()) for visitor in visitors]
        yield
        for task in tasks:
            task.cancel()
