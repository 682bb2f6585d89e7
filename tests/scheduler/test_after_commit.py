"""Each effect of a commit by itself, on a scheduler that has one run with one running task."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.run.board import Board, Instance
from aiosched.core.values.ids import partition_of
from aiosched.core.values.messages import AttemptKey, Outcome, Report
from aiosched.core.values.states import RunState, TaskState
from aiosched.db.statements.deadlines import DeadlineRow
from aiosched.db.statements.inbox import RequestResult
from aiosched.db.statements.journal import RunChange
from aiosched.db.statements.outbox import WaitingCallback
from aiosched.errors import FencedOut
from aiosched.scheduler.effects import after_commit
from aiosched.scheduler.memory.cache import StateCache
from aiosched.scheduler.memory.changes import Changes, Committed, MessageChanges, RunChanges, SideEffects
from aiosched.scheduler.session.session import Background, Session
from tests.scheduler.harness import NEW_YEAR, Running, dag, running, task

NOWHERE = 1_000  # a partition that nobody owns


class RecordedBackground(Background):
    """Notes what is to run beside the loops, and runs nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        work.close()
        self.names.append(name)


class RecordedTracing:
    def __init__(self) -> None:
        self.batches: list[Changes] = []

    def trace(self, batch: Changes, cache: StateCache) -> None:
        self.batches.append(batch)


@pytest.fixture
async def it(dsn: str, clock: FakeClock) -> AsyncIterator[Running]:
    async with running(dsn, clock, dag("d", task("a"))) as it:
        await it.trigger("d", run_id="r")
        it.session.background = RecordedBackground()
        yield it
        it.session.background = Background()


def held(session: Session) -> tuple[Board, Instance]:
    """The board of the run, and its task instance."""
    (board,) = session.cache.boards.values()
    (instance,) = board
    return board, instance


def followed_by(**effects: Any) -> Committed:
    """Changes that are committed, with these effects still to be had."""
    return Committed(Changes(effects=SideEffects(**effects)))


def spawned(session: Session) -> list[str]:
    assert isinstance(session.background, RecordedBackground)
    return session.background.names


def test_the_list_is_what_the_module_defines_in_its_order() -> None:
    functions = [one for one in vars(after_commit).values() if getattr(one, "__module__", "") == after_commit.__name__]
    public = [one for one in functions if one.__name__[0] != "_" and one is not after_commit.after_commit]

    assert public == [*after_commit.EFFECTS]


