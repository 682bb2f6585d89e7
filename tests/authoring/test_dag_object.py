"""The DAG object: its parameters, their checks, and what the scheduler gets of them."""

from __future__ import annotations

import warnings
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pendulum
import pytest

from aiosched import DAG, EmptyOperator, Param, PythonOperator, dag, task
from aiosched.authoring.base.checks import AuthoringWarning
from aiosched.authoring.base.settings import AuthoringDefaults, defaults, use_defaults
from aiosched.errors import DagCycleError, DagError, DuplicateTaskError, NotFound, ParamError, TimetableError

START = datetime(2026, 1, 1, tzinfo=UTC)
HERE = __file__


def refused(error: DagError, *words: str) -> None:
    """The error names this file and says `words`."""
    assert error.file == HERE
    assert error.line
    assert f"({HERE}:{error.line})" in str(error)
    for word in words:
        assert word in str(error)


def test_a_dag_says_what_the_scheduler_needs() -> None:
    built = DAG(
        "sales",
        schedule=None,
        start_date=START,
        end_date="2026-02-01",
        catchup=True,
        tags=["b", "a", "b"],
        description="what it is",
        doc_md="more",
        max_active_runs=3,
        max_active_tasks=4,
        max_active_tasks_per_run=2,
        max_consecutive_failed_dag_runs=5,
        dagrun_timeout=timedelta(hours=1),
        fail_fast=True,
        is_paused_upon_creation=True,
        on_failure_callback=print,
        params={"n": 1},
        owner_links={"ann": "https://example.org"},
    )
    spec = built.to_spec()

    assert (spec.dag_id, spec.timezone, spec.tags) == ("sales", "UTC", ("a", "b"))
    assert (spec.start_date, spec.end_date) == (START, datetime(2026, 2, 1, tzinfo=UTC))
    assert (spec.max_active_runs, spec.max_active_tasks, spec.max_active_tasks_per_run) == (3, 4, 2)
    assert (spec.dagrun_timeout, spec.fail_fast, spec.is_paused_upon_creation) == (3600.0, True, True)
    assert (spec.has_success_callback, spec.has_failure_callback) == (False, True)
    assert spec.max_consecutive_failed_dag_runs == 5
    assert spec.params["n"].value == 1
    assert spec.owner_links == {"ann": "https://example.org"}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("max_active_run", "Did you mean 'max_active_runs'?"),
        ("schedule_interval", "Use 'schedule' instead."),
        ("concurrency", "Use 'max_active_tasks' instead."),
        ("fail_stop", "Use 'fail_fast' instead."),
        ("zzz", "Remove it, or use one of: access_control, allowed_run_types, auto_register, catchup"),
    ],
)
def test_an_unknown_parameter_is_named_with_the_near_one(name: str, hint: str) -> None:
    with pytest.raises(DagError) as caught:
        DAG("d", **{name: 1})

    refused(caught.value, "DAG('d')", repr(name), hint)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"dag_id": "a b"}, ["'a b' cannot be a dag_id", "letters, digits"]),
        ({"dag_id": ".."}, ["'..' cannot be a dag_id", "not '.' or '..'"]),
        ({"dag_id": "a\n"}, ["'a\\n' cannot be a dag_id"]),
        ({"dag_id": "d", "max_active_runs": -1}, ["max_active_runs=-1", "whole number of at least 0"]),
        ({"dag_id": "d", "max_active_tasks": "2"}, ["max_active_tasks='2'"]),
        ({"dag_id": "d", "dagrun_timeout": "1h"}, ["dagrun_timeout='1h'", "seconds"]),
        ({"dag_id": "d", "dagrun_timeout": float("nan")}, ["dagrun_timeout=nan", "seconds"]),
        ({"dag_id": "d", "start_date": "yesterday"}, ["start_date='yesterday'", "2026-01-31"]),
        ({"dag_id": "d", "start_date": 5}, ["start_date=5"]),
        ({"dag_id": "d", "tags": "etl"}, ["tags='etl'", "list of strings"]),
        ({"dag_id": "d", "on_failure_callback": "mail"}, ["on_failure_callback='mail'", "function"]),
        ({"schedule": None}, ["DAG needs 'dag_id'"]),
    ],
)
def test_a_wrong_value_is_an_error_at_the_authors_line(given: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(DagError) as caught:
        DAG(**given)

    refused(caught.value, *words)


def test_a_bad_schedule_is_an_error_at_the_authors_line() -> None:
    with pytest.raises(TimetableError) as caught:
        DAG("d", schedule="61 * * * *")

    refused(caught.value, "DAG 'd'", "61 * * * *")


def test_what_has_no_effect_here_is_a_warning() -> None:
    with pytest.warns(AuthoringWarning, match="'default_view' has no effect") as caught:
        DAG("d", default_view="graph")  # type: ignore[call-arg]

    assert caught[0].filename == HERE


def test_what_has_no_effect_and_is_off_is_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DAG("d", default_view=None)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("start_date", "instant", "zone"),
    [
        (datetime(2026, 1, 1), "2026-01-01T00:00:00+00:00", "UTC"),  # noqa: DTZ001 - what naive means
        (date(2026, 1, 1), "2026-01-01T00:00:00+00:00", "UTC"),
        ("2026-01-01", "2026-01-01T00:00:00+00:00", "UTC"),
        ("2026-01-01T06:00:00+02:00", "2026-01-01T04:00:00+00:00", "+02:00"),
        (START, "2026-01-01T00:00:00+00:00", "UTC"),
        (datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam")), "2025-12-31T23:00:00+00:00", "Europe/Amsterdam"),
        (pendulum.datetime(2026, 1, 1, tz="Europe/Amsterdam"), "2025-12-31T23:00:00+00:00", "Europe/Amsterdam"),
        (pendulum.datetime(2026, 1, 1), "2026-01-01T00:00:00+00:00", "UTC"),
        (datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=-5))), "2026-01-01T05:00:00+00:00", "-05:00"),
    ],
)
def test_the_time_zone_is_that_of_the_start_date(start_date: Any, instant: str, zone: str) -> None:
    spec = DAG("d", schedule="@daily", start_date=start_date).to_spec()

    assert spec.start_date is not None
    assert (spec.start_date.isoformat(), spec.timezone) == (instant, zone)


