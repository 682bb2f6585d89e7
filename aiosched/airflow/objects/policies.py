"""`airflow.settings`: functions that an installation of Airflow may replace, as they are without any."""

from __future__ import annotations

from typing import Any


def pod_mutation_hook(pod: Any) -> None:
    """Change a pod before it is started: nothing is changed here."""


def get_policy_plugin_manager() -> None:
    """None: there are no policies; check DAGs in CI with `aiosched dags check`."""
