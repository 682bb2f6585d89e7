"""What the scheduler's named statements do, on the modelled rows.

One function for each statement, found by the statement's text: a statement that the model does not know
is an error, so that a new one is noticed. `test_model` plays the same scenario on PostgreSQL and
compares every answer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import asyncpg
import msgspec

from aiosched.db import (
    clearing,
    demands,
    inbox,
    journal,
    outbox,
    ownership,
    recollections,
    reports,
    runs,
)
from tests.simulation.store import EPOCH, Backend, Row, Strength, Transaction

KEY_SHARE, NO_KEY_UPDATE, UPDATE = Strength.KEY_SHARE, Strength.NO_KEY_UPDATE, Strength.UPDATE


class Record(tuple[Any, ...]):
    """A row of an answer, as asyncpg gives it: by position and by name."""

    names: tuple[str, ...] = ()

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return tuple.__getitem__(self, self.names.index(key))
        return tuple.__getitem__(self, key)

    def values(self) -> tuple[Any, ...]:
        return tuple(self)


class Answer(NamedTuple):
    """What a statement says: its rows, and the tag of the command."""

    rows: list[Record]
    tag: str


_KINDS: dict[tuple[str, ...], type[Record]] = {}


def answer(columns: str, rows: Iterable[Sequence[Any]], verb: str = "SELECT") -> Answer:
    """An answer of rows with these (space separated) columns."""
    names = tuple(columns.split())
    kind = _KINDS.get(names)
    if kind is None:
        kind = _KINDS[names] = type("Record", (Record,), {"names": names})
    found: list[Record] = [kind(row) for row in rows]
    return Answer(found, f"{verb} {len(found)}")


def _changed(verb: str, count: int) -> Answer:
    return Answer([], f"{verb} {count:d}")


def _pick(row: Row, columns: str) -> list[Any]:
    return [row[name] for name in columns.split()]


class UnknownStatement(Exception):
    """The scheduler has a statement that tests/simulation/statements.py does not have."""


Handler = Callable[..., Awaitable[Answer]]
HANDLERS: dict[str, Handler] = {}


def _normal(text: str) -> str:
    return " ".join(text.split())


def handles(*texts: str) -> Callable[[Handler], Handler]:
    def note(handler: Handler) -> Handler:
        for text in texts:
            HANDLERS[_normal(text)] = handler
        return handler

    return note


_BEGIN: Final = re.compile(r"BEGIN; SELECT 1 FROM scheduler WHERE incarnation = (\d+) FOR KEY SHARE")
_NORMAL: dict[str, str] = {}


async def carry_out(backend: Backend, store: Any, text: str, args: Sequence[Any]) -> Answer:
    """One statement of a session, in its open transaction or in one of its own."""
    normal = _NORMAL.get(text)
    if normal is None:
        normal = _NORMAL[text] = _normal(text)
    transaction = backend.transaction
    if normal in ("COMMIT", "ROLLBACK"):
        if transaction is not None:
            good = normal == "COMMIT" and not transaction.failed
            store.commit(transaction) if good else store.roll_back(transaction)
        return Answer([], normal)
    if normal.startswith("BEGIN"):
        transaction = store.begin(backend, explicit=True)
        if (fence := _BEGIN.match(normal)) is None:
            return Answer([], "BEGIN")
        transaction.fence = int(fence[1])
        held = await fenced(transaction, transaction.fence)
        return Answer([], f"SELECT {held:d}")
    if transaction is None:
        transaction = store.begin(backend, explicit=False)
    try:
        if transaction.failed:
            raise asyncpg.InFailedSQLTransactionError("current transaction is aborted")
        said = await _find(normal)(transaction, *args)
    except BaseException:
        transaction.failed = True
        if not transaction.explicit:
            store.roll_back(transaction)
        raise
    if not transaction.explicit:
        store.commit(transaction)
    return said


# -- schedulers and partitions ----------------------------------------------------------------


async def fenced(transaction: Transaction, incarnation: int) -> bool:
    """Take the fence: whether the scheduler's row is there, locked FOR KEY SHARE."""
    return await transaction.lock("scheduler", incarnation, KEY_SHARE) is not None


