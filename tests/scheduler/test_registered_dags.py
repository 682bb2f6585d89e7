"""DAGs that a process gives to its scheduler as objects: scheduler/registered_dags.py."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from aiosched import DAG, BaseOperator
from aiosched.config import Settings
from aiosched.db.server.engine import Database
from aiosched.errors import ConfigError, DagError, NotFound, Refused
from aiosched.executors.attempt.plans import plan_of
from aiosched.scheduler import RunHandle, Scheduler
from aiosched.scheduler.registered_dags import register_dags
from tests.parsing.builders import dag_source
from tests.patience import PATIENCE


class Greets(BaseOperator):
    template_fields = ("text",)

    def __init__(self, text: str, **options: Any) -> None:
        super().__init__(**options)
        self.text = text

    def execute(self, context: object) -> str:
        return self.text


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["nightly"], "dags= takes DAG objects, not a str"),
        (
            [lambda: None],
            r"dags= takes DAG objects, not a function: call what @dag decorates, as in dags=\[nightly\(\)\]",
        ),
        ([DAG("d", schedule=None), DAG("d", schedule=None)], "dags= has two DAGs with the id 'd': give each its own"),
        (DAG("d", schedule=None), "dags= takes a list of DAG objects, not an? .*DAG"),
    ],
)
def test_what_is_no_list_of_dags_is_refused(wrong: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Scheduler(dags=wrong)


async def test_what_first_attempts_need_is_computed_at_the_start(dsn: str) -> None:
    with DAG("d", schedule=None) as dag:
        tasks = [Greets(text="{{ run_id }}", task_id="templated"), Greets(text="plain", task_id="plain")]

    async with Scheduler(dsn=dsn, dags=[dag]):
        assert set(dag._attempt_plans) == set(tasks)

    assert plan_of(tasks[0], dag).has_templates
    assert not plan_of(tasks[1], dag).has_templates


async def test_a_task_whose_template_is_broken_fails_and_the_others_run(dsn: str, db: Database) -> None:
    with DAG("d", schedule=None) as dag:
        Greets(text="{{ ti.xcom_pull( }}", task_id="broken")
        Greets(text="plain", task_id="plain")

    async with Scheduler(dsn=dsn, dags=[dag]) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(timeout=PATIENCE) == "failed"
    query = "SELECT ti.task_index, ti.state FROM task_instance AS ti JOIN dag_run AS d ON d.id = ti.run_id"
    states = {dag.task_ids[row["task_index"]]: row["state"] for row in await db.fetch(query)}

    assert states == {"broken": "failed", "plain": "success"}


def flows(*dag_ids: str) -> list[DAG]:
    """DAGs of an application, that run each second."""
    made = []
    for dag_id in dag_ids:
        with DAG(
            dag_id, schedule=timedelta(seconds=1), start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False
        ) as dag:
            Greets(text="hello", task_id="greet")
        made.append(dag)
    return made


async def inactive(db: Database) -> set[str]:
    return {row["dag_id"] for row in await db.fetch("SELECT dag_id FROM dag WHERE is_stale")}


async def test_what_an_application_registers_no_more_is_inactive_until_it_is_again(
    dsn: str, db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    async with Scheduler(dsn=dsn, dags=flows("kept", "gone"), settings=Settings()):
        assert await inactive(db) == set()
    async with Scheduler(dsn=dsn, dags=flows("kept", "new"), settings=Settings()) as scheduler:
        assert await inactive(db) == {"gone"}
        with pytest.raises(Refused, match="defined by no file and no application any more"):
            await scheduler.trigger("gone")
        before = await db.fetchval("SELECT count(*) FROM dag_run WHERE dag_id = 'gone'")
        run = await scheduler.trigger("new")
        assert await run.wait(PATIENCE) == "success"
        assert await db.fetchval("SELECT count(*) FROM dag_run WHERE dag_id = 'gone'") == before
    assert "registers these DAGs no more, so they are inactive: gone." in caplog.text
    async with Scheduler(dsn=dsn, dags=flows("kept", "gone"), settings=Settings()) as scheduler:
        assert await inactive(db) == {"new"}
        assert await (await scheduler.trigger("gone")).wait(PATIENCE) == "success"


async def test_in_a_rolling_restart_the_newest_start_decides(dsn: str, db: Database) -> None:
    async with (
        Scheduler(dsn=dsn, dags=flows("both", "old"), settings=Settings(), name="one") as first,
        Scheduler(dsn=dsn, dags=flows("both", "old"), settings=Settings(), name="two"),
    ):
        async with Scheduler(dsn=dsn, dags=flows("both", "new"), settings=Settings(), name="three"):
            assert await inactive(db) == {"old"}
            await list_once(first)
        assert await inactive(db) == {"old"}


async def list_once(scheduler: Scheduler) -> None:
    """What an older process does now and then."""
    await register_dags(scheduler.db, flows("both"), scheduler.clock, paused=False)


async def test_applications_with_names_leave_each_other_alone(dsn: str, db: Database) -> None:
    for application in ("shop", "bank", "shop"):
        async with Scheduler(dsn=dsn, dags=flows(application), settings=Settings(), application=application):
            assert await inactive(db) == set()
    async with Scheduler(dsn=dsn, dags=flows("shop", "bank"), settings=Settings(), application="shop"):
        pass
    async with Scheduler(dsn=dsn, dags=flows("other"), settings=Settings(), application="bank"):
        assert await inactive(db) == set()  # "bank" is the shop's now


async def test_what_a_file_has_taken_over_is_its_own_and_what_registers_nothing_withdraws_nothing(
    dsn: str, db: Database, tmp_path: Path
) -> None:
    async with Scheduler(dsn=dsn, dags=flows("moved", "stays"), settings=Settings()):
        pass
    (tmp_path / "moved.py").write_text(dag_source("moved"))
    async with Scheduler(dsn=dsn, dags_folder=tmp_path, settings=Settings()) as scheduler:
        assert await scheduler.read_folder()
        assert await inactive(db) == set()
    async with Scheduler(dsn=dsn, dags=flows("stays"), settings=Settings()):
        assert await inactive(db) == set()


def job(dag_id: str, said: str) -> DAG:
    with DAG(dag_id, schedule=None) as dag:
        Greets(text=said, task_id="greet")
    return dag


async def test_dags_are_added_replaced_and_removed_while_it_runs(dsn: str, db: Database) -> None:
    async with Scheduler(dsn=dsn, dags=[], settings=Settings()) as scheduler:
        await scheduler.add(job("a", "one"), *flows("often"))
        assert await (await scheduler.trigger("a")).result(timeout=PATIENCE) == "one"
        with pytest.raises(Refused, match="'a' is registered already: replace it"):
            await scheduler.add(job("a", "two"))
        with pytest.raises(Refused, match="'b' is no DAG of this application: add it"):
            await scheduler.replace(job("b", "two"))
        await scheduler.replace(job("a", "two"))
        assert await (await scheduler.trigger("a")).result(timeout=PATIENCE) == "two"

        await scheduler.remove("often")
        await scheduler.remove("a")
        assert await inactive(db) == {"a", "often"}
        with pytest.raises(Refused, match="defined by no file and no application any more"):
            await scheduler.trigger("a")
        with pytest.raises(NotFound, match="has registered no DAG 'a'"):
            await scheduler.remove("a")
        await scheduler.add(job("a", "three"))
        assert await inactive(db) == {"often"}
        assert await (await scheduler.trigger("a")).result(timeout=PATIENCE) == "three"


async def test_a_run_goes_on_when_its_dag_is_removed(dsn: str) -> None:
    with DAG("d", schedule=None) as dag:
        first = Greets(text="one", task_id="first")
        first >> Greets(text="two", task_id="second")
    async with Scheduler(dsn=dsn, dags=[dag], settings=Settings()) as scheduler:
        run = await scheduler.trigger("d")
        await scheduler.remove("d")
        assert await run.wait(PATIENCE) == "success"


async def test_what_was_added_is_inactive_at_the_next_start_until_it_is_added_again(dsn: str, db: Database) -> None:
    async with Scheduler(dsn=dsn, dags=flows("always"), settings=Settings()) as scheduler:
        await scheduler.add(job("tenant", "one"))
        assert await inactive(db) == set()
    for given in (flows("always"), []):
        async with Scheduler(dsn=dsn, dags=given, settings=Settings()) as scheduler:
            assert "tenant" in await inactive(db)
            await scheduler.add(job("tenant", "two"))
            assert "tenant" not in await inactive(db)
            assert await (await scheduler.trigger("tenant")).result(timeout=PATIENCE) == "two"


async def test_only_an_application_with_objects_adds_some_and_a_dag_that_is_none_changes_nothing(
    dsn: str, tmp_path: Path
) -> None:
    for options in ({"dags_folder": tmp_path}, {"dags_folder": tmp_path, "dags": []}, {"parse": False}):
        async with Scheduler(dsn=dsn, settings=Settings(), **options) as scheduler:
            with pytest.raises(Refused, match="reads its DAGs from files"):
                await scheduler.add(job("a", "one"))
            with pytest.raises(NotFound):
                await scheduler.remove("a")
    async with Scheduler(dsn=dsn, dags=[], settings=Settings()) as scheduler:
        with pytest.raises(ConfigError, match="takes DAG objects, not a str"):
            await scheduler.add(job("a", "one"), "b")  # type: ignore[arg-type]
        with pytest.raises(NotFound):
            await scheduler.trigger("a")


async def test_a_plain_function_is_a_job(dsn: str) -> None:
    ran: list[str] = []
    scheduler = Scheduler(dsn=dsn, dags=[], settings=Settings())

    @scheduler.job(every=timedelta(milliseconds=200))
    async def often() -> None:
        ran.append("often")

    @scheduler.job(at=datetime(2026, 1, 1, tzinfo=UTC))
    def once() -> None:
        ran.append("once")

    @scheduler.job(retries=1, retry_delay=timedelta(0))
    async def on_demand(ti: Any = None, params: Any = None) -> int:
        if ti.try_number == 1:
            raise ValueError("again")
        return int(params["n"])

    @scheduler.job(cron="0 6 * * *", timezone="Europe/Amsterdam")
    async def daily() -> None: ...

    async with scheduler:
        assert await (await scheduler.trigger("on_demand", conf={"n": 7})).result(timeout=PATIENCE) == 7
        run = await scheduler.trigger("often")
        await run.wait(PATIENCE)
        assert "at 2" in str((await scheduler.why("daily")).summary)
        with pytest.raises(Refused, match="The scheduler runs already: add a DAG"):
            scheduler.job(every=1)(daily)
        async with asyncio.timeout(PATIENCE):
            while not {"often", "once"} <= set(ran):  # noqa: ASYNC110  runs of schedules have no handle
                await asyncio.sleep(0.01)

    assert ran.count("once") == 1


@pytest.mark.parametrize("at_once", [1, 20])
async def test_as_many_runs_of_a_job_work_at_once_as_its_limit_allows(dsn: str, at_once: int) -> None:
    scheduler = Scheduler(dsn=dsn, dags=[], settings=Settings())
    working, most, all_work = 0, 0, asyncio.Event()

    @scheduler.job(max_active_runs=at_once)
    async def slow() -> None:
        nonlocal working, most
        working += 1
        most = max(most, working)
        if working == at_once:
            all_work.set()
        await all_work.wait()
        working -= 1

    async with scheduler:
        runs = await scheduler.trigger_batch("slow", [{}] * (at_once + 2))
        for run in runs:
            assert isinstance(run, RunHandle)
            await run.wait(PATIENCE)

    assert most == at_once


def test_what_cannot_be_a_job_is_refused(dsn: str) -> None:
    scheduler = Scheduler(dsn=dsn, dags=[job("taken", "one")], settings=Settings())

    def taken() -> None: ...

    with pytest.raises(Refused, match="'taken' is registered already"):
        scheduler.job(every=1)(taken)
    with pytest.raises(Refused, match="one of cron, every and at"):
        scheduler.job(every=1, cron="* * * * *")(taken)
    with pytest.raises(DagError, match="61"):
        scheduler.job(cron="61 * * * *")(taken)
    with pytest.raises(Refused, match="reads its DAGs from files"):
        Scheduler(dsn=dsn, settings=Settings()).job()(taken)
