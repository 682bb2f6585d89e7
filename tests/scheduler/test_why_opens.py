"""Explanations are true: what waits has a closed gate, and opening that gate lets it start, or leads to the next gate.

Random DAGs and limits, a real scheduler and database. Each step asks `why` of a waiting instance, opens its first
closed gate and nothing else, and looks what came of it.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.values.messages import Deferral, Outcome
from aiosched.core.values.states import FINISHED, HOLDING_SLOT, TaskState
from aiosched.core.why.explanation import Explanation, Gate
from aiosched.db.people.pools import get_pool, set_pool
from aiosched.scheduler.loops.notifications import recheck_pools
from tests.conftest import NIGHTLY
from tests.scheduler.harness import Running, dag, running, task

SEEDS = range(200 if NIGHTLY else 6)
STAGES = (  # of the gates, in the order in which they are decided
    ("scheduler",),
    ("DAG is active",),
    ("max_active_runs",),
    ("previous run", "upstream", "retry delay", "reschedule", "trigger"),
    ("pool", "DAG limit", "run limit", "task limit"),
    ("executor", "parallelism"),
    ("worker",),
)


def random_dag(dice: random.Random) -> DagSpec:
    """Four tasks with random dependencies and limits."""
    tasks: list[TaskSpec] = []
    for number in range(4):
        before = [each.task_id for each in tasks if dice.random() < 0.4]
        options: dict[str, Any] = {"retries": 2, "retry_delay": 60.0, "pool": dice.choice(["small", "default_pool"])}
        if dice.random() < 0.3:
            options["depends_on_past"] = True
        if dice.random() < 0.3:
            options["max_active_tis_per_dag"] = 1
        if dice.random() < 0.2:
            options["max_active_tis_per_dagrun"] = 1
        tasks.append(task(f"t{number}", after=before, **options))
    limits = {"max_active_tasks": dice.choice([1, 2, 16]), "max_active_runs": dice.choice([1, 3])}
    if dice.random() < 0.3:
        limits["max_active_tasks_per_run"] = 1
    return dag("d", *tasks, **limits)


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("seed", SEEDS)
async def test_whoever_waits_is_told_what_to_open(seed: int, dsn: str, clock: FakeClock) -> None:
    dice = random.Random(seed)
    async with running(dsn, clock, random_dag(dice)) as it:
        await set_pool(it.db, "small", dice.choice([0, 1, 2]), requested_by="test")
        for hour in range(3):
            await it.trigger("d", f"r{hour}", logical_date=clock.now().replace(hour=hour))
        if dice.random() < 0.4:
            await it.ask("pause", "d")
        for _ in range(dice.randrange(12)):  # somewhere on the way
            await something_happens(it, dice)

        for run_id in ("r2", "r1", "r0"):
            for number in dice.sample(range(4), 4):
                await follow(it, run_id, f"t{number}")


async def something_happens(it: Running, dice: random.Random) -> None:
    """An attempt ends somehow, or a trigger fires."""
    attempts = sorted(it.executor.running.values(), key=lambda attempt: attempt.key)
    if not attempts:
        await it.advance(30)
        return
    attempt = dice.choice(attempts)
    roll = dice.random()
    if roll < 0.3:
        it.executor.report(attempt, Outcome.FAILED, reason="boom")
    elif roll < 0.5:
        wait = Deferral(classpath="triggers.Door", kwargs="{}", next_method="go_on")
        it.executor.report(attempt, Outcome.DEFERRED, deferral=wait)
    elif roll < 0.6:
        it.executor.report(attempt, Outcome.RESCHEDULED, reschedule_at=it.clock.now().replace(minute=59))
    else:
        it.executor.succeed(attempt)
    await it.settled()


async def follow(it: Running, run_id: str, task_id: str) -> None:
    """Open one gate after the other until the instance has a slot, or is over."""
    stages: list[int] = []
    for _ in range(60):
        said = await it.scheduler.why("d", run_id, task_id)
        state = TaskState(said.state)
        if state in FINISHED or state in HOLDING_SLOT:
            return
        closed = said.in_the_way()
        assert closed, f"{said.subject} waits, and nothing is in its way: {said}"
        stages.append(stage_of(closed[0]))
        await open_gate(it, closed[0], run_id, task_id)
        now = await it.scheduler.why("d", run_id, task_id)
        if same(now, said):
            raise AssertionError(f"opening {closed[0]} led to nothing: {now}")
    raise AssertionError(f"{task_id} of {run_id} never started; it met the stages {stages}")


def stage_of(gate: Gate) -> int:
    return next(number for number, names in enumerate(STAGES) if gate.name.startswith(names))


def same(one: Explanation, other: Explanation) -> bool:
    """Whether two explanations name the same first obstacle, held in the same way."""
    if one.state != other.state or not one.in_the_way() or not other.in_the_way():
        return False
    first, second = one.in_the_way()[0], other.in_the_way()[0]
    return (first.name, first.detail) == (second.name, second.detail) and [h.label for h in first.holders] == [
        h.label for h in second.holders
    ]


async def open_gate(it: Running, gate: Gate, run_id: str, task_id: str) -> None:
    """Do what the gate asks for, and nothing else."""
    if gate.name == "DAG is active":
        await it.ask("unpause", "d")
    elif gate.name.startswith("pool "):
        pool = await get_pool(it.db, "small")
        assert gate.name == f"pool {pool.name}"
        await set_pool(it.db, "small", int(gate.commands[0].split()[-1]), requested_by="test")
        recheck_pools(it.session)  # the news of it may still be under way
    elif gate.opens_at is not None:
        await it.advance((gate.opens_at - it.clock.now()).total_seconds() + 1)
    elif gate.name == "trigger":
        trigger = await it.trigger_of(task_id, run_id)
        it.executor.report(trigger, Outcome.TRIGGERED, event="null")
    elif gate.name == "previous run":
        before = f"r{int(run_id[1]) - 1}"
        await it.scheduler.mark_task("d", before, task_id, "success")
    elif gate.name == "max_active_runs":
        for holder in gate.holders:
            await it.scheduler.mark_run("d", holder.run_id, "success")
    else:  # whoever holds it, or is to deliver it, is done
        assert gate.holders, gate
        for holder in gate.holders:
            assert holder.task_id is not None
            await it.scheduler.mark_task("d", holder.run_id, holder.task_id, "success")
    await it.settled()


async def test_a_system_in_which_nothing_waits_says_so(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b", after="a"), task("other"))) as it:
        await it.trigger("d", "r")
        it.executor.start_running(await it.attempt("a"))
        await it.finish("other")  # with its end that start is stored, too
        await it.advance(5)
        runs, first = await it.scheduler.why("d", "r"), await it.scheduler.why("d", "r", "a")
        assert (first.state, first.summary, first.in_the_way()) == ("running", "running for 5.0 s", ())
        assert runs.summary == "running for 5.0 s, 1 of 3 task instances done"
        assert not runs.in_the_way()

        await it.finish("a", "b")

        ended = await it.scheduler.why("d", "r")
        assert (ended.state, ended.summary, ended.in_the_way()) == ("success", "succeeded in 5.0 s", ())
        assert (await it.scheduler.why("d", "latest", "b")).summary == "succeeded in 0 ms"


async def test_it_can_be_asked_while_a_scheduler_is_gone(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"))) as it:
        await it.trigger("d", "r")
    async with running(dsn, clock) as it:
        await it.scheduler.drain(0.0)
        said = await it.scheduler.why("d", "r", "a")

        assert said.subject == "d · r · a"
