"""The rules of quarantine: only a DAG about which there are errors, and nothing of it changes until it is tried again.

Part of the checker (checker.py): it knows the plan and the rows, and nothing of how schedulers work. How its runs
end does not depend on the errors, as all other rules say. Source: decision 30.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from tests.simulation.history import Commit, RowChange
from tests.simulation.store import EPOCH
from tests.simulation.workload import FAULTS_END

if TYPE_CHECKING:
    from tests.simulation.checker import Checker

SOON: Final = 8.0  # seconds after the faults in which an error is stored, and a DAG whose pause is over is tried again
_FROZEN: Final = 20.0  # seconds that may pass between a decision and its commit while there are faults
_FIRST_PAUSE: Final = 15.0
_OF_RUNS: Final = frozenset({"task_instance", "task_try", "xcom", "deferred_trigger", "deferral"})


class Quarantine:
    """Hears of every commit."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._left_alone: set[str] = set()

    def commit(self, commit: Commit) -> None:
        """Call it when the rows are as they are now."""
        for change in commit.changes:
            if (dag_id := self._dag_of(change)) in self._left_alone:
                self._say(f"{change.table} {change.key} of {dag_id} was written, which is in quarantine")
        for change in commit.changes:
            if change.table == "dag_quarantine":
                self._quarantine(change)

    def _dag_of(self, change: RowChange) -> str | None:
        if change.table not in _OF_RUNS and change.table != "dag_run":
            return None
        run = self._checker.rows["dag_run"].get(change.key if change.table == "dag_run" else change.key[0])
        return None if run is None else str(run["dag_id"])

    def _quarantine(self, change: RowChange) -> None:
        dag_id, old, new, at = change.key, change.old, change.new, self._checker.at
        if new is None:
            return
        if new["tried_at"] is not None:
            self._left_alone.discard(dag_id)
            if old is not None and old["tried_at"] is None:
                self._checker.history.seen["DAGs tried again after quarantine"] += 1
                due = _seconds(old["retry_at"])
                if not due <= at <= max(due, FAULTS_END) + SOON:
                    self._say(f"{dag_id} is tried again, its pause is over at {due}")
            return
        if old is not None and old["failures"] == new["failures"]:
            return  # somebody has released it
        self._left_alone.add(dag_id)
        self._checker.history.seen["DAGs put into quarantine"] += 1
        ends = [each.until for each in self._checker.plan.breaks if each.dag_id == dag_id]
        if not ends:
            self._say(f"{dag_id} was put into quarantine, about which there are no errors: {new['error']}")
        elif at > max(*ends, FAULTS_END) + SOON:
            self._say(f"{dag_id} was put into quarantine when there were no errors any more: {new['error']}")
        failures = 1 if old is None else old["failures"] + 1
        pause = _seconds(new["retry_at"]) - at
        most = _FIRST_PAUSE * 2 ** (failures - 1)
        if new["failures"] != failures or not most - _FROZEN <= pause <= most + 1e-5:
            self._say(f"the {failures}th pause of {dag_id} is {pause:.1f} s, after {new['failures']} failures")

    def end(self) -> None:
        """Everything is over."""
        for dag_id, row in self._checker.history.tables["dag_quarantine"].items():
            if row["tried_at"] is None:
                self._say(f"{dag_id} is in quarantine for ever")

    def _say(self, what: str) -> None:
        self._checker.say("quarantine", what)


def _seconds(at: datetime) -> float:
    return (at - EPOCH).total_seconds()
