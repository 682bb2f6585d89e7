"""Which tries of a run may repeat one that ran before, and of which the database has lost every trace.

That is the first try of each task instance since the loss; a later one is a retry, as ever. The rows do not always say
which one that is: then a try may be taken for the first one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from aiosched.core.graph.instances import Instance


@dataclass(slots=True)
class Repeats:
    """The tries of one run that may repeat others. `since`: when the loss was noticed."""

    since: datetime
    first: dict[tuple[int, int], int] = field(default_factory=dict)  # instance -> its first try since

    def recall(self, instance: Instance) -> None:
        """The row of an instance that may have been tried since then."""
        if any(at is not None and at >= self.since for at in (instance.queued_at, instance.end_date)):
            self.first[instance.task, instance.map_index] = instance.try_number

    def may_repeat(self, instance: Instance) -> bool:
        """Whether the try that begins, or goes on, may repeat a lost one."""
        return self.first.setdefault((instance.task, instance.map_index), instance.try_number) == instance.try_number
