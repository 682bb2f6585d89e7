"""`get_parsing_context`: for which DAG and task a file is imported."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AirflowParsingContext:
    """The DAG and the task for which the file is imported; None while all of its DAGs are read."""

    dag_id: str | None = None
    task_id: str | None = None


def get_parsing_context() -> AirflowParsingContext:
    """Neither DAG nor task: a file is imported once for all of its DAGs, also in workers, which keep it."""
    return AirflowParsingContext()