@handles(ownership.REGISTER)
async def _register(
    t: Transaction, name: str, hostname: str, pid: int, version: str, executor: str, slots: int, lease: float, *_: Any
) -> Answer:
    number = t.store.number("scheduler")
    row = {
        "incarnation": number, "name": name, "draining": False, "renewed_at": t.now,
        "lease_expires_at": t.now + timedelta(seconds=lease), "slots": slots, "protocol": ownership.PROTOCOL,
    }  # fmt: skip
    t.put("scheduler", number, row)
    return answer("incarnation", [[number]], "INSERT 0")


@handles("SELECT pg_advisory_lock($1::int, $2::int)")
async def _advisory_lock(t: Transaction, space: int, number: int) -> Answer:
    holder = t.store.advisory.get(number)
    while holder is not None and holder is not t.backend and holder.alive:
        await _a_moment(t)
        holder = t.store.advisory.get(number)
    t.store.advisory[number] = t.backend
    return answer("pg_advisory_lock", [[""]])


async def _a_moment(t: Transaction) -> None:
    """Wait for a session to end, unless this one is to end itself."""
    if t.backend.ending:
        raise asyncpg.AdminShutdownError("terminating connection")
    await asyncio.sleep(0.05)


@handles(ownership.RENEW)
async def _renew(t: Transaction, incarnation: int, lease: float, *figures: Any) -> Answer:
    until = t.now + timedelta(seconds=lease)
    row = await t.update("scheduler", incarnation, renewed_at=t.now, lease_expires_at=until)
    return _changed("UPDATE", row is not None)


@handles(ownership.LOOK)
async def _look(t: Transaction, space: int) -> Answer:
    owned: dict[int | None, list[int]] = {None: []}
    for partition, row in t.rows("partition_lease"):
        owned.setdefault(row["incarnation"], []).append(partition)
    found = [
        [n, s["draining"], s["protocol"], s["lease_expires_at"] < t.now, n not in t.store.advisory, owned.get(n, [])]
        for n, s in t.rows("scheduler")
    ]
    columns = "incarnation draining protocol expired process_gone partitions"
    return answer(columns, [*found, [None, None, None, None, None, owned[None]]])


@handles(ownership.FENCE)
async def lock_dead(t: Transaction, incarnation: int, gone: bool) -> Answer:
    row = await t.lock("scheduler", incarnation, UPDATE)
    dead = row is not None and (row["lease_expires_at"] < t.now or gone)
    return answer("one", [[1]] if dead else [])


@handles("SELECT 1 FROM scheduler WHERE incarnation = $1 FOR UPDATE")
async def _lock_own(t: Transaction, incarnation: int) -> Answer:
    row = await t.lock("scheduler", incarnation, UPDATE)
    return answer("one", [[1]] if row is not None else [])


@handles("SELECT 1 FROM scheduler WHERE incarnation = $1")
async def _is_there(t: Transaction, incarnation: int) -> Answer:
    return answer("one", [[1]] if t.get("scheduler", incarnation) is not None else [])


@handles(ownership.FREE_PARTITIONS)
async def _free(t: Transaction, incarnation: int) -> Answer:
    mine = [partition for partition, row in t.rows("partition_lease") if row["incarnation"] == incarnation]
    return _changed("UPDATE", await _give_up(t, incarnation, mine))


@handles(ownership.RELEASE)
async def _release(t: Transaction, incarnation: int, partitions: list[int]) -> Answer:
    return _changed("UPDATE", await _give_up(t, incarnation, partitions))


async def _give_up(t: Transaction, incarnation: int, partitions: Iterable[int]) -> int:
    count = 0
    for partition in partitions:
        row = t.get("partition_lease", partition)
        if row is None or row["incarnation"] != incarnation:
            continue
        row = await t.lock("partition_lease", partition, NO_KEY_UPDATE)
        if row is not None and row["incarnation"] == incarnation:
            t.put("partition_lease", partition, {"incarnation": None})
            count += 1
    return count


