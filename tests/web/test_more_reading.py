"""What the API shows beyond rows: queues, files, histories, figures, tags of answers."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from aiosched.clock import FakeClock
from aiosched.core.access.grants import RoleGrant
from aiosched.core.graph.spec import TaskSpec
from aiosched.db.access import grants
from aiosched.db.people import accounts
from aiosched.db.queries.schedulers import SchedulerRow
from aiosched.db.server.engine import Database
from aiosched.db.server.releases import KNOWN_AT, what_is_missing
from aiosched.web.auth.passwords import hash_password
from aiosched.web.views.scheduler_rates import FleetRates, quantile
from tests.cli.records import NOON, add_dag, add_file, add_run, add_scheduler, add_task, insert
from tests.web.logins import PASSWORD, log_in

# ---- pools ----

HEAVY = (
    TaskSpec(task_id="a", operator="X", pool="etl", pool_slots=2, priority_weight=1),
    TaskSpec(task_id="b", operator="X", pool="etl", priority_weight=5),
    TaskSpec(task_id="c", operator="X", priority_weight=9),
)


async def names(api: httpx2.AsyncClient, **params: Any) -> tuple[list[str], list[str], str | None]:
    queue = (await api.get("pools/etl/queue", params=params)).json()
    shown = [[f"{u['run_id']}.{u['task_id']}{u['map_index']}" for u in queue[key]] for key in ("holders", "items")]
    return shown[0], shown[1], queue["next_cursor"]


async def test_a_pool_tells_who_holds_and_who_waits_in_order(db: Database, api: httpx2.AsyncClient) -> None:
    async with db.acquire() as conn:
        await insert(conn, "pool", {"name": "etl", "slots": 3})
    version = await add_dag(db, "sales", tasks=HEAVY)
    early = await add_run(db, "sales", version, "early", logical_date=NOON)
    late = await add_run(db, "sales", version, "late", logical_date=NOON + timedelta(hours=1))
    over = await add_run(db, "sales", version, "over", state="success")
    await add_task(db, early, 0, "running", queued_at=NOON)
    await add_task(db, late, 0, "queued", queued_at=NOON - timedelta(minutes=1))
    await add_task(db, over, 0, "running", queued_at=NOON)  # of a finished run: nobody will look after it
    await add_task(db, early, 1, "scheduled", map_index=1, scheduled_at=NOON)
    await add_task(db, early, 1, "scheduled", map_index=0, scheduled_at=NOON)
    await add_task(db, late, 1, "scheduled", scheduled_at=NOON)
    await add_task(db, early, 2, "scheduled", scheduled_at=NOON)  # another pool

    holders, waiting, _ = await names(api)
    first = await names(api, limit=2)
    rest = await names(api, limit=2, cursor=first[2])

    assert holders == ["late.a-1", "early.a-1"]
    assert waiting == ["early.b0", "early.b1", "late.b-1"]
    assert (first[1], rest[:2]) == (["early.b0", "early.b1"], ([], ["late.b-1"]))


@pytest.mark.parametrize("broken", ["'{}'", "jsonb_set(spec::jsonb, '{tasks,0,trigger_rule}', '\"on_sundays\"')"])
async def test_a_version_that_cannot_be_read_hides_the_others_from_nobody(
    db: Database, api: httpx2.AsyncClient, broken: str
) -> None:
    async with db.acquire() as conn:
        await insert(conn, "pool", {"name": "etl", "slots": 3})
    run = await add_run(db, "sales", await add_dag(db, "sales", tasks=HEAVY), "r", logical_date=NOON)
    await add_task(db, run, 1, "scheduled", scheduled_at=NOON)
    run = await add_run(db, "newer", await add_dag(db, "newer", tasks=HEAVY), "n", logical_date=NOON)
    await add_task(db, run, 1, "scheduled", scheduled_at=NOON)
    await db.execute(f"UPDATE dag_version SET spec = ({broken})::json WHERE dag_id = 'newer'")

    assert await names(api) == ([], ["r.b-1"], None)


async def test_what_is_paused_does_not_wait_for_slots(db: Database, api: httpx2.AsyncClient) -> None:
    async with db.acquire() as conn:
        await insert(conn, "pool", {"name": "etl", "slots": 3, "include_deferred": True})
    version = await add_dag(db, "sales", tasks=HEAVY, is_paused=True)
    run = await add_run(db, "sales", version, "r")
    await add_task(db, run, 0, "deferred", queued_at=NOON)
    await add_task(db, run, 1, "scheduled", scheduled_at=NOON)

    assert await names(api) == (["r.a-1"], [], None)


async def test_the_queue_of_an_unused_pool_is_empty(db: Database, api: httpx2.AsyncClient) -> None:
    async with db.acquire() as conn:
        await insert(conn, "pool", {"name": "etl", "slots": 3})

    assert await names(api) == ([], [], None)
    assert (await api.get("pools/nothing/queue")).status_code == 404


# ---- DAGs and files ----


async def test_dags_are_searched_ordered_and_have_tags(db: Database, api: httpx2.AsyncClient) -> None:
    await add_dag(db, "sales", description="What we SOLD", tags=["eu", "daily"], next_dagrun_create_after=NOON)
    await add_dag(db, "stock", tags=["eu"], next_dagrun_create_after=NOON - timedelta(hours=1))
    await add_dag(db, "manual")
    await add_dag(db, "gone", tags=["old"], is_stale=True)

    async def found(**params: Any) -> list[str]:
        ids: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = (await api.get("dags", params={**params, **cursor, "limit": 1})).json()
            ids += [dag["dag_id"] for dag in page["items"]]
            if page["next_cursor"] is None:
                return ids
            cursor = {"cursor": page["next_cursor"]}

    assert await found(search="SALES") == await found(search="we sold") == ["sales"]
    assert await found(search="%") == []
    assert await found(order="-dag_id") == ["stock", "sales", "manual"]
    assert await found(order="next_run") == ["stock", "sales", "manual"]
    assert await found(order="next_run", tag="eu") == ["stock", "sales"]
    assert (await api.get("tags")).json()["items"] == [{"tag": "daily", "dags": 1}, {"tag": "eu", "dags": 2}]


async def test_files_with_their_dags_and_whether_they_failed(db: Database, api: httpx2.AsyncClient) -> None:
    await add_file(db, "a.py", dag_ids=["x", "y"], parse_seconds=0.5, warnings=["slow"])
    await add_file(db, "b.py", error="SyntaxError: x")

    everything = (await api.get("files")).json()["items"]
    failed = (await api.get("files?failed=true")).json()["items"]
    first = (await api.get("files?limit=1")).json()
    rest = (await api.get(f"files?limit=1&cursor={first['next_cursor']}")).json()

    assert everything[0] == {
        "file": "a.py", "dag_ids": ["x", "y"], "parsed_at": "2026-11-20T12:00:00Z", "seconds": 0.5,
        "has_error": False, "warnings": ["slow"],
    }  # fmt: skip
    assert [one["file"] for one in failed] == ["b.py"]
    assert (rest["items"][0]["file"], rest["next_cursor"]) == ("b.py", None)


# ---- what happened to a task instance ----


async def test_the_history_of_an_instance_has_its_tries_and_the_requests_on_it(
    db: Database, api: httpx2.AsyncClient
) -> None:
    def at(number: float) -> datetime:
        return NOON + timedelta(minutes=number)

    run = await add_run(db, "sales", await add_dag(db, "sales"), "one")
    await add_task(db, run, 0, "success", try_number=2, queued_at=at(5), start_date=at(6), end_date=at(7))
    async with db.acquire() as conn:
        old = {"run_id": run, "task_index": 0, "map_index": -1, "try_number": 1, "state": "failed"}
        await insert(conn, "task_try", old | {"start_date": at(1), "end_date": at(2), "reason": "boom"})
        for number, (verb, args, instance) in enumerate(
            (
                ("clear", {}, {"run_id": "one", "task_id": "extract", "map_index": -1}),
                ("clear", {"dry_run": True}, {"run_id": "one", "task_id": "extract", "map_index": -1}),
                ("clear", {}, {"run_id": "one", "task_id": "load", "map_index": -1}),
                ("mark_run", {"run_id": "one", "state": "failed"}, {}),
                ("mark_run", {"run_id": "two", "state": "failed"}, {}),
                ("set_note", {"run_id": "one", "task_id": "extract", "note": "x"}, {}),
                ("trigger", {"run_id": "one"}, {}),
            )
        ):
            row = {"dag_id": "sales", "verb": verb, "args": args, "requested_by": "api:ann", "state": "applied"}
            row |= {"result": {"instances": [instance]}, "applied_at": at(3 + number / 10), "reason": f"r{number}"}
            await insert(conn, "request", row)

    events = (await api.get("dags/sales/runs/one/tasks/extract/events")).json()["items"]

    assert [(e["try_number"], e["words"], e["detail"]) for e in events] == [
        (1, "running", None), (1, "failed", "boom"), (None, "clear", "r0"), (None, "mark_run", "r3"),
        (None, "set_note", "r5"), (2, "queued", None), (2, "running", None), (2, "success", None),
    ]  # fmt: skip
    assert events[2]["by"] == "api:ann"


# ---- figures ----


def figures(commits: int, lag: list[int]) -> dict[str, Any]:
    return {
        "finished": {"success": commits * 2},
        "histograms": {
            "journal_commit": {"bounds": [1.0], "buckets": [commits, 0]},
            "task_lag": {"bounds": [0.1, 0.2], "buckets": lag},
        },
    }


def row(figures: dict[str, Any] | None) -> SchedulerRow:
    since = NOON - timedelta(seconds=100)
    return SchedulerRow(1, "one", "h", 1, "1", "local", 8, False, True, 0.0, 64, since, figures)


def test_figures_become_rates_since_the_start_and_then_since_the_last_look() -> None:
    rates = FleetRates()

    first = rates.rates_of([row(figures(200, [10, 0, 0]))], NOON)[1]
    second = rates.rates_of([row(figures(300, [10, 10, 0]))], NOON + timedelta(seconds=10))[1]

    assert (first.seconds, first.commits_per_second, first.tasks_per_commit) == (100, 2, 2)
    assert (second.seconds, second.commits_per_second, second.tasks_per_second) == (10, 10, 20)
    assert (first.task_lag.p50, second.task_lag.p50) == (0.05, pytest.approx(0.15))
    assert first.loop_lag.p50 is None


def test_who_has_told_nothing_or_is_gone_has_no_tempo() -> None:
    rates = FleetRates()
    rates.rates_of([row(figures(1, [1, 0, 0]))], NOON)

    assert rates.rates_of([replace(row(None), incarnation=2)], NOON) == {}
    assert rates.rates_of([], NOON) == {}


@pytest.mark.parametrize(
    ("buckets", "share", "found"),
    [((0, 0, 0), 0.5, None), ((4, 0, 0), 0.5, 0.5), ((0, 4, 0), 0.5, 1.5), ((0, 0, 4), 0.5, 2.0), ((1, 1, 0), 1.0, 2)],
)
def test_a_quantile_lies_inside_its_bucket(buckets: tuple[int, ...], share: float, found: float | None) -> None:
    assert quantile([1.0, 2.0], buckets, share) == found


async def test_the_summary_names_each_scheduler(db: Database, api: httpx2.AsyncClient) -> None:
    one = await add_scheduler(db, "one")
    await add_scheduler(db, "silent")
    await db.execute(
        "UPDATE scheduler SET figures = $2, started_at = now() - interval '100 s' WHERE incarnation = $1",
        one,
        '{"histograms": {"journal_commit": {"count": 200, "sum": 9, "bounds": [1.0], "buckets": [200, 0]}}}',
    )

    (found,) = (await api.get("metrics/summary")).json()["schedulers"]

    assert (found["name"], found["commit"]["count"]) == ("one", 200)
    assert found["commits_per_second"] == pytest.approx(2, rel=0.5)


@pytest.mark.parametrize("day", [KNOWN_AT, KNOWN_AT + timedelta(days=200)])
async def test_schedulers_are_listed_with_what_their_database_lacks_that_day(
    app: FastAPI, api: httpx2.AsyncClient, day: date
) -> None:
    app.state.request_client.clock = FakeClock(datetime.combine(day, NOON.timetz()))

    found = (await api.get("schedulers")).json()["database"]

    assert found["version"].partition(".")[0].isdecimal()
    assert found["missing"] == what_is_missing(found["version"], day)
    assert (day == KNOWN_AT) or "fixes came out since" in found["missing"]


async def test_who_sees_some_dags_hears_nothing_of_the_server(
    guarded: FastAPI, db: Database, browser: httpx2.AsyncClient
) -> None:
    await accounts.create_user(db, "some", "none", await hash_password(PASSWORD))
    await grants.add_grant(db, "some", RoleGrant.parse("viewer@tag:etl"))
    await log_in(browser, "some")

    assert (await browser.get("schedulers")).json()["database"] is None


# ---- tags of answers ----


async def test_what_changes_rarely_is_sent_once(db: Database, api: httpx2.AsyncClient) -> None:
    await add_dag(db, "sales")
    for path in ("dags/sales", "dags/sales/graph", "dags/sales/versions", "dags/sales/versions/1", "settings"):
        first = await api.get(path)
        again = await api.get(path, headers={"If-None-Match": f'"other", {first.headers["etag"]}'})

        assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
        assert again.headers["etag"] == first.headers["etag"]
        assert first.headers["cache-control"] == "private, no-cache"


async def test_a_change_has_another_tag(db: Database, api: httpx2.AsyncClient) -> None:
    await add_dag(db, "sales")
    tag = (await api.get("dags/sales")).headers["etag"]
    await db.execute("UPDATE dag SET is_paused = true")

    answer = await api.get("dags/sales", headers={"If-None-Match": tag})

    assert (answer.status_code, answer.json()["is_paused"]) == (200, True)


@pytest.mark.parametrize("path", ["dags", "dags/nothing", "me"])
async def test_errors_and_lists_are_not_kept(api: httpx2.AsyncClient, path: str) -> None:
    headers = (await api.get(path)).headers

    assert "etag" not in headers
    assert headers["cache-control"] == "no-store"


async def test_an_address_can_name_an_instance_of_a_mapped_task(db: Database, api: httpx2.AsyncClient) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "r1")
    for index in range(3):
        await add_task(db, run, 1, "failed" if index == 2 else "success", map_index=index)
    tasks = "dags/sales/runs/r1/tasks"

    assert (await api.get(f"{tasks}/load[2]")).json()["state"] == "failed"
    (one,) = (await api.get(tasks, params={"task_id": "load[1]"})).json()["items"]
    assert one["map_index"] == 1
    assert (await api.get(f"{tasks}/load[2]/why")).json()["commands"][0].endswith("logs sales r1 load --map-index 2")
    assert (await api.get(f"{tasks}/load[7]")).status_code == 404
    assert (await api.get(f"{tasks}/load[2]", params={"map_index": 1})).status_code == 409
