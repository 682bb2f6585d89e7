"""What scripts of a world may say, and that it means what it means for a task that really runs."""

from __future__ import annotations

import json
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest

from aiosched import DAG, Asset, AssetAlias, EmptyOperator, Metadata, PythonOperator
from aiosched.authoring.runtime.xcom_values import read_xcom
from aiosched.core.graph.spec import AssetRef, MappingSpec, TaskOutput
from aiosched.core.values.messages import Attempt, Deferral
from aiosched.testing import Ending, World, defers, fails, never_begins, reschedules, skips, succeeds
from tests.testing.world_builders import NEW_YEAR, at, dag, minutes, task


def world(**options: object) -> World:
    return World(**{"now": NEW_YEAR, "takes": minutes(1)} | options)  # type: ignore[arg-type]


# ---- values ----


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "it returned None"),
        ("a text", "it returned 'a text'"),
        (list(range(1025)), "it returned 1025 values; allowed are 1024"),
    ],
)
async def test_a_value_that_nothing_can_be_mapped_over_fails_its_task(value: object, reason: str) -> None:
    async with world() as it:
        mapping = MappingSpec(inputs=(TaskOutput(task_id="list"),))
        it.add(dag("d", task("list"), task("each", after="list", mapping=mapping)))
        it.script("d", "list", returns=value)
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.states("d", run) == {"list": "failed", "each": "upstream_failed"}
        assert reason in it.task("d", run, "list").reason


async def test_a_value_that_json_cannot_hold_fails_its_task() -> None:
    async with world() as it:
        it.add(dag("d", task("a", retries=1)))
        it.script("d", "a", lambda attempt: succeeds([iter(())]) if attempt.key.try_number == 1 else None)
        run = it.trigger("d")

        await it.run_until_idle()

        assert (it.task("d", run, "a").state, it.task("d", run, "a").try_number) == ("success", 2)
        ((_, first),) = it.rows.tries.items()
        assert "tuple_iterator, which JSON cannot hold" in (first.reason or "")


@pytest.mark.parametrize("value", [(1, Decimal("1.50")), {1: date(2026, 1, 1)}, {b"x"}, float("inf")])
async def test_a_value_is_stored_so_that_it_comes_back(value: Any) -> None:
    async with world() as it:
        it.add(dag("d", task("a")))
        it.script("d", "a", returns=value, pushes={"k": [value]})
        run = it.trigger("d")

        await it.run_until_idle()

        found = [read_xcom(it.xcom("d", run, "a", key) or "") for key in ("return_value", "k")]
        assert repr(found) == repr([value, [value]])


async def test_what_a_task_stores_is_as_its_options_say() -> None:
    with DAG("d", schedule=None) as written:
        PythonOperator(task_id="silent", python_callable=dict, do_xcom_push=False)
        PythonOperator(task_id="split", python_callable=dict, multiple_outputs=True)
    async with world() as it:
        it.add(written)
        it.script("d", "*", returns={"rows": 3})
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.xcom("d", run, "silent") is None
        assert it.xcom("d", run, "split", "rows") == "3"


async def test_values_of_mapped_tasks_are_read_by_their_map_index() -> None:
    async with world() as it:
        mapping = MappingSpec(inputs=(TaskOutput(task_id="list"),))
        it.add(dag("d", task("list"), task("each", after="list", mapping=mapping)))
        it.script("d", "list", returns=["x", "y"])
        it.script("d", "each", lambda attempt: succeeds(attempt.key.map_index * 10))
        run = it.trigger("d")

        await it.run_until_idle()

        assert [it.xcom("d", run, "each", map_index=index) for index in (0, 1)] == ["0", "10"]


@pytest.mark.parametrize(
    "pause",
    [
        defers(minutes(30), pushes={"job": 7}),
        reschedules(minutes(30), pushes={"job": 7}),
    ],
)
async def test_what_was_pushed_before_a_pause_is_there_meanwhile(pause: Ending) -> None:
    def play(attempt: Attempt) -> Ending | None:
        return pause if attempt.resume is None and attempt.first_started is None else None

    async with world() as it:
        it.add(dag("d"))
        it.script("d", "a", play)
        run = it.trigger("d")

        await it.run_until(at(0, 10))
        meanwhile = it.xcom("d", run, "a", "job")
        await it.run_until_idle()

        assert (meanwhile, it.xcom("d", run, "a", "job")) == ("7", "7")
        assert it.task("d", run, "a").state == "success"


