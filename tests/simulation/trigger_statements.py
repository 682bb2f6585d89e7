"""What the statements of deferred task instances do, on the modelled rows."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from aiosched.db.statements import triggers
from tests.simulation.answers import Answer, answer, changed, handles, pick
from tests.simulation.store import Row, Strength, Transaction

NO_KEY_UPDATE, UPDATE = Strength.NO_KEY_UPDATE, Strength.UPDATE
_PLACE: Final = "run_id task_index map_index"
_FIELDS: Final = triggers.DeferralRow._fields
_WAITED_FOR: Final = ("deferred", "scheduled", "queued", "running", "restarting", "shutdown")


@handles(triggers.STORE_DEFERRALS)
async def _store_deferrals(t: Transaction, *columns: Any) -> Answer:
    rows = [dict(zip(_FIELDS, values, strict=True)) for values in zip(*columns, strict=True)]
    ended = {_place(row) for row in rows if not _waits(row)}
    for key, since in list(t.rows("deferral")):
        if key[:3] in ended and await t.lock("deferral", key, NO_KEY_UPDATE, lambda row: row["until"] is None):
            t.put("deferral", key, {**since, "until": t.now})
    for row in rows:
        place = _place(row)
        if not await t.reserve("deferred_trigger", place):
            await t.lock("deferred_trigger", place, NO_KEY_UPDATE)
        t.put("deferred_trigger", place, row)
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
    return changed("DELETE", await _delete(t, list(zip(*columns, strict=True))))


async def _delete(t: Transaction, places: list[tuple[int, int, int]]) -> int:
    count = 0
    for place in places:
        if await t.lock("deferred_trigger", place, UPDATE) is not None:
            t.delete("deferred_trigger", place)
            count += 1
    return count


@handles(triggers.LOAD_DEFERRALS)
async def _load_deferrals(t: Transaction, runs: list[int]) -> Answer:
    columns = " ".join(_FIELDS)
    return answer(columns, [pick(row, columns) for key, row in t.rows("deferred_trigger") if key[0] in runs])


@handles(triggers.WAITING_TRIGGERS)
async def _waiting_triggers(t: Transaction, runs: list[int]) -> Answer:
    return answer(_PLACE, [pick(row, _PLACE) for key, row in t.rows("deferred_trigger") if key[0] in runs])


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
    return changed("DELETE", await _delete(t, orphans))
