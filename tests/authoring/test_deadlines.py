"""Deadlines as authors write them, and as the scheduler is told. Source: the semantics reference, section 23.4."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aiosched import DAG, DeadlineAlert, DeadlineReference
from aiosched.authoring.dag.deadlines import Reference
from aiosched.core.graph.spec import DeadlineSpec
from aiosched.errors import DagError

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("reference", "spec"),
    [
        (DeadlineReference.DAGRUN_LOGICAL_DATE, DeadlineSpec(reference="logical_date", interval=60)),
        (DeadlineReference.DAGRUN_QUEUED_AT, DeadlineSpec(reference="queued_at", interval=60)),
        (DeadlineReference.FIXED_DATETIME(AT), DeadlineSpec(reference="fixed", interval=60, at=AT)),
        (
            DeadlineReference.AVERAGE_RUNTIME(5, min_runs=2),
            DeadlineSpec(reference="average_runtime", interval=60, max_runs=5, min_runs=2),
        ),
        (DeadlineReference.AVERAGE_RUNTIME(), DeadlineSpec(reference="average_runtime", interval=60)),
    ],
)
def test_each_reference_reaches_the_scheduler(reference: Reference, spec: DeadlineSpec) -> None:
    alert = DeadlineAlert(reference=reference, interval=timedelta(minutes=1), callback=print)

    assert DAG("d", deadline=alert).to_spec().deadlines == (spec,)


def test_a_dag_may_have_several_and_their_callbacks_are_found_by_their_position() -> None:
    first = DeadlineAlert(reference=DeadlineReference.DAGRUN_QUEUED_AT, interval=5, callback=print)
    second = DeadlineAlert(reference=DeadlineReference.DAGRUN_QUEUED_AT, interval=-5, callback=repr)
    dag = DAG("d", deadline=[first, second])

    assert [one.interval for one in dag.to_spec().deadlines] == [5, -5]
    assert [one.callback for one in dag.deadlines] == [print, repr]
    assert DAG("e").deadlines == []


QUEUED = DeadlineReference.DAGRUN_QUEUED_AT


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: DAG("d", deadline=5), "deadline=5 is wrong: give a DeadlineAlert"),  # type: ignore[arg-type]
        (
            lambda: DeadlineAlert(reference="now", interval=5, callback=print),
            "is not a reference. Use DeadlineReference",
        ),  # type: ignore[arg-type]
        (lambda: DeadlineAlert(reference=QUEUED, interval="5", callback=print), "give a timedelta"),  # type: ignore[arg-type]
        (lambda: DeadlineAlert(reference=QUEUED, interval=5, callback=None), "give a function"),  # type: ignore[arg-type]
        (lambda: DeadlineReference.AVERAGE_RUNTIME(0), "max_runs=0"),
        (lambda: DeadlineReference.AVERAGE_RUNTIME(2, 3), "min_runs=3 is more than max_runs=2"),
        (lambda: DeadlineReference.FIXED_DATETIME("soon"), "'soon' is not a date"),
    ],
)
def test_a_wrong_deadline_is_refused_at_its_line(wrong: Callable[[], Any], message: str) -> None:
    with pytest.raises(DagError, match=message) as caught:
        wrong()

    assert (caught.value.file or "").endswith("test_deadlines.py")
