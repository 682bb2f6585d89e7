"""What an application gives to the tasks in its process: objects by name, and a context manager around each try."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Optional

import pytest

from aiosched import BashOperator, Scheduler, dag, task
from aiosched.errors import ConfigError, Refused, RunFailed


async def result_of(scheduler: Scheduler, dag_id: str) -> Any:
    run = await scheduler.trigger(dag_id)
    await run.wait(raise_on_failure=True)
    return await run.results()


async def test_tasks_get_the_objects_of_the_application_by_name(dsn: str) -> None:
    pool = object()

    @dag(schedule=None)
    def given() -> None:
        @task
        async def waits(pool: Any = None) -> bool:
            return pool is seen["pool"]

        @task
        def plain(pool: Any = None, city: str = "Delft") -> list[Any]:
            return [pool is seen["pool"], city]

        @task
        def all_of_it(**context: Any) -> bool:
            return context["pool"] is seen["pool"]

        @task
        def passed(pool: Any = None) -> Any:
            return pool

        waits(), plain(), all_of_it(), passed(pool="an argument")
        BashOperator(task_id="template", bash_command="echo {{ region }}")

    seen = {"pool": pool}
    async with Scheduler(
        dsn=dsn, dags=[given()], context={"pool": pool, "city": "Utrecht", "region": "eu"}
    ) as scheduler:
        assert await result_of(scheduler, "given") == {
            "waits": True, "plain": [True, "Utrecht"], "all_of_it": True, "passed": "an argument", "template": "eu",
        }  # fmt: skip


async def test_a_context_manager_is_entered_around_each_try_on_the_loop_of_the_application(dsn: str) -> None:
    told: list[tuple[str, str]] = []
    here = threading.get_ident()

    @asynccontextmanager
    async def around(context: Any) -> AsyncIterator[None]:
        name = f"{context['ti'].task_id} {context['ti'].try_number}"
        assert (threading.get_ident(), asyncio.get_running_loop()) == (here, loop)
        told.append((name, "entered"))
        try:
            yield
        except ValueError as error:
            told.append((name, str(error)))
            raise
        told.append((name, "left"))

    @dag(schedule=None)
    def wrapped() -> None:
        @task(retries=1, retry_delay=0)
        async def waits(ti: Any = None) -> None:
            told.append(("waits", "runs"))
            if ti.try_number == 1:
                raise ValueError("first try")

        @task
        def plain() -> str:
            told.append(("plain", "runs"))
            return "done"

        waits() >> plain()

    loop = asyncio.get_running_loop()
    async with Scheduler(dsn=dsn, dags=[wrapped()], around=around) as scheduler:
        assert (await result_of(scheduler, "wrapped"))["plain"] == "done"

    assert told == [
        ("waits 1", "entered"), ("waits", "runs"), ("waits 1", "first try"),
        ("waits 2", "entered"), ("waits", "runs"), ("waits 2", "left"),
        ("plain 1", "entered"), ("plain", "runs"), ("plain 1", "left"),
    ]  # fmt: skip


@pytest.mark.parametrize("is_async", [True, False], ids=["coroutine", "plain"])
async def test_an_error_around_a_task_fails_its_try(dsn: str, is_async: bool) -> None:
    @asynccontextmanager
    async def around(_: Any) -> AsyncIterator[None]:
        raise RuntimeError("no session")
        yield

    @dag(schedule=None)
    def wrapped() -> None:
        @task
        async def waits() -> None: ...

        @task
        def plain() -> None: ...

        (waits if is_async else plain)()
        (plain if is_async else waits).is_used = True

    async with Scheduler(dsn=dsn, dags=[wrapped()], around=around) as scheduler:
        with pytest.raises(RunFailed, match="no session"):
            await result_of(scheduler, "wrapped")


def test_names_that_tasks_know_already_are_refused() -> None:
    with pytest.raises(ConfigError, match="context= cannot give ds, ti: tasks know these names"):
        Scheduler(dsn="postgresql://x", parse=False, context={"ti": 1, "ds": 2, "mine": 3})


def test_worker_processes_cannot_be_given_objects(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="choose executor='inline', or let worker processes make what they need"):
        Scheduler(dsn="postgresql://x", dags_folder=tmp_path, executor="local", context={"pool": object()})


# -- by type


class Db:
    """A class of the application."""


class Session(Db):
    """Another one."""


async def test_tasks_get_objects_by_the_type_of_a_parameter(dsn: str) -> None:
    @dag(schedule=None)
    def given() -> None:
        @task
        async def waits(connection: Db | None = None, n: int = 3) -> bool:
            return connection is db and n == 3

        @task
        def plain(it: Optional[Db] = None, other: Session | None = None) -> list[Any]:  # noqa: UP045  as people write
            return [it is db, other]

        @task
        def all_of_it(**context: Any) -> bool:
            return all(isinstance(name, str) for name in [*context])

        @task
        def passed(db: Any = None) -> Any:
            return db

        waits(), plain(), all_of_it(), passed()
        BashOperator(task_id="template", bash_command="echo {{ region }} {{ run_id }}")

    db = Db()
    async with Scheduler(dsn=dsn, dags=[given()], context={Db: db, "region": "eu"}) as scheduler:
        run = await scheduler.trigger("given", run_id="r")
        await run.wait(raise_on_failure=True)
        assert await run.results() == {
            "waits": True, "plain": [True, None], "all_of_it": True, "template": "eu r",
        }  # fmt: skip


async def test_a_job_needs_no_default_for_what_is_given_by_type_and_around_may_give_it_too(dsn: str) -> None:
    @asynccontextmanager
    async def around(context: Any) -> AsyncIterator[None]:
        context[Session] = session
        yield

    session, db = Session(), Db()
    scheduler = Scheduler(dsn=dsn, dags=[], context={Db: db, Session: None}, around=around)

    @scheduler.job()
    async def load(amounts: list[int], connection: Db, session_: Session) -> list[Any]:
        return [amounts, connection is db, session_ is session]

    async with scheduler:
        assert await (await scheduler.trigger(load, amounts=[1])).result() == [[1], True, True]
        with pytest.raises(Refused, match="has no argument 'connection'"):
            await scheduler.trigger(load, amounts=[1], connection=db)


def test_what_is_neither_a_name_nor_a_type_is_refused(dsn: str) -> None:
    with pytest.raises(ConfigError, match="context= takes names and types, not 5"):
        Scheduler(dsn=dsn, dags=[], context={5: "five"})  # type: ignore[dict-item]
