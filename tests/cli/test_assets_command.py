"""`aiosched assets`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from aiosched.core.assets.conditions import AssetReference
from aiosched.db.assets.assets import NewAssetEvent, record_events, store_references
from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli
from tests.cli.records import NOON, add_dag, add_run, insert
from tests.cli.serving import living
from tests.databases import Server
from tests.patience import PATIENCE

DAGS = """
from aiosched import Asset, PartitionedAssetTimetable, StartOfDayMapper, dag, task

orders = Asset("orders", uri="s3://orders")

@dag(schedule=orders)
def report():
    @task
    def read(triggering_asset_events):
        return [event.extra for event in triggering_asset_events[orders]]
    read()

report()

@dag(schedule=PartitionedAssetTimetable(assets=orders, default_partition_mapper=StartOfDayMapper()))
def by_day():
    @task
    def read(partition_key, partition_date, dag_run, triggering_asset_events):
        keys = [event.partition_key for event in triggering_asset_events.get(orders, ())]
        return [partition_key, dag_run.partition_key, str(partition_date), keys]
    read()

by_day()
"""


VALUE = "SELECT value::text FROM xcom WHERE run_id = $1"


async def a_few(db: Database) -> None:
    await add_dag(db, "maker")
    await add_dag(db, "report")
    async with db.transaction() as conn:
        mentions = {
            "maker": (
                AssetReference("outlet", "asset", "orders", "s3://orders", "load"),
                AssetReference("inlet", "asset", "orders", "s3://orders", "gaps", is_check=True),
                AssetReference("inlet", "asset", "orders", "s3://orders", "new", is_check=True),
            ),
            "report": (AssetReference("schedule", "asset", "orders", "orders"),),
        }
        await store_references(conn, mentions, now=NOON)
        await record_events(conn, [NewAssetEvent("orders", "", '{"rows": 1}', None, NOON + timedelta(hours=1))])


async def a_warning(db: Database) -> None:
    run = await add_run(db, "maker", await add_dag(db, "other"), "r")
    async with db.acquire() as conn:
        asset = await conn.fetchval("SELECT id FROM asset")
        place = {"asset_id": asset, "dag_id": "maker", "task_id": "gaps", "run_id": run, "map_index": -1}
        said = {"try_number": 1, "status": "warn", "message": "3 gaps", "metadata": {"gaps": 3}}
        await insert(conn, "asset_check", place | said)


def test_assets_are_listed_with_who_makes_them_and_who_waits(on_db: Cli) -> None:
    assert on_db("assets", "list").stderr == "no assets yet\n"
    on_db.work(a_few)

    (row,) = on_db.json("asset", "list")
    assert (row["name"], row["uri"], row["is_active"]) == ("orders", "s3://orders", True)
    assert (row["producers"], row["consumers"]) == (["maker"], ["report"])
    assert datetime.fromisoformat(row["last_event_at"]) == NOON + timedelta(hours=1)
    assert (row["freshness"], row["expected_by"], on_db.json("assets", "list", "--freshness", "late")) == (
        "unknown",
        None,
        [],
    )
    assert on_db.lines("assets", "list")[0][:5] == ["orders", "s3://orders", "yes", "maker", "report"]


def test_what_checks_said_is_listed(on_db: Cli) -> None:
    assert "There is no asset 'orders'" in on_db("assets", "checks", "orders", code=3).stderr
    on_db.work(a_few)
    on_db.work(a_warning)

    gaps, new = on_db.json("assets", "checks", "orders")
    assert (gaps["task_id"], gaps["is_blocking"], new["task_id"], new["last"]) == ("gaps", False, "new", None)
    assert (gaps["last"]["status"], gaps["last"]["metadata"]) == ("warn", {"gaps": 3})
    first, second = on_db.lines("assets", "checks", "orders")
    assert [*first[:4], *first[5:]] == ["maker", "gaps", "no", "warn", "r", "3 gaps", '{"gaps": 3}']
    assert second[:3] == ["maker", "new", "no"]
    assert on_db.json("assets", "list")[0]["check"] == "warn"


def test_the_events_of_an_asset_are_listed(on_db: Cli) -> None:
    on_db.work(a_few)

    (event,) = on_db.json("assets", "events", "orders")

    assert (event["name"], event["extra"], event["dag_id"]) == ("orders", {"rows": 1}, None)
    assert "Did you mean orders?" in on_db("assets", "events", "order", code=3).stderr


def test_an_event_waits_in_the_inbox_while_no_scheduler_runs(on_db: Cli) -> None:
    on_db.work(a_few)

    assert "waits: no scheduler has applied it" in on_db("assets", "emit", "orders").stderr


@pytest.mark.parametrize("extra", ["{", "[1]", "5"])
def test_an_extra_is_a_json_object(on_db: Cli, extra: str) -> None:
    assert "--extra" in on_db("assets", "emit", "orders", "--extra", extra, code=2).stderr


@pytest.fixture(scope="module")
def live(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    folder = tmp_path_factory.mktemp("assets")
    (folder / "dags").mkdir()
    (folder / "dags" / "report.py").write_text(DAGS)
    with living(server, folder) as cli:
        yield cli


def test_an_emitted_event_makes_a_run_that_sees_its_extra(live: Cli) -> None:
    said = live.json("assets", "emit", "orders", "--extra", '{"rows": 3}')

    assert (said["name"], said["extra"]) == ("orders", {"rows": 3})
    assert abs(datetime.fromisoformat(said["at"]) - datetime.now(UTC)) < timedelta(minutes=5)
    live.work(lambda db: first_run(db, "report"))
    run = live.json("runs", "watch", "report", "latest")
    assert (run["run_type"], run["state"]) == ("asset_triggered", "success")
    assert live.work(lambda db: value_of(db, VALUE, run["key"])) == '[{"rows":3}]'


def test_an_event_of_a_partition_makes_a_run_of_its_key(live: Cli) -> None:
    said = live.json("assets", "emit", "orders", "--partition-key", "2026-01-05T10:00:00")
    assert said["name"] == "orders"
    live.work(lambda db: first_run(db, "by_day"))
    run = live.json("runs", "watch", "by_day", "latest")
    assert (run["state"], run["partition_key"]) == ("success", "2026-01-05")
    (value,) = json.loads(f"[{live.work(lambda db: value_of(db, VALUE, run['key']))}]")
    assert value == ["2026-01-05", "2026-01-05", "2026-01-05 00:00:00+00:00", ["2026-01-05T10:00:00"]]
    assert live.json("runs", "show", "by_day", "latest")["partition_date"] == "2026-01-05T00:00:00Z"
    assert [event["partition_key"] for event in live.json("assets", "events", "orders")][-1] == "2026-01-05T10:00:00"

    live.json("dags", "trigger", "by_day", "--partition-key", "2026-02-01", "--run-id", "by_hand")
    run = live.json("runs", "watch", "by_day", "by_hand")
    assert (run["state"], run["partition_key"]) == ("success", "2026-02-01")
    assert "does not suit" in live("dags", "trigger", "by_day", "--partition-key", "soon", code=4).stderr
    assert "has no partitions" in live("dags", "trigger", "report", "--partition-key", "us", code=4).stderr
    assert "not printable" in live("assets", "emit", "orders", "--partition-key", " ", code=4).stderr


async def first_run(db: Database, dag_id: str) -> None:
    """Wait until the event has made its run of this DAG."""
    async with asyncio.timeout(PATIENCE), db.acquire() as conn:
        while True:
            if await conn.fetchval("SELECT count(*) FROM dag_run WHERE dag_id = $1", dag_id):
                return
            await asyncio.sleep(0.01)


async def value_of(db: Database, query: str, run: int) -> object:
    return await db.fetchval(query, run)


def test_the_next_runs_of_a_dag_say_what_it_waits_for(live: Cli) -> None:
    assert "report runs after new events of orders" in live("dags", "next", "report").stderr


def test_an_unknown_asset_is_refused_with_a_hint(live: Cli) -> None:
    assert "There is no asset 'order'. Did you mean orders?" in live("assets", "emit", "order", code=3).stderr
