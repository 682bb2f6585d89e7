"""Did the service do what it was asked: every attempt once, in order, and the rows say the same. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from benchmarks.record import Record, most_at_once
from benchmarks.shapes import Shape

SHOWN = 5  # examples named for each kind of problem


class Row(NamedTuple):
    """A task instance as the database has it in the end."""

    dag_id: str
    task_id: str
    state: str
    try_number: int


def verify(shape: Shape, records: Sequence[Record], rows: Sequence[Row]) -> list[str]:
    """One sentence for each kind of problem found; an empty list means that all is well."""
    expected = _expected(shape)
    return verify_records(shape, records) + _all(
        _say("task instances are missing in the database", expected - {(row.dag_id, row.task_id) for row in rows}),
        _say(
            "task instances are not a success of the first try in the database",
            {row for row in rows if (row.state, row.try_number) != ("success", 1)},
        ),
    )


def verify_records(shape: Shape, records: Sequence[Record]) -> list[str]:
    """The same of what the bodies wrote alone."""
    expected = _expected(shape)
    ran = {(r.dag_id, r.task_id) for r in records}
    return _all(
        _say("attempts ran more than once", _repeated(records)),
        _say("tasks never ran", expected - ran),
        _say("tasks ran that were not requested", ran - expected),
        _say("tasks needed more than one try", {(r.dag_id, r.task_id) for r in records if r.try_number != 1}),
        _say("tasks started before an upstream had ended", _too_early(shape, records)),
        _too_many(shape, records),
    )


def _all(*problems: str | None) -> list[str]:
    return [problem for problem in problems if problem]


def _expected(shape: Shape) -> set[tuple[str, str]]:
    return {(dag_id, task_id) for dag_id in shape.dag_ids() for task_id in shape.task_ids()}


def _repeated(records: Iterable[Record]) -> list[tuple[str, str, int]]:
    counts = Counter((r.dag_id, r.task_id, r.try_number) for r in records)
    return [attempt for attempt, times in counts.items() if times > 1]


def _too_early(shape: Shape, records: Iterable[Record]) -> list[tuple[str, str, str]]:
    by_task = {(r.dag_id, r.task_id): r for r in records}
    upstreams = shape.upstreams()
    return [
        (r.dag_id, upstream, r.task_id)
        for r in by_task.values()
        for upstream in upstreams.get(r.task_id, ())
        if (before := by_task.get((r.dag_id, upstream))) is not None and r.start < before.end
    ]


def _too_many(shape: Shape, records: Sequence[Record]) -> str | None:
    most = most_at_once(records) if shape.pool_slots is not None else 0
    if shape.pool_slots is None or most <= shape.pool_slots:
        return None
    return f"{most} tasks ran at one instant in a pool of {shape.pool_slots} slots"


def _say(problem: str, cases: Iterable[tuple[object, ...]]) -> str | None:
    found = sorted(" ".join(map(str, case)) for case in cases)
    if not found:
        return None
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return f"{len(found)} {problem}: {'; '.join(found[:SHOWN])}{more}"
