"""Rows and notifications of another version of aiosched: what is unknown is left where it is, and harms only itself."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.run.board import SKIPPED_DOWNSTREAM
from aiosched.core.values.ids import partition_of
from aiosched.core.values.messages import Attempt
from aiosched.db.server.engine import Database
from aiosched.db.statements.inbox import notify, read_notification
from aiosched.db.statements.pool_demands import StoredDemand, read_demands
from aiosched.db.statements.run_changes import read_runs
from aiosched.errors import Refused
from aiosched.scheduler.partitions.unreadable_reports import PATIENCE
from tests.scheduler.harness import NEW_YEAR, Running, chain, dag, running, task
from tests.scheduler.test_unreadable_versions import errors, left_running, rows

POLL = 11.0  # seconds, after which the scheduler has looked at its inbox

# What a newer aiosched may have allowed in its schema.
ANY_STATE = (
    "ALTER TABLE task_instance DROP CONSTRAINT ck_task_instance_state",
    "ALTER TABLE dag_run DROP CONSTRAINT ck_dag_run_state",
)


async def allow_any_state(db: Database) -> None:
    async with db.acquire() as conn:
        for statement in ANY_STATE:
            await conn.execute(statement)


async def works(it: Running, dag_id: str = "other") -> bool:
    """Whether another DAG still gets its runs and finishes them."""
    number = len(await it.runs(dag_id))
    await it.trigger(dag_id, f"proof{number}")
    await it.finish("a", dag_id=dag_id)
    return (await it.runs(dag_id))[f"proof{number}"] == "success"


# -- reports ----------------------------------------------------------------------------------


async def send(it: Running, attempt: Attempt, outcome: str = "success", **body: Any) -> None:
    """A report of `it` to the owner of the attempt's DAG, as another version may write it."""
    key = attempt.key
    document = {"key": list(key), "outcome": outcome, "at": "2026-01-01T00:00:00Z", **body}
    async with it.db.acquire() as conn:
        await conn.execute(
            "INSERT INTO task_report (partition, run_id, task_index, map_index, try_number, outcome, body, queued_by)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            partition_of(attempt.run.dag_id), *key, outcome, json.dumps(document), it.incarnation,
        )  # fmt: skip
        await notify(conn, "reports", [partition_of(attempt.run.dag_id)])


UNREADABLE = [
    pytest.param({"outcome": "teleported"}, id="unknown outcome"),
    pytest.param({"xcoms": 5}, id="wrong type"),
    pytest.param({"at": None}, id="missing instant"),
    pytest.param({"deferral": {"classpath": "a.B"}}, id="missing field"),
]


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("body", UNREADABLE)
async def test_a_report_that_cannot_be_read_is_kept_and_harms_nothing_else(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture, body: dict[str, Any]
) -> None:
    async with running(dsn, clock, chain("d", 2), dag("other")) as first:
        await first.trigger("d", "r")
        async with running(dsn, clock, settle=False) as second:
            await first.give_everything(second)
            attempt = await first.attempt("t0")

            await send(first, attempt, **body)

            metrics = second.scheduler.metrics
            await second.until(lambda: metrics.unreadable_rows == 1, "the report to be noticed")
            for _ in range(3):
                await second.advance(POLL)
            assert await works(second)
            assert metrics.unreadable_rows == 1
            assert len([text for text in errors(caplog) if "task_report) cannot be read" in text]) == 1
            assert len(await second.fetch("SELECT 1 FROM task_report")) == 1
            assert (await rows(second))[0] == ("r", "running", "queued", 1, 0)
            assert metrics.recoveries == 0


