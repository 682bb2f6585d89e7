"""Clearing follows `ExternalTaskMarker`s into other DAGs: the semantics reference, section 28.6."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import MARKED, DagSpec, ExternalMark
from aiosched.core.values.messages import Outcome, XComValue
from aiosched.errors import Refused
from aiosched.testing import World, fails
from tests.db.waiting import until_true
from tests.scheduler.harness import NEW_YEAR, Running, dag, running, task

NOTE = {"dag_id": "child", "task_id": "wait", "logical_date": NEW_YEAR.isoformat()}


def parent(mark: ExternalMark) -> DagSpec:
    """load -> marker"""
    return dag("parent", task("load"), task("marker", after="load", marks=mark))


def child(*, mark: ExternalMark | None = None) -> DagSpec:
    """before -> wait -> report (-> marker), and another task"""
    tasks = [task("before"), task("wait", after="before"), task("report", after="wait"), task("other")]
    if mark is not None:
        tasks.append(task("marker", after="report", marks=mark))
    return dag("child", *tasks)


async def ended(it: Running, *dag_ids: str) -> None:
    for dag_id in dag_ids:
        await it.trigger(dag_id, f"r_{dag_id}", logical_date=NEW_YEAR)
        await it.finish_all()


async def cleared(it: Running, dag_id: str) -> set[str]:
    """The tasks of a DAG's run that are to run again."""
    await it.settled()
    return {name for name, state in (await it.states(f"r_{dag_id}")).items() if state != "success"}


@pytest.mark.parametrize("held", [False, True], ids=["the run is over", "the run is running"])
async def test_what_is_behind_a_marker_is_cleared_in_the_other_dag(dsn: str, clock: FakeClock, held: bool) -> None:
    first = parent(ExternalMark(dag_id="child", task_id="wait"))
    if held:
        first = dag("parent", *first.tasks, task("slow"))
    async with running(dsn, clock, first, child()) as it:
        await ended(it, "child")
        await it.trigger("parent", "r_parent", logical_date=NEW_YEAR)
        await it.finish("load", "marker")

        answer = await it.ask("clear", "parent", run_ids=["r_parent"], task_ids=["load"], downstream=True)
        await it.until(lambda: it.executor.find("wait"), "the other DAG to run again")

        assert {(one["dag_id"], one["task_id"]) for one in answer["dependents"]} == {
            ("child", "wait"),
            ("child", "report"),
        }
        assert await cleared(it, "child") == {"wait", "report"}
        asked = await it.fetch("SELECT dag_id, requested_by, reason FROM request ORDER BY id DESC LIMIT 1")
        number = await it.fetch("SELECT id FROM request WHERE dag_id = 'parent' AND verb = 'clear'")
        assert tuple(asked[0]) == ("child", f"request {number[0][0]}", "follows parent.marker")
        await it.assert_consistent()


@pytest.mark.parametrize(
    "options",
    [{"task_ids": ["load"]}, {"downstream": True, "dependents": False}],
    ids=["marker not selected", "without"],
)
async def test_without_the_marker_or_without_dependents_other_dags_stay(
    dsn: str, clock: FakeClock, options: dict[str, object]
) -> None:
    async with running(dsn, clock, parent(ExternalMark(dag_id="child", task_id="wait")), child()) as it:
        await ended(it, "child", "parent")

        answer = await it.ask("clear", "parent", **({"run_ids": ["r_parent"]} | options))

        assert "dependents" not in answer
        assert await cleared(it, "child") == set()


async def test_a_run_in_which_there_is_nothing_to_clear_hides_no_other_run() -> None:
    world = World(now=NEW_YEAR)
    world.add(parent(ExternalMark(dag_id="child", task_id="wait")))
    world.add(child())
    world.script("parent", "load", fails=1)
    world.script("child", "wait", lambda attempt: fails() if attempt.run.run_id != "1" else None)
    for day in range(3):
        for dag_id in ("child", "parent"):
            world.trigger(dag_id, run_id=str(day), logical_date=NEW_YEAR - timedelta(days=day))
    await world.run_until_idle()
    world.script("child", "wait")

    world.clear("parent", only_failed=True)
    await world.run_until_idle()

    assert {(dag_id, run.run_id): run.state for dag_id in ("child", "parent") for run in world.runs(dag_id)} == {
        (dag_id, str(day)): "success" for dag_id in ("child", "parent") for day in range(3)
    }


