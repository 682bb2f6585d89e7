"""`sla`, `email` and `sla_miss_callback`: what authors write, and what is told.

Source: the semantics reference, section 23.3.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched import DAG, EmptyOperator, PythonOperator, task
from aiosched.authoring.base.checks import AuthoringWarning
from aiosched.authoring.dag.serialize import advise
from aiosched.authoring.dag.slas import BlockingTask, MissedSlas, SlaMiss
from aiosched.errors import DagError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def daily(**options: Any) -> DAG:
    return DAG("d", schedule="@daily", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False, **options)


def missed(*tasks: str) -> MissedSlas:
    return MissedSlas(
        [SlaMiss("d", name, NOON, NOON) for name in tasks],
        [BlockingTask("d", "slow", -1, "r", NOON, "running", 1)],
    )


@pytest.mark.parametrize("given", [timedelta(minutes=30), 1800, 1800.0], ids=str)
def test_an_sla_is_stored_in_seconds(given: Any) -> None:
    with daily() as dag:
        EmptyOperator(task_id="t", sla=given)

    assert dag.to_spec().tasks[0].sla == 1800.0


def test_an_sla_may_come_by_default_args_and_belongs_to_a_mapped_task_as_a_whole() -> None:
    with daily(default_args={"sla": timedelta(minutes=1)}) as dag:

        @task
        def work(n: int) -> None: ...

        work.expand(n=[1, 2])

    assert dag.to_spec().tasks[0].sla == 60.0


@pytest.mark.parametrize("wrong", [-1, "an hour", timedelta(-1)], ids=str)
def test_what_is_no_duration_is_refused(wrong: Any) -> None:
    with pytest.raises(DagError, match=r"sla=.* is wrong"):
        EmptyOperator(task_id="t", sla=wrong)


@pytest.mark.parametrize("wrong", [7, ["a@x", 7]], ids=str)
def test_what_is_no_address_is_refused(wrong: Any) -> None:
    with pytest.raises(DagError, match=r"email=.* is wrong"):
        EmptyOperator(task_id="t", sla=1, email=wrong)


@pytest.mark.parametrize(
    ("callback", "options", "expected"),
    [
        pytest.param(print, {"sla": 1}, True, id="callback"),
        pytest.param(None, {"sla": 1, "email": "a@x"}, True, id="mail"),
        pytest.param(None, {"sla": 1}, False, id="nobody"),
        pytest.param(print, {}, False, id="no sla"),
    ],
)
def test_the_scheduler_knows_whether_somebody_wants_to_hear_of_it(
    callback: Callable[..., Any] | None, options: dict[str, Any], expected: bool
) -> None:
    with daily(sla_miss_callback=callback) as dag:
        EmptyOperator(task_id="t", **options)

    assert dag.to_spec().tells_missed_slas is expected


@pytest.mark.parametrize(
    ("dag_options", "options", "warning"),
    [
        pytest.param({"schedule": None}, {"sla": 1}, "has no schedule dates", id="no schedule"),
        pytest.param({"sla_miss_callback": print}, {}, "no task with an SLA", id="callback alone"),
        pytest.param({}, {"email": "a@x"}, "there is no sla=", id="email alone"),
    ],
)
def test_what_cannot_have_an_effect_is_a_warning(
    dag_options: dict[str, Any], options: dict[str, Any], warning: str
) -> None:
    with DAG("d", **{"schedule": "@daily", **dag_options}) as dag:
        EmptyOperator(task_id="t", **options)

    with pytest.warns(AuthoringWarning, match=warning):
        advise(dag)


def test_what_airflows_tutorials_write_is_no_warning() -> None:
    defaults = {"email": ["a@x"], "email_on_failure": False, "email_on_retry": False}
    with daily(default_args=defaults) as dag:
        EmptyOperator(task_id="t")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        advise(dag)


def test_the_callback_gets_what_it_got_from_airflow() -> None:
    def callback(dag: Any, task_list: str, blocking_task_list: str, slas: Any, blocking_tis: Any) -> None: ...

    with daily(sla_miss_callback=callback) as dag:
        PythonOperator(task_id="load", python_callable=print, sla=60)
    told = missed("load")

    ((name, called, arguments),) = told.calls(dag, {})  # type: ignore[arg-type]

    assert (name, called) == ("callback callback", callback)
    assert arguments == (
        dag,
        "load on 2026-01-01T12:00:00+00:00",
        "slow on 2026-01-01T12:00:00+00:00",
        told.slas,
        told.blocking_tis,
    )
    assert told.slas[0].execution_date == told.blocking_tis[0].execution_date == NOON


def test_the_mail_goes_to_the_addresses_of_the_tasks_that_are_late() -> None:
    with daily() as dag:
        EmptyOperator(task_id="load", sla=60, email="ops@x, data@x")
        EmptyOperator(task_id="check", sla=60, email=["data@x"])
        EmptyOperator(task_id="other", sla=60, email="other@x")

    ((_, send, _),) = missed("load", "check").calls(dag, {})  # type: ignore[arg-type]
    message = send.__self__.message("sender@x")  # type: ignore[attr-defined]

    assert (message["Subject"], message["To"]) == ("[aiosched] SLA miss on DAG=d", "data@x, ops@x")
    text = message.get_content()
    assert "load on 2026-01-01T12:00:00+00:00\ncheck on 2026-01-01T12:00:00+00:00" in text
    assert "slow on 2026-01-01T12:00:00+00:00" in text


def test_an_address_that_is_not_set_is_left_out() -> None:
    with DAG("d") as dag:
        EmptyOperator(task_id="none", email=[None])  # type: ignore[list-item]
        EmptyOperator(task_id="one", email=["data@x", None])  # type: ignore[list-item]

    assert [dag.get_task(name).email for name in ("none", "one")] == [[], ["data@x"]]
