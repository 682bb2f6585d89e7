"""The defaults that keep Airflow's names, with the decisions. Source: the semantics reference, sections 32 and 34.

Options about what is not there (heartbeats, polling, sweeps, row locks, triggerers, Celery) have no counterpart. These
have one value: ignore files have glob syntax, every change of a DAG is stored. Those of sensors and other timeouts are
in test_time_limits.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from aiosched import DAG, EmptyOperator, PythonOperator
from aiosched.authoring.base.settings import AuthoringDefaults, defaults, use_defaults
from aiosched.config import Settings
from aiosched.errors import DagError
from aiosched.executors.dag_test import run_dag_test


@contextmanager
def installed(**sections: dict[str, Any]) -> Iterator[None]:
    """Files are loaded with these settings."""
    before = defaults()
    use_defaults(AuthoringDefaults.of(Settings.model_validate(sections)))
    try:
        yield
    finally:
        use_defaults(before)


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("core.parallelism", 32),
        ("core.max_active_tasks_per_dag", 16),
        ("core.max_active_runs_per_dag", 16),
        ("core.max_consecutive_failed_dag_runs_per_dag", 0),
        ("core.dags_are_paused_at_creation", False),  # decision 16
        ("core.default_task_retries", 0),
        ("core.default_task_retry_delay", 300.0),
        ("core.max_task_retry_delay", 86400.0),
        ("core.default_task_execution_timeout", None),
        ("core.dag_run_conf_overrides_params", True),
        ("core.default_pool_task_slot_count", 128),  # decision 19
        ("core.default_task_weight_rule", "downstream"),
        ("core.max_map_length", 1024),
        ("core.default_timezone", "UTC"),
        ("core.dagbag_import_timeout", 30.0),
        ("core.dag_discovery_safe_mode", True),
        ("core.killed_task_cleanup_time", 60.0),
        ("core.check_slas", True),
        ("scheduler.catchup_by_default", False),
        ("scheduler.task_queued_timeout", 600.0),
        ("scheduler.num_stuck_in_queued_retries", 2),
        ("scheduler.allowed_run_id_pattern", r"^[A-Za-z0-9_.~:+-]+$"),
        ("scheduler.max_dagruns_to_create_per_loop", 100),  # Airflow: 10; here one transaction, whatever the number
        ("scheduler.max_triggers", 10_000),  # a triggerer's capacity: 1000
        ("executor.kind", "local"),
        ("parsing.min_file_process_interval", 30.0),
        ("parsing.refresh_interval", 300.0),
        ("parsing.file_parsing_sort_mode", "modified_time"),
        ("parsing.file_timeout", 50.0),
        ("parsing.cleanup_interval", 60.0),
        ("executor.missing_dag_retries", 3),
        ("executor.missing_dag_retry_delay", 60.0),
    ],
)
def test_a_setting_has_its_default(name: str, default: object) -> None:
    section, option = name.split(".")
    settings: Any = Settings()

    assert getattr(getattr(settings, section), option) == default


def test_a_dag_and_a_task_that_say_nothing_have_the_usual_limits() -> None:
    with DAG("d", schedule=None) as dag:
        EmptyOperator(task_id="a")

    spec = dag.to_spec()

    assert (spec.catchup, spec.max_active_runs, spec.max_active_tasks) == (False, 16, 16)
    (task,) = spec.tasks
    assert (task.retries, task.retry_delay, task.weight_rule, task.trigger_rule) == (
        0,
        300.0,
        "downstream",
        "all_success",
    )
    assert (task.pool, task.pool_slots, task.priority_weight) == ("default_pool", 1, 1)
    assert task.ignore_first_depends_on_past


@pytest.mark.parametrize(("own", "limit"), [(None, 60.0), (5, 5.0), (timedelta(hours=1), 3600.0)], ids=str)
def test_a_try_may_take_as_long_as_the_installation_says_where_the_task_says_nothing(own: Any, limit: float) -> None:
    with installed(core={"default_task_execution_timeout": 60}), DAG("d", schedule=None) as dag:
        EmptyOperator(task_id="a", execution_timeout=own)

    assert dag.to_spec().tasks[0].execution_timeout == limit


@pytest.mark.parametrize(("own", "catchup"), [(None, True), (True, True), (False, False)])
def test_catchup_is_what_the_installation_says_where_the_dag_says_nothing(own: bool | None, catchup: bool) -> None:
    with installed(scheduler={"catchup_by_default": True}):
        dag = DAG("d", schedule="@daily", start_date="2026-01-01", catchup=own)

    assert dag.to_spec().catchup is catchup


def test_catchup_by_default_needs_a_start_date_too() -> None:
    with installed(scheduler={"catchup_by_default": True}):
        dag = DAG("d", schedule="@daily")

    with pytest.raises(DagError, match=r"no start_date to begin at\. Give it one, or catchup=False"):
        dag.to_spec()


@pytest.mark.parametrize(("overrides", "params"), [(True, {"a": 1, "b": 3, "c": 4}), (False, {"a": 1, "b": 2})])
async def test_whether_a_runs_conf_goes_over_params(overrides: bool, params: dict[str, int]) -> None:
    """It stays in `conf` and `dag_run.conf` either way."""
    seen: list[Any] = []
    with DAG("d", schedule=None, params={"a": 1, "b": 2}) as dag:
        PythonOperator(task_id="t", python_callable=lambda params, conf: seen.extend([dict(params), conf]))

    with installed(core={"dag_run_conf_overrides_params": overrides}):
        run = await run_dag_test(dag, conf={"b": 3, "c": 4})

    assert run.state == "success"
    assert seen == [params, {"b": 3, "c": 4}]
