"""The checker objects to every kind of bad history, and to no good one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.faults.checker import (
    RULES,
    Beat,
    Change,
    DagPlan,
    Effect,
    Freeze,
    History,
    Instance,
    PoolUse,
    Run,
    RunChange,
    Span,
    TaskKey,
    TaskPlan,
    check,
    peak_use,
)

FIRST, STEP = datetime(2025, 1, 1, tzinfo=UTC), timedelta(minutes=1)
A1, B1, A2, B2 = (TaskKey("d", run, task) for run in ("r1", "r2") for task in ("a", "b"))


def good() -> History:
    """Two runs of `a >> b`, one after the other; the first attempt of r1's a was lost with its scheduler."""
    tasks = {
        "a": TaskPlan(pool="p"),
        "b": TaskPlan(("a",), pool="p", limit=1, effects=frozenset({"event emitted"})),
    }
    plan = DagPlan(tasks, FIRST, STEP, 2, 1, 1)
    history = History(plans={"d": plan}, pools={"p": 1})
    history.runs = [
        Run("d", f"r{n + 1}", "success", FIRST + n * STEP, FIRST + n * STEP, FIRST + (n + 1) * STEP) for n in range(2)
    ]
    history.instances = [Instance(A1, "success", 2), *(Instance(task, "success", 1) for task in (B1, A2, B2))]
    history.lost_tries = Counter({A1: 1})
    history.spans = [
        Span(A1, 1, 10, "s0#1", 0.0, 1.0, None),
        Span(A1, 2, 20, "s1#1", 2.0, 3.0, "done"),
        Span(B1, 1, 20, "s1#1", 4.0, 5.0, "done"),
        Span(A2, 1, 20, "s1#1", 6.0, 7.0, "done"),
        Span(B2, 1, 21, "s1#1", 8.0, 9.0, "done"),
    ]
    history.beats = [Beat(A1, 1, 11, 1.9), Beat(B1, 1, 22, 5.1)]
    history.changes = [
        Change(1, 1, 0.0, A1, None, "queued", 0, 1),
        Change(2, 2, 2.0, A1, "queued", "queued", 1, 2),
        *lived(3, A1, 2.1, tries=2, since="queued"),
        *lived(10, B1, 4.0),
        *lived(20, A2, 6.0),
        *lived(30, B2, 8.0),
    ]
    history.run_changes = [
        RunChange(1, 1, 0.0, "d", "r1", None, "queued"),
        RunChange(2, 1, 0.0, "d", "r2", None, "queued"),
        RunChange(3, 2, 0.1, "d", "r1", "queued", "running"),
        RunChange(4, 9, 5.5, "d", "r2", "queued", "running"),  # in one transaction with the end of r1
        RunChange(5, 9, 5.5, "d", "r1", "running", "success"),
        RunChange(6, 40, 9.5, "d", "r2", "running", "success"),
    ]
    history.effects = [Effect(B1, 1, "event emitted", 1), Effect(B2, 1, "event emitted", 1)]
    history.pool_uses = [PoolUse("p", 1, 1), PoolUse("p", 0, 1)]
    history.final_pools = [PoolUse("p", 0, 1), PoolUse("default_pool", 0, 128)]
    return history


def lived(order: int, task: TaskKey, at: float, *, tries: int = 1, since: str | None = None) -> list[Change]:
    """The changes of an attempt that succeeds."""
    begun = [] if since else [Change(order, order, at, task, None, "queued", tries - 1, tries)]
    return [
        *begun,
        Change(order + 1, order + 1, at, task, "queued", "running", tries, tries),
        Change(order + 2, order + 2, at + 1, task, "running", "success", tries, tries),
    ]


def test_a_good_history_has_no_violation() -> None:
    assert check(good()) == []