@handles("DELETE FROM scheduler WHERE incarnation = $1")
async def _delete_scheduler(t: Transaction, incarnation: int) -> Answer:
    row = await t.lock("scheduler", incarnation, UPDATE)
    if row is None:
        return _changed("DELETE", 0)
    if any(lease["incarnation"] == incarnation for _, lease in t.rows("partition_lease")):
        raise asyncpg.ForeignKeyViolationError(f"partitions belong to scheduler {incarnation}")
    t.delete("scheduler", incarnation)
    return _changed("DELETE", 1)


@handles(ownership.ACQUIRE)
async def acquire(t: Transaction, incarnation: int, wanted: list[int]) -> Answer:
    taken = []
    if t.get("scheduler", incarnation) is not None:
        for partition in sorted(wanted):
            row = t.get("partition_lease", partition)
            free = row is not None and row["incarnation"] is None
            if free and t.store.free(t, ("partition_lease", partition), UPDATE):  # SKIP LOCKED
                await t.lock("partition_lease", partition, UPDATE)
                t.put("partition_lease", partition, {"incarnation": incarnation})
                taken.append([partition])
    if taken and await t.lock("scheduler", incarnation, KEY_SHARE) is None:  # the foreign key
        raise asyncpg.ForeignKeyViolationError(f"there is no scheduler {incarnation}")
    return answer("partition", taken, "UPDATE")


@handles(ownership.SET_DRAINING)
async def _set_draining(t: Transaction, incarnation: int) -> Answer:
    return _changed("UPDATE", await t.update("scheduler", incarnation, draining=True) is not None)


# -- the hot transaction ----------------------------------------------------------------------

_POOL: Final = "name slots used include_deferred"
_LOCKED_POOL: Final = f"{_POOL} demands read_at"


@handles(journal.READ_POOLS)
async def _read_pools(t: Transaction, names: list[str]) -> Answer:
    rows = (t.get("pool", name) for name in sorted(names))
    return answer(_POOL, [_pick(row, _POOL) for row in rows if row is not None])


@handles(journal.LOCK_POOLS)
async def lock_pools(t: Transaction, names: list[str]) -> Answer:
    for name in sorted(names):
        if t.get("pool", name) is not None:
            await t.lock("pool", name, UPDATE)
    return locked_pools(t, names)


def locked_pools(t: Transaction, names: list[str]) -> Answer:
    """The pools as they are now."""
    read_at = (EPOCH + timedelta(seconds=t.store.loop.time())).timestamp()
    found = (t.get("pool", name) for name in sorted(names))
    rows = [[*_pick(row, _POOL), document(row["demands"]), read_at] for row in found if row is not None]
    return answer(_LOCKED_POOL, rows)


@handles(demands.STORE_DEMANDS)
async def _store_demands(t: Transaction, incarnation: str, names: list[str], wanted: list[str | None]) -> Answer:
    for name, demand in zip(names, wanted, strict=True):
        row = await t.lock("pool", name, NO_KEY_UPDATE)
        if row is not None:
            others = {key: value for key, value in row["demands"].items() if key != incarnation}
            own = {} if demand is None else {incarnation: msgspec.json.decode(demand)}
            t.put("pool", name, {**row, "demands": others | own})
    return _changed("UPDATE", len(names))


@handles(demands.WITHDRAW_DEMANDS)
async def _withdraw_demands(t: Transaction, incarnation: str) -> Answer:
    count = 0
    for name in [name for name, row in t.rows("pool") if incarnation in row["demands"]]:
        row = await t.lock("pool", name, UPDATE)
        if row is not None:
            others = {key: value for key, value in row["demands"].items() if key != incarnation}
            t.put("pool", name, {**row, "demands": others})
            count += 1
    return _changed("UPDATE", count)


_CHANGE: Final = journal.InstanceChange._fields
_RUN_CHANGE: Final = journal.RunChange._fields


