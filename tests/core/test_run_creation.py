"""Which runs should exist, which may start, which tasks they have.

The rules are those of the semantics reference, sections 10.1, 11.1 (dates, refusals), 13.1, 13.2 (which DAGs are
due), 13.4, 14.1 to 14.3 (which runs start) and 29.1.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.creation.run_creation import (
    DagStatus,
    PlannedRun,
    active_runs_limit,
    automated_run,
    backfill_runs,
    check_manual_run,
    check_run_id,
    check_schedule,
    compute_next,
    due_questions,
    manual_run,
    restriction_of,
    runs_to_start,
    tasks_of_run,
)
from aiosched.core.graph.instances import Run
from aiosched.core.graph.spec import DagSpec, ParamSpec, TaskSpec
from aiosched.core.timetables import (
    AnyTimetable,
    ContinuousTimetable,
    CronDataIntervalTimetable,
    CronTriggerTimetable,
    DataInterval,
    DeltaTriggerTimetable,
    NextRun,
    NullTimetable,
    OnceTimetable,
    Restriction,
)
from aiosched.core.values.states import RunType
from aiosched.errors import DagError, ParamError, Refused, TimetableError
from tests.core.queued_runs import a_run

DAILY = CronDataIntervalTimetable("@daily", "UTC")
AT_SIX = CronTriggerTimetable("0 6 * * *", "UTC", interval=timedelta(hours=6))


def day(number: int) -> datetime:
    """Midnight of a day of January 2026, UTC."""
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number - 1)


def days(first: int, last: int) -> DataInterval:
    return DataInterval(day(first), day(last))


def a_task(name: str = "t", **fields: Any) -> TaskSpec:
    return TaskSpec(task_id=name, operator="Op", **fields)


def a_dag(*tasks: TaskSpec, timetable: AnyTimetable = DAILY, **fields: Any) -> DagSpec:
    return DagSpec(dag_id="sales", timetable=timetable, tasks=tasks or (a_task(),), **fields)


# The next run of a DAG


@pytest.mark.parametrize(
    ("dag", "expected"),
    [
        (a_dag(start_date=day(3), end_date=day(9)), (day(3), day(9))),
        (a_dag(), (None, None)),
        (a_dag(a_task(start_date=day(2)), start_date=day(3)), (day(2), None)),
        (a_dag(a_task("a", start_date=day(5)), a_task("b")), (day(5), None)),
        (a_dag(a_task("a", end_date=day(5)), a_task("b"), end_date=day(4)), (None, day(4))),
        (a_dag(a_task("a", end_date=day(5)), a_task("b")), (None, None)),
        (a_dag(a_task("a", end_date=day(5)), a_task("b", end_date=day(7)), end_date=day(4)), (None, day(7))),
        (a_dag(a_task("a", end_date=day(5)), a_task("b", end_date=day(7))), (None, day(7))),
        (a_dag(a_task("a", end_date=day(5)), a_task("b", end_date=day(6)), end_date=day(7)), (None, day(7))),
    ],
)
def test_tasks_widen_the_dates_of_their_dag(dag: DagSpec, expected: tuple[datetime | None, datetime | None]) -> None:
    assert restriction_of(dag) == Restriction(*expected, catchup=False)


def test_the_next_run_follows_the_latest_automated_one() -> None:
    dag = a_dag(start_date=day(1), catchup=True)

    first = compute_next(dag, None, day(10))
    second = compute_next(dag, days(1, 2), day(10))

    assert first == NextRun(run_after=day(2), interval=days(1, 2))
    assert second == NextRun(run_after=day(3), interval=days(2, 3))
    assert compute_next(replace_dag(dag, catchup=False), days(1, 2), day(10)) == NextRun(day(10), days(9, 10))


def replace_dag(dag: DagSpec, **fields: Any) -> DagSpec:
    return DagSpec(**({name: getattr(dag, name) for name in dag.__struct_fields__} | fields))


def test_a_timetable_that_breaks_says_which_dag_is_not_scheduled() -> None:
    end_of_time = datetime.max.replace(tzinfo=UTC)

    with pytest.raises(TimetableError, match="The schedule '@daily' of DAG 'sales' gives no next run: OverflowError"):
        compute_next(a_dag(), None, end_of_time)


@pytest.mark.parametrize(("timetable", "limit"), [(DAILY, 5), (ContinuousTimetable(), 1), (NullTimetable(), 5)])
def test_the_timetable_may_lower_max_active_runs(timetable: AnyTimetable, limit: int) -> None:
    assert active_runs_limit(a_dag(timetable=timetable, max_active_runs=5)) == limit
    assert active_runs_limit(a_dag(timetable=timetable, max_active_runs=0)) == 0


# Which DAGs are due


DUE = DagStatus("sales", NextRun(day(2), days(1, 2)), max_active_runs=2, active_runs=1)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"active_runs": 0}, None),
        ({"active_runs": 2}, "max_active_runs=2 reached: 2 runs are queued or running"),
        ({"active_runs": 3}, "max_active_runs=2 reached: 3 runs are queued or running"),
        ({"active_runs": 0, "max_active_runs": 0}, "max_active_runs=0 reached: 0 runs are queued or running"),
        ({"is_paused": True}, "the DAG is paused: `aiosched dags unpause sales`"),
        ({"is_stale": True}, "no DAG file and no application defines the DAG any more"),
        ({"has_import_errors": True}, "its file cannot be imported: see `aiosched dags errors`"),
        ({"next_run": None}, "its schedule has no further run"),
        ({"next_run": NextRun(day(3), days(2, 3))}, "its next run is due at 2026-01-03 00:00:00 UTC"),
    ],
)
def test_a_dag_is_due_unless_something_keeps_its_next_run(changes: dict[str, Any], reason: str | None) -> None:
    dag = replace(DUE, **changes)

    assert next(filter(None, due_questions(dag, day(2)).values()), None) == reason


# New runs


def test_an_automated_run_has_its_logical_date_in_its_id() -> None:
    run = NextRun(run_after=day(2), interval=days(1, 2))

    scheduled, backfill = automated_run(run), automated_run(run, RunType.BACKFILL)

    assert scheduled == PlannedRun(
        "scheduled__2026-01-01T00:00:00+00:00", RunType.SCHEDULED, day(2), day(1), days(1, 2)
    )
    assert backfill.run_id == "backfill__2026-01-01T00:00:00+00:00"


def test_a_manual_run_gets_the_interval_of_its_logical_date() -> None:
    run = manual_run(a_dag(), now=day(20), logical_date=day(10) + timedelta(hours=12, microseconds=7))

    assert run.logical_date == day(10) + timedelta(hours=12)
    assert run.interval == days(9, 10)
    assert run.run_after == day(20)
    assert run.run_id == "manual__2026-01-20T00:00:00+00:00"


def test_a_manual_run_needs_no_logical_date() -> None:
    run = manual_run(a_dag(), now=day(20), run_after=day(25))

    assert (run.logical_date, run.interval, run.run_after) == (None, None, day(25))
    assert re.fullmatch(r"manual__2026-01-25T00:00:00\+00:00_[0-9a-f]{8}", run.run_id)


def test_a_manual_run_of_a_dag_with_the_defaults_of_airflow_2_has_a_logical_date() -> None:
    old = msgspec.structs.replace(a_dag(), defaults_of="Airflow 2")
    now = day(20) + timedelta(microseconds=7)

    run = manual_run(old, now=now)

    assert run.logical_date == now  # with its microseconds, so that two runs in a second have two dates
    assert run.interval is not None
    assert manual_run(old, now=now, logical_date=day(3)).logical_date == day(3)
    assert manual_run(msgspec.structs.replace(old, defaults_of="Airflow 3"), now=now).logical_date is None


def test_a_manual_run_may_have_an_id_of_its_own() -> None:
    assert manual_run(a_dag(), now=day(1), run_id="try-2").run_id == "try-2"
    assert manual_run(a_dag(), now=day(1), run_id="manual__x").run_id == "manual__x"


@pytest.mark.parametrize(
    ("run_id", "message"),
    [
        ("scheduled__2026", "has the prefix 'scheduled__', which is reserved: choose another."),
        ("backfill__x", "has the prefix 'backfill__', which is reserved"),
        ("asset_triggered__x", "has the prefix 'asset_triggered__', which is reserved"),
        ("a b", "'a b' does not match"),
        ("", "does not match"),
        ("../x\n", "does not match"),
        ("x" * 251, "has 251 characters; use at most 250"),
        ("..", "is a step in a path, so no address could name it: choose another"),
        (".", "is a step in a path"),
        ("latest", "The run id 'latest' names a run by what it is, in commands and addresses: choose another."),
        ("latest-failed", "names a run by what it is"),
        ("latest-backfill", "names a run by what it is"),
    ],
)
def test_some_run_ids_are_refused(run_id: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        check_run_id(run_id)


def test_a_setting_allows_no_run_id_that_the_database_refuses() -> None:
    with pytest.raises(Refused, match="'lauf-é' does not match"):
        check_run_id("lauf-é", re.compile(".*"))
    with pytest.raises(Refused, match=r"'x' does not match \[0-9\]\+"):
        check_run_id("x", re.compile("[0-9]+"))


def test_dates_without_a_zone_are_refused() -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001

    with pytest.raises(Refused, match=r"logical date 2026-01-01T00:00:00 has no time zone; add one, e.g. .*\+00:00"):
        manual_run(a_dag(), now=day(1), logical_date=naive)
    with pytest.raises(Refused, match="run_after"):
        manual_run(a_dag(), now=day(1), run_after=naive)


@pytest.mark.parametrize("edge", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_dates_outside_the_calendar_are_refused(edge: str) -> None:
    given = datetime.fromisoformat(edge)

    with pytest.raises(Refused, match=f"The logical date {re.escape(edge)} is at the edge of the calendar: give anoth"):
        manual_run(a_dag(timetable=NullTimetable()), now=day(1), logical_date=given)
    with pytest.raises(Refused, match=f"The run_after {re.escape(edge)} is at the edge of the calendar: give another"):
        manual_run(a_dag(), now=day(1), run_after=given)
    with pytest.raises(Refused, match=f"The first date {re.escape(edge)} is at the edge of the calendar: give another"):
        list(backfill_runs(a_dag(), given, day(1), now=day(10), most=4))


def test_manual_runs_are_refused_for_dags_that_cannot_be_read() -> None:
    check_manual_run("sales", is_stale=False, has_import_errors=False)
    with pytest.raises(Refused, match="bring it back"):
        check_manual_run("sales", is_stale=True, has_import_errors=False)
    with pytest.raises(Refused, match="cannot be imported"):
        check_manual_run("sales", is_stale=False, has_import_errors=True)


def test_a_dag_that_is_stale_because_of_an_import_error_is_refused_with_that_error() -> None:
    with pytest.raises(Refused, match=r"cannot be imported: sales\.py:3: NameError: x\. Correct the file") as caught:
        check_manual_run("sales", is_stale=True, has_import_errors=True, import_error="sales.py:3: NameError: x")

    assert "any more" not in str(caught.value)


# The tasks of a new run


WINDOWS = a_dag(
    a_task("always"),
    a_task("from_5", start_date=day(5)),
    a_task("to_5", end_date=day(5)),
    a_task("wider", start_date=day(1), end_date=day(31)),
    start_date=day(3),
    end_date=day(20),
)


@pytest.mark.parametrize(
    ("date", "expected"),
    [(2, ()), (3, (0, 2, 3)), (4, (0, 2, 3)), (5, (0, 1, 2, 3)), (6, (0, 1, 3)), (20, (0, 1, 3)), (21, ())],
)
def test_tasks_outside_their_dates_get_no_instance(date: int, expected: tuple[int, ...]) -> None:
    run = automated_run(NextRun(day(date + 1), days(date, date + 1)))

    assert tasks_of_run(WINDOWS, run) == expected


def test_backfill_runs_and_runs_without_logical_date_have_all_tasks() -> None:
    backfill = automated_run(NextRun(day(3), days(2, 3)), RunType.BACKFILL)

    assert tasks_of_run(WINDOWS, backfill) == (0, 1, 2, 3)
    assert tasks_of_run(WINDOWS, manual_run(WINDOWS, now=day(2))) == (0, 1, 2, 3)


def test_the_first_run_of_a_trigger_timetable_has_its_tasks_though_its_interval_begins_before_the_start() -> None:
    dag = a_dag(timetable=AT_SIX, start_date=day(3) + timedelta(hours=3), catchup=True)
    first = compute_next(dag, None, day(10))

    assert first is not None
    assert first.logical_date == day(3)
    assert tasks_of_run(dag, automated_run(first)) == (0,)


# Starting queued runs


def started(*queued: Run, limit: int = 2, running: int = 0, **options: Any) -> list[int]:
    defaults: dict[str, Any] = {"now": day(5), "limits": {None: limit}, "running": {None: running}}
    return [run.key for run in runs_to_start(queued, **defaults | options).started]


@pytest.mark.parametrize(
    ("limit", "running", "expected"),
    [(2, 0, [1, 2]), (2, 1, [1]), (2, 2, []), (2, 5, []), (0, 0, []), (10, 0, [1, 2, 3])],
)
def test_runs_start_while_fewer_than_the_limit_run(limit: int, running: int, expected: list[int]) -> None:
    assert started(a_run(1), a_run(2), a_run(3), limit=limit, running=running) == expected


def test_the_oldest_run_after_starts_first() -> None:
    assert started(a_run(1, day(4)), a_run(2, day(2)), a_run(3, day(2))) == [2, 3]


def test_a_run_that_may_not_start_yet_takes_no_place() -> None:
    assert started(a_run(1, day(6)), a_run(2, day(5)), limit=1) == [2]


def test_runs_start_by_priority_and_those_of_backfills_after_them() -> None:
    queued = a_run(1, day(1)), a_run(2, day(2), priority=3), a_run(3, day(3), priority=3), a_run(4, priority=-1)

    assert started(*queued, a_run(5, backfill_id=7), limit=4, limits={None: 4, 7: 1}) == [2, 3, 1, 4, 5]
    assert started(*queued, a_run(6, day(6), priority=9), limit=2) == [2, 3]


def test_after_clearing_three_runs_of_a_dag_that_allows_one_exactly_one_starts() -> None:
    decision = runs_to_start([a_run(1), a_run(2), a_run(3)], now=day(5), limits={None: 1}, running={})

    assert [run.key for run in decision.started] == [1]
    assert decision.waiting == dict.fromkeys([2, 3], "max_active_runs=1 of the DAG reached: 1 running")


def test_a_blocked_dag_starts_nothing_and_says_why() -> None:
    decision = runs_to_start(
        [a_run(1), a_run(2, backfill_id=7)],
        now=day(5),
        limits={None: 9, 7: 9},
        running={},
        blocked="the DAG is paused",
    )

    assert decision.started == ()
    assert decision.waiting == {1: "the DAG is paused", 2: "the DAG is paused"}


def test_normal_and_backfill_runs_have_limits_of_their_own() -> None:
    backfill = [a_run(key, backfill_id=7) for key in (1, 2, 3)]

    keys = started(*backfill, a_run(4), a_run(5), limits={None: 1, 7: 2}, backfill_order={1: 3, 2: 2, 3: 1})

    assert keys == [4, 3, 2]


def test_waiting_runs_say_why() -> None:
    queued = [a_run(1, day(6)), a_run(2, backfill_id=7), a_run(3, backfill_id=8), a_run(4, backfill_id=9)]

    decision = runs_to_start(
        queued, now=day(5), limits={None: 1, 7: 1, 8: 1, 9: 3}, running={8: 1, 9: 3}, paused_backfills=[7]
    )

    assert decision.started == ()
    assert decision.waiting == {
        1: "may start at 2026-01-06 00:00:00 UTC",
        2: "backfill 7 is paused",
        3: "max_active_runs=1 of backfill 8 reached: 1 running",
        4: "max_active_runs=3 of backfill 9 reached: 3 running",
    }


queues = st.lists(st.tuples(st.integers(1, 9), st.sampled_from([None, None, 7, 8])), max_size=20)
counts = st.fixed_dictionaries({None: st.integers(0, 5), 7: st.integers(0, 5), 8: st.integers(0, 5)})


@given(queues, counts, counts)
def test_no_limit_is_ever_exceeded_and_no_place_stays_empty(
    queue: list[tuple[int, int | None]], limits: dict[int | None, int], running: dict[int | None, int]
) -> None:
    queued = [a_run(key, day(n), backfill_id=group) for key, (n, group) in enumerate(queue)]

    decision = runs_to_start(queued, now=day(5), limits=limits, running=running)

    assert {run.key for run in decision.started} | set(decision.waiting) == {run.key for run in queued}
    for group in (None, 7, 8):
        ready = sum(run.backfill_id == group and run.run_after <= day(5) for run in queued)
        chosen = sum(run.backfill_id == group for run in decision.started)
        assert chosen == min(ready, max(limits[group] - running[group], 0))


# Backfills


def test_a_backfill_has_the_complete_intervals_of_its_range() -> None:
    dag = a_dag(start_date=day(5))

    runs = list(backfill_runs(dag, day(3), day(6), now=day(10), most=4))

    assert [run.interval for run in runs] == [days(3, 4), days(4, 5), days(5, 6), days(6, 7)]
    assert list(backfill_runs(dag, day(3), day(6), now=day(7), most=4)) == runs[:3]  # the last one ends now, not before


def test_a_backfill_computes_no_more_dates_than_it_may_have() -> None:
    dag = a_dag(timetable=CronDataIntervalTimetable("* * * * *", "UTC"))
    dates = backfill_runs(dag, datetime(2006, 1, 1, tzinfo=UTC), day(1), now=day(10), most=3)  # of ten million

    assert [next(dates).logical_date.minute for _ in range(3)] == [0, 1, 2]
    with pytest.raises(Refused, match=r"more than 3 dates .* backfill up to 2006-01-01 00:02:00 UTC first, or raise"):
        next(dates)


@pytest.mark.parametrize(
    ("dag", "first", "final", "message"),
    [
        (a_dag(timetable=NullTimetable()), 1, 2, "schedule 'none', which has no dates to backfill"),
        (a_dag(timetable=OnceTimetable()), 1, 2, "schedule '@once'"),
        (a_dag(), 2, 1, "before it begins .*; swap the two dates"),
        (a_dag(), 11, 12, "in the future; choose dates that have passed"),
        (a_dag(), 10, 12, "no complete data interval that starts between 2026-01-10 00:00:00 UTC"),
    ],
)
def test_a_backfill_without_dates_is_refused(dag: DagSpec, first: int, final: int, message: str) -> None:
    with pytest.raises(Refused, match=message):
        list(backfill_runs(dag, day(first), day(final), now=day(10), most=100))


@pytest.mark.parametrize(
    ("timezone", "skipped"),
    [
        ("Pacific/Apia", date(2011, 12, 30)), ("Pacific/Kwajalein", date(1993, 8, 21)),
        ("Pacific/Kiritimati", date(1994, 12, 31)),
    ],
)  # fmt: skip
def test_a_backfill_of_a_day_that_clocks_skip_says_so(timezone: str, skipped: date) -> None:
    dag = a_dag(timezone=timezone, timetable=CronTriggerTimetable("@daily", timezone))

    with pytest.raises(Refused, match=f"{skipped} does not exist in {timezone}"):
        list(backfill_runs(dag, skipped, skipped, now=day(10), most=10))
    around = backfill_runs(dag, skipped - timedelta(days=1), skipped + timedelta(days=1), now=day(10), most=10)
    assert len(list(around)) >= 2
    with pytest.raises(Refused, match="swap the two dates"):
        list(backfill_runs(dag, skipped, skipped - timedelta(days=1), now=day(10), most=10))


@pytest.mark.parametrize(
    "timetable",
    [
        DAILY,
        CronDataIntervalTimetable("0 0 31 12 *", "America/New_York"),
        CronTriggerTimetable("@daily", "UTC"),
        CronTriggerTimetable("@daily", "UTC", interval=timedelta(days=1)),
        DeltaTriggerTimetable(timedelta(days=1), interval=timedelta(days=1)),
    ],
)
def test_a_backfill_from_the_edge_of_the_calendar_is_refused(timetable: AnyTimetable) -> None:
    first = datetime(1, 1, 1, tzinfo=UTC)

    with pytest.raises(Refused, match=r"The first date 0001-01-01T.* is at the edge of the calendar: give"):
        list(backfill_runs(a_dag(timetable=timetable), first, datetime(1, 2, 1, tzinfo=UTC), now=day(10), most=4))


def test_a_dag_whose_tasks_depend_on_the_past_is_not_backfilled_backwards() -> None:
    dag = a_dag(a_task("load", depends_on_past=True))

    assert list(backfill_runs(dag, day(1), day(2), now=day(10), most=100))
    with pytest.raises(Refused, match="Task 'load' of DAG 'sales' depends on its past"):
        list(backfill_runs(dag, day(1), day(2), now=day(10), most=100, backwards=True))


# What makes a schedule unacceptable


@pytest.mark.parametrize(
    "dag",
    [
        a_dag(),
        a_dag(catchup=True, start_date=day(1)),
        a_dag(a_task(start_date=day(1)), catchup=True),
        a_dag(timetable=NullTimetable(), catchup=True),
        a_dag(timetable=NullTimetable(), params={"region": ParamSpec(required=True)}),
        a_dag(timetable=ContinuousTimetable(), max_active_runs=1),
        a_dag(params={"region": ParamSpec(value="eu")}),
    ],
)
def test_an_acceptable_schedule(dag: DagSpec) -> None:
    check_schedule(dag)


@pytest.mark.parametrize(
    ("dag", "error", "message"),
    [
        (
            a_dag(timetable=ContinuousTimetable()),
            DagError,
            "allows 1 active run, but max_active_runs=16; set max_active_runs=1",
        ),
        (
            a_dag(catchup=True),
            DagError,
            "catchup=True but no start date .*; give it a start_date, or set catchup=False",
        ),
        (
            a_dag(params={"region": ParamSpec(required=True)}),
            ParamError,
            "required param 'region'; give it a default value",
        ),
        (
            a_dag(timetable=CronDataIntervalTimetable("99 * * * *", "UTC")),
            TimetableError,
            "DAG 'sales': .*minute field '99'",
        ),
        (
            a_dag(timetable=CronDataIntervalTimetable("@daily", "Mars/Base")),
            TimetableError,
            "DAG 'sales': .*'Mars/Base'",
        ),
    ],
)
def test_an_unacceptable_schedule_says_what_to_change(dag: DagSpec, error: type[DagError], message: str) -> None:
    with pytest.raises(error, match=message):
        check_schedule(dag)
