"""The rules of backfills: all of their dates have a run, and they end when their runs have.

Part of the checker (checker.py): it knows the rows and the answers that people got, and nothing of how schedulers
work. Source: the semantics reference, section 29.1.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

from tests.simulation.history import Commit, Row, RowChange

if TYPE_CHECKING:
    from tests.simulation.checker import Checker

_OVER = frozenset({"success", "failed"})


class Backfills:
    """Hears of every commit."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker

    def commit(self, commit: Commit) -> None:
        """Call it when the rows are as they are now."""
        for change in commit.changes:
            if change.table == "backfill":
                self._backfill(change)

    def _backfill(self, change: RowChange) -> None:
        assert change.new is not None
        if change.old is None:
            self._checker.history.seen["backfills"] += 1
            return
        over = change.new["completed_at"] is not None
        if over and change.old["completed_at"] is not None:
            self._say(f"{self._name(change.key)} has ended twice")
        if over and not change.new["is_paused"]:  # who cancels one pauses it, and its running runs go on
            rows = self._checker.rows["dag_run"].values()
            left = [row["run_id"] for row in rows if row["backfill_id"] == change.key and row["state"] not in _OVER]
            if left:
                self._say(f"{self._name(change.key)} has ended before its runs {left}")

    def end(self) -> None:
        """Everything is over."""
        tables = self._checker.history.tables
        for number, row in tables["backfill"].items():
            if row["completed_at"] is None:
                self._say(f"{self._name(number)} never ends")
        there = {(row["dag_id"], row["logical_date"]) for row in tables["dag_run"].values()}
        for request in tables["request"].values():
            if (request["verb"], request["state"]) != ("backfill_create", "applied"):
                continue
            dates = [datetime.fromisoformat(date["logical_date"]) for date in json.loads(request["result"])["dates"]]
            missing = [date for date in dates if (request["dag_id"], date) not in there]
            if missing:
                self._say(f"a backfill of {request['dag_id']} has left out {missing}")

    def was_cancelled(self, run: Row) -> bool:
        """Whether a run was queued when its backfill was cancelled: its task instances stay as they are."""
        return run["backfill_id"] is not None and (run["state"], run["reason"]) == ("failed", "cancelled")

    def _name(self, number: int) -> str:
        return f"backfill {number} of {self._checker.rows['backfill'][number]['dag_id']}"

    def _say(self, what: str) -> None:
        self._checker.say("backfill", what)
