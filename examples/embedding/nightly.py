"""A data API: DAGs fill tables at night, the API serves the latest night that was checked, and says how it went.

pip install . fastapi uvicorn
uvicorn --app-dir examples/embedding nightly:app

curl localhost:8000/sales                       {"day": "2026-01-31", "total": 21}, or 404 before the first night
curl -X POST 'localhost:8000/sales/refill?first=2026-01-01&last=2026-01-31'        nights again, two at a time
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from typing import Any

import asyncpg
import pendulum
from fastapi import FastAPI, HTTPException

from aiosched import Asset, Scheduler, dag, task
from aiosched.errors import AioschedError

TABLES = "CREATE TABLE IF NOT EXISTS sale (day date, shop text, total int, PRIMARY KEY (day, shop))"
SHOPS = ["Delft", "Gouda", "Hoorn"]
NIGHT = Asset("sales")


class Db:
    """The pool of the API; tasks get it by this type."""

    pool: asyncpg.Pool


db = Db()


@dag(
    schedule="0 2 * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="Europe/Amsterdam"),
    catchup=False,
    max_active_runs=2,
)
def sales() -> None:
    """Each shop by itself; a night that fails in one shop is retried there, and not published."""

    @task(retries=3, retry_delay=60)
    async def load(shop: str, ds: str | None = None, db: Db | None = None) -> int:
        assert ds is not None
        assert db is not None
        total = len(shop) + date.fromisoformat(ds).day  # of a real API: what the shop's own service answers
        await db.pool.execute(
            "INSERT INTO sale VALUES ($1, $2, $3) ON CONFLICT (day, shop) DO UPDATE SET total = excluded.total",
            date.fromisoformat(ds), shop, total,
        )  # fmt: skip
        return total

    @task(outlets=[NIGHT])
    async def check(totals: list[int]) -> int:
        if min(totals) <= 0:
            raise ValueError("a shop has sold nothing")
        return sum(totals)

    check(load.expand(shop=SHOPS))


@dag(schedule=[NIGHT])
def summary() -> None:
    """After each checked night: what the API serves."""

    @task
    async def summarise(db: Db | None = None) -> dict[str, Any] | None:
        assert db is not None
        row = await db.pool.fetchrow("SELECT day, sum(total) AS total FROM sale GROUP BY day ORDER BY day DESC LIMIT 1")
        return None if row is None else {"day": row["day"], "total": row["total"]}

    summarise()


scheduler = Scheduler(dags=[sales(), summary()], context={Db: db}, migrate=True, application="nightly")


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with scheduler, asyncpg.create_pool(scheduler.db.dsn) as db.pool:
        await db.pool.execute(TABLES)
        yield


app = FastAPI(title="Nightly", lifespan=lifespan)


@app.get("/sales")
async def latest() -> dict[str, Any]:
    """The newest checked night."""
    async with scheduler.db.acquire() as conn:
        run_id = await conn.fetchval(
            "SELECT run_id FROM dag_run WHERE dag_id = 'summary' AND state = 'success' ORDER BY id DESC LIMIT 1"
        )
    if run_id is None:
        raise HTTPException(404, "no night yet")
    return await scheduler.xcom("summary", run_id, "summarise")


@app.post("/sales/refill", status_code=202)
async def refill(first: date, last: date) -> dict[str, Any]:
    """Nights again, under a limit of their own."""
    try:
        return await scheduler.backfill("sales", first, last, max_active_runs=2, rerun="all")
    except AioschedError as error:
        raise HTTPException(422, str(error)) from None


@app.get("/sales/why")
async def why() -> dict[str, str]:
    return {"why": (await scheduler.why("sales")).summary}