def test_start_date_and_time_zone_may_come_from_the_default_arguments() -> None:
    amsterdam = datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam"))
    spec = DAG("d", schedule="@daily", default_args={"start_date": amsterdam}).to_spec()

    assert spec.timezone == "Europe/Amsterdam"
    assert spec.start_date == amsterdam


def test_an_installations_defaults_hold_where_the_author_says_nothing() -> None:
    before = defaults()
    use_defaults(
        AuthoringDefaults(timezone="Asia/Tokyo", max_active_runs=2, max_active_tasks=3, retries=4, retry_delay=5)
    )
    try:
        with DAG("d", start_date="2026-01-01") as built:
            EmptyOperator(task_id="t")
    finally:
        use_defaults(before)
    spec = built.to_spec()

    assert (spec.timezone, spec.max_active_runs, spec.max_active_tasks) == ("Asia/Tokyo", 2, 3)
    assert (spec.tasks[0].retries, spec.tasks[0].retry_delay) == (4, 5.0)
    assert spec.start_date == datetime(2025, 12, 31, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("setting", "own", "backoff", "stored"),
    [
        (86_400.0, None, True, None),  # the longest delay that there is when nobody says anything
        (86_400.0, 60, True, 60.0),
        (86_400.0, 200_000, True, 86_400.0),
        (3_600.0, None, True, 3_600.0),
        (3_600.0, 60, True, 60.0),
        (3_600.0, 7_200, True, 3_600.0),
        (200_000.0, None, True, 200_000.0),
        (200_000.0, 100_000, True, 100_000.0),
        (3_600.0, None, False, None),  # a constant delay is exact
    ],
)
def test_the_longest_retry_delay_is_that_of_the_task_within_that_of_the_installation(
    setting: float, own: float | None, backoff: bool, stored: float | None
) -> None:
    """The setting core.max_task_retry_delay. Source: the semantics reference, section 22.1."""
    before = defaults()
    use_defaults(AuthoringDefaults(max_retry_delay=setting))
    try:
        with DAG("d", schedule=None) as built:
            EmptyOperator(task_id="t", max_retry_delay=own, retry_exponential_backoff=backoff)
        spec = built.to_spec()
    finally:
        use_defaults(before)

    assert spec.tasks[0].max_retry_delay == stored


