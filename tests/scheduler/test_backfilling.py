"""Backfills run by the scheduler: the semantics reference, sections 29.1 and 14."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec, ParamSpec
from aiosched.errors import NotFound, Refused
from tests.scheduler.harness import NEW_YEAR, Running, chain, dag, running, task

DAY = timedelta(days=1)
LATER = datetime(2026, 1, 20, 12, tzinfo=UTC)


def day(number: int) -> datetime:
    """A day of January 2026."""
    return datetime(2026, 1, number, tzinfo=UTC)


def daily(*tasks: Any, dag_id: str = "d", **options: Any) -> DagSpec:
    options = {"schedule": DAY, "start_date": NEW_YEAR, "catchup": False} | options
    return dag(dag_id, *tasks, **options)


async def backfill(it: Running, first: int, final: int, **args: Any) -> dict[str, Any]:
    return await it.ask(
        "backfill_create", "d", **{"from": day(first).isoformat(), "to": day(final).isoformat()}, **args
    )


async def backfilled(it: Running) -> dict[int, str]:
    """The states of the backfill's runs, by day."""
    rows = await it.fetch("SELECT logical_date, state FROM dag_run WHERE backfill_id IS NOT NULL ORDER BY logical_date")
    return {date.day: state for date, state in rows}


async def completed(it: Running) -> bool:
    (row,) = await it.fetch("SELECT completed_at FROM backfill")
    return row["completed_at"] is not None


@pytest.fixture
def late(clock: FakeClock) -> FakeClock:
    """The clock on the 20th of January: what daily schedules were due before is the past."""
    clock.at = LATER
    return clock


# -- creating -----------------------------------------------------------------------------------


async def test_all_runs_are_created_at_once_and_start_under_the_backfills_own_limit(dsn: str, late: FakeClock) -> None:
    async with running(dsn, late, daily(max_active_runs=1)) as it:
        answer = await backfill(it, 3, 9, max_active_runs=2)

        assert [date["fate"] for date in answer["dates"]] == ["create"] * 7
        assert await backfilled(it) == {3: "running", 4: "running", **dict.fromkeys(range(5, 10), "queued")}
        rows = await it.fetch(
            "SELECT run_id, run_type, backfill_order, data_interval_end FROM dag_run WHERE backfill_id IS NOT NULL"
            " ORDER BY id LIMIT 2"
        )
        assert list(map(tuple, rows)) == [
            ("backfill__2026-01-03T00:00:00+00:00", "backfill", 1, day(4)),
            ("backfill__2026-01-04T00:00:00+00:00", "backfill", 2, day(5)),
        ]
        await it.assert_consistent()


EXISTING = {5: "success", 6: "failed", 7: "running"}


@pytest.mark.parametrize(
    ("rerun", "fates", "number"),
    [
        ("missing", {5: "already exists", 6: "already exists", 7: "in flight"}, 4),
        ("failed", {5: "already exists", 6: "rerun", 7: "in flight"}, 5),
        ("all", {5: "rerun", 6: "rerun", 7: "in flight"}, 6),
        ("none", {5: "already exists", 6: "already exists", 7: "in flight"}, 4),
        ("completed", {5: "rerun", 6: "rerun", 7: "in flight"}, 6),
    ],
)
async def test_what_becomes_of_runs_that_exist(
    dsn: str, late: FakeClock, rerun: str, fates: Mapping[int, str], number: int
) -> None:
    """The table and the example of section 29.1."""
    async with running(dsn, late, daily(task("a"))) as it:
        for date, state in EXISTING.items():
            await it.trigger("d", f"r{date}", logical_date=day(date), conf={"old": True})
            if state == "success":
                await it.finish("a", run_id=f"r{date}")
            if state == "failed":
                it.executor.fail(await it.attempt("a", f"r{date}"))
        await it.settled()
        preview = await backfill(it, 3, 9, rerun=rerun, dry_run=True)

        answer = await backfill(it, 3, 9, rerun=rerun, conf={"new": True})

        assert answer["dates"] == preview["dates"]
        by_day = {datetime.fromisoformat(d["logical_date"]).day: d["fate"] for d in answer["dates"]}
        assert by_day == dict.fromkeys((3, 4, 8, 9), "create") | dict(fates)
        assert len(await backfilled(it)) == number
        for date, fate in fates.items():
            (row,) = await it.fetch(
                "SELECT run_type, backfill_id, conf, clear_number FROM dag_run WHERE run_id = $1", f"r{date}"
            )
            taken = fate == "rerun"
            assert row["run_type"] == ("backfill" if taken else "manual")
            assert row["backfill_id"] == (answer["id"] if taken else None)
            assert row["conf"] == ('{"new":true}' if taken else '{"old":true}')
            assert row["clear_number"] == int(taken)
        await it.assert_consistent()
        await it.finish_all()
        assert set((await backfilled(it)).values()) == {"success"}
        assert await completed(it)
        await it.assert_consistent()


