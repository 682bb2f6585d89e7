"""Which triggers are handed out, and when: of boards that are held, once each, after their deferral is stored."""

from __future__ import annotations

from aiosched.clock import FakeClock
from aiosched.core.figures.metrics import Metrics
from aiosched.core.run.board import Board, Instance
from aiosched.core.values.states import TaskState
from aiosched.db.statements import inbox
from aiosched.scheduler.attempts.attempts import Attempts
from aiosched.scheduler.memory.trigger_queue import TriggerQueue
from tests.scheduler.harness import Running, dag, running, task


async def deferring(it: Running, *task_ids: str) -> list[tuple[Board, Instance]]:
    """Let tasks of run `r` defer; returns where they stand."""
    await it.trigger("d", "r")
    keys = []
    for task_id in task_ids:
        attempt = await it.attempt(task_id)
        keys.append(attempt.key)
        it.executor.defer(attempt)
        await it.settled()
    return [it.session.cache.get(key) for key in keys]


def free() -> Attempts:
    return Attempts(Metrics())


async def test_a_trigger_that_waited_for_a_place_when_its_partition_left_is_that_of_the_run_read_anew(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("d", task("a", priority_weight=9), task("b")), max_triggers=1) as it:
        await deferring(it, "a", "b")
        assert [trigger.task_id for trigger in it.executor.triggers.values()] == ["a"]
        await it.leave_and_come_back()
        await it.ask("mark_tasks", "d", run_ids=["r"], task_ids=["b"], state="success")

        it.executor.fire(await it.trigger_of("a"))
        await it.settled()

        assert not it.executor.triggers, "nobody waits for the other one"
        await it.finish("a")
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


async def test_a_trigger_that_waits_for_a_place_is_not_handed_out_when_the_lease_is_over(
    dsn: str, clock: FakeClock
) -> None:
    """Whatever is committed then; the next incarnation reads that somebody waits for it."""
    async with running(dsn, clock, dag("d", task("a", priority_weight=9), task("b")), max_triggers=1) as it:
        await deferring(it, "a", "b")
        over, handed_out_by = it.session, []
        it.executor.on_submit = lambda attempts: handed_out_by.extend(it.session for _ in attempts)
        over.env.holds_lease = lambda: False

        async with it.db.acquire() as conn:  # makes room for the other one, and queues nothing
            args = {"run_ids": ["r"], "task_ids": ["a"], "state": "success"}
            await inbox.send_request(conn, verb="mark_tasks", dag_id="d", args=args, requested_by="test")
        await it.until(lambda: it.session is not over and it.session.locks.ready.is_set(), "the next incarnation")
        await it.settled()

        assert handed_out_by
        assert over not in handed_out_by


async def test_a_board_that_is_not_held_gets_no_trigger(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"))) as it:
        (board, a), (_, b) = await deferring(it, "a", "b")
        queue = TriggerQueue()
        queue.add([(board, a), (board, b)])

        assert queue.take(free(), 10, lambda _: False) == []
        assert len(queue) == 0


async def test_a_trigger_that_waits_twice_is_handed_out_once(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"), task("c"))) as it:
        (board, a), (_, b) = await deferring(it, "a", "b")
        (running_one,) = [i for i in board if i.state is TaskState.QUEUED]
        queue = TriggerQueue()
        queue.add([(board, running_one), (board, a), (board, a), (board, b)])

        taken = queue.take(free(), 3, lambda _: True)

        assert [attempt.task_id for attempt in taken] == ["a", "b"]


async def test_a_deferral_that_is_not_stored_yet_waits_for_its_own_commit(dsn: str, clock: FakeClock) -> None:
    """The place in the line is of an earlier deferral of the same try, which is over."""
    async with running(dsn, clock, dag("d")) as it:
        ((board, a),) = await deferring(it, "a")
        queue = TriggerQueue()
        queue.add([(board, a)])
        a.stored_state = TaskState.RUNNING
        try:
            assert queue.take(free(), 1, lambda _: True) == []
        finally:
            a.stored_state = TaskState.DEFERRED
