"""The rule of tasks that wait for the run before: none begins until the same task has succeeded there.

Part of the checker (checker.py): it knows the plan and the rows, and nothing of how schedulers work.
Source: the semantics reference, sections 6.1 to 6.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.simulation.history import Commit, Row, RowChange

if TYPE_CHECKING:
    from tests.simulation.checker import Checker, Instance

SUCCEEDED = frozenset({"success", "skipped", "removed"})  # removed: there is no value for this index any more
# Seconds in which what was decided before a run came, or was cleared, is stored after that: a machine that is cut off
# can hold the locks of pools until it is taken over.
OVERTAKEN = 12.0


class Pasts:
    """Hears of every commit; `waited` counts tasks that the run before has kept waiting."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self.created: dict[int, float] = {}
        self._running: dict[int, float] = {}  # since when a run is
        self._since: dict[Instance, float] = {}  # since when a task has its state
        self._left: dict[Instance, float] = {}  # when one that had succeeded was to begin anew
        self.waited = 0

    def commit(self, commit: Commit) -> None:
        """Call it when the rows are as they are now."""
        for change in commit.changes:
            old, new, at = change.old or {}, change.new or {}, commit.at
            if change.table == "dag_run":
                self.created.setdefault(change.key, at)
                if new.get("state") == "running" and old.get("state") != "running":
                    self._running[change.key] = at
            elif change.table == "task_instance" and old.get("state") != new.get("state"):
                self._since[change.key] = at
                if old.get("state") in SUCCEEDED and new.get("state") not in SUCCEEDED:
                    self._left[change.key] = at
            elif change.table == "task_try" and new.get("state") in SUCCEEDED:  # kept when a task is cleared
                self._left[change.key[:3]] = at  # one that succeeded in the same commit has shown it nowhere else
        for change in commit.changes:
            if change.table == "task_instance" and change.old is not None and change.new is not None:
                self._instance(change)

    def _instance(self, change: RowChange) -> None:
        assert change.old is not None
        assert change.new is not None
        begins = change.new["try_number"] > change.old["try_number"]
        task = self._checker.task(change.key)
        if not begins or not (task.depends_on_past or task.wait_for_downstream):
            return
        run, _, map_index = change.key
        spec = self._checker.spec(run)
        looked_at = [
            index
            for index, other in enumerate(spec.tasks)
            if other.task_id == task.task_id or (task.wait_for_downstream and task.task_id in other.upstream)
        ]
        for before in self.runs_before(run, manual=not spec.catchup):
            places = [(before["id"], index, map_index) for index in looked_at]
            missing = [place for place in places if not self._has_succeeded(place)]
            if not missing:
                self._count(change, task, places)
                return
            if self._checker.at - self.created[before["id"]] > OVERTAKEN:
                states = {self._checker.name(place): self._state(place) for place in missing}
                self._checker.say("past", f"{self._checker.name(change.key)} begins while {states}")
                return

    def runs_before(self, run: int, *, manual: bool) -> Iterator[Row]:
        """The earlier runs that count, latest first; those of which the first one is so new that it may be unknown."""
        rows = self._checker.rows["dag_run"]
        own = rows[run]
        if own["logical_date"] is None:
            return
        earlier = [
            row
            for row in rows.values()
            if row["dag_id"] == own["dag_id"]
            and row["logical_date"] is not None
            and row["logical_date"] < own["logical_date"]
            and (manual or row["run_type"] != "manual")
        ]
        yield from sorted(earlier, key=lambda row: row["logical_date"], reverse=True)

    def _has_succeeded(self, place: Instance) -> bool:
        return self._state(place) in SUCCEEDED or self._checker.at - self._left.get(place, -OVERTAKEN) < OVERTAKEN

    def _state(self, place: Instance) -> str | None:
        """None for an instance that is not stored yet, too."""
        row = self._checker.rows["task_instance"].get(place)
        return None if row is None else row["state"]

    def _count(self, change: RowChange, task: Any, places: list[Instance]) -> None:
        """Whether it was the last obstacle that has fallen."""
        run, _, map_index = change.key
        index = {other.task_id: number for number, other in enumerate(self._checker.spec(run).tasks)}
        ups = [self._since.get((run, index[up], map_index), 0.0) for up in task.upstream]
        otherwise = max([self._running.get(run, 0.0), *ups])
        self.waited += max(self._since.get(place, 0.0) for place in places) > otherwise
