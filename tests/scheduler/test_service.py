"""The life of a `Scheduler`: start, drain, stop, and what may not break it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.config import Settings
from aiosched.core.requests.requests import Request
from aiosched.core.values.states import RunState
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox
from aiosched.errors import DatabaseUnreachable, NotFound, Refused
from aiosched.parsing.service import Parser
from aiosched.scheduler import service
from aiosched.scheduler.membership import incarnation, outage
from aiosched.scheduler.service import Scheduler
from aiosched.scheduler.session.events import SchedulerEvent
from tests.db.waiting import until_true
from tests.parsing.builders import dag_source
from tests.patience import PATIENCE
from tests.scheduler.harness import NEW_YEAR, ScriptedExecutor, chain, dag, dag_in, register, running, task

HOUR = timedelta(hours=1)


async def test_a_scheduler_that_cannot_reach_its_database_says_so_and_starts_nothing(clock: FakeClock) -> None:
    executor = ScriptedExecutor(clock)
    scheduler = Scheduler(dsn="postgresql://nobody@127.0.0.1:1/none", executor=executor, parse=False)

    with pytest.raises(DatabaseUnreachable, match=r"127\.0\.0\.1:1"):
        await scheduler.start()

    with pytest.raises(Refused, match="The scheduler does not run"):
        _ = scheduler.db


async def test_a_scheduler_starts_once(dsn: str) -> None:
    scheduler = Scheduler(dsn=dsn, parse=False)
    async with scheduler:
        with pytest.raises(Refused, match=r"started already: make a new Scheduler\(…\)"):
            await scheduler.start()
        await scheduler.wait_idle()

    with pytest.raises(Refused, match="started already"):
        await scheduler.start()


async def test_who_waits_for_a_scheduler_that_stops_is_told_so(dsn: str, clock: FakeClock) -> None:
    spec = chain("d", 1, schedule=HOUR, start_date=NEW_YEAR, catchup=True)
    async with running(dsn, clock, spec) as it:
        waiting = asyncio.create_task(it.scheduler.wait_idle())
        await it.advance(3600)

    with pytest.raises(Refused, match="The scheduler does not run"):
        await asyncio.wait_for(waiting, PATIENCE)


async def test_draining_starts_and_creates_nothing_and_stores_what_ends(dsn: str, clock: FakeClock) -> None:
    spec = chain("d", 2, schedule=HOUR, start_date=NEW_YEAR, catchup=True)
    async with running(dsn, clock, spec) as it:
        await it.advance(3600)
        assert not await it.scheduler.drain(0.0)

        await it.finish("t0")
        await it.advance(5 * 3600)

        assert it.executor.order() == ["t0"]
        assert await it.dates("d") == [NEW_YEAR]
        assert (await it.states(f"scheduled__{NEW_YEAR.isoformat()}"))["t0"] == "success"
        assert await it.scheduler.drain(5.0)

    async with running(dsn, clock) as it:
        await it.finish_all()
        assert await it.dates("d") == [NEW_YEAR + hour * HOUR for hour in range(6)]


async def test_attempts_that_a_stop_ends_are_lost_and_run_again(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        await it.attempt("a")
        await it.scheduler.stop(grace=0.0)
        assert it.executor.stopped
        assert await it.fetch("SELECT state FROM task_try") == [("lost",)]
        assert await it.states("r") == {"a": None} or await it.states("r") == {"a": "scheduled"}
        assert await it.fetch("SELECT used FROM pool WHERE name = 'default_pool'") == [(0,)]

    async with running(dsn, clock) as it:
        await it.finish("a")
        assert await it.runs("d") == {"r": "success"}


async def test_a_listener_that_raises_does_not_stop_the_scheduler(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    def raises(event: SchedulerEvent) -> None:
        raise ValueError("a bug of the application")

    async with running(dsn, clock, dag("d")) as it:
        it.session.env.observers.listener = raises
        await it.trigger("d", "r")
        await it.finish("a")

        assert await it.runs("d") == {"r": "success"}
        assert "a bug of the application" in caplog.text


@pytest.mark.fresh_database
async def test_a_bug_that_does_not_pass_ends_the_scheduler_and_leaves_nothing_open(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(attempts: object) -> None:
        raise ZeroDivisionError("a bug of an executor")

    monkeypatch.setattr(outage, "PATIENCE", 0.0)
    executor = ScriptedExecutor(clock)
    executor.on_submit = explode
    scheduler = Scheduler(dsn=dsn, executor=executor, clock=clock, parse=False)
    await scheduler.start()
    async with await Database.open(dsn, application_name="test") as db, db.acquire() as conn:
        await register(db, dag("d", schedule="@once", start_date=NEW_YEAR))
        with pytest.raises(BaseExceptionGroup) as raised:
            await scheduler.failed
        assert raised.group_contains(ZeroDivisionError, match="a bug of an executor")
        with pytest.raises(BaseExceptionGroup):
            await scheduler.stop()

        assert executor.stopped
        assert await conn.fetchval("SELECT count(*) FROM scheduler") == 0
        await until_true(
            conn,
            "SELECT count(*) = 0 FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name <> 'test'",
        )


async def test_a_stop_that_is_cancelled_leaves_no_lease_behind(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that does not answer at the end must not leave a thread that renews the lease for ever."""
    hangs = asyncio.Event()

    async def give_up(db: Database, number: int) -> None:
        hangs.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(service, "give_up", give_up)
    scheduler = Scheduler(dsn=dsn, executor=ScriptedExecutor(clock), clock=clock, parse=False)
    await scheduler.start()

    stopping = asyncio.create_task(scheduler.stop())
    await hangs.wait()
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping

    for thread in threading.enumerate():
        if thread.name == "aiosched lease":
            await asyncio.to_thread(thread.join, 30.0)
            assert not thread.is_alive()
    async with await Database.open(dsn, application_name="test") as db, db.acquire() as conn:
        assert await conn.fetchval("SELECT count(*) FROM scheduler") == 0


