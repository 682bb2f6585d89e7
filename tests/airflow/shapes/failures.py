"""DAGs with failures: trigger rules, retries, setup and teardown, stopping at the first failure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, setup, task, teardown
from airflow.sdk.exceptions import AirflowFailException

START = datetime(2026, 1, 1, tzinfo=UTC)
RULES = (
    "all_success", "all_failed", "all_done", "one_success", "one_failed", "one_done", "none_failed",
    "none_failed_min_one_success", "none_skipped", "always",
)  # fmt: skip


@task
def fail() -> None:
    raise ValueError("as planned")


with DAG("trigger_rules", start_date=START, schedule=None):
    good, bad = EmptyOperator(task_id="good"), fail()
    for rule in RULES:
        [good, bad] >> EmptyOperator(task_id=rule, trigger_rule=rule)
        bad >> EmptyOperator(task_id=f"only_{rule}", trigger_rule=rule) >> EmptyOperator(task_id=f"after_{rule}")

with DAG("last_tasks_decide", start_date=START, schedule=None):
    fail() >> EmptyOperator(task_id="cleanup", trigger_rule="all_done")

with DAG("retries", start_date=START, schedule=None, default_args={"retries": 2, "retry_delay": timedelta(seconds=0)}):

    @task
    def second_try(**context: object) -> None:
        if context["ti"].try_number < 2:  # type: ignore[attr-defined]
            raise ValueError("not yet")

    @task
    def at_once() -> None:
        raise AirflowFailException("no retry")

    second_try() >> EmptyOperator(task_id="after_success")
    at_once() >> EmptyOperator(task_id="after_failure")

with DAG("exit_codes", start_date=START, schedule=None):
    BashOperator(task_id="skips", bash_command="exit 99") >> EmptyOperator(task_id="after_skip")
    BashOperator(task_id="skips_too", bash_command="exit 7", skip_on_exit_code=[7])
    BashOperator(task_id="fails", bash_command="exit 1") >> EmptyOperator(task_id="after_failure")

for works in (True, False):
    with DAG(f"setup_and_teardown_{'good' if works else 'bad'}", start_date=START, schedule=None):

        @setup
        def create() -> None: ...

        @teardown
        def remove() -> None: ...

        with create() >> remove():
            (EmptyOperator(task_id="work") if works else fail()) >> EmptyOperator(task_id="more")

with DAG("teardown_fails", start_date=START, schedule=None):

    @teardown
    def remove_badly() -> None:
        raise ValueError("it is still there")

    EmptyOperator(task_id="work") >> remove_badly()

with DAG("setup_fails", start_date=START, schedule=None):

    @setup
    def create_badly() -> None:
        raise ValueError("no room")

    @teardown
    def remove_anyway() -> None: ...

    with create_badly() >> remove_anyway():
        EmptyOperator(task_id="work") >> EmptyOperator(task_id="done", trigger_rule="all_done")
