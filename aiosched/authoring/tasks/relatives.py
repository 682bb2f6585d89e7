"""The relatives of a task: the tasks before and after it, near and far. Airflow's names for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from aiosched.errors import AioschedError

if TYPE_CHECKING:
    from aiosched.authoring.base.protocols import Dag


class Relatives:
    """Base of operators. Every method needs no more than the DAG file: runs and states play no part."""

    task_id: str
    dag: Dag | None
    upstream_task_ids: set[str]
    downstream_task_ids: set[str]

    def dry_run(self) -> None:
        """Log the template fields; nothing is done."""
        task: Any = self
        for name in task.template_fields:
            task.log.info("%s: %s", name, getattr(task, name, None))

    def has_dag(self) -> bool:
        """Whether the task belongs to a DAG."""
        return self.dag is not None

    def get_dag(self) -> Dag | None:
        """The DAG of the task, or None."""
        return self.dag

    def get_direct_relative_ids(self, upstream: bool = False) -> set[str]:
        """The ids of the tasks just after this one, or just before it."""
        return set(self.upstream_task_ids if upstream else self.downstream_task_ids)

    def get_direct_relatives(self, upstream: bool = False) -> list[Any]:
        """The tasks just after this one, or just before it, by id."""
        return self._relatives_by_id(self.get_direct_relative_ids(upstream))

    def get_flat_relative_ids(self, *, upstream: bool = False) -> set[str]:
        """The ids of all tasks after this one, or before it, however far."""
        return set(self._flat_ids(upstream))

    def get_flat_relatives(self, upstream: bool = False) -> list[Any]:
        """All tasks after this one, or before it, however far, by id."""
        return self._relatives_by_id(self._flat_ids(upstream))

    def _flat_ids(self, upstream: bool) -> Iterator[str]:
        seen: set[str] = set()
        waiting = sorted(self.get_direct_relative_ids(upstream))
        while waiting:
            task_id = waiting.pop()
            if task_id in seen:
                continue
            seen.add(task_id)
            yield task_id
            [task] = self._relatives_by_id({task_id})
            waiting += sorted(task.get_direct_relative_ids(upstream))

    def _relatives_by_id(self, task_ids: Any) -> list[Any]:
        wanted = sorted(task_ids)
        if wanted and self.dag is None:
            raise AioschedError(f"Task {self.task_id!r} is in no DAG, so its relatives are not known. Give it dag=.")
        return [self.dag.task(task_id) for task_id in wanted] if self.dag is not None else []
