"""A scheduler under test: real PostgreSQL, a clock that stands still, an executor that does what the test says.

    async with running(dsn, clock, dag("d", task("a"), task("b", after="a"))) as it:
        await it.trigger("d", run_id="r")
        await it.finish("a")
        ...
        await it.assert_consistent()

`settled` returns when the scheduler has nothing left to decide, store or hand out: it rests
and waits for a report, for the clock or for news. Nothing here sleeps for a fixed time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.config import Settings
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.requests.stored import decode
from aiosched.core.timetables.parse import parse_schedule
from aiosched.core.values.ids import PARTITIONS, partition_of
from aiosched.core.values.messages import Attempt
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from aiosched.errors import Refused
from aiosched.parsing.store import register_specs
from aiosched.scheduler import service
from aiosched.scheduler.loops.callbacks import to_deliver
from aiosched.scheduler.membership import incarnation, lease
from aiosched.scheduler.partitions import recounting
from aiosched.scheduler.partitions.ownership import give_back
from aiosched.scheduler.run_handle import RunHandle
from aiosched.scheduler.service import Scheduler
from aiosched.scheduler.session.events import SchedulerEvent
from aiosched.scheduler.session.session import Session
from tests.patience import PATIENCE
from tests.scheduler.invariants import assert_consistent, assert_memory_is_a_copy
from tests.scheduler.scripted_executor import ScriptedExecutor, succeeding

__all__ = [
    "NEW_YEAR",
    "Running",
    "ScriptedExecutor",
    "assert_consistent",
    "chain",
    "dag",
    "dag_in",
    "keys_of",
    "number_runs",
    "register",
    "running",
    "settings_for_tests",
    "succeeding",
    "task",
]

_PAUSE = 0.01  # seconds between two sessions, however many have failed in a row

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)  # where the clock fixture stands


# -- DAGs -------------------------------------------------------------------------------------


def task(task_id: str, *, after: str | Iterable[str] = (), **options: Any) -> TaskSpec:
    """A task behind those named in `after`."""
    upstream = (after,) if isinstance(after, str) else tuple(sorted(after))
    return TaskSpec(task_id=task_id, operator="Scripted", upstream=upstream, **options)


def dag(dag_id: str, *tasks: TaskSpec, schedule: object = None, **options: Any) -> DagSpec:
    """A DAG of `tasks` (one task `a`, when none is given)."""
    timetable = parse_schedule(schedule, start_date=options.get("start_date"))
    return DagSpec(dag_id=dag_id, timetable=timetable, tasks=tasks or (task("a"),), **options)


def chain(dag_id: str, length: int, **options: Any) -> DagSpec:
    """A linear DAG: t0 -> t1 -> …"""
    tasks = [task(f"t{i}", after=f"t{i - 1}" if i else ()) for i in range(length)]
    return dag(dag_id, *tasks, **options)


def dag_in(partition: int) -> str:
    """A DAG id that belongs to `partition`."""
    return next(name for i in range(10_000) if partition_of(name := f"dag_{i}") == partition)


async def register(db: Database, *specs: DagSpec, now: datetime = NEW_YEAR) -> None:
    """Store DAGs as a process that embeds a scheduler does, and tell the owners."""
    async with db.transaction() as conn:
        stored = await register_specs(conn, specs, now=now)
    await inbox.notify(db, "dags", map(partition_of, stored.changed))


# -- the scheduler ----------------------------------------------------------------------------


def settings_for_tests(**values: Any) -> Settings:
    """Settings with room for everything; `parallelism=2`, `lease=3.0` and so on change one of their sections."""
    settings = Settings()
    settings.core.parallelism = 10_000
    settings.core.killed_task_cleanup_time = 0.0
    settings.logs.retention_days = 0.0
    settings.audit.retention_days = 0.0  # what is old is looked for once an hour, and here with each step
    settings.core.num_dag_runs_to_retain_rendered_fields = 0
    for name, value in values.items():
        sections = (settings.core, settings.scheduler, settings.executor, settings.database, settings.alerts)
        setattr(next(section for section in sections if name in type(section).model_fields), name, value)
    return settings


@dataclass
class Running:
    """A live scheduler and what tests do with it."""

    scheduler: Scheduler
    executor: ScriptedExecutor
    clock: FakeClock
    db: Database  # the test's own connections
    events: list[SchedulerEvent] = field(default_factory=list)
    executors: Sequence[ScriptedExecutor] = ()  # with those beside the default one

    @property
    def session(self) -> Session:
        session = self.scheduler.session
        assert session is not None
        return session

    @property
    def incarnation(self) -> int:
        return self.session.env.incarnation

    # -- doing

    async def until(self, condition: Callable[[], object], what: str | Callable[[], str] = "a condition") -> None:
        """Return when `condition` holds. Looks after every turn of the scheduler."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not condition():
                    self.still_alive()
                    await asyncio.sleep(0.001)
        except TimeoutError:
            awaited = what() if callable(what) else what
            raise AssertionError(f"waited {PATIENCE:.0f} s for {awaited}; {self.describe()}") from None

    async def settled(self) -> None:
        """Return when the scheduler has done all that it can do without further news."""
        quiet, busy = 0, ""

        def still() -> bool:
            nonlocal quiet, busy
            now_busy = self.busy_with()
            quiet, busy = (0, now_busy) if now_busy else (quiet + 1, busy)
            return quiet >= 3

        await self.until(still, lambda: f"the scheduler to settle (last seen: {busy})")

    def busy_with(self) -> str:
        """What the scheduler still has to do without further news; "" for nothing.

        A loop whose rest is over is not busy by that: while the clock stands still just before an instant, a loop looks
        at it every millisecond.
        """
        session = self.scheduler.session
        if session is None:
            return "no session"
        cache, attempts = session.cache, session.env.attempts
        busy = {
            "a session that ends": cache.unstored.is_void,
            "partitions are being read": not session.locks.loaded.is_set(),
            "news of DAGs": session.notifications.changed_dags,
            "ownership lock": session.locks.ownership.locked(),
            "the journal commits": session.env.journal._lock.locked() or session.cache.unstored.storing is not None,
            "the writer commits": session.env.side_journal._lock.locked(),
            "scripts of attempts": sum(executor.to_play for executor in self.executors),
            "reports": attempts.reports or attempts.callbacks.reports,
            "callbacks": to_deliver(session),
            "runs to store": cache.unstored.dirty or cache.unstored.pending.effects.finished,
            "runs to evaluate": cache.work.to_evaluate,
            "task instances of new runs": cache.work.incomplete and not session.membership.draining,
            "a wake-up of a loop": any(wakeup.is_set for wakeup in session.wakeups.all),
        }
        return ", ".join(what for what, is_so in busy.items() if is_so)

    def still_alive(self) -> None:
        """Raise AssertionError if it has ended by itself."""
        with contextlib.suppress(Refused):  # it is being stopped
            if (life := self.scheduler.failed).done():
                raise AssertionError(f"the scheduler has ended: {life.exception()!r}")

    def describe(self) -> str:
        cache = self.session.cache
        return (
            f"running {[(a.run.run_id, a.task_id, a.key.try_number) for a in self.executor.running.values()]}, "
            f"{cache.unfinished_runs()} unfinished runs, {len(cache.waiting)} waiting"
        )

    async def advance(self, seconds: float) -> None:
        """Move the clock and let the scheduler act on it."""
        self.clock.advance(seconds)
        self.scheduler.wake_loops()
        await self.settled()

    async def register(self, *specs: DagSpec) -> None:
        """Store DAGs (or new versions of them) and let the scheduler hear of it."""
        async with self.db.transaction() as conn:
            stored = await register_specs(conn, specs, now=self.clock.now())
        self.dags_changed(*stored.changed)
        await self.settled()

    def dags_changed(self, *dag_ids: str) -> None:
        """Let the scheduler hear that rows of DAGs have changed."""
        self.scheduler.dags_changed(dag_ids)

    async def trigger(self, dag_id: str, run_id: str | None = None, **options: Any) -> RunHandle:
        handle = await self.scheduler.trigger(dag_id, run_id=run_id, **options)
        await self.settled()
        return handle

    async def ask(self, verb: str, dag_id: str, **args: Any) -> dict[str, Any]:
        """What is answered: by the owner, or with `dry_run` by a preview of the rows."""
        if args.get("dry_run"):
            return await self.scheduler.request(decode(verb, args), dag_id)
        result = await self.request(verb, dag_id, args)
        await self.settled()
        return result

    async def request(self, verb: str, dag_id: str | None, args: Mapping[str, Any]) -> dict[str, Any]:
        """What the owner answers to a row of the inbox, whoever has written it."""
        async with self.scheduler.db.acquire() as conn:
            number = await inbox.send_request(conn, verb=verb, dag_id=dag_id, args=args, requested_by="embedded")
        answer = await inbox.wait_applied(self.scheduler.db, number, timeout=PATIENCE)
        assert answer is not None
        if answer.error is not None:
            raise answer.error
        return answer.result

    def begin_to_drain(self) -> None:
        """Begin nothing more, as one that is to be replaced; `drain` would wait for its attempts."""
        self.scheduler.draining = True
        self.scheduler.look_at_fleet()

    async def give_everything(self, taker: Running) -> None:
        """Drain until `taker` has all partitions."""
        self.begin_to_drain()
        await taker.until(lambda: len(taker.session.cache.partitions) == PARTITIONS, "all partitions to move")
        await taker.settled()

    async def drain_no_more(self) -> None:
        """Begin and take again what there is."""
        self.scheduler.draining = False
        await self.execute("UPDATE scheduler SET draining = false")

    async def leave_and_come_back(self) -> None:
        """Give all partitions away; nobody else is there, so this scheduler takes them again and reads them anew."""
        async with self.session.locks.ownership:
            await give_back(self.session, range(PARTITIONS))
        await self.until(lambda: len(self.session.cache.partitions) == PARTITIONS, "the partitions to come back")
        await self.settled()

    async def attempt(self, task_id: str, run_id: str | None = None, dag_id: str | None = None) -> Attempt:
        """The running attempt of a task, as soon as it is handed out."""
        await self.until(lambda: self.executor.find(task_id, run_id, dag_id), f"an attempt of {task_id}")
        found = self.executor.find(task_id, run_id, dag_id)
        assert found is not None
        return found

    async def trigger_of(self, task_id: str, run_id: str | None = None) -> Attempt:
        """The trigger that a task waits for, as soon as it is handed out."""
        await self.until(lambda: self._triggers_of(task_id, run_id), f"a trigger of {task_id}")
        return self._triggers_of(task_id, run_id)[0]

    def _triggers_of(self, task_id: str, run_id: str | None) -> list[Attempt]:
        triggers = self.executor.triggers.values()
        return [t for t in triggers if t.task_id == task_id and run_id in (None, t.run.run_id)]

    async def callback(self) -> Attempt:
        """A callback that runs, as soon as one is handed out."""
        await self.until(lambda: self.executor.callbacks, "a callback")
        return next(iter(self.executor.callbacks.values()))

    async def finish(self, *task_ids: str, run_id: str | None = None, dag_id: str | None = None) -> None:
        """Let attempts of these tasks succeed, one after the other, and the scheduler react to each."""
        for task_id in task_ids:
            self.executor.succeed(await self.attempt(task_id, run_id, dag_id))
            await self.settled()

    async def finish_all(self, value: Any = None) -> None:
        """Let everything that runs, and whatever starts because of it, succeed and return `value`."""
        await self.settled()
        while self.executor.running:
            for attempt in list(self.executor.running.values()):
                self.executor.succeed(attempt, value=value)
            await self.settled()

    # -- looking

    async def runs(self, dag_id: str) -> dict[str, str]:
        """The states of a DAG's runs by run id, in the order of their creation."""
        rows = await self.fetch("SELECT run_id, state FROM dag_run WHERE dag_id = $1 ORDER BY id", dag_id)
        return dict(rows)

    async def dates(self, dag_id: str) -> list[datetime]:
        """The logical dates of a DAG's runs, in order."""
        rows = await self.fetch(
            "SELECT logical_date FROM dag_run WHERE dag_id = $1 ORDER BY logical_date NULLS LAST", dag_id
        )
        return [row[0] for row in rows]

    async def states(self, run_id: str, dag_id: str | None = None) -> dict[str, str | None]:
        """The stored states of a run's task instances by task id."""
        rows = await self.instances(run_id, dag_id)
        return {row["task_id"]: row["state"] for row in rows}

    async def instances(self, run_id: str, dag_id: str | None = None) -> list[Any]:
        return await self.fetch(
            """SELECT ti.*, v.spec -> 'tasks' -> ti.task_index ->> 'task_id' AS task_id
                 FROM task_instance AS ti
                 JOIN dag_run AS r ON r.id = ti.run_id
                 JOIN dag_version AS v ON v.id = r.version_id
                WHERE r.run_id = $1 AND r.dag_id = coalesce($2, r.dag_id) ORDER BY r.id, ti.task_index""",
            run_id,
            dag_id,
        )

    async def instance(self, task_id: str, run_id: str) -> Any:
        return next(row for row in await self.instances(run_id) if row["task_id"] == task_id)

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        return list(await self.db.fetch(query, *args))

    async def execute(self, query: str, *args: Any) -> None:
        await self.db.execute(query, *args)

    async def assert_consistent(self) -> None:
        """Rows agree with each other, and memory with rows. Call it when the scheduler has settled."""
        await self.settled()
        await assert_consistent(self.db)
        await assert_memory_is_a_copy(self.session, self.db)


