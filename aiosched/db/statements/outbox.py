"""Statements on the callback outbox: requests for callbacks, each with an id, until they have run.

No decisions live here. A request is inserted by the transaction that stores its reason, so there is exactly one; it is
deleted when a worker has run it, so it is delivered at least once.

Source: the semantics reference, sections 16.2 (4) and 23, and section 34 decision 14.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from aiosched.core.run.callbacks import KINDS
from aiosched.core.values.messages import CallbackCall
from aiosched.db.schema.tables import CALLBACK_OUTBOX
from aiosched.db.server.connection import DatabaseConnection


class NewCallback(NamedTuple):
    """A request to store."""

    partition: int
    kind: str
    dag_id: str
    run_id: int
    task_id: str | None = None
    map_index: int | None = None
    try_number: int | None = None
    deadline_index: int | None = None
    reason: str | None = None


class WaitingCallback(NamedTuple):
    """Whose request waits: its partition and its DAG."""

    partition: int
    dag_id: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """A request that is about to be submitted to a worker, unless it was `given_up` after too many deliveries."""

    id: int
    kind: str
    dag_id: str
    run: int
    task_id: str | None
    map_index: int
    try_number: int
    deadline_index: int
    reason: str | None
    given_up: bool
    team: str | None  # of the DAG

    def call(self) -> CallbackCall:
        """The call that the worker receives."""
        return CallbackCall(
            id=self.id,
            kind=self.kind,
            reason=self.reason,
            task_id=self.task_id,
            map_index=self.map_index,
            try_number=self.try_number,
            index=self.deadline_index,
        )


INSERT_CALLBACKS: Final = f"{CALLBACK_OUTBOX.insert(NewCallback._fields)} RETURNING id, partition, dag_id"


async def insert_callbacks(conn: DatabaseConnection, callbacks: Sequence[NewCallback]) -> dict[int, WaitingCallback]:
    """Store requests; returns them by their ids in ascending order."""
    rows = await conn.fetch(INSERT_CALLBACKS, *map(list, zip(*callbacks, strict=True)))
    return {number: WaitingCallback(*row) for number, *row in sorted(map(tuple, rows))}


PAGE: Final = 1_000  # requests that are read at once

# One page, onwards from $2. Index: ix_callback_outbox_waiting (partial).
WAITING_CALLBACKS: Final = """
    SELECT id, partition, dag_id, kind FROM callback_outbox
     WHERE given_up_at IS NULL AND partition = ANY($1::smallint[]) AND id > $2 ORDER BY id LIMIT $3
"""


async def waiting_callbacks(
    conn: DatabaseConnection, partitions: Iterable[int]
) -> tuple[dict[int, WaitingCallback], dict[int, str]]:
    """The requests in `partitions` that are not known to have run, by id, oldest first.

    Also returns those of a kind that this aiosched does not know: the kind of each by id. They are read in pages, so
    the partitions must be ours: then nobody adds or removes requests meanwhile.
    """
    wanted, after, is_cut = list(partitions), 0, True
    found: dict[int, WaitingCallback] = {}
    unknown: dict[int, str] = {}
    while is_cut:
        rows = await conn.fetch(WAITING_CALLBACKS, wanted, after, PAGE)
        for number, partition, dag_id, kind in rows:
            if kind in KINDS:
                found[number] = WaitingCallback(partition, dag_id)
            else:
                unknown[number] = kind
            after = number
        is_cut = len(rows) >= PAGE
    return found, unknown


# Counted before it is submitted, so that a callback that kills its scheduler is not retried for ever. Index: primary
# key.
BEGIN_DELIVERIES: Final = """
    UPDATE callback_outbox
       SET attempts = least(attempts + 1, $2), given_up_at = CASE WHEN attempts >= $2 THEN now() END,
           error = CASE WHEN attempts >= $2 THEN coalesce(error, 'its scheduler ended while it ran') ELSE error END
     WHERE id = ANY($1::bigint[]) AND given_up_at IS NULL
    RETURNING id, kind, dag_id, run_id, task_id, coalesce(map_index, -1), coalesce(try_number, 0),
              coalesce(deadline_index, 0), reason, given_up_at IS NOT NULL,
              (SELECT d.team FROM dag AS d WHERE d.dag_id = callback_outbox.dag_id)
"""


async def begin_deliveries(conn: DatabaseConnection, ids: Sequence[int], *, most: int) -> list[Delivery]:
    """Count one more delivery of each request; returns those that still wait, by id, including those given up now."""
    rows = await conn.fetch(BEGIN_DELIVERIES, list(ids), most)
    return sorted((Delivery(*row) for row in rows), key=lambda delivery: delivery.id)


DELETE_CALLBACKS: Final = "DELETE FROM callback_outbox WHERE id = ANY($1::bigint[])"


async def delete_callbacks(conn: DatabaseConnection, ids: Sequence[int]) -> None:
    """Delete requests that have run."""
    await conn.execute(DELETE_CALLBACKS, list(ids))


# Guard: delivered often enough. The others keep the error of their last delivery and continue to wait.
GIVE_UP_CALLBACKS: Final = """
    UPDATE callback_outbox AS c
       SET error = f.error, given_up_at = CASE WHEN c.attempts >= $3 THEN now() END
      FROM unnest($1::bigint[], $2::text[]) AS f (id, error)
     WHERE c.id = f.id
    RETURNING c.id, c.given_up_at IS NULL
"""


async def fail_deliveries(
    conn: DatabaseConnection, failures: Sequence[tuple[int, str]], *, most: int
) -> dict[int, bool]:
    """Record (id, error) of deliveries that failed to run; returns for each id whether to deliver it again.

    After `most` deliveries a request is given up: its row is kept, with the error, for users to see.
    """
    ids, errors = [callback for callback, _ in failures], [error for _, error in failures]
    return dict(await conn.fetch(GIVE_UP_CALLBACKS, ids, errors, most))
