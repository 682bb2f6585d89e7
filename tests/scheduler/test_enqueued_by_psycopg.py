"""Runs that an application asks for on its connections of psycopg: aiosched/transactional.py."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session

from aiosched import dag, enqueue, enqueue_many, task
from aiosched.config import Settings
from aiosched.errors import NotFound
from aiosched.scheduler import Scheduler
from tests.patience import PATIENCE


@dag(schedule=None)
def ship() -> None:
    @task
    async def send() -> None: ...

    send()


@pytest.fixture
async def owner(dsn: str) -> AsyncIterator[Scheduler]:
    async with Scheduler(dsn=dsn, dags=[ship()], settings=Settings()) as it:
        yield it


async def test_an_asynchronous_connection_with_rows_of_its_own_kind(dsn: str, owner: Scheduler) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, row_factory=dict_row) as conn:
        numbers = [await enqueue(conn, "ship", run_id="one"), *await enqueue_many(conn, "ship", [{"run_id": "two"}])]
        with pytest.raises(NotFound):
            await owner.outcome(numbers[0], timeout=0)
        await conn.commit()
        gone = await enqueue(conn, "ship")
        await conn.rollback()

    runs = [await owner.run_of(number, timeout=PATIENCE) for number in numbers]
    assert [run.run_id for run in runs] == ["one", "two"]
    with pytest.raises(NotFound):
        await owner.outcome(gone, timeout=0)


async def test_connections_that_are_not_asynchronous(dsn: str, owner: Scheduler) -> None:
    with psycopg.connect(dsn) as conn:
        numbers = [await enqueue(conn, "ship")]
    engine = create_engine(make_url(dsn).set(drivername="postgresql+psycopg"))
    with Session(engine) as session, session.begin():
        numbers.append(await enqueue(session, "ship", conf={"percent": "100%s :p1 $1"}))
    engine.dispose()

    for number in numbers:
        assert await (await owner.run_of(number, timeout=PATIENCE)).wait(PATIENCE) == "success"