@handles(journal.WRITE)
async def _write(t: Transaction, incarnation: int, *columns: Any) -> Answer:
    if t.fence is None:
        t.fence = incarnation
    width, run_width = len(_CHANGE), len(_RUN_CHANGE)
    instances, runs_ = columns[:width], columns[width : width + run_width]
    names, deltas, *expected = columns[width + run_width :]
    held = await fenced(t, incarnation)
    moved = []
    changed = ended = 0
    if held:
        for values in zip(*instances, strict=True):
            changed += await change_instance(t, dict(zip(_CHANGE, values, strict=True)))
        for values in zip(*runs_, strict=True):
            ended += await change_run(t, dict(zip(_RUN_CHANGE, values, strict=True)))
        for name, delta in zip(names, deltas, strict=True):
            row = await t.lock("pool", name, NO_KEY_UPDATE)
            if row is not None and fits(row, delta):
                row = {**row, "used": row["used"] + delta}
                if row["used"] < 0:
                    raise asyncpg.CheckViolationError("ck_pool_used")
                t.put("pool", name, row)
                moved.append(_pick(row, _POOL))
    if not held or [changed, ended, len(moved)] != expected:
        raise asyncpg.DivisionByZeroError("division by zero")
    return answer(_POOL, [*moved, [None, None, 1, None]])


def guarded(row: Row, change: Mapping[str, Any]) -> bool:
    """Whether an instance is as its writer believes."""
    return row["state"] == change["old_state"] and row["try_number"] == change["old_try"]


def fits(pool: Row, delta: int) -> bool:
    """Whether a pool has room."""
    return delta <= 0 or pool["slots"] == -1 or pool["used"] + delta <= pool["slots"]


async def change_instance(t: Transaction, change: dict[str, Any]) -> bool:
    key = (change.pop("run_id"), change.pop("task_index"), change.pop("map_index"))
    row = await t.lock("task_instance", key, NO_KEY_UPDATE)
    if row is None or not guarded(row, change):
        return False
    del change["old_state"], change["old_try"]
    t.put("task_instance", key, {**row, **change})
    return True


async def change_run(t: Transaction, change: dict[str, Any]) -> bool:
    key, expected = change.pop("id"), change.pop("old_state")
    row = await t.lock("dag_run", key, NO_KEY_UPDATE)
    if row is None or row["state"] != expected:
        return False
    t.put("dag_run", key, {**row, **change})
    return True


@handles(journal.INSERT_TRIES)
async def _insert_tries(t: Transaction, *columns: Any) -> Answer:
    names = "run_id task_index map_index try_number state queued_by queued_at start_date end_date reason".split()
    count = 0
    for values in zip(*columns, strict=True):
        row = dict(zip(names, values, strict=False))
        if t.get("task_try", values[:4]) is None:
            t.put("task_try", values[:4], row)
            count += 1
    return _changed("INSERT 0", count)


@handles(journal.DELETE_XCOMS)
async def _delete_xcoms(t: Transaction, *columns: Any) -> Answer:
    wanted = set(zip(*columns, strict=True))
    gone = [key for key, _ in t.rows("xcom") if key[:3] in wanted]
    for key in gone:
        t.delete("xcom", key)
    return _changed("DELETE", len(gone))


@handles(journal.UPSERT_XCOMS)
async def _upsert_xcoms(t: Transaction, *columns: Any) -> Answer:
    for *key, value in zip(*columns, strict=True):
        await t.lock("xcom", tuple(key), NO_KEY_UPDATE)
        t.put("xcom", tuple(key), {"value": value})
    return _changed("INSERT 0", len(columns[0]))


@handles(journal.WHO_AM_I)
async def _who_am_i(t: Transaction) -> Answer:
    return answer("pid backend_start", [[t.backend.pid, t.backend.started]])


@handles(journal.END_BACKEND)
async def _end_backend(t: Transaction, pid: int, started: datetime) -> Answer:
    found = t.store.backends.get(pid)
    if found is None:
        return answer("count", [[0]])
    t.store.end(found)
    return answer("count", [[1]])


@handles(journal.PLANNER)
async def _planner(t: Transaction) -> Answer:
    return Answer([], "SET")


# -- DAGs and runs ----------------------------------------------------------------------------

_DAG: Final = "dag_id partition file version_id is_paused is_stale has_import_errors"
_RUN: Final = """id dag_id run_id version_id run_type state run_after logical_date data_interval_start data_interval_end
    queued_at start_date end_date conf reason backfill_id backfill_order clear_number"""