Spoil = Callable[[History], object]
BAD: dict[str, tuple[str, Spoil]] = {
    "a run is missing": ("intervals_complete_none_twice", lambda h: h.runs.pop()),
    "an interval twice": (
        "intervals_complete_none_twice",
        lambda h: h.runs.append(h.runs[0]._replace(run_id="r1")),
    ),
    "an interval that was not planned": (
        "intervals_complete_none_twice",
        lambda h: h.runs.append(h.runs[0]._replace(run_id="r2", logical_date=FIRST - STEP)),
    ),
    "an interval of the wrong length": (
        "intervals_complete_none_twice",
        lambda h: put(h.runs, 1, interval_end=FIRST + 5 * STEP),
    ),
    "a run that does not end": ("no_run_lost", lambda h: put(h.runs, 1, state="running")),
    "a task without a row": ("no_task_lost", lambda h: h.instances.pop()),
    "a task that stays queued": ("no_task_lost", lambda h: put(h.instances, 3, state="queued")),
    "a failure for no reason": ("failures_have_a_cause", lambda h: put(h.instances, 3, state="failed")),
    "a loss that was not kept": (
        "failures_have_a_cause",
        lambda h: put(h.instances, 3, state="failed", losses=3, reason="lost 3 times in a row"),
    ),
    "a failure of nothing upstream": (
        "failures_have_a_cause",
        lambda h: put(h.instances, 3, state="upstream_failed"),
    ),
    "a run that failed alone": ("failures_have_a_cause", lambda h: put(h.runs, 1, state="failed")),
    "a skipped task": ("failures_have_a_cause", lambda h: put(h.instances, 3, state="skipped")),
    "two processes for one attempt": (
        "one_process_per_attempt",
        lambda h: h.spans.append(h.spans[4]._replace(pid=99, start=10.0, last=11.0)),
    ),
    "a success that never ran": ("one_process_per_attempt", lambda h: h.spans.pop()),
    "a success that was killed": ("one_process_per_attempt", lambda h: put(h.spans, 4, outcome=None)),
    "a second attempt beside the first": ("attempts_never_overlap", lambda h: put(h.spans, 0, last=2.5)),
    "a process that lives into the next try": (
        "nothing_lives_longer_than_its_attempt",
        lambda h: put(h.beats, 0, last=2.1),
    ),
    "a process that goes on after its attempt": (
        "nothing_lives_longer_than_its_attempt",
        lambda h: put(h.beats, 1, last=50.0),
    ),
    "tries in the wrong order": (
        "tries_run_in_order",
        lambda h: h.spans.append(Span(A1, 1, 11, "s0#1", 3.5, 3.6, None)),
    ),
    "a step that does not exist": ("legal_transitions", lambda h: put(h.changes, 4, old="scheduled")),
    "a jump": ("legal_transitions", lambda h: (put(h.changes, 4, new="success"), put(h.changes, 5, old="success"))),
    "a try that is skipped": ("legal_transitions", lambda h: put(h.changes, 4, new_try=2)),
    "an impossible pair": (
        "legal_transitions",
        lambda h: h.changes.append(Change(90, 90, 9.0, B2, "success", "deferred", 1, 1)),
    ),
    "a row that is not as last stored": ("legal_transitions", lambda h: h.changes.pop()),
    "a success that is run again": (
        "success_is_final",
        lambda h: h.spans.append(Span(B2, 2, 21, "s2#1", 10.0, 11.0, "done")),
    ),
    "a success that is taken back": (
        "success_is_final",
        lambda h: h.changes.append(Change(90, 90, 9.0, B2, "success", None, 1, 1)),
    ),
    "two tasks in a pool of one": ("limits_hold_while_tasks_run", lambda h: put(h.spans, 1, last=4.5)),
    "three tasks of a run": (
        "limits_hold_while_tasks_run",
        lambda h: (h.pools.clear(), put(h.spans, 1, last=4.5)),
    ),
    "a task twice at a time": (
        "limits_hold_while_tasks_run",
        lambda h: (h.pools.clear(), put(h.spans, 2, last=8.5)),
    ),
    "too many active in a commit": (
        "limits_hold_in_every_commit",
        lambda h: put(h.changes, 4, order=3, transaction=3),
    ),
    "two runs at a time": ("limits_hold_in_every_commit", lambda h: put(h.run_changes, 3, transaction=8)),
    "a task over its limit in a commit": (
        "limits_hold_in_every_commit",
        lambda h: h.changes.insert(0, Change(0, 0, 0.0, B2, None, "queued", 0, 1)),
    ),
    "a pool that is overdrawn": (
        "limits_hold_in_every_commit",
        lambda h: h.pool_uses.append(PoolUse("p", 2, 1)),
    ),
    "downstream too early": ("upstream_comes_first", lambda h: put(h.spans, 2, start=2.9)),
    "upstream that never ran": ("upstream_comes_first", lambda h: h.spans.pop(3)),
    "a pool that is not given back": (
        "nothing_is_left_behind",
        lambda h: put(h.final_pools, 0, used=1),
    ),
    "a row of the dead": ("nothing_is_left_behind", lambda h: h.dead_rows.append("scheduler 3 still has a row")),
    "a process that lives on": ("nothing_is_left_behind", lambda h: h.survivors.append("pid 7")),
    "rows that disagree": ("rows_agree_at_every_moment", lambda h: h.snapshots.append("pool p says 3")),
    "an effect twice": ("what_tasks_change_is_changed_once", lambda h: put(h.effects, 0, times=2)),
    "an effect that is missing": ("what_tasks_change_is_changed_once", lambda h: h.effects.pop()),
    "a try that failed": ("tries_fail_only_on_purpose", lambda h: h.failed_tries.append("d/r1/a try 1: OSError")),
    "memory that drifted": ("memory_equals_rows", lambda h: setattr(h, "drift", 1)),
}


