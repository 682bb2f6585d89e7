"""Branches by the clock, and latest only. Source: the semantics reference, section 7.3."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any

import msgspec
import pytest

from aiosched import (
    DAG,
    BaseBranchOperator,
    BranchDateTimeOperator,
    BranchDayOfWeekOperator,
    Context,
    EmptyOperator,
    LatestOnlyOperator,
    WeekDay,
    task,
)
from aiosched.clock import FakeClock
from aiosched.core.values.messages import SkipDecision
from aiosched.errors import BranchError, DagError
from tests.authoring.authoring_builders import attempt_of, context_of

FRIDAY = datetime(2026, 1, 2, 12, tzinfo=UTC)
AWAY = {"follow_task_ids_if_true": "yes", "follow_task_ids_if_false": "no"}


def branch_in(zone: str, kind: Any, **options: Any) -> BaseBranchOperator:
    with DAG("d", schedule=None) as dag:
        dag.zone_name = zone
        branch: BaseBranchOperator = kind(task_id="t", **options)
        branch >> [EmptyOperator(task_id="yes"), EmptyOperator(task_id="no")]
    return branch


def followed(branch: BaseBranchOperator, **attempt: Any) -> tuple[str, ...] | None:
    context = context_of(branch, attempt_of(**attempt))
    branch.execute(context)
    decision: SkipDecision = context["ti"].skip_decision
    return decision.followed


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock(FRIDAY)
    monkeypatch.setattr(BaseBranchOperator, "clock", clock)
    monkeypatch.setattr(LatestOnlyOperator, "clock", clock)
    return clock


@pytest.mark.parametrize(
    ("days", "options", "zone", "way"),
    [
        ("Friday", {}, "UTC", "yes"),
        (WeekDay.THURSDAY, {}, "UTC", "no"),
        ({"Monday", WeekDay.FRIDAY}, {}, "UTC", "yes"),
        ("Saturday", {}, "Pacific/Kiritimati", "yes"),  # 14 hours ahead
        ("Friday", {"use_task_logical_date": True}, "UTC", "yes"),
        ("Thursday", {"use_task_logical_date": True}, "America/New_York", "yes"),  # 2026-01-02T03:04Z
    ],
)
def test_a_branch_by_the_day_of_the_week(clock: FakeClock, days: Any, options: Any, zone: str, way: str) -> None:
    assert followed(branch_in(zone, BranchDayOfWeekOperator, week_day=days, **AWAY, **options)) == (way,)


@pytest.mark.parametrize(
    ("lower", "upper", "way"),
    [
        (FRIDAY, None, "yes"),
        (FRIDAY + timedelta(seconds=1), None, "no"),
        (None, FRIDAY, "yes"),
        (None, FRIDAY - timedelta(seconds=1), "no"),
        (FRIDAY - timedelta(days=1), FRIDAY + timedelta(days=1), "yes"),
        (datetime(2026, 1, 2, 13), datetime(2026, 1, 2, 14), "yes"),  # noqa: DTZ001  naive: the DAG's zone
        (time(13), time(14), "yes"),
        (time(9), time(12, 59), "no"),
        (time(22), time(13), "yes"),  # over midnight
        (time(22), time(6), "no"),
        (time(6), datetime(2026, 1, 3, tzinfo=UTC), "yes"),
    ],
)
def test_a_branch_by_the_time(clock: FakeClock, lower: Any, upper: Any, way: str) -> None:
    branch = branch_in("Europe/Amsterdam", BranchDateTimeOperator, target_lower=lower, target_upper=upper, **AWAY)

    assert followed(branch) == (way,)


def test_a_branch_may_go_by_the_logical_date(clock: FakeClock) -> None:
    options = {"target_lower": time(3), "target_upper": time(4), "use_task_logical_date": True}

    assert followed(branch_in("UTC", BranchDateTimeOperator, **options, **AWAY)) == ("yes",)
    assert followed(branch_in("UTC", BranchDateTimeOperator, **options, **AWAY), logical_date=None) == ("no",)


async def test_a_branch_may_be_a_class_with_a_coroutine_function() -> None:
    class Chooses(BaseBranchOperator):
        async def choose_branch(self, context: Context) -> str:
            return "nobody"

    branch = branch_in("UTC", Chooses)

    assert branch.is_async
    with pytest.raises(BranchError, match="nobody"):
        await branch.execute(context_of(branch))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"week_day": "Fri"}, "week_day='Fri' is wrong"),
        ({"week_day": 5}, "is wrong"),
        ({"target_lower": None, "target_upper": None}, "give target_lower, target_upper or both"),
    ],
)
def test_a_wrong_branch_is_an_error_of_its_author(options: Any, words: str) -> None:
    kind = BranchDayOfWeekOperator if "week_day" in options else BranchDateTimeOperator

    with pytest.raises(DagError, match=words):
        branch_in("UTC", kind, **options, **AWAY)


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("schedule", "interval", "run_type", "latest"),
    [
        ("@hourly", (FRIDAY - 2 * HOUR, FRIDAY - HOUR), "scheduled", True),  # now is the end of the next one
        ("@hourly", (FRIDAY - HOUR, FRIDAY), "scheduled", False),  # not strictly after its own end
        ("@hourly", (FRIDAY - 1.5 * HOUR, FRIDAY - HOUR / 2), "scheduled", True),
        ("@hourly", (FRIDAY - 3 * HOUR, FRIDAY - 2 * HOUR), "scheduled", False),
        ("@hourly", (FRIDAY - 3 * HOUR, FRIDAY - 2 * HOUR), "backfill", False),
        ("@hourly", (FRIDAY - 3 * HOUR, FRIDAY - 2 * HOUR), "manual", True),
        ("@hourly", (FRIDAY - 3 * HOUR, FRIDAY - 3 * HOUR), "scheduled", True),  # no length
        (None, None, "asset_triggered", True),
        ("@once", (FRIDAY - 3 * HOUR, FRIDAY - 2 * HOUR), "scheduled", True),  # nothing follows
    ],
)
def test_only_the_latest_run_goes_on(
    clock: FakeClock, schedule: Any, interval: Any, run_type: str, latest: bool
) -> None:
    with DAG("d", schedule=schedule, start_date="2026-01-01", catchup=False):

        @task
        def work() -> None: ...

        only = LatestOnlyOperator(task_id="t")
        only >> [work.override(task_id="a")(), work.override(task_id="b")()]
        only >> work.override(task_id="down")().as_teardown()
    one = attempt_of()
    start, end = interval or (None, None)
    run = msgspec.structs.replace(one.run, run_type=run_type, interval_start=start, interval_end=end)
    context = context_of(only, msgspec.structs.replace(one, run=run))

    only.execute(context)

    assert context["ti"].skip_decision == (None if latest else SkipDecision(skipped=("a", "b")))
    assert only.can_skip_downstream
