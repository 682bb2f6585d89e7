"""Airflow's executors by name, for files that give one to a `SubDagOperator`. No task runs in them."""

from __future__ import annotations

from typing import Any


class BaseExecutor:
    """An executor that does nothing: the setting `executor.engine` and `executor=` of a task choose aiosched's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes what Airflow's executors take."""


class CeleryExecutor(BaseExecutor):
    """Celery's."""


class CeleryKubernetesExecutor(BaseExecutor):
    """One of the two, by queue."""


class DaskExecutor(BaseExecutor):
    """Dask's."""


class DebugExecutor(BaseExecutor):
    """In the process that asks."""


class KubernetesExecutor(BaseExecutor):
    """Pods."""


class LocalExecutor(BaseExecutor):
    """Processes of the machine."""


class LocalKubernetesExecutor(BaseExecutor):
    """One of the two, by queue."""


class SequentialExecutor(BaseExecutor):
    """One task after another."""


def get_default_executor() -> BaseExecutor:
    """Some executor, for `SubDagOperator(executor=get_default_executor())`."""
    return LocalExecutor()
