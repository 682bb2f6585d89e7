"""Partitions that move while their tasks run: the attempts stay where they are, their results go to the new owner."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from aiosched.clock import FakeClock
from aiosched.core.values.ids import PARTITIONS, partition_of
from aiosched.core.values.messages import AttemptKey, Outcome, Report
from aiosched.db.statements import reports as reports_read
from aiosched.db.statements.inbox import RequestResult
from aiosched.db.statements.reports import insert_reports, read_reports
from aiosched.scheduler.partitions import handover
from aiosched.scheduler.partitions.handover import _unapplied, receive_remote_reports
from aiosched.scheduler.partitions.ownership import give_back
from tests.patience import PATIENCE, until
from tests.scheduler.harness import Running, ScriptedExecutor, chain, dag, dag_in, running, succeeding, task

_EVERY = range(PARTITIONS)


def owned(it: Running) -> set[int]:
    return set(it.session.cache.partitions)


async def shared_out(*fleet: Running) -> None:
    """Return when everybody holds a fair share, to within one partition, and all partitions are held."""

    def fair() -> bool:
        counts = [len(owned(it)) for it in fleet]
        return sum(counts) == PARTITIONS and max(counts) - min(counts) <= 1

    await until(fair, "fair shares")


async def all_done(*fleet: Running) -> None:
    async with asyncio.timeout(PATIENCE):  # a partition that moves is held by nobody for a moment
        while True:
            if not await fleet[0].fetch("SELECT 1 FROM dag_run WHERE state IN ('queued', 'running') LIMIT 1"):
                break
            await asyncio.sleep(0.01)
    for it in fleet:
        await it.settled()
    assert await fleet[0].fetch("SELECT DISTINCT state FROM dag_run") == [("success",)]
    assert await fleet[0].fetch("SELECT 1 FROM task_report") == []
    assert await fleet[0].fetch("SELECT 1 FROM task_try") == []  # nothing was lost or done twice
    for it in fleet:
        assert not it.session.env.attempts.remote.partitions
        await it.assert_consistent()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of few reports."""
    monkeypatch.setattr(reports_read, "PAGE", 3)
    monkeypatch.setattr(handover, "MOST_UNAPPLIED", 6)


async def test_busy_partitions_are_shared_out_while_their_tasks_run_on(dsn: str, clock: FakeClock) -> None:
    """The bound: one look of the giver, one commit, one look of the taker, whatever runs."""
    specs = [chain(dag_in(partition), 2) for partition in _EVERY]
    async with running(dsn, clock, *specs) as first:
        for spec in specs:
            await first.scheduler.trigger(spec.dag_id, run_id="r")
        await first.settled()
        for attempt in list(first.executor.running.values())[::2]:
            first.executor.start_running(attempt)
        assert len(first.executor.running) == PARTITIONS

        async with running(dsn, clock, settle=False) as second:
            await shared_out(first, second)

            assert len(first.executor.running) == PARTITIONS  # nobody was disturbed
            assert not first.executor.cancelled
            assert not second.executor.submitted  # and nobody started again
            assert await first.fetch("SELECT 1 FROM task_instance WHERE queued_by <> $1", first.incarnation) == []

            second.executor.script = first.executor.script = succeeding
            for attempt in list(first.executor.running.values()):
                first.executor.succeed(attempt)
            await all_done(first, second)
            assert len(first.executor.submitted) == PARTITIONS + 32  # the second task of a DAG runs at its owner's
            assert len(second.executor.submitted) == 32


