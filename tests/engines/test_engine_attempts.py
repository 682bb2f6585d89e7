"""Attempts on an engine, from a DAG file to the stored result, through everything that an engine may do wrong."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography.fernet import Fernet

from aiosched.config import Settings
from aiosched.core.values.connections import ConnectionValue
from aiosched.core.values.ids import PARTITIONS, partition_of
from aiosched.core.values.messages import Outcome
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.engines import attempts as statements
from aiosched.db.people.secrets import SecretStore, VariableValue
from aiosched.db.server.engine import Database
from aiosched.executors.engines import agent
from aiosched.scheduler import Scheduler
from aiosched.scheduler.engines.engine_executor import EngineExecutor
from aiosched.scheduler.loops import enqueueing
from aiosched.scheduler.loops.engine_attempts import watch_engines
from aiosched.scheduler.partitions import handover
from aiosched.scheduler.partitions.ownership import give_back
from tests.engines.agents import AgentEngine
from tests.executors.conformance import WAITS
from tests.patience import PATIENCE, until

VALUES = """
from aiosched import DAG, task

with DAG("d", schedule=None):
    @task
    def one():
        print("hello from one")
        return 1

    @task
    async def two(value):
        return value + 1

    two(one())
"""


@contextlib.asynccontextmanager
async def serving(settings: Settings, engine: AgentEngine, **options: Any) -> AsyncIterator[Scheduler]:
    folder = settings.core.dags_folder
    async with Scheduler(dags_folder=folder, executor=engine, settings=settings, **options) as scheduler:
        await scheduler.read_folder()
        yield scheduler


def calls(folder: Path) -> list[str]:
    """The tasks that began, in order."""
    file = folder / "calls"
    return [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []


def logs_of(settings: Settings, task_id: str) -> list[str]:
    return [log.read_text() for log in settings.logs_folder.rglob(f"task_id={task_id}/*.log")]


async def rows(scheduler: Scheduler, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await scheduler.db.fetch(query)]


TRIES = "SELECT state, try_number, losses FROM task_instance ORDER BY task_index"
LEFT = "SELECT (SELECT count(*) FROM engine_attempt) + (SELECT count(*) FROM task_report)"


async def test_tasks_run_on_workers_and_pass_values(settings: Settings, engine: AgentEngine) -> None:
    (settings.core.dags_folder / "d.py").write_text(VALUES)
    async with serving(settings, engine) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "success"

        assert await rows(scheduler, LEFT) == [(0,)]
        assert await rows(scheduler, "SELECT value FROM xcom ORDER BY task_index") == [("1",), ("2",)]
    assert len(engine.sent) == 2
    (log,) = logs_of(settings, "one")
    assert "hello from one" in log


async def test_a_job_that_is_delivered_twice_begins_once(settings: Settings, engine: AgentEngine, waits: Path) -> None:
    engine.copies = 2
    await engine.add_worker()
    (waits / "go").touch()
    async with serving(settings, engine) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "success"
        await until(lambda: len(engine.outcomes) == 4, "all deliveries")

    assert sorted(calls(waits)) == ["coroutine", "plain"]
    assert sorted(map(str, engine.outcomes)) == ["None", "None", "success", "success"]


async def test_jobs_that_an_engine_has_lost_are_sent_again(
    settings: Settings, engine: AgentEngine, waits: Path
) -> None:
    engine.loses = lambda job: len(engine.sent) <= 2
    (waits / "go").touch()
    async with serving(settings, engine) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: len(engine.sent) == 2, "the first jobs")
        await scheduler.executor.send_again()  # type: ignore[attr-defined]  # what a timer does
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)] * 2

    assert [job.id for job in engine.sent[2:]] == [job.id for job in engine.sent[:2]]


@pytest.mark.slow
async def test_a_scheduler_is_told_of_slots_that_an_engine_gets(settings: Settings, engine: AgentEngine) -> None:
    engine.slots = engine.async_slots = 0
    (settings.core.dags_folder / "d.py").write_text(VALUES)
    async with serving(settings, engine) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        async with asyncio.timeout(PATIENCE):
            while "slots open" not in str(await scheduler.why("d", "r", "one")):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        executor, told = scheduler.executor, asyncio.Event()
        assert isinstance(executor, EngineExecutor)
        wakes = executor.on_growth

        def growth() -> None:
            told.set()
            wakes()

        executor.on_growth = growth
        engine.slots = engine.async_slots = 4
        assert await run.wait(timeout=PATIENCE) == "success"
        assert told.is_set()


TWO = WAITS.replace("async def coroutine", "def coroutine").replace("await asyncio.sleep", "time.sleep")


@pytest.mark.slow
async def test_what_waits_too_long_for_a_slot_of_its_worker_is_sent_again(
    settings: Settings, transport: httpx2.ASGITransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "WAITS_FOR", 0.3)  # seconds
    (settings.core.dags_folder / "d.py").write_text(TWO.format(here=str(tmp_path)))
    engine = AgentEngine(settings.core.dags_folder, transport, slots=1)
    async with serving(settings, engine) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: engine.outcomes == [None] and len(calls(tmp_path)) == 1, "the one that has no slot")
        (tmp_path / "go").touch()
        await until(lambda: len(engine.outcomes) == 2, "the other one")
        await scheduler.executor.send_again()  # type: ignore[attr-defined]  # what a timer does
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)] * 2
    await engine.close()


@pytest.mark.slow
async def test_why_tells_where_an_attempt_is(settings: Settings, engine: AgentEngine, waits: Path) -> None:
    engine.loses = lambda job: not job.is_async

    async def said(scheduler: Scheduler, task_id: str) -> str:
        explanation = await scheduler.why("d", "r", task_id)
        return next(gate.detail for gate in explanation.gates if gate.name == "worker")

    async with serving(settings, engine) as scheduler:
        await scheduler.trigger("d", run_id="r")
        await until(lambda: calls(waits) == ["coroutine"], "the coroutine")
        assert (await said(scheduler, "plain")).startswith("engine 'agents' has it")
        assert "none of its workers has begun it" in await said(scheduler, "plain")
        assert (await said(scheduler, "coroutine")).startswith("a worker of engine 'agents' on ")
        await scheduler.db.execute("UPDATE engine_attempt SET alive_until = now() - interval '1 minute'")
        assert "is silent, and its lease ended 1 m" in await said(scheduler, "coroutine")


@pytest.mark.slow
async def test_attempts_wait_for_an_engine_that_is_down(settings: Settings, engine: AgentEngine, waits: Path) -> None:
    engine.is_down = True
    (waits / "go").touch()
    async with serving(settings, engine) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: scheduler.executor._to_send, "the attempts to be stored")  # type: ignore[attr-defined]
        assert engine.sent == []
        engine.is_down = False
        assert await run.wait(timeout=PATIENCE) == "success"


@pytest.mark.slow
async def test_attempts_outlive_their_scheduler_and_the_next_one_hears_of_them(
    settings: Settings, engine: AgentEngine, waits: Path
) -> None:
    async with serving(settings, engine) as first:
        await first.trigger("d", run_id="r")
        await until(lambda: len(calls(waits)) == 2, "both tasks")
    async with serving(settings, engine) as second:
        assert (
            await rows(second, TRIES) == [("running", 1, 0)] * 2 or await rows(second, TRIES) == [("queued", 1, 0)] * 2
        )
        assert len(second.running_attempts()) == 2
        (waits / "go").touch()
        await second.wait_idle()
        assert await rows(second, TRIES) == [("success", 1, 0)] * 2
        assert await rows(second, LEFT) == [(0,)]

    assert sorted(calls(waits)) == ["coroutine", "plain"]


async def test_what_ends_while_no_scheduler_runs_counts(settings: Settings, engine: AgentEngine, waits: Path) -> None:
    async with serving(settings, engine) as first:
        await first.trigger("d", run_id="r")
        await until(lambda: len(calls(waits)) == 2, "both tasks")
    (waits / "go").touch()
    await until(lambda: engine.outcomes == [Outcome.SUCCESS] * 2, "both ends")
    async with serving(settings, engine) as second:
        await second.wait_idle()
        assert await rows(second, TRIES) == [("success", 1, 0)] * 2
        assert await rows(second, "SELECT value FROM xcom ORDER BY task_index") == [('"plain"',), ('"coroutine"',)]

    assert sorted(calls(waits)) == ["coroutine", "plain"]


async def test_two_schedulers_share_an_engine_and_partitions_move_while_tasks_run(
    settings: Settings, engine: AgentEngine, waits: Path
) -> None:
    async with serving(settings, engine) as first:
        await first.trigger("d", run_id="r")
        await until(lambda: len(calls(waits)) == 2, "both tasks")
        async with serving(settings, engine, name="second", parse=False) as second:
            leaving = asyncio.create_task(first.drain(PATIENCE))
            await until(lambda: len(second.running_attempts()) == 2, "the attempts at the other scheduler")
            assert await leaving, "attempts on engines keep no scheduler from leaving"
            assert first.running_attempts() == []
            (waits / "go").touch()
            await second.wait_idle()
            assert await rows(second, TRIES) == [("success", 1, 0)] * 2

    assert sorted(calls(waits)) == ["coroutine", "plain"]


async def test_a_partition_stays_until_its_attempts_are_stored(
    settings: Settings, engine: AgentEngine, waits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next owner could know of them neither by a row nor by a report."""
    (waits / "go").touch()
    go_on, insert = asyncio.Event(), statements.insert_attempts

    async def slow(*args: Any, **options: Any) -> Any:
        await go_on.wait()
        return await insert(*args, **options)

    monkeypatch.setattr(enqueueing, "attempts_for_engines", lambda *_: [])
    monkeypatch.setattr(statements, "insert_attempts", slow)
    async with serving(settings, engine) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: len(scheduler.executor._unstored) == 2, "the attempts")  # type: ignore[attr-defined]
        session = scheduler.session
        assert session is not None
        async with session.locks.ownership:
            await give_back(session, range(PARTITIONS))
            assert session.cache.partitions == {partition_of("d")}
        go_on.set()
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)] * 2


