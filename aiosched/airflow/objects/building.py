"""Which DAG and group are being built, as functions that make parts of DAGs ask Airflow."""

from __future__ import annotations

from typing import Any

from aiosched.authoring.base import building


class DagContext:
    """The DAGs of the enclosing `with` blocks."""

    @staticmethod
    def get_current_dag() -> Any:
        """The innermost, or None."""
        return building.current_dag()

    get_current = get_current_dag

    @staticmethod
    def push_context_managed_dag(dag: Any) -> None:
        """Enter the DAG, as `with` does."""
        dag.__enter__()

    @staticmethod
    def pop_context_managed_dag() -> Any:
        """Leave the innermost DAG, which is returned."""
        dag: Any = building.current_dag()
        if dag is not None:
            dag.__exit__(None, None, None)
        return dag


class TaskGroupContext:
    """The groups of the enclosing `with` blocks."""

    @staticmethod
    def get_current_task_group(dag: Any) -> Any:
        """The innermost group of the DAG (None: of the innermost DAG); that of the DAG itself outside of groups."""
        of: Any = dag or building.current_dag()
        return None if of is None else building.current_group(of) or of.task_group

    get_current = get_current_task_group
