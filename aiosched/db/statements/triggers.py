"""Statements on the deferrals of task instances. No decisions live here.

A row lives from the transaction that stores `deferred` to the one that stores the end of the try that resumed. The
arguments of the trigger and of the method are encrypted if there is a key (sealing.py). Source: the semantics
reference, section 25.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from aiosched.core.graph.instances import Instance
from aiosched.core.run.deferral import Deferred
from aiosched.core.values.messages import Deferral, Resume
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.crypto.sealing import NOTHING, is_sealed, opened, sealed
from aiosched.db.schema.table import same
from aiosched.db.schema.tables import DEFERRED_TRIGGER
from aiosched.db.server.connection import DatabaseConnection
from aiosched.errors import ConfigError, Refused


class DeferralRow(NamedTuple):
    """A deferral to store. `kwargs`, `next_kwargs` and `event` are JSON texts; without `event` and `error` it waits.

    A trigger that has fired no longer needs arguments: its row has none.
    """

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
    """The deferral in a row, and whether the instance holds its pool's slots."""
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
    """The current row of an instance's deferral."""
    deferral, resume = waited.deferral, waited.resume
    return DeferralRow(
        run,
        instance.task,
        instance.map_index,
        deferral.classpath,
        deferral.kwargs if resume is None else NOTHING,
        deferral.next_method,
        deferral.next_kwargs,
        waited.timeout_at,
        instance.holds_pool,
        None if resume is None or resume.error is not None else resume.event,
        None if resume is None else resume.error,
        resume is not None and resume.timed_out,
    )


# Index: primary keys. A task that defers again replaces its row; `deferral` keeps when it waited.
STORE_DEFERRALS: Final = f"""
    WITH d AS (
        SELECT *, event IS NULL AND error IS NULL AS waits
          FROM {DEFERRED_TRIGGER.batch(DeferralRow._fields, name="d")}
    ), began AS (
        INSERT INTO deferral (run_id, task_index, map_index, try_number, since)
        SELECT d.run_id, d.task_index, d.map_index, ti.try_number, now()
          FROM d JOIN task_instance AS ti USING (run_id, task_index, map_index) WHERE d.waits
    ), ended AS (
        UPDATE deferral AS f SET until = now() FROM d
         WHERE NOT d.waits AND {same(DEFERRED_TRIGGER.key, "f", "d")} AND f.until IS NULL
    )
    {DEFERRED_TRIGGER.upsert(DeferralRow._fields, source="d")}
"""


async def store_deferrals(
    conn: DatabaseConnection, rows: Iterable[DeferralRow], keyring: Keyring | None = None
) -> None:
    """Store the current deferrals, in the transaction that stores the states of their instances.

    Their arguments are encrypted if `keyring` has a key.
    """
    rows = sorted(rows, key=_place)  # one order for all writers
    texts = await sealed(conn, (text for row in rows for text in (row.kwargs, row.next_kwargs)), keyring)
    stored = (
        row._replace(kwargs=texts.get(row.kwargs, row.kwargs), next_kwargs=texts.get(row.next_kwargs, row.next_kwargs))
        for row in rows
    )
    await conn.execute(STORE_DEFERRALS, *map(list, zip(*stored, strict=True)))


DELETE_DEFERRALS: Final = DEFERRED_TRIGGER.delete(DEFERRED_TRIGGER.key)


async def delete_deferrals(conn: DatabaseConnection, instances: Sequence[tuple[int, int, int]]) -> None:
    """Delete the deferrals of (run, task index, map index)."""
    await conn.execute(DELETE_DEFERRALS, *map(list, zip(*instances, strict=True)))


LOAD_DEFERRALS: Final = f"""
    SELECT {", ".join(DeferralRow._fields)} FROM deferred_trigger WHERE run_id = ANY($1::bigint[])
"""