async def test_without_a_conf_of_its_own_a_backfill_leaves_that_of_the_runs_it_takes_over(
    dsn: str, late: FakeClock
) -> None:
    async with running(dsn, late, daily()) as it:
        await it.trigger("d", "r", logical_date=day(5), conf={"old": True})
        await it.finish("a", run_id="r")

        await backfill(it, 5, 5, rerun="all")

        attempt = await it.attempt("a", "r")
        assert attempt.run.conf == {"old": True}
        assert (attempt.run.run_type, attempt.key.try_number) == ("backfill", 2)


async def test_the_conf_is_that_of_every_run(dsn: str, late: FakeClock) -> None:
    async with running(dsn, late, daily()) as it:
        await backfill(it, 3, 5, conf={"x": 1})

        assert await it.fetch("SELECT DISTINCT conf::text FROM dag_run WHERE backfill_id IS NOT NULL") == [('{"x":1}',)]
        assert (await it.attempt("a", "backfill__2026-01-03T00:00:00+00:00")).run.conf == {"x": 1}


# -- refused ------------------------------------------------------------------------------------


REFUSED: tuple[tuple[dict[str, Any], dict[str, Any], str], ...] = (
    ({}, {"from": day(9).isoformat(), "to": day(3).isoformat()}, "before it begins .*swap the two dates"),
    ({}, {"from": day(25).isoformat(), "to": day(28).isoformat()}, "in the future"),
    ({}, {"from": "2026-01-03T01:00:00+00:00", "to": "2026-01-03T02:00:00+00:00"}, "no complete data interval"),
    ({"schedule": None}, {}, "has no dates to backfill; trigger it"),
    ({"schedule": "@once"}, {}, "has no dates to backfill; trigger it"),
    ({"schedule": "@continuous", "max_active_runs": 1}, {}, "has no dates to backfill; trigger it"),
    ({"past": True}, {"rerun": "missing"}, "depends on its past, so .* has gaps; use --rerun"),
    ({"past": True}, {"rerun": "all", "backwards": True}, "cannot be backfilled backwards"),
    ({}, {"max_active_runs": 0}, "would never run; give it 1 or more"),
    ({}, {"rerun": "some"}, "'rerun' is 'some'; give missing, failed or all"),
    ({}, {"from": "2026-01-03T00:00:00"}, "has no time zone; add one"),
    ({}, {"conf": {"n": "much"}}, "'n'"),
    (
        {"schedule": "* * * * *"},
        {"from": "2006-01-01T00:00:00+00:00"},
        "more than 10,000 dates .*2006-01-07",
    ),
)


async def test_a_backfill_that_cannot_be_is_refused(dsn: str, late: FakeClock, subtests: pytest.Subtests) -> None:
    def spec(number: int, past: bool = False, **options: Any) -> DagSpec:
        n = ParamSpec(value=1, json_schema={"type": "integer"})
        return daily(task("a", depends_on_past=past), dag_id=f"d{number}", params={"n": n}, **options)

    async with running(dsn, late, *(spec(number, **options) for number, (options, _, _) in enumerate(REFUSED))) as it:
        before = [await it.runs(f"d{number}") for number in range(len(REFUSED))]
        for (number, (options, args, message)), dry_run in product(enumerate(REFUSED), (True, False)):
            with subtests.test(options=options, args=args, dry_run=dry_run):
                wish = {"from": day(3).isoformat(), "to": day(9).isoformat(), "dry_run": dry_run} | args
                with pytest.raises(Refused, match=message):
                    await it.ask("backfill_create", f"d{number}", **wish)

        assert [await it.runs(f"d{number}") for number in range(len(REFUSED))] == before
        assert await it.fetch("SELECT 1 FROM backfill") == []