# ---- triggers ----


async def test_a_trigger_may_tell_something() -> None:
    heard: list[Any] = []

    def play(attempt: Attempt) -> Ending | None:
        if attempt.resume is None:
            return defers(minutes(5), event={"rows": 3})
        heard.append(json.loads(attempt.resume.event))
        return None

    async with world() as it:
        it.add(dag("d"))
        it.script("d", "a", play)
        it.trigger("d")
        await it.run_until_idle()

        assert heard == [{"rows": 3}]


async def test_a_trigger_that_fails_fails_its_task() -> None:
    async with world() as it:
        it.add(dag("d", task("a", retries=1, retry_delay=60.0)))
        it.script("d", "a", defers(minutes(5), breaks="the job is gone"))
        run = it.trigger("d")

        await it.run_until_idle()

        row = it.task("d", run, "a")
        assert (row.state, row.try_number, row.reason) == ("failed", 2, "the job is gone")


@pytest.mark.parametrize(
    ("ending", "state", "tries"),
    [
        (succeeds({"rows": 3}), "success", 1),
        (skips(), "skipped", 1),
        (fails("the job was refused"), "failed", 2),
    ],
)
async def test_a_trigger_may_end_its_task(ending: Ending, state: str, tries: int) -> None:
    async with world(slots=1) as it:
        it.add(
            dag("d", task("a", retries=1, retry_delay=60.0, has_success_callback=True, outlets=(AssetRef(name="x"),)))
        )
        it.add(dag("reader", schedule=Asset("x")))
        it.script("d", "a", defers(minutes(5), ends=ending))
        run = it.trigger("d")

        await it.run_until_idle()

        row = it.task("d", run, "a")
        assert (row.state, row.try_number) == (state, tries)
        assert it.xcom("d", run, "a") == ('{"rows":3}' if state == "success" else None)
        assert len(it.callbacks) == len(it.runs("reader")) == (state == "success")
        assert row.reason == ending.reason or state == "skipped"


def test_how_a_trigger_ends_its_task_is_checked() -> None:
    with pytest.raises(ValueError, match="ends its task by"):
        defers(minutes(5), ends=reschedules(minutes(1)))


async def test_the_script_of_a_task_that_begins_in_its_trigger_says_how_long_that_takes() -> None:
    async with world() as it:
        it.add(dag("d", task("a", starts_deferred=Deferral(classpath="x.Wait", kwargs="{}", next_method="go_on"))))
        it.script("d", "a", defers=minutes(30))
        run = it.trigger("d")

        await it.run_until(at(0, 29))
        meanwhile = it.states("d", run)
        await it.run_until_idle()

        assert meanwhile == {"a": "deferred"}
        assert it.task("d", run, "a").end_date == at(0, 31)


# ---- assets ----


async def test_extras_and_what_an_alias_leads_to_come_from_scripts() -> None:
    table, alias = Asset("table"), AssetAlias("parts")
    with DAG("maker", schedule=None) as maker:
        EmptyOperator(task_id="a", outlets=[table, alias])
    async with world() as it:
        it.add(maker, dag("reader", schedule=Asset("table")), dag("follower", schedule=AssetAlias("parts")))
        it.script(
            "maker", "a", events=[Metadata(table, {"rows": 3}), Metadata(Asset("part_1"), {"n": 1}, alias="parts")]
        )
        it.trigger("maker")

        await it.run_until_idle()

        (read,), (followed,) = it.runs("reader"), it.runs("follower")
        assert [(e.name, e.extra) for e in it.events_of("reader", read.run_id)] == [("table", '{"rows":3}')]
        (event,) = it.events_of("follower", followed.run_id)
        assert (event.name, event.alias, event.extra) == ("part_1", "parts", '{"n":1}')


async def test_an_event_of_what_is_no_outlet_fails_the_task() -> None:
    async with world() as it:
        it.add(dag("d", task("a", outlets=(AssetRef(name="x"),))))
        it.script("d", "a", succeeds(events=[Metadata("y", {"rows": 1})]))
        run = it.trigger("d")

        await it.run_until_idle()

        assert it.task("d", run, "a").state == "failed"
        assert "is not an outlet of this task" in it.task("d", run, "a").reason