async def load_deferrals(
    conn: DatabaseConnection, runs: Iterable[int], keyring: Keyring | None = None
) -> dict[tuple[int, int, int], tuple[Deferred, bool]]:
    """The deferrals of runs by (run, task index, map index), each with whether it holds its pool's slots.

    A deferral whose arguments no key decrypts has ended: its task resumes by failing, with that reason.
    """
    rows = [DeferralRow._make(row) for row in await conn.fetch(LOAD_DEFERRALS, list(runs))]
    if any(is_sealed(row.kwargs) or is_sealed(row.next_kwargs) for row in rows):
        rows = await asyncio.to_thread(lambda: [_opened(row, keyring) for row in rows])
    return {_place(row): deferral_of(row) for row in rows}


def _opened(row: DeferralRow, keyring: Keyring | None) -> DeferralRow:
    try:
        kwargs = opened(row.kwargs, keyring, what="the arguments of its trigger")
        return row._replace(
            kwargs=kwargs, next_kwargs=opened(row.next_kwargs, keyring, what="the arguments of its next method")
        )
    except (ConfigError, Refused) as error:
        return row._replace(kwargs=NOTHING, next_kwargs=NOTHING, event=None, error=str(error))


def _place(row: DeferralRow) -> tuple[int, int, int]:
    return row.run_id, row.task_index, row.map_index


# Index: primary keys. Guards: the caller owns the partition; the run's row may no longer exist.
DELETE_ORPHANS: Final = """
    DELETE FROM deferred_trigger AS t
     WHERE NOT EXISTS (SELECT FROM task_instance AS ti
                        WHERE ti.run_id = t.run_id AND ti.task_index = t.task_index AND ti.map_index = t.map_index
                          AND ti.state IN ('deferred', 'scheduled', 'queued', 'running', 'restarting', 'shutdown'))
       AND NOT EXISTS (SELECT FROM dag_run AS r WHERE r.id = t.run_id AND NOT r.partition = ANY($1::smallint[]))
       AND EXISTS (SELECT FROM scheduler WHERE incarnation = $2)
"""


async def delete_orphans(conn: DatabaseConnection, partitions: Iterable[int], incarnation: int) -> int:
    """Delete deferrals of `partitions`, or without a run, that no task instance waits for; returns how many."""
    done: str = await conn.execute(DELETE_ORPHANS, list(partitions), incarnation)
    return int(done.rpartition(" ")[2])


WAITING_TRIGGERS: Final = """
    SELECT run_id, task_index, map_index FROM deferred_trigger WHERE run_id = ANY($1::bigint[])
"""


async def waiting_triggers(conn: DatabaseConnection, runs: Iterable[int]) -> set[tuple[int, int, int]]:
    """The (run, task index, map index) of all deferrals of `runs`."""
    return {tuple(row) for row in await conn.fetch(WAITING_TRIGGERS, list(runs))}


SEALED_DEFERRALS: Final = """
    SELECT run_id, task_index, map_index, kwargs, next_kwargs FROM deferred_trigger
     WHERE json_typeof(kwargs) = 'string' OR json_typeof(next_kwargs) = 'string'
     ORDER BY run_id, task_index, map_index FOR UPDATE
"""
RENEW_DEFERRAL: Final = """
    UPDATE deferred_trigger SET kwargs = $4::json, next_kwargs = $5::json
     WHERE run_id = $1 AND task_index = $2 AND map_index = $3
"""


async def renew_deferrals(conn: DatabaseConnection, keyring: Keyring) -> int:
    """Encrypt the arguments of waiting deferrals again, with the first key; returns the number of rows.

    Arguments that no key decrypts do not change: their tasks fail when they are loaded.
    """
    renewed = []
    for *place, kwargs, next_kwargs in await conn.fetch(SEALED_DEFERRALS):
        with contextlib.suppress(Refused):
            renewed.append((*place, _renewed(kwargs, keyring), _renewed(next_kwargs, keyring)))
    await conn.executemany(RENEW_DEFERRAL, renewed)
    return len(renewed)


def _renewed(text: str, keyring: Keyring) -> str:
    return json.dumps(keyring.renew(json.loads(text), what="it")) if is_sealed(text) else text
