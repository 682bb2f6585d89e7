"""The lives of task instances and runs, as tables.

Source: the semantics reference, sections 2.1 (groups), 2.3 and 25.6 (task instances), 3.1 and 3.2 (runs).
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.values.states import (
    ACTIVE_FOR_TASK_LIMITS,
    FAILURES,
    FINISHED,
    HOLDING_SLOT,
    RUN_FINISHED,
    SCHEDULABLE,
    SUCCEEDED,
    TRANSITIONS,
    UNFINISHED,
    RunState,
    TaskEvent,
    TaskState,
    advance,
)
from aiosched.errors import InvalidTransition
from tests.core.run_transitions import RUN_TRANSITIONS, RunEvent, RunTimes, advance_run, run_times_after

# Sections 2.3 and 25.6, one line a row: from; to; the events that lead there. `*` is every state.
LEGAL = """
none                     ; scheduled        ; READY
none                     ; success          ; EMPTY
none                     ; deferred         ; DEFERRED
none                     ; upstream_failed  ; SETTLED_UPSTREAM_FAILED
none                     ; skipped          ; SETTLED_SKIPPED SETTLED_EMPTY
none                     ; removed          ; SETTLED_REMOVED
scheduled queued up_for_retry up_for_reschedule deferred restarting upstream_failed removed ; skipped ; SETTLED_SKIPPED
up_for_retry up_for_reschedule ; upstream_failed ; SETTLED_UPSTREAM_FAILED
none scheduled queued running restarting shutdown up_for_retry up_for_reschedule deferred ; skipped ; RUN_TIMED_OUT
running                  ; failed           ; FAIL_FAST_RUNNING
none scheduled queued restarting shutdown up_for_retry up_for_reschedule deferred ; skipped ; FAIL_FAST_WAITING
upstream_failed removed  ; skipped          ; FAIL_FAST_WAITING
scheduled                ; queued           ; SLOT_GRANTED
queued restarting        ; running          ; STARTED
queued                   ; none             ; LOST
queued                   ; scheduled        ; REQUEUED
queued                   ; failed           ; FAILED_FINALLY
queued                   ; up_for_retry     ; FAILED_RETRYABLE
running                  ; success          ; RETURNED
running                  ; failed           ; FAILED_FINALLY
running                  ; skipped          ; SKIPPED_ITSELF
running                  ; up_for_retry     ; FAILED_RETRYABLE
running                  ; up_for_reschedule ; RESCHEDULED
running                  ; deferred         ; DEFERRED
running                  ; none             ; LOST
running                  ; restarting       ; CLEARED
restarting               ; none             ; LOST CLEARED
restarting               ; up_for_retry     ; FAILED_RETRYABLE
up_for_retry             ; scheduled        ; READY
up_for_reschedule        ; scheduled        ; READY
deferred                 ; scheduled        ; TRIGGERED
deferred                 ; success          ; RETURNED
deferred                 ; skipped          ; SKIPPED_ITSELF
deferred                 ; failed           ; FAILED_FINALLY
deferred                 ; up_for_retry     ; FAILED_RETRYABLE
removed                  ; none             ; RESTORED
none scheduled queued shutdown up_for_retry up_for_reschedule deferred ; none ; CLEARED
success skipped failed upstream_failed removed ; none ; CLEARED
*                        ; success          ; MARKED_SUCCESS
*                        ; failed           ; MARKED_FAILED
*                        ; skipped          ; MARKED_SKIPPED
"""

# What is ours: an end that overtakes its start, a stop that was asked for, a task that vanished.
OURS = """
queued                   ; success          ; RETURNED
queued                   ; skipped          ; SKIPPED_ITSELF
queued                   ; up_for_reschedule ; RESCHEDULED
queued                   ; deferred         ; DEFERRED
scheduled                ; deferred         ; DEFERRED
queued running           ; shutdown         ; STOP_REQUESTED
shutdown                 ; failed           ; FAILED_FINALLY
shutdown                 ; none             ; LOST
scheduled queued running restarting shutdown up_for_retry up_for_reschedule deferred ; removed ; SETTLED_REMOVED
success skipped failed upstream_failed ; removed ; SETTLED_REMOVED
scheduled queued running restarting shutdown up_for_retry up_for_reschedule deferred ; skipped ; SETTLED_EMPTY
success failed upstream_failed removed ; skipped ; SETTLED_EMPTY
"""


def table(text: str) -> dict[tuple[TaskState, TaskEvent], TaskState]:
    rows: dict[tuple[TaskState, TaskEvent], TaskState] = {}
    for line in text.strip().splitlines():
        sources, target, events = (part.split() for part in line.split(";"))
        for source in TaskState if sources == ["*"] else map(TaskState, sources):
            rows.update({(source, TaskEvent[event]): TaskState(target[0]) for event in events})
    return rows


def test_the_transitions_are_those_of_the_reference_and_a_few_of_ours() -> None:
    """Section 2.3."""
    assert dict(TRANSITIONS) == table(LEGAL) | table(OURS)


def test_every_event_leads_somewhere_and_every_state_can_be_left() -> None:
    assert {event for _, event in TRANSITIONS} == set(TaskEvent)
    assert {state for state, _ in TRANSITIONS} == set(TaskState)


def test_an_impossible_event_is_refused_and_names_the_possible_ones() -> None:
    assert advance(TaskState.SCHEDULED, TaskEvent.SLOT_GRANTED) is TaskState.QUEUED

    with pytest.raises(
        InvalidTransition, match=r"STARTED cannot happen to a success task instance; possible: CLEARED,"
    ):
        advance(TaskState.SUCCESS, TaskEvent.STARTED)


def test_only_a_queued_or_restarting_instance_can_start() -> None:
    assert {s for s, e in TRANSITIONS if e is TaskEvent.STARTED} == {TaskState.QUEUED, TaskState.RESTARTING}


def test_only_a_scheduled_instance_becomes_queued() -> None:
    assert {s for (s, _), target in TRANSITIONS.items() if target is TaskState.QUEUED} == {TaskState.SCHEDULED}


@pytest.mark.parametrize(
    ("group", "members"),
    [
        (FINISHED, "success failed skipped upstream_failed removed"),
        (
            UNFINISHED,
            "none scheduled queued running restarting shutdown up_for_retry up_for_reschedule deferred",
        ),
        (SCHEDULABLE, "none up_for_retry up_for_reschedule"),
        (SUCCEEDED, "success skipped"),
        (FAILURES, "failed upstream_failed"),
        (RUN_FINISHED, "success failed"),
        (HOLDING_SLOT, "queued running restarting shutdown"),  # whatever may still have a process
        (ACTIVE_FOR_TASK_LIMITS, "queued running restarting shutdown deferred"),
    ],
)
def test_the_groups_of_states_are_those_of_the_reference(group: frozenset[str], members: str) -> None:
    """Section 2.1. Adoptable is what holds a slot; `awaiting_input` is out of scope, and `removed` in neither group."""
    assert group == set(members.split())


def test_a_state_is_either_finished_or_unfinished() -> None:
    assert [state for state in TaskState if (state in FINISHED) == (state in UNFINISHED)] == []


@pytest.mark.parametrize("state", list(TaskState))
def test_a_state_is_stored_and_read_again(state: TaskState) -> None:
    assert TaskState.of(state.stored) is state
    assert (state.stored is None) == (state is TaskState.NONE)


# Section 3.1, one line a row, and what a request makes of it: see Board.mark_run.
RUNS = """
queued                        ; running ; STARTED
running                       ; success ; SUCCEEDED
running                       ; failed  ; FAILED TIMED_OUT
success failed                ; queued  ; CLEARED
queued                        ; queued  ; CLEARED
running                       ; running ; CLEARED
queued running success failed ; success ; MARKED_SUCCESS
queued running success failed ; failed  ; MARKED_FAILED
queued running success failed ; queued  ; MARKED_QUEUED
"""


def test_the_transitions_of_runs_are_those_of_the_reference() -> None:
    """Section 3.1."""
    expected = {}
    for line in RUNS.strip().splitlines():
        sources, target, events = (part.split() for part in line.split(";"))
        for source in sources:
            expected.update({(RunState(source), RunEvent[event]): RunState(target[0]) for event in events})

    assert dict(RUN_TRANSITIONS) == expected


def test_an_impossible_event_of_a_run_is_refused_and_names_the_possible_ones() -> None:
    assert advance_run(RunState.QUEUED, RunEvent.STARTED) is RunState.RUNNING

    with pytest.raises(InvalidTransition, match="STARTED cannot happen to a success run; possible: CLEARED, MARKED_"):
        advance_run(RunState.SUCCESS, RunEvent.STARTED)


QUEUED, STARTED, ENDED, NOW = (datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in range(4))


@pytest.mark.parametrize(
    ("old", "new", "before", "after"),
    [
        ("queued", "running", RunTimes(QUEUED), RunTimes(QUEUED, NOW)),
        ("queued", "running", RunTimes(QUEUED, STARTED), RunTimes(QUEUED, NOW)),  # a start always sets it
        ("running", "running", RunTimes(QUEUED, STARTED), RunTimes(QUEUED, STARTED)),
        ("running", "success", RunTimes(QUEUED, STARTED), RunTimes(QUEUED, STARTED, NOW)),
        ("queued", "failed", RunTimes(QUEUED), RunTimes(QUEUED, None, NOW)),
        ("queued", "queued", RunTimes(QUEUED), RunTimes(NOW)),
        ("running", "queued", RunTimes(QUEUED, STARTED), RunTimes(NOW)),
        ("success", "queued", RunTimes(QUEUED, STARTED, ENDED), RunTimes(NOW)),
        ("running", "failed", RunTimes(QUEUED, STARTED), RunTimes(QUEUED, STARTED, NOW)),
        ("failed", "queued", RunTimes(QUEUED, STARTED, ENDED), RunTimes(NOW)),
        ("success", "running", RunTimes(QUEUED, STARTED, ENDED), RunTimes(QUEUED, NOW)),
        ("failed", "running", RunTimes(QUEUED, STARTED, ENDED), RunTimes(QUEUED, NOW)),
        ("success", "failed", RunTimes(QUEUED, STARTED, ENDED), RunTimes(QUEUED, STARTED, ENDED)),
    ],
)
def test_a_change_of_a_runs_state_sets_its_times(old: str, new: str, before: RunTimes, after: RunTimes) -> None:
    """Section 3.2."""
    assert run_times_after(RunState(old), RunState(new), before, NOW) == after


@given(st.lists(st.sampled_from(list(RunEvent)), max_size=20))
def test_a_run_has_an_end_exactly_while_it_is_finished(events: list[RunEvent]) -> None:
    state, times = RunState.QUEUED, RunTimes(QUEUED)
    for event in events:
        if (state, event) in RUN_TRANSITIONS:
            new = advance_run(state, event)
            times = run_times_after(state, new, times, NOW)
            state = new

    assert (times.end_date is not None) == (state in RUN_FINISHED)
