"""Clearing with a move to the newest DAG version.

Source: the semantics reference, sections 28.3 (option) and 10.2, and decision 18.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import AssetRef, LiteralLength, MappingSpec, TaskSpec
from aiosched.core.values.messages import AssetTouch, Outcome
from aiosched.db.queries.asset_queries import events_of
from tests.scheduler.harness import NEW_YEAR, Running, chain, dag, running, task


async def two_versions(it: Running, *tasks: TaskSpec) -> None:
    """A finished run of the first version, and a second version of these tasks."""
    await it.trigger("d", "r")
    while it.executor.running or await it.runs("d") == {"r": "running"}:
        for attempt in list(it.executor.running.values()):
            it.executor.succeed(attempt, value=f"{attempt.task_id} of version 1")
        await it.settled()
    await it.register(dag("d", *tasks))


async def values(it: Running) -> dict[str, str]:
    rows = await it.fetch(
        """SELECT v.spec -> 'tasks' -> x.task_index ->> 'task_id' AS task_id, x.value
             FROM xcom AS x JOIN dag_run AS r ON r.id = x.run_id JOIN dag_version AS v ON v.id = r.version_id"""
    )
    return dict(sorted(map(tuple, rows)))


async def version(it: Running) -> int:
    (row,) = await it.fetch("SELECT v.number FROM dag_run AS r JOIN dag_version AS v ON v.id = r.version_id")
    return int(row["number"])


async def test_rows_tries_and_values_follow_their_tasks_to_new_places(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"), task("c"))) as it:
        await two_versions(it, task("c"), task("new", after="b"), task("b"), task("a"))  # nobody keeps its place
        await it.execute("UPDATE task_instance SET state = 'failed', try_number = 5 WHERE task_index = 1")  # b

        answer = await it.ask("clear", "d", run_ids=["r"], task_ids=["b"], newest_version=True)

        assert [(one["task_id"], one["state"]) for one in answer["instances"]] == [("b", "failed")]
        assert await it.states("r") == {"c": "success", "new": None, "b": "queued", "a": "success"}
        assert (await it.attempt("b")).run.version == 2
        assert await values(it) == {"a": '"a of version 1"', "c": '"c of version 1"'}
        history = await it.fetch("SELECT task_index, try_number, state FROM task_try")
        assert list(map(tuple, history)) == [(2, 5, "failed")]
        await it.assert_consistent()
        await it.finish("b", "new")
        assert await it.runs("d") == {"r": "success"}
        assert await version(it) == 2
        await it.assert_consistent()


async def test_tasks_that_are_gone_leave_the_run_with_their_history(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("old"), task("a", after="old"))) as it:
        await two_versions(it, task("a"))

        await it.ask("clear", "d", run_ids=["r"], newest_version=True)
        await it.finish("a")

        assert await it.states("r") == {"a": "success"}
        assert await it.fetch("SELECT task_index, try_number FROM task_try") == [(0, 1)]
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


async def test_asset_events_follow_their_tasks_and_outlive_those_that_are_gone(dsn: str, clock: FakeClock) -> None:
    made = {name: AssetRef(name=name, uri=name) for name in ("of_a", "of_b", "of_gone")}
    tasks = [task(name.removeprefix("of_"), outlets=(ref,)) for name, ref in made.items()]
    async with running(dsn, clock, dag("d", *tasks)) as it:
        await it.trigger("d", "r")
        for attempt in list(it.executor.running.values()):
            ref = made[f"of_{attempt.task_id}"]
            touch = AssetTouch(name=ref.name, uri=ref.uri)
            it.executor.report(attempt, Outcome.SUCCESS, assets=(touch,))
        await it.settled()
        await it.register(dag("d", task("new"), *reversed(tasks[:2])))

        await it.ask("clear", "d", run_ids=["r"], task_ids=["new"], newest_version=True)

        events = {event.name: event.task_id for event in await events_of(it.db, limit=9)}
        assert events == {"of_a": "a", "of_b": "b", "of_gone": None}
        await it.finish_all()


async def test_a_new_task_that_is_named_runs_in_a_run_of_an_older_version(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"))) as it:
        await two_versions(it, task("b", after="a"), task("a"))
        asked = {"run_ids": ["r"], "task_ids": ["b"], "newest_version": True}

        preview = await it.ask("clear", "d", **asked, dry_run=True)
        answer = await it.ask("clear", "d", **asked)

        assert preview == answer
        assert [(one["task_id"], one["state"]) for one in answer["instances"]] == [("b", None)]
        assert await it.states("r") == {"b": "queued", "a": "success"}
        await it.finish("b")
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


@pytest.mark.parametrize("tasks", [("a",), ("new", "a")], ids=["nothing is left to do", "a new task is left to do"])
async def test_a_run_goes_on_without_the_failed_task_that_is_gone(
    dsn: str, clock: FakeClock, tasks: tuple[str, ...]
) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("gone"))) as it:
        await it.trigger("d", "r")
        await it.finish("a")
        it.executor.fail(await it.attempt("gone"))
        await it.settled()
        await it.register(dag("d", *map(task, tasks)))
        assert await it.runs("d") == {"r": "failed"}

        preview = await it.ask("clear", "d", only_failed=True, newest_version=True, dry_run=True)
        answer = await it.ask("clear", "d", only_failed=True, newest_version=True)
        await it.finish_all()

        assert preview == answer
        assert [(one["task_id"], one["state"]) for one in answer["instances"]] == [("gone", "failed")]
        assert await it.states("r") == dict.fromkeys(tasks, "success")
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()


async def test_a_new_task_whose_dates_exclude_the_run_takes_no_part(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"))) as it:
        await it.trigger("d", "r", logical_date=NEW_YEAR)
        await it.finish("a")
        await it.register(dag("d", task("a"), task("later", start_date=NEW_YEAR + timedelta(days=1))))

        await it.ask("clear", "d", run_ids=["r"], newest_version=True)
        await it.finish("a")

        assert await it.states("r") == {"a": "success"}
        assert await it.runs("d") == {"r": "success"}


async def test_a_queued_run_is_moved_too(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), max_active_runs=1)) as it:
        await it.ask("pause", "d")
        await it.trigger("d", "r")
        await it.register(dag("d", task("b"), task("a")))

        await it.ask("clear", "d", run_ids=["r"], newest_version=True)
        await it.ask("unpause", "d")
        await it.finish("a", "b")

        assert await it.runs("d") == {"r": "success"}
        assert await version(it) == 2
        await it.assert_consistent()


async def test_a_running_run_of_the_newest_version_is_just_cleared(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, chain("d", 2)) as it:
        await it.trigger("d", "r")
        await it.finish("t0")

        await it.ask("clear", "d", run_ids=["r"], newest_version=True)
        await it.finish_all()

        assert await it.runs("d") == {"r": "success"}


async def test_a_dry_run_and_the_answer_show_what_a_run_has_and_what_it_gets(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"))) as it:
        await two_versions(it, task("b"), task("c"))

        preview = await it.ask("clear", "d", run_ids=["r"], newest_version=True, dry_run=True)

        assert await version(it) == 1
        assert [(one["task_id"], one["state"]) for one in preview["instances"]] == [
            ("a", "success"),
            ("b", "success"),
            ("c", None),
        ]
        assert await it.ask("clear", "d", run_ids=["r"], newest_version=True) == preview
        await it.finish_all()


async def test_a_task_that_is_mapped_now_begins_anew_with_an_instance_for_each_value(
    dsn: str, clock: FakeClock
) -> None:
    mapping = MappingSpec(inputs=(LiteralLength(3),))
    async with running(dsn, clock, dag("d", task("a"), task("b"))) as it:
        await two_versions(it, task("a", mapping=mapping), task("b"))

        await it.ask("clear", "d", run_ids=["r"], task_ids=["a"], newest_version=True)

        rows = await it.fetch("SELECT task_index, map_index, try_number FROM task_instance ORDER BY 1, 2")
        assert list(map(tuple, rows)) == [(0, 0, 1), (0, 1, 1), (0, 2, 1), (1, -1, 1)]
        await it.finish_all()
        assert await it.runs("d") == {"r": "success"}
        await it.assert_consistent()
