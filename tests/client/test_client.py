"""The client, against the application of a running scheduler."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime

import pytest

from aiosched import DAG, task
from aiosched.client import ApiProblem, Client
from aiosched.config import Settings, WebSettings
from aiosched.errors import NotAnswered, NotFound, Refused
from aiosched.scheduler import Scheduler
from tests.patience import PATIENCE


@pytest.fixture
async def scheduler(dsn: str) -> AsyncIterator[Scheduler]:
    @task
    async def load() -> int:
        return 1

    with DAG("sales", schedule="@daily", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False) as dag:
        load()
    dag.is_paused_upon_creation = True
    async with Scheduler(dsn=dsn, dags=[dag], settings=Settings(web=WebSettings(auth="none"))) as scheduler:
        yield scheduler


async def test_a_run_is_made_awaited_and_shown(client: Client) -> None:
    run = await client.trigger(
        "sales", conf={"day": 1}, run_id="r/1?x".replace("/", "-").replace("?", "-"), unpause=True
    )
    ended = await client.wait("sales", run.run_id, timeout=PATIENCE)

    assert (ended.state, ended.conf, ended.tasks) == ("success", {"day": 1}, {"success": 1})
    assert [one.task_id async for one in client.tasks("sales", run.run_id)] == ["load"]
    assert run.run_id in [one.run_id async for one in client.runs(dag_id="sales", state=["success"])]
    assert [one async for one in client.runs(dag_id="sales", not_state=["success"])] == []
    assert [one async for one in client.task_instances(dag_id="sales", not_operator=["nothing"], not_tag=["x"])]
    assert [one async for one in client.dags(not_dag_id=["sales"])] == []
    assert [text async for text in client.log("sales", run.run_id, "load")] == []


async def test_runs_are_made_in_batches(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiosched.client.client._BATCH", 3)
    days = [datetime(2026, 1, 1, n, tzinfo=UTC) for n in range(7)]

    runs = ({"conf": {"n": n}, "logical_date": day} for n, day in enumerate(days))
    made = await client.trigger_batch("sales", runs, unpause=True)
    again = await client.trigger_batch("sales", [{"logical_date": days[0]}, {"run_id": "new"}])

    assert [(run.error, run.command) for run in made] == [(None, None)] * 7
    assert [(run.run_id, bool(run.error)) for run in again] == [(None, True), ("new", False)]
    ended = await client.wait("sales", made[6].run_id or "", timeout=PATIENCE)
    assert (ended.state, ended.conf, ended.logical_date) == ("success", {"n": 6}, days[6])


async def test_pausing_clearing_and_marking(client: Client) -> None:
    run = await client.trigger("sales", unpause=True)
    await client.wait("sales", run.run_id, timeout=PATIENCE)

    touched = await client.clear("sales", run_ids=[run.run_id], dry_run=True)
    looked = await client.mark_task("sales", run.run_id, "load", "skipped", downstream=True, dry_run=True)
    with pytest.raises(Refused, match="no logical date"):
        await client.mark_task("sales", run.run_id, "load", "skipped", past=True)
    marked = await client.mark_run("sales", run.run_id, "failed")
    paused = await client.pause("sales", reason="a test")

    assert (touched.count, looked.count, marked.state, paused.is_paused) == (1, 1, "failed", True)
    assert (await client.dag("sales")).is_paused
    verbs = [command.verb async for command in client.commands(dag_id="sales")]
    assert verbs[0] == "pause"


async def test_a_backfill_is_planned_before_it_is_made(client: Client) -> None:
    first, final = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)

    planned = await client.backfill("sales", first, final, dry_run=True)
    made = await client.backfill("sales", first, final)

    assert (planned.id, len(planned.dates), made.id) == (None, 2, 1)
    assert [one.total async for one in client.backfills(dag_id="sales")] == [2]


async def test_a_date_is_that_whole_day(client: Client) -> None:
    day = date(2026, 1, 2)

    planned = await client.backfill("sales", day, day, dry_run=True)
    await client.backfill("sales", day, day)
    cleared = await client.clear("sales", first=day, final=day, dry_run=True)

    assert [one.logical_date for one in planned.dates] == ["2026-01-02T00:00:00+00:00"]
    assert (planned.first, planned.final, planned.timezone, planned.left_out) == (
        "2026-01-02T00:00:00+00:00",
        "2026-01-02T23:59:59.999999+00:00",
        "UTC",
        None,
    )
    (run,) = [one.run_id async for one in client.runs(dag_id="sales", run_type=["backfill"])]
    assert cleared.runs == [run]


async def test_pools_health_and_schedulers(client: Client) -> None:
    await client.set_pool("etl", 4, rate="60/60s")

    assert [(pool.name, pool.rate) async for pool in client.pools()] == [("default_pool", None), ("etl", "60/min")]
    assert (await client.health()).status == "healthy"
    assert [one.status for one in await client.schedulers()] == ["alive"]
    assert (await client.figures(hours=1)).points == (await client.pool_figures("etl", hours=1)).points == []
    assert [one async for one in client.import_errors()] == []
    assert [one async for one in client.assets()] == []


async def test_problems_are_errors(client: Client) -> None:
    with pytest.raises(NotFound, match="There is no DAG 'sale'"):
        await client.dag("sale")
    with pytest.raises(Refused, match="is paused"):
        await client.trigger("sales")
    with pytest.raises(ApiProblem) as error:
        await client.trigger("sales", run_id="", unpause=True)

    assert (error.value.status, error.value.code) == (422, "unusable-request")


async def test_a_request_that_waits_says_so(
    client: Client, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiosched.web.requests.request_client.ANSWER_SECONDS", 0.0)

    with pytest.raises(NotAnswered) as waits:
        await client.unpause("sales")

    done = await client.outcome(waits.value.number, timeout=PATIENCE)
    assert (done.verb, done.state) == ("unpause", "applied")
