"""What the scheduler's named statements do, on the modelled rows.

One function for each statement, found by the statement's text: a statement that the model does not know
is an error, so that a new one is noticed. `test_model_agrees.py` says the same to PostgreSQL and
compares every answer.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from typing import Any, Final

import asyncpg
import msgspec

from aiosched.db.schema.tables import DAG_RUN, POOL, TASK_INSTANCE, TASK_TRY, XCOM
from aiosched.db.server import sequences
from aiosched.db.statements import dag_schedules, journal, module_sources, ownership, positions
from aiosched.db.statements import pool_demands as demands
from tests.simulation import (
    audit_statements,
    backfill_statements,
    pasts,
    quarantine_statements,
    recount_statements,
    run_statements,
    trigger_statements,
)
from tests.simulation.answers import (
    HANDLERS,
    Answer,
    Handler,
    UnknownStatement,
    answer,
    batch,
    changed,
    delete,
    document,
    handles,
    insert,
    normal,
    pick,
    upsert,
)
from tests.simulation.store import EPOCH, FLEET, Backend, Row, Strength, Transaction

__all__ = [
    "HANDLERS",
    "Answer",
    "answer",
    "audit_statements",
    "backfill_statements",
    "carry_out",
    "document",
    "pasts",
    "quarantine_statements",
    "recount_statements",
    "run_statements",
    "trigger_statements",
]

KEY_SHARE, NO_KEY_UPDATE, UPDATE = Strength.KEY_SHARE, Strength.NO_KEY_UPDATE, Strength.UPDATE

_BEGIN: Final = re.compile(r"BEGIN; SELECT 1 FROM scheduler WHERE incarnation = (\d+) FOR KEY SHARE")
_PLAIN: dict[str, str] = {}


async def carry_out(backend: Backend, store: Any, text: str, args: Sequence[Any]) -> Answer:
    """One statement of a session, in its open transaction or in one of its own."""
    plain = _PLAIN.get(text)
    if plain is None:
        plain = _PLAIN[text] = normal(text)
    transaction = backend.transaction
    if plain in ("COMMIT", "ROLLBACK"):
        if transaction is not None:
            good = plain == "COMMIT" and not transaction.failed
            store.commit(transaction) if good else store.roll_back(transaction)
            return Answer([], "COMMIT" if good else "ROLLBACK")
        return Answer([], plain)
    if plain.startswith("BEGIN"):
        transaction = store.begin(backend, explicit=True)
        if (fence := _BEGIN.match(plain)) is None:
            return Answer([], "BEGIN")
        transaction.fence = int(fence[1])
        held = await fenced(transaction, transaction.fence)
        return Answer([], f"SELECT {held:d}")
    if transaction is None:
        transaction = store.begin(backend, explicit=False)
    try:
        if transaction.failed:
            raise asyncpg.InFailedSQLTransactionError("current transaction is aborted")
        said = await _find(plain)(transaction, *args)
    except BaseException:
        store.fail(transaction)
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
    t: Transaction, name: str, hostname: str, pid: int, version: str, executor: str, slots: int, lease: float
) -> Answer:
    number = t.store.number("scheduler")
    row = {
        "incarnation": number, "name": name, "draining": False, "renewed_at": t.now,
        "lease_expires_at": t.now + timedelta(seconds=lease), "slots": slots,
        "started_at": t.now, "partition_loads": [], "renewals": 0,
    }  # fmt: skip
    t.put("scheduler", number, row)
    return answer("incarnation", [[number]], "INSERT 0")


@handles("SELECT pg_advisory_lock($1::int, $2::int)")
async def _advisory_lock(t: Transaction, space: int, number: int) -> Answer:
    await t.store.lock_advisory(t.backend, number)
    return answer("pg_advisory_lock", [[None]])


@handles(ownership.RENEW)
async def _renew(
    t: Transaction, incarnation: int, lease: float, _figures: str | None, loads: Sequence[float | None] | None
) -> Answer:
    until = t.now + timedelta(seconds=lease)
    published = {} if loads is None else {"partition_loads": [None if load is None else _real(load) for load in loads]}
    renewals = (t.get("scheduler", incarnation) or {}).get("renewals", 0) + 1
    row = await t.update(
        "scheduler", incarnation, renewed_at=t.now, lease_expires_at=until, renewals=renewals, **published
    )
    found = [] if row is None else [[row["renewals"], row["renewed_at"], 1]]
    return answer("renewals renewed_at number", found, "UPDATE")


@handles(positions.FIND)
async def _find_position(t: Transaction, incarnation: int | None, at: datetime | None) -> Answer:
    own = t.get("scheduler", incarnation) or t.get("lost_scheduler", incarnation)
    until = [s["renewed_at"] for _, s in t.rows("scheduler") if at is not None and s["renewed_at"] <= at]
    columns = "fleet former accepts_former at row_is_there renewals renewed_at newest issued"
    row = [
        FLEET, [], False, t.now, own is not None, own and own["renewals"], own and own["renewed_at"],
        max(until, default=None), t.store.issued["scheduler"],
    ]  # fmt: skip
    return answer(columns, [row])


@handles(positions.RECENT)
async def _recent_spans(t: Transaction) -> Answer:
    """None is ever lost here."""
    return answer("id noticed_at lost_from lost_to noticed_by seen found", [])


@handles(positions.LOCATE)
async def _locate_server(t: Transaction, number: str | None) -> Answer:
    return answer("system timeline lsn first_number commit", [[1, 1, "0/1", 1, number and "committed"]])


@handles(ownership.READ_FLEET)
async def _look(t: Transaction) -> Answer:
    owned: dict[int | None, list[int]] = {None: []}
    loads: dict[int | None, list[float]] = {None: []}
    moved = datetime.min.replace(tzinfo=UTC)
    for partition, row in sorted(t.rows("partition_lease")):
        owned.setdefault(row["incarnation"], []).append(partition)
        loads.setdefault(row["incarnation"], []).append(_load(t, row["incarnation"], partition) or 0.0)
        moved = max(moved, row.get("since") or moved)
    found = [
        [
            n, s["draining"], s["lease_expires_at"] < t.now, n not in t.store.advisory,
            (t.now - s["started_at"]).total_seconds(), owned.get(n, []), loads.get(n, []),
        ]
        for n, s in t.rows("scheduler")
    ]  # fmt: skip
    columns = "incarnation draining expired process_gone seconds partitions loads"
    free = [*[None] * 4, min((t.now - moved).total_seconds(), 1e9), owned[None], loads[None]]
    return answer(columns, [*found, free])


def _real(number: float) -> float:
    """As a column of single precision keeps it."""
    (kept,) = struct.unpack("f", struct.pack("f", number))
    return float(kept)


def _load(t: Transaction, incarnation: int | None, partition: int) -> float | None:
    """What the owner has published last, or else what was noted when the partition changed hands."""
    owner = None if incarnation is None else t.get("scheduler", incarnation)
    published = [] if owner is None else owner["partition_loads"] or []
    load = published[partition] if partition < len(published) else None
    return load if load is not None else (t.get("partition_lease", partition) or {}).get("load")


@handles(ownership.FENCE)
async def lock_dead(t: Transaction, incarnation: int, gone: bool) -> Answer:
    def is_dead(row: Row) -> bool:
        return row["lease_expires_at"] < t.now or (gone and incarnation not in t.store.advisory)

    row = await t.lock("scheduler", incarnation, UPDATE, is_dead)
    return answer("one", [[1]] if row is not None else [])


@handles(ownership.SHORT_LOCK_TIMEOUT)
async def _limit_waiting(t: Transaction) -> Answer:
    t.lock_timeout = 0.5
    return Answer([], "SET")


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
    return changed("UPDATE", await _give_up(t, incarnation, mine))


@handles(ownership.RELEASE)
async def _release(t: Transaction, incarnation: int, partitions: list[int]) -> Answer:
    return changed("UPDATE", await _give_up(t, incarnation, partitions))


async def _give_up(t: Transaction, incarnation: int, partitions: Iterable[int]) -> int:
    count = 0
    for partition in partitions:
        mine = await t.lock("partition_lease", partition, NO_KEY_UPDATE, lambda row: row["incarnation"] == incarnation)
        if mine is not None:
            load = _load(t, incarnation, partition)
            t.put("partition_lease", partition, {"incarnation": None, "since": t.now, "load": load})
            count += 1
    return count


@handles("DELETE FROM scheduler WHERE incarnation = $1")
async def _delete_scheduler(t: Transaction, incarnation: int) -> Answer:
    row = await t.lock("scheduler", incarnation, UPDATE)
    if row is None:
        return changed("DELETE", 0)
    if any(lease["incarnation"] == incarnation for _, lease in t.rows("partition_lease")):
        raise asyncpg.ForeignKeyViolationError(f"partitions belong to scheduler {incarnation}")
    t.delete("scheduler", incarnation)
    return changed("DELETE", 1)


@handles(ownership.DELETE_LOST)
async def _delete_lost(t: Transaction, incarnation: int) -> Answer:
    row = t.get("scheduler", incarnation)
    if (await _delete_scheduler(t, incarnation)).tag != "DELETE 1" or row is None or row["draining"]:
        return changed("INSERT 0", 0)
    t.put("lost_scheduler", incarnation, {name: row[name] for name in ("renewals", "renewed_at")})
    return changed("INSERT 0", 1)


@handles(ownership.ACQUIRE)
async def acquire(t: Transaction, incarnation: int, wanted: list[int]) -> Answer:
    taken = []
    if t.get("scheduler", incarnation) is not None:
        for partition in sorted(wanted):
            row = t.get("partition_lease", partition)
            if row is None or row["incarnation"] is not None:
                continue
            if t.store.free(t, ("partition_lease", partition), UPDATE):  # SKIP LOCKED
                await t.lock("partition_lease", partition, UPDATE)
                t.put("partition_lease", partition, {**row, "incarnation": incarnation, "since": t.now})
                taken.append([partition])
    if taken and await t.lock("scheduler", incarnation, KEY_SHARE) is None:  # the foreign key
        raise asyncpg.ForeignKeyViolationError(f"there is no scheduler {incarnation}")
    return answer("partition", taken, "UPDATE")


@handles(ownership.SET_DRAINING)
async def _set_draining(t: Transaction, incarnation: int) -> Answer:
    return changed("UPDATE", await t.update("scheduler", incarnation, draining=True) is not None)


# -- the hot transaction ----------------------------------------------------------------------

_POOL: Final = "name slots used include_deferred team rate"
_LOCKED_POOL: Final = f"{_POOL} demands starts read_at"


@handles(journal.READ_POOLS)
async def _read_pools(t: Transaction, names: list[str]) -> Answer:
    rows = (t.get("pool", name) for name in sorted(names))
    return answer(
        f"{_POOL} demands", [[*pick(row, _POOL), document(row["demands"])] for row in rows if row is not None]
    )


@handles(journal.LOCK_POOLS)
async def lock_pools(t: Transaction, names: list[str]) -> Answer:
    for name in sorted(names):
        await t.lock("pool", name, UPDATE)
    return locked_pools(t, names)


def locked_pools(t: Transaction, names: list[str]) -> Answer:
    """The pools as they are now."""
    read_at = (EPOCH + timedelta(seconds=t.store.loop.time())).timestamp()
    found = (t.get("pool", name) for name in sorted(names))
    documents = ((row, document(row["demands"]), document(row["starts"])) for row in found if row is not None)
    rows = [[*pick(row, _POOL), demands, starts, read_at] for row, demands, starts in documents]
    return answer(_LOCKED_POOL, rows)


@handles(demands.STORE_DEMANDS)
async def _store_demands(t: Transaction, incarnation: str, names: list[str], wanted: list[str | None]) -> Answer:
    count = 0
    for name, demand in zip(names, wanted, strict=True):
        row = await t.lock("pool", name, NO_KEY_UPDATE)
        if row is not None:
            count += 1
            others = {key: value for key, value in row["demands"].items() if key != incarnation}
            own = {} if demand is None else {incarnation: msgspec.json.decode(demand)}
            t.put("pool", name, {**row, "demands": others | own})
    return changed("UPDATE", count)


@handles(demands.STORE_STARTS)
async def _store_starts(t: Transaction, names: list[str], starts: list[str]) -> Answer:
    count = 0
    for name, log in zip(names, starts, strict=True):
        if (row := await t.lock("pool", name, NO_KEY_UPDATE)) is not None:
            t.put("pool", name, {**row, "starts": msgspec.json.decode(log)})
            count += 1
    return changed("UPDATE", count)


@handles(sequences.MAY_PUT_FORWARD)
async def _may_put_forward(t: Transaction) -> Answer:
    return answer("may", [[True]])


@handles(sequences.BEHIND)
async def _behind(t: Transaction) -> Answer:
    """Sequences of this model never go back."""
    return answer("name sequence used issued", [])


@handles(demands.WITHDRAW_DEMANDS)
async def _withdraw_demands(t: Transaction, incarnation: str) -> Answer:
    count = 0
    for name in [name for name, row in t.rows("pool") if incarnation in row["demands"]]:
        row = await t.lock("pool", name, UPDATE, lambda row: incarnation in row["demands"])
        if row is not None:
            others = {key: value for key, value in row["demands"].items() if key != incarnation}
            t.put("pool", name, {**row, "demands": others})
            count += 1
    return changed("UPDATE", count)


_CHANGE: Final = journal.InstanceChange._fields
_RUN_CHANGE: Final = journal.RunChange._fields


_MOVE: Final = ("name", "used")


@handles(journal.WRITE)
async def _write(t: Transaction, incarnation: int, *columns: Any) -> Answer:
    width, run_width = len(_CHANGE), len(_RUN_CHANGE)
    instances = batch(TASK_INSTANCE, _CHANGE, columns[:width])
    runs_ = batch(DAG_RUN, _RUN_CHANGE, columns[width : width + run_width])
    pools = batch(POOL, _MOVE, columns[width + run_width :][:2])
    return await write_batch(t, incarnation, instances, runs_, pools, columns[width + run_width + 2 :])


@handles(journal.WRITE_INSTANCES)
async def _write_instances(t: Transaction, incarnation: int, *columns: Any) -> Answer:
    *instances, expected = columns
    return await write_batch(t, incarnation, batch(TASK_INSTANCE, _CHANGE, instances), [], [], (expected, 0, 0))


async def _write_few(t: Transaction, incarnation: int, *values: Any, numbers: Sequence[int]) -> Answer:
    left = iter(values)
    kinds = zip(numbers, (_CHANGE, _RUN_CHANGE, _MOVE), strict=True)
    instances, runs_, pools = ([dict(zip(kind, left, strict=False)) for _ in range(n)] for n, kind in kinds)
    return await write_batch(t, incarnation, instances, runs_, pools, numbers)


for _numbers in product(range(1, journal.FEW + 1), range(2), range(2)):
    handles(journal.write_few(*_numbers))(partial(_write_few, numbers=_numbers))


async def write_batch(
    t: Transaction,
    incarnation: int,
    instances: Iterable[Row],
    runs_: Iterable[Row],
    pools: Iterable[Row],
    expected: Sequence[int],
) -> Answer:
    if t.fence is None:
        t.fence = incarnation
    held = await fenced(t, incarnation)
    moved = []
    written = ended = 0
    if held:
        for name, delta in map(dict.values, pools):
            row = await t.lock("pool", name, NO_KEY_UPDATE, partial(_moves, delta=delta))
            if row is not None:
                row = {**row, "used": row["used"] + delta}
                t.put("pool", name, row)
                moved.append(pick(row, _POOL))
        for change in instances:
            written += await change_instance(t, change)
        for change in runs_:
            ended += await change_run(t, change)
    if not held or [written, ended, len(moved)] != list(expected):
        raise asyncpg.DivisionByZeroError("division by zero")
    return answer(_POOL, [*moved, [None, 1, 1, None, None, None]])


def guarded(row: Row, change: Mapping[str, Any]) -> bool:
    """Whether an instance is as its writer believes."""
    return (row["state"], row["try_number"]) == (change["old_state"], change["old_try_number"])


def fits(pool: Row, delta: int) -> bool:
    """Whether a pool has room."""
    return delta <= 0 or pool["slots"] == -1 or pool["used"] + delta <= pool["slots"]


def _moves(pool: Row, delta: int) -> bool:
    """Whether the use of a pool changes by `delta`. The table's check is made before a wait for the lock, too."""
    if not fits(pool, delta):
        return False
    if pool["used"] + delta < 0:
        raise asyncpg.CheckViolationError("ck_pool_used")
    return True


