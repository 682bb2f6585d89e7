"""The checker of simulated fleets objects when a backfill leaves a date out, starts too much, or ends too soon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.checker import violations
from tests.simulation.history import Commit, Event, History, Row, RowChange
from tests.simulation.spoiled import objections, played, without

pytestmark = pytest.mark.slow

_SEED = 3  # with backfills


def _a_run_of_it_ends(change: RowChange) -> bool:
    return change.new is not None and change.new["backfill_id"] is not None and change.new["state"] == "success"


def _ends_go_unnoticed(events: list[Event]) -> list[Event]:
    return without(events, "dag_run", _a_run_of_it_ends)


def _nothing_may_run(events: list[Event]) -> list[Event]:
    def strict(change: RowChange) -> RowChange:
        is_one = change.table == "backfill" and change.new is not None
        return change._replace(new={**change.new, "max_active_runs": 0}) if is_one and change.new else change

    return [
        event._replace(changes=[strict(change) for change in event.changes]) if isinstance(event, Commit) else event
        for event in events
    ]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [(_ends_go_unnoticed, "has ended before its runs"), (_nothing_may_run, "are running, 0 may")],
)
def test_a_backfill_that_is_not_as_it_should_be_is_found(
    spoil: Callable[[list[Event]], list[Event]], said: str
) -> None:
    found = objections(_SEED, spoil)

    assert any(one.startswith("[backfill]") and said in one for one in found), found


def _never_completed(history: History) -> dict[str, dict[Any, Row]]:
    return {"backfill": {n: {**row, "completed_at": None} for n, row in history.tables["backfill"].items()}}


def _a_date_without_a_run(history: History) -> dict[str, dict[Any, Row]]:
    runs = history.tables["dag_run"]
    first = next(key for key, row in runs.items() if row["backfill_id"] is not None)
    return {"dag_run": {key: row for key, row in runs.items() if key != first}}


@pytest.mark.parametrize(("spoil", "said"), [(_never_completed, "never ends"), (_a_date_without_a_run, "has left out")])
def test_what_a_backfill_leaves_behind_is_found(
    spoil: Callable[[History], dict[str, dict[Any, Row]]], said: str
) -> None:
    plan, history = played(_SEED)

    found = violations(plan, replace(history, tables=history.tables | spoil(history)))

    assert any(one.startswith("[backfill]") and said in one for one in found), found
