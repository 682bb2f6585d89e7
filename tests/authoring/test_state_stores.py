"""`task_state_store` and `asset_state_store` in tasks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from aiosched import DAG, NEVER_EXPIRE, Asset, AssetAlias, task
from aiosched.authoring.assets import state_stores
from aiosched.authoring.assets.state_stores import AssetStateStores, StateStore
from aiosched.executors.dag_test import run_dag_test

ORDERS = Asset("orders")


async def test_tries_of_a_task_share_a_store_and_instances_do_not() -> None:
    seen: list[Any] = []
    with DAG("d") as dag:

        @task(retries=1, retry_delay=0)
        def load(number: int, task_state_store: Any = None) -> None:
            seen.append((number, task_state_store.get("tries", 0)))
            task_state_store.set("tries", task_state_store.get("tries", 0) + 1, retention=NEVER_EXPIRE)
            if task_state_store.get("tries") == 1:
                raise ValueError

        load.expand(number=[5, 6])

    run = await run_dag_test(dag)

    assert run.state == "success"
    assert sorted(seen) == [(5, 0), (5, 1), (6, 0), (6, 1)]


async def test_coroutines_await_their_stores() -> None:
    seen: list[Any] = []
    with DAG("d") as dag:

        @task(inlets=[ORDERS])
        async def load(task_state_store: Any = None, asset_state_store: Any = None) -> None:
            for store in (task_state_store, asset_state_store, asset_state_store[ORDERS]):
                seen.append(await store.aget("k", "none"))
                await store.aset("k", 1, retention=timedelta(hours=1))
                await store.aset("other", 2)
                seen.append(await store.aget("k"))
                await store.adelete("k")
                seen.append(await store.aget("other"))
                await store.aclear()
                seen.append(await store.aget("other"))

        load()

    run = await run_dag_test(dag)

    assert run.state == "success", run.task("load").reason
    assert seen == ["none", 1, 2, None] * 3


async def test_values_keep_their_types() -> None:
    values = [
        datetime(2026, 1, 1, tzinfo=UTC),
        (1, Decimal("1.50")),
        {"seen": {1, 2}},
        {3: b"x"},
        {"$aiosched": "text"},
    ]
    seen: list[Any] = []
    with DAG("d") as dag:

        @task(inlets=[ORDERS])
        def load(task_state_store: Any = None, asset_state_store: Any = None) -> None:
            for store in (task_state_store, asset_state_store):
                store.set("k", values)
                seen.append(repr(store.get("k")))

        load()

    run = await run_dag_test(dag)

    assert run.state == "success", run.task("load").reason
    assert seen == [repr(values)] * 2


async def test_tasks_with_an_asset_share_its_store() -> None:
    seen: list[Any] = []
    with DAG("d") as dag:

        @task(outlets=[ORDERS])
        def produce(asset_state_store: Any = None) -> None:
            asset_state_store.set("watermark", "2026")

        @task(inlets=[ORDERS, Asset("other")])
        def consume(**context: Any) -> None:
            stores = context["asset_state_store"]
            seen.append((stores[ORDERS].get("watermark"), stores[Asset("other")].get("watermark")))
            stores[ORDERS].delete("watermark")
            seen.append(stores[ORDERS].get("watermark"))

        produce() >> consume()

    run = await run_dag_test(dag)

    assert run.state == "success"
    assert seen == [("2026", None), None]


def test_stores_of_assets_are_told_apart() -> None:
    stores = AssetStateStores([ORDERS, AssetAlias("alias")], ["texts", Asset.ref(uri="s3://x")])

    assert isinstance(stores[Asset("texts")], StateStore)
    assert stores[Asset.ref(name="orders")] is stores[ORDERS]
    assert isinstance(stores[Asset.ref(uri="s3://x")], StateStore)
    with pytest.raises(KeyError, match="neither an inlet nor an outlet"):
        stores[Asset("other")]
    with pytest.raises(ValueError, match=r"has 3 assets .* context\[\"asset_state_store\"\]\[asset\]\.get"):
        stores.get("k")


@pytest.mark.parametrize(
    ("value", "retention", "kind", "message"),
    [
        (None, None, ValueError, "holds no None"),
        (1, timedelta(0), ValueError, "is not above zero"),
        (object(), None, TypeError, "object"),
    ],
)
def test_what_a_store_does_not_hold(value: Any, retention: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        state_stores._stored(value, retention)
