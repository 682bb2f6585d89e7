"""The checker of simulated fleets objects when the timeout, beginning or stored arguments of a deferral are wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.simulation.checker_waits import LATE
from tests.simulation.history import Began, Commit, Event, RowChange
from tests.simulation.spoiled import objections
from tests.simulation.workload import FAULTS_END

pytestmark = pytest.mark.slow

_LATE: Final = 28  # a seed with a task that waits for what never comes, and with keys
_BEGINS: Final = 2  # one with a task that begins in a trigger, also in some of its later tries, and without keys


def _with_rows(events: list[Event], table: str, spoil: Callable[[RowChange], dict[str, Any]]) -> list[Event]:
    """With other values in the new rows of a table."""

    def spoiled(change: RowChange) -> RowChange:
        if change.table != table or change.new is None:
            return change
        return change._replace(new={**change.new, **spoil(change)})

    return [
        event._replace(changes=[spoiled(change) for change in event.changes]) if isinstance(event, Commit) else event
        for event in events
    ]


def _deferrals(spoil: Callable[[RowChange], dict[str, Any]]) -> Callable[[list[Event]], list[Event]]:
    return lambda events: _with_rows(events, "deferred_trigger", spoil)


def _none(change: RowChange) -> dict[str, Any]:
    return {"timeout_at": None}


def _longer(change: RowChange) -> dict[str, Any]:
    assert change.new is not None
    until = change.new["timeout_at"]
    return {} if until is None else {"timeout_at": until.replace(year=2027)}


def _sooner(change: RowChange) -> dict[str, Any]:
    assert change.new is not None
    until = change.new["timeout_at"]
    return {} if until is None else {"timeout_at": until.replace(year=2025)}


def _another_error(change: RowChange) -> dict[str, Any]:
    assert change.new is not None
    return {"error": "boom", "timed_out": False} if change.new["timed_out"] else {}


def _it_is_late(events: list[Event]) -> list[Event]:
    """The first wait whose time is over ends long after that, when the faults are over, too."""
    place = next(
        place
        for place, event in enumerate(events)
        if isinstance(event, Commit) and any((change.new or {}).get("timed_out") for change in event.changes)
    )
    at = FAULTS_END + LATE + 60.0
    return [*events[:place], events[place]._replace(at=at), *events[place + 1 :]]


def _begins_in_a_worker(events: list[Event]) -> list[Event]:
    """The triggers in which tasks begin are not to be seen, and their attempts go on with nothing."""
    return [
        event._replace(event=None, error=None)
        if isinstance(event, Began)
        else event._replace(changes=[change for change in event.changes if not _is_deferred(change)])
        if isinstance(event, Commit)
        else event
        for event in events
    ]


def _is_deferred(change: RowChange) -> bool:
    return change.table == "task_instance" and change.new is not None and change.new["state"] == "deferred"


@pytest.mark.parametrize(
    ("spoil", "rule", "said"),
    [
        (_deferrals(_none), "timeouts", "is to wait until None, its timeout is"),
        (_deferrals(_longer), "timeouts", "or later until"),
        (_deferrals(_sooner), "timeouts", "or later until"),
        (_deferrals(_longer), "timeouts", "has timed out, its time is over at"),
        (_deferrals(_another_error), "waits", "goes on by failing: boom"),
        (_it_is_late, "timeouts", "s after its time was over"),
    ],
)
def test_a_wait_that_is_longer_or_shorter_than_its_timeout_is_found(
    spoil: Callable[[list[Event]], list[Event]], rule: str, said: str
) -> None:
    found = objections(_LATE, spoil)

    assert any(one.startswith(f"[{rule}]") and said in one for one in found), found


def _another_method(change: RowChange) -> dict[str, Any]:
    return {"next_method": "after_2"}


@pytest.mark.parametrize(
    ("spoil", "rule", "said"),
    [
        (_begins_in_a_worker, "waits", "begins in a worker, not in its trigger"),
        (_deferrals(_another_method), "waits", "begins with after_2"),
    ],
)
def test_a_task_that_does_not_begin_in_its_trigger_is_found(
    spoil: Callable[[list[Event]], list[Event]], rule: str, said: str
) -> None:
    found = objections(_BEGINS, spoil)

    assert any(one.startswith(f"[{rule}]") and said in one for one in found), found


@pytest.mark.parametrize(("seed", "stored"), [(_LATE, '{"number":1}'), (_BEGINS, '"a token"')])
def test_arguments_that_are_readable_although_there_are_keys_are_found_and_the_reverse(seed: int, stored: str) -> None:
    found = objections(seed, _deferrals(lambda _: {"next_kwargs": stored}))

    assert any(one.startswith("[secrets]") and stored in one for one in found), found
