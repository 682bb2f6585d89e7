"""What checks of assets say, stored by the service that their attempts call, and what blocking ones hold back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from aiosched import DAG, Asset, CheckResult, asset_check, task
from aiosched.clock import FakeClock
from aiosched.config import Settings
from aiosched.core.graph.spec import AssetRef, DagSpec
from aiosched.core.values.messages import Outcome
from aiosched.core.values.states import RunState
from aiosched.db.assets.checks import KEPT
from aiosched.db.queries.check_queries import checks_of, worst_checks
from aiosched.db.upkeep.dag_deletion import delete_dag
from aiosched.db.upkeep.retention import clean
from aiosched.errors import Refused
from aiosched.scheduler import Scheduler
from aiosched.scheduler.services.task_services import DatabaseServices
from tests.patience import PATIENCE
from tests.scheduler.harness import Running, dag, running
from tests.scheduler.harness import task as task_spec

ORDERS = AssetRef(name="orders", uri="s3://shop/orders")
CHECKED = AssetRef(name="orders", uri="s3://shop/orders", is_check=True)
PASS = {"map_index": -1, "try_number": 1, "status": "pass"}


def shop(*inlets: AssetRef, dag_id: str = "shop", **options: Any) -> DagSpec:
    return dag(dag_id, task_spec("check", inlets=inlets or (CHECKED,), **options), task_spec("other"))


async def say(it: Running, run: int = 0, **args: Any) -> bool:
    """As an attempt of the run with that key (0: the newest) would."""
    if not run:
        ((run,),) = await it.fetch("SELECT max(id) FROM dag_run")
    answer = await DatabaseServices(it.db).call(run, "asset_check", json.dumps({"task_id": "check", **PASS, **args}))
    return bool(json.loads(answer)["is_stored"])


async def stored(it: Running) -> list[tuple[Any, ...]]:
    rows = await it.fetch(
        """SELECT a.name, c.dag_id, r.run_id, c.task_id, c.map_index, c.try_number, c.status
             FROM asset_check AS c JOIN asset AS a ON a.id = c.asset_id JOIN dag_run AS r ON r.id = c.run_id
            ORDER BY c.id"""
    )
    return [tuple(row) for row in rows]


async def test_a_result_is_stored_once_for_a_try(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, shop()) as it:
        await it.trigger("shop", run_id="r")
        told = await asyncio.gather(*(say(it, status=status) for status in ("warn", "warn", "warn")))
        again = await say(it, status="fail")

        assert (sorted(told), again) == ([False, False, True], False)
        assert await stored(it) == [("orders", "shop", "r", "check", -1, 1, "warn")]


async def test_each_try_says_something_and_the_last_counts(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, shop(retries=1, retry_delay=1.0)) as it:
        await it.trigger("shop", run_id="r")
        assert await say(it, status="fail", message="3 gaps", metadata={"gaps": 3})
        it.executor.report(await it.attempt("check"), Outcome.FAILED, reason="3 gaps")
        await it.settled()

        assert not await say(it)  # the first try has ended, and the second has not begun
        assert not await say(it, try_number=2)
        await it.advance(10)
        assert not await say(it)  # late, from a process of the first try
        assert await say(it, try_number=2)

        assert [(row[5], row[6]) for row in await stored(it)] == [(1, "fail"), (2, "pass")]
        async with it.db.acquire() as conn:
            (check,) = await checks_of(conn, "orders")
            assert await worst_checks(conn, ["orders", "nothing"]) == {"orders": "pass"}
        assert check.last is not None
        assert (check.last.status, check.last.try_number, check.is_blocking) == ("pass", 2, False)
        assert [(one.status, one.message, one.metadata) for one in check.results] == [
            ("pass", "", {}), ("fail", "3 gaps", {"gaps": 3}),
        ]  # fmt: skip


@pytest.mark.parametrize(
    "args",
    [
        {"task_id": "other"},
        {"task_id": "nothing"},
        {"task_id": "check'; DROP TABLE asset_check; --"},
        {"map_index": 0},
        {"try_number": 2},
        {"try_number": 0},
        {"run": 4_711},
    ],
    ids=repr,
)
async def test_what_is_no_try_of_a_check_stores_nothing(dsn: str, clock: FakeClock, args: dict[str, Any]) -> None:
    async with running(dsn, clock, shop()) as it:
        await it.trigger("shop", run_id="r")

        assert not await say(it, **args)
        assert await stored(it) == []


@pytest.mark.parametrize("args", [{"map_index": 2**40}, {"try_number": -(2**40)}, {"try_number": 40_000}], ids=repr)
async def test_a_number_that_no_column_holds_is_refused(dsn: str, clock: FakeClock, args: dict[str, Any]) -> None:
    async with running(dsn, clock, shop()) as it:
        await it.trigger("shop", run_id="r")

        with pytest.raises(Refused, match="wrong"):
            await say(it, **args)


async def test_a_task_speaks_only_of_the_asset_that_its_file_says_it_checks(dsn: str, clock: FakeClock) -> None:
    """Another team's asset cannot even be named: the asset of a result is found, not told."""
    reads = shop(AssetRef(name="orders"), dag_id="reads")
    theirs = shop(AssetRef(name="theirs", is_check=True), dag_id="theirs")
    async with running(dsn, clock, reads, theirs) as it:
        await it.trigger("reads", run_id="r")

        assert not await say(it, asset="theirs", name="theirs", asset_id=1, dag_id="theirs")
        assert await stored(it) == []