async def test_a_preview_shows_what_a_marker_leads_to_and_changes_nothing(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, parent(ExternalMark(dag_id="child", task_id="wait")), child()) as it:
        await ended(it, "child", "parent")

        answer = await it.ask("clear", "parent", run_ids=["r_parent"], dry_run=True)

        assert [one["task_id"] for one in answer["dependents"]] == ["wait", "report"]
        assert await cleared(it, "child") == set()


async def test_a_marker_with_templates_leads_to_what_it_has_stored(dsn: str, clock: FakeClock) -> None:
    mark = ExternalMark(is_noted=True)
    async with running(dsn, clock, parent(mark), child()) as it:
        await ended(it, "child")
        await it.trigger("parent", "r_parent", logical_date=NEW_YEAR)
        await it.finish("load")
        unknown = await it.ask("clear", "parent", run_ids=["r_parent"], task_ids=["marker"], dry_run=True)
        note = XComValue(MARKED, msgspec.json.encode(NOTE).decode())
        it.executor.report(await it.attempt("marker"), Outcome.SUCCESS, xcoms=(note,))
        await it.settled()

        answer = await it.ask("clear", "parent", run_ids=["r_parent"], task_ids=["marker"])

        assert "dependents" not in unknown
        assert [one["task_id"] for one in answer["dependents"]] == ["wait", "report"]


async def test_another_date_means_another_run(dsn: str, clock: FakeClock) -> None:
    later = NEW_YEAR.replace(day=2)
    mark = ExternalMark(dag_id="child", task_id="wait", logical_date=later)
    async with running(dsn, clock, parent(mark), child()) as it:
        await ended(it, "child", "parent")
        await it.trigger("child", "later", logical_date=later)
        await it.finish_all()

        answer = await it.ask("clear", "parent", run_ids=["r_parent"])

        assert {one["run_id"] for one in answer["dependents"]} == {"later"}
        assert await cleared(it, "child") == set()


async def test_a_chain_longer_than_its_first_marker_allows_is_refused_as_a_whole(dsn: str, clock: FakeClock) -> None:
    first = parent(ExternalMark(dag_id="child", task_id="wait", recursion_depth=1))
    second = child(mark=ExternalMark(dag_id="third", task_id="a"))
    async with running(dsn, clock, first, second, dag("third")) as it:
        await ended(it, "third", "child", "parent")

        with pytest.raises(Refused, match=r"it would reach child\.marker through 1 other DAGs.*recursion_depth"):
            await it.ask("clear", "parent", run_ids=["r_parent"])

        assert [await cleared(it, one) for one in ("parent", "child", "third")] == [set(), set(), set()]


async def test_a_circle_of_markers_ends_where_it_began(dsn: str, clock: FakeClock) -> None:
    first = parent(ExternalMark(dag_id="child", task_id="wait"))
    second = child(mark=ExternalMark(dag_id="parent", task_id="load"))
    async with running(dsn, clock, first, second) as it:
        await ended(it, "child", "parent")

        answer = await it.ask("clear", "parent", run_ids=["r_parent"], task_ids=["marker"])

        assert {(one["dag_id"], one["task_id"]) for one in answer["dependents"]} == {
            ("child", "wait"),
            ("child", "report"),
            ("child", "marker"),
            ("parent", "load"),
        }


async def test_with_prevent_running_what_runs_behind_a_marker_refuses_the_request(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, parent(ExternalMark(dag_id="child", task_id="wait")), child()) as it:
        await ended(it, "parent")
        await it.trigger("child", "r_child", logical_date=NEW_YEAR)
        await it.finish("before", "other")
        it.executor.start_running(await it.attempt("wait"))
        await it.settled()
        async with it.scheduler.db.acquire() as conn:  # a start is stored within a moment
            await until_true(conn, "SELECT count(*) = 1 FROM task_instance WHERE state = 'running'")

        with pytest.raises(Refused, match=r"child\.wait of run 'r_child'"):
            await it.ask("clear", "parent", run_ids=["r_parent"], prevent_running=True)
