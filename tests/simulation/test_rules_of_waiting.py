"""The checker of simulated fleets objects when a task does not wait: for the run before, or for its trigger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.simulation.checker import violations
from tests.simulation.checker_pasts import OVERTAKEN
from tests.simulation.history import Began, Commit, Event, Fired, Handed, History, RowChange, SchedulerRemoved
from tests.simulation.shapes import looks_back
from tests.simulation.spoiled import objections, played, without
from tests.simulation.workload import Plan

pytestmark = pytest.mark.slow

_IN_ORDER, _ONE_BY_ONE, _PATIENT = 3, 31, 24  # seeds


def _place(events: list[Event], wanted: Callable[[Event], bool]) -> int:
    return next(place for place, event in enumerate(events) if wanted(event))


def _is_trigger(event: Event) -> bool:
    return isinstance(event, Handed) and event.trigger is not None


def _fires(change: RowChange) -> bool:
    return change.table == "deferred_trigger" and change.new is not None and change.new["event"] is not None


def _goes_on(event: Event) -> bool:
    return isinstance(event, Began) and event.event is not None


# -- the run before


def _forget_ends(task_id: str, plan: Plan) -> Callable[[list[Event]], list[Event]]:
    """As if no task of this name had ever succeeded, in the DAG that looks back."""
    (spec,) = (spec for spec in plan.specs if looks_back(spec.tasks))
    index = [task.task_id for task in spec.tasks].index(task_id)

    def spoil(events: list[Event]) -> list[Event]:
        runs = {
            change.key
            for event in events
            if isinstance(event, Commit)
            for change in event.changes
            if change.table == "dag_run" and change.new is not None and change.new["dag_id"] == spec.dag_id
        }

        def ends(change: RowChange) -> bool:
            succeeded = change.new is not None and change.new["state"] == "success"
            return succeeded and change.key[0] in runs and change.key[1] == index

        return without(events, "task_instance", ends)

    return spoil


@pytest.mark.parametrize(
    ("seed", "task_id"), [(_IN_ORDER, "load"), (_ONE_BY_ONE, "first"), (_ONE_BY_ONE, "left"), (_ONE_BY_ONE, "right")]
)
def test_a_task_that_begins_while_the_run_before_has_not_succeeded_there_is_found(seed: int, task_id: str) -> None:
    plan, _ = played(seed)

    said = [one for one in objections(seed, _forget_ends(task_id, plan)) if one.startswith("[past]")]

    assert said
    assert all(f"/{task_id}': '" in one for one in said), said


def test_what_is_behind_a_task_may_go_on_in_the_run_before_where_nothing_waits_for_it() -> None:
    plan, _ = played(_IN_ORDER)

    found = objections(_IN_ORDER, _forget_ends("report", plan))

    assert not [one for one in found if one.startswith("[past]")]


@pytest.mark.parametrize("seconds", [OVERTAKEN - 1, OVERTAKEN + 1])
def test_a_task_may_begin_when_the_run_before_was_cleared_just_now(seconds: float) -> None:
    """What was decided before is stored a little later."""
    _, history = played(_IN_ORDER)
    begins, before = _first_that_looks_back(history)

    def clear(events: list[Event]) -> list[Event]:
        row = dict(history.tables["task_instance"][before])
        change = RowChange("task_instance", before, row, row | {"state": None})
        place = _place(events, lambda event: event.at >= begins)
        return [*events[:place], Commit(begins - seconds, 1, 1, [change]), *events[place:]]

    found = [one for one in objections(_IN_ORDER, clear) if one.startswith("[past]")]
    assert bool(found) == (seconds > OVERTAKEN)


@pytest.mark.parametrize(
    ("state", "seconds", "objects"),
    [("success", OVERTAKEN - 1, False), ("success", OVERTAKEN + 1, True), ("failed", OVERTAKEN - 1, True)],
)
def test_the_run_before_may_have_succeeded_and_been_cleared_in_one_commit(
    state: str, seconds: float, objects: bool
) -> None:
    """Then only the try that is kept says that it had (seed 4774)."""
    _, history = played(_IN_ORDER)
    begins, before = _first_that_looks_back(history)

    def clear(events: list[Event]) -> list[Event]:
        change = RowChange("task_try", (*before, 1), None, {"run_id": before[0], "try_number": 1, "state": state})
        events = without(
            events, "task_instance", lambda c: c.key == before and c.new is not None and c.new["state"] == "success"
        )
        place = _place(events, lambda event: event.at >= begins)
        return [*events[:place], Commit(begins - seconds, 1, 1, [change]), *events[place:]]

    found = [one for one in objections(_IN_ORDER, clear) if one.startswith("[past]")]
    assert bool(found) == objects


def _first_that_looks_back(history: History) -> tuple[float, tuple[int, int, int]]:
    """When a task that waits for the run before begins first, and the instance for which it waited."""
    begins, key = next(
        (event.at, change.key)
        for event in history.events
        if isinstance(event, Commit)
        for change in event.changes
        if change.table == "task_instance" and _looks_back(change, history)
    )
    before = _run_before(key[0], history)
    assert before is not None
    return begins, (before, *key[1:])


def _run_before(run: int, history: History) -> int | None:
    rows = history.tables["dag_run"]
    dates = {
        row["logical_date"]: key
        for key, row in rows.items()
        if row["dag_id"] == rows[run]["dag_id"] and row["run_type"] == "scheduled"
    }
    earlier = [date for date in dates if rows[run]["run_type"] == "scheduled" and date < rows[run]["logical_date"]]
    return dates[max(earlier)] if earlier else None


def _looks_back(change: RowChange, history: History) -> bool:
    """Whether a task that depends on its past begins, in a scheduled run that is not the first one."""
    plan, _ = played(_IN_ORDER)
    if change.old is None or change.new is None:  # a mapped task is expanded: instances come, and one goes
        return False
    spec = next(s for s in plan.specs if s.dag_id == history.tables["dag_run"][change.key[0]]["dag_id"])
    begins = change.new["try_number"] == change.old["try_number"] + 1 == 1
    return begins and spec.tasks[change.key[1]].depends_on_past and _run_before(change.key[0], history) is not None


# -- triggers


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