_INSTANCE: Final = """run_id task_index map_index state try_number max_tries losses queued_by scheduled_at queued_at
    start_date end_date next_at reason"""


@handles(runs.LOAD_DAGS)
async def _load_dags(t: Transaction, partitions: list[int]) -> Answer:
    return answer(_DAG, [_pick(row, _DAG) for _, row in t.rows("dag") if row["partition"] in partitions])


@handles(runs.LOAD_VERSIONS)
async def _load_versions(t: Transaction, ids: list[int]) -> Answer:
    columns = "id number spec file file_hash"
    return answer(columns, [_pick(row, columns) for key, row in t.rows("dag_version") if key in ids])


def _runs(t: Transaction, wanted: Callable[[Row], object]) -> Answer:
    return answer(_RUN, [_pick(row, _RUN) for _, row in t.rows("dag_run") if wanted(row)])


@handles(runs.LOAD_UNFINISHED)
async def _load_unfinished(t: Transaction, partitions: list[int]) -> Answer:
    return _runs(t, lambda row: row["state"] in ("queued", "running") and row["partition"] in partitions)


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
    rows = [row for _, row in t.rows("task_instance") if row["run_id"] in keys]
    return answer(_INSTANCE, [_pick(row, _INSTANCE) for row in rows])


@handles(runs.LATEST_AUTOMATED)
async def _latest_automated(t: Transaction, dag_ids: list[str]) -> Answer:
    latest: dict[str, Row] = {}
    for _, row in t.rows("dag_run"):
        automated = row["run_type"] in ("scheduled", "backfill") and row["logical_date"] is not None
        if automated and row["dag_id"] in dag_ids:
            other = latest.get(row["dag_id"])
            if other is None or other["logical_date"] < row["logical_date"]:
                latest[row["dag_id"]] = row
    columns = "dag_id data_interval_start data_interval_end"
    found = [_pick(row, columns) for row in latest.values() if row["data_interval_start"] is not None]
    return answer(columns, sorted(found, key=lambda row: dag_ids.index(row[0])))


@handles(runs.INSERT_RUNS)
async def insert_runs(t: Transaction, *columns: Any) -> Answer:
    created = []
    for values in zip(*columns, strict=True):
        new = runs.NewRun(*values)
        row = new._asdict()
        row |= {"data_interval_start": row.pop("interval_start"), "data_interval_end": row.pop("interval_end")}
        row |= {"end_date": None, "reason": None, "clear_number": 0}
        unique = [("uq_run", (new.dag_id, new.run_id))]
        if new.logical_date is not None:
            unique.append(("uq_date", (new.dag_id, new.logical_date)))
        for table, key in unique:
            await t.lock(table, key, UPDATE)
        if any(t.get(table, key) is not None for table, key in unique):
            continue
        number = t.store.number("dag_run")
        for table, key in unique:
            t.put(table, key, {"run": number})
        t.put("dag_run", number, {"id": number, **row})
        created.append([number, new.dag_id, new.run_id])
    return answer("id dag_id run_id", created, "INSERT 0")


def copy(t: Transaction, table: str, records: Iterable[Sequence[Any]], columns: Sequence[str]) -> None:
    """COPY into task_instance, the only table that is written so."""
    assert table == "task_instance"
    empty = dict.fromkeys(_INSTANCE.split()) | {"try_number": 0, "losses": 0}
    for values in records:
        row = empty | dict(zip(columns, values, strict=True))
        key = (row["run_id"], row["task_index"], row["map_index"])
        if t.get("task_instance", key) is not None:
            raise asyncpg.UniqueViolationError("pk_task_instance")
        t.put("task_instance", key, row)


@handles(runs.SET_NEXT_RUNS)
async def _set_next_runs(t: Transaction, dag_ids: list[str], dates: Any, starts: Any, ends: Any, afters: Any) -> Answer:
    count = 0
    for dag_id, date, after in zip(dag_ids, dates, afters, strict=True):
        row = t.get("dag", dag_id)
        if row is None or (row["next_dagrun"], row["next_dagrun_create_after"]) == (date, after):
            continue
        count += await t.update("dag", dag_id, next_dagrun=date, next_dagrun_create_after=after) is not None
    return _changed("UPDATE", count)


