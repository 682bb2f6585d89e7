"""Which code the tries of a run ran: that of its version, unless the DAG's file has changed since.

A run keeps the version that it was created with; its attempts run the code that the file has when they start. Only
tries that ran other code than that of the run's version are stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from aiosched.core.graph.instances import Instance, TrySource
from aiosched.core.values.messages import Attempt


@dataclass(slots=True)
class RunCode:
    """The code of one unfinished run. Hashes are source hashes (None: not known)."""

    run: int
    pinned: str | None  # of the run's version
    newest: str | None  # of the newest version of its DAG: the code that attempts are to run
    version_id: int | None = None  # that newest version
    ran: dict[Instance, tuple[int, str | None]] = field(default_factory=dict)  # stored last: try and source
    superseded: dict[Instance, str] = field(default_factory=dict)  # what the previous try ran, if it was other code

    def begins(self, instance: Instance) -> TrySource | None:
        """A try starts, or is called again, with the newest code; returns what to store."""
        if self.newest == self.pinned and not self.ran:
            return None
        number, source = self.ran.get(instance, (0, None))
        if instance.try_number not in {1, number}:
            before = source if number == instance.try_number - 1 else self.pinned
            if before is not None and before != self.newest:
                self.superseded[instance] = before
        return self._note(instance, self.newest)

    def ended(self, instance: Instance, source: str) -> TrySource | None:
        """Its worker reports what it ran; returns what to store if that differs from what is known."""
        if source == self.pinned and not self.ran:
            return None
        return self._note(instance, source)

    def _note(self, instance: Instance, source: str | None) -> TrySource | None:
        number, known = self.ran.get(instance, (0, None))
        if number != instance.try_number:
            known = self.pinned
        if source == known:
            return None
        self.ran[instance] = (instance.try_number, source)
        version = self.version_id if source == self.newest else None
        return TrySource(self.run, instance.task, instance.map_index, instance.try_number, version, source)


def newer_code(attempt: Attempt, source: str | None) -> str | None:
    """A log line for a retry that runs other code (`source`) than the previous try; None if it is the same."""
    number, run = attempt.key.try_number, attempt.run
    before = attempt.superseded or run.source_hash
    if number < 2 or source is None or before is None or source == before:
        return None
    version = f"version {run.code_version or run.version} of the DAG, " if source == run.source_hash else ""
    return f"this try runs newer code than try {number - 1}: {version}source {source} instead of {before}"
