"""Statements on asset events: each event counts once, however commits and runs interleave."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiosched.core.assets.conditions import AssetReference, triggering_instant
from aiosched.core.values.ids import partition_of
from aiosched.db.assets import assets
from aiosched.db.assets.assets import NewAssetEvent, NewConsumer
from aiosched.db.queries import asset_queries
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(second: int) -> datetime:
    return NOON + timedelta(seconds=second)


def event(name: str, second: int, **columns: Any) -> NewAssetEvent:
    return NewAssetEvent(name, name, "{}", columns.pop("alias", None), at(second), **columns)


async def add_dag(conn: DatabaseConnection, dag_id: str, *waits_for: AssetReference, paused: bool = False) -> None:
    await conn.execute(
        "INSERT INTO dag (dag_id, partition, is_paused) VALUES ($1, $2, $3)", dag_id, partition_of(dag_id), paused
    )
    await assets.store_references(conn, {dag_id: waits_for}, now=NOON)


def waits(name: str, kind: str = "asset", uri: str | None = None) -> AssetReference:
    return AssetReference("schedule", kind, name, (uri or name) if kind == "asset" else "")


def makes(name: str, **fields: Any) -> AssetReference:
    return AssetReference("outlet", "asset", name, fields.pop("uri", name), "t", **fields)


async def record(db: Database, *events: NewAssetEvent) -> assets.Recorded:
    async with db.transaction() as conn:
        return await assets.record_events(conn, events)


async def run_if_queued(conn: DatabaseConnection, dag_id: str, run: int) -> bool:
    """What the owner of a DAG does: everything that is queued becomes one run."""
    marks = await assets.lock_watermarks(conn, [dag_id])
    queue = await assets.lock_queue(conn, [dag_id])
    if not queue:
        return False
    until = triggering_instant(queue[dag_id])
    after = marks[dag_id].last_run_after or marks[dag_id].scheduled_at
    await assets.consume(conn, [NewConsumer(dag_id, run, after, until)])
    await assets.drop_queue(conn, queue)
    return True


async def listed(db: Database, dag_id: str) -> dict[int, list[int]]:
    """The seconds of the events of each run."""
    async with db.acquire() as conn:
        rows = await conn.fetch(
            """SELECT c.run_id, e.timestamp FROM asset_consumption AS c JOIN asset_event AS e ON e.id = c.event_id
                WHERE c.dag_id = $1 ORDER BY c.run_id, e.timestamp, e.id""",
            dag_id,
        )
    found: dict[int, list[int]] = {}
    for run, timestamp in rows:
        found.setdefault(run, []).append(int((timestamp - NOON).total_seconds()))
    return found


_numbers = iter(range(1_000_000))
steps = st.lists(st.sampled_from(["a", "b", "run"]), max_size=20)


@given(steps)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_events_between_two_runs_make_exactly_one_run_that_lists_all_of_them(
    db: Database, steps: list[str]
) -> None:
    suffix = f"_{next(_numbers)}"
    dag_id, expected, pending = f"d{suffix}", dict[int, list[int]](), list[int]()
    async with db.transaction() as conn:
        await add_dag(conn, dag_id, waits(f"a{suffix}"), waits(f"b{suffix}"))

    for second, step in enumerate([*steps, "run"], start=1):
        if step != "run":
            await record(db, event(step + suffix, second))
            pending.append(second)
            continue
        async with db.transaction() as conn:
            made = await run_if_queued(conn, dag_id, second)
        assert made is bool(pending)
        if pending:
            expected[second], pending = pending, []

    assert await listed(db, dag_id) == expected


async def test_an_event_whose_commit_comes_late_belongs_to_the_next_run(db: Database) -> None:
    async with db.transaction() as conn:
        await add_dag(conn, "d", waits("a"), waits("b"))
    async with db.transaction() as slow:
        await assets.record_events(slow, [event("a", 1)])
        await record(db, event("b", 5))
        async with db.transaction() as conn:
            assert await run_if_queued(conn, "d", 1)

    async with db.transaction() as conn:
        assert await run_if_queued(conn, "d", 2)
        assert not await run_if_queued(conn, "d", 3)

    assert await listed(db, "d") == {1: [5], 2: [1]}


async def test_a_row_that_is_queued_while_a_run_is_made_stays(db: Database) -> None:
    async with db.transaction() as conn:
        await add_dag(conn, "d", waits("a"), waits("b"))
    await record(db, event("a", 1))

    async with db.transaction() as conn:
        queue = await assets.lock_queue(conn, ["d"])
        await record(db, event("b", 2))
        await assets.drop_queue(conn, queue)

    async with db.acquire() as conn:
        left = await assets.read_queue(conn, [partition_of("d")])
    assert [row.asset.name for row in left["d"]] == ["b"]


async def test_consumers_by_name_uri_and_alias_are_queued_and_others_are_not(db: Database) -> None:
    async with db.transaction() as conn:
        await add_dag(conn, "maker", makes("a", uri="s3://a"))
        for name, reference in {
            "direct": waits("a", uri="s3://a"),
            "by_name": waits("a", "name"),
            "by_uri": waits("s3://a", "uri"),
            "by_alias": waits("late", "alias"),
            "other": waits("b"),
        }.items():
            await add_dag(conn, name, reference)
        await add_dag(conn, "paused", waits("a"), paused=True)
        await add_dag(conn, "stale", waits("a"))
        await conn.execute("UPDATE dag SET is_stale = true WHERE dag_id = 'stale'")

    recorded = await record(db, event("a", 1, alias="late"))

    async with db.acquire() as conn:
        queued = await assets.read_queue(conn, range(64))
        targets = await assets.alias_targets(conn, ["late", "unused"])
    assert queued.keys() == {"direct", "by_name", "by_uri", "by_alias"}
    assert recorded.partitions == {partition_of(dag_id) for dag_id in queued}
    assert targets == {"late": {"a"}}


async def test_an_event_of_an_unknown_or_inactive_asset_is_refused(db: Database) -> None:
    async with db.transaction() as conn:
        await add_dag(conn, "d", waits("a"))
        await assets.forget_references(conn, ["d"])
        await assets.sweep(conn)

    recorded = await record(db, event("a", 1), event("nobody", 2))

    assert (recorded.partitions, recorded.refused) == (frozenset(), ("a", "nobody"))


async def test_a_sweep_makes_unused_assets_inactive_and_used_ones_active(db: Database) -> None:
    async with db.transaction() as conn:
        await add_dag(conn, "d", waits("a"), waits("late", "alias"))
        await assets.record_events(conn, [event("x", 1, alias="late")])
        assert await assets.sweep(conn) == {}

        await assets.store_references(conn, {"d": (makes("b"),)}, now=NOON)
        assert await assets.sweep(conn) == {"a": False, "x": False}
        assert await assets.sweep(conn) == {}

        await conn.execute("UPDATE asset SET is_active = false WHERE name = 'b'")
        assert await assets.sweep(conn) == {"b": True}


async def test_a_dag_keeps_the_instant_at_which_it_was_first_scheduled_on_assets(db: Database) -> None:
    async def since(*references: AssetReference, second: int) -> datetime | None:
        async with db.transaction() as conn:
            await assets.store_references(conn, {"d": references}, now=at(second))
            marks = await assets.lock_watermarks(conn, ["d"])
        return marks["d"].scheduled_at

    async with db.transaction() as conn:
        await add_dag(conn, "d", makes("a"))

    assert await since(waits("a"), second=1) == at(1)
    assert await since(waits("a"), waits("b"), second=2) == at(1)
    assert await since(makes("a"), second=3) is None
    assert await since(waits("b"), second=4) == at(4)


async def test_what_one_mention_leaves_out_another_may_give(db: Database) -> None:
    async with db.transaction() as conn:
        await add_dag(conn, "maker", makes("a", uri="s3://a", extra={"team": "x"}))
        await add_dag(conn, "reader", waits("a"))

    (row,) = await asset_queries.list_assets(db, now=NOON)
    assert (row.uri, row.extra, row.producers, row.consumers) == ("s3://a", {"team": "x"}, ["maker"], ["reader"])


@pytest.mark.parametrize(
    ("q", "names"),
    [("ORD", ["orders"]), ("s3://", ["orders", "stock"]), ("%", []), ("_", []), ("", ["orders", "stock"])],
)
async def test_assets_are_found_by_a_part_of_name_or_uri(db: Database, q: str, names: list[str]) -> None:
    async with db.transaction() as conn:
        await add_dag(conn, "maker", makes("orders", uri="s3://a"), makes("stock", uri="s3://b"))

    assert [row.name for row in await asset_queries.list_assets(db, now=NOON, q=q)] == names


@pytest.mark.parametrize(
    ("q", "names"),
    [("finance", ["orders"]), ("ada", ["orders"]), ("BOB", ["stock"]), ("paid", ["orders"]), ("secret", [])],
)
async def test_assets_are_found_by_group_owner_and_description(db: Database, q: str, names: list[str]) -> None:
    about = {"owners": ["ada", "eve"], "description": "Orders that are paid"}
    async with db.transaction() as conn:
        await add_dag(conn, "maker", makes("orders", extra=about, group="finance"), waits("stock"))
        await add_dag(conn, "stock", makes("stock"), waits("orders"))
        await conn.execute("UPDATE dag SET owner = 'secret' WHERE dag_id = 'maker'")
        await conn.execute("UPDATE dag SET owner = 'bob', description = 'What there is' WHERE dag_id = 'stock'")

    found = await asset_queries.list_assets(db, now=NOON, q=q, seen=["stock"])
    orders, stock = await asset_queries.list_assets(db, now=NOON)

    assert [row.name for row in found] == names
    assert (orders.group, orders.owners, orders.description) == ("finance", ("ada", "eve"), "Orders that are paid")
    assert (stock.group, stock.owners, stock.description) == ("asset", ("bob",), "What there is")
    assert [row.name for row in await asset_queries.list_assets(db, now=NOON, group="finance")] == ["orders"]
    (seen, _) = await asset_queries.list_assets(db, now=NOON, seen=["maker"])
    assert (seen.name, seen.owners) == ("orders", ("ada", "eve"))


@pytest.mark.parametrize("extra", [{"owners": 3, "description": ["x"]}, {"owner": " a , b", "description": " "}])
async def test_what_an_extra_says_in_another_way_is_read_if_it_can_be(db: Database, extra: dict[str, Any]) -> None:
    async with db.transaction() as conn:
        await add_dag(conn, "maker", makes("orders", extra=extra))
        await conn.execute("UPDATE dag SET owner = 'ann'")

    (row,) = await asset_queries.list_assets(db, now=NOON)

    assert (row.owners, row.description) == (("a", "b") if "owner" in extra else ("ann",), None)


async def test_the_group_of_another_mention_stays_until_one_names_another(db: Database) -> None:
    async with db.transaction() as conn:
        await add_dag(conn, "maker", makes("orders", group="sales"))
        await add_dag(conn, "reader", waits("orders"))
    groups = []
    for group in ("asset", "finance"):
        async with db.transaction() as conn:
            await assets.store_references(conn, {"maker": [makes("orders", group=group)]}, now=NOON)
        groups += [row.group for row in await asset_queries.list_assets(db, now=NOON)]

    assert groups == ["sales", "finance"]


async def test_two_dags_that_contradict_each_other_about_a_place_are_found(db: Database) -> None:
    async with db.transaction() as conn:
        await add_dag(conn, "one", makes("a", uri="s3://a"))
        found = await assets.clashes(conn, {"two": (makes("a", uri="s3://b"),), "three": (waits("a"),)})

    assert found == [assets.Clash("two", "a", "s3://b", "one", "s3://a")]


async def test_the_newest_events_are_read_oldest_first(db: Database) -> None:
    async with db.transaction() as conn:
        await add_dag(conn, "d", waits("a", uri="s3://a"), waits("late", "alias"))
    await record(db, *(event("a", second) for second in (3, 1, 2)), event("x", 4, alias="late"))

    async def seconds(**asked: Any) -> list[int]:
        return [int((e.timestamp - NOON).total_seconds()) for e in await asset_queries.events_of(db, **asked)]

    assert await seconds(name="a", limit=2) == [2, 3]
    assert await seconds(uri="s3://a", limit=9) == [1, 2, 3]
    assert await seconds(alias="late", limit=9) == [4]


async def test_the_plan_of_queueing_uses_the_index_of_references(db: Database) -> None:
    async with db.transaction() as conn:
        await conn.execute(
            """INSERT INTO asset_reference (dag_id, role, kind, name, task_id)
               SELECT 'd' || i, 'schedule', 'asset', 'a' || i, '' FROM generate_series(1, 20000) AS i"""
        )
        await conn.execute("ANALYZE asset_reference")
        await conn.execute("SET LOCAL enable_seqscan = off")
        plan = await conn.fetch(
            f"EXPLAIN {assets.QUEUE_EVENTS.replace('$1', 'ARRAY[1]').replace('$2', 'ARRAY[now()]')}"
        )

    assert "ix_asset_reference_name_role" in "\n".join(row[0] for row in plan)


async def test_older_servers_understand_the_statements(older_db: Database) -> None:
    async with older_db.transaction() as conn:
        await add_dag(conn, "d", waits("a"), waits("late", "alias"))
    await record(older_db, event("a", 1), event("x", 2, alias="late"))
    async with older_db.transaction() as conn:
        assert await run_if_queued(conn, "d", 1)
        assert await assets.sweep(conn) == {}
        assert [e.name for e in (await asset_queries.events_of_run(conn, 1))[0]] == ["a", "x"]
        assert await asset_queries.names_at(conn, ["a", "b"]) == {"a": "a"}

    assert await listed(older_db, "d") == {1: [1, 2]}
    assert [row.name for row in await asset_queries.list_assets(older_db, now=NOON)] == ["a", "x"]
