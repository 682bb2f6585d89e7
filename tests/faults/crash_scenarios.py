"""What a scheduler was doing when it died: the scenarios of `test_crash_at_each_call`.

Each is a set of DAGs, a script of how attempts end, and what people do meanwhile. How it ends must
not depend on who dies when: scripts count an attempt's real tries (lost ones apart), and what
people do is asked for once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from aiosched.core.assets.conditions import AssetRequired
from aiosched.core.graph.spec import AssetRef, DagSpec, DeadlineSpec, MappingSpec, TaskOutput
from aiosched.core.values.ids import PARTITIONS
from aiosched.core.values.messages import AssetTouch, Attempt, Outcome, SkipDecision
from tests.faults.mortal_services import MortalExecutor, Script, World, at, real_try, waiting
from tests.scheduler.harness import NEW_YEAR, chain, dag, dag_in, task

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True)
class Scenario:
    """`again` are tasks that people let run again; `limits` are pool slots by name.

    `part` is how many task instances of a run are stored in one transaction.
    """

    specs: tuple[DagSpec, ...]
    act: Callable[[World], Awaitable[None]]
    script: Script
    again: frozenset[str] = frozenset()
    limits: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    peers: int = 0
    heirs: int = 1
    part: int = 1_000


# -- how attempts end -------------------------------------------------------------------------


def succeed(executor: MortalExecutor, attempt: Attempt) -> None:
    executor.start_running(attempt)
    executor.succeed(attempt, value=attempt.task_id)


def bumpy(executor: MortalExecutor, attempt: Attempt) -> None:
    """The first real try of `retried` fails, `sensor` asks to be called again until the tenth second."""
    executor.start_running(attempt)
    if attempt.task_id == "retried" and real_try(attempt, 1) == 1:
        executor.fail(attempt)
    elif attempt.task_id == "sensor" and executor.clock.now() < NEW_YEAR + timedelta(seconds=10):
        executor.reschedule(attempt, executor.clock.now() + timedelta(seconds=3))
    else:
        executor.succeed(attempt)


def branch_left(executor: MortalExecutor, attempt: Attempt) -> None:
    if attempt.task_id == "branch":
        executor.succeed(attempt, value="left", skip=SkipDecision(followed=("left",)))
    elif attempt.task_id == "tired":
        executor.skip(attempt)
    else:
        executor.succeed(attempt)


def return_three(executor: MortalExecutor, attempt: Attempt) -> None:
    executor.succeed(attempt, value=[1, 2, 3] if attempt.task_id == "list" else 1)


def take_time(executor: MortalExecutor, attempt: Attempt) -> None:
    """Attempts run for some turns of the loop, so that others meet them in their pool."""
    executor.start_running(attempt)

    def go_on(turns: int) -> None:
        if not executor.alive or attempt.key not in executor.running:
            return
        if turns:
            executor._loop.call_soon(go_on, turns - 1)
        else:
            executor.succeed(attempt)

    go_on(20)


def hold(executor: MortalExecutor, attempt: Attempt) -> None:
    """`held` runs until somebody ends it."""
    if attempt.task_id != "held":
        executor.succeed(attempt)


def touch(executor: MortalExecutor, attempt: Attempt) -> None:
    touches = (AssetTouch(name="a", uri="a", extra='{"n":1}'), AssetTouch(name="a", uri="a", extra='{"n":2}'))
    executor.report(attempt, Outcome.SUCCESS, assets=touches if attempt.task_id == "make" else ())


def defer_once(executor: MortalExecutor, attempt: Attempt) -> None:
    if attempt.task_id == "waits" and attempt.resume is None:
        executor.report(attempt, Outcome.DEFERRED, deferral=waiting())
    else:
        executor.succeed(attempt)


def die_silently(executor: MortalExecutor, attempt: Attempt) -> None:
    """`dies` takes its worker down: nobody but the scheduler can call its callbacks."""
    if attempt.task_id == "dies":
        executor.report(attempt, Outcome.FAILED, reason="gone", unattended=True)
    else:
        executor.succeed(attempt)


def for_a_minute(executor: MortalExecutor, attempt: Attempt) -> None:
    end = attempt.run.run_after + timedelta(seconds=60)  # a busy machine may have taken long to begin
    if executor.clock.now() < end:
        executor.reschedule(attempt, end)
    else:
        executor.succeed(attempt)


def first_run_only(executor: MortalExecutor, attempt: Attempt) -> None:
    if attempt.run.logical_date == NEW_YEAR - HOUR:
        executor.succeed(attempt)
    else:
        executor.reschedule(attempt, NEW_YEAR + DAY)


# -- what people do ---------------------------------------------------------------------------


async def wait_for_runs(it: World, **expected: str) -> None:
    await it.runs_are(**expected)


async def trigger_twice(it: World) -> None:
    await it.ask("trigger", "d", wait=False, run_id="one", conf={"n": 1})
    await it.ask("trigger", "d", wait=False, run_id="one")  # refused
    await it.ask("trigger", "d", wait=False, run_id="later", run_after=at(5))
    await it.ask("trigger", "nowhere")
    await it.runs_are(d="success success")


async def trigger_once(dag_id: str, it: World) -> None:
    await it.ask("trigger", dag_id, run_id="r")
    await it.runs_are(**{dag_id: "success"})


async def clear_a_finished_run(it: World) -> None:
    await it.ask("trigger", "d", run_id="r")
    await it.runs_are(d="success")
    await it.ask("clear", "d", run_ids=["r"], task_ids=["t1"], downstream=True)
    await it.runs_are(d="success")


async def mark_what_runs(it: World) -> None:
    await it.ask("trigger", "d", run_id="one")
    await it.ask("trigger", "d", run_id="two")
    await it.tick()
    await it.ask("mark_tasks", "d", run_ids=["one"], task_ids=["held"], state="success")
    await it.ask("mark_run", "d", run_id="two", state="failed")
    await it.runs_are(d="success failed")


async def backfill_three_days(it: World) -> None:
    await it.ask("backfill_create", "d", **{"from": at(-4 * 86400), "to": at(-2 * 86400)}, max_active_runs=1)

    async def completed() -> bool:
        return bool(await it.fetch("SELECT 1 FROM backfill WHERE completed_at IS NOT NULL"))

    await it.until(completed)


async def make_events(it: World) -> None:
    await it.ask("trigger", "maker", run_id="once")
    await it.runs_are(maker="success", reader="success")
    await it.ask("emit_asset", None, partition=0, name="a", extra={"by": "hand"})
    await it.runs_are(maker="success", reader="success success")


async def have_callbacks(it: World) -> None:
    await it.ask("trigger", "d", run_id="r")
    await it.runs_are(d="failed")
    await no_callback_waits(it)


async def no_callback_waits(it: World) -> None:
    async def delivered() -> bool:
        return not await it.fetch("SELECT 1 FROM callback_outbox")

    await it.until(delivered)


async def miss_a_deadline(it: World) -> None:
    await it.ask("trigger", "d", run_id="late")
    await it.runs_are(d="success")
    await no_callback_waits(it)


async def miss_an_sla(it: World) -> None:
    await it.runs_are(d="success")
    await it.tick(3600)
    await it.runs_are(d="success running")
    await it.tick(600)  # an hour and ten minutes have passed

    async def recorded() -> bool:
        return bool(await it.fetch("SELECT 1 FROM sla_miss"))

    await it.until(recorded)
    await no_callback_waits(it)
    await it.runs_are(d="success running")  # whoever died at the very end has an heir, too


async def pause_at_once(it: World) -> None:
    await it.ask("trigger", "d", wait=False, run_id="r")
    await it.ask("pause", "d")
    await it.tick(3600)
    await it.tick()
    await it.ask("unpause", "d")
    await it.runs_are(d="success success")


async def grow_old(it: World) -> None:
    await it.ask("trigger", "d", run_id="old", logical_date=at(0))
    await it.runs_are(d="success")
    await it.tick(3 * 86400)
    await it.ask("trigger", "d", run_id="new", logical_date=at(86400))

    async def cleaned() -> bool:
        return [tuple(row) for row in await it.fetch("SELECT run_id, state FROM dag_run")] == [("new", "success")]

    await it.until(cleaned)


async def trigger_everywhere(it: World) -> None:
    for spec in FLEET:
        await it.ask("trigger", spec.dag_id, wait=False, run_id="r")
    await it.runs_are(**{spec.dag_id: "success" for spec in FLEET})


async def move_partitions(it: World) -> None:
    """A second service comes when the first one has all of them; both have some in the end, or the heir has all."""
    await it.tick()
    await it.opened(it.add_service())

    async def shared() -> bool:
        owners = await it.fetch(
            "SELECT count(*) FROM partition_lease WHERE incarnation IS NOT NULL GROUP BY incarnation"
        )
        return sorted(row[0] for row in owners) in ([PARTITIONS // 2] * 2, [PARTITIONS])

    await it.until(shared)
    await trigger_everywhere(it)


FLEET = tuple(chain(dag_in(partition), 2) for partition in range(0, PARTITIONS, 16))

SCENARIOS: dict[str, Scenario] = {
    "cron runs are created": Scenario(
        (chain("d", 1, schedule=HOUR, start_date=NEW_YEAR - 3 * HOUR, catchup=True, max_active_runs=2),),
        partial(wait_for_runs, d="success success success"),
        succeed,
    ),
    "runs are triggered": Scenario((chain("d", 1),), trigger_twice, succeed),
    "a chain runs": Scenario(
        (chain("d", 3, schedule="@once", start_date=NEW_YEAR),), partial(wait_for_runs, d="success"), succeed
    ),
    "a task is retried, another rescheduled": Scenario(
        (dag("d", task("retried", retries=1, retry_delay=1.0), task("sensor"), schedule="@once", start_date=NEW_YEAR),),
        partial(wait_for_runs, d="success"),
        bumpy,
    ),
    "branches are skipped": Scenario(
        (
            dag(
                "d",
                task("branch", can_skip_downstream=True),
                task("left", after="branch"),
                task("right", after="branch"),
                task("tired", after="left"),
                task("after", after="tired"),
                task("join", after=("left", "right"), trigger_rule="none_failed_min_one_success"),
                schedule="@once",
                start_date=NEW_YEAR,
            ),
        ),
        partial(wait_for_runs, d="success"),
        branch_left,
    ),
    "a task is mapped": Scenario(
        (
            dag(
                "d",
                task("list"),
                task("each", after="list", mapping=MappingSpec(inputs=(TaskOutput("list"),))),
                task("sum", after="each"),
                schedule="@once",
                start_date=NEW_YEAR,
            ),
        ),
        partial(wait_for_runs, d="success"),
        return_three,
    ),
    "tasks compete for a pool": Scenario(
        (
            dag(
                "d",
                *(task(f"t{n}", pool="small") for n in range(4)),
                task("big", pool="small", pool_slots=2),
                schedule="@once",
                start_date=NEW_YEAR,
            ),
        ),
        partial(wait_for_runs, d="success"),
        take_time,
        limits={"small": 2},
    ),
    "a finished run is cleared": Scenario(
        (chain("d", 3),), clear_a_finished_run, succeed, again=frozenset({"t1", "t2"})
    ),
    "running tasks are marked": Scenario((dag("d", task("held"), task("after", after="held")),), mark_what_runs, hold),
    "a backfill runs": Scenario(
        (chain("d", 1, schedule=DAY, start_date=NEW_YEAR - 9 * DAY, catchup=False, is_paused_upon_creation=False),),
        backfill_three_days,
        succeed,
    ),
    "a large run is stored in parts": Scenario(
        (dag("d", *(task(f"t{n}") for n in range(8))),), partial(trigger_once, "d"), succeed, part=3
    ),
    "a large scheduled run is stored in parts": Scenario(
        (chain("d", 5, schedule="@once", start_date=NEW_YEAR),), partial(wait_for_runs, d="success"), succeed, part=2
    ),
    "the runs of a backfill are stored in parts": Scenario(
        (chain("d", 3, schedule=DAY, start_date=NEW_YEAR - 9 * DAY, catchup=False, is_paused_upon_creation=False),),
        backfill_three_days,
        succeed,
        part=1,
    ),
    "assets make runs": Scenario(
        (
            dag("maker", task("make", outlets=(AssetRef(name="a"),))),
            dag("reader", task("read"), schedule=AssetRequired("a")),
        ),
        make_events,
        touch,
    ),
    "a task defers": Scenario(
        (dag("d", task("waits"), task("then", after="waits"), schedule="@once", start_date=NEW_YEAR),),
        partial(wait_for_runs, d="success"),
        defer_once,
    ),
    "callbacks are delivered": Scenario(
        (dag("d", task("dies", has_failure_callback=True), task("ends"), has_failure_callback=True),),
        have_callbacks,
        die_silently,
    ),
    "a deadline is missed": Scenario(
        (dag("d", task("slow"), deadlines=(DeadlineSpec(reference="queued_at", interval=20.0),)),),
        miss_a_deadline,
        for_a_minute,
    ),
    "an SLA is missed": Scenario(
        (
            dag(
                "d",
                task("a", sla=600.0),
                tells_missed_slas=True,
                schedule=HOUR,
                start_date=NEW_YEAR - HOUR,
                catchup=True,
                max_active_runs=1,
            ),
        ),
        miss_an_sla,
        first_run_only,
    ),
    "a DAG is paused while runs start": Scenario(
        (chain("d", 1, schedule=HOUR, start_date=NEW_YEAR, catchup=True),), pause_at_once, succeed
    ),
    "old runs are removed": Scenario((chain("d", 2),), grow_old, succeed, settings={"retention_days": 1.0}),
    "a second scheduler takes over": Scenario(FLEET, trigger_everywhere, take_time, peers=1, heirs=0),
    "partitions move": Scenario(FLEET, move_partitions, succeed, heirs=0),
}
