"""`DagModel`: what Airflow's code asks the database about a DAG, as far as a task can know it."""

from __future__ import annotations

from typing import Any

from aiosched.authoring.runtime.context import running_context
from aiosched.errors import Refused


class DagModel:
    """The DAG of the running task, by its id and its file."""

    def __init__(self, dag: Any) -> None:
        self.dag_id: str = dag.dag_id
        self.fileloc: str = dag.fileloc
        self.description: str | None = dag.description
        self.owners: str = dag.owner
        self.tags: list[str] = list(dag.tags)

    @classmethod
    def get_dagmodel(cls, dag_id: str, session: object = None) -> DagModel | None:
        """The DAG of the running task. Raises Refused for another one."""
        context = running_context()
        dag = None if context is None else context.get("dag")
        if dag is None or dag.dag_id != dag_id:
            raise Refused(
                f"DagModel.get_dagmodel({dag_id!r}): a task can ask only about its own DAG. Ask the REST API about "
                f"others: GET /api/v1/dags/{dag_id}"
            )
        return cls(dag)

    get_current = get_dagmodel
