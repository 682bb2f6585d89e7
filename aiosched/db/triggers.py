"""Statements on what deferred task instances wait for. No decisions live here.

A row lives from the transaction that stores `deferred` to the one that stores the end of the
try that went on. Source: the semantics reference, section 25.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from aiosched.core.deferral import Deferred
from aiosched.core.instances import Instance
from aiosched.core.messages import Deferral, Resume
from aiosched.db.engine import Connection


class DeferralRow(NamedTuple):
    """A deferral to store. `kwargs`, `next_kwargs` and `event` are JSON texts; no `event` and no `error`: it waits."""

    run_id: int
    task_index: int
    map_index: int
    classpath: str
    kwargs: str
    next_method: str
    next_kwargs: str
    timeout_at: datetime | None
    holds_pool: bool
    event: str | None
    error: str | None
    timed_out: bool


def deferral_of(row: DeferralRow) -> tuple[Deferred, bool]:
    """What a row says, and whether the instance holds its pool's slots."""
    deferral = Deferral(
        classpath=row.classpath, kwargs=row.kwargs, next_method=row.next_method, next_kwargs=row.next_kwargs
    )
    resume = None
    if row.event is not None or row.error is not None:
        resume = Resume(
            next_method=row.next_method,
            next_kwargs=row.next_kwargs,
            event="null" if row.event is None else row.event,
            error=row.error,
            timed_out=row.timed_out,
        )
    return Deferred(deferral, row.timeout_at, resume), row.holds_pool


def deferral_row(run: int, instance: Instance, waited: Deferred) -> DeferralRow:
    """The row of an instance's deferral as it is now."""
    deferral, resume = waited.deferral, waited.resume
    return DeferralRow(
        run,
        instance.task,
        instance.map_index,
        deferral.classpath,
        deferral.kwargs,
        deferral.next_method,
        deferral.next_kwargs,
        waited.timeout_at,
        instance.holds_pool,
        None if resume is None or resume.error is not None else resume.event,
        None if resume is None else resume.error,
        resume is not None and resume.timed_out,
    )


# Index: primary key. A task that defers again replaces its row.
STORE_DEFERRALS: Final = """
    INSERT INTO deferred_trigger (run_id, task_index, map_index, classpath, kwargs, next_method, next_kwargs,
                                  timeout_at, holds_pool, event, error, timed_out)
    SELECT run_id, task_index, map_index, classpath, kwargs::json, next_method, next_kwargs::json, timeout_at,
           holds_pool, event::json, error, timed_out
      FROM unnest($1::bigint[], $2::int[], $3::int[], $4::text[], $5::text[], $6::text[], $7::text[],
                  $8::timestamptz[], $9::boolean[], $10::text[], $11::text[], $12::boolean[])
        AS d (run_id, task_index, map_index, classpath, kwargs, next_method, next_kwargs, timeout_at,
              holds_pool, event, error, timed_out)
    ON CONFLICT (run_id, task_index, map_index) DO UPDATE
       SET classpath = excluded.classpath, kwargs = excluded.kwargs, next_method = excluded.next_method,
           next_kwargs = excluded.next_kwargs, timeout_at = excluded.timeout_at, holds_pool = excluded.holds_pool,
           event = excluded.event, error = excluded.error, timed_out = excluded.timed_out
"""


async def store_deferrals(conn: Connection, rows: Sequence[DeferralRow]) -> None:
    """Store deferrals as they are now, in the transaction that stores the states of their instances."""
    await conn.execute(STORE_DEFERRALS, *map(list, zip(*rows, strict=True)))


DELETE_DEFERRALS: Final = """
    DELETE FROM deferred_trigger AS t
     USING unnest($1::bigint[], $2::int[], $3::int[]) AS d (run_id, task_index, map_index)
     WHERE t.run_id = d.run_id AND t.task_index = d.task_index AND t.map_index = d.map_index
"""


async def delete_deferrals(conn: Connection, instances: Sequence[tuple[int, int, int]]) -> None:
    """Forget the deferrals of (run, task index, map index)."""
    await conn.execute(DELETE_DEFERRALS, *map(list, zip(*instances, strict=True)))


LOAD_DEFERRALS: Final = """
    SELECT run_id, task_index, map_index, classpath, kwargs, next_method, next_kwargs, timeout_at, holds_pool, event,
           error, timed_out
      FROM deferred_trigger WHERE run_id = ANY($1::bigint[])
"""


async def load_deferrals(conn: Connection, runs: Iterable[int]) -> dict[tuple[int, int, int], tuple[Deferred, bool]]:
    """The deferrals of runs by (run, task index, map index), each with whether it holds its pool's slots."""
    rows = map(DeferralRow._make, await conn.fetch(LOAD_DEFERRALS, list(runs)))
    return {(row.run_id, row.task_index, row.map_index): deferral_of(row) for row in rows}
