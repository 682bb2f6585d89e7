"""Which task instances a run has. Source: the semantics reference, sections 10.1 and 10.2, and decision 18."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched.core.graph.spec import DagSpec, LiteralLength, MappingSpec, TaskOutput, TaskSpec
from aiosched.core.graph.trigger_rules import TriggerRule
from aiosched.core.timetables.interval import CronDataIntervalTimetable
from aiosched.errors import Refused
from aiosched.testing import World, never_ends, succeeds

START = datetime(2026, 1, 10, tzinfo=UTC)
TICK = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)


def task(task_id: str, *upstream: str, **fields: Any) -> TaskSpec:
    return TaskSpec(task_id=task_id, operator="X", upstream=upstream, **fields)


def over(length: int) -> MappingSpec:
    return MappingSpec(inputs=(LiteralLength(length),))


# -- 10.1 at creation -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "of_dag", "is_there"),
    [
        ({}, {}, True),
        ({"start_date": START}, {}, True),  # both edges are inclusive
        ({"start_date": START + timedelta(seconds=1)}, {}, False),
        ({"end_date": START}, {}, True),
        ({"end_date": START - TICK}, {}, False),
        ({}, {"start_date": START + timedelta(seconds=1)}, False),  # missing dates are the DAG's
        ({}, {"end_date": START - TICK}, False),
        ({"start_date": START}, {"start_date": START + timedelta(days=1)}, False),  # never earlier than the DAG's
        ({"end_date": START}, {"end_date": START - timedelta(days=1)}, False),  # never later
        ({"start_date": START}, {"start_date": START - timedelta(days=1)}, True),
    ],
)
@pytest.mark.parametrize("has_date", [True, False])
async def test_a_task_whose_dates_exclude_the_logical_date_has_no_instance(
    fields: dict[str, Any], of_dag: dict[str, Any], is_there: bool, has_date: bool
) -> None:
    """A run without a logical date has them all; so has a backfill: tests/core/test_run_creation.py."""
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", tasks=(task("a", **fields), task("always")), **of_dag))
        if has_date and of_dag and not is_there:  # nor has any other task
            with pytest.raises(Refused, match="No task of DAG 'd' can run with the logical date"):
                world.trigger("d", logical_date=START)
            return

        run = world.trigger("d", logical_date=START if has_date else None)

        assert set(world.states("d", run)) - {"always"} == ({"a"} if is_there or not has_date else set())


LATER = START + timedelta(days=1)
FIRST = "its first start_date is 2026-01-11 00:00:00 UTC"
LAST = "its last end_date is 2026-01-11 00:00:00 UTC"
DAILY = {"timetable": CronDataIntervalTimetable("@daily", "UTC")}


@pytest.mark.parametrize(
    ("fields", "of_dag", "why"),
    [
        ({}, {"start_date": LATER}, f"{FIRST}; choose a later date."),
        ({"start_date": LATER}, {}, f"{FIRST}; choose a later date."),
        ({}, {"end_date": START - MINUTE}, "its last end_date is 2026-01-09 23:59:00 UTC; choose another date."),
        (
            {"start_date": LATER},
            {"start_date": START - MINUTE, "end_date": LATER},
            f"its first start_date is 2026-01-09 23:59:00 UTC and {LAST}; choose another date.",
        ),
        (
            {},
            {"start_date": LATER, **DAILY},
            f"{FIRST}; choose a later date, or backfill this one: a backfill ignores these dates.",
        ),
        (
            {},
            {"start_date": LATER, "allowed_run_types": ("manual",), **DAILY},
            f"{FIRST}; choose a later date.",
        ),
    ],
)
async def test_a_run_that_would_have_no_task_is_refused(
    fields: dict[str, Any], of_dag: dict[str, Any], why: str
) -> None:
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", tasks=(task("a", **fields),), **of_dag))

        with pytest.raises(Refused) as refused:
            world.trigger("d", logical_date=START)

    assert str(refused.value) == f"No task of DAG 'd' can run with the logical date 2026-01-10 00:00:00 UTC: {why}"


async def test_a_dag_without_tasks_has_runs_at_any_date() -> None:
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", start_date=LATER))

        run = world.trigger("d", logical_date=START)

        assert world.states("d", run) == {}


@pytest.mark.parametrize("rule", [str(rule) for rule in TriggerRule if rule != "all_done_setup_success"])
async def test_nobody_waits_for_a_task_that_its_dates_keep_out_of_a_run(rule: str) -> None:
    """Ours: rules are about the upstreams that the run has. Airflow waits for ever, and calls that a deadlock."""
    later = {"start_date": START + MINUTE}
    skips = {"all_failed", "all_skipped", "one_failed"}
    async with World(now=START) as world:
        alone, with_another = task("b", "a", trigger_rule=rule), task("d", "a", "c", trigger_rule=rule)
        world.add(DagSpec(dag_id="d", tasks=(task("a", **later), alone, task("c"), with_another)))

        run = world.trigger("d", logical_date=START)
        await world.run_until_idle()

        ended = "skipped" if rule in skips else "success"
        assert world.states("d", run) == {"b": "success", "c": "success", "d": ended}
        assert world.run("d", run).state == "success"


async def test_what_is_mapped_over_a_task_that_its_dates_keep_out_cannot_run() -> None:
    mapped = task("m", "a", mapping=MappingSpec(inputs=(TaskOutput("a"),)))
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", tasks=(task("a", end_date=START - MINUTE), mapped)))

        run = world.trigger("d", logical_date=START)
        await world.run_until_idle()

        assert (world.states("d", run), world.run("d", run).state) == ({"m": "upstream_failed"}, "failed")


@pytest.mark.parametrize(
    ("mapping", "rows"),
    [
        (over(3), [("m", 0), ("m", 1), ("m", 2)]),
        (over(1), [("m", 0)]),
        (over(0), ["m"]),  # nothing to map over: one with map index -1
        (MappingSpec(inputs=(LiteralLength(2), LiteralLength(2))), [("m", n) for n in range(4)]),
        (MappingSpec(inputs=(TaskOutput("p"),)), ["m"]),  # not known yet: one with map index -1
        (MappingSpec(inputs=(LiteralLength(2), TaskOutput("p"))), ["m"]),
        (None, ["m"]),
    ],
    ids=str,
)
async def test_literal_input_is_expanded_at_once(mapping: MappingSpec | None, rows: list[Any]) -> None:
    async with World(now=START) as world:
        world.add(DagSpec(dag_id="d", tasks=(task("p"), task("m", "p", mapping=mapping))))

        run = world.trigger("d")

        assert [row for row in world.states("d", run) if row != "p"] == rows


# -- 10.2 when the DAG changes under a live run -------------------------------------------------------

OLD = (task("a"), task("gone", "a"), task("m", mapping=over(3)), task("n", mapping=over(2)))
NEW = (task("a"), task("fresh", "a"), task("m", mapping=over(1)), task("n", mapping=over(3)))


async def changed(world: World) -> str:
    """A run of OLD, whose task a runs, after NEW has become the newest version."""
    world.add(DagSpec(dag_id="d", tasks=OLD))
    world.script("d", "a", lambda attempt: never_ends())
    run = world.trigger("d")
    await world.run_for(MINUTE)
    world.add(DagSpec(dag_id="d", tasks=NEW))
    await world.run_for(MINUTE)
    return run


async def test_a_live_run_stays_as_it_was() -> None:
    async with World(now=START) as world:
        run = await changed(world)

        assert set(world.states("d", run)) == {
            "a",
            "gone",
            *(("m", n) for n in range(3)),
            *(("n", n) for n in range(2)),
        }

        await world.events("d", run, {"a": succeeds()})
        await world.run_until_idle()
        assert set(world.states("d", run).values()) == {"success"}


async def test_a_run_that_is_moved_to_the_newest_version_has_its_tasks_and_map_indexes() -> None:
    """By clearing it (28.3): tasks that are gone leave the run, those that are mapped otherwise begin anew."""
    async with World(now=START) as world:
        run = await changed(world)
        await world.events("d", run, {"a": succeeds()})
        await world.run_until_idle()
        world.script("d", "a", lambda attempt: succeeds())

        world.clear("d", [run], newest_version=True)
        await world.run_until_idle()

        assert world.states("d", run) == {
            "a": "success", "fresh": "success", ("m", 0): "success", **{("n", n): "success" for n in range(3)}
        }  # fmt: skip