async def change_instance(t: Transaction, change: dict[str, Any]) -> bool:
    key = (change.pop("run_id"), change.pop("task_index"), change.pop("map_index"))
    row = await t.lock("task_instance", key, NO_KEY_UPDATE, lambda row: guarded(row, change))
    if row is None:
        return False
    del change["old_state"], change["old_try_number"]
    t.put("task_instance", key, {**row, **change})
    return True


async def change_run(t: Transaction, change: dict[str, Any]) -> bool:
    key, expected = change.pop("id"), change.pop("old_state")
    row = await t.lock("dag_run", key, NO_KEY_UPDATE, lambda row: row["state"] == expected)
    if row is None:
        return False
    t.put("dag_run", key, {**row, **change})
    return True


@handles(journal.INSERT_TRIES)
async def _insert_tries(t: Transaction, *columns: Any) -> Answer:
    return changed("INSERT 0", await insert(t, TASK_TRY, batch(TASK_TRY, journal.TRY_COLUMNS, columns)))


@handles(journal.PLACE)
async def _place(t: Transaction, runs: list[int], tasks: list[int], old: int, new: int) -> Answer:
    count = 0
    for run, task in zip(runs, tasks, strict=True):
        row = await t.lock("task_instance", (run, task, old), UPDATE)
        if row is None:
            continue
        if not await t.reserve("task_instance", (run, task, new)):
            raise asyncpg.UniqueViolationError("pk_task_instance")
        t.delete("task_instance", (run, task, old))
        t.put("task_instance", (run, task, new), {**row, "map_index": new})
        count += 1
    return changed("UPDATE", count)