async def number_runs(it: Running) -> None:
    """Give runs keys that no other number is equal to."""
    await it.execute("ALTER TABLE dag_run ALTER COLUMN id RESTART WITH 1000000")


async def keys_of(it: Running, dag_id: str) -> set[int]:
    return {row[0] for row in await it.fetch("SELECT id FROM dag_run WHERE dag_id = $1", dag_id)}


@contextlib.contextmanager
def _short_pauses() -> Iterator[None]:
    """However many sessions fail in a row, a scheduler begins the next one at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incarnation, "LAST_PAUSE", _PAUSE)
        yield


async def _nothing(_: object) -> None:
    """A look that finds nothing."""


@contextlib.contextmanager
def _habits(upkeep: bool, retention: bool, looks_often: bool) -> Iterator[None]:
    """How much a scheduler does beside its work.

    `upkeep`: it looks for rows of gone runs, in each table. `retention`: it looks for what is too old, and for
    sequences that are behind. Together that is a quarter of what its start costs. `looks_often`: it looks at its fleet
    ten times a second instead of once, and soon has partitions that are free.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not upkeep:
            patch.setattr(recounting, "OF_RUNS", ())
        if not retention:
            patch.setattr(incarnation, "retain", _nothing)
            for module in (incarnation, service):
                patch.setattr(module, "put_forward", _nothing)
        patch.setattr(lease, "POLL_SECONDS", 0.1 if looks_often else 1.0)
        yield


