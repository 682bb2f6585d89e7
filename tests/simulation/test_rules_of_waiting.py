"""The checker of simulated fleets objects when a task does not wait for its trigger.

For the run before: tests/faults/test_safeguards.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.simulation.checker import violations
from tests.simulation.history import Began, Commit, Event, Fired, Handed, RowChange, SchedulerRemoved
from tests.simulation.spoiled import objections, played, without

pytestmark = pytest.mark.slow

_PATIENT = 24  # a seed with tasks that defer


def _place(events: list[Event], wanted: Callable[[Event], bool]) -> int:
    return next(place for place, event in enumerate(events) if wanted(event))


def _is_trigger(event: Event) -> bool:
    return isinstance(event, Handed) and event.trigger is not None


def _fires(change: RowChange) -> bool:
    return change.table == "deferred_trigger" and change.new is not None and change.new["event"] is not None


def _goes_on(event: Event) -> bool:
    return isinstance(event, Began) and event.event is not None


def _no_trigger_fires(events: list[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, Fired)]


def _no_event_is_stored(events: list[Event]) -> list[Event]:
    return without(events, "deferred_trigger", _fires)


def _nothing_is_stored(events: list[Event]) -> list[Event]:
    return without(events, "deferred_trigger", lambda change: True)


def _it_fires_again(events: list[Event]) -> list[Event]:
    """With another event, which is stored in place of the first one."""
    place = _place(events, lambda event: isinstance(event, Commit) and any(map(_fires, event.changes)))
    commit = events[place]
    assert isinstance(commit, Commit)
    change = next(change for change in commit.changes if _fires(change))
    assert change.new is not None
    again = change._replace(old=change.new, new=change.new | {"event": "[1,1000]"})
    fired = _place(events, lambda event: isinstance(event, Fired) and event.attempt[:3] == change.key)
    also = events[fired]
    assert isinstance(also, Fired)
    return [
        *events[: place + 1],
        also._replace(event="[1,1000]"),
        commit._replace(changes=[again]),
        *events[place + 1 :],
    ]


def _it_fails(events: list[Event]) -> list[Event]:
    return [
        event._replace(
            changes=[c._replace(new=c.new | {"error": "boom"}) if _fires(c) and c.new else c for c in event.changes]
        )
        if isinstance(event, Commit)
        else event
        for event in events
    ]


def _handed_out_twice(events: list[Event]) -> list[Event]:
    place = _place(events, _is_trigger)
    return [*events[:place], events[place], *events[place:]]


def _handed_out_too_soon(events: list[Event]) -> list[Event]:
    place = _place(events, _is_trigger)
    return [events[place], *events[:place], *events[place + 1 :]]


def _handed_out_by_the_dead(events: list[Event]) -> list[Event]:
    place = _place(events, _is_trigger)
    handed = events[place]
    assert isinstance(handed, Handed)
    return [*events[:place], SchedulerRemoved(handed.at, handed.incarnation, gone=False), *events[place:]]


def _begins_anew(events: list[Event]) -> list[Event]:
    return [event._replace(event=None) if isinstance(event, Began) else event for event in events]


def _another_event(events: list[Event]) -> list[Event]:
    place = _place(events, _goes_on)
    began = events[place]
    assert isinstance(began, Began)
    return [*events[:place], began._replace(event="[1,1000]"), *events[place + 1 :]]


def _deferred_from_nowhere(events: list[Event]) -> list[Event]:
    def spoiled(change: RowChange) -> RowChange:
        deferred = change.new is not None and change.new.get("state") == "deferred" and change.old is not None
        return change._replace(old={**change.old, "state": "up_for_retry"}) if deferred and change.old else change

    return [
        event._replace(changes=[spoiled(change) for change in event.changes]) if isinstance(event, Commit) else event
        for event in events
    ]


@pytest.mark.parametrize(
    ("spoil", "rule", "said"),
    [
        (_no_trigger_fires, "waits", "which none of its triggers fired"),
        (_no_event_is_stored, "waits", "and its trigger has not fired"),
        (_nothing_is_stored, "waits", "waits for a trigger that is not stored"),
        (_it_fires_again, "first event", "was to go on with"),
        (_it_fails, "waits", "goes on by failing: boom"),
        (_handed_out_twice, "one trigger", "which runs it already"),
        (_handed_out_too_soon, "commit first", "was handed out by 1, the row says"),
        (_handed_out_by_the_dead, "trust", "whose lease had run out and was taken over"),
        (_begins_anew, "waits", "begins as if it had not"),
        (_another_event, "waits", "goes on with [1,1000], what counts is"),
        (_deferred_from_nowhere, "transition", "went from up_for_retry to deferred"),
    ],
)
def test_a_task_that_does_not_wait_for_its_trigger_is_found(
    spoil: Callable[[list[Event]], list[Event]], rule: str, said: str
) -> None:
    found = objections(_PATIENT, spoil)

    assert any(one.startswith(f"[{rule}]") and said in one for one in found), found


def test_what_is_left_waiting_is_found() -> None:
    plan, history = played(_PATIENT)
    (key, *_) = history.tables["task_instance"]
    tables = history.tables | {"deferred_trigger": {key: {}}}

    found = violations(plan, replace(history, tables=tables))

    assert len(found) == 1
    assert found[0].startswith("[waits]")
    assert found[0].endswith("waits for ever, or was not forgotten")