async def test_every_kind_of_end_reaches_the_new_owner(dsn: str, clock: FakeClock) -> None:
    """Also decision 11 of section 34: the report is about a row that another scheduler owns now."""
    ends = ("success", "failed", "skipped", "up_for_reschedule", "up_for_retry", "deferred")
    names = [dag_in(partition) for partition in range(len(ends))]
    specs = [dag(name, task("a", retries=int(end == "up_for_retry"))) for name, end in zip(names, ends, strict=True)]
    async with running(dsn, clock, *specs) as first:
        for name in names:
            await first.trigger(name, "r")
        async with running(dsn, clock, settle=False) as second:
            await first.give_everything(second)
            for name, end in zip(names, ends, strict=True):
                attempt = await first.attempt("a", dag_id=name)
                match end:
                    case "success":
                        first.executor.succeed(attempt, value=[1, "two"])
                    case "skipped":
                        first.executor.skip(attempt)
                    case "up_for_reschedule":
                        first.executor.start_running(attempt)
                        first.executor.reschedule(attempt, at=clock.now().replace(year=2030))
                    case "deferred":
                        first.executor.defer(attempt)
                    case _:
                        first.executor.fail(attempt, "no such file")

            await until(lambda: not first.session.env.attempts.remote.partitions, "the reports to be sent")
            await second.until(lambda: len(second.executor.triggers) == 1, "the trigger of the deferred task")
            for name, end in zip(names, ends, strict=True):
                await _until_state(second, name, end)
            assert await second.fetch("SELECT value::text FROM xcom") == [('[1,"two"]',)]
            assert await second.fetch("SELECT 1 FROM task_report") == []
            await second.assert_consistent()


async def _until_state(it: Running, dag_id: str, state: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            if (await it.states("r", dag_id))["a"] == state:
                return
            await asyncio.sleep(0.002)


async def test_a_scheduler_that_drains_gives_its_dags_away_at_once_and_tells_how_its_tasks_end(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, chain("d", 3), chain("e", 1)) as second:
        async with running(dsn, clock, settle=False) as first:
            await second.give_everything(first)
            await second.drain_no_more()
            await shared_out(first, second)
            await first.give_everything(second)
        await second.trigger("d", "r")
        attempt = await second.attempt("t0")
        async with running(dsn, clock, settle=False) as third:
            draining = asyncio.create_task(second.scheduler.drain(grace=PATIENCE))
            await until(lambda: len(owned(third)) == PARTITIONS, "all partitions to move")
            await third.trigger("e", "r")  # other DAGs go on meanwhile
            await third.finish("t0", dag_id="e")
            assert not draining.done()

            second.executor.succeed(attempt)

            assert await draining
            await third.finish("t1", "t2", dag_id="d")
            assert await third.runs("d") == {"r": "success"}
            assert await third.fetch("SELECT 1 FROM task_try") == []


async def test_what_a_scheduler_could_not_wait_for_is_lost_and_runs_again_at_the_new_owner(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, chain("d", 1)) as first:
        await first.trigger("d", "r")
        async with running(dsn, clock, settle=False) as second:
            await first.give_everything(second)

            await first.scheduler.stop(grace=0)

            await second.finish("t0")
            assert await second.runs("d") == {"r": "success"}
            assert await second.fetch("SELECT state FROM task_try") == [("lost",)]
            await second.assert_consistent()


async def test_when_the_lender_dies_its_attempts_are_lost_apart_from_those_that_it_told_of(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, chain("told", 2), chain("untold", 2)) as first:
        await first.trigger("told", "r")
        await first.trigger("untold", "r")
        dead = first.incarnation
        async with running(dsn, clock, settle=False) as second:
            await first.give_everything(second)
            async with second.session.locks.ownership:  # it hears nothing until the other one is gone
                first.executor.succeed(await first.attempt("t0", dag_id="told"))
                await until(lambda: len(first.session.env.attempts.remote.partitions) == 1, "the report to be sent")
                await second.execute("DELETE FROM partition_lease WHERE incarnation = $1", dead)
                await second.execute("DELETE FROM scheduler WHERE incarnation = $1", dead)

            await second.finish("t1", dag_id="told")
            await second.finish("t0", "t1", dag_id="untold")

            tries = await second.fetch("SELECT r.dag_id, t.state FROM task_try t JOIN dag_run r ON r.id = t.run_id")
            assert tries == [("untold", "lost")]
            assert await second.runs("told") == await second.runs("untold") == {"r": "success"}


async def test_a_lent_attempt_that_is_cleared_or_cancelled_is_stopped_where_it_runs(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 1), chain("e", 1)) as first:
        await first.trigger("d", "r")
        await first.trigger("e", "r")
        async with running(dsn, clock, settle=False) as second:
            await first.give_everything(second)

            await second.ask("cancel_run", "d", run_id="r")
            await second.ask("clear", "e", run_ids=["r"])

            await until(lambda: len(first.executor.cancelled) == 2, "both to be stopped")
            await until(lambda: second.executor.running, "the cleared one to run again")
            await second.finish("t0", dag_id="e")
            assert await second.runs("d") == {"r": "failed"}
            assert await second.runs("e") == {"r": "success"}
            await second.assert_consistent()


