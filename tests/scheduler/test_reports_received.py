"""What a report changes as soon as it is received, and what becomes of one that nobody waits for."""

from __future__ import annotations

import pytest

from aiosched.clock import FakeClock
from aiosched.core.figures.metrics import Metrics
from aiosched.core.values.messages import AttemptKey, Outcome, Report
from aiosched.scheduler.attempts.attempts import Attempts
from aiosched.scheduler.loops.evaluation import decide
from aiosched.scheduler.memory.decision_context import DecisionContext
from tests.scheduler.harness import NEW_YEAR

ATTEMPT, TRIGGER = AttemptKey(7, 0, -1, 1), AttemptKey(7, 0, -1, -1)


def report(outcome: Outcome, key: AttemptKey = ATTEMPT, *, inbox_id: int | None = None) -> Report:
    return Report(key=key, outcome=outcome, at=NEW_YEAR, inbox_id=inbox_id)


@pytest.mark.parametrize("is_stored", [False, True], ids=["by itself", "by the inbox"])
def test_an_engine_is_told_once_that_an_attempt_on_it_has_ended(is_stored: bool) -> None:
    told = list[AttemptKey]()
    attempts = Attempts(Metrics(), release=told.append)
    receive = (lambda one: attempts.receive_stored([one])) if is_stored else attempts.receive
    attempts.adopt(ATTEMPT, 0.0, None)

    receive(report(Outcome.STARTED))
    assert (told, attempts.on_engines, attempts.in_flight.keys()) == ([], {ATTEMPT}, {ATTEMPT})
    receive(report(Outcome.SUCCESS))
    receive(report(Outcome.SUCCESS))

    assert (told, attempts.on_engines, attempts.in_flight, attempts.begun) == ([ATTEMPT], set(), {}, {})


def test_no_engine_is_told_of_an_attempt_that_runs_here() -> None:
    told = list[AttemptKey]()
    attempts = Attempts(Metrics(), in_flight={ATTEMPT: 0.0}, release=told.append)

    attempts.receive(report(Outcome.SUCCESS))

    assert (told, attempts.in_flight) == ([], {})


@pytest.mark.parametrize(
    ("one", "is_end"),
    [
        (report(Outcome.SUCCESS), True),
        (report(Outcome.LOST), True),
        (report(Outcome.STARTED), False),
        (report(Outcome.TRIGGERED, TRIGGER), False),
    ],
    ids=["success", "lost", "start", "trigger"],
)
@pytest.mark.parametrize("inbox_id", [None, 3], ids=["from here", "from another scheduler"])
def test_only_the_end_of_an_attempt_that_nobody_waits_for_frees_a_slot_and_is_kept_until_the_commit(
    clock: FakeClock, one: Report, is_end: bool, inbox_id: int | None
) -> None:
    context = DecisionContext(
        clock=clock, attempts=Attempts(Metrics()), incarnation=1, metrics=Metrics(),
        add_start=lambda _: None, on_run_end=lambda _: None,
    )  # fmt: skip
    stale = report(one.outcome, one.key, inbox_id=inbox_id)
    context.attempts.reports.append(stale)

    decide(context, NEW_YEAR)

    unstored = context.cache.unstored
    assert context.metrics.stale_reports == 1
    assert context.cache.work.room_changed is is_end
    assert unstored.reports() == ([stale] if is_end and inbox_id is None else [])
    assert unstored.pending.messages.read_reports == ([] if inbox_id is None else [inbox_id])
