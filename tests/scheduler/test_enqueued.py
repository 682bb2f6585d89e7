"""Runs that an application asks for in its own transactions: aiosched/transactional.py."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from aiosched import Param, dag, enqueue, enqueue_many, task
from aiosched.config import Settings
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound, Refused
from aiosched.scheduler import Scheduler
from tests.patience import PATIENCE


@dag(schedule=None, params={"n": Param(0, type="integer")})
def ship() -> None:
    @task
    async def send(params: Any = None) -> int:
        return int(params["n"])

    send()


@dag(schedule=None, params={"code": Param("", type="string", format="password")})
def secret() -> None:
    @task
    async def use() -> None: ...

    use()


@pytest.fixture
async def owner(dsn: str) -> AsyncIterator[Scheduler]:
    async with Scheduler(dsn=dsn, dags=[ship(), secret()], settings=Settings()) as it:
        yield it


@asynccontextmanager
async def of_asyncpg(dsn: str, *, codecs: bool = False) -> AsyncIterator[asyncpg.Connection]:
    conn = await asyncpg.connect(dsn)
    try:
        if codecs:  # as applications set them
            for kind in ("json", "jsonb"):
                await conn.set_type_codec(kind, schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
        yield conn
    finally:
        await conn.close()


@asynccontextmanager
async def engine_of(dsn: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(make_url(dsn).set(drivername="postgresql+asyncpg"))
    try:
        yield engine
    finally:
        await engine.dispose()


FOR_EVER = 1e6  # seconds


class Rollback(Exception):
    """The application changes its mind."""


@pytest.mark.parametrize("kind", ["asyncpg", "codecs", "pool", "sqlalchemy", "orm"])
@pytest.mark.parametrize("commits", [True, False])
async def test_the_run_exists_if_and_only_if_the_transaction_commits(
    dsn: str, owner: Scheduler, kind: str, commits: bool
) -> None:
    numbers: list[int] = []
    with pytest.raises(Rollback) if not commits else nullcontext():
        async with begun(kind, dsn) as conn:
            numbers.append(await enqueue(conn, "ship", conf={"n": 3}, run_id="r"))
            with pytest.raises(NotFound, match="There is no request"):
                async with asyncio.timeout(PATIENCE):
                    await owner.outcome(numbers[0], timeout=FOR_EVER)
            if not commits:
                raise Rollback

    if commits:
        run = await owner.run_of(numbers[0], timeout=PATIENCE)
        assert (run.dag_id, run.run_id, await run.result(timeout=PATIENCE)) == ("ship", "r", 3)
    else:
        await (await owner.trigger("ship")).wait(PATIENCE)  # which came later
        with pytest.raises(NotFound, match="its transaction was rolled back, or has not committed yet"):
            async with asyncio.timeout(PATIENCE):
                await owner.run_of(numbers[0], timeout=FOR_EVER)
        with pytest.raises(NotFound):
            await owner.run_state("ship", "r")


@asynccontextmanager
async def begun(kind: str, dsn: str) -> AsyncIterator[Any]:
    """A connection in a transaction that commits at the end."""
    if kind in ("asyncpg", "codecs"):
        async with of_asyncpg(dsn, codecs=kind == "codecs") as conn, conn.transaction():
            yield conn
    elif kind == "pool":
        pool = asyncpg.create_pool(dsn, min_size=1, max_size=1)
        async with pool, pool.acquire() as conn, conn.transaction():
            yield conn
    else:
        async with engine_of(dsn) as engine:
            if kind == "sqlalchemy":
                async with engine.begin() as conn:
                    yield conn
            else:
                async with AsyncSession(engine) as session, session.begin():
                    yield session


async def test_what_a_savepoint_takes_back_never_runs(dsn: str, owner: Scheduler) -> None:
    async with of_asyncpg(dsn) as conn, conn.transaction():
        kept = await enqueue(conn, "ship", run_id="kept")
        savepoint = conn.transaction()
        await savepoint.start()
        await enqueue(conn, "ship", run_id="gone")
        await savepoint.rollback()

    await (await owner.run_of(kept, timeout=PATIENCE)).wait(PATIENCE)
    assert [row[0] for row in await owner.db.fetch("SELECT run_id FROM dag_run")] == ["kept"]


async def test_it_is_one_statement_for_one_run_and_for_a_thousand(dsn: str, owner: Scheduler) -> None:
    said: list[str] = []
    async with of_asyncpg(dsn) as conn:
        with conn.query_logger(lambda query: said.append(query.query)):
            async with conn.transaction():
                await enqueue(conn, "ship", conf={"n": 1}, reason="order 1")
                numbers = await enqueue_many(conn, "ship", ({"conf": {"n": n}, "run_id": f"r{n}"} for n in range(1000)))

    assert [query.split()[0] for query in said] == ["BEGIN;", "WITH", "WITH", "COMMIT;"]
    assert numbers == sorted(numbers)
    for n in (0, 999):
        run = await owner.run_of(numbers[n], timeout=PATIENCE)
        assert (run.run_id, await run.result(timeout=PATIENCE)) == (f"r{n}", n)


async def test_an_application_that_dies_after_its_commit_has_asked(dsn: str, db: Database) -> None:
    """Also before any scheduler lives."""
    async with Scheduler(dsn=dsn, dags=[ship()], settings=Settings()):
        pass
    conn = await asyncpg.connect(dsn)
    async with conn.transaction():
        number = await enqueue(conn, "ship", conf={"n": 5})
    conn.terminate()

    async with Scheduler(dsn=dsn, dags=[ship()], settings=Settings()) as owner:
        assert await (await owner.run_of(number, timeout=PATIENCE)).result(timeout=PATIENCE) == 5


async def test_what_cannot_be_a_run_is_refused_before_the_commit(dsn: str, owner: Scheduler) -> None:
    async with of_asyncpg(dsn) as conn:
        with pytest.raises(NotFound, match="There is no DAG 'shp'"):
            await enqueue(conn, "shp")
        with pytest.raises(Refused, match="has secret params, which are encrypted: trigger it by"):
            await enqueue(conn, "secret", conf={"code": "x"})
        with pytest.raises(Refused, match="Run 2 of the batch: Unexpected keyword argument 'cnf'"):
            await enqueue_many(conn, "ship", [{}, {"cnf": {}}])
        with pytest.raises(Refused, match=r"A connection of asyncpg, psycopg .* is needed, not an .*Database"):
            await enqueue(owner.db, "ship")
        with pytest.raises(Refused, match="lone surrogates"):
            await enqueue(conn, "ship", conf={"n": "\ud800"})
        assert await enqueue_many(conn, "ship", []) == []
        number = await enqueue(conn, "ship", conf={"n": "much"})
        assert await enqueue(conn, "secret")

    with pytest.raises(Refused, match="'n'"):
        await owner.run_of(number, timeout=PATIENCE)


async def test_a_dag_that_nobody_defines_any_more_takes_none(dsn: str, owner: Scheduler) -> None:
    async with Scheduler(dsn=dsn, dags=[ship()], settings=Settings()), of_asyncpg(dsn) as conn:
        with pytest.raises(Refused, match="defined by no file and no application any more"):
            await enqueue(conn, "secret")


async def test_only_a_request_for_a_run_has_a_run(owner: Scheduler) -> None:
    await owner.pause("ship")
    number = await owner.db.fetchval("SELECT max(id) FROM request")
    with pytest.raises(Refused, match=f"Request {number} asked for no run"):
        await owner.run_of(number)


async def test_a_batch_of_the_scheduler_says_what_became_of_each(owner: Scheduler) -> None:
    runs = [{"run_id": "a", "conf": {"n": 1}}, {"run_id": "a"}, {"conf": {"n": "x"}}, {"conf": {"n": 2}}]

    made = await owner.trigger_batch("ship", runs)

    assert [type(each).__name__ for each in made] == ["RunHandle", "Refused", "Refused", "RunHandle"]
    assert [await made[n].result(timeout=PATIENCE) for n in (0, 3)] == [1, 2]  # type: ignore[union-attr]
    assert await owner.trigger_batch("ship", []) == []


async def test_a_run_may_start_later(dsn: str, owner: Scheduler) -> None:
    later = datetime(2100, 1, 1, tzinfo=UTC)
    async with of_asyncpg(dsn) as conn:
        run = await owner.run_of(await enqueue(conn, "ship", run_after=later), timeout=PATIENCE)

    assert await run.state() == "queued"