async def test_an_attempt_whose_report_nobody_reads_is_lost_in_the_end(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 1)) as first:
        await first.trigger("d", "r")
        async with running(dsn, clock, settle=False) as second:
            await first.give_everything(second)
            await send(first, await first.attempt("t0"), "teleported")
            await second.until(lambda: second.scheduler.metrics.unreadable_rows == 1, "the report to be noticed")
            await second.advance(PATIENCE - 1)
            assert second.executor.submitted == []

            await second.advance(POLL)

            await second.finish("t0")
            assert await second.runs("d") == {"r": "success"}
            assert await second.fetch("SELECT 1 FROM task_report") == []
            assert [row["state"] for row in await second.fetch("SELECT state FROM task_try")] == ["lost"]
            assert second.scheduler.metrics.lost_attempts == 1
            await second.assert_consistent()


async def test_an_attempt_whose_report_cannot_be_read_is_lost_when_its_sender_has_left(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, chain("d", 1)) as second:
        async with running(dsn, clock, settle=False) as first:
            await second.give_everything(first)
            await first.trigger("d", "r")
            await second.drain_no_more()
            await first.give_everything(second)
            attempt = await first.attempt("t0")
            await send(first, attempt, "teleported")
            await second.until(lambda: second.scheduler.metrics.unreadable_rows == 1, "the report to be noticed")
            first.session.env.attempts.remote.partitions.clear()  # as far as it knows, it has sent the end
            first.session.env.attempts.in_flight.clear()

        await second.finish("t0")

        assert await second.runs("d") == {"r": "success"}
        await second.advance(POLL)
        assert await second.fetch("SELECT 1 FROM task_report") == []


async def test_a_report_with_fields_that_are_unknown_here_is_applied(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 1)) as first:
        await first.trigger("d", "r")
        async with running(dsn, clock, settle=False) as second:
            await first.give_everything(second)

            await send(first, await first.attempt("t0"), energy=9.5, xcoms=[])

            await second.until(lambda: not second.session.cache.boards, "the run to end")
            await second.settled()
            assert await second.runs("d") == {"r": "success"}
            assert second.scheduler.metrics.unreadable_rows == 0


# -- runs and instances -----------------------------------------------------------------------