def test_a_continuous_schedule_allows_one_active_run() -> None:
    assert DAG("d", schedule="@continuous", start_date=START).max_active_runs == 1
    with pytest.raises(DagError) as caught:
        DAG("d", schedule="@continuous", start_date=START, max_active_runs=2)

    refused(caught.value, "max_active_runs=2", "Leave max_active_runs out")


def test_catchup_needs_a_start_date_of_the_dag_or_a_task() -> None:
    with DAG("d", schedule="@daily", catchup=True) as built:
        first = EmptyOperator(task_id="t")
    with pytest.raises(DagError) as caught:
        built.to_spec()
    first.start_date = START

    refused(caught.value, "catchup=True", "start_date")
    assert built.to_spec().catchup


def test_a_schedule_needs_valid_defaults_of_all_params() -> None:
    with pytest.raises(ParamError) as missing:
        DAG("d", schedule="@daily", params={"n": Param(type="integer")}).to_spec()
    with pytest.raises(ParamError) as wrong:
        DAG("d", schedule="@daily", params={"n": Param("x", type="integer")}).to_spec()

    refused(missing.value, "'n'", "no default")
    refused(wrong.value, "'n'", "'x' is not of type integer")
    assert DAG("d", params={"n": Param(type="integer")}).to_spec().params["n"].required


@pytest.mark.parametrize("value", [object(), {"a": [object()]}, lambda: 1, "half of a character: \ud800"])
def test_a_param_that_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(ParamError) as caught:
        DAG("d", params={"n": value}).to_spec()

    refused(caught.value, "Param 'n'", "cannot be stored")


def test_a_second_task_with_the_same_id_names_the_place_of_the_first() -> None:
    with DAG("d"):
        EmptyOperator(task_id="t")
        with pytest.raises(DuplicateTaskError) as caught:
            EmptyOperator(task_id="t")

    refused(caught.value, "'t' already, first at", f"{HERE}:{(caught.value.line or 0) - 2}", "another task_id")


@pytest.mark.parametrize("arrows", ["aa", "aba", "abca", "sabcad"])
def test_a_cycle_is_named(arrows: str) -> None:
    with DAG("d") as built:
        tasks = {name: EmptyOperator(task_id=name) for name in sorted(set(arrows))}
        for one, other in pairwise(arrows):
            tasks[one] >> tasks[other]
    with pytest.raises(DagCycleError) as caught:
        built.to_spec()

    inside = arrows.strip("sd")
    refused(caught.value, " >> ".join(inside), "Remove one")


def test_a_long_chain_has_no_cycle() -> None:
    with DAG("d") as built:
        before = EmptyOperator(task_id="t0")
        for number in range(1, 3000):
            before = before >> EmptyOperator(task_id=f"t{number}")

    built.check_cycle()
    assert [task.task_id for task in built.roots] == ["t0"]
    assert [task.task_id for task in built.leaves] == ["t2999"]


def test_an_unknown_task_is_named_with_the_near_one() -> None:
    with DAG("d") as built:
        EmptyOperator(task_id="extract")

    assert built.task("extract") is built.task_dict["extract"]
    with pytest.raises(NotFound, match=r"no task 'extrat'\. Did you mean 'extract'"):
        built.task("extrat")


def test_fail_fast_allows_only_all_success_and_teardowns() -> None:
    """Section 5.2 of the semantics reference."""
    with DAG("d", fail_fast=True) as built:
        EmptyOperator(task_id="a").as_teardown(setups=EmptyOperator(task_id="s"))
        EmptyOperator(task_id="b", trigger_rule="all_done")
    with pytest.raises(DagError) as caught:
        built.to_spec()

    refused(caught.value, "fail_fast", "'b'", "all_success")


def test_the_rule_of_teardowns_is_for_teardowns() -> None:
    with DAG("d") as built:
        EmptyOperator(task_id="b", trigger_rule="all_done_setup_success")
    with pytest.raises(DagError) as caught:
        built.to_spec()

    refused(caught.value, "as_teardown")


