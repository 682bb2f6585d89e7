"""Which DAG is to blame when a batch of the journal cannot be stored.

A batch holds the decisions about many DAGs. If one value in it cannot be stored, its statement fails for all of them.
Then parts of the batch are written in transactions that are rolled back, halves of halves, until the DAGs that fail
alone are found. In the same way the reports whose results cannot be stored are found among those of such a DAG: one
that fails again and again is set aside. Only such a failure costs these transactions. Source: docs/architecture.md,
"Quarantine".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from aiosched.core.values.messages import Report
from aiosched.errors import DagFailure, StaleRows
from aiosched.scheduler.failures.isolation import (
    NotRepeated,
    failure_of,
    failure_of_report,
    is_about_all,
    is_unforeseen,
    raise_failures,
)
from aiosched.scheduler.journal.journal import Journal
from aiosched.scheduler.memory.cache import StateCache
from aiosched.scheduler.memory.changes import Changes
from aiosched.scheduler.session.session import Session

T = TypeVar("T")

_Place = tuple[int | None, int | None, int | None]  # of a task instance: run, task, map index

# Rows that belong to a run, by group and list, and how to read its key.
_ROWS: Final[Sequence[tuple[str, str, Callable[[Any], int]]]] = (
    *(
        ("tasks", name, lambda row: row[0])
        for name in (
            "instances", "expanded", "collapsed", "created", "sources", "rendered", "xcoms", "forget_xcoms",
            "deferrals", "undeferred",
        )
    ),
    ("tasks", "tries", lambda row: row.key.run),
    ("runs", "changed", lambda row: row.id),
    ("runs", "deadlines", lambda row: row.run_id),
    ("runs", "kept_deadlines", lambda row: row[0]),
    ("messages", "attempts", lambda row: row.attempt.key.run),
    ("messages", "callbacks", lambda row: row.run_id),
    ("messages", "asset_events", lambda row: row.run_id),
)  # fmt: skip

# Those of them that belong to one task instance, and how to read where it is.
_ROWS_OF_INSTANCES: Final[Sequence[tuple[str, Callable[[Any], _Place]]]] = (
    *(
        (name, lambda row: row[:3])
        for name in ("instances", "sources", "rendered", "xcoms", "forget_xcoms", "deferrals", "undeferred")
    ),
    ("tries", lambda row: row.key[:3]),
)


class _RollBack(Exception):
    """Ends a transaction whose statements were all accepted."""


class attributing:
    """A block in which an error in a transaction of the journal is raised as failures of the DAGs that cause it."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    async def __aenter__(self) -> None:
        return

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            raise_failures(await find_culprits(self._session, error))


async def find_culprits(session: Session, error: Exception) -> list[DagFailure]:
    """The DAGs because of which the batch that was sent last could not be stored; `error` is what it failed with.

    Empty if it concerns no single DAG. Raises NotRepeated if the changes of each DAG can be stored alone. Call it
    without a transaction of the journal.
    """
    batch = session.cache.unstored.storing
    if batch is None or isinstance(error, DagFailure) or not is_unforeseen(error):
        return []
    parts = parts_of(batch, session.cache)
    failing = await _failing(session.env.journal, list(parts.items()))
    if parts and not failing:
        raise NotRepeated("storing changes", error) from error
    if is_about_all(failing, parts, session.cache.dags):
        return []
    found: list[DagFailure] = []
    for dag_id, why in failing:
        odd = await _failing(session.env.journal, _results(parts[dag_id], batch.effects.reports))
        about_reports = [failure_of_report(each, dag_id, report) for report, each in odd]
        found += about_reports or [failure_of(why, dag_id, "storing its changes")]
    return found


def parts_of(batch: Changes, cache: StateCache) -> dict[str, Changes]:
    """The rows of a batch by DAG; the use of pools and the answers to requests are left out."""
    boards = (*cache.boards.values(), *(board for dag in cache.dags.values() for board in dag.runs.ending.values()))
    dag_of = {board.run.key: board.run.dag_id for board in boards}
    found: dict[str, Changes] = {}
    for group, name, run_of in _ROWS:
        for row in getattr(getattr(batch, group), name):
            if (dag_id := dag_of.get(run_of(row))) is not None:
                part = found.setdefault(dag_id, Changes())
                getattr(getattr(part, group), name).append(row)
    return found


def _results(part: Changes, reports: Sequence[Report]) -> list[tuple[Report, Changes]]:
    """The rows of the task instances that these reports are about, by report."""
    found: dict[_Place, Changes] = {}
    for name, place_of in _ROWS_OF_INSTANCES:
        for row in getattr(part.tasks, name):
            getattr(found.setdefault(place_of(row), Changes()).tasks, name).append(row)
    for event in part.messages.asset_events:
        place = (event.run_id, event.task_index, event.map_index)
        found.setdefault(place, Changes()).messages.asset_events.append(event)
    last: dict[_Place, Report] = {report.key[:3]: report for report in reports}
    return [(last[place], rows) for place, rows in found.items() if place in last]


async def _failing(journal: Journal, parts: Sequence[tuple[T, Changes]]) -> list[tuple[T, Exception]]:
    """Those of the parts that cannot be stored alone, and why."""
    if not parts:
        return []
    try:
        async with journal.transaction() as transaction:
            for _, part in parts:
                await transaction.write(part)
            raise _RollBack
    except _RollBack:
        return []
    except StaleRows:  # it had been stored, after all
        return []
    except Exception as error:
        if not is_unforeseen(error):
            raise
        if len(parts) == 1:
            return [(parts[0][0], error)]
        half = len(parts) // 2
        return [*await _failing(journal, parts[:half]), *await _failing(journal, parts[half:])]
