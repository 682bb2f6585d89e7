"""What holds in every world, whatever its DAGs do and however often its scheduler dies.

The world itself compares memory with rows and counts every limit after each commit
(`aiosched.testing.checks`). Source: the semantics reference, section 35: 1, 2 and 3 (pools, limits
of tasks and runs), 6 and 7 (who is queued, tries), 8, 10 and 12 (every run ends as it should). With
AIOSCHED_NIGHTLY=1 each property tries 20,000 examples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.graph.spec import DagSpec, TaskSpec
from aiosched.core.graph.trigger_rules import TriggerRule
from aiosched.core.run.board import MAX_LOSSES
from aiosched.core.values.states import RUN_FINISHED
from aiosched.testing import World
from tests.testing.world_builders import NEW_YEAR, dag, happen, minutes, task

ANY_RULE = sorted(set(TriggerRule) - {TriggerRule.ALL_DONE_SETUP_SUCCESS})
CALM_RULES = ["all_success", "all_success", "all_done", "none_failed", "always"]
GENTLE = ("restart", "lost before", "lost after")
END = NEW_YEAR + timedelta(hours=7)


@dataclass(frozen=True)
class Story:
    """DAGs, how their tasks end, and what happens at which pass."""

    dags: tuple[DagSpec, ...]
    scripts: Mapping[tuple[str, str], Mapping[str, Any]]
    pools: Mapping[str, int]
    parallelism: int
    accidents: Mapping[int, str] = field(default_factory=dict)


@st.composite
def stories(draw: st.DrawFn, *, calm: bool) -> Story:
    """`calm`: neither final states nor the dates of runs can depend on when or in which order things end."""
    dags, scripts = [], {}
    for number in range(draw(st.integers(1, 2))):
        spec = draw(random_dags(f"d{number}", calm=calm))
        dags.append(spec)
        for one in spec.tasks:
            scripts[spec.dag_id, one.task_id] = draw(endings(spec, one, calm=calm))
    pools = {"etl": draw(st.integers(1, 3)), "narrow": 1}
    return Story(tuple(dags), scripts, pools, draw(st.sampled_from([1, 2, 5, 100])))


@st.composite
def random_dags(draw: st.DrawFn, dag_id: str, *, calm: bool) -> DagSpec:
    tasks = []
    for number in range(draw(st.integers(1, 4))):
        above = draw(st.sets(st.integers(0, number - 1), max_size=2)) if number else set()
        tasks.append(
            task(
                f"t{number}",
                after=[f"t{up}" for up in above],
                trigger_rule=draw(st.sampled_from(CALM_RULES if calm else ANY_RULE)),
                retries=draw(st.integers(0, 2)),
                retry_delay=draw(st.sampled_from([0.0, 60.0, 300.0])),
                pool=draw(st.sampled_from(["default_pool", "etl", "narrow"])),
                priority_weight=draw(st.integers(1, 3)),
                is_async=draw(st.booleans()),
                is_empty=draw(st.integers(0, 9)) == 9,
                max_active_tis_per_dag=draw(st.sampled_from([None, None, 1])),
            )
        )
    schedule = draw(st.sampled_from([None, timedelta(hours=6), timedelta(hours=12)]))
    catchup = draw(st.booleans())
    return dag(
        dag_id,
        *tasks,
        schedule=schedule,
        start_date=NEW_YEAR - timedelta(hours=draw(st.sampled_from([0, 12]))),
        end_date=END - timedelta(hours=1) - schedule if calm and schedule else None,  # all dates are due before END
        catchup=catchup,
        max_active_runs=draw(st.integers(1, 3)) if catchup or not calm else 16,
        max_active_tasks=draw(st.sampled_from([1, 2, 16])),
        fail_fast=not calm and draw(st.integers(0, 4)) == 4,
        dagrun_timeout=None if calm else draw(st.sampled_from([None, None, 600.0])),
    )


@st.composite
def endings(draw: st.DrawFn, spec: DagSpec, one: TaskSpec, *, calm: bool) -> dict[str, Any]:
    words: dict[str, Any] = {
        "fails": draw(st.sampled_from([0, 0, 1, 2, True])),
        "takes": draw(st.sampled_from([timedelta(), minutes(1), minutes(1), minutes(7)])),
    }
    below = [other.task_id for other in spec.tasks if one.task_id in other.upstream]
    if not calm and below and draw(st.booleans()):
        words["branch"] = tuple(draw(st.sets(st.sampled_from(below))))
    if not calm and draw(st.integers(0, 5)) == 5:
        words["skips"] = True
    if draw(st.integers(0, 5)) == 5:
        words["defers"] = minutes(draw(st.integers(0, 9)))
    if draw(st.integers(0, 5)) == 5:
        words |= {"waits": minutes(draw(st.integers(0, 9))), "every": minutes(2)}
    return words


def accidents(*kinds: str, most: int = 6) -> st.SearchStrategy[dict[int, str]]:
    return st.dictionaries(st.integers(0, 80), st.sampled_from(kinds), min_size=1, max_size=most)


async def play(story: Story, *, seed: int = 0, schedulers: int = 1) -> World:
    """Let everything happen: two triggered runs of each DAG, and what the schedules make until END."""
    world = World(now=NEW_YEAR, seed=seed, parallelism=story.parallelism, schedulers=schedulers)
    for name, slots in story.pools.items():
        world.pool(name, slots=slots)
    world.add(*story.dags)
    for (dag_id, task_id), words in story.scripts.items():
        world.script(dag_id, task_id, **words)
    for spec in story.dags:
        for _ in range(2):
            world.trigger(spec.dag_id)
    passes = 0
    while world.now < END and await world.step():
        await happen(world, story.accidents.get(passes), story.dags[0].dag_id)
        passes += 1
    for spec in story.dags:
        end = spec.end_date or NEW_YEAR - timedelta(days=9)
        world.add(msgspec.structs.replace(spec, end_date=end), paused=False)
    for name in story.pools:
        world.pool(name, slots=2)
    await world.run_until_idle()
    return world


def outcome(world: World) -> dict[str, Any]:
    """What must not depend on accidents: the runs, their states and those of their tasks, and spent tries."""
    rows = world.rows
    runs = {(run.dag_id, run.run_id): (run.state, run.reason) for run in rows.runs.values()}
    tasks = {(dag_id, run_id): world.states(dag_id, run_id) for dag_id, run_id in runs}
    names = {run.key: (run.dag_id, run.run_id) for run in rows.runs.values()}
    failed = Counter((names[run], task, index) for run, task, index in rows.failures.elements())
    return {"runs": runs, "tasks": tasks, "failed tries": failed}


def only_legal(world: World) -> None:
    """Rules that can be read from the log alone."""
    tries: dict[tuple[Any, ...], int] = {}
    for _, what, dag_id, run_id, task_id, index, number in world.log:
        if task_id is not None:
            before = tries.get(place := (dag_id, run_id, task_id, index), 0)
            assert before <= number <= before + 1, f"{place}: try {number} after {before}"
            tries[place] = number
        assert what != "run created" or task_id is None
    for run in world.rows.runs.values():
        assert run.state in RUN_FINISHED, f"{run} does not end: {world.waiting()}"
    assert all(pool is None or pool.used == 0 for pool in world.rows.pools.values())


@given(stories(calm=False))
async def test_every_run_ends_and_no_limit_is_exceeded(story: Story) -> None:
    only_legal(await play(story))


@given(stories(calm=False), accidents("pause", "unpause", "shrink", "grow", "cancel runs", "crash", *GENTLE, most=12))
async def test_whatever_happens_every_run_ends(story: Story, happens: dict[int, str]) -> None:
    only_legal(await play(with_accidents(story, happens)))


@given(stories(calm=True), accidents(*GENTLE, most=12))
async def test_a_memory_that_is_read_back_from_rows_goes_on_as_if_nothing_had_happened(
    story: Story, happens: dict[int, str]
) -> None:
    undisturbed = await play(story)

    disturbed = await play(with_accidents(story, happens))

    only_legal(disturbed)
    assert outcome(disturbed) == outcome(undisturbed)


@given(stories(calm=True), accidents("crash", most=MAX_LOSSES - 1))
async def test_attempts_that_die_with_their_scheduler_change_no_result(story: Story, happens: dict[int, str]) -> None:
    undisturbed = await play(story)

    disturbed = await play(with_accidents(story, happens))

    only_legal(disturbed)
    assert outcome(disturbed) == outcome(undisturbed)


@given(stories(calm=True), st.integers(1, 9))
async def test_final_states_do_not_depend_on_the_seed(story: Story, seed: int) -> None:
    one, other = await play(story), await play(story, seed=seed)

    assert outcome(one) == outcome(other)


@given(stories(calm=True), st.integers(2, 3), accidents("crash", *GENTLE, most=2))
async def test_how_many_schedulers_there_are_and_whether_one_dies_changes_no_result(
    story: Story, schedulers: int, happens: dict[int, str]
) -> None:
    alone = await play(story)

    together = await play(with_accidents(story, happens), schedulers=schedulers)

    only_legal(together)
    assert outcome(together) == outcome(alone)


@given(stories(calm=False), st.integers(2, 3), accidents("shrink", "grow", "cancel runs", "crash", *GENTLE, most=8))
async def test_whatever_happens_to_several_schedulers_every_run_ends(
    story: Story, schedulers: int, happens: dict[int, str]
) -> None:
    only_legal(await play(with_accidents(story, happens), schedulers=schedulers))


def with_accidents(story: Story, happens: Mapping[int, str]) -> Story:
    return Story(story.dags, story.scripts, story.pools, story.parallelism, happens)
