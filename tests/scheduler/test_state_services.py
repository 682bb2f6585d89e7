"""The state stores of tasks and assets in PostgreSQL, through the service that every kind of worker calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import AssetRef
from aiosched.db.server.engine import Database
from aiosched.db.upkeep.retention import clean, count_old
from aiosched.errors import NotFound, Refused
from aiosched.scheduler.services.state_services import state_services
from aiosched.scheduler.services.task_services import DatabaseServices
from tests.db.waiting import until_true
from tests.scheduler.harness import NEW_YEAR, dag, register, running, task

T = {"task_id": "t", "map_index": -1}
DAY = 86_400.0


async def ask(db: Database, name: str, do: str, *, run: int = 1, days: float = 30.0, **args: Any) -> Any:
    services = DatabaseServices(db, state_services(retention_days=days))
    return json.loads(await services.call(run, name, json.dumps({"do": do, **args})))


async def test_a_value_is_that_of_one_instance_in_one_run(db: Database) -> None:
    await ask(db, "task_state", "set", **T, key="k", value={"a": [1, None]}, retention=None)

    assert await ask(db, "task_state", "get", **T, key="k") == {"found": True, "value": {"a": [1, None]}}
    for other in ({"run": 2, **T}, {"task_id": "u", "map_index": -1}, {"task_id": "t", "map_index": 0}):
        assert await ask(db, "task_state", "get", **other, key="k") == {"found": False, "value": None}
    await ask(db, "task_state", "set", **T, key="k", value="new")
    assert await ask(db, "task_state", "get", **T, key="k") == {"found": True, "value": "new"}


async def test_values_are_deleted_by_key_by_instance_and_by_task(db: Database) -> None:
    places = [{"task_id": "t", "map_index": index} for index in (0, 1)]
    for place in places:
        for key in ("a", "b"):
            await ask(db, "task_state", "set", **place, key=key, value=1)

    async def left() -> list[tuple[int, str]]:
        return [tuple(r) for r in await db.fetch("SELECT map_index, key FROM task_state ORDER BY 1, 2")]

    await ask(db, "task_state", "delete", **places[0], key="a")
    await ask(db, "task_state", "delete", **places[0], key="a")  # it is gone already
    assert await left() == [(0, "b"), (1, "a"), (1, "b")]
    await ask(db, "task_state", "clear", **places[1])
    assert await left() == [(0, "b")]
    await ask(db, "task_state", "clear", task_id="t", map_index=None)
    assert await left() == []


@pytest.mark.parametrize(
    ("service", "retention", "days", "seconds"),
    [
        ("task_state", None, 30.0, 30 * DAY),
        ("task_state", None, 0.0, None),
        ("task_state", 60.0, 30.0, 60.0),
        ("task_state", "never", 30.0, None),
        ("asset_state", None, 30.0, None),
        ("asset_state", 60.0, 30.0, 60.0),
    ],
)
async def test_when_a_value_expires(
    db: Database, service: str, retention: Any, days: float, seconds: float | None
) -> None:
    place = T if service == "task_state" else {"asset": "orders"}

    await ask(db, service, "set", days=days, **place, key="k", value=1, retention=retention)

    found = await db.fetchval(f"SELECT extract(epoch FROM expires_at - updated_at)::float8 FROM {service}")
    assert found == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(("service", "place"), [("task_state", T), ("asset_state", {"asset": "orders"})])
async def test_what_has_expired_is_gone_and_db_clean_removes_it(
    db: Database, service: str, place: dict[str, Any]
) -> None:
    for key in ("old", "new"):
        await ask(db, service, "set", **place, key=key, value=1, retention=60.0)
    await db.execute(f"UPDATE {service} SET expires_at = now() - interval '1 second' WHERE key = 'old'")

    assert await ask(db, service, "get", **place, key="old") == {"found": False, "value": None}
    counted = await count_old(db, NEW_YEAR)
    removed = await clean(db, NEW_YEAR)

    assert getattr(counted, f"{service}s") == getattr(removed, f"{service}s") == 1
    assert await ask(db, service, "get", **place, key="new") == {"found": True, "value": 1}


async def test_an_asset_is_found_by_its_uri(db: Database) -> None:
    outlet = AssetRef(name="orders", uri="s3://orders")
    await register(db, dag("d", task("a", outlets=(outlet,))))

    await ask(db, "asset_state", "set", uri="s3://orders", key="k", value=1)

    assert await ask(db, "asset_state", "get", asset="orders", key="k") == {"found": True, "value": 1}
    with pytest.raises(NotFound, match="No DAG mentions an asset with the URI 's3://other'"):
        await ask(db, "asset_state", "get", uri="s3://other", key="k")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"key": "", "value": 1}, "give text of 1 to 500 characters"),
        ({"key": 7, "value": 1}, "The key 7 of a state store is wrong"),
        ({"key": "k", "value": "x" * 1_000_001}, "1,000,003 characters of JSON, allowed are 1,000,000"),
        ({"key": "k", "value": "\0"}, "The state 'k' cannot be stored"),
    ],
)
async def test_what_cannot_be_stored_is_refused(db: Database, args: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        await ask(db, "task_state", "set", **T, **args)


async def test_the_values_of_a_task_go_with_its_run_and_expired_ones_by_themselves(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d"), retention=True) as it:
        await it.trigger("d", "r")
        await it.finish_all()
        (run,) = [row[0] for row in await it.fetch("SELECT id FROM dag_run")]
        for key, seconds in (("kept", None), ("expired", 60.0)):
            await ask(it.db, "task_state", "set", run=run, **T, key=key, value=1, retention=seconds or "never")
        await it.execute("UPDATE task_state SET expires_at = now() - interval '1 day' WHERE key = 'expired'")

        it.session.wakeups.retention.wake()
        await until_keys(it, ["kept"])
        await it.ask("delete_dag", "d")

        assert await it.fetch("SELECT * FROM task_state") == []


async def until_keys(it: Any, keys: list[str]) -> None:
    async with it.db.acquire() as conn:
        await until_true(conn, f"SELECT array_agg(key) = ARRAY{keys} FROM task_state")
