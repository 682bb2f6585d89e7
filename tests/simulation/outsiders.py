"""Sessions beside the schedulers that do what none of them would, for the comparison of the model with PostgreSQL.

They call the statements' own functions: take the living for dead, hold locks, insert what is there already, change rows
behind their owner's back. So guards and fences speak, and statements wait that hardly ever do.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any, TypeVar, cast

import asyncpg

from aiosched.core.run.board import Run
from aiosched.core.values.messages import AttemptKey, Outcome, Report
from aiosched.core.values.states import RunState
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.statements import backfills, journal, outbox, ownership, reports, runs, triggers
from aiosched.db.statements import pool_demands as demands
from aiosched.db.statements import rehydration as rehydrations
from aiosched.errors import DatabaseUnreachable, FencedOut, StaleRows
from tests.simulation.loop import WORLD
from tests.simulation.network import ModelledConnection
from tests.simulation.shapes import POOL
from tests.simulation.simulate import Simulation
from tests.simulation.store import EPOCH, Row

T = TypeVar("T")


@dataclass
class Outsider:
    """One session and what it may choose from."""

    conn: DatabaseConnection
    tables: dict[str, dict[Any, Row]]
    random: Random

    def choose(self, table: str) -> tuple[Any, Row]:
        """Some row; IndexError without any."""
        return self.random.choice(list(self.tables[table].items()))

    @contextlib.asynccontextmanager
    async def holding(self) -> Any:
        """A transaction that is left open for a while."""
        async with self.conn.transaction():
            yield
            await asyncio.sleep(self.random.uniform(0.0, 0.5))

    async def act(self) -> None:
        """One thing, whatever comes of it."""
        with contextlib.suppress(IndexError, FencedOut, StaleRows, asyncpg.PostgresError, DatabaseUnreachable):
            await self.random.choice(_ACTS)(self)
        await self.conn.close()


async def _take_over_a_scheduler(o: Outsider) -> None:
    await ownership.take_over(o.conn, o.choose("scheduler")[0], process_gone=o.random.random() < 0.5)


async def _end_a_queued_run(o: Outsider) -> None:
    async with o.holding():
        await runs.fail_queued_run(o.conn, o.choose("dag_run")[0], EPOCH, "for no reason")


async def _cancel_a_backfill(o: Outsider) -> None:
    async with o.holding():
        await backfills.cancel_backfill(o.conn, o.choose("backfill")[0], EPOCH)


async def _look_for_a_run(o: Outsider) -> None:
    _, row = o.choose("dag_run")
    await runs.find_run(o.conn, row["dag_id"], run_id=row["run_id"], logical_date=row["logical_date"])
    await runs.find_run(o.conn, row["dag_id"], run_id="unknown")
    await runs.find_runs(o.conn, row["dag_id"], [row["run_id"], "unknown"])


async def _measure(o: Outsider) -> None:
    await rehydrations.load_map_lengths(o.conn, [o.choose("xcom")[0][:2], (0, 0)])


async def _look_back(o: Outsider) -> None:
    key, row = o.choose("dag_run")
    date = row["logical_date"] or EPOCH + timedelta(seconds=30)
    dag_id, manual = row["dag_id"], o.random.random() < 0.5
    await rehydrations.runs_before(o.conn, [(key, dag_id, date, manual), (0, "ghost", date, manual)])
    await rehydrations.load_states(o.conn, [key, 0])
    await rehydrations.versions_before(o.conn, dag_id, date)
    await rehydrations.seen_before(o.conn, dag_id, date, [(row["version_id"], 0), (row["version_id"], 9), (99, 0)])


async def _forget_a_deferral(o: Outsider) -> None:
    """Its row comes back as if it had just been stored; in between, orphans are looked for."""
    place, row = o.choose("deferred_trigger")
    partition = o.tables["dag_run"][place[0]]["partition"]
    now = triggers.DeferralRow(**row)
    await triggers.waiting_triggers(o.conn, [place[0], 0])
    async with o.holding():
        await triggers.delete_deferrals(o.conn, [place, (0, 0, -1)])
        await triggers.store_deferrals(o.conn, [now, now._replace(task_index=now.task_index + 77)])
    await triggers.delete_orphans(o.conn, [partition], o.random.choice((10_000, o.choose("scheduler")[0])))


async def _look_for_an_attempt(o: Outsider) -> None:
    (run, task, map_index), row = o.choose("task_instance")
    attempts = [AttemptKey(run, task, map_index, number) for number in (row["try_number"], 7)]
    await reports.wanted_attempts(o.conn, attempts, incarnation=row["queued_by"] or 0)
    await reports.queued_attempts(o.conn, [run], incarnation=row["queued_by"] or 0)


async def _insert_a_run(o: Outsider) -> None:
    dag_id, dag = o.choose("dag")
    run_id = o.random.choice([*(row["run_id"] for row in o.tables["dag_run"].values()), "r0", "r1", "r2"])
    run = Run(0, dag_id, run_id, dag["version_id"], "manual", RunState.QUEUED, EPOCH, queued_at=EPOCH)
    new, other = (runs.NewRun(one, dag["partition"], "cli", 0) for one in (run, replace(run, run_id=f"{run_id}.2")))
    async with o.holding():
        await runs.insert_runs(o.conn, [new, other, new])


async def _copy_what_is_there(o: Outsider) -> None:
    (run, task, map_index), _ = o.choose("task_instance")
    async with o.holding():
        await runs.copy_instances(o.conn, [(run, task, map_index, 0)])


async def _report(o: Outsider) -> None:
    (run, task, map_index), row = o.choose("task_instance")
    key = AttemptKey(run, task, map_index, row["try_number"])
    partition = o.tables["dag_run"][run]["partition"]
    started = (partition, Report(key=key, outcome=Outcome.STARTED, at=EPOCH))
    lost = (partition, Report(key=key, outcome=Outcome.LOST, at=EPOCH))
    async with o.holding():
        await reports.insert_reports(o.conn, [started, lost, started], incarnation=o.choose("scheduler")[0])


async def _forget_a_report(o: Outsider) -> None:
    async with o.holding():
        await reports.delete_reports(o.conn, [o.choose("task_report")[0]])


async def _keep_a_pool(o: Outsider) -> None:
    async with o.holding():
        await journal.read_pools(o.conn, [POOL, "ghost"], lock=True)
        demand = o.random.choice((None, "[false, 1, 1.5, 1, 1, 0]"))
        await demands.store_demands(o.conn, o.choose("scheduler")[0], {POOL: demand, "ghost": demand})


async def _move_a_pool(o: Outsider) -> None:
    delta = o.random.choice((-300, 1, 300))
    await journal.write(o.conn, o.choose("scheduler")[0], [], [], {"default_pool": delta})


async def _write_without_an_incarnation(o: Outsider) -> None:
    await journal.write(o.conn, 10_000, [], [], {POOL: -1})


async def _fail_an_instance(o: Outsider) -> None:
    key, row = o.choose("task_instance")
    new: dict[str, Any] = {name: row[name] for name in journal.InstanceChange._fields[5:]}
    new |= {"state": "failed", "reason": "for no reason"}
    now = journal.InstanceChange(key[0], key[1], key[2], row["state"], row["try_number"], **new)
    async with o.holding():
        await journal.write(o.conn, o.choose("scheduler")[0], [now], [], {})


async def _fail_a_run(o: Outsider) -> None:
    key, row = o.choose("dag_run")
    change = journal.RunChange(key, row["state"], "failed", None, None, None, "for no reason")
    async with o.holding():
        await journal.write(o.conn, o.choose("scheduler")[0], [], [change], {})


async def _fail_a_callback(o: Outsider) -> None:
    number = o.random.choice([*o.tables["callback_outbox"], 10_000])
    async with o.holding():
        await outbox.fail_deliveries(o.conn, [(number, "boom")], most=o.random.randint(1, 3))


_ACTS: tuple[Callable[[Outsider], Awaitable[None]], ...] = (
    _take_over_a_scheduler, _end_a_queued_run, _look_for_a_run, _look_for_an_attempt, _measure, _insert_a_run,
    _copy_what_is_there, _report, _forget_a_report, _keep_a_pool, _move_a_pool, _write_without_an_incarnation,
    _fail_an_instance, _fail_a_run, _fail_a_callback, _look_back, _forget_a_deferral, _cancel_a_backfill,
)  # fmt: skip


def let_outsiders_in(simulation: Simulation, *, every: float = 0.5) -> None:
    """From time to time, somebody does something."""
    random = Random(simulation.plan.seed + 3)

    def come() -> None:
        conn = cast("DatabaseConnection", ModelledConnection(simulation.network, WORLD, "outsider"))
        simulation.network.run_at_server(Outsider(conn, simulation.store.tables, random).act())

    for number in range(int(45 / every)):
        simulation.loop.call_at(2 + number * every, come)
