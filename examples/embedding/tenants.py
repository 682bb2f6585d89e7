"""A service with customers: each has a schedule of its own, and an order is shipped if and only if it is committed.

    pip install . fastapi uvicorn
    uvicorn --app-dir examples/embedding tenants:app

    curl -X PUT 'localhost:8000/tenants/7/report?cron=0%206%20*%20*%20*&zone=Europe/Amsterdam'
    curl -X POST 'localhost:8000/tenants/7/orders?amount=12.50'      {"order": 1}
    curl localhost:8000/orders/1                                     {"order": 1, "shipped": "12.50 EUR to tenant 7"}

The tables of the service and those of aiosched are in one database, so one transaction writes both. Set AIOSCHED_DSN;
without it the embedded PostgreSQL starts in the folder `.aiosched`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

import asyncpg
from fastapi import FastAPI, HTTPException

from aiosched import Scheduler, enqueue
from aiosched.errors import AioschedError

TABLES = """
    CREATE TABLE IF NOT EXISTS customer_order (
        id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, tenant int NOT NULL, amount numeric NOT NULL, shipped text
    )
"""


class Db:
    """The pool of the service. Its jobs get it by this type."""

    pool: asyncpg.Pool


db = Db()
scheduler = Scheduler(dags=[], context={Db: db}, migrate=True, application="tenants")


@scheduler.job(retries=5, retry_delay=10)
async def ship(order: int, amount: Decimal, db: Db) -> str:
    """Run at least once, so it changes what it can change again."""
    return await db.pool.fetchval(
        "UPDATE customer_order SET shipped = $2::text || ' EUR to tenant ' || tenant WHERE id = $1 RETURNING shipped",
        order,
        str(amount),
    )


@scheduler.job()
async def report(tenant: int, db: Db) -> str:
    total = await db.pool.fetchval("SELECT coalesce(sum(amount), 0) FROM customer_order WHERE tenant = $1", tenant)
    return f"tenant {tenant} has ordered for {total} EUR"


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with scheduler, asyncpg.create_pool(scheduler.db.dsn) as db.pool:
        await db.pool.execute(TABLES)
        yield


app = FastAPI(title="Tenants", lifespan=lifespan)


@app.put("/tenants/{tenant}/report")
async def set_report(tenant: int, cron: str, zone: str = "UTC") -> dict[str, str | None]:
    """When a tenant wants its report; survives restarts, and there may be thousands."""
    name = f"tenant-{tenant}"
    try:
        await scheduler.schedule(report, name, cron=cron, timezone=zone, tenant=tenant)
    except AioschedError as error:
        raise HTTPException(422, str(error)) from None
    (found,) = [one for one in await scheduler.schedules("report") if one.name == name]
    return {"next": found.next_at and found.next_at.isoformat()}


@app.delete("/tenants/{tenant}/report", status_code=204)
async def no_report(tenant: int) -> None:
    await scheduler.unschedule("report", f"tenant-{tenant}")


@app.post("/tenants/{tenant}/orders", status_code=202)
async def order(tenant: int, amount: Decimal) -> dict[str, int]:
    """An order and its shipping, both or neither."""
    async with db.pool.acquire() as conn, conn.transaction():
        number = await conn.fetchval(
            "INSERT INTO customer_order (tenant, amount) VALUES ($1, $2) RETURNING id", tenant, amount
        )
        await enqueue(conn, ship, order=number, amount=amount, priority=int(amount > 1000))
        if amount <= 0:
            raise HTTPException(422, "nothing to ship")  # rolls back, and nothing was asked for
    return {"order": number}


@app.get("/orders/{number}")
async def look(number: int) -> dict[str, int | str | None]:
    row = await db.pool.fetchrow("SELECT shipped FROM customer_order WHERE id = $1", number)
    if row is None:
        raise HTTPException(404, "no such order")
    return {"order": number, "shipped": row["shipped"]}