async def test_a_dag_has_one_unfinished_backfill(dsn: str, late: FakeClock) -> None:
    async with running(dsn, late, daily()) as it:
        first = await backfill(it, 3, 4)

        with pytest.raises(Refused, match="has an unfinished backfill; wait for its end or"):
            await backfill(it, 5, 6)

        assert sorted(await backfilled(it)) == [3, 4]
        await it.finish_all()
        assert (await backfill(it, 5, 6))["id"] > first["id"]


# -- pause, resume, cancel, the end ---------------------------------------------------------------


async def test_cancelling_fails_what_is_queued_and_lets_go_on_what_runs(dsn: str, late: FakeClock) -> None:
    async with running(dsn, late, daily()) as it:
        number = (await backfill(it, 3, 5, max_active_runs=1))["id"]

        assert await it.ask("backfill_cancel", "d", id=number) == {"failed": 2}

        assert await backfilled(it) == {3: "running", 4: "failed", 5: "failed"}
        assert await completed(it)
        await it.finish("a", run_id="backfill__2026-01-03T00:00:00+00:00")
        assert await backfilled(it) == {3: "success", 4: "failed", 5: "failed"}
        assert (await backfill(it, 6, 7))["id"] > number


async def test_the_task_instances_of_the_runs_that_a_cancel_has_failed_stay_as_they_are(
    dsn: str, late: FakeClock
) -> None:
    async with running(dsn, late, daily()) as it:
        number = (await backfill(it, 3, 5, max_active_runs=1))["id"]

        await it.ask("backfill_cancel", "d", id=number)

        assert await it.states("backfill__2026-01-04T00:00:00+00:00") == {"a": None}
        await it.assert_consistent()
        await backfill(it, 4, 5, rerun="failed")  # and can be run later
        await it.finish_all()
        assert await backfilled(it) == dict.fromkeys((3, 4, 5), "success")


@pytest.mark.parametrize("verb", ["backfill_pause", "backfill_resume", "backfill_cancel"])
async def test_a_backfill_that_is_over_cannot_be_changed(dsn: str, late: FakeClock, verb: str) -> None:
    async with running(dsn, late, daily()) as it:
        number = (await backfill(it, 3, 3))["id"]
        await it.finish_all()

        with pytest.raises(NotFound, match=f"no unfinished backfill {number}; see"):
            await it.ask(verb, "d", id=number)


async def test_a_backfill_is_completed_when_its_last_run_has_ended(dsn: str, late: FakeClock) -> None:
    async with running(dsn, late, daily()) as it:
        await backfill(it, 3, 4)
        await it.finish("a", run_id="backfill__2026-01-03T00:00:00+00:00")
        assert not await completed(it)

        it.executor.fail(await it.attempt("a", "backfill__2026-01-04T00:00:00+00:00"))
        await it.settled()

        assert await completed(it)
        assert await backfilled(it) == {3: "success", 4: "failed"}


async def test_a_backfill_that_finds_nothing_to_do_is_over_at_once(dsn: str, late: FakeClock) -> None:
    async with running(dsn, late, daily()) as it:
        await it.trigger("d", "r", logical_date=day(5))

        answer = await backfill(it, 5, 5)

        assert [d["fate"] for d in answer["dates"]] == ["in flight"]
        assert await completed(it)


async def test_a_run_of_a_backfill_that_is_over_may_be_cleared(dsn: str, late: FakeClock) -> None:
    async with running(dsn, late, daily(max_active_runs=1)) as it:
        await it.finish_all()
        await backfill(it, 3, 5)
        await it.finish_all()

        await it.ask("clear", "d", **{"from": day(3).isoformat(), "to": day(5).isoformat()})

        assert sorted((await backfilled(it)).values()) == ["queued", "queued", "running"]
        await it.finish_all()
        assert await backfilled(it) == dict.fromkeys((3, 4, 5), "success")
        await it.assert_consistent()