async def test_a_partition_that_comes_back_finds_its_attempt_and_its_report(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 2), chain("e", 2)) as it:
        await it.trigger("d", "r")
        await it.trigger("e", "r")
        ended = await it.attempt("t0", dag_id="e")
        async with it.session.locks.ownership:  # nobody else is there: it takes them again
            await give_back(it.session, range(PARTITIONS))
            assert owned(it) == set()
            assert len(it.session.env.attempts.remote.partitions) == 2
            it.executor.succeed(ended)

        await until(lambda: len(owned(it)) == PARTITIONS, "the partitions to come back")
        await it.finish("t1", dag_id="e")
        await it.finish("t0", "t1", dag_id="d")

        assert await it.runs("d") == await it.runs("e") == {"r": "success"}
        assert await it.fetch("SELECT 1 FROM task_try") == []
        assert await it.fetch("SELECT 1 FROM task_report") == []
        await it.assert_consistent()


async def test_a_report_that_was_read_and_not_applied_when_its_partition_left_is_read_again(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, chain("d", 1)) as first:
        await first.trigger("d", "r")
        async with running(dsn, clock, settle=False) as second:
            await first.give_everything(second)
            session = second.session
            async with session.locks.ownership:
                session.locks.loaded.clear()  # nothing is evaluated
                first.executor.succeed(await first.attempt("t0"))
                await until(lambda: not first.session.env.attempts.remote.partitions, "the report to be sent")
                async with session.env.db.acquire() as conn:
                    await receive_remote_reports(session, conn, owned(second))
                assert len(_unapplied(session)) == 1
                await give_back(session, range(PARTITIONS))
                assert (owned(second), _unapplied(session)) == (set(), set())

            await until(lambda: len(owned(second)) == PARTITIONS, "the partitions to come back")
            await second.settled()
            assert await second.runs("d") == {"r": "success"}
            assert await second.fetch("SELECT 1 FROM task_report") == []
            await second.assert_consistent()


async def test_a_report_that_comes_when_nobody_waits_for_one_any_more_is_read_and_forgotten(
    dsn: str, clock: FakeClock
) -> None:
    """Its sender was taken for dead, and its NOTIFY is lost."""
    async with running(dsn, clock, chain("d", 1)) as it:
        await it.trigger("d", "r")
        report = Report(key=(await it.attempt("t0")).key, outcome=Outcome.SUCCESS, at=clock.now())
        async with it.db.acquire() as conn:
            await insert_reports(conn, [(partition_of("d"), report)], incarnation=it.incarnation + 1)
        assert not it.session.cache.elsewhere

        await it.advance(it.scheduler.settings.scheduler.safety_poll)

        await it.until(lambda: it.scheduler.metrics.stale_reports == 1, "the report to be read")
        await it.settled()
        assert await it.fetch("SELECT 1 FROM task_report") == []
        await it.finish("t0")
        assert await it.runs("d") == {"r": "success"}


async def test_what_was_on_the_calendar_when_a_partition_left_is_of_no_use_when_it_comes_back(
    dsn: str, clock: FakeClock
) -> None:
    """The run was read anew, and its tasks may wait for another time by now."""
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        it.executor.reschedule(await it.attempt("a"), clock.now() + timedelta(minutes=5))
        await it.settled()
        await it.leave_and_come_back()
        await it.ask("clear", "d", run_ids=["r"], task_ids=["a"])
        it.executor.reschedule(await it.attempt("a"), clock.now() + timedelta(minutes=10))
        await it.settled()

        await it.advance(301)

        assert await it.states("r") == {"a": "up_for_reschedule"}
        await it.advance(300)
        await it.finish("a")
        assert await it.runs("d") == {"r": "success"}
        assert len(it.executor.submitted) == 3
        await it.assert_consistent()


