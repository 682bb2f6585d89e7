"""The search over DAGs, tasks, runs, assets and pools."""

from __future__ import annotations

import httpx2
import pytest

from aiosched.db.server.engine import Database
from tests.cli.records import add_dag, add_run, insert


async def names(api: httpx2.AsyncClient, typed: str) -> list[tuple[str, str]]:
    answer = await api.get("search", params={"q": typed})
    assert answer.status_code == 200, answer.text
    return [(each["kind"], each["name"]) for each in answer.json()["items"]]


@pytest.fixture
async def stored(db: Database) -> None:
    sales = await add_dag(db, "sales_daily", task_ids="extract\nload")
    await add_dag(db, "sales", task_ids="load")
    await add_dag(db, "gone_sales", task_ids="load", is_stale=True)
    await add_dag(db, "percent", task_ids="50%_off")
    for number in range(3):
        await add_run(db, "sales_daily", sales, f"manual__{number}", state="failed")
    async with db.acquire() as conn:
        await insert(conn, "pool", {"name": "sales_pool", "slots": 3})
        await insert(conn, "asset", {"name": "orders", "uri": "s3://sales/orders"})


@pytest.mark.usefixtures("stored")
async def test_names_are_found_by_their_words_the_best_first(api: httpx2.AsyncClient) -> None:
    assert await names(api, "sales") == [("dag", "sales"), ("dag", "sales_daily"), ("pool", "sales_pool")]
    assert await names(api, "sd") == [("dag", "sales_daily")]
    assert await names(api, "load") == [("task", "load"), ("task", "load")]
    assert await names(api, "daily LOAD") == [("task", "load")]
    assert await names(api, "sales manual") == [("run", f"manual__{number}") for number in (2, 1, 0)]
    assert await names(api, "orders") == [("asset", "orders")]
    assert await names(api, "%_") == [("task", "50%_off")]
    assert await names(api, "  ") == []
    item = (await api.get("search?q=manual__1")).json()["items"][0]
    item.pop("display_name")
    assert item == {"kind": "run", "name": "manual__1", "dag_id": "sales_daily", "state": "failed", "match": 0}