@contextlib.asynccontextmanager
async def running(
    dsn: str,
    clock: FakeClock,
    *specs: DagSpec,
    executor: ScriptedExecutor | None = None,
    others: Mapping[str, ScriptedExecutor] | None = None,
    settle: bool = True,
    count_statements: bool = False,
    scheduler_dsn: str | None = None,
    upkeep: bool = False,
    retention: bool = False,
    **settings: Any,
) -> AsyncIterator[Running]:
    """A scheduler on `dsn` that knows `specs` and what the database knows already.

    `others` are executors beside the default one, by the names that tasks use. `scheduler_dsn` is
    another address of the same database, for the scheduler alone. `upkeep`: rows of runs that are gone are deleted.
    `retention`: so is what is too old, and sequences that are behind are put forward.
    """
    events: list[SchedulerEvent] = []
    executor = executor or ScriptedExecutor(clock)
    with _habits(upkeep, retention or count_statements, looks_often=not count_statements):
        async with await Database.open(dsn, application_name="test", check=False) as db:
            if specs:
                await register(db, *specs, now=clock.now())
            scheduler = Scheduler(
                dsn=scheduler_dsn or dsn,
                executor={executor.name: executor, **others} if others else executor,
                clock=clock,
                parse=False,
                settings=settings_for_tests(**settings),
                listener=events.append,
                count_statements=count_statements,
            )
            await scheduler.start()
            it = Running(scheduler, executor, clock, db, events, [executor, *(others or {}).values()])
            try:
                if settle:
                    await it.settled()
                with _short_pauses():
                    yield it
            finally:
                await scheduler.stop(grace=0.0)