async def test_a_report_that_is_told_twice_does_not_end_a_later_call_of_the_same_try(
    dsn: str, clock: FakeClock
) -> None:
    """A lender that did not hear whether its report was stored tells it again."""
    async with running(dsn, clock, dag("d")) as first:
        await first.trigger("d", "r")
        async with running(dsn, clock, settle=False) as second:
            await first.give_everything(second)
            attempt = await first.attempt("a")
            again = first.executor.report(attempt, Outcome.RESCHEDULED, reschedule_at=clock.now())
            await second.until(lambda: second.executor.find("a"), "the next call")
            stale = second.scheduler.metrics.stale_reports

            first.session.env.attempts.remote.partitions[attempt.key] = partition_of("d")
            first.session.env.attempts.remote.outgoing.append(again)
            first.session.wakeups.remote_attempts.wake()

            await second.until(lambda: second.scheduler.metrics.stale_reports > stale, "the doubled report")
            await second.settled()
            assert second.executor.find("a") is not None
            await second.finish("a")
            assert await second.runs("d") == {"r": "success"}
            assert await second.fetch("SELECT 1 FROM task_report") == []


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("joiners", [2, 3])
async def test_many_join_at_once_under_load_and_nothing_is_lost_or_done_twice(
    dsn: str, clock: FakeClock, joiners: int
) -> None:
    specs = [chain(dag_in(partition), 6) for partition in _EVERY]
    async with running(dsn, clock, *specs) as first:
        for spec in specs:
            await first.scheduler.trigger(spec.dag_id, run_id="r")
        first.executor.script = succeeding
        async with (
            running(dsn, clock, settle=False) as second,
            running(dsn, clock, settle=False) as third,
        ):
            fleet = [first, second, third][:joiners]
            for it in (second, third):
                it.executor.script = succeeding
            for attempt in list(first.executor.running.values()):
                first.executor.succeed(attempt)
            if len(fleet) == 3:
                await shared_out(*fleet)
            await all_done(first, second, third)
            keys = [attempt.key for it in (first, second, third) for attempt in it.executor.submitted]
            assert len(keys) == len(set(keys)) == 6 * PARTITIONS


async def test_many_reports_are_read_in_pages_and_in_order(dsn: str, clock: FakeClock, few: None) -> None:
    specs = [chain(dag_in(partition), 2) for partition in range(12)]
    async with running(dsn, clock, *specs) as first:
        for spec in specs:
            await first.scheduler.trigger(spec.dag_id, run_id="r")
        await first.settled()
        async with running(dsn, clock, settle=False) as second:
            await first.give_everything(second)
            largest = 0
            async with second.session.locks.ownership:  # it reads nothing until all of them are sent
                for attempt in list(first.executor.running.values()):
                    first.executor.start_running(attempt)
                    first.executor.succeed(attempt)
                await until(lambda: not first.session.env.attempts.remote.partitions, "the reports to be sent")
            session = second.session

            def all_applied() -> bool:
                nonlocal largest
                largest = max(largest, len(_unapplied(session)))
                return len(second.executor.running) == len(specs)

            await until(all_applied, "all of them to be applied")
            await second.finish_all()

            assert largest <= 8
            assert second.scheduler.metrics.stale_reports == 0
            await all_done(second)


async def test_a_dead_lender_loses_no_attempt_of_which_it_told_on_a_later_page(
    dsn: str, clock: FakeClock, few: None
) -> None:
    specs = [chain(dag_in(partition), 1) for partition in range(12)]
    async with running(dsn, clock, *specs) as first:
        for spec in specs:
            await first.scheduler.trigger(spec.dag_id, run_id="r")
        await first.settled()
        dead = first.incarnation
        async with running(dsn, clock, settle=False) as second:
            await first.give_everything(second)
            async with second.session.locks.ownership:  # it hears nothing until the other one is gone
                for attempt in list(first.executor.running.values()):
                    first.executor.succeed(attempt)
                await until(lambda: not first.session.env.attempts.remote.partitions, "the reports to be sent")
                await second.execute("DELETE FROM partition_lease WHERE incarnation = $1", dead)
                await second.execute("DELETE FROM scheduler WHERE incarnation = $1", dead)
                second.scheduler.look_at_fleet()

            await until(lambda: not second.session.cache.boards, "the runs to end")
            assert second.executor.submitted == []
            assert await second.fetch("SELECT 1 FROM task_try") == []


