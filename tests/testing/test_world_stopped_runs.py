"""Work that a stop of its run left undone: every repair does it, and no run that goes on is green without it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.graph.spec import DagSpec, GroupSpec, LiteralLength, MappingSpec, TaskOutput
from aiosched.testing import World, succeeds
from tests.testing.world_builders import NEW_YEAR, dag, minutes, task

Deed = Callable[[World, str], object]
STOPS: dict[str, Deed | None] = {
    "fail_fast": None,
    "dagrun_timeout": None,
    "cancelled": lambda it, run: it.cancel("d", run),
    "marked failed": lambda it, run: it.mark_run("d", run, "failed"),
    "marked success": lambda it, run: it.mark_run("d", run, "success"),
}
REPAIRS: dict[str, Deed] = {
    "what failed": lambda it, run: it.clear("d", [run], only_failed=True),
    "what failed, of all runs": lambda it, run: it.clear("d", only_failed=True),
    "one task": lambda it, run: it.clear("d", [run], task_ids=["bad"]),
    "one task and what is behind it": lambda it, run: it.clear("d", [run], task_ids=["bad"], downstream=True),
    "queued by hand": lambda it, run: it.mark_run("d", run, "queued"),
}


async def stopped(it: World, stop: str) -> str:
    """The id of a run that was stopped before `work` began."""
    options: dict[str, object] = {"dagrun_timeout": 120.0} if stop == "dagrun_timeout" else {}
    it.add(dag("d", task("bad"), task("slow"), task("work", after="slow"), fail_fast=stop == "fail_fast", **options))
    it.script("d", "slow", takes=minutes(5))
    it.script("d", "bad", fails=1)
    run = it.trigger("d")
    await it.run_until(it.now + minutes(1.5))
    if (by_hand := STOPS[stop]) is not None:
        by_hand(it, run)
    await it.run_until_idle()
    assert (it.task("d", run, "work").state, it.task("d", run, "work").try_number) == ("skipped", 0)
    it.script("d", "slow", takes=minutes(0))
    return run


@pytest.mark.parametrize("repair", REPAIRS)
@pytest.mark.parametrize("stop", STOPS)
async def test_each_repair_does_what_a_stop_left_undone(stop: str, repair: str) -> None:
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        run = await stopped(it, stop)

        REPAIRS[repair](it, run)
        await it.run_until_idle()

        assert it.task("d", run, "work").try_number == 1
        assert it.task("d", run, "work").state == "success"


async def test_the_preview_names_what_was_left_undone() -> None:
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        run = await stopped(it, "fail_fast")

        preview = it.clear("d", [run], only_failed=True, dry_run=True)

        assert {each["task_id"] for each in preview} == {"bad", "slow", "work"}


async def test_a_run_that_was_cancelled_before_it_began_is_repaired_whole() -> None:
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        it.add(dag("d", task("a"), task("b"), max_active_runs=1))
        it.trigger("d")
        waits = it.trigger("d")
        await it.run_until(it.now + timedelta(seconds=30))
        it.cancel("d", waits)

        it.clear("d", [waits], task_ids=["a"])
        await it.run_until_idle()

        assert [it.task("d", waits, name).try_number for name in "ab"] == [1, 1]


async def test_a_skip_of_a_branch_or_of_a_person_is_not_cleared_with_failures() -> None:
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        it.add(dag("d", task("bad"), task("left"), task("marked", after="bad")))
        it.script("d", "bad", fails=1)
        run = it.trigger("d")
        await it.run_until_idle()
        it.mark_task("d", run, "left", "skipped")

        it.clear("d", [run], only_failed=True)
        await it.run_until_idle()

        assert (it.run("d", run).state, it.task("d", run, "left").state) == ("success", "skipped")


async def test_marking_what_failed_does_not_make_a_run_green_that_was_stopped() -> None:
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        run = await stopped(it, "fail_fast")

        it.mark_task("d", run, "bad", "success")
        await it.run_until_idle()
        before = it.run("d", run).state
        it.mark_task("d", run, "slow", "success")
        await it.run_until_idle()

        assert (before, it.run("d", run).state, it.task("d", run, "work").try_number) == ("failed", "success", 1)


@pytest.mark.parametrize("state", ["skipped", "failed", "success"])
async def test_a_person_decides_about_what_a_stop_left_undone(state: str) -> None:
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        it.add(dag("d", task("bad", priority_weight=2), task("waits"), fail_fast=True, max_active_tasks=1))
        it.script("d", "bad", fails=1)
        run = it.trigger("d")
        await it.run_until_idle()
        it.mark_task("d", run, "bad", "success")
        await it.run_until_idle()
        before, tries = it.run("d", run).state, it.task("d", run, "waits").try_number
        assert it.task("d", run, "waits").state == "skipped"

        marked = it.mark_task("d", run, "waits", state)
        await it.run_until_idle()
        it.clear("d", [run], task_ids=["bad"])
        await it.run_until_idle()

        assert before == "failed"
        assert len(marked) == 1
        assert it.run("d", run).state == ("failed" if state == "failed" else "success")
        assert (it.task("d", run, "waits").state, it.task("d", run, "waits").try_number) == (state, tries)


TEARDOWN = {"is_teardown": True, "trigger_rule": "all_done_setup_success"}


@pytest.mark.parametrize("repair", REPAIRS)
@pytest.mark.parametrize(
    ("stop", "begun"),
    [(stop, begun) for stop in STOPS for begun in (False, True) if begun or stop != "marked success"],
)
async def test_mapped_instances_and_work_with_a_teardown_are_done(stop: str, repair: str, begun: bool) -> None:
    """`begun`: the mapping has its instances, and the setup has run, when the run is stopped."""
    over_output = MappingSpec(inputs=(TaskOutput(task_id="list"),))
    options: dict[str, object] = {"dagrun_timeout": 240.0} if stop == "dagrun_timeout" else {}
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        it.add(
            dag(
                "d",
                task("bad"),
                task("list"),
                task("each", after="list", mapping=over_output),
                task("again", after="each", mapping=MappingSpec(inputs=(TaskOutput(task_id="each"),))),
                task("three", after="list", mapping=MappingSpec(inputs=(LiteralLength(length=3),))),
                task("set up", after="list", is_setup=True),
                task("work", after=("set up", "three")),
                task("tear down", after=("set up", "work"), **TEARDOWN),
                fail_fast=stop == "fail_fast",
                **options,
            )
        )
        it.script("d", "list", returns=[1, 2], takes=minutes(1 if begun else 5))
        it.script("d", "each", returns=1, takes=minutes(1 if begun else 5))
        it.script("d", "three", takes=minutes(5))
        it.script("d", "bad", fails=1, takes=minutes(3.5))
        run = it.trigger("d")
        await it.run_until(it.now + minutes(3.8))
        if (by_hand := STOPS[stop]) is not None:
            by_hand(it, run)
        await it.run_until_idle()
        assert it.task("d", run, "work").try_number == 0
        for name in ("list", "each", "three"):
            it.script("d", name, returns=[1, 2] if name == "list" else 1, takes=minutes(0))
        it.script("d", "bad", takes=minutes(0))

        REPAIRS[repair](it, run)
        await it.run_until_idle()

        states = it.states("d", run)
        failed = {"bad": "failed"} if repair == "queued by hand" else {}  # it does only what was left
        assert {name: state for name, state in states.items() if state != "success"} == failed
        assert it.run("d", run).state == ("failed" if failed else "success")
        assert sorted(name for name in states if isinstance(name, tuple)) == [
            *(("again", index) for index in range(2)),
            *(("each", index) for index in range(2)),
            *(("three", index) for index in range(3)),
        ]


async def test_a_teardown_follows_its_setup_when_what_is_before_them_is_marked() -> None:
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        tasks = (
            task("set up", after="first", is_setup=True),
            task("work", after=("set up",)),
            task("tear down", after=("set up", "work"), **TEARDOWN),
        )
        it.add(dag("d", task("bad"), task("first"), *tasks, fail_fast=True))
        it.script("d", "first", takes=minutes(5))
        it.script("d", "bad", fails=1)
        run = it.trigger("d")
        await it.run_until_idle()

        it.mark_task("d", run, "first", "success")
        await it.run_until_idle()

        assert [it.task("d", run, name).try_number for name in ("set up", "work", "tear down")] == [1, 1, 1]


OVER_LIST = MappingSpec(inputs=(TaskOutput(task_id="list"),))
MAPPED = (GroupSpec(group_id="m", mapping=OVER_LIST),)


@pytest.mark.parametrize("repair", [each for each in REPAIRS if each != "queued by hand"])
async def test_a_mapped_sibling_is_done_whose_own_setup_was_left_undone(repair: str) -> None:
    """`fail_fast` spares it, so it is a rule that skips it."""
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        inside = (
            task("set up", after=("list",), group_id="m", is_setup=True, weight_rule="absolute"),
            task("bad", after=("set up",), group_id="m", priority_weight=2, weight_rule="absolute"),
            task("tear down", after=("set up", "bad"), group_id="m", weight_rule="absolute", **TEARDOWN),
        )
        it.add(dag("d", task("list"), *inside, groups=MAPPED, fail_fast=True, max_active_tasks=1))
        it.script("d", "list", returns=[1, 2])
        it.script("d", "bad", fails=True)
        run = it.trigger("d")
        await it.run_until_idle()
        ends = {(it.task("d", run, "bad", each).state, it.task("d", run, "bad", each).try_number) for each in (0, 1)}
        it.script("d", "bad")

        REPAIRS[repair](it, run)
        await it.run_until_idle()

        assert ends == {("failed", 1), ("skipped", 0)}
        assert it.run("d", run).state == "success"
        assert set(it.states("d", run).values()) == {"success"}


async def test_a_mapped_sibling_is_done_whose_upstream_was_stopped_as_it_ran() -> None:
    """It is upstream failed, as if its upstream had failed by itself, and is cleared with any other task."""
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        inside = (task("slow", after=("list",), group_id="m"), task("bad", after=("slow",), group_id="m"))
        it.add(dag("d", task("list"), *inside, groups=MAPPED, fail_fast=True))
        it.script("d", "list", returns=[1, 2])
        it.script("d", "slow", lambda attempt: succeeds(takes=minutes(9 if attempt.key.map_index else 1)))
        it.script("d", "bad", fails=True)
        run = it.trigger("d")
        await it.run_until_idle()
        left = it.task("d", run, "bad", 1).state
        it.script("d", "bad")

        it.clear("d", [run], task_ids=["bad"], map_index=0)
        await it.run_until_idle()

        assert left == "upstream_failed"
        assert set(it.states("d", run).values()) == {"success"}


@pytest.mark.parametrize("state", ["failed", "skipped"])
async def test_what_a_mark_lets_go_on_is_left_undone_behind_what_is_still_undone(state: str) -> None:
    """A mark clears what is behind the task; a rule ends it again, since its setup, far above, is undone as before."""
    async with World(now=NEW_YEAR, takes=minutes(1)) as it:
        scope = (
            task("set up", after=("bad",), is_setup=True),
            task("between", after=("set up", "marked"), trigger_rule="all_done"),
            task("last", after=("between",)),
            task("tear down", after=("set up", "last"), **TEARDOWN),
        )
        it.add(dag("d", task("bad"), task("marked"), *scope, fail_fast=True))
        it.script("d", "bad", fails=1)
        it.script("d", "marked", takes=minutes(9))
        run = it.trigger("d")
        await it.run_until_idle()
        it.mark_task("d", run, "marked", state)
        await it.run_until_idle()
        ended, left = it.run("d", run).state, it.task("d", run, "last").state

        it.clear("d", [run], task_ids=["bad"])
        await it.run_until_idle()

        assert (ended, left) == ("failed", "skipped")
        assert {name: each for name, each in it.states("d", run).items() if each != "success"} == {"marked": state}


@st.composite
def _stopped_dags(draw: st.DrawFn) -> tuple[DagSpec, dict[str, dict[str, Any]]]:
    """A DAG without decisions of its own, and how its tasks end at first."""
    tasks, scripts, lists = [], {}, []
    for number in range(draw(st.integers(2, 6))):
        name, options = f"t{number}", dict[str, Any]()
        above = draw(st.sets(st.sampled_from([each.task_id for each in tasks]), max_size=2)) if tasks else set()
        match draw(st.sampled_from(["plain", "plain", "list", "mapped", "setup", "all_done"])):
            case "list":
                lists.append(name)
            case "mapped" if lists:
                above.add(over := draw(st.sampled_from(lists)))
                options["mapping"] = MappingSpec(inputs=(TaskOutput(task_id=over),))
            case "setup":
                options["is_setup"] = True
            case "all_done":
                options["trigger_rule"] = "all_done"
        tasks.append(task(name, after=above, priority_weight=draw(st.integers(1, 2)), **options))
    tasks += [task(f"end of {each.task_id}", after=(each.task_id,), **TEARDOWN) for each in tasks if each.is_setup]
    if lists:
        scope = (
            task("enter", after=(lists[0],), group_id="m", is_setup=True),
            task("inside", after=("enter",), group_id="m"),
            task("leave", after=("enter", "inside"), group_id="m", **TEARDOWN),
        )
        tasks += draw(st.sampled_from([(), scope, (task("alone", after=(lists[0],), group_id="m"),)]))
    failing = draw(st.sets(st.sampled_from([each.task_id for each in tasks]), min_size=1, max_size=2))
    for each in tasks:
        takes = minutes(draw(st.sampled_from([0, 1, 5])))
        scripts[each.task_id] = {"returns": [1, 2], "takes": takes, "fails": each.task_id in failing}
    groups = (GroupSpec(group_id="m", mapping=MappingSpec(inputs=(TaskOutput(task_id=lists[0]),))),) if lists else ()
    slots = draw(st.sampled_from([1, 2, 16]))
    return dag("d", *tasks, groups=groups, fail_fast=True, max_active_tasks=slots), scripts


@given(_stopped_dags(), st.sampled_from(["nothing", "one failed task", "queued by hand", "marked failed"]))
async def test_a_repaired_run_is_as_one_that_never_failed(
    story: tuple[DagSpec, dict[str, dict[str, Any]]], meanwhile: str
) -> None:
    spec, scripts = story
    found = []
    for fails in (False, True):
        async with World(now=NEW_YEAR) as it:
            it.add(spec)
            for name, words in scripts.items():
                it.script("d", name, **(words | ({} if fails else {"fails": False})))
            run = it.trigger("d")
            await it.run_until_idle()
            if fails and it.run("d", run).state == "failed":
                failed = [name for name, state in it.states("d", run).items() if state == "failed"]
                name = failed[0] if isinstance(failed[0], str) else failed[0][0]
                match meanwhile:
                    case "one failed task":
                        it.clear("d", [run], task_ids=[name])
                    case "queued by hand":
                        it.mark_run("d", run, "queued")
                    case "marked failed":
                        it.mark_task("d", run, spec.tasks[0].task_id, "failed")
                await it.run_until_idle()
                for name in scripts:
                    it.script("d", name, returns=[1, 2])
                it.clear("d", [run], only_failed=True)
                await it.run_until_idle()
                found.append((it.states("d", run), it.run("d", run).state))
            elif not fails:
                found.append((it.states("d", run), it.run("d", run).state))
    assert found[-1] == found[0]