async def test_an_asset_that_another_dag_defines_is_found_by_name_and_by_uri(dsn: str, clock: FakeClock) -> None:
    by_name = shop(AssetRef(name="orders", kind="name", is_check=True), dag_id="by_name")
    by_uri = shop(AssetRef(name="s3://shop/orders", kind="uri", is_check=True), dag_id="by_uri")
    maker = dag("maker", task_spec("make", outlets=(ORDERS,)))
    async with running(dsn, clock, maker, by_name, by_uri) as it:
        for dag_id in ("by_name", "by_uri"):
            await it.trigger(dag_id, run_id=dag_id)
            assert await say(it)

        assert [row[:2] for row in await stored(it)] == [("orders", "by_name"), ("orders", "by_uri")]
        async with it.db.acquire() as conn:
            assert [check.dag_id for check in await checks_of(conn, "orders")] == ["by_name", "by_uri"]
            assert [check.dag_id for check in await checks_of(conn, "orders", seen=["by_uri"])] == ["by_uri"]
            assert await worst_checks(conn, ["orders"], seen=[]) == {}


async def test_a_mapped_check_says_the_worst_of_its_instances_by_their_last_tries(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, shop()) as it:
        for run_id in ("old", "r"):
            await it.trigger("shop", run_id=run_id)
        rows = [
            ("old", 0, 1, "fail"), ("r", 0, 1, "fail"), ("r", 0, 2, "pass"), ("r", 1, 1, "warn"), ("r", 2, 1, "pass"),
        ]  # fmt: skip
        for run_id, *facts in rows:
            await it.execute(
                "INSERT INTO asset_check (asset_id, dag_id, task_id, run_id, map_index, try_number, status)"
                " SELECT a.id, 'shop', 'check', r.id, $2, $3, $4 FROM asset AS a, dag_run AS r WHERE r.run_id = $1",
                run_id,
                *facts,
            )

        async with it.db.acquire() as conn:
            (check,) = await checks_of(conn, "orders")
        assert check.last is not None
        assert (check.last.run_id, check.last.map_index, check.last.status) == ("r", 1, "warn")
        assert [one.map_index for one in check.results] == [2, 1, 0, 0, 0]


async def test_old_results_of_a_check_are_forgotten_but_none_of_its_run(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, shop()) as it:
        await it.trigger("shop", run_id="r")
        ((run,),) = await it.fetch("SELECT id FROM dag_run")
        for of, many in ((-5, KEPT + 50), (run, KEPT + 50)):
            await it.execute(
                "INSERT INTO asset_check (asset_id, dag_id, task_id, run_id, map_index, try_number, status)"
                " SELECT a.id, 'shop', 'check', $1, n, 1, 'pass' FROM asset AS a, generate_series(1, $2) AS n",
                of,
                many,
            )

        assert await say(it)

        counts = await it.fetch("SELECT run_id, count(*), min(map_index) FROM asset_check GROUP BY 1 ORDER BY 1")
        assert [tuple(row) for row in counts] == [(-5, KEPT, 51), (run, KEPT + 51, -1)]


async def test_results_go_with_their_run_and_with_their_dag(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, shop(), shop(dag_id="other_shop")) as it:
        for dag_id in ("shop", "other_shop"):
            await it.trigger(dag_id, run_id=dag_id)
            assert await say(it)
        await it.finish_all()
        async with it.db.acquire() as conn:
            await delete_dag(conn, "other_shop")
        assert [row[1] for row in await stored(it)] == ["shop"]

        await clean(it.db, it.clock.now().replace(year=2100))

        assert await it.fetch("SELECT 1 FROM asset_check") == []