async def test_a_report_that_waits_to_be_read_is_not_taken_for_a_lost_attempt(
    settings: Settings, engine: AgentEngine, waits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row has been replaced by the report, which its owner may read a moment later."""
    (waits / "go").touch()

    async def nothing(*args: Any, **options: Any) -> Any:
        return [], [], False

    async with serving(settings, engine) as scheduler:
        with monkeypatch.context() as patch:
            patch.setattr(handover, "read_reports", nothing)
            run = await scheduler.trigger("d", run_id="r")
            await until(lambda: len(engine.outcomes) == 2, "the reports")
            session = scheduler.session
            assert session is not None
            for _ in range(3):
                await watch_engines(session)
        session.notifications.has_reports = True
        session.wakeups.notifications.wake()
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 1, 0)] * 2


@pytest.mark.slow
async def test_an_attempt_whose_rows_were_deleted_by_hand_is_lost_and_runs_again(
    settings: Settings, engine: AgentEngine, waits: Path
) -> None:
    engine.loses = lambda job: len(engine.sent) <= 2
    (waits / "go").touch()
    async with serving(settings, engine) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: len(engine.sent) == 2, "the jobs")
        session = scheduler.session
        assert session is not None
        await rows(scheduler, "DELETE FROM engine_attempt RETURNING id")
        for _ in range(2):
            await watch_engines(session)
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 2, 0)] * 2


async def test_an_attempt_that_cannot_be_stored_fails_alone(
    settings: Settings, engine: AgentEngine, waits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (waits / "go").touch()
    insert = statements.insert_attempts

    async def refuse(conn: Any, attempts: Any, **options: Any) -> Any:
        if any(new.attempt.task_id == "plain" for new in attempts):
            raise ValueError("not like this")
        return await insert(conn, attempts, **options)

    monkeypatch.setattr(enqueueing, "attempts_for_engines", lambda *_: [])
    monkeypatch.setattr(statements, "insert_attempts", refuse)
    async with serving(settings, engine) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "failed"

        assert await rows(scheduler, "SELECT state, reason FROM task_instance ORDER BY task_index") == [
            ("failed", "cannot be stored: ValueError: not like this"),
            ("success", None),
        ]


async def test_an_attempt_that_is_cancelled_while_it_is_stored_leaves_no_row(
    settings: Settings, engine: AgentEngine, waits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, insert = asyncio.Event(), statements.insert_attempts

    async def slow(*args: Any, **options: Any) -> Any:
        await go_on.wait()
        return await insert(*args, **options)

    monkeypatch.setattr(enqueueing, "attempts_for_engines", lambda *_: [])
    monkeypatch.setattr(statements, "insert_attempts", slow)
    async with serving(settings, engine) as scheduler:
        await scheduler.trigger("d", run_id="r")
        await until(lambda: len(scheduler.executor._unstored) == 2, "the attempts")  # type: ignore[attr-defined]
        for task_id in ("plain", "coroutine"):
            await scheduler.mark_task("d", "r", task_id, "failed")
        await until(lambda: not scheduler.running_attempts(), "their ends")
        go_on.set()
        await scheduler.wait_idle()
        await scheduler.executor.send_again()  # type: ignore[attr-defined]
        async with asyncio.timeout(PATIENCE):
            while await rows(scheduler, LEFT) != [(0,)]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    assert (engine.sent, calls(waits)) == ([], [])


async def test_attempts_of_a_worker_that_falls_silent_are_lost_and_run_again(
    settings: Settings, engine: AgentEngine, waits: Path
) -> None:
    async with serving(settings, engine) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: len(calls(waits)) == 2, "both tasks")
        await scheduler.db.execute("UPDATE engine_attempt SET alive_until = now() - interval '1 second'")
        scheduler.wake_loops()
        await until(lambda: len(calls(waits)) == 4, "the next tries")
        await until(lambda: len(engine.agents[0]._running) == 2, "the end of the attempts that were given up")
        (waits / "go").touch()
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 2, 0)] * 2
        tried = await rows(scheduler, "SELECT state, reason FROM task_try ORDER BY task_index")

    assert [state for state, _ in tried] == ["lost", "lost"]
    assert all("has not been heard of for longer than its lease" in reason for _, reason in tried)


async def test_a_worker_that_is_told_to_stop_loses_its_attempts(
    settings: Settings, engine: AgentEngine, waits: Path
) -> None:
    async with serving(settings, engine) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: len(calls(waits)) == 2, "both tasks")
        await engine.add_worker()
        leaving = engine.agents.pop(0)
        await leaving.stop(0.0)
        (waits / "go").touch()
        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, TRIES) == [("success", 2, 0)] * 2


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("hears", ["from the engine", "with its heartbeat"])
async def test_a_task_that_is_marked_ends_at_its_worker(
    settings: Settings, engine: AgentEngine, waits: Path, hears: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hears == "with its heartbeat":
        settings.executor.worker_lease = 3.0

        async def deaf(jobs: Any, *, grace: float) -> None:
            pass

        monkeypatch.setattr(engine, "cancel", deaf)
    async with serving(settings, engine) as scheduler:
        await scheduler.trigger("d", run_id="r")
        await until(lambda: len(calls(waits)) == 2, "both tasks")
        for task_id in ("plain", "coroutine"):
            await scheduler.mark_task("d", "r", task_id, "success")
        await until(lambda: not engine.agents[0]._running, "the ends")
        await scheduler.wait_idle()
        assert await rows(scheduler, TRIES) == [("success", 1, 0)] * 2
        assert await rows(scheduler, LEFT) == [(0,)]


async def test_a_task_that_has_not_begun_is_taken_back(settings: Settings, engine: AgentEngine, waits: Path) -> None:
    engine.loses = lambda job: True
    async with serving(settings, engine) as scheduler:
        await scheduler.trigger("d", run_id="r")
        await until(lambda: len(engine.sent) == 2, "the jobs")
        for task_id in ("plain", "coroutine"):
            await scheduler.mark_task("d", "r", task_id, "failed")
        await scheduler.wait_idle()
        assert await rows(scheduler, LEFT) == [(0,)]
        assert scheduler.running_attempts() == []

    assert calls(waits) == []


ASKS = """
import time
from pathlib import Path
from aiosched import DAG, Variable, task

HERE = Path({here!r})

def wait():
    with (HERE / "calls").open("a") as file:
        file.write("a task\\n")
    while not (HERE / "go").exists():
        time.sleep(0.02)

with DAG("d", schedule=None):
    @task
    def first(): wait()

    @task
    def second():
        wait()
        return Variable.get("city", default="none")

    first(), second()
"""


@pytest.mark.slow
async def test_a_question_is_answered_though_another_attempt_of_the_run_has_been_given_up(
    settings: Settings, engine: AgentEngine, tmp_path: Path
) -> None:
    (settings.core.dags_folder / "d.py").write_text(ASKS.format(here=str(tmp_path)))
    async with serving(settings, engine) as scheduler:
        await scheduler.trigger("d", run_id="r")
        await until(lambda: len(calls(tmp_path)) == 2, "both tasks")
        await scheduler.db.execute("DELETE FROM engine_attempt WHERE task_index = 0")
        (tmp_path / "go").touch()
        async with asyncio.timeout(PATIENCE):
            while not (found := await rows(scheduler, "SELECT value FROM xcom")):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert found == [('"none"',)]


AT_THE_TOP = """
from aiosched import BaseHook, DAG, Variable, task

CITY, HOST = Variable.get("city"), BaseHook.get_connection("sales").host

with DAG("d", schedule=None):
    @task
    def plain():
        return CITY + HOST

    @task
    async def coroutine():
        return CITY + HOST

    plain(), coroutine()
"""


@pytest.fixture
def keys(settings: Settings) -> None:
    """Values can be encrypted. Request it before the web server that decrypts them."""
    settings.secrets.fernet_keys = Fernet.generate_key().decode()


@pytest.mark.slow
async def test_a_file_reads_variables_and_connections_when_a_worker_imports_it(
    settings: Settings, keys: None, engine: AgentEngine, dsn: str
) -> None:
    async with await Database.open(dsn) as db:
        store = SecretStore(db, Keyring.of(settings))
        await store.set_variables({"city": VariableValue("Oslo")})
        await store.set_connections([ConnectionValue(conn_id="sales", conn_type="http", host="db")])
    (settings.core.dags_folder / "d.py").write_text(AT_THE_TOP)
    async with serving(settings, engine) as scheduler:
        run = await scheduler.trigger("d", run_id="r")

        assert await run.wait(timeout=PATIENCE) == "success"
        assert await rows(scheduler, "SELECT value FROM xcom ORDER BY task_index") == [('"Oslodb"',)] * 2
