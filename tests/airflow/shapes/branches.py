"""DAGs that skip tasks: branches, short circuits, conditions, `latest only`."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.latest_only import LatestOnlyOperator
from airflow.providers.standard.operators.python import BranchPythonOperator, ShortCircuitOperator
from airflow.sdk import DAG, Label, TaskGroup, task
from airflow.sdk.exceptions import AirflowSkipException

START = datetime(2026, 1, 1, tzinfo=UTC)

with DAG("branch_and_join", start_date=START, schedule=None):
    branch = BranchPythonOperator(task_id="branch", python_callable=lambda: ["left", "group"])
    right, last = EmptyOperator(task_id="right"), EmptyOperator(task_id="last")
    with TaskGroup("group") as group:
        EmptyOperator(task_id="first") >> EmptyOperator(task_id="second")
    join = EmptyOperator(task_id="join", trigger_rule="none_failed_min_one_success")
    branch >> Label("chosen") >> EmptyOperator(task_id="left") >> join
    branch >> group >> join
    branch >> right >> [join, last]
    branch >> EmptyOperator(task_id="neither") >> EmptyOperator(task_id="always", trigger_rule="all_done")

with DAG("branch_in_branch", start_date=START, schedule=None):

    @task.branch
    def outer() -> str:
        return "inner"

    @task.branch
    def inner() -> None:
        return None

    chosen = inner()
    outer() >> [chosen, EmptyOperator(task_id="other")]
    chosen >> EmptyOperator(task_id="below") >> EmptyOperator(task_id="failed_none", trigger_rule="none_failed")
    chosen >> EmptyOperator(task_id="one", trigger_rule="one_success")

for ignores in (True, False):
    with DAG(f"short_circuit_{'all' if ignores else 'next'}", start_date=START, schedule=None):
        stop = ShortCircuitOperator(task_id="stop", python_callable=lambda: 0, ignore_downstream_trigger_rules=ignores)
        go = ShortCircuitOperator(task_id="go", python_callable=lambda: 1)
        stop >> EmptyOperator(task_id="a") >> EmptyOperator(task_id="b", trigger_rule="all_done")
        go >> EmptyOperator(task_id="c") >> EmptyOperator(task_id="d", trigger_rule="none_skipped")

with DAG("skips_itself", start_date=START, schedule=None):

    @task
    def skip() -> None:
        raise AirflowSkipException("nothing to do")

    @task.run_if(lambda context: False)
    @task
    def never() -> None: ...

    skipped = skip()
    for rule in ("all_success", "none_failed", "all_skipped", "one_done", "all_done_min_one_success", "none_skipped"):
        [skipped, never()] >> EmptyOperator(task_id=rule, trigger_rule=rule)

with DAG("latest_only", start_date=START, schedule="@daily", catchup=False):
    (
        LatestOnlyOperator(task_id="latest")
        >> EmptyOperator(task_id="a")
        >> EmptyOperator(task_id="b", trigger_rule="all_done")
    )