async def test_a_check_that_the_file_no_longer_has_is_not_shown_and_stores_nothing(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, shop()) as it:
        await it.trigger("shop", run_id="r")
        assert await say(it, status="fail")
        await it.trigger("shop", run_id="later")

        await it.register(shop(ORDERS))

        assert not await say(it)
        async with it.db.acquire() as conn:
            assert await checks_of(conn, "orders") == []
            assert await worst_checks(conn, ["orders"]) == {}


# -- with real attempts ------------------------------------------------------------------------------

ORDERED = Asset("orders")


async def rows_of(scheduler: Scheduler, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await scheduler.db.fetch(query)]


async def test_consumers_begin_once_after_a_blocking_check_has_passed(dsn: str) -> None:
    says: list[Any] = [CheckResult("fail", "3 gaps", {"gaps": 3}), CheckResult("warn", "1 gap")]

    def build() -> list[DAG]:
        with DAG("shop", schedule=None) as shop:

            @task
            async def load() -> None: ...

            @asset_check(ORDERED, blocking=True)
            async def no_gaps(outlet_events: Any = None) -> CheckResult:
                outlet_events[ORDERED].extra["rows"] = 12
                return says.pop(0)  # type: ignore[no-any-return]

            load() >> no_gaps()
        with DAG("report", schedule=ORDERED) as report:

            @task
            async def write(triggering_asset_events: Any = None) -> Any:
                return [event.extra for event in triggering_asset_events[ORDERED]]

            write()
        return [shop, report]

    async with Scheduler(dsn=dsn, dags=build(), settings=Settings()) as scheduler:
        run = await scheduler.trigger("shop", run_id="r")
        assert await run.wait(timeout=PATIENCE) == RunState.FAILED
        await scheduler.wait_idle()
        assert await rows_of(scheduler, "SELECT 1 FROM asset_event") == []
        assert await rows_of(scheduler, "SELECT 1 FROM dag_run WHERE dag_id = 'report'") == []
        reasons = await rows_of(scheduler, "SELECT reason FROM task_instance WHERE state = 'failed'")
        assert reasons == [("AssetCheckFailed: 3 gaps",)]

        await scheduler.clear("shop", ["r"], task_ids=["no_gaps"])
        await scheduler.wait_idle()

        assert await rows_of(scheduler, "SELECT state FROM dag_run ORDER BY id") == [("success",), ("success",)]
        assert await rows_of(scheduler, "SELECT value::text FROM xcom AS x JOIN dag_run AS r ON r.id = x.run_id"
                                        " WHERE r.dag_id = 'report'") == [('[{"rows":12}]',)]  # fmt: skip
        assert await rows_of(scheduler, "SELECT try_number, status, message FROM asset_check ORDER BY id") == [
            (1, "fail", "3 gaps"), (2, "warn", "1 gap"),
        ]  # fmt: skip


AIRFLOW = """
from airflow import DAG
from airflow.operators.python import PythonOperator
from datetime import datetime

from aiosched import Asset, asset_check

with DAG("old", schedule_interval=None, start_date=datetime(2024, 1, 1), default_args={"retries": 0}) as dag:
    load = PythonOperator(task_id="load", python_callable=lambda: 1)

    @asset_check(Asset("orders"))
    def plain(ti): return ti.xcom_pull(task_ids="load") == 1

    @asset_check(Asset("orders"))
    async def coroutine(**context): return await context["ti"].axcom_pull(task_ids="load") == 2

    @asset_check(Asset("orders"))
    def each(number): return number > 1

    load >> [plain(), coroutine(), each.expand(number=[1, 2])]
"""


async def test_checks_in_a_file_of_airflow(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text(AIRFLOW)
    async with Scheduler(dsn=dsn, dags_folder=tmp_path, executor="inline", settings=Settings()) as scheduler:
        run = await scheduler.trigger("old", run_id="r")
        assert await run.wait(timeout=PATIENCE) == RunState.FAILED

        assert await rows_of(scheduler, "SELECT task_id, map_index, status FROM asset_check ORDER BY 1, 2") == [
            ("coroutine", -1, "fail"), ("each", 0, "fail"), ("each", 1, "pass"), ("plain", -1, "pass"),
        ]  # fmt: skip
