"""What the pages of one DAG read: the grid in the order of dates, trends, comparisons of runs, labels."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.graph.instances import MapLabel
from aiosched.core.graph.spec import DagSpec, GroupSpec, TaskSpec
from aiosched.core.timetables import CronDataIntervalTimetable
from aiosched.db.server.engine import Database
from aiosched.db.statements.rendered_fields import store_labels
from aiosched.web.api.grid import grid_rows
from aiosched.web.views.row_order import topological
from aiosched.web.views.usual import percentile, unusually_long
from tests.cli.records import NOON, add_dag, add_run, add_task
from tests.scheduler.harness import register


def hours(number: float) -> datetime:
    return NOON + timedelta(hours=number)


async def test_the_grid_is_in_the_order_of_dates_so_a_backfill_does_not_come_last(
    db: Database, api: httpx2.AsyncClient
) -> None:
    version = await add_dag(db, "sales")
    for name, at in (("s3", 3), ("s4", 4), ("b1", 1), ("b2", 2)):  # the backfill is created last
        await add_run(db, "sales", version, name, logical_date=hours(at), run_after=hours(at + 1))
    await add_run(db, "sales", version, "asset", logical_date=None, run_after=hours(2.5))

    async def shown(**params: Any) -> tuple[list[str], str | None]:
        grid = (await api.get("dags/sales/grid", params=params)).json()
        return [run["run_id"] for run in grid["runs"]], grid["next_cursor"]

    assert await shown() == (["b1", "b2", "asset", "s3", "s4"], None)
    newest, cursor = await shown(limit=2)
    older, more = await shown(limit=2, cursor=cursor)
    oldest, end = await shown(limit=2, cursor=more)
    assert (oldest, older, newest, end) == (["b1"], ["b2", "asset"], ["s3", "s4"], None)
    assert (await api.get("dags/sales/grid", params={"cursor": "nonsense"})).status_code == 400


def test_rows_come_after_what_they_depend_on_whatever_the_file_says() -> None:
    tasks = (
        TaskSpec(task_id="end", operator="E", upstream=("g.b", "start")),
        TaskSpec(task_id="g.b", operator="E", group_id="g", upstream=("g.a",)),
        TaskSpec(task_id="g.a", operator="E", group_id="g", upstream=("start",)),
        TaskSpec(task_id="start", operator="E"),
    )
    spec = DagSpec(dag_id="d", tasks=tasks, groups=(GroupSpec(group_id="g"),))

    assert [row.id for row in grid_rows(spec)] == ["start", "g", "g.a", "g.b", "end"]
    assert [row.task_index for row in grid_rows(spec)] == [3, None, 2, 1, 0]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda pair: pair[0] != pair[1])))
def test_every_row_is_there_once_and_edges_that_can_be_kept_are(pairs: list[tuple[int, int]]) -> None:
    children = [str(number) for number in range(10)]
    edges = [(str(one), str(two)) for one, two in pairs]
    forward = [(one, two) for one, two in edges if one < two]

    assert sorted(topological(children, edges)) == children
    assert topological(children, forward) == children  # they are in order: nothing moves
    found = topological(children[::-1], forward)
    assert all(found.index(one) < found.index(two) for one, two in forward)


async def test_trends_of_runs_and_of_a_task(db: Database, api: httpx2.AsyncClient) -> None:
    version = await add_dag(db, "sales")
    for number in range(10):
        start = hours(number) + timedelta(seconds=5)
        took = timedelta(seconds=600 if number == 6 else 60 + number)
        times = {"start_date": start, "end_date": start + took}
        run = await add_run(
            db, "sales", version, f"r{number}", state="success", logical_date=hours(number), run_after=hours(number),
            **times,
        )  # fmt: skip
        await add_task(db, run, 0, "success", try_number=2 if number == 3 else 1, **times)
        await add_task(db, run, 1, "failed" if number == 4 else "success", try_number=1, **times)
    later = {"logical_date": hours(20), "run_after": hours(20), "start_date": None}
    await add_run(db, "sales", version, "queued", state="queued", **later)

    found = (await api.get("dags/sales/trends")).json()
    of_task = (await api.get("dags/sales/trends", params={"task_id": "extract", "runs": 4})).json()
    unknown = await api.get("dags/sales/trends", params={"task_id": "extrakt"})

    assert [point["run_id"] for point in found["points"]] == [f"r{n}" for n in range(10)] + ["queued"]
    assert [point["run_id"] for point in found["points"] if point["is_outlier"]] == ["r6"]
    assert found["points"][3] | {"at": None} == {
        "run_id": "r3", "at": None, "state": "success", "seconds": 63.0, "late": 5.0, "landed": 68.0, "retries": 1,
        "is_outlier": False,
    }  # fmt: skip
    assert (found["points"][-1]["seconds"], found["points"][-1]["late"]) == (None, None)
    assert (found["p50"], found["p95"]) == (64.0, 600.0)
    by_name = {task["task_id"]: task for task in found["tasks"]}
    assert by_name["extract"] == {
        "task_id": "extract", "runs": 10, "failed": 0, "retries": 1, "p50": 64.0, "p95": 600.0,
    }  # fmt: skip
    assert by_name["load"]["failed"] == 1
    assert [point["run_id"] for point in of_task["points"]] == ["r7", "r8", "r9"]  # the fourth has no such instance
    assert unknown.status_code == 404
    assert "Did you mean" in unknown.json()["detail"]


async def test_a_run_is_compared_with_the_one_before_it_or_another(db: Database, api: httpx2.AsyncClient) -> None:
    version = await add_dag(db, "sales")
    late = await add_run(db, "sales", version, "late", logical_date=hours(2), conf={"a": 1, "b": 2}, state="failed")
    early = await add_run(db, "sales", version, "early", logical_date=hours(1), conf={"a": 1, "c": 3})
    for run, state, seconds in ((late, "failed", 90), (early, "success", 30)):
        times = {"start_date": hours(0), "end_date": hours(0) + timedelta(seconds=seconds)}
        await add_task(db, run, 0, "success", map_index=0, **times)
        await add_task(db, run, 0, state, map_index=1, **times)

    found = (await api.get("dags/sales/runs/late/comparison")).json()
    other = (await api.get("dags/sales/runs/early/comparison", params={"other": "late"})).json()
    first = await api.get("dags/sales/runs/early/comparison")

    assert (found["before"]["run_id"], found["after"]["run_id"]) == ("early", "late")
    assert found["conf"] == [
        {"name": "b", "before": None, "after": 2},
        {"name": "c", "before": 3, "after": None},
    ]
    assert found["tasks"] == [
        {
            "task_id": "extract", "before": {"success": 2}, "after": {"success": 1, "failed": 1},
            "seconds_before": 30.0, "seconds_after": 90.0,
        }
    ]  # fmt: skip
    assert (other["before"]["run_id"], other["after"]["run_id"]) == ("late", "early")
    assert (first.status_code, first.json()["before"], first.json()["tasks"]) == (200, None, [])


async def test_labels_of_mapped_instances_are_stored_and_shown(db: Database, api: httpx2.AsyncClient) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "r")
    await add_task(db, run, 0, "success", map_index=0)
    await add_task(db, run, 0, "success", map_index=1)
    async with db.acquire() as conn:
        await store_labels(conn, [MapLabel(run, 0, 1, "old"), MapLabel(run, 0, 1, "north")])
        await store_labels(conn, [MapLabel(run, 0, 1, "south")])

    items = (await api.get("dags/sales/runs/r/tasks")).json()["items"]

    assert [item["map_label"] for item in items] == [None, "south"]


def test_what_is_usual_and_what_is_not() -> None:
    assert percentile([], 0.5) is None
    assert [percentile([4, 1, 3, 2], share) for share in (0, 0.25, 0.5, 0.95)] == [1, 1, 2, 4]
    assert unusually_long([1, 2, 3]) is None  # too few to say
    assert unusually_long([10] * 20) == 11


async def test_the_next_runs_end_with_the_calendar(db: Database, api: httpx2.AsyncClient) -> None:
    start, task = datetime(9999, 12, 30, tzinfo=UTC), TaskSpec(task_id="t", operator="EmptyOperator")
    daily = CronDataIntervalTimetable("@daily", "UTC")
    await register(db, DagSpec(dag_id="late", tasks=(task,), timetable=daily, start_date=start, catchup=True))

    items = (await api.get("dags/late/next")).json()["items"]

    assert [(one["logical_date"], one["run_after"]) for one in items] == [
        ("9999-12-30T00:00:00Z", "9999-12-31T00:00:00Z")
    ]
