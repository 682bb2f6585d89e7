"""What the statements on DAGs in quarantine do, on the modelled rows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from aiosched.db.schema.tables import DAG_QUARANTINE
from aiosched.db.statements import quarantine, runs
from aiosched.db.statements.quarantine import COLUMNS, FIRST_PAUSE, LONGEST_PAUSE
from tests.simulation.answers import Answer, answer, changed, handles, new_row, pick
from tests.simulation.store import Row, Strength, Transaction

NO_KEY_UPDATE, UPDATE = Strength.NO_KEY_UPDATE, Strength.UPDATE
_MOST_DOUBLINGS: Final = 20


def _is_left_alone(row: Row) -> bool:
    return row["tried_at"] is None


@handles(quarantine.PUT)
async def _put(t: Transaction, incarnation: int, now: datetime, version: str, *columns: list[str]) -> Answer:
    found = []
    for dag_id, place, error, traceback in zip(*columns, strict=True):
        dag = t.get("dag", dag_id)
        lease = None if dag is None else t.get("partition_lease", dag["partition"])
        if dag is None or lease is None or lease["incarnation"] != incarnation:
            continue
        failures, since = 0, now
        if not await t.reserve("dag_quarantine", dag_id):
            old = await t.lock("dag_quarantine", dag_id, NO_KEY_UPDATE)
            assert old is not None
            failures, since = old["failures"], old["since"]
        pause = min(FIRST_PAUSE * 2.0 ** min(failures, _MOST_DOUBLINGS), LONGEST_PAUSE)
        given = {
            "dag_id": dag_id, "failures": failures + 1, "since": since, "retry_at": now + timedelta(seconds=pause),
            "place": place, "error": error, "traceback": traceback, "version": version,
            "dag_version_id": dag["version_id"],
        }  # fmt: skip
        row = new_row(DAG_QUARANTINE, given)
        t.put("dag_quarantine", dag_id, row)
        found.append(pick(row, COLUMNS))
    return answer(COLUMNS, found, "INSERT 0")


@handles(quarantine.LOAD)
async def _load(t: Transaction, partitions: list[int]) -> Answer:
    found = []
    for dag_id, row in t.rows("dag_quarantine"):
        dag = t.get("dag", dag_id)
        if dag is not None and dag["partition"] in partitions:
            found.append([*pick(row, COLUMNS), row["dag_version_id"] != dag["version_id"]])
    return answer((*COLUMNS, "has_changed"), found)


@handles(quarantine.TAKE_UP)
async def _take_up(t: Transaction, now: datetime, dag_ids: list[str], failures: list[int]) -> Answer:
    count = 0
    for dag_id, number in zip(dag_ids, failures, strict=True):

        def is_as_read(row: Row, number: int = number) -> bool:
            return _is_left_alone(row) and row["failures"] == number

        row = await t.lock("dag_quarantine", dag_id, NO_KEY_UPDATE, is_as_read)
        if row is not None:
            t.put("dag_quarantine", dag_id, {**row, "tried_at": now})
            count += 1
    return changed("UPDATE", count)


@handles(quarantine.RELEASE)
async def _release(t: Transaction, dag_id: str, now: datetime) -> Answer:
    row = await t.lock("dag_quarantine", dag_id, NO_KEY_UPDATE, _is_left_alone)
    if row is None:
        return answer("dag_id", [], "UPDATE")
    t.put("dag_quarantine", dag_id, {**row, "retry_at": now})
    return answer("dag_id", [[dag_id]], "UPDATE")


@handles(quarantine.DELETE_RELEASED)
async def _forget(t: Transaction, dag_ids: list[str], before: datetime) -> Answer:
    def is_long_ago(row: Row) -> bool:
        return row["tried_at"] is not None and row["tried_at"] <= before

    gone = []
    for dag_id in dag_ids:
        if await t.lock("dag_quarantine", dag_id, UPDATE, is_long_ago) is not None:
            t.delete("dag_quarantine", dag_id)
            gone.append([dag_id])
    return answer("dag_id", gone, "DELETE")


@handles(runs.UNFINISHED_KEYS)
async def _unfinished_keys(t: Transaction, partitions: list[int], dag_ids: list[str]) -> Answer:
    def is_meant(row: Row) -> bool:
        return row["state"] in ("queued", "running") and row["partition"] in partitions and row["dag_id"] in dag_ids

    return answer("id dag_id", [[key, row["dag_id"]] for key, row in t.rows("dag_run") if is_meant(row)])
