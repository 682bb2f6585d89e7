"""Services that may die at any statement, and a world in which somebody starts the next one.

A `World` is one database with a clock that stands still. Its services run in this process, but
nothing of one survives its death: its connections are gone, its loops are ended, its executor is
deaf and dumb. What its executors were told and what they said is kept in one `Chronicle`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec
from aiosched.core.values.messages import Attempt, AttemptKey, Deferral, Outcome, Report
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from aiosched.errors import AioschedError
from aiosched.scheduler.service import Scheduler
from tests.faults.injection import Faults, Life, When, nth
from tests.patience import PATIENCE
from tests.scheduler.harness import NEW_YEAR, Running, ScriptedExecutor, register, settings_for_tests

Script = Callable[["MortalExecutor", Attempt], None]


class Entry(NamedTuple):
    """One line of a chronicle: what happened to an attempt (or callback), in which service's life."""

    what: str  # handed: to an executor; an outcome; died: all attempts of that life
    life: int
    attempt: Attempt | None = None


Chronicle = list[Entry]


class MortalExecutor(ScriptedExecutor):
    """Ends attempts by a script, fires triggers and runs callbacks at once, and dies with its service."""

    def __init__(self, clock: FakeClock, script: Script, chronicle: Chronicle, life: int) -> None:
        super().__init__(clock, script=script)  # type: ignore[arg-type]
        self.chronicle, self.life, self.alive = chronicle, life, True

    def submit(self, attempts: Sequence[Attempt]) -> None:
        if not self.alive:
            return
        self.chronicle.extend(Entry("handed", self.life, attempt) for attempt in attempts)
        super().submit(attempts)
        for attempt in attempts:
            if attempt.trigger is not None or attempt.callback is not None:
                self._loop.call_soon(self._end_elsewhere, attempt)

    def _end_elsewhere(self, attempt: Attempt) -> None:
        if self.alive and attempt.key in self.triggers:
            self.fire(attempt, "event")
        elif self.alive and attempt.key in self.callbacks:
            self.report(attempt, Outcome.SUCCESS)

    def _play(self, script: Any, attempt: Attempt) -> None:
        if self.alive:
            super()._play(script, attempt)

    def report(self, attempt: Attempt | AttemptKey, outcome: Outcome, **details: Any) -> Report:
        key = attempt.key if isinstance(attempt, Attempt) else attempt
        place = self._place(key)
        found = None if place is None else place.get(key)
        if self.alive:
            self.chronicle.append(Entry(outcome.value, self.life, found))
        return super().report(key, outcome, **details)

    def die(self) -> None:
        self.alive = False
        self.chronicle.append(Entry("died", self.life))


def real_try(attempt: Attempt, retries: int) -> int:
    """The number of an attempt's try, lost ones not counted; `retries` is what its task says."""
    return attempt.key.try_number - (attempt.max_tries - retries)


def waiting() -> Deferral:
    """What a task that defers asks for."""
    return Deferral(classpath="triggers.Wait", kwargs="{}", next_method="go_on", next_kwargs="{}")


@dataclass
class Service:
    """One scheduler of the world."""

    number: int
    scheduler: Scheduler
    executor: MortalExecutor
    life: Life
    start: asyncio.Task[None]
    running: Running

    @property
    def up(self) -> bool:
        return self.start.done() and not self.start.cancelled() and self.start.exception() is None