@handles(runs.SET_PAUSED)
async def _set_paused(t: Transaction, dag_id: str, is_paused: bool) -> Answer:
    return _changed("UPDATE", await t.update("dag", dag_id, is_paused=is_paused) is not None)


@handles(runs.FAIL_QUEUED_RUN)
async def _fail_queued_run(t: Transaction, key: int, now: datetime, reason: str) -> Answer:
    row = await t.lock("dag_run", key, NO_KEY_UPDATE)
    if row is None or row["state"] != "queued":
        return _changed("UPDATE", 0)
    t.put("dag_run", key, {**row, "state": "failed", "end_date": now, "reason": reason})
    count = 0
    for place, instance in list(t.rows("task_instance")):
        if instance["run_id"] == key and instance["state"] is None:
            skipped = {"state": "skipped", "start_date": now, "end_date": now, "reason": "the run was cancelled"}
            t.put("task_instance", place, {**instance, **skipped})
            count += 1
    return _changed("UPDATE", count)


@handles(clearing.RUNS_BY_ID)
async def _runs_by_id(t: Transaction, dag_id: str, run_ids: list[str]) -> Answer:
    rows = [row for _, row in t.rows("dag_run") if row["dag_id"] == dag_id and row["run_id"] in run_ids]
    return answer("id run_id version_id", [_pick(row, "id run_id version_id") for row in rows])


@handles(recollections.LOAD_DECISIONS)
async def _load_decisions(t: Transaction, keys: list[int], tasks: list[int], key: str) -> Answer:
    wanted = set(zip(keys, tasks, strict=True))
    found = [[*k[:3], row["value"]] for k, row in t.rows("xcom") if k[:2] in wanted and k[3] == key]
    return answer("run_id task_index map_index value", found)


# -- requests and callbacks -------------------------------------------------------------------


@handles(inbox.ADD_COMMAND)
async def _add_command(
    t: Transaction, partition: int | None, dag_id: str | None, verb: str, args: str, by: str, reason: str | None
) -> Answer:
    number = t.store.number("command")
    row = {"id": number, "partition": partition, "dag_id": dag_id, "verb": verb, "args": args, "requested_by": by}
    t.put("command", number, row | {"state": "waiting", "result": None, "applied_by": None})
    return answer("id", [[number]], "INSERT 0")


@handles(inbox.WAITING_COMMANDS)
async def _waiting_commands(t: Transaction, partitions: list[int], limit: int) -> Answer:
    columns = "id dag_id verb args requested_by"
    rows = [row for _, row in t.rows("command") if row["state"] == "waiting" and row["partition"] in partitions]
    return answer(columns, [_pick(row, columns) for row in rows[:limit]])


@handles(inbox.ANSWER_COMMANDS)
async def _answer_commands(t: Transaction, ids: Any, states: Any, results: Any, incarnation: int) -> Answer:
    count = 0
    for number, state, result in zip(ids, states, results, strict=True):
        row = await t.lock("command", number, NO_KEY_UPDATE)
        if row is not None and row["state"] == "waiting":
            t.put("command", number, {**row, "state": state, "result": result, "applied_by": incarnation})
            count += 1
    return _changed("UPDATE", count)


@handles("SELECT pg_notify($1, $2)")
async def _notify(t: Transaction, channel: str, payload: str) -> Answer:
    t.notices.append((channel, payload))
    return answer("pg_notify", [[""]])


@handles(outbox.INSERT_CALLBACKS)
async def _insert_callbacks(t: Transaction, *columns: Any) -> Answer:
    created = []
    for values in zip(*columns, strict=True):
        number = t.store.number("callback_outbox")
        row = outbox.NewCallback(*values)._asdict() | {"attempts": 0, "given_up_at": None, "error": None}
        t.put("callback_outbox", number, row)
        created.append([number, row["partition"]])
    return answer("id partition", created, "INSERT 0")