# -- restarts -----------------------------------------------------------------------------------


async def test_a_backfill_goes_on_after_a_restart_in_its_middle(dsn: str, late: FakeClock) -> None:
    async with running(dsn, late, daily()) as it:
        number = (await backfill(it, 3, 6, max_active_runs=1, backwards=True))["id"]
        await it.finish("a", run_id="backfill__2026-01-06T00:00:00+00:00")
    async with running(dsn, late) as it:
        assert await backfilled(it) == {3: "queued", 4: "queued", 5: "running", 6: "success"}
        await it.ask("backfill_pause", "d", id=number)
    async with running(dsn, late) as it:
        await it.finish("a", run_id="backfill__2026-01-05T00:00:00+00:00")
        assert await backfilled(it) == {3: "queued", 4: "queued", 5: "success", 6: "success"}
        await it.ask("backfill_resume", "d", id=number)
        assert (await backfilled(it))[4] == "running"
        await it.finish_all()
        assert await completed(it)
        await it.assert_consistent()


async def test_a_backfill_whose_end_nobody_noted_is_completed_by_the_next_scheduler(dsn: str, late: FakeClock) -> None:
    async with running(dsn, late, daily()) as it:
        await backfill(it, 3, 3)
        await it.finish_all()
        await it.execute("UPDATE backfill SET completed_at = NULL")

    async with running(dsn, late) as it:
        assert await completed(it)


async def test_the_embedding_api_speaks_of_backfills_too(dsn: str, late: FakeClock) -> None:
    async with running(dsn, late, daily()) as it:
        preview = await it.scheduler.backfill("d", day(3), day(4), dry_run=True)
        made = await it.scheduler.backfill("d", day(3), day(4), max_active_runs=1, backwards=True, conf={"x": 1})
        await it.settled()

        assert [d["fate"] for d in preview["dates"]] == ["create", "create"]
        assert await it.fetch("SELECT id, max_active_runs, backwards, conf::text FROM backfill") == [
            (made["id"], 1, True, '{"x":1}')
        ]
        assert await backfilled(it) == {3: "queued", 4: "running"}


async def test_the_task_instances_of_a_long_backfill_follow_in_parts(dsn: str, late: FakeClock) -> None:
    spec = dag("d", *chain("d", 20).tasks, schedule=timedelta(minutes=5), start_date=NEW_YEAR, max_active_runs=1)
    async with running(dsn, late, spec) as it:
        answer = await backfill(it, 3, 6, max_active_runs=3)

        assert len(answer["dates"]) == 3 * 288 + 1
        sizes = [size for (size,) in await it.fetch("SELECT count(*) FROM task_instance GROUP BY xmin::text")]
        assert max(sizes) <= 5_000
        assert sizes.count(1_000) == 12
        assert (await it.fetch("SELECT count(*) FROM task_instance"))[0][0] > 17_000
        await it.assert_consistent()


async def test_a_deleted_dag_takes_its_backfills_with_it(dsn: str, late: FakeClock) -> None:
    async with running(dsn, late, daily()) as it:
        await it.finish_all()
        await it.ask("pause", "d")
        await backfill(it, 3, 5)
        await it.ask("delete_dag", "d")

        await it.register(daily())
        await it.ask("unpause", "d")

        assert (await backfill(it, 3, 5))["dates"][0]["fate"] == "create"


async def test_the_first_run_of_a_backfill_does_not_look_at_the_past_and_the_others_do(
    dsn: str, late: FakeClock
) -> None:
    async with running(dsn, late, daily(task("a", depends_on_past=True))) as it:
        await it.trigger("d", "before", logical_date=day(2))
        it.executor.fail(await it.attempt("a", "before"))
        await it.settled()

        await backfill(it, 3, 4, rerun="all")

        third, fourth = (f"backfill__2026-01-0{number}T00:00:00+00:00" for number in (3, 4))
        assert (await it.states(third), await it.states(fourth)) == ({"a": "queued"}, {"a": None})
        await it.finish("a", run_id=third)
        assert await it.states(fourth) == {"a": "queued"}
