"""Airflow's executors by name, for files that give one to a `SubDagOperator`. No task runs in them."""

from __future__ import annotations

from typing import Any

from aiosched.airflow.objects.named_classes import define


class BaseExecutor:
    """An executor that does nothing: the setting `executor.engine` and `executor=` of a task choose aiosched's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes what Airflow's executors take."""


class LocalExecutor(BaseExecutor):
    """Processes of the machine."""


def get_default_executor() -> BaseExecutor:
    """Some executor, for `SubDagOperator(executor=get_default_executor())`."""
    return LocalExecutor()


define(
    globals(),
    BaseExecutor,
    CeleryExecutor="Celery's.",
    CeleryKubernetesExecutor="One of the two, by queue.",
    DaskExecutor="Dask's.",
    DebugExecutor="In the process that asks.",
    KubernetesExecutor="Pods.",
    LocalKubernetesExecutor="One of the two, by queue.",
    SequentialExecutor="One task after another.",
)