@handles(outbox.WAITING_CALLBACKS)
async def _waiting_callbacks(t: Transaction, partitions: list[int]) -> Answer:
    rows = t.rows("callback_outbox")
    found = [[n, row["partition"]] for n, row in rows if row["given_up_at"] is None and row["partition"] in partitions]
    return answer("id partition", found)


@handles(outbox.BEGIN_DELIVERIES)
async def _begin_deliveries(t: Transaction, ids: list[int], most: int) -> Answer:
    found = []
    for number in sorted(ids):
        row = await t.lock("callback_outbox", number, NO_KEY_UPDATE)
        if row is None or row["given_up_at"] is not None:
            continue
        given_up = row["attempts"] >= most
        row = {**row, "attempts": min(row["attempts"] + 1, most), "given_up_at": t.now if given_up else None}
        t.put("callback_outbox", number, row)
        details = [row[name] for name in ("kind", "dag_id", "run_id", "task_id")]
        numbers = [-1 if row["map_index"] is None else row["map_index"], row["try_number"] or 0]
        found.append([number, *details, *numbers, row["deadline_index"] or 0, row["reason"], given_up])
    columns = "id kind dag_id run_id task_id map_index try_number deadline_index reason given_up"
    return answer(columns, found, "UPDATE")


@handles(outbox.DELETE_CALLBACKS)
async def _delete_callbacks(t: Transaction, ids: list[int]) -> Answer:
    count = 0
    for number in ids:
        if await t.lock("callback_outbox", number, UPDATE) is not None:
            t.delete("callback_outbox", number)
            count += 1
    return _changed("DELETE", count)


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
    *columns_, incarnation = columns
    names = "partition run_id task_index map_index try_number outcome body".split()
    waiting = {row["key"] for _, row in t.rows("task_report") if row["outcome"] == "started"}
    count = 0
    for values in zip(*columns_, strict=True):
        row = dict(zip(names, values, strict=True)) | {"queued_by": incarnation, "key": values[1:5]}
        if row["outcome"] == "started" and row["key"] in waiting:
            continue
        number = t.store.number("task_report")
        t.put("task_report", number, {"id": number, **row})
        count += 1
    return _changed("INSERT 0", count)


@handles(reports.READ_REPORTS)
async def _read_reports(t: Transaction, partitions: list[int], known: list[int]) -> Answer:
    rows = [row for n, row in t.rows("task_report") if row["partition"] in partitions and n not in known]
    return answer("id queued_by body", [_pick(row, "id queued_by body") for row in rows])


@handles(reports.DELETE_REPORTS)
async def _delete_reports(t: Transaction, ids: list[int]) -> Answer:
    count = 0
    for number in ids:
        if await t.lock("task_report", number, UPDATE) is not None:
            t.delete("task_report", number)
            count += 1
    return _changed("DELETE", count)


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


@handles(reports.LIVING)
async def _living(t: Transaction) -> Answer:
    return answer("incarnation", [[number] for number, _ in t.rows("scheduler")])


# -- what simulated DAGs do not have ----------------------------------------------------------


_ABSENT: Final = re.compile(r"(?:SELECT .*? FROM|DELETE FROM|UPDATE|INTO) (\w+)")
_EMPTY_TABLES: Final = frozenset(
    "backfill deferred_trigger deadline asset asset_alias asset_reference asset_event asset_queue asset_consumption"
    " sla_miss".split()
)


async def _nothing(t: Transaction, *args: Any) -> Answer:
    return Answer([], "SELECT 0")


def _find(normal: str) -> Handler:
    """The function for a statement. Raises UnknownStatement for one that the model should know."""
    handler = HANDLERS.get(normal)
    if handler is None:
        table = _ABSENT.search(normal)
        if table is None or table[1] not in _EMPTY_TABLES:
            raise UnknownStatement(f"the model of the database does not know: {normal}")
        handler = HANDLERS[normal] = _nothing
    return handler


@handles(recollections.LOAD_MAP_LENGTHS)
async def _load_map_lengths(t: Transaction, *args: Any) -> Answer:
    return await _nothing(t)


def document(value: object) -> str:
    """JSON as it is stored."""
    return msgspec.json.encode(value).decode()