async def test_a_run_with_a_task_in_an_unknown_state_is_left_alone(
    dsn: str, db: Database, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await left_running(dsn, clock, dag("d", max_active_runs=1))
    await allow_any_state(db)
    await db.execute("UPDATE task_instance SET state = 'hibernating'")
    async with running(dsn, clock, dag("other")) as it:
        await it.trigger("d", "next")
        await it.advance(POLL)

        assert await works(it)
        assert (await rows(it))[0] == ("r", "running", "hibernating", 1, 0)
        assert (await it.runs("d"))["next"] == "queued"  # the other one keeps its place
        for verb, args in (("cancel_run", {"run_id": "r"}), ("clear", {"run_ids": ["r"]})):
            with pytest.raises(Refused, match="in the state 'hibernating', which this aiosched cannot read"):
                await it.ask(verb, "d", **args)
        assert it.scheduler.metrics.unreadable_rows == 1
        assert len(errors(caplog)) == 1


async def test_a_queued_run_with_a_task_in_an_unknown_state_is_not_started(
    dsn: str, db: Database, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("d", max_active_runs=1), dag("other")) as it:
        await it.trigger("d", "r")
        await it.trigger("d", "q")
        await allow_any_state(db)
        await it.execute(
            "UPDATE task_instance SET state = 'hibernating' WHERE run_id = (SELECT id FROM dag_run WHERE run_id = 'q')"
        )

        await it.finish("a", run_id="r")

        assert await works(it)
        assert await it.runs("d") == {"r": "success", "q": "queued"}
        assert it.scheduler.metrics.unreadable_rows == 1
        assert it.scheduler.metrics.recoveries == 1  # by the guard: a run that was created here starts without reading


async def test_a_run_with_a_branch_whose_decision_cannot_be_read_is_left_alone(
    dsn: str, db: Database, clock: FakeClock
) -> None:
    spec = dag("d", task("a", can_skip_downstream=True), task("b", after="a"), task("c", after="b"))
    async with running(dsn, clock, spec, dag("other")) as it:
        await it.trigger("d", "r")
        await it.finish("a")
    await db.execute(
        "INSERT INTO xcom (run_id, task_index, map_index, key, value)"
        " SELECT run_id, 0, -1, $1, '{\"all\": true}' FROM task_instance WHERE task_index = 0",
        SKIPPED_DOWNSTREAM,
    )
    async with running(dsn, clock) as it:
        assert await works(it)
        assert it.scheduler.metrics.unreadable_rows == 1
        assert (await it.runs("d")) == {"r": "running"}
        assert it.executor.find("b") is None


async def test_tasks_that_depend_on_a_run_with_an_unknown_state_wait(dsn: str, db: Database, clock: FakeClock) -> None:
    spec = dag("d", task("a", depends_on_past=True), task("b"))
    async with running(dsn, clock, spec, dag("other")) as it:
        await it.trigger("d", "one", logical_date=NEW_YEAR.replace(year=2025))
        await it.finish("a", "b")
    await allow_any_state(db)
    await db.execute("UPDATE task_instance SET state = 'hibernating' WHERE task_index = 0")
    async with running(dsn, clock) as it:
        await it.trigger("d", "two", logical_date=NEW_YEAR)
        await it.finish("b")

        assert await it.states("two") == {"a": None, "b": "success"}
        assert await works(it)


@pytest.mark.slow
async def test_a_callback_of_a_run_in_an_unknown_state_is_kept(dsn: str, db: Database, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", has_success_callback=True), dag("other")) as it:
        await it.trigger("d", "r")
        await it.finish("a")
        it.executor.callbacks.clear()
    await allow_any_state(db)
    await db.execute("UPDATE dag_run SET state = 'hibernating' WHERE dag_id = 'd'")
    async with running(dsn, clock) as it:
        assert await works(it)
        with pytest.raises(Refused, match="Run 'r' of DAG 'd' is in the state 'hibernating'"):
            await it.ask("cancel_run", "d", run_id="r")
        assert it.executor.callbacks == {}
        assert len(await it.fetch("SELECT 1 FROM callback_outbox")) == 1


async def test_runs_in_an_unknown_state_do_not_stop_a_continuous_schedule(
    dsn: str, db: Database, clock: FakeClock
) -> None:
    await allow_any_state(db)
    async with running(dsn, clock, dag("d", schedule="@continuous", start_date=NEW_YEAR, max_active_runs=1)) as it:
        await it.finish("a")
    await db.execute("UPDATE dag_run SET state = 'hibernating' WHERE state = 'success'")
    async with running(dsn, clock) as it:
        states = list((await it.runs("d")).values())

        assert states.count("hibernating") >= 1
        assert states[-1] == "running"


# -- the rest ---------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_callback_of_an_unknown_kind_is_kept_and_others_are_delivered(
    dsn: str, db: Database, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("d", has_success_callback=True)) as it:
        await it.trigger("d", "r")
        await it.finish("a")
        it.executor.callbacks.clear()
    await db.execute(
        "INSERT INTO callback_outbox (partition, kind, dag_id, run_id)"
        " SELECT partition, 'run_paused', dag_id, id FROM dag_run"
    )
    async with running(dsn, clock) as it:
        attempt = await it.callback()

        assert attempt.callback is not None
        assert attempt.callback.kind == "dag_success"
        assert it.scheduler.metrics.unreadable_rows == 1
        it.executor.succeed(attempt)
        await it.settled()
        found = await it.fetch("SELECT kind, attempts, given_up_at FROM callback_outbox")
        assert [tuple(row) for row in found] == [("run_paused", 0, None)]


async def test_a_watcher_that_cannot_be_read_does_not_run(
    dsn: str, db: Database, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(dsn, clock, dag("d"), dag("other")) as it:
        await it.execute(
            "INSERT INTO asset_reference (dag_id, role, kind, name, task_id, watchers)"
            " VALUES ('d', 'schedule', 'asset', 'mail', '', '[{\"name\": \"w\", \"when\": \"always\"}]')"
        )
        it.session.wakeups.watchers.wake()
        await it.until(lambda: it.scheduler.metrics.unreadable_rows == 1, "the watcher to be noticed")
        it.session.wakeups.watchers.wake()
        assert await works(it)
        assert it.scheduler.metrics.unreadable_rows == 1
        assert [text for text in errors(caplog) if "watchers of asset mail cannot be read" in text]


@pytest.mark.parametrize("sources", ['{"d.py": 5}', "[]"])
async def test_a_version_whose_sources_cannot_be_read_is_unreadable(
    dsn: str, db: Database, clock: FakeClock, caplog: pytest.LogCaptureFixture, sources: str
) -> None:
    async with running(dsn, clock, dag("d"), dag("other")):
        pass
    await db.execute("UPDATE dag_version SET sources = $1 WHERE dag_id = 'd'", sources)
    async with running(dsn, clock) as it:
        assert await works(it)
        with pytest.raises(Refused, match="Version 1 of DAG 'd' cannot be read"):
            await it.ask("trigger", "d")


async def test_a_request_with_arguments_that_are_no_object_is_refused(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        with pytest.raises(Refused, match="a JSON object is needed"):
            await it.request("pause", "d", [1])  # type: ignore[arg-type]
        assert it.scheduler.metrics.recoveries == 0


async def test_a_request_with_an_argument_of_a_newer_version_is_refused_and_does_nothing(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("d")) as it:
        with pytest.raises(Refused, match=r"trigger: unknown arguments: only_if_idle; .* is upgraded"):
            await it.ask("trigger", "d", only_if_idle=True)
        assert await it.runs("d") == {}


def test_demands_of_other_versions_are_read_as_far_as_they_are_known() -> None:
    document = (
        '{"1": [false, 2, 3.5, 4, 5, 6], "2": [true, 2, 3.5, 4, 5, 6, {"fair": 1}], "3": {"weight": 2}, "x": [1]}'
    )

    found, unreadable = read_demands(document)

    assert found == {1: StoredDemand(False, 2, 3.5, 4, 5, 6), 2: StoredDemand(True, 2, 3.5, 4, 5, 6)}
    assert unreadable.keys() == {"3", "x"}
    assert read_demands("[]")[0] == {}


@pytest.mark.slow
async def test_the_demand_of_a_peer_that_cannot_be_read_does_not_stop_the_pool(
    dsn: str, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(dsn, clock, dag("d"), dag("other")) as it, running(dsn, clock, settle=False):
        await it.until(lambda: it.session.membership.has_peers, "a peer")
        await it.execute('UPDATE pool SET demands = \'{"77": ["urgent"]}\'')
        it.session.env.journal.forget_pools()

        for number in range(3):
            for name in ("d", "other"):
                await it.scheduler.trigger(name, run_id=f"r{number}")

        dags = {partition_of(name): name for name in ("d", "other")}
        mine = [name for partition, name in dags.items() if partition in it.session.cache.partitions]
        for name in mine:
            await it.finish("a", dag_id=name)
        demands = [row["demands"] for row in await it.fetch("SELECT demands FROM pool")]
        assert [json.loads(text)["77"] for text in demands] == [["urgent"]]
        said = [record for record in caplog.records if "what scheduler 77 waits for" in record.getMessage()]
        assert len(said) <= 2  # at most once in each scheduler
        assert said
        assert all(record.levelno == logging.ERROR for record in said)


def test_what_is_no_number_in_a_notification_is_ignored() -> None:
    assert read_notification("dags 3,4;urgent,5") == ("dags", frozenset({3, 5}))
    assert read_notification("dags") == ("dags", frozenset())
    assert read_runs("17,x,18") == [17, 18]


async def test_notifications_of_other_versions_end_nothing(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("other")) as it:
        for channel in ("aiosched_news", "aiosched_applied", "aiosched_runs"):
            for payload in ("", "x", "dags x,y", "requests 1:2", "moons 7", "slots a", "5,six"):
                await it.execute("SELECT pg_notify($1, $2)", channel, payload)

        assert await works(it)
        assert it.scheduler.metrics.recoveries == 0