@dataclass
class World:
    """See the module docstring. The first `heirs` that die are replaced."""

    dsn: str
    clock: FakeClock
    db: Database  # the test's own connections
    faults: Faults
    script: Script
    settings: dict[str, Any] = field(default_factory=dict)
    heirs: int = 1
    services: list[Service] = field(default_factory=list)
    chronicle: Chronicle = field(default_factory=list)
    succeeded: list[set[tuple[int, int, int]]] = field(default_factory=list)  # instances in success, at each death
    born: int = 0
    deaths: int = 0

    # -- living and dying

    def add_service(self, *, victim: bool = False) -> Service:
        number = self.born = self.born + 1
        executor = MortalExecutor(self.clock, self.script, self.chronicle, number)
        settings = settings_for_tests(**{"name": f"s{number}"} | self.settings)
        scheduler = Scheduler(dsn=self.dsn, executor=executor, clock=self.clock, parse=False, settings=settings)
        life = self.faults.newborn = Life()
        if victim:
            self.faults.victim = life
        start = asyncio.create_task(scheduler.start())
        service = Service(number, scheduler, executor, life, start, Running(scheduler, executor, self.clock, self.db))
        self.services.append(service)
        return service

    async def opened(self, service: Service) -> None:
        """Return when a service has opened its database: the next life is another one's."""
        while self.faults.newborn is service.life and not service.start.done():  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    async def mind(self) -> None:
        """Bury who has died, and start who is to come after."""
        for service in [s for s in self.services if s.life.over.is_set()]:
            self.services.remove(service)
            self.deaths += 1
            service.executor.die()
            await self._end(service)
            await self._until_noticed(service.life)
            self.succeeded.append(await self._successes())
            if self.heirs:
                self.heirs -= 1
                await self.opened(self.add_service())

    async def _end(self, service: Service) -> None:
        """Let the loops of a dead service find their end; nothing of what they do reaches the database."""
        service.life.fail_statements()
        for task in (service.start, service.scheduler._life):
            while task is not None and not task.done():
                task.cancel()
                await asyncio.wait((task,), timeout=0.05)
        with contextlib.suppress(asyncio.CancelledError, AioschedError, OSError):
            await service.start
        await service.scheduler._close()

    async def _until_noticed(self, life: Life) -> None:
        """Return when PostgreSQL has noticed that this life's connections are gone."""
        query = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY($1::int[])"
        while (await self.fetch(query, life.backends))[0][0]:  # noqa: ASYNC110
            await asyncio.sleep(0.002)

    async def _successes(self) -> set[tuple[int, int, int]]:
        rows = await self.db.fetch("SELECT run_id, task_index, map_index FROM task_instance WHERE state = 'success'")
        return set(map(tuple, rows))

    # -- doing

    async def tick(self, seconds: float = 2.0) -> None:
        """Let time pass, and everybody who lives do what there is to do."""
        await self.mind()
        self.clock.advance(seconds)
        for service in self.services:
            service.scheduler.wake_loops()
        await self.quiet()

    async def quiet(self) -> None:
        """Return when everybody has settled, or somebody has died."""
        still = 0
        while still < 3:
            if any(service.life.over.is_set() for service in self.services):
                return
            for service in self.services:
                if service.start.done():
                    service.start.result()
                service.running.still_alive()
            still = still + 1 if all(s.up and not s.running.busy_with() for s in self.services) else 0
            await asyncio.sleep(0.001)

    async def until(self, condition: Callable[[], Awaitable[object]], seconds: float = 2.0) -> None:
        """Let time pass until `condition` holds."""
        while True:
            await self.tick(seconds)
            if not any(s.life.over.is_set() for s in self.services) and await condition():
                return

    async def ask(
        self, verb: str, dag_id: str | None, wait: bool = True, partition: int | None = None, **args: Any
    ) -> None:
        """Make a request once, whoever answers it; by default wait for its answer."""
        async with self.db.acquire() as conn:
            key = await inbox.send_request(
                conn, verb=verb, dag_id=dag_id, args=args, requested_by="test", partition=partition
            )

        async def answered() -> bool:
            return not await self.fetch("SELECT 1 FROM request WHERE id = $1 AND state = 'waiting'", key)

        if wait:
            await self.until(answered)

    async def runs_are(self, **expected: str) -> None:
        """Let time pass until the runs of each DAG have ended so: `d="success success"`, oldest first."""

        async def arrived() -> bool:
            rows = await self.fetch("SELECT dag_id, state FROM dag_run ORDER BY id")
            found: dict[str, list[str]] = {}
            for dag_id, state in rows:
                found.setdefault(dag_id, []).append(state)
            return all(found.get(dag_id, []) == states.split() for dag_id, states in expected.items())

        await self.until(arrived)

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        return list(await self.db.fetch(query, *args))

    async def execute(self, query: str, *args: Any) -> None:
        await self.db.execute(query, *args)


@contextlib.asynccontextmanager
async def world(
    dsn: str, faults: Faults, specs: Iterable[DagSpec], script: Script, **settings: Any
) -> AsyncIterator[World]:
    """An empty world that knows `specs`."""
    async with await Database.open(dsn, application_name="test") as db:
        await register(db, *specs)
        it = World(dsn, FakeClock(NEW_YEAR), db, faults, script, settings)
        try:
            yield it
        finally:
            faults.fail = lambda *_: None
            for service in it.services:
                if service.life.over.is_set():
                    await it._end(service)
                else:
                    await service.scheduler.stop(grace=0.0)


async def play(
    it: World,
    act: Callable[[World], Awaitable[None]],
    *,
    number: int,
    when: When,
    peers: int = 0,
    seconds: float = PATIENCE,
) -> None:
    """Let the first service die at its statement `number`, and `act` go on with those who come after."""
    it.faults.calls, it.faults.fail = 0, nth(number, when)
    it.faults.fired.clear()
    await it.opened(it.add_service(victim=True))
    async with asyncio.timeout(seconds):
        for _ in range(peers):
            await it.quiet()
            await it.mind()
            await it.opened(it.add_service())
        await act(it)
        await it.mind()
        await it.tick()


def at(seconds: float) -> str:
    """An instant for requests, from the beginning of the world."""
    return (NEW_YEAR + timedelta(seconds=seconds)).isoformat()
