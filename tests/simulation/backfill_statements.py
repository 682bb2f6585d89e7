"""What the scheduler's statements on backfills do, on the modelled rows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import asyncpg

from aiosched.db.schema.tables import BACKFILL, DAG_RUN
from aiosched.db.statements import backfills
from tests.simulation.answers import Answer, answer, changed, handles, new_row, select, update
from tests.simulation.store import Strength, Transaction


@handles(backfills.INSERT_BACKFILL)
async def _insert_backfill(
    t: Transaction,
    dag_id: str,
    partition: int,
    first: datetime,
    final: datetime,
    most: int,
    backwards: bool,
    rerun: str,
    conf: str,
) -> Answer:
    number = t.store.number("backfill")
    if not await t.reserve("uq_backfill", dag_id):
        raise asyncpg.UniqueViolationError("uq_backfill_unfinished")
    t.put("uq_backfill", dag_id, {"of": ("backfill", number)})
    given = {
        "id": number, "dag_id": dag_id, "partition": partition, "from_date": first, "to_date": final,
        "max_active_runs": most, "backwards": backwards, "rerun": rerun, "conf": conf,
    }  # fmt: skip
    t.put("backfill", number, new_row(BACKFILL, given))
    return answer("id", [[number]], "INSERT 0")


@handles(backfills.EXISTING_RUNS)
async def _existing_runs(t: Transaction, dag_id: str, dates: list[datetime]) -> Answer:
    columns = "logical_date id run_id state"
    return select(t, DAG_RUN, columns, lambda row: row["dag_id"] == dag_id and row["logical_date"] in dates)


@handles(backfills.TAKE_RUNS)
async def _take_runs(t: Transaction, backfill: int, keys: list[int], orders: list[int], conf: str | None) -> Answer:
    taken = ({"run_type": "backfill", "backfill_id": backfill, "backfill_order": order} for order in orders)
    return await update(t, "dag_run", zip(keys, taken, strict=True))


@handles(backfills.LOAD_BACKFILLS)
async def _load_backfills(t: Transaction, partitions: list[int]) -> Answer:
    columns = BACKFILL.columns_of(backfills.Backfill)
    return select(t, BACKFILL, columns, lambda row: row["completed_at"] is None and row["partition"] in partitions)


@handles(backfills.PAUSE_BACKFILL)
async def _pause_backfill(t: Transaction, number: int, is_paused: bool) -> Answer:
    return await update(t, "backfill", [(number, {"is_paused": is_paused})], lambda row: row["completed_at"] is None)


@handles(backfills.CANCEL_RUNS)
async def _cancel_runs(t: Transaction, backfill: int, now: datetime) -> Answer:
    failed = []
    for key, row in list(t.rows("dag_run")):
        if (row["backfill_id"], row["state"]) != (backfill, "queued"):
            continue
        found = await t.lock("dag_run", key, Strength.NO_KEY_UPDATE, lambda row: row["state"] == "queued")
        if found is not None:
            t.put("dag_run", key, {**found, "state": "failed", "end_date": now, "reason": "cancelled"})
            failed.append([key])
    return answer("id", failed, "UPDATE")


@handles(backfills.COMPLETE)
async def _complete(t: Transaction, number: int, now: datetime, pauses: bool) -> Answer:
    row: dict[str, Any] | None = await t.lock("backfill", number, Strength.NO_KEY_UPDATE)
    if row is None:
        return changed("UPDATE", 0)
    if row["completed_at"] is None:
        t.delete("uq_backfill", row["dag_id"])
    t.put("backfill", number, {**row, "completed_at": now, "is_paused": row["is_paused"] or pauses})
    return changed("UPDATE", 1)