@pytest.mark.parametrize("cancels", [1, 2])
async def test_a_stop_that_is_cancelled_while_it_waits_for_attempts_leaves_nothing_running(
    dsn: str, clock: FakeClock, cancels: int
) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        await it.attempt("a")
        before = {task.get_name() for task in asyncio.all_tasks()}
        assert "aiosched scheduler" in before
        stopping = asyncio.create_task(it.scheduler.stop(grace=10_000.0))
        await asyncio.sleep(0)
        assert it.scheduler.draining
        for _ in range(cancels):
            await asyncio.sleep(0)
            stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping

        assert not it.scheduler.is_running
        assert it.executor.stopped
        assert "aiosched scheduler" not in {task.get_name() for task in asyncio.all_tasks()}
        with pytest.raises(Refused, match="does not run"):
            _ = it.scheduler.db


async def test_who_asks_on_another_event_loop_is_told_how(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        run = await it.scheduler.trigger("d", run_id="r")
        for ask in (
            lambda: it.scheduler.trigger("d"),
            lambda: it.scheduler.why("d"),
            lambda: it.scheduler.schedules("d"),
            lambda: it.scheduler.pause("d"),
            run.wait,
            run.tasks,
        ):
            with pytest.raises(Refused, match=r"another event loop.*run_coroutine_threadsafe"):
                await asyncio.to_thread(lambda ask=ask: asyncio.run(ask()))


async def test_a_stop_before_anything_is_loaded_ends_at_once(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loops wait for partitions, which nobody loads any more."""
    monkeypatch.setattr(service, "ENDING_SECONDS", 1000.0)
    monkeypatch.setattr(incarnation.Incarnation, "receive_view", lambda *_: None)  # it has not seen the fleet yet
    scheduler = Scheduler(dsn=dsn, executor=ScriptedExecutor(clock), clock=clock, parse=False)
    starting = asyncio.create_task(scheduler.start())
    async with asyncio.timeout(PATIENCE):
        while not any(each.get_name() == "evaluation" for each in asyncio.all_tasks()):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.001)  # its loops have begun to wait

    starting.cancel()
    ended, _ = await asyncio.wait({starting}, timeout=PATIENCE)

    assert ended, "it waits for its loops"
    assert not scheduler.is_running


async def test_whoever_gives_up_names_every_partition(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[int] = []

    async def release(conn: object, number: int, partitions: range) -> None:
        named.extend(partitions)

    monkeypatch.setattr(incarnation, "release", release)
    monkeypatch.setattr(incarnation, "PARTITIONS", 96)

    await incarnation.give_up(db, 1)

    assert named == list(range(96))


async def test_news_of_all_dags_reach_everybody(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a", max_active_tis_per_dag=1))) as it:
        await it.execute("UPDATE dag SET is_paused = true")
        await inbox.notify(it.db, "dags", ())

        await it.until(lambda: it.session.cache.dags["d"].row.is_paused, "the news")


async def test_names_of_what_runs_are_told(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag(dag_in(7))) as it:
        await it.trigger(dag_in(7), "r")
        await it.advance(5)

        assert it.scheduler.running_attempts() == [(dag_in(7), "r", "a", 5.0)]


ONE_RUN = """
import asyncio, sys
from aiosched import DAG, Scheduler, task

with DAG("d", schedule=None) as dag:
    @task
    async def work(): ...
    work()

async def main():
    async with Scheduler(dsn=sys.argv[1], dags=[dag], executor="inline", parse=False) as scheduler:
        print(await (await scheduler.trigger("d")).wait(60))

asyncio.run(main())
print({"alembic", "sqlalchemy"} & set(sys.modules))
"""


async def test_a_scheduler_lives_without_sqlalchemy(dsn: str) -> None:
    """It is 14 MiB that only people's queries need."""
    command = [sys.executable, "-c", ONE_RUN, dsn]

    answer = await asyncio.to_thread(subprocess.check_output, command, text=True)

    assert answer.split() == ["success", "set()"]


async def test_what_is_asked_of_a_dag_file_at_the_start_waits_until_the_folder_is_read(
    dsn: str, tmp_path: Path
) -> None:
    (tmp_path / "a.py").write_text(dag_source("a"))
    settings = Settings()
    settings.core.home = tmp_path / "home"
    async with Scheduler(dsn=dsn, dags_folder=tmp_path, settings=settings) as scheduler:
        run = await scheduler.trigger("a")
        assert await run.wait(timeout=PATIENCE) is RunState.SUCCESS

        with pytest.raises(NotFound, match="no DAG 'b'"):
            await scheduler.trigger("b")


@pytest.mark.slow
async def test_a_parser_that_meets_an_unforeseen_error_is_started_again(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, original = 0, Parser.run

    async def run(parser: Parser) -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise LookupError("nobody foresaw this")
        await original(parser)

    monkeypatch.setattr(Parser, "run", run)
    async with Scheduler(dsn=dsn, dags_folder=tmp_path) as scheduler:
        await scheduler.read_folder()

        assert runs == 2
        assert scheduler.is_running
        assert scheduler.metrics.restarted_loops == 1


async def test_a_request_from_before_the_folder_was_read_is_sent_again_though_it_is_read_by_the_answer(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer may take a second: until then the file was read, and the DAG that was not there is."""
    original, asked = service._answer, list[str]()

    async def answer_late(scheduler: Scheduler, request: Request, dag_id: str) -> dict[str, Any]:
        asked.append(dag_id)
        if len(asked) == 1:
            await scheduler.read_folder()
            raise NotFound(f"There is no DAG {dag_id!r}.")
        return await original(scheduler, request, dag_id)

    monkeypatch.setattr(service, "_answer", answer_late)
    (tmp_path / "d.py").write_text(dag_source("d"))
    async with Scheduler(dsn=dsn, dags_folder=tmp_path, settings=Settings()) as scheduler:
        assert (await scheduler.trigger("d", run_id="r")).run_id == "r"
        with pytest.raises(NotFound, match="'missing'"):
            await scheduler.trigger("missing")
    assert asked == ["d", "d", "missing"]
