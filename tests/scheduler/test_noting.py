"""Notes on runs and task instances: the request `set_note`. docs/architecture.md, "Who writes what"."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import LiteralLength, MappingSpec, TaskOutput
from aiosched.core.values.messages import Outcome, XComValue
from aiosched.db.queries.queries import find_run, list_run_tasks
from aiosched.errors import NotFound, Refused
from tests.scheduler.harness import Running, dag, running, task


async def notes(it: Running, run_id: str = "r") -> dict[str, str | None]:
    """The note of a run (empty name) and those of its task instances."""
    run = await find_run(it.db, "d", run_id)
    tasks = await list_run_tasks(it.db, run)
    return {"": run.note} | {one.name: one.note for one in tasks if one.note is not None}


async def test_a_note_takes_the_place_of_the_one_before_and_an_empty_one_removes_it(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")

        assert await it.ask("set_note", "d", run_id="r", note=" rerun for legal ") == {
            "run_id": "r",
            "task_id": None,
            "map_index": None,
            "note": "rerun for legal",
        }
        assert await notes(it) == {"": "rerun for legal"}
        await it.scheduler.set_note("d", "r", "once more")
        assert await notes(it) == {"": "once more"}
        await it.scheduler.set_note("d", "r", "  ")
        assert await notes(it) == {"": None}


async def test_task_instances_have_notes_of_their_own(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"))) as it:
        await it.trigger("d", "r")
        for task_id in ("a", "b"):
            await it.scheduler.set_note("d", "r", f"of {task_id}", task_id=task_id)
        await it.scheduler.set_note("d", "r", "of the run")
        await it.scheduler.set_note("d", "r", "", task_id="b")

        assert await notes(it) == {"": "of the run", "a": "of a"}


async def test_notes_outlive_the_end_of_the_run_and_a_clear(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        await it.scheduler.set_note("d", "r", "a", task_id="a")
        await it.finish("a")
        await it.scheduler.set_note("d", "r", "b")
        await it.ask("clear", "d", run_ids=["r"])
        await it.finish("a")

        assert await notes(it) == {"": "b", "a": "a"}
        await it.assert_consistent()


async def test_notes_follow_their_tasks_to_the_newest_version(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("gone"))) as it:
        await it.trigger("d", "r")
        await it.finish("a", "gone")
        for task_id in ("a", "gone"):
            await it.scheduler.set_note("d", "r", task_id, task_id=task_id)
        await it.register(dag("d", task("first"), task("a")))
        await it.ask("clear", "d", run_ids=["r"], newest_version=True)

        assert await notes(it) == {"": None, "a": "a"}


@pytest.mark.parametrize(
    ("args", "kind", "words"),
    [
        pytest.param({"note": "x" * 1001}, Refused, "has 1001 characters, and 1000 are the most", id="too long"),
        pytest.param({"note": "a\0b"}, Refused, "NUL", id="nul"),
        pytest.param({"run_id": "ghost"}, NotFound, "DAG 'd' has no run 'ghost'", id="no run"),
        pytest.param({"task_id": "loda"}, NotFound, "no task 'loda'. Did you mean load", id="no task"),
        pytest.param({"task_id": "load", "map_index": 4}, NotFound, r"no instance of load\[4\]", id="no index"),
    ],
)
async def test_what_cannot_be_noted_is_refused_with_the_remedy(
    dsn: str, clock: FakeClock, args: dict[str, Any], kind: type[Exception], words: str
) -> None:
    async with running(dsn, clock, dag("d", task("load"))) as it:
        await it.trigger("d", "r")

        with pytest.raises(kind, match=words):
            await it.scheduler.set_note("d", args.pop("run_id", "r"), args.pop("note", "fine"), **args)


async def test_of_a_mapped_task_one_instance_is_chosen(dsn: str, clock: FakeClock) -> None:
    mapped = task("a", mapping=MappingSpec(inputs=(LiteralLength(3),)))
    async with running(dsn, clock, dag("d", mapped)) as it:
        await it.trigger("d", "r")
        await it.scheduler.set_note("d", "r", "the last", task_id="a", map_index=2)

        with pytest.raises(Refused, match="choose one of its 3 instances with --map-index"):
            await it.scheduler.set_note("d", "r", "all", task_id="a")
        assert await notes(it) == {"": None, "a[2]": "the last"}


async def test_a_note_on_a_mapped_task_goes_to_its_first_instance(dsn: str, clock: FakeClock) -> None:
    spec = dag("d", task("list"), task("a", after="list", mapping=MappingSpec(inputs=(TaskOutput("list"),))))
    async with running(dsn, clock, spec) as it:
        await it.trigger("d", "r")
        await it.scheduler.set_note("d", "r", "of all", task_id="a")
        it.executor.report(
            await it.attempt("list"), Outcome.SUCCESS, xcoms=(XComValue("return_value", "[1, 2]"),), map_length=2
        )
        await it.settled()

        assert await notes(it) == {"": None, "a[0]": "of all"}


async def test_a_deleted_dag_takes_its_notes_along(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        await it.trigger("d", "r")
        await it.scheduler.set_note("d", "r", "a", task_id="a")
        await it.finish("a")
        await it.ask("delete_dag", "d")

        assert await it.fetch("SELECT * FROM task_note") == []


@pytest.mark.parametrize("task_id", [None, "a"])
async def test_a_note_that_somebody_has_changed_since_it_was_read_is_kept(
    dsn: str, clock: FakeClock, task_id: str | None
) -> None:
    async with running(dsn, clock, dag("d", task("a"))) as it:
        await it.trigger("d", "r")

        async def note(text: str, was: str | None) -> None:
            await it.scheduler.set_note("d", "r", text, task_id=task_id, was=was)

        await note("first", "")
        for was in ("", "another", "mine"):
            with pytest.raises(Refused, match=r"The note was changed by \S+ at .* UTC, since you read it"):
                await note("mine", was)
        await note("first", "")  # once more: the answer was lost
        await note("second", " first ")
        await note("third", None)

        assert await notes(it) == {"": None} | {task_id or "": "third"}
