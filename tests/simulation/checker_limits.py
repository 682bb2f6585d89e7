"""The rule of limits on running runs, those of DAGs and those of backfills.

No run starts while as many run as may; but one that a running run waits for does when no other run under the limit
has anything under way. That is judged when it starts: later others go on beside it. Part of the checker (checker.py):
it knows the rows, and nothing of how schedulers work. Source: the semantics reference, sections 6.1 and 14.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.simulation.checker_pasts import OVERTAKEN
from tests.simulation.history import Commit, Row
from tests.simulation.shapes import looks_back

if TYPE_CHECKING:
    from tests.simulation.checker import Checker

UNDER_WAY = frozenset({"scheduled", "queued", "running", "restarting", "shutdown", "deferred"})
_OVER = frozenset({"success", "failed"})

Group = tuple[str, int | None]  # a DAG, and a backfill of it or none: what has a limit


class RunLimits:
    """Hears of every commit."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker

    def commit(self, commit: Commit) -> None:
        """Call it when the rows are as they are now."""
        starts: defaultdict[Group, list[Row]] = defaultdict(list)
        for change in commit.changes:
            old, new = change.old or {}, change.new or {}
            if change.table == "dag_run" and new.get("state") == "running" != old.get("state"):
                starts[new["dag_id"], new["backfill_id"]].append(new)
        for group, started in starts.items():
            self._started(group, started)

    def _started(self, group: Group, started: list[Row]) -> None:
        limit = self._limit(group)
        rows = self._checker.rows["dag_run"].values()
        running = [r for r in rows if (r["dag_id"], r["backfill_id"]) == group and r["state"] == "running"]
        if limit is None or len(running) <= limit:
            return
        within = len(started) == 1 or len(running) - 1 <= limit  # those that have started before it, in this commit
        if within and any(self._has_leave(run, running) for run in started):
            self._checker.history.seen["runs that started beyond a limit"] += 1
        elif group[1] is None:
            self._checker.say("limit", f"{len(running)} runs of {group[0]} are running, {limit} may")
        else:
            name = f"backfill {group[1]} of {group[0]}"
            self._checker.say("backfill", f"{len(running)} runs of {name} are running, {limit} may")

    def _limit(self, group: Group) -> int | None:
        dag_id, backfill = group
        if backfill is None:
            return int(self._checker.specs[dag_id].max_active_runs)
        row = self._checker.rows["backfill"][backfill]
        return int(row["max_active_runs"]) if row["completed_at"] is None else None

    def _has_leave(self, started: Row, running: list[Row]) -> bool:
        """Whether all others under the limit stand still, and a run of the DAG waits for this one."""
        others = {row["id"] for row in running} - {started["id"]}
        instances = self._checker.rows["task_instance"].items()
        if any(key[0] in others and row["state"] in UNDER_WAY for key, row in instances):
            return False
        rows = self._checker.rows["dag_run"].values()
        return any(
            row["dag_id"] == started["dag_id"] and row["state"] == "running" and self._waits_for(row, started)
            for row in rows
        )

    def _waits_for(self, row: Row, other: Row) -> bool:
        """Whether all runs between the other one and this one are not over, or too new to be known."""
        spec = self._checker.specs[row["dag_id"]]
        if not looks_back(spec.tasks) or row["id"] == other["id"]:
            return False
        for before in self._checker.pasts.runs_before(row["id"], manual=not spec.catchup):
            if before["id"] == other["id"]:
                return True
            new = self._checker.at - self._checker.pasts.created[before["id"]] <= OVERTAKEN
            if before["state"] in _OVER and not new:
                return False
        return False
