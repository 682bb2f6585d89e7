"""What the scheduler's statements on DAGs, runs, requests, callbacks and reports do, on the modelled rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from aiosched.core.values.ids import as_incomplete
from aiosched.db.schema.tables import CALLBACK_OUTBOX, DAG, DAG_RUN, DAG_VERSION, TASK_INSTANCE, TASK_REPORT, TASK_TRY
from aiosched.db.statements import clearing, inbox, outbox, reports, runs, schedules, set_aside
from aiosched.db.statements import rehydration as rehydrations
from tests.simulation.answers import (
    Answer,
    answer,
    batch,
    changed,
    delete,
    handles,
    insert,
    key_of,
    new_row,
    pick,
    select,
    update,
)
from tests.simulation.store import Row, Strength, Transaction

NO_KEY_UPDATE, UPDATE = Strength.NO_KEY_UPDATE, Strength.UPDATE

# -- DAGs and runs ----------------------------------------------------------------------------


@handles(runs.LOAD_DAGS)
async def _load_dags(t: Transaction, partitions: list[int]) -> Answer:
    return select(t, DAG, DAG.columns_of(runs.DagRow), lambda row: row["partition"] in partitions)


@handles(runs.LOAD_VERSIONS)
async def _load_versions(t: Transaction, ids: list[int]) -> Answer:
    columns = "id dag_id number file source_hash sources spec bundle bundle_version"
    return select(t, DAG_VERSION, columns, lambda row: row["id"] in ids)


def _runs(t: Transaction, wanted: Callable[[Row], object]) -> Answer:
    return select(t, DAG_RUN, runs.RUN_COLUMNS, wanted)


@handles(runs.UNFINISHED_IDS)
async def _unfinished_ids(t: Transaction, partitions: list[int], but: list[str], of: list[str] | None) -> Answer:
    found = [
        [row["id"]]
        for _, row in t.rows("dag_run")
        if row["state"] in ("queued", "running")
        and row["partition"] in partitions
        and row["dag_id"] not in but
        and (of is None or row["dag_id"] in of)
    ]
    return answer("id", sorted(found))


@handles(runs.LOAD_UNFINISHED)
async def _load_unfinished(t: Transaction, ids: list[int]) -> Answer:
    return _runs(t, lambda row: row["state"] in ("queued", "running") and row["id"] in ids)


@handles(runs.LOAD_RUNS)
async def _load_runs(t: Transaction, keys: list[int]) -> Answer:
    return _runs(t, lambda row: row["id"] in keys)


@handles(runs.FIND_RUNS)
async def _find_runs(t: Transaction, dag_id: str, run_ids: list[str]) -> Answer:
    return _runs(t, lambda row: row["dag_id"] == dag_id and row["run_id"] in run_ids)


@handles(runs.FIND_RUN)
async def _find_run(t: Transaction, dag_id: str, run_id: str | None, date: datetime | None) -> Answer:
    def is_meant(row: Row) -> bool:
        dated = date is not None and row["logical_date"] == date
        return row["dag_id"] == dag_id and (row["run_id"] == run_id or dated)

    found = _runs(t, is_meant)
    return Answer(found.rows[-1:], found.tag)


@handles(runs.LOAD_INSTANCES)
async def _load_instances(t: Transaction, keys: list[int]) -> Answer:
    return select(t, TASK_INSTANCE, runs.INSTANCE_COLUMNS, lambda row: row["run_id"] in keys)


@handles(schedules.SCHEDULE_POSITIONS)
async def _schedule_positions(t: Transaction, dag_ids: list[str], most: int | None) -> Answer:
    rows = sorted((row for _, row in t.rows("dag_run") if row["logical_date"]), key=lambda row: row["logical_date"])
    found = []
    for dag_id in dag_ids:
        dated = [row for row in rows if row["dag_id"] == dag_id]
        made = [row for row in dated if row["triggered_by"] == schedules.BY_TIMETABLE]
        start, end = (made[-1]["data_interval_start"], made[-1]["data_interval_end"]) if made else (None, None)
        taken = [row["logical_date"] for row in dated if start is None or row["logical_date"] >= start]
        found.append((dag_id, start, end, taken[:most] or None))
    return answer("dag_id data_interval_start data_interval_end dates", found)


@handles(runs.INSERT_RUNS)
async def insert_runs(t: Transaction, *columns: Any) -> Answer:
    created = []
    for given in batch(DAG_RUN, runs.NEW_RUN, columns):
        number = t.store.number("dag_run")  # drawn for those that exist already, too
        row = new_row(DAG_RUN, given | {"id": number})
        unique: list[tuple[str, tuple[Any, ...]]] = [("uq_run", (row["dag_id"], row["run_id"]))]
        if row["logical_date"] is not None:  # whose index is looked at first; the other one if that has no such row
            unique.insert(0, ("uq_date", (row["dag_id"], row["logical_date"])))
        if not await _reserve_all(t, unique):
            continue
        for table, key in unique:
            t.put(table, key, {"of": ("dag_run", number)})
        t.put("dag_run", number, row)
        created.append([number, row["dag_id"], row["run_id"]])
    return answer("id dag_id run_id", created, "INSERT 0")


@handles(runs.COUNT_EXISTING)
async def _count_existing(
    t: Transaction, dags: Sequence[str], ids: Sequence[str], dates: Sequence[datetime | None]
) -> Answer:
    def exists(dag_id: str, run_id: str, date: datetime | None) -> bool:
        named = (row for _, row in t.rows("dag_run") if row["dag_id"] == dag_id)
        return any(row["run_id"] == run_id or (date is not None and row["logical_date"] == date) for row in named)

    return answer("count", [[sum(map(exists, dags, ids, dates))]])


async def _reserve_all(t: Transaction, keys: Sequence[tuple[str, tuple[Any, ...]]]) -> bool:
    for table, key in keys:
        if not await t.reserve(table, key):
            return False
    return True


@handles("COPY task_instance")
async def _copy_instances(t: Transaction, records: Sequence[Sequence[Any]], columns: Sequence[str]) -> Answer:
    """The only table that is written so."""
    if await insert(t, TASK_INSTANCE, [dict(zip(columns, values, strict=True)) for values in records]) < len(records):
        raise asyncpg.UniqueViolationError("pk_task_instance")
    return changed("COPY", len(records))


def _is_incomplete(row: Row) -> bool:
    return bool(row["partition"] < 0)


@handles(runs.COMPLETE_RUNS)
async def _complete_runs(t: Transaction, keys: list[int]) -> Answer:
    count = 0
    for key in keys:
        row = await t.lock("dag_run", key, NO_KEY_UPDATE, _is_incomplete)
        if row is not None:
            t.put("dag_run", key, {**row, "partition": as_incomplete(row["partition"])})
            count += 1
    return changed("UPDATE", count)


@handles(runs.SET_NEXT_RUNS)
async def _set_next_runs(t: Transaction, dag_ids: list[str], dates: Any, starts: Any, ends: Any, afters: Any) -> Answer:
    count = 0
    for dag_id, date, after in zip(dag_ids, dates, afters, strict=True):
        row = t.get("dag", dag_id)
        if row is None or (row["next_dagrun"], row["next_dagrun_create_after"]) == (date, after):
            continue
        count += await t.update("dag", dag_id, next_dagrun=date, next_dagrun_create_after=after) is not None
    return changed("UPDATE", count)


@handles(runs.SET_PAUSED)
async def _set_paused(t: Transaction, dag_id: str, is_paused: bool) -> Answer:
    return await update(t, "dag", [(dag_id, {"is_paused": is_paused})])


def _is_untouched(row: Row) -> bool:
    return row["state"] is None


@handles(runs.FAIL_QUEUED_RUN)
async def _fail_queued_run(t: Transaction, key: int, now: datetime, reason: str) -> Answer:
    row = await t.lock("dag_run", key, NO_KEY_UPDATE, lambda row: row["state"] == "queued")
    if row is None:
        return changed("UPDATE", 0)
    t.put("dag_run", key, {**row, "state": "failed", "end_date": now, "reason": reason})
    count = 0
    for place, instance in list(t.rows("task_instance")):
        if instance["run_id"] == key and await t.lock("task_instance", place, NO_KEY_UPDATE, _is_untouched):
            skipped = {"state": "skipped", "start_date": now, "end_date": now, "is_stopped": True}
            skipped["reason"] = "the run expired" if reason == "expired" else "the run was cancelled"
            t.put("task_instance", place, {**instance, **skipped})
            count += 1
    return changed("UPDATE", count)


@handles(clearing.RUNS_BY_ID)
async def _runs_by_id(t: Transaction, dag_id: str, run_ids: list[str]) -> Answer:
    rows = [row for _, row in t.rows("dag_run") if row["dag_id"] == dag_id and row["run_id"] in run_ids]
    columns = "id run_id version_id logical_date"
    found = [[*pick(row, columns), row["partition"] < 0] for row in rows]
    return answer(f"{columns} is_incomplete", found)


@handles(rehydrations.LOAD_DECISIONS)
async def _load_decisions(t: Transaction, keys: list[int], tasks: list[int], key: str) -> Answer:
    wanted = set(zip(keys, tasks, strict=True))
    found = [[*k[:3], row["value"]] for k, row in t.rows("xcom") if k[:2] in wanted and k[3] == key]
    return answer("run_id task_index map_index value", found)


@handles(rehydrations.LOAD_MAP_LENGTHS)
async def _load_map_lengths(t: Transaction, keys: list[int], tasks: list[int]) -> Answer:
    wanted = set(zip(keys, tasks, strict=True))
    found = []
    for key, row in t.rows("xcom"):
        if key[:2] in wanted and key[3] == "return_value":
            value = msgspec.json.decode(row["value"])
            found.append([*key[:3], len(value) if isinstance(value, list | dict) else None])
    return answer("run_id task_index map_index length", found)


# -- requests and callbacks -------------------------------------------------------------------


@handles(inbox.SEND_REQUEST)
async def _send_request(
    t: Transaction,
    partition: int | None,
    dag_id: str | None,
    verb: str,
    args: str,
    by: str,
    reason: str | None,
    request: UUID | None,
    *origin: Any,
) -> Answer:
    assert request is None, "nobody asks twice in a simulated fleet"
    number = t.store.number("request")
    row = {"id": number, "partition": partition, "dag_id": dag_id, "verb": verb, "args": args, "requested_by": by}
    t.put("request", number, row | {"state": "waiting", "attempts": 0, "result": None, "applied_by": None})
    return answer("id", [[number]], "INSERT 0")


@handles(inbox.WAITING_REQUESTS)
async def _waiting_requests(t: Transaction, partitions: list[int], limit: int) -> Answer:
    columns, of_dag = "id dag_id verb args requested_by attempts", "version_id is_stale has_import_errors"
    none = dict.fromkeys(of_dag.split())
    rows = [row for _, row in t.rows("request") if row["state"] == "waiting" and row["partition"] in partitions]
    found = [pick(row, columns) + pick(t.get("dag", row["dag_id"]) or none, of_dag) for row in rows[:limit]]
    return answer(f"{columns} {of_dag}", found)


def _waits(row: Row) -> bool:
    return bool(row["state"] == "waiting")


@handles(inbox.COUNT_ATTEMPTS)
async def _count_attempts(t: Transaction, ids: Any, attempts: Any) -> Answer:
    return await update(t, "request", zip(ids, ({"attempts": begun} for begun in attempts), strict=True), _waits)


@handles(inbox.ANSWER_REQUESTS)
async def _answer_requests(t: Transaction, ids: Any, states: Any, results: Any, incarnation: int) -> Answer:
    answers = ({"state": s, "result": r, "applied_by": incarnation} for s, r in zip(states, results, strict=True))
    return await update(t, "request", zip(ids, answers, strict=True), _waits)


@handles("SELECT pg_notify($1, $2)")
async def _notify(t: Transaction, channel: str, payload: str) -> Answer:
    t.notices.append((channel, payload))
    return answer("pg_notify", [[None]])


@handles(outbox.INSERT_CALLBACKS)
async def _insert_callbacks(t: Transaction, *columns: Any) -> Answer:
    created = []
    for row in batch(CALLBACK_OUTBOX, outbox.NewCallback._fields, columns):
        number = t.store.number("callback_outbox")
        t.put("callback_outbox", number, new_row(CALLBACK_OUTBOX, row | {"id": number}))
        created.append([number, row["partition"], row["dag_id"]])
    return answer("id partition dag_id", created, "INSERT 0")


@handles(outbox.WAITING_CALLBACKS)
async def _waiting_callbacks(t: Transaction, partitions: list[int], after: int, most: int) -> Answer:
    found = [
        [n, row["partition"], row["dag_id"], row["kind"]]
        for n, row in t.rows("callback_outbox")
        if row["given_up_at"] is None and row["partition"] in partitions and n > after
    ]
    return answer("id partition dag_id kind", sorted(found)[:most])


@handles(outbox.BEGIN_DELIVERIES)
async def _begin_deliveries(t: Transaction, ids: list[int], most: int) -> Answer:
    found = []
    for number in sorted(ids):
        row = await t.lock("callback_outbox", number, NO_KEY_UPDATE, lambda row: row["given_up_at"] is None)
        if row is None:
            continue
        given_up = row["attempts"] >= most
        error = (row["error"] or "its scheduler ended while it ran") if given_up else row["error"]
        row = {**row, "attempts": min(row["attempts"] + 1, most), "error": error}
        row["given_up_at"] = t.now if given_up else None
        t.put("callback_outbox", number, row)
        details = [row[name] for name in ("kind", "dag_id", "run_id", "task_id")]
        numbers = [-1 if row["map_index"] is None else row["map_index"], row["try_number"] or 0]
        found.append([number, *details, *numbers, row["deadline_index"] or 0, row["reason"], given_up, None])
    columns = "id kind dag_id run_id task_id map_index try_number deadline_index reason given_up team"
    return answer(columns, found, "UPDATE")


@handles(outbox.DELETE_CALLBACKS)
async def _delete_callbacks(t: Transaction, ids: list[int]) -> Answer:
    return changed("DELETE", await delete(t, CALLBACK_OUTBOX, ids))


@handles(outbox.GIVE_UP_CALLBACKS)
async def _give_up_callbacks(t: Transaction, ids: list[int], errors: list[str], most: int) -> Answer:
    found = []
    for number, error in zip(ids, errors, strict=True):
        row = await t.lock("callback_outbox", number, NO_KEY_UPDATE)
        if row is not None:
            given_up = t.now if row["attempts"] >= most else None
            t.put("callback_outbox", number, {**row, "error": error, "given_up_at": given_up})
            found.append([number, given_up is None])
    return answer("id waits", found, "UPDATE")


# -- attempts that run elsewhere --------------------------------------------------------------


@handles(reports.INSERT_REPORTS)
async def _insert_reports(t: Transaction, *columns: Any) -> Answer:
    count = 0
    for row in batch(TASK_REPORT, reports.NEW_REPORT, columns):
        number = t.store.number("task_report")
        if row["outcome"] == "started":
            if not await t.reserve("uq_started", key := key_of(TASK_TRY, row)):
                continue
            t.put("uq_started", key, {"of": ("task_report", number)})
        t.put("task_report", number, {"id": number, **row})
        count += 1
    return changed("INSERT 0", count)


@handles(reports.READ_REPORTS)
async def _read_reports(
    t: Transaction, partitions: list[int], known: list[int], runs_: list[int], most: int, size: int
) -> Answer:
    rows = [
        row
        for n, row in t.rows("task_report")
        if row["partition"] in partitions and n not in known and row["run_id"] not in runs_
    ]
    assert len(rows) < most
    assert sum(len(row["body"]) for row in rows) < size
    columns = "id queued_by body partition run_id task_index map_index try_number outcome"
    return answer(columns, [pick(row, columns) for row in rows])


@handles(reports.DELETE_REPORTS)
async def _delete_reports(t: Transaction, ids: list[int]) -> Answer:
    count = 0
    for number in ids:
        row = await t.lock("task_report", number, UPDATE)
        if row is not None:
            t.delete("task_report", number)
            if row["outcome"] == "started":
                t.delete("uq_started", key_of(TASK_TRY, row))
            count += 1
    return changed("DELETE", count)


@handles(reports.WANTED)
async def _wanted(t: Transaction, *columns: Any) -> Answer:
    *keys, incarnation = columns
    found = []
    for key in zip(*keys, strict=True):
        row = t.get("task_instance", key[:3])
        wanted = row is not None and row["queued_by"] == incarnation and row["state"] in ("queued", "running")
        if row is not None and wanted and row["try_number"] == key[3]:
            found.append(key)
    return answer("run_id task_index map_index try_number", found)


@handles(reports.QUEUED_BY)
async def _queued_by(t: Transaction, runs: list[int], incarnation: int) -> Answer:
    names = ("run_id", "task_index", "map_index", "try_number", "queued_by")
    told = {tuple(row[name] for name in names) for _, row in t.rows("task_report")}
    found = [
        (*key, row["try_number"])
        for key, row in t.rows("task_instance")
        if key[0] in runs and row["queued_by"] == incarnation and row["state"] == "queued"
        if (*key, row["try_number"], incarnation) not in told
    ]
    return answer("run_id task_index map_index try_number", sorted(found))


@handles(set_aside.ENDS_SET_ASIDE)
async def _ends_set_aside(t: Transaction, partitions: list[int]) -> Answer:
    return answer("id run_id task_index map_index try_number queued_by failures error", [])  # nothing fails there


@handles(reports.LIVING)
async def _living(t: Transaction) -> Answer:
    return answer("incarnation", [[number] for number, _ in t.rows("scheduler")])
