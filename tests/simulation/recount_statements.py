"""What the statements that count again do, on the modelled rows. Only outsiders cause something to be corrected."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import msgspec

from aiosched.db.upkeep import recounts
from tests.simulation.answers import Answer, answer, changed, handles
from tests.simulation.store import Strength, Transaction


@handles(recounts.COUNT_HELD)
async def _count_held(t: Transaction, holding: list[str]) -> Answer:
    held = Counter[tuple[int, int]]()
    for key, row in t.rows("task_instance"):
        run = t.get("dag_run", key[0])
        waits = t.get("deferred_trigger", key) if row["state"] == "deferred" else None
        holds = row["state"] in holding or (waits is not None and waits["holds_pool"])
        if holds and run is not None and run["state"] in ("queued", "running"):
            held[run["version_id"], key[1]] += 1
    rows: list[list[Any]] = [[None, *place, number] for place, number in held.items()]
    rows += [[name, None, None, row["used"]] for name, row in t.rows("pool")]
    return answer("pool version_id task_index number", rows)


@handles(recounts.POOLS_OF_TASKS)
async def _pools_of_tasks(t: Transaction, versions: list[int], tasks: list[int]) -> Answer:
    rows = []
    for version, index in set(zip(versions, tasks, strict=True)):
        row = t.get("dag_version", version)
        task = msgspec.json.decode(row["spec"])["tasks"][index] if row is not None else {}
        slots = task.get("pool_slots")
        rows.append([version, index, task.get("pool"), None if slots is None else str(slots)])
    return answer("version task pool slots", rows)


@handles(recounts.LOCK_ALL_POOLS)
async def _lock_all_pools(t: Transaction) -> Answer:
    names = [name for name, _ in t.rows("pool")]
    for name in sorted(names):
        await t.lock("pool", name, Strength.UPDATE)
    return answer("name", [[name] for name in names])


@handles(recounts.SET_USED)
async def _set_used(t: Transaction, names: list[str], used: list[int]) -> Answer:
    for name, number in zip(names, used, strict=True):
        row = await t.lock("pool", name, Strength.NO_KEY_UPDATE)
        assert row is not None
        t.put("pool", name, {**row, "used": number})
    return changed("UPDATE", len(names))


async def _delete_orphans(t: Transaction, after: int, runs: int, most: int, *, table: str) -> Answer:
    """Nothing is deleted here: no run of a fleet is ever gone."""
    rows = t.rows(table) if table in t.store.tables else ()
    there = {row["run_id"] if table == "callback_outbox" else key[0] for key, row in rows}
    found = sorted(run for run in there if run > after)[:runs]
    assert all(t.get("dag_run", run) is not None for run in found)
    return answer("runs last rows gone", [[len(found), max(found, default=None), 0, 0]])


for _table, _text in recounts.DELETE_ORPHANS.items():
    handles(_text)(partial(_delete_orphans, table=_table))