def put(rows: list, index: int, **values: object) -> None:  # type: ignore[type-arg]
    rows[index] = rows[index]._replace(**values)


@pytest.mark.parametrize("what", BAD)
def test_a_bad_history_is_objected_to(what: str) -> None:
    rule, spoil = BAD[what]
    history = good()
    spoil(history)

    assert rule in {violation.rule for violation in check(history)}


def test_every_rule_is_tried() -> None:
    assert {rule for rule, _ in BAD.values()} == set(RULES)


def test_a_task_may_fail_when_it_was_lost_too_often_and_takes_along_what_is_behind_it() -> None:
    history = good()
    put(history.instances, 2, state="failed", losses=3, reason="lost 3 times in a row: its scheduler ended")
    put(history.instances, 3, state="upstream_failed", try_number=0)
    put(history.runs, 1, state="failed")
    history.lost_tries[A2] = 2
    history.spans = [span for span in history.spans if span.task not in (A2, B2)]
    history.changes = [change for change in history.changes if change.task not in (A2, B2)]

    assert check(history) == []


def test_a_broken_limit_tells_attempts_that_ended_too_late() -> None:
    history = good()
    put(history.spans, 0, last=2.25)

    assert [each.what for each in check(history) if each.rule == "limits_hold_while_tasks_run"] == [
        f"{limit} in use at one instant, the limit is 1; 1 attempts lived on after they were stored as lost, "
        "one of s0#1 for 0.25 s"
        for limit in ("pool p: 2", "tasks of run d r1: 2")
    ]


def frozen(last: float, outcome: str | None) -> History:
    """As the good one; the lost attempt's process was frozen from 1 to 3.5, and the attempt ended at `last`."""
    history = good()
    put(history.spans, 0, last=last, outcome=outcome)
    history.freezes = [Freeze(10, 0.9, 3.5)]
    return history


@pytest.mark.parametrize("outcome", ["stopped", "done", None])
def test_what_a_frozen_process_does_in_its_first_moments_awake_counts_as_over(outcome: str | None) -> None:
    assert check(frozen(3.6, outcome)) == []


def test_a_frozen_process_must_end_its_attempts_when_it_wakes_up() -> None:
    assert "attempts_never_overlap" in {violation.rule for violation in check(frozen(5.0, "done"))}


def test_a_freeze_of_another_process_excuses_nothing() -> None:
    history = frozen(3.6, "stopped")
    history.freezes = [replace_pid(history.freezes[0])]

    assert "attempts_never_overlap" in {violation.rule for violation in check(history)}


def replace_pid(freeze: Freeze) -> Freeze:
    return freeze._replace(pid=freeze.pid + 1)


def test_the_most_slots_in_use_at_one_instant_are_counted_by_what_tasks_wrote() -> None:
    history = good()
    assert peak_use(history, "p") == 1

    put(history.spans, 1, last=4.5)
    assert peak_use(history, "p") == 2
    assert peak_use(replace(history, spans=[]), "p") == 0
