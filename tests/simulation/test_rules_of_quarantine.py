"""The checker of simulated fleets objects when quarantine concerns another DAG, changes something, or does not end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from aiosched.core.run.board import Board
from tests.simulation.breaks import BREAKABLE, FIRST
from tests.simulation.checker import violations
from tests.simulation.history import Commit, Event, RowChange
from tests.simulation.simulate import simulate
from tests.simulation.spoiled import objections, played
from tests.simulation.workload import FAULTS_END

pytestmark = pytest.mark.slow

_SEED: Final = 48  # with a DAG that fails for a while


def _is_put(change: RowChange) -> bool:
    return change.table == "dag_quarantine" and change.new is not None and change.new["tried_at"] is None


def _is_taken_up(change: RowChange) -> bool:
    return change.table == "dag_quarantine" and change.new is not None and change.new["tried_at"] is not None


def _first(events: list[Event], wanted: Callable[[RowChange], bool]) -> tuple[int, Commit, RowChange]:
    for place, event in enumerate(events):
        for change in event.changes if isinstance(event, Commit) else ():
            if wanted(change):
                assert isinstance(event, Commit)
                return place, event, change
    raise AssertionError("there is none")


def _with(events: list[Event], wanted: Callable[[RowChange], bool], **values: Any) -> list[Event]:
    """With other values in the first new row that is wanted."""
    place, commit, change = _first(events, wanted)
    assert change.new is not None
    changed = change._replace(new={**change.new, **values})
    changes = [changed if each is change else each for each in commit.changes]
    return [*events[:place], commit._replace(changes=changes), *events[place + 1 :]]


def _longer_pause(events: list[Event]) -> list[Event]:
    _, _, change = _first(events, _is_put)
    assert change.new is not None
    return _with(events, _is_put, retry_at=change.new["retry_at"].replace(year=2027))


def _something_is_written(events: list[Event]) -> list[Event]:
    """The last change of a task of the DAG comes while it is in quarantine."""
    place, put, change = _first(events, _is_put)
    runs = {
        each.key
        for event in events[:place]
        for each in (event.changes if isinstance(event, Commit) else ())
        if each.table == "dag_run" and each.new is not None and each.new["dag_id"] == change.key
    }
    row = {"state": None, "try_number": 0, "queued_by": None}
    written = RowChange("task_instance", (max(runs), 0, -1), row, row)
    return [*events[: place + 1], put._replace(changes=[written]), *events[place + 1 :]]


def _at_the_end(events: list[Event]) -> list[Event]:
    place, commit, _ = _first(events, _is_put)
    return [*events[:place], commit._replace(at=FAULTS_END + 60.0), *events[place + 1 :]]


def _much_later(events: list[Event]) -> list[Event]:
    place, commit, _ = _first(events, _is_taken_up)
    return [*events[:place], commit._replace(at=commit.at + 600.0), *events[place + 1 :]]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda events: _with(events, _is_put, failures=2), "after 2 failures"),
        (_longer_pause, "pause of"),
        (_something_is_written, "was written, which is in quarantine"),
        (_at_the_end, "when there were no errors any more"),
        (_much_later, "is tried again, its pause is over at"),
    ],
)
def test_a_quarantine_that_is_not_as_it_should_be_is_found(
    spoil: Callable[[list[Event]], list[Event]], said: str
) -> None:
    found = objections(_SEED, spoil)

    assert any(one.startswith("[quarantine]") and said in one for one in found), found


def test_a_quarantine_of_a_dag_about_which_there_are_no_errors_is_found() -> None:
    plan, history = played(_SEED)

    found = violations(replace(plan, breaks=()), history)

    assert any("about which there are no errors" in one for one in found), found


def test_no_report_fails_so_often_that_it_is_set_aside() -> None:
    """Then how runs end would depend on the errors."""
    plan, _ = played(_SEED)
    (broken,) = plan.breaks
    longer = broken._replace(at=FIRST, until=FAULTS_END + 60.0, function=BREAKABLE.index(Board.apply))
    plan = replace(plan, machines=1, blows=(), rough=0.0, breaks=(longer,))

    history = simulate(_SEED, plan)

    assert violations(plan, history) == []
    assert history.seen["DAGs put into quarantine"] >= 2


def test_a_dag_that_stays_in_quarantine_is_found() -> None:
    plan, history = played(_SEED)
    rows = {dag_id: {**row, "tried_at": None} for dag_id, row in history.tables["dag_quarantine"].items()}

    found = violations(plan, replace(history, tables=history.tables | {"dag_quarantine": rows}))

    assert any(one.endswith("is in quarantine for ever") for one in found), found
