"""DAGs that use everything that a world has, and what people do with them; each in two copies of equal shape."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from aiosched import Asset
from aiosched.core.graph.spec import (
    AssetRef,
    DagSpec,
    DeadlineSpec,
    GroupSpec,
    LiteralLength,
    MappingSpec,
    ParamSpec,
    TaskOutput,
)
from aiosched.core.timetables import (
    AssetOrTimeSchedule,
    CronTriggerTimetable,
    CustomTimetable,
    DeltaTriggerTimetable,
    EventsTimetable,
    MultipleCronTriggerTimetable,
)
from aiosched.core.timetables.custom import ListedRun
from aiosched.core.values.messages import Deferral
from aiosched.testing import World
from tests.testing.world_builders import NEW_YEAR, dag, minutes, task

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
FIRST: Final = NEW_YEAR - 2 * HOUR
WAIT: Final = Deferral(classpath="x.Wait", kwargs="{}", next_method="go_on", timeout=864_000.0)
LISTED: Final = tuple(ListedRun(FIRST + n * HOUR, FIRST + (n + 1) * HOUR, FIRST + (n + 1) * HOUR) for n in range(3))

Deed = Callable[[World, str], Any]


@dataclasses.dataclass(frozen=True)
class Shape:
    """A kind of DAG: `make` one with an id, the scripts of its tasks, and what people do with it one after the other.

    Each deed begins when all runs of the DAG have ended.
    """

    name: str
    make: Callable[[str], DagSpec]
    scripts: dict[str, dict[str, Any]]
    deeds: Sequence[Deed] = ()

    def add(self, world: World, copy: str) -> str:
        """Add a copy to a world; returns its id."""
        dag_id = f"{self.name}_{copy}"
        world.pool(f"narrow_{dag_id}", slots=1)
        world.pool(f"keeping_{dag_id}", slots=2, include_deferred=True)
        world.add(self.make(dag_id))
        for task_id, words in self.scripts.items():
            world.script(dag_id, task_id, **words)
        return dag_id


def etl(dag_id: str) -> DagSpec:
    """Retries, limits, pools, a group, branches, setup and teardown, deferral, callbacks and deadlines."""
    narrow, keeping = f"narrow_{dag_id}", f"keeping_{dag_id}"
    return dag(
        dag_id,
        task("begin", is_empty=True),
        task("set", after="begin", is_setup=True, retries=1, retry_delay=60.0),
        task("a", after="set", retries=2, retry_delay=60.0, retry_exponential_backoff=2.0, max_retry_delay=90.0,
             pool=narrow, has_retry_callback=True, has_success_callback=True),
        task("b", after="set", pool=narrow, priority_weight=3, weight_rule="upstream", group_id="g"),
        task("c", after="set", pool=narrow, pool_slots=1, max_active_tis_per_dag=1, weight_rule="absolute"),
        task("choose", after="a b", can_skip_downstream=True),
        task("left", after="choose", has_skipped_callback=True, wait_for_past_depends_before_skipping=True,
             depends_on_past=True),
        task("right", after="choose", outlets=(AssetRef(name=f"made_{dag_id}", uri=f"made_{dag_id}"),)),
        task("join", after="left right c", trigger_rule="none_failed_min_one_success"),
        task("waits", after="join", pool=keeping, is_async=True, priority_weight=9, max_active_tis_per_dagrun=1),
        task("begins", after="join", starts_deferred=WAIT, priority_weight=8),
        task("polls", after="join", pool=keeping, priority_weight=7, execution_timeout=864_000.0),
        task("fails", after="join", retries=1, priority_weight=3, retry_delay=30.0, has_failure_callback=True),
        task("after", after="fails", trigger_rule="one_failed"),
        task("late", after="after waits begins polls", trigger_rule="all_done", start_date=FIRST),
        task("clean", after="late set", is_teardown=True, trigger_rule="all_done_setup_success"),
        schedule=HOUR,
        start_date=FIRST,
        end_date=FIRST + HOUR,
        catchup=True,
        max_active_runs=1,
        max_active_tasks=3,
        max_active_tasks_per_run=2,
        dagrun_timeout=8_640_000.0,
        max_consecutive_failed_dag_runs=50,
        has_success_callback=True,
        has_failure_callback=True,
        params={"size": ParamSpec(value=3, json_schema={"type": "integer", "minimum": 1})},
        deadlines=(
            DeadlineSpec(reference="queued_at", interval=60.0),
            DeadlineSpec(reference="average_runtime", interval=60.0, max_runs=5),
            DeadlineSpec(reference="logical_date", interval=60.0),
            DeadlineSpec(reference="fixed", interval=60.0, at=NEW_YEAR),
        ),
        groups=(GroupSpec(group_id="g"),),
    )  # fmt: skip


def grown(dag_id: str) -> DagSpec:
    """A later version of `etl`."""
    spec = etl(dag_id)
    tasks = (*spec.tasks, task("new", after="late", max_active_tis_per_dag=1))
    return msgspec.structs.replace(spec, tasks=tasks, max_active_tasks=4, end_date=FIRST + 2 * HOUR)


def backfill(world: World, dag_id: str) -> None:
    world.backfill(dag_id, FIRST - 3 * HOUR, FIRST + HOUR, rerun="failed", max_active_runs=1)


def backfill_backwards(world: World, dag_id: str) -> None:
    world.backfill(dag_id, FIRST - 3 * HOUR, FIRST, rerun="all", backwards=True, conf={"size": 2})


def clear_failed(world: World, dag_id: str) -> None:
    world.clear(dag_id, only_failed=True)


def clear_rows(world: World, dag_id: str) -> None:
    world.clear(dag_id, task_ids=["choose"], downstream=True, only_failed=False)


def clear_dates(world: World, dag_id: str) -> None:
    run = world.runs(dag_id)[0]
    world.clear(dag_id, [run.run_id], pattern="wai", upstream=True, future=True)


def move(world: World, dag_id: str) -> None:
    world.clear(dag_id, [world.runs(dag_id)[0].run_id], newest_version=True)


def mark(world: World, dag_id: str) -> None:
    run = world.runs(dag_id)[-1]
    world.mark_task(dag_id, run.run_id, "fails", "success", downstream=True, past=True)
    world.mark_run(dag_id, run.run_id, "failed")


def requeue(world: World, dag_id: str) -> None:
    world.mark_run(dag_id, world.runs(dag_id)[0].run_id, "queued")


def trigger(world: World, dag_id: str) -> None:
    world.trigger(dag_id, run_id="m")


def pause(world: World, dag_id: str) -> None:
    world.pause(dag_id)


def trigger_and_unpause(world: World, dag_id: str) -> None:
    world.trigger(dag_id, run_id="manual", conf={"size": 5}, unpause=True)


def cancel(world: World, dag_id: str) -> None:
    """A run that waits for its instant is cancelled."""
    if "cancelled" not in [run.run_id for run in world.runs(dag_id)]:
        world.trigger(dag_id, run_id="cancelled", run_after=world.now + 40 * DAY)
    world.cancel(dag_id, "cancelled")


def emit(world: World, dag_id: str) -> None:
    world.emit(f"news_{dag_id}", extra={"rows": 3})


def looks_back(dag_id: str) -> DagSpec:
    """Tasks that depend on the previous run, mapped tasks and a mapped group."""
    over = MappingSpec(inputs=(TaskOutput(task_id="list"),))
    fixed = MappingSpec(inputs=(LiteralLength(length=2),))
    return dag(
        dag_id,
        task("list"),
        task("each", after="list", mapping=over, max_active_tis_per_dagrun=1, retries=1, retry_delay=60.0),
        task("two", after="each", group_id="m", trigger_rule="one_success"),
        task("three", after="two", group_id="m", mapping=fixed),
        task("sum", after="three", depends_on_past=True, wait_for_downstream=True),
        task("none", after="sum", trigger_rule="none_skipped"),
        task("stops", after="sum", trigger_rule="all_failed"),
        task("always", after="stops", trigger_rule="always", end_date=NEW_YEAR - 9 * DAY),
        groups=(GroupSpec(group_id="m", mapping=over),),
        schedule=DeltaTriggerTimetable(HOUR),
        start_date=FIRST,
        end_date=FIRST + 2 * HOUR,
        catchup=True,
        max_active_runs=2,
    )


def by_assets(dag_id: str) -> DagSpec:
    news, made = Asset(f"news_{dag_id}"), Asset(f"made_{dag_id}")
    return dag(
        dag_id,
        task("a", outlets=(AssetRef(name="x" + dag_id, uri="x" + dag_id),)),
        task("b", after="a", retries=1, on_failure_fail_dagrun=True),
        task("c", after="b"),
        schedule=AssetOrTimeSchedule(CronTriggerTimetable("0 */8 * * *", "UTC", interval=HOUR), news | made),
        start_date=FIRST,
        end_date=NEW_YEAR,
        catchup=True,
        fail_fast=True,
    )


def simple(schedule: object, **options: Any) -> Callable[[str], DagSpec]:
    def make(dag_id: str) -> DagSpec:
        times = {"start_date": FIRST, "end_date": NEW_YEAR + 3 * HOUR, "catchup": True} | options
        return dag(dag_id, task("a", retries=1), task("b", after="a"), schedule=schedule, **times)

    return make


SHORT: Final = {"a": {"fails": 1, "takes": minutes(3)}}
SHAPES: Final = (
    Shape(
        "etl",
        etl,
        {
            "a": {"fails": 1, "takes": minutes(2)},
            "choose": {"branch": "right"},
            "waits": {"defers": minutes(7)},
            "begins": {"defers": minutes(3)},
            "polls": {"waits": minutes(9), "every": minutes(4)},
            "fails": {"fails": True},
            "right": {"returns": 7},
        },
        (
            backfill,
            clear_rows,
            clear_dates,
            lambda world, dag_id: world.add(grown(dag_id)),
            move,
            mark,
            requeue,
            pause,
            trigger_and_unpause,
            cancel,
        ),
    ),
    Shape("past", looks_back, {"list": {"returns": [1, 2]}, "each": {"takes": minutes(2)}}, (backfill, clear_failed)),
    Shape("assets", by_assets, {"b": {"fails": 1}}, (emit,)),
    Shape("delta", simple(timedelta(hours=3)), SHORT, (backfill_backwards,)),
    Shape("cron", simple("30 */2 * * *"), SHORT),
    Shape("crons", simple(MultipleCronTriggerTimetable(["0 */3 * * *", "30 1 * * *"], "Europe/Berlin")), SHORT),
    Shape("listed", simple(EventsTimetable([NEW_YEAR + n * HOUR for n in (-1, 1, 2)])), SHORT),
    Shape("custom", simple(CustomTimetable("Listed", runs=LISTED)), SHORT, (trigger,)),
    Shape("once", simple("@once"), SHORT),
)  # fmt: skip
