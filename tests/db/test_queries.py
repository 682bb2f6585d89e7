"""What people read: DAGs, runs, tasks, import errors, schedulers."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from aiosched.db.lists.dag_lists import list_dags
from aiosched.db.queries.home_queries import last_failed
from aiosched.db.queries.queries import (
    count_tasks,
    find_run,
    get_dag,
    get_spec,
    list_run_tasks,
    list_runs,
    matching_dags,
)
from aiosched.db.queries.schedulers import list_schedulers
from aiosched.db.queries.status import list_import_errors, parsing_summary
from aiosched.db.queries.try_queries import list_tries
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound
from tests.cli.records import NOON, add_dag, add_file, add_run, add_scheduler, add_task, insert


async def test_a_dag_is_listed_with_its_newest_run_and_how_many_are_unfinished(db: Database) -> None:
    version = await add_dag(db, "sales", schedule="@daily", tags=["a", "b"])
    await add_run(db, "sales", version, "first", state="success", end_date=NOON)
    await add_run(db, "sales", version, "second")
    await add_run(db, "sales", version, "third", state="queued")

    (row,) = await list_dags(db)

    assert (row.dag_id, row.schedule, row.tags, row.version) == ("sales", "@daily", ("a", "b"), 1)
    assert (row.last_run_id, row.last_run_state, row.active_runs) == ("third", "queued", 2)
    assert row.status == "active"


async def test_dags_come_in_pages_by_id(db: Database) -> None:
    for name in ("c", "a", "d", "b"):
        await add_dag(db, name)

    first = await list_dags(db, limit=3)
    rest = await list_dags(db, after=(first[-1].dag_id, None), limit=3)

    assert [row.dag_id for row in first] == ["a", "b", "c"]
    assert [row.dag_id for row in rest] == ["d"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*", ["a%b", "sales", "sales_eu", "salesXeu"]),
        ("sales*", ["sales", "sales_eu", "salesXeu"]),
        ("sales_eu", ["sales_eu"]),
        ("sales?eu", ["sales_eu", "salesXeu"]),
        ("a%b", ["a%b"]),
    ],
)
async def test_a_pattern_knows_star_and_question_mark_only(db: Database, pattern: str, found: list[str]) -> None:
    for name in ("sales", "sales_eu", "salesXeu", "a%b"):
        await add_dag(db, name)

    assert sorted(await matching_dags(db, pattern)) == sorted(found)
    assert sorted(row.dag_id for row in await list_dags(db, pattern=pattern)) == sorted(found)


async def test_a_stale_dag_is_listed_only_on_request(db: Database) -> None:
    await add_dag(db, "gone", is_stale=True)

    assert await list_dags(db) == []
    assert [row.status for row in await list_dags(db, stale=True)] == ["stale"]


async def test_an_unknown_dag_is_refused_with_near_ids(db: Database) -> None:
    await add_dag(db, "sales")

    for call in (get_dag(db, "sale"), get_spec(db, "sale"), matching_dags(db, "sale"), find_run(db, "sale", "latest")):
        with pytest.raises(NotFound, match=r"There is no DAG 'sale'\. Did you mean sales\?"):
            await call


async def test_an_empty_database_says_so(db: Database) -> None:
    with pytest.raises(NotFound, match="The database holds no DAG yet"):
        await get_dag(db, "sales")


async def test_runs_come_newest_first_in_pages_and_by_state(db: Database) -> None:
    version = await add_dag(db, "sales")
    other = await add_dag(db, "other")
    keys = [await add_run(db, "sales", version, f"r{n}", state="failed" if n % 2 else "success") for n in range(5)]
    await add_run(db, "other", other, "x")

    assert [run.run_id for run in await list_runs(db, dag_id="sales", limit=2)] == ["r4", "r3"]
    assert [run.run_id for run in await list_runs(db, dag_id="sales", before=keys[3])] == ["r2", "r1", "r0"]
    assert [run.run_id for run in await list_runs(db, dag_id="sales", states=["failed"])] == ["r3", "r1"]
    assert [run.run_id for run in await list_runs(db, limit=1)] == ["x"]


@pytest.mark.parametrize(
    ("reference", "run_id"),
    [
        ("latest", "new"),
        ("latest-failed", "broken"),
        ("old", "old"),
        ("2026-11-20T12:00:00+00:00", "old"),
        ("2026-11-20T13:00:00+01:00", "old"),
        ("2026-11-20T12:00", "old"),
        ("2026-11-20T12:00:00Z", "old"),
        ("2026-11-21", "broken"),
    ],
)
async def test_a_run_is_found_by_id_by_date_and_by_word(db: Database, reference: str, run_id: str) -> None:
    version = await add_dag(db, "sales")
    midnight = NOON + timedelta(hours=12)
    await add_run(db, "sales", version, "old", logical_date=NOON)
    await add_run(db, "sales", version, "broken", state="failed", logical_date=midnight, end_date=NOON)
    await add_run(db, "sales", version, "new")

    assert (await find_run(db, "sales", reference)).run_id == run_id


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("1f3c9a02", 0),
        ("1f3c", 0),
        ("manual__2026-11-20T06", 0),
        ("nightly_5", 2),
        ("nightly%5", "has no run"),
        ("night", "'night' can be several runs of 'sales': nightly-5, nightly_5. Write more of it."),
        ("man", "has no run 'man'"),
        ("f3c9a02", "has no run"),
    ],
)
async def test_a_run_is_found_by_a_short_form_of_its_id(db: Database, reference: str, found: int | str) -> None:
    ids = ("manual__2026-11-20T06:00:00+00:00_1f3c9a02", "manual__2026-11-20T07:00:00+00:00_aa3c9a02", "nightly_5")
    version = await add_dag(db, "sales")
    for run_id in (*ids, "nightly-5"):
        await add_run(db, "sales", version, run_id)

    if isinstance(found, int):
        assert (await find_run(db, "sales", reference)).run_id == ids[found]
    else:
        with pytest.raises(NotFound, match=re.escape(found)):
            await find_run(db, "sales", reference)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("latest-failed", "DAG 'sales' has no failed run."),
        ("manual__2", "DAG 'sales' has no run 'manual__2'. Did you mean manual__1?"),
        ("2020-01-01", "DAG 'sales' has no run '2020-01-01'. The newest is manual__1."),
    ],
)
async def test_an_unknown_run_is_refused_with_near_ids(db: Database, reference: str, message: str) -> None:
    version = await add_dag(db, "sales")
    await add_run(db, "sales", version, "manual__1")

    with pytest.raises(NotFound) as caught:
        await find_run(db, "sales", reference)

    assert str(caught.value) == message


async def test_a_dag_without_runs_has_no_latest_one(db: Database) -> None:
    await add_dag(db, "sales")

    with pytest.raises(NotFound, match="DAG 'sales' has no run yet"):
        await find_run(db, "sales", "latest")


async def test_a_run_says_how_long_it_took(db: Database) -> None:
    version = await add_dag(db, "sales")
    await add_run(db, "sales", version, "r", state="success", end_date=NOON + timedelta(seconds=90))

    run = await find_run(db, "sales", "r")

    assert run.seconds == 90
    assert run.finished


async def test_task_instances_have_names_in_the_order_of_the_dag(db: Database) -> None:
    version = await add_dag(db, "sales")
    key = await add_run(db, "sales", version, "r")
    await add_task(db, key, 1, None)
    await add_task(db, key, 0, "success", try_number=2, max_tries=1)
    run = await find_run(db, "sales", "r")

    extract, load = await list_run_tasks(db, run)

    assert (extract.task_id, extract.state, extract.try_number, extract.pool) == (
        "extract",
        "success",
        2,
        "default_pool",
    )
    assert (load.task_id, load.state, load.operator, load.pool) == ("load", "none", "PythonOperator", "etl")
    assert await count_tasks(db, run) == {"none": 1, "success": 1}


async def test_mapped_instances_come_in_pages(db: Database) -> None:
    version = await add_dag(db, "sales")
    key = await add_run(db, "sales", version, "r")
    for index in range(3):
        await add_task(db, key, 1, "running", map_index=index)
    run = await find_run(db, "sales", "r")

    first = await list_run_tasks(db, run, limit=2)
    rest = await list_run_tasks(db, run, after=(first[-1].task_index, first[-1].map_index))

    assert [task.name for task in first + rest] == ["load[0]", "load[1]", "load[2]"]


async def test_an_unknown_task_is_refused_with_near_ids(db: Database) -> None:
    version = await add_dag(db, "sales")
    await add_run(db, "sales", version, "r")

    with pytest.raises(NotFound, match=r"DAG 'sales' has no task 'lod'\. Did you mean load\?"):
        await list_run_tasks(db, await find_run(db, "sales", "r"), task_id="lod")


async def test_tries_are_the_finished_ones_and_then_the_current_one(db: Database) -> None:
    version = await add_dag(db, "sales")
    key = await add_run(db, "sales", version, "r")
    await add_task(db, key, 0, "running", try_number=2, start_date=NOON)
    async with db.acquire() as conn:
        row = {"run_id": key, "task_index": 0, "map_index": -1, "try_number": 1, "state": "failed", "reason": "boom"}
        await insert(conn, "task_try", row)
    run = await find_run(db, "sales", "r")
    (task,) = await list_run_tasks(db, run, task_id="extract")

    tries = await list_tries(db, run, task)

    assert [(t.try_number, t.state, t.reason) for t in tries] == [(1, "failed", "boom"), (2, "running", None)]


async def test_a_task_that_waits_for_its_first_try_has_none(db: Database) -> None:
    version = await add_dag(db, "sales")
    key = await add_run(db, "sales", version, "r")
    await add_task(db, key, 0, None)
    run = await find_run(db, "sales", "r")
    (task,) = await list_run_tasks(db, run)

    assert await list_tries(db, run, task) == []


async def test_import_errors_are_those_of_the_last_parse(db: Database) -> None:
    await add_dag(db, "sales")
    await add_file(db, "good.py", dag_ids=["sales"])
    await add_file(db, "bad.py", error="NameError: x", error_line=3, code_frame="> 3 | x")

    (error,) = await list_import_errors(db)
    summary = await parsing_summary(db)

    assert (error.file, error.error, error.line, error.code_frame) == ("bad.py", "NameError: x", 3, "> 3 | x")
    assert (summary.files, summary.errors, summary.dags, summary.parsed_at) == (2, 1, 1, NOON)


async def test_a_scheduler_is_alive_while_its_process_and_its_lease_live(db: Database) -> None:
    session = await db.connect()
    alive = await add_scheduler(db, "alive", locked=session)
    await add_scheduler(db, "no-process")
    await add_scheduler(db, "lease-ran-out", lease=-1)
    await db.execute("UPDATE partition_lease SET incarnation = $1 WHERE partition < 10", alive)

    rows = await list_schedulers(db)
    await session.close()

    assert [(row.name, row.status, row.partitions) for row in rows] == [
        ("alive", "alive", 10),
        ("no-process", "dead", 0),
        ("lease-ran-out", "dead", 0),
    ]
    assert 0 <= rows[0].lease_age < 60


async def test_a_dag_still_fails_while_its_next_runs_are_under_way(db: Database) -> None:
    await add_dag(db, "fails")
    await add_dag(db, "mended")
    async with db.acquire() as conn:
        await conn.execute(
            """
            INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after,
                                 end_date)
            SELECT d.dag_id, 'r' || n, d.partition, d.version_id, 'manual', 'test', state, now(),
                   CASE WHEN state IN ('failed', 'success') THEN now() END
              FROM dag AS d
             CROSS JOIN LATERAL (SELECT n, CASE WHEN n = 1 THEN 'failed'
                                                WHEN n = 2 AND d.dag_id = 'mended' THEN 'success'
                                                WHEN n = 3 THEN 'running' ELSE 'queued' END AS state
                                   FROM generate_series(1, 300) AS n) AS r
            """
        )

    assert [(each.dag_id, each.run_id) for each in await last_failed(db, limit=20)] == [("fails", "r1")]
    assert [each.dag_id for each in await last_failed(db, limit=1)] == ["fails"]


async def test_dags_whose_last_run_failed_are_found_however_many_failures_there_are(db: Database) -> None:
    """Beside 600 failures that were repaired since, and one DAG that is stale."""
    for dag_id in ("fails", "repaired", "gone", "old"):
        await add_dag(db, dag_id, is_stale=dag_id == "gone")
    async with db.acquire() as conn:
        await conn.execute(
            """
            INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after,
                                 end_date)
            SELECT d.dag_id, 'r' || n, d.partition, d.version_id, 'manual', 'test',
                   CASE WHEN d.dag_id = 'repaired' AND n = 601 THEN 'success' ELSE 'failed' END, now(),
                   now() + CASE d.dag_id WHEN 'old' THEN interval '-9 days' ELSE '0 s' END + n * interval '1 s'
              FROM dag AS d CROSS JOIN generate_series(1, 601) AS n
             WHERE d.dag_id = 'repaired' OR n = 1
            """
        )

    few = await last_failed(db, limit=20)
    one = await last_failed(db, limit=1)
    seen = await last_failed(db, limit=20, seen=["old", "repaired"])

    assert [(each.dag_id, each.run_id) for each in few] == [("fails", "r1"), ("old", "r1")]
    assert [each.dag_id for each in one] == ["fails"]
    assert [each.dag_id for each in seen] == ["old"]