async def test_a_new_owner_loses_no_attempt_whose_report_it_has_not_read_yet(
    dsn: str, clock: FakeClock, few: None
) -> None:
    specs = [chain(dag_in(partition), 1) for partition in range(12)]
    async with running(dsn, clock, *specs) as it:
        for spec in specs:
            await it.scheduler.trigger(spec.dag_id, run_id="r")
        await it.settled()
        dead = it.incarnation
        sent = [
            (partition_of(a.run.dag_id), Report(key=a.key, outcome=Outcome.SUCCESS, at=clock.now()))
            for a in it.executor.running.values()
        ]

        async with it.db.transaction() as conn:  # it is taken for dead, and comes back as another incarnation
            await insert_reports(conn, sent, incarnation=dead)
            await conn.execute("UPDATE partition_lease SET incarnation = NULL")
            await conn.execute("DELETE FROM scheduler")
        await it.until(lambda: it.scheduler.session and it.incarnation != dead, "the next incarnation")
        await it.until(lambda: len(owned(it)) == PARTITIONS and not it.session.cache.boards, "the runs to end")
        await it.settled()

        assert len(it.executor.submitted) == len(specs)
        assert await it.fetch("SELECT DISTINCT state FROM dag_run") == [("success",)]
        assert await it.fetch("SELECT 1 FROM task_report") == []


async def test_a_page_of_reports_is_bounded_in_bytes(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 1)) as it:
        key = AttemptKey(1, 0, -1, 1)
        long = [Report(key=key, outcome=Outcome.FAILED, at=clock.now(), reason="x" * 400_000) for _ in range(6)]
        async with it.db.acquire() as conn:
            await insert_reports(conn, [(5, report) for report in long], incarnation=9)

            first, _, is_cut = await read_reports(conn, [5], but=())
            rest, *_ = await read_reports(conn, [5], but=[r.inbox_id for r in first if r.inbox_id is not None])
            none, _, ended = await read_reports(conn, [5], but=(), but_runs=[1])

        assert (len(first), len(rest), is_cut) == (3, 3, True)
        assert (none, ended) == ([], False)


async def test_a_claim_that_was_not_handed_out_is_not_mistaken_for_one_whose_report_is_unread(
    dsn: str, clock: FakeClock, few: None
) -> None:
    """Reports from engines are about attempts of this very scheduler; some of more than a page are unread."""
    names = [f"t{i}" for i in range(6)]
    executor = ScriptedExecutor(clock, slots=0, async_slots=0)
    async with running(dsn, clock, dag("d", *map(task, names)), executor=executor) as it:
        await it.trigger("d", "r")
        run, me = (await it.fetch("SELECT id FROM dag_run"))[0][0], it.incarnation
        await it.execute(
            f"UPDATE task_instance SET state = 'queued', try_number = 1, queued_by = {me}, queued_at = now()"
        )
        await it.execute("UPDATE pool SET used = 6 WHERE name = 'default_pool'")
        ended = [AttemptKey(run, index, -1, 1) for index in range(5)]  # all but the last
        sent = [(partition_of("d"), Report(key=key, outcome=Outcome.SUCCESS, at=clock.now())) for key in ended]
        async with it.db.transaction() as conn:
            await insert_reports(conn, sent, incarnation=me)
        session = it.session
        session.cache.unstored.is_void = True
        session.context.answer(0, RequestResult("applied", {}))  # something to store: the session ends
        await it.until(lambda: it.scheduler.session is not session, "the next session")
        await it.until(lambda: executor.submitted, "the attempt that was not handed out")
        executor.succeed(executor.submitted[0])
        await it.settled()

        assert [attempt.task_id for attempt in executor.submitted] == ["t5"]
        assert await it.runs("d") == {"r": "success"}
