"""What a simulation counts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from aiosched.core.graph.spec import DagSpec, MappingSpec, TaskOutput
from aiosched.testing import Simulation, simulate
from aiosched.testing.simulation import limit_of
from tests.testing.world_builders import NEW_YEAR, at, dag, minutes, task

DAY = timedelta(days=1)


async def one_day(*specs: DagSpec, **options: object) -> Simulation:
    return await simulate(specs, NEW_YEAR, NEW_YEAR + DAY - timedelta(seconds=1), **options)  # type: ignore[arg-type]


def busy(dag_id: str, **options: object) -> DagSpec:
    """Every hour four tasks side by side in the pool `etl`."""
    tasks = [task(f"t{n}", pool="etl") for n in range(4)]
    return dag(dag_id, *tasks, schedule="@hourly", start_date=NEW_YEAR - DAY, **options)


async def test_runs_before_the_start_count_as_done() -> None:
    result = await one_day(busy("d", catchup=True))

    (figures,) = result.dags
    assert (figures.runs, figures.tasks) == (24, 96)
    assert (figures.first, figures.last) == (at(0), at(23))


async def test_nothing_waits_where_there_is_room() -> None:
    result = await one_day(busy("d"), pools={"etl": 4})

    assert (result.bottleneck, result.limits) == (None, {})
    etl = next(pool for pool in result.pools if pool.pool == "etl")
    assert (etl.peak, etl.tasks, etl.waiting) == (4, 96, 0.0)
    assert etl.busy == pytest.approx(1 / 60, rel=0.01)


async def test_a_narrow_pool_is_the_bottleneck() -> None:
    result = await one_day(busy("d"), pools={"etl": 1}, task_duration=minutes(5))

    etl = result.pools[0]
    assert result.bottleneck == "pool 'etl'"
    assert (etl.pool, etl.peak, etl.waiting, etl.longest_wait) == ("etl", 1, 24 * (5 + 10 + 15) * 60.0, 900.0)
    assert result.dags[0].held_up_by == "pool 'etl'"


async def test_a_limit_of_a_dag_can_be_the_bottleneck_too() -> None:
    slow = await one_day(busy("d", catchup=True, max_active_runs=1), task_duration=minutes(90))
    narrow = await one_day(busy("d", max_active_tasks=2), task_duration=minutes(5))
    single = await one_day(busy("d"), parallelism=1)

    assert slow.bottleneck == "DAG 'd' max_active_runs"
    assert slow.dags[0].late == 7.5 * 3600
    assert narrow.bottleneck == "DAG 'd' max_active_tasks"
    assert single.bottleneck == "parallelism"


async def test_durations_of_single_tasks_win() -> None:
    result = await one_day(
        dag("d", task("a"), schedule="@daily", start_date=NEW_YEAR - DAY),
        durations={("d", "a"): minutes(42)},
    )

    assert [(run.start, run.end) for run in result.runs] == [(NEW_YEAR, NEW_YEAR + minutes(42))]


async def test_a_task_that_is_mapped_over_an_output_counts_once() -> None:
    each = task("each", after="list", mapping=MappingSpec(inputs=(TaskOutput(task_id="list"),)))

    result = await one_day(dag("d", task("list"), each, schedule="@daily", start_date=NEW_YEAR - DAY))

    assert [(run.state, dag.tasks) for run, dag in zip(result.runs, result.dags, strict=True)] == [("success", 2)]


@pytest.mark.parametrize(
    ("reason", "limit"),
    [
        ("pool 'etl': needs 1 slot, 0 of 2 open", "pool 'etl'"),
        ("DAG 'd': 2 of 2 tasks active (max_active_tasks)", "DAG 'd' max_active_tasks"),
        ("task 'a': 1 of 1 instances active (max_active_tis_per_dag)", "task 'a' max_active_tis_per_dag"),
        ("parallelism: this scheduler runs 32 attempts, its maximum", "parallelism"),
        (None, "the order of the queue"),
    ],
)
def test_reasons_are_summed_up_by_limit(reason: str | None, limit: str) -> None:
    assert limit_of(reason) == limit
