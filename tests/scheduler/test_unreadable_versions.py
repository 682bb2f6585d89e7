"""DAG versions that cannot be read: of a newer aiosched, or broken. Nothing ends by them, and nothing is lost."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec
from aiosched.db.server.engine import Database
from aiosched.errors import NotFound, Refused
from tests.scheduler.harness import NEW_YEAR, Running, dag, register, running, task

HOUR = timedelta(hours=1)
POLL = 11.0  # seconds, after which the scheduler has looked at all DAGs
NEWER = "jsonb_set(spec::jsonb, '{timetable}', '{\"kind\": \"lunar\"}')"  # what a newer aiosched may write
NONSENSE = "jsonb_set(spec::jsonb, '{tasks,0,trigger_rule}', '\"on_sundays\"')"  # read, and not understood


def hourly(*tasks: str, **options: object) -> DagSpec:
    chain = [task(name, after=tasks[i - 1] if i else ()) for i, name in enumerate(tasks or ("a",))]
    return dag("d", *chain, schedule=HOUR, start_date=NEW_YEAR, catchup=True, **options)


async def spoil(db: Database, number: int | None = None, how: str = NEWER) -> None:
    """Make a version of the DAG `d` unreadable; the newest one when there is no number."""
    which = "(SELECT version_id FROM dag WHERE dag_id = 'd')" if number is None else "id"
    await db.execute(
        f"UPDATE dag_version SET spec = ({how})::json"
        f" WHERE dag_id = 'd' AND id = {which} AND coalesce($1, number) = number",
        number,
    )


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


async def left_running(dsn: str, clock: FakeClock, spec: DagSpec) -> None:
    """A scheduler that has died, of which a run `r` is left with a task that runs."""
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r")
    async with await Database.open(dsn, application_name="test") as db, db.transaction() as conn:
        await conn.execute("UPDATE task_instance SET state = 'running', try_number = 1, losses = 0, queued_by = 1")
        await conn.execute("UPDATE pool SET used = 1")


async def rows(it: Running) -> list[tuple[object, ...]]:
    found = await it.fetch(
        "SELECT r.run_id, r.state, ti.state, ti.try_number, ti.losses FROM dag_run AS r"
        " JOIN task_instance AS ti ON ti.run_id = r.id ORDER BY r.id, ti.task_index"
    )
    return [tuple(row) for row in found]


# -- the newest version -----------------------------------------------------------------------


@pytest.mark.parametrize("how", [NEWER, NONSENSE])
async def test_a_dag_that_cannot_be_read_is_left_alone_until_it_can_be(
    dsn: str, db: Database, clock: FakeClock, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    await register(db, hourly(), dag("other"))
    await spoil(db, how=how)
    async with running(dsn, clock) as it:
        await it.advance(7200)
        await it.trigger("other", "r")
        await it.finish("a", dag_id="other")

        assert await it.runs("d") == {}
        assert await it.runs("other") == {"r": "success"}
        for verb, args in (("trigger", {}), ("pause", {}), ("set_note", {"run_id": "r", "note": "x"})):
            with pytest.raises(Refused, match=r"Version 1 of DAG 'd' cannot be read .*Run that aiosched, or change"):
                await it.ask(verb, "d", **args)
        await it.advance(POLL)
        (said,) = errors(caplog)
        assert said.startswith("Version 1 of DAG 'd' cannot be read (")

        await it.register(hourly("a", "b"))

        assert set((await it.runs("d")).values()) == {"running"}
        await it.finish_all()
        assert set((await it.runs("d")).values()) == {"success"}
        await it.trigger("d", "more")
        assert len(errors(caplog)) == 1
        assert it.scheduler.metrics.recoveries == 0
        await it.assert_consistent()


async def test_a_dag_that_is_held_goes_on_with_its_old_version_and_gets_no_runs(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(dsn, clock, hourly("a", "b")) as it:
        await it.trigger("d", "r")
        await it.db.execute(
            "WITH new AS (INSERT INTO dag_version (dag_id, number, content_hash, spec)"
            f" SELECT dag_id, 2, 'x', ({NEWER})::json FROM dag_version RETURNING id)"
            " UPDATE dag SET version_id = new.id FROM new"
        )
        await it.advance(POLL)
        await it.advance(7200)

        await it.finish("a", "b", run_id="r")

        assert await it.runs("d") == {"r": "success"}
        for verb, args in (
            ("trigger", {}),
            ("backfill_create", {"from": NEW_YEAR.isoformat(), "to": NEW_YEAR.isoformat()}),
        ):
            with pytest.raises(Refused, match="Version 2 of DAG 'd' cannot be read"):
                await it.ask(verb, "d", **args)
        assert len(errors(caplog)) == 1

        await it.register(hourly("a"))
        assert len(await it.dates("d")) > 1
        assert it.scheduler.metrics.recoveries == 0


async def test_what_runs_when_everything_is_read_again_is_not_lost(dsn: str, clock: FakeClock) -> None:
    """The DAG is not held then; its attempts run for whoever can read it."""
    async with running(dsn, clock, dag("d", task("a"), task("b", after="a")), dag("other")) as it:
        await it.trigger("d", "r")
        await it.register(dag("d", task("c")))
        await spoil(it.db)
        await it.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'aiosched notifications'"
            " AND datname = current_database()"
        )
        await it.until(lambda: it.scheduler.metrics.recoveries == 1, "everything to be read again")
        await it.trigger("other", "r")
        assert (await rows(it))[:2] == [("r", "running", "queued", 1, 0), ("r", "running", None, 0, 0)]

        it.executor.succeed(await it.attempt("a", dag_id="d"))
        await it.settled()
        assert (await rows(it))[0] == ("r", "running", "queued", 1, 0)
        await it.register(dag("d", task("e")))
        await it.finish("b")

        assert (await rows(it))[:2] == [("r", "success", "success", 1, 0), ("r", "success", "success", 1, 0)]
        assert len(it.executor.submitted) == 3
        assert await it.fetch("SELECT 1 FROM task_report") == []
        await it.assert_consistent()


# -- versions of runs -------------------------------------------------------------------------


async def test_unfinished_runs_of_a_dag_that_cannot_be_read_go_on_when_it_can_be(
    dsn: str, db: Database, clock: FakeClock
) -> None:
    await left_running(dsn, clock, hourly("a"))
    await register(db, hourly("a", "b"))
    await spoil(db)
    async with running(dsn, clock) as it:
        await it.advance(7200)
        assert await rows(it) == [("r", "running", "running", 1, 0)]
        assert it.executor.submitted == []

        await it.register(hourly("a", "c"))
        await it.until(lambda: it.scheduler.metrics.recoveries == 1, "everything to be read again")
        await it.finish_all()

        assert set((await it.runs("d")).values()) == {"success"}
        assert len(await it.runs("d")) == 3
        await it.assert_consistent()


async def test_a_run_of_a_version_that_cannot_be_read_is_neither_started_nor_ended_and_keeps_its_place(
    dsn: str, db: Database, clock: FakeClock
) -> None:
    await left_running(dsn, clock, hourly("a", max_active_runs=1))
    async with running(dsn, clock) as it:
        await it.trigger("d", "q")
    await register(db, hourly("a", "b", max_active_runs=2))
    await spoil(db, 1)
    async with running(dsn, clock) as it:
        before = await rows(it)
        await it.advance(7200)

        assert [row[0] for row in before] == ["r", "q"]
        assert (await rows(it))[:2] == before
        runs = await it.runs("d")
        assert list(runs.values()).count("running") == 2  # the one that cannot be read is one of them
        for verb, args in (
            ("cancel_run", {"run_id": "r"}),
            ("cancel_run", {"run_id": "q"}),
            ("mark_run", {"run_id": "r", "state": "failed"}),
            ("clear", {"run_ids": ["q"], "newest_version": True}),
            ("set_note", {"run_id": "r", "task_id": "a", "note": "x"}),
        ):
            with pytest.raises(Refused, match="Version 1 of DAG 'd' cannot be read"):
                await it.ask(verb, "d", **args)
        await it.finish_all()
        await it.ask("delete_dag", "d")
        assert await it.runs("d") == {}


async def test_a_report_about_a_run_that_cannot_be_read_waits_for_who_can(
    dsn: str, db: Database, clock: FakeClock
) -> None:
    await left_running(dsn, clock, hourly("a"))
    await spoil(db)
    async with db.acquire() as conn:
        await conn.execute(
            """INSERT INTO task_report (partition, run_id, task_index, map_index, try_number, outcome, body, queued_by)
               SELECT r.partition, r.id, 0, -1, 1, 'success', json_build_object('key', json_build_array(r.id, 0, -1, 1),
                      'outcome', 'success', 'at', '2026-01-01T00:00:00Z'), ti.queued_by
                 FROM dag_run AS r JOIN task_instance AS ti ON ti.run_id = r.id"""
        )
    async with running(dsn, clock) as it:
        await it.advance(POLL)

        assert len(await it.fetch("SELECT 1 FROM task_report")) == 1
        assert await rows(it) == [("r", "running", "running", 1, 0)]


async def test_a_task_that_depends_on_a_run_that_cannot_be_read_waits(dsn: str, db: Database, clock: FakeClock) -> None:
    spec = dag("d", task("a", depends_on_past=True), task("b"))
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "one", logical_date=NEW_YEAR - HOUR)
        await it.finish("a", "b")
        await it.register(dag("d", task("a", depends_on_past=True), task("b"), task("c")))
    await spoil(db, 1)
    async with running(dsn, clock) as it:
        await it.trigger("d", "two", logical_date=NEW_YEAR)
        await it.finish("b", "c")
        await it.advance(POLL)

        assert await it.states("two") == {"a": None, "b": "success", "c": "success"}
        assert await it.runs("d") == {"one": "success", "two": "running"}
        said = await it.scheduler.why("d", "two", "a")
        assert [gate.name for gate in said.in_the_way()]


async def test_callbacks_of_a_run_that_cannot_be_read_are_delivered(dsn: str, db: Database, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", has_success_callback=True)) as it:
        await it.trigger("d", "r")
        await it.finish("a")
        it.executor.callbacks.clear()
    await spoil(db)
    async with running(dsn, clock) as it:
        attempt = await it.callback()

        assert (attempt.run.run_id, attempt.run.version) == ("r", 1)


async def test_no_alarm_is_raised_for_what_nobody_can_read(dsn: str, db: Database, clock: FakeClock) -> None:
    def spec(*more: str) -> DagSpec:
        late = task("a", sla=600.0)
        return dag("d", late, *map(task, more), schedule=HOUR, start_date=NEW_YEAR, catchup=True)

    async with running(dsn, clock, spec()) as it:
        await it.advance(3600)
        await it.finish("a")
        await it.register(spec("b"))
        for _ in range(2):
            await it.advance(3600)
            await it.finish("a", "b")
        await it.register(spec("c"))
    await spoil(db, 2)
    async with running(dsn, clock) as it:
        assert list((await it.runs("d")).values()) == ["success"] * 3
        assert it.session.outbox.slas.earliest is not None  # it has looked
        assert await it.fetch("SELECT logical_date FROM sla_miss") == []


async def test_why_says_that_a_version_cannot_be_read(dsn: str, db: Database, clock: FakeClock) -> None:
    await left_running(dsn, clock, dag("d"))
    await register(db, dag("d", task("a"), task("b")))
    await spoil(db, 1)
    async with running(dsn, clock) as it:
        assert await it.scheduler.why("d")
        with pytest.raises(Refused, match="Version 1 of DAG 'd' cannot be read"):
            await it.scheduler.why("d", "r")
        await spoil(db)
        with pytest.raises(Refused, match="Version 2 of DAG 'd' cannot be read"):
            await it.scheduler.why("d")


async def test_the_figures_name_and_count_what_is_left_alone(dsn: str, db: Database, clock: FakeClock) -> None:
    await register(db, hourly(), dag("other"))
    await spoil(db)
    async with running(dsn, clock) as it:
        (text,) = it.scheduler.figures()["left_alone"]
        assert "'d'" in text
        assert it.scheduler.metrics.unreadable_rows == 1

        await register(db, hourly("a", "b"))
        await it.until(lambda: "d" in it.session.cache.dags, "a readable version")
        assert it.scheduler.figures()["left_alone"] == []


async def test_a_version_that_is_not_there_is_named(dsn: str, db: Database, clock: FakeClock) -> None:
    """As in a row that was edited while constraints were off, or restored in part."""
    async with running(dsn, clock, dag("d"), dag("other")) as it:
        await it.trigger("d", "r")
        async with db.transaction() as conn:
            await conn.execute("SET LOCAL session_replication_role = replica")
            await conn.execute("UPDATE dag SET version_id = 4611686018427387904 WHERE dag_id = 'd'")
        with pytest.raises(Refused, match="There is no DAG version with the id 4611686018427387904"):
            await it.scheduler.why("d")

        await it.advance(POLL)
        await it.trigger("other", "r")
        await it.finish("a", dag_id="other")
        assert await it.runs("other") == {"r": "success"}


@pytest.mark.parametrize("run_id", [None, "r"])
async def test_why_of_a_dag_without_a_version_says_so(dsn: str, clock: FakeClock, run_id: str | None) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        await it.execute("UPDATE dag SET version_id = NULL")

        with pytest.raises(NotFound, match="DAG 'd' has no version"):
            await it.scheduler.why("d", run_id)