@handles(journal.DELETE_XCOMS)
async def _delete_xcoms(t: Transaction, *columns: Any) -> Answer:
    wanted = set(zip(*columns, strict=True))
    return changed("DELETE", await delete(t, XCOM, [key for key, _ in t.rows("xcom") if key[:3] in wanted]))


@handles(journal.UPSERT_XCOMS)
async def _upsert_xcoms(t: Transaction, *columns: Any) -> Answer:
    return changed("INSERT 0", await upsert(t, XCOM, batch(XCOM, journal.XComRow._fields, columns)))


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


# -- what simulated DAGs do not have ----------------------------------------------------------


_ABSENT: Final = re.compile(r"(?:SELECT .*? FROM|DELETE FROM|UPDATE|INTO) (\w+)")
_EMPTY_TABLES: Final = {
    "deadline", "asset", "asset_alias", "asset_reference", "asset_event", "asset_queue",
    "asset_consumption", "asset_key_event", "asset_partition", "asset_partition_event",
    "sla_miss", "engine_attempt", "unreferenced_xcom", "task_state", "asset_state", "asset_check",
    "dag_schedule",
}  # fmt: skip


async def nothing(t: Transaction, *args: Any) -> Answer:
    return changed("SELECT", 0)


@handles(module_sources.DELETE_UNNAMED)  # it reads versions, which are there
async def _nothing_deleted(t: Transaction, *args: Any) -> Answer:
    return changed("DELETE", 0)


@handles(dag_schedules.NEXT_SCHEDULE)
async def _no_schedule(t: Transaction, *args: Any) -> Answer:
    return answer("min", [[None]])


async def _nothing_updated(t: Transaction, *args: Any) -> Answer:
    return changed("UPDATE", 0)


_NOTHING: Final = {"DELETE": _nothing_deleted, "UPDATE": _nothing_updated}


def _find(plain: str) -> Handler:
    """The function for a statement. Raises UnknownStatement for one that the model should know."""
    handler = HANDLERS.get(plain)
    if handler is None:
        table = _ABSENT.search(plain)
        if table is None or table[1] not in _EMPTY_TABLES:
            raise UnknownStatement(f"the model of the database does not know: {plain}")
        handler = HANDLERS[plain] = _NOTHING.get(plain.partition(" ")[0], nothing)
    return handler