def test_a_task_directly_after_a_setup_must_have_all_success() -> None:
    with DAG("d") as built:
        EmptyOperator(task_id="s").as_setup() >> EmptyOperator(task_id="b", trigger_rule="all_done")
    with pytest.raises(DagError) as caught:
        built.to_spec()

    refused(caught.value, "setup 's'", "'b'")


def test_the_dag_decorator_builds_a_dag_with_params_from_the_functions_parameters() -> None:
    @dag(schedule=None, tags=["x"])
    def nightly(region: str = "eu", limit: int = 5) -> None:
        """What it does."""
        PythonOperator(task_id="t", python_callable=print, op_args=[region], op_kwargs={"end": limit})

    built = nightly(limit=7)

    assert (built.dag_id, built.doc_md) == ("nightly", "What it does.")
    assert dict(built.params) == {"region": "eu", "limit": 7}
    assert built.to_spec().tasks[0].template_fields["op_args"] == ["{{ params['region'] }}"]


def test_the_dag_decorator_takes_the_id_first_or_nothing_at_all() -> None:
    @dag("other_id")
    def one() -> None: ...

    @dag
    def two() -> None: ...

    assert (one().dag_id, two().dag_id) == ("other_id", "two")


async def test_a_dag_can_be_tried_without_a_database() -> None:
    @task
    def double(x: int) -> int:
        return 2 * x

    with DAG("d", params={"n": 3}) as built:
        double(built.param("n"))
    result = await built.test(logical_date="2026-01-01", conf={"n": 4})

    assert result.state == "success"
    assert result.xcoms["double"]["return_value"] == 8


def test_a_call_that_does_not_fit_the_dag_function_is_an_error_at_its_line() -> None:
    @dag
    def needs(x: int) -> None: ...

    with pytest.raises(DagError) as caught:
        needs()  # type: ignore[call-arg]

    refused(caught.value, "needs(…)", "'x'")


@pytest.mark.parametrize(
    ("start_date", "name"),
    [
        ("2026-01-01", "UTC"),
        ("2026-01-01T00:00:00+02:00", "+02:00"),
        (datetime(2026, 7, 1, tzinfo=ZoneInfo("Europe/Rome")), "Europe/Rome"),
    ],
)
def test_the_time_zone_of_a_dag_is_one_that_datetimes_take(start_date: Any, name: str) -> None:
    zone = DAG("d", start_date=start_date).timezone

    assert zone.name == name
    assert datetime(2026, 7, 1, tzinfo=zone).utcoffset() == timedelta(hours=0 if name == "UTC" else 2)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (datetime.max, datetime.max.replace(tzinfo=UTC)),  # noqa: DTZ901 - as people write "no end"
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))), datetime.max.replace(tzinfo=UTC)),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), datetime.min.replace(tzinfo=UTC)),
        (pendulum.datetime(9999, 12, 31, 23, 59, 59, 999_999, tz="America/New_York"), datetime.max.replace(tzinfo=UTC)),
        (datetime(2400, 1, 1, 0, 0, 0, 1, tzinfo=UTC), datetime(2400, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
    ],
)
def test_a_date_at_an_end_of_the_calendar_is_no_error(given: datetime, stored: datetime) -> None:
    with DAG("d", schedule="@daily", start_date=datetime(1, 1, 1, tzinfo=UTC), end_date=given) as dag:
        EmptyOperator(task_id="t", end_date=given)

    spec = dag.to_spec(now=START)

    assert (spec.end_date, spec.tasks[0].end_date) == (stored, stored)
    assert type(spec.end_date) is datetime


@pytest.mark.parametrize("given", [timedelta.max, float("inf"), 1e308, timedelta(days=36_500)])
def test_the_longest_time_is_a_hundred_years(given: Any) -> None:
    with DAG("d", schedule=None, dagrun_timeout=given) as dag:
        EmptyOperator(task_id="t", execution_timeout=given, retry_delay=given, sla=given)

    spec = dag.to_spec(now=START)

    [one] = spec.tasks
    assert {spec.dagrun_timeout, one.execution_timeout, one.retry_delay, one.sla} == {36_500 * 86_400}
