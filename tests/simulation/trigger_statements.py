"""What the statements of deferred task instances do, on the modelled rows."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from aiosched.db.schema.tables import DEFERRED_TRIGGER
from aiosched.db.statements import triggers
from tests.simulation.answers import Answer, batch, changed, delete, handles, select, upsert
from tests.simulation.store import Row, Strength, Transaction

NO_KEY_UPDATE = Strength.NO_KEY_UPDATE
_PLACE: Final = "run_id task_index map_index"
_FIELDS: Final = triggers.DeferralRow._fields
_WAITED_FOR: Final = ("deferred", "scheduled", "queued", "running", "restarting", "shutdown")


@handles(triggers.STORE_DEFERRALS)
async def _store_deferrals(t: Transaction, *columns: Any) -> Answer:
    rows = batch(DEFERRED_TRIGGER, _FIELDS, columns)
    ended = {_place(row) for row in rows if not _waits(row)}
    for key, since in list(t.rows("deferral")):
        if key[:3] in ended and await t.lock("deferral", key, NO_KEY_UPDATE, lambda row: row["until"] is None):
            t.put("deferral", key, {**since, "until": t.now})
    await upsert(t, DEFERRED_TRIGGER, rows)
    for row in rows:
        if not _waits(row) or (instance := t.get("task_instance", _place(row))) is None:
            continue
        key = (*_place(row), instance["try_number"], t.now)
        if not await t.reserve("deferral", key):
            raise asyncpg.UniqueViolationError("pk_deferral")
        t.put("deferral", key, dict(zip([*_PLACE.split(), "try_number", "since"], key, strict=True)) | {"until": None})
    return changed("INSERT 0", len(rows))


def _place(row: Row) -> tuple[int, int, int]:
    return row["run_id"], row["task_index"], row["map_index"]


def _waits(row: Row) -> bool:
    return row["event"] is None and row["error"] is None


@handles(triggers.DELETE_DEFERRALS)
async def _delete_deferrals(t: Transaction, *columns: Any) -> Answer:
    return changed("DELETE", await delete(t, DEFERRED_TRIGGER, zip(*columns, strict=True)))


@handles(triggers.LOAD_DEFERRALS)
async def _load_deferrals(t: Transaction, runs: list[int]) -> Answer:
    return select(t, DEFERRED_TRIGGER, _FIELDS, lambda row: row["run_id"] in runs)


@handles(triggers.WAITING_TRIGGERS)
async def _waiting_triggers(t: Transaction, runs: list[int]) -> Answer:
    return select(t, DEFERRED_TRIGGER, _PLACE, lambda row: row["run_id"] in runs)


@handles(triggers.DELETE_ORPHANS)
async def _delete_orphans(t: Transaction, partitions: list[int], incarnation: int) -> Answer:
    if t.get("scheduler", incarnation) is None:
        return changed("DELETE", 0)
    orphans = []
    for key, _ in t.rows("deferred_trigger"):
        instance, run = t.get("task_instance", key), t.get("dag_run", key[0])
        waits = instance is not None and instance["state"] in _WAITED_FOR
        if not waits and (run is None or run["partition"] in partitions):
            orphans.append(key)
    return changed("DELETE", await delete(t, DEFERRED_TRIGGER, orphans))
