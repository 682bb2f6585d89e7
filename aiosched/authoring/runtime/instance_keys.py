"""`TaskInstanceKey`: what names one try of a task."""

from __future__ import annotations

from typing import NamedTuple


class TaskInstanceKey(NamedTuple):
    """One try of one instance of a task. `map_index` is -1 for a task that is not mapped."""

    dag_id: str
    task_id: str
    run_id: str
    try_number: int = 1
    map_index: int = -1

    @property
    def primary(self) -> tuple[str, str, str, int]:
        """The key without the try."""
        return self.dag_id, self.task_id, self.run_id, self.map_index
