"""What is said of a DAG in quarantine: by `why`, by the wait for idleness, and by the figures."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from aiosched.clock import FakeClock
from aiosched.core.run.board import Board
from aiosched.core.why.explanation import Explanation, Gate
from aiosched.errors import InQuarantine
from aiosched.scheduler.observability.metrics_snapshot import figures_of
from aiosched.scheduler.runs import due_runs
from aiosched.scheduler.why import why
from tests.cli.records import quarantine
from tests.patience import PATIENCE
from tests.scheduler.harness import NEW_YEAR, Running, dag, register, running, succeeding, task
from tests.scheduler.scripted_executor import ScriptedExecutor
from tests.scheduler.test_idle import pair
from tests.scheduler.test_quarantine import POLL, Broken, broken, two_tasks

HOUR = timedelta(hours=1)


@contextlib.asynccontextmanager
async def in_quarantine(dsn: str, clock: FakeClock) -> AsyncIterator[Running]:
    """A scheduler with a run `r` of the DAG `bad`: its first task has succeeded, evaluating that has failed."""
    async with running(dsn, clock, two_tasks("bad"), two_tasks("good")) as it:
        await it.trigger("bad", "r")
        with broken(Board, "evaluate"):
            it.executor.succeed(await it.attempt("a", dag_id="bad"))
            await it.until(lambda: it.scheduler.metrics.quarantines, "the quarantine")
            await it.settled()
            yield it


def gate_of(said: Explanation) -> Gate | None:
    return next((gate for gate in said.gates if gate.name == "quarantine"), None)


# ---- why ----


async def test_why_names_the_quarantine_of_a_dag_its_run_and_its_tasks(dsn: str, clock: FakeClock) -> None:
    async with in_quarantine(dsn, clock) as it:
        for place in ((), ("r",), ("r", "b")):
            said = await it.scheduler.why("bad", *place)

            gate = gate_of(said)
            assert gate is not None, place
            assert gate.verdict == "wait"
            assert gate.detail == (
                "since 2026-01-01 00:00:00 UTC: the evaluation failed (Broken: evaluate does not like bad); "
                "the DAG is tried again at 2026-01-01 00:00:15 UTC"
            )
            assert said.commands[0] == "aiosched dags release bad"
        assert gate_of(await it.scheduler.why("good")) is None


async def test_why_forgets_the_quarantine_of_a_dag_that_is_tried_again(dsn: str, clock: FakeClock) -> None:
    async with in_quarantine(dsn, clock) as it:
        pass
    async with running(dsn, clock, two_tasks("bad")) as it:
        await it.advance(16.0)
        assert [row["failures"] for row in await it.fetch("SELECT failures FROM dag_quarantine")] == [1]

        assert gate_of(await it.scheduler.why("bad")) is None
        await it.finish("b", dag_id="bad")


async def test_why_of_what_cannot_be_explained_still_names_the_quarantine(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explodes(*_: object) -> None:
        raise Broken("in explaining, too")

    async with in_quarantine(dsn, clock) as it:
        monkeypatch.setattr(why, "make_board", explodes)

        said = await it.scheduler.why("bad", "r", "b")

        assert (said.subject, said.state) == ("bad · r · b", "running")
        assert said.commands == ("aiosched dags release bad",)
        assert said.notes == ("nothing else can be said of it: Broken: in explaining, too",)

        await it.trigger("good", "r")
        with pytest.raises(Broken):
            await it.scheduler.why("good", "r", "b")


# ---- idleness ----


async def until_told(it: Running, words: str) -> None:
    """Return when a look finds `words` left to do; while others are on their way, it may find other things."""
    found = ""
    try:
        async with asyncio.timeout(PATIENCE):
            while words not in (found := await it.scheduler.what_is_left() or "nothing"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"{found}, not {words}") from None


async def test_a_dag_in_quarantine_is_not_idle_and_what_is_waited_for_is_told(dsn: str, clock: FakeClock) -> None:
    async with in_quarantine(dsn, clock) as it:
        await it.trigger("good", "r")
        await until_told(it, "attempts run")
        await it.finish("a", "b", dag_id="good")

        left = await it.scheduler.what_is_left()

        assert left == (
            "DAG 'bad' is in quarantine since 2026-01-01 00:00:00 UTC: the evaluation failed "
            "(Broken: evaluate does not like bad); it is tried again at 2026-01-01 00:00:15 UTC, "
            "or now by `aiosched dags release bad`"
        )


@pytest.mark.slow
async def test_a_dag_that_works_again_is_waited_for_to_its_end(dsn: str, clock: FakeClock) -> None:
    executor = ScriptedExecutor(clock, script=succeeding)
    async with running(dsn, clock, two_tasks("bad"), executor=executor) as it:
        with broken(Board, "evaluate"):
            await it.scheduler.trigger("bad", run_id="r")
            await it.until(lambda: it.scheduler.metrics.quarantines, "the quarantine")
            await it.settled()
            waiting = asyncio.ensure_future(it.scheduler.wait_idle())
            await until_told(it, "DAG 'bad' is in quarantine")
        assert not waiting.done()

        await it.advance(16.0)

        async with asyncio.timeout(PATIENCE):
            await waiting
        assert await it.runs("bad") == {"r": "success"}


async def test_the_wait_ends_with_an_error_when_a_dag_has_failed_three_times_in_a_row(
    dsn: str, clock: FakeClock
) -> None:
    async with in_quarantine(dsn, clock) as it:
        waiting = asyncio.ensure_future(it.scheduler.wait_idle())
        for number, pause in ((2, 15.0), (3, 30.0)):
            await until_told(it, "DAG 'bad' is in quarantine")
            assert not waiting.done()
            await it.advance(pause + POLL)
            await it.until(lambda number=number: it.scheduler.metrics.quarantines == number, f"failure {number}")

        with pytest.raises(
            InQuarantine, match=r"'bad' is in quarantine .*3 times in a row.*dags release bad"
        ) as raised:
            async with asyncio.timeout(PATIENCE):
                await waiting
        assert (raised.value.dag_ids, raised.value.exit_code) == (("bad",), 1)


async def test_what_others_have_to_do_is_waited_for_first(dsn: str, clock: FakeClock) -> None:
    async with in_quarantine(dsn, clock) as it:
        await it.execute("UPDATE dag_quarantine SET failures = 3")
        await it.trigger("good", "r")
        waiting = asyncio.ensure_future(it.scheduler.wait_idle())
        await until_told(it, "attempts run")
        assert not waiting.done()

        await it.finish("a", "b", dag_id="good")

        with pytest.raises(InQuarantine):
            async with asyncio.timeout(PATIENCE):
                await waiting
        assert await it.runs("good") == {"r": "success"}


async def test_a_dag_that_fails_before_it_has_any_run_is_not_idle(dsn: str, clock: FakeClock) -> None:
    spec = dag("bad", task("a"), schedule=HOUR, start_date=NEW_YEAR, catchup=True)
    async with running(dsn, clock, spec) as it:
        with broken(due_runs, "next_scheduled_run"):
            await it.advance(3601.0)
            await it.until(lambda: it.scheduler.metrics.quarantines, "the quarantine")
            await it.settled()

            assert await it.runs("bad") == {}
            assert "DAG 'bad' is in quarantine" in (await it.scheduler.what_is_left() or "")


async def test_what_a_peer_leaves_alone_is_not_waited_for_as_work(dsn: str, clock: FakeClock) -> None:
    async with pair(dsn, clock) as (mine, other, make):
        spec = make(schedule=HOUR, start_date=NEW_YEAR - 2 * HOUR, catchup=False)
        async with other.session.locks.ownership:  # it makes no runs meanwhile
            await register(mine.db, spec)
            await until_told(mine, f"a run of {spec.dag_id} is due")

            await quarantine(mine.db, spec.dag_id, retry_at=NEW_YEAR + HOUR)

            await until_told(mine, f"DAG {spec.dag_id!r} is in quarantine")


# ---- figures ----


async def test_figures_count_the_dags_in_quarantine(dsn: str, clock: FakeClock) -> None:
    async with in_quarantine(dsn, clock) as it:
        figures = figures_of(it.session, it.scheduler.metrics, None)

        assert figures["dags_in_quarantine"] == 1
        assert figures["counters"]["quarantines"] == 1
        assert figures["counters"]["restarted_loops"] == 0