async def test_all_effects_are_called_in_their_order(it: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []
    effects = tuple(lambda *_, number=number: called.append(number) for number in range(3))
    monkeypatch.setattr(after_commit, "EFFECTS", effects)

    after_commit.after_commit(it.session, Committed(Changes()))

    assert called == [0, 1, 2]


async def test_a_batch_that_is_committed_is_not_being_stored_any_more(it: Running) -> None:
    session, batch = it.session, Changes()
    session.cache.unstored.storing = batch
    session.locks.progress.clear()

    after_commit.forget_storing(session, Committed(Changes()))
    assert session.cache.unstored.storing is batch, "another one was committed"
    after_commit.forget_storing(session, Committed(batch))

    assert session.cache.unstored.storing is None
    assert session.locks.progress.is_set()


async def test_browsers_are_told_of_changed_runs_while_somebody_looks(it: Running) -> None:
    session = it.session
    change = RunChange(7, RunState.RUNNING, RunState.SUCCESS, None, None, None, None, 0)

    after_commit.publish_runs(session, Committed(Changes(runs=RunChanges(changed=[change]))))
    assert not session.changed_runs.changed
    session.changed_runs.wanted()
    after_commit.publish_runs(session, Committed(Changes(runs=RunChanges(changed=[change]))))

    assert session.changed_runs.changed == {7}


async def test_traces_are_made_where_they_are_configured(it: Running) -> None:
    session, batch = it.session, Changes()
    session.tracing = None
    after_commit.trace(session, Committed(batch))

    session.tracing = tracing = RecordedTracing()
    after_commit.trace(session, Committed(batch))

    assert [*map(id, tracing.batches)] == [id(batch)]


async def test_nothing_is_handed_out_without_the_lease(it: Running) -> None:
    session = it.session
    session.env.holds_lease = lambda: False

    after_commit.check_lease(session, Committed(Changes()))
    for committed in (followed_by(claimed=[held(session)]), followed_by(triggers=[held(session)])):
        with pytest.raises(FencedOut, match="lease"):
            after_commit.check_lease(session, committed)


async def test_claims_are_handed_to_the_executor(it: Running) -> None:
    session = it.session
    board, instance = held(session)
    key = board.key(instance)
    submitted, in_flight = len(it.executor.submitted), session.env.attempts.in_flight
    in_flight.clear()
    it.executor.running.clear()

    instance.state = TaskState.FAILED
    after_commit.hand_out_claims(session, followed_by(claimed=[(board, instance)]))
    assert (len(it.executor.submitted), list(in_flight)) == (submitted, []), "it was failed by hand meanwhile"
    instance.state = TaskState.QUEUED
    after_commit.hand_out_claims(session, followed_by(claimed=[(board, instance)]))

    assert (it.executor.submitted[-1].key, list(in_flight)) == (key, [key])


async def test_cancelled_attempts_are_stopped_here_and_elsewhere(it: Running) -> None:
    session = it.session
    board, instance = held(session)
    key, other = board.key(instance), AttemptKey(999, 0, -1, 1)

    after_commit.stop_cancelled(session, followed_by(cancelled=[key, other]))
    assert spawned(session) == [f"cancel {tuple(key)}"], "the other one does not run here"
    session.cache.elsewhere.add(17)
    after_commit.stop_cancelled(session, followed_by(cancelled=[other]))

    assert spawned(session)[1:] == ["notification of attempts"]


async def test_triggers_wait_while_the_scheduler_drains(it: Running) -> None:
    session = it.session
    session.membership.draining = True
    after_commit.hand_out_triggers(session, followed_by(triggers=[held(session)]))
    assert len(session.triggers) == 1

    session.membership.draining = False
    after_commit.hand_out_triggers(session, Committed(Changes()))

    assert len(session.triggers) == 0
    assert not it.executor.without_slot, "the task waits for no trigger"


async def test_requested_callbacks_wait_for_their_delivery(it: Running) -> None:
    session = it.session
    session.membership.draining = True  # so that they wait

    after_commit.deliver_callbacks(
        session,
        Committed(Changes(), outbox={5: WaitingCallback(partition_of("d"), "d"), 6: WaitingCallback(NOWHERE, "e")}),
    )

    assert session.outbox.waiting.by_dag == {"d": {5: partition_of("d")}}, (
        "whoever owns the other partition delivers the other one"
    )
    assert session.wakeups.callbacks.is_set


async def test_deadlines_of_cleared_runs_are_watched(it: Running) -> None:
    session, at = it.session, NEW_YEAR + timedelta(days=1)

    after_commit.watch_moved_deadlines(
        session, Committed(Changes(runs=RunChanges(deadlines=[DeadlineRow(1, 0, 3, at)])))
    )

    assert session.outbox.deadlines.earliest == at + timedelta(microseconds=1)


async def test_dags_that_failed_too_often_are_paused_in_memory(it: Running, caplog: pytest.LogCaptureFixture) -> None:
    after_commit.pause_failing_dags(it.session, Committed(Changes(runs=RunChanges(failing={"d": 3})), paused=["d"]))

    assert it.session.cache.dags["d"].row.is_paused
    assert "paused: its newest 3 runs failed" in caplog.text


async def test_outcomes_are_counted(it: Running) -> None:
    session = it.session
    before = session.env.metrics.finished[Outcome.FAILED]
    report = Report(key=AttemptKey(1, 0, -1, 1), outcome=Outcome.FAILED, at=NEW_YEAR)

    after_commit.count_outcomes(session, followed_by(reports=[report, report]))

    assert session.env.metrics.finished[Outcome.FAILED] == before + 2


async def test_answers_are_announced(it: Running) -> None:
    after_commit.announce(it.session, Committed(Changes()))
    after_commit.announce(
        it.session, Committed(Changes(messages=MessageChanges(answers=[(3, RequestResult("applied", {}))])))
    )

    assert spawned(it.session) == ["notification of answers"]


async def test_schedulers_are_notified_of_slots_that_were_left_to_them(it: Running) -> None:
    after_commit.notify_pool_winners(it.session, Committed(Changes()))
    after_commit.notify_pool_winners(it.session, followed_by(slots_left_to={8}))

    assert spawned(it.session) == ["notification of slots"]


async def test_conditions_on_assets_are_checked_by_the_owners(it: Running) -> None:
    session = it.session

    after_commit.check_asset_conditions(session, Committed(Changes(), consumers={3}))
    assert (session.cache.work.assets, spawned(session)) == ({3}, [])
    after_commit.check_asset_conditions(session, Committed(Changes(), consumers={NOWHERE}))

    assert (session.cache.work.assets, spawned(session)) == ({3}, ["notification of assets"])
    assert session.wakeups.creation.is_set


async def test_a_pass_is_one_line_of_the_log(it: Running, caplog: pytest.LogCaptureFixture) -> None:
    board, instance = held(it.session)
    with caplog.at_level(logging.DEBUG, after_commit.__name__):
        after_commit.log_pass(it.session, Committed(Changes()))
        after_commit.log_pass(it.session, followed_by(claimed=[(board, instance)], started=[board]))

    (record,) = caplog.records
    assert record.getMessage() == "1 runs started, 1 tasks queued"
    assert (record.dag_id, record.run_id) == ("d", "r")  # type: ignore[attr-defined]


async def test_the_listener_is_called_for_runs_that_start(it: Running, caplog: pytest.LogCaptureFixture) -> None:
    session, (board, _) = it.session, held(it.session)
    it.events.clear()

    after_commit.publish_starts(session, followed_by(started=[board]))
    assert [(event.kind, event.run_id) for event in it.events] == [("run_started", "r")]

    def fails(event: object) -> None:
        raise RuntimeError("the listener is broken")

    session.env.observers.listener = fails
    after_commit.publish_starts(session, followed_by(started=[board]))
    assert "the listener failed on run_started" in caplog.text


async def test_runs_that_have_ended_leave_the_memory(it: Running) -> None:
    session = it.session
    async with session.env.journal.quiet():  # the end of the run is decided, and not committed
        it.executor.succeed(await it.attempt("a"))
        await it.until(lambda: session.cache.unstored.pending.effects.finished, "the end of the run")
        (board,) = session.cache.unstored.pending.effects.finished
        with it.scheduler.notified_of_end(board.run.key) as ended:
            after_commit.release_finished_runs(session, followed_by(finished=[board]))

            assert ended.is_set()
            assert not session.cache.dags["d"].runs.ending
            assert it.events[-1].kind == "run_finished"
            assert session.wakeups.creation.is_set
        await asyncio.sleep(0)
