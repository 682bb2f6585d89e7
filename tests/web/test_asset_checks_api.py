"""Checks of assets through the API and the client, in an application with a scheduler."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from aiosched import DAG, Asset, CheckResult, asset_check
from aiosched.client import Client
from aiosched.config import Settings, WebSettings
from aiosched.core.values.typed_json import readable
from aiosched.errors import NotFound
from aiosched.scheduler import Scheduler

URI = "s3://bucket/orders #1.csv"


def shop(says: dict[str, Any]) -> DAG:
    orders = Asset("orders", uri=URI)
    with DAG("shop", schedule=None) as dag:

        @asset_check(orders, blocking=True)
        async def gaps() -> Any:
            return says["gaps"]

        @asset_check(Asset.ref(uri=URI))
        async def sizes() -> Any:
            return says["sizes"]

        gaps()
        sizes()
    return dag


async def test_what_checks_say_is_listed_and_the_worst_is_that_of_the_asset(dsn: str) -> None:
    says = {"gaps": CheckResult("warn", "3 gaps", {"sum": Decimal("1.50")}), "sizes": False}
    settings = Settings(web=WebSettings(auth="none"))
    async with Scheduler(dsn=dsn, dags=[shop(says)], settings=settings) as scheduler:
        app = FastAPI()
        app.mount("/flows", scheduler.web_app())
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://host.example/flows/api/v1/") as live:

            async def found() -> tuple[list[dict[str, Any]], dict[str, Any]]:
                checks = (await live.get("asset-checks", params={"name": "orders"})).json()["checks"]
                items = (await live.get("assets")).json()["items"]
                return checks, {item["name"]: item["check"] for item in items}

            checks, worst = await found()
            assert [(one["task_id"], one["is_blocking"], one["last"], one["results"]) for one in checks] == [
                ("gaps", True, None, []), ("sizes", False, None, []),
            ]  # fmt: skip
            assert worst == {"orders": None}

            await scheduler.trigger("shop", run_id="first")
            await scheduler.wait_idle()
            checks, worst = await found()
            said = [(one["last"]["status"], one["last"]["message"], one["last"]["run_id"]) for one in checks]
            assert said == [("warn", "3 gaps", "first"), ("fail", "", "first")]
            assert readable(checks[0]["last"]["metadata"]) == {"sum": "decimal 1.50"}
            assert worst == {"orders": "fail"}

            says["sizes"] = True
            await scheduler.trigger("shop", run_id="second")
            await scheduler.wait_idle()
            checks, worst = await found()
            assert [[one["status"] for one in check["results"]] for check in checks] == [
                ["warn", "warn"], ["pass", "fail"],
            ]  # fmt: skip
            assert worst == {"orders": "warn"}
            assert (await live.get("asset", params={"name": "orders"})).json()["check"] == "warn"
            async with Client("http://host.example/flows", transport=transport) as client:
                assert [(one.task_id, one.is_blocking) for one in await client.asset_checks("orders")] == [
                    ("gaps", True), ("sizes", False),
                ]  # fmt: skip
                with pytest.raises(NotFound, match="orders"):
                    await client.asset_checks("order")
            assert (await live.get("asset-checks", params={"name": "order"})).status_code == 404
            assert (await live.get("asset-checks", params={"name": "a\0b"})).status_code == 422