@pytest.mark.parametrize(("catchup", "seen"), [(True, ["first", "second"]), (False, ["second"])])
async def test_events_before_a_dag_was_there_are_its_first_runs_with_catchup(catchup: bool, seen: list[str]) -> None:
    async with world() as it:
        it.add(dag("maker", task("a", outlets=(AssetRef(name="x"),))))
        it.emit("x", extra={"is": "first"})
        await it.run_for(minutes(1))
        it.add(dag("reader", schedule=Asset("x"), catchup=catchup, start_date=NEW_YEAR))
        await it.run_for(minutes(1))

        it.emit("x", extra={"is": "second"})
        await it.run_until_idle()

        (run,) = it.runs("reader")
        assert [json.loads(event.extra)["is"] for event in it.events_of("reader", run.run_id)] == seen


# ---- attempts that lie ----


async def test_an_attempt_that_never_begins_is_queued_again_and_fails_in_the_end() -> None:
    async with world() as it:
        it.add(dag("d", task("a", retries=3)))
        it.script("d", "a", never_begins())
        run = it.trigger("d")

        await it.run_for(minutes(9))
        meanwhile = it.task("d", run, "a")
        await it.run_until_idle()

        row = it.task("d", run, "a")
        assert (meanwhile.state, meanwhile.start_date) == ("queued", None)
        assert (row.state, row.try_number) == ("failed", 1)
        assert "not started within 600 s" in row.reason
        assert it.now - NEW_YEAR == 3 * timedelta(minutes=10, microseconds=1)


async def test_an_attempt_that_begins_the_second_time_spends_no_try() -> None:
    endings = iter([never_begins(), succeeds()])
    async with world() as it:
        it.add(dag("d"))
        it.script("d", "a", lambda attempt: next(endings))
        run = it.trigger("d")

        await it.run_until_idle()

        assert (it.task("d", run, "a").state, it.task("d", run, "a").try_number) == ("success", 1)


# ---- a file that vanishes and returns ----


async def test_a_dag_whose_file_is_gone_makes_no_runs_until_it_is_back() -> None:
    spec = dag("d", schedule="@hourly", start_date=NEW_YEAR - timedelta(days=1))
    async with world() as it:
        it.add(spec)
        it.script("d", "a", takes=minutes(30))
        await it.run_until(at(3, 10))
        it.remove("d")
        await it.run_until(at(6))
        gone = [(run.state, run.run_after) for run in it.runs("d")][-1:]

        it.add(spec)
        await it.run_until(at(7, 40))

        assert gone == [("success", at(3))]
        assert [run.run_after.hour for run in it.runs("d")[-3:]] == [3, 6, 7]
        assert {run.version_id for run in it.runs("d")} == {1}


async def test_a_dag_whose_file_is_gone_hears_of_no_asset_until_it_is_back() -> None:
    spec = dag("reader", schedule=Asset("x"))
    async with world() as it:
        it.add(spec, dag("maker", task("a", outlets=(AssetRef(name="x"),))))
        it.remove("reader")
        it.emit("x")
        await it.run_for(minutes(5))
        gone = len(it.runs("reader"))
        it.add(spec)
        await it.run_for(minutes(5))

        it.emit("x")
        await it.run_until_idle()

        (run,) = it.runs("reader")
        assert gone == 0
        assert len(it.events_of("reader", run.run_id)) == 1


# ---- rows as a test wants them ----


@pytest.mark.parametrize(("how", "state"), [("success", "success"), ("failed", "failed"), (succeeds(3), "success")])
async def test_rows_can_be_put_into_waiting_for_a_trigger(how: str | Ending, state: str) -> None:
    async with world() as it:
        it.add(dag("d", task("a"), task("b", after="a", trigger_rule="all_done")))
        run = it.trigger("d")
        it.set_task("d", run, "a", state="deferred")
        await it.run_for(minutes(90))
        waits = it.states("d", run)

        await it.events("d", run, {"a": how})
        await it.run_until_idle()

        assert waits == {"a": "deferred", "b": None}
        assert it.states("d", run) == {"a": state, "b": "success"}


async def test_rows_can_be_put_into_waiting_for_a_slot() -> None:
    async with world() as it:
        it.add(dag("d", task("a"), task("b", after="a")))
        run = it.trigger("d")

        it.set_task("d", run, "a", state="scheduled")
        before = it.states("d", run)
        await it.run_until_idle()

        assert before == {"a": "scheduled", "b": None}
        assert it.states("d", run) == {"a": "success", "b": "success"}
        assert it.task("d", run, "a").try_number == 1
