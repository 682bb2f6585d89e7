"""The defaults that keep Airflow's names, with the decisions. Source: the semantics reference, sections 32 and 34.

Options about what is not there (heartbeats, polling, sweeps, row locks, triggerers, Celery) have no counterpart. These
have one value: catchup is off, a run's conf goes over params, ignore files have glob syntax, every change of a DAG is
stored. Those of sensors and other timeouts are in test_section_21.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from aiosched import DAG, EmptyOperator
from aiosched.config import Settings


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
        ("core.default_pool_task_slot_count", 128),  # decision 19
        ("core.default_task_weight_rule", "downstream"),
        ("core.max_map_length", 1024),
        ("core.default_timezone", "UTC"),
        ("core.dagbag_import_timeout", 30.0),
        ("core.dag_discovery_safe_mode", True),
        ("core.killed_task_cleanup_time", 60.0),
        ("core.check_slas", True),
        ("scheduler.task_queued_timeout", 600.0),
        ("scheduler.num_stuck_in_queued_retries", 2),
        ("scheduler.allowed_run_id_pattern", r"^[A-Za-z0-9_.~:+-]+$"),
        ("scheduler.max_dagruns_to_create_per_loop", 100),  # Airflow: 10; here one transaction, whatever the number
        ("scheduler.max_triggers", 10_000),  # a triggerer's capacity: 1000
        ("executor.kind", "local"),
        ("parsing.min_file_process_interval", 30.0),
        ("parsing.refresh_interval", 300.0),
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
