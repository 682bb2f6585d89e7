"""Services for running tasks, answered from the database.

    trigger_dag   {dag_id, run_id, logical_date, run_after, conf, note, partition_key, fail_when_paused}
                  -> {run_id, is_paused}
    clear_run     {dag_id, run_id}                               -> {run_id}; refused for a DAG of another team
    run_state     {dag_id, run_id | logical_date | newest}       -> {dag_exists, run: {run_id, state} or null}
    task_states   {dag_id, run_id | logical_date, task_ids, group_id}
                  -> {dag_exists, unknown: [id], run: {run_id, state} or null, tasks: [[task_id, map_index, state]]}

    previous_run      {task_id, map_index, state, task_state, planned_only, before}
                      -> {run: {run_id, state, …} or null, task: {state, try_number, …} or null}
    previous_success  {}  -> {data_interval_start, data_interval_end, start_date, end_date} or null

    sla_misses        {callback}  -> {slas, blocking_tis}, for the callback of missed SLAs (23.3)

    xcoms             XComSearch -> FoundXComs, see xcom_services.py
    reserve_xcoms     see there

Services about assets are in asset_services.py, those of tasks that ask people in input_services.py; `variable` and
`connection` are in secret_services.py, because they need keys, `bundle` is in bundle_services.py, `unwritten_log` in
log_services.py.

Instants are ISO 8601 with an offset. A service raises NotFound or Refused with a message for the
author of the task; its answer is JSON. The same call may come again if the first one was not
answered (service_calls.py), so its changes carry the call's id. A new service needs a line here and one in
`SERVICES`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID, uuid4, uuid5

import msgspec

from aiosched.core.values.commands import command_line
from aiosched.core.values.messages import XComPairs, XComRef
from aiosched.db.access.owners import owner_of_dag, reader_of_run
from aiosched.db.crypto.keyring import Keyring
from aiosched.db.queries import task_services
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements import inbox, runs
from aiosched.db.statements.slas import blocking_instances, misses_of_callback
from aiosched.errors import NotFound, Refused, TimedOut
from aiosched.scheduler.services import asset_services
from aiosched.scheduler.services.input_services import ask_input, close_input
from aiosched.scheduler.services.service_calls import CallRetry, ServiceCall, Trusted
from aiosched.scheduler.services.xcom_services import find_xcoms, fitting, reserve_xcoms


async def sla_misses(db: Database, call: ServiceCall) -> dict[str, Any]:
    """The misses that a callback reports, for the worker that runs it; `call.run` is the callback's run (23.3)."""
    run = call.run
    async with db.acquire() as conn:
        misses = await misses_of_callback(conn, run, int(call.args["callback"]))
        blocking = await blocking_instances(conn, run, sorted({miss.logical_date for miss in misses}))
    return {"slas": [one._asdict() for one in misses], "blocking_tis": [one._asdict() for one in blocking]}


logger: Final = logging.getLogger(__name__)

PATIENCE: Final = 10.0  # seconds until the owner of another DAG is asked again, with the same request
MOST_VERSIONS: Final = 500  # whose task indexes are cached

Service = Callable[[Database, ServiceCall], Awaitable[Any]]  # -> JSON values


XComs = dict[XComRef, XComPairs | None]  # None: too many bytes for one answer


class DatabaseServices:
    """Implements `core.messages.TaskServices`. Task ids are resolved by the version that the run is pinned to.

    While the database fails, a call is repeated as long as the scheduler's `lease` at that time holds; without
    a lease everything is asked once. Attempts of one run that ask for XComs at the same time share one read from
    the database: the many instances of a mapped task all need the list that they are mapped over. One answer has a
    limit in bytes; what does not fit into a shared read is read alone.
    """

    def __init__(
        self,
        db: Database,
        task_services: Mapping[str, Service] | None = None,
        *,
        lease: Callable[[], Trusted | None] = lambda: None,
    ) -> None:
        self._db = db
        self._retry = CallRetry(lease)
        self._services = SERVICES if task_services is None else task_services
        self._indexes: dict[int, dict[str, int]] = {}  # by DAG version
        self._alone = asyncio.Lock()  # large values are read for one attempt after the other
        self._asked: dict[int, tuple[dict[XComRef, None], asyncio.Task[XComs]]] = {}  # by run, not read yet

    async def get_xcoms(self, run: int, refs: Sequence[XComRef]) -> list[XComPairs]:
        """For each ref the stored (map index, JSON text) pairs in index order; [] for an unknown task too."""
        return await self._retry.make("XComs", lambda: self._get_xcoms(run, refs))

    async def _get_xcoms(self, run: int, refs: Sequence[XComRef]) -> list[XComPairs]:
        if run not in self._asked:
            new: dict[XComRef, None] = {}
            task = asyncio.create_task(self._read_xcoms(run, new), name="read XComs")
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # if no caller waits any more
            self._asked[run] = (new, task)
        wanted, reading = self._asked[run]
        wanted.update(dict.fromkeys(refs))
        found = await asyncio.shield(reading)
        if any(found[ref] is None for ref in refs):
            async with self._alone, self._db.acquire() as conn:
                found = await self._read(conn, run, list(dict.fromkeys(refs)))
        return [fitting(found[ref]) for ref in refs]

    async def _read_xcoms(self, run: int, wanted: Collection[XComRef]) -> XComs:
        """Read what is `wanted` by the time there is a connection; later callers get a read of their own."""
        try:
            async with self._db.acquire() as conn:
                del self._asked[run]
                return await self._read(conn, run, list(wanted))
        except BaseException:
            if run in self._asked and self._asked[run][0] is wanted:
                del self._asked[run]
            raise

    async def _read(self, conn: DatabaseConnection, run: int, refs: Sequence[XComRef]) -> XComs:
        version = await runs.version_of_run(conn, run)
        if version is None:
            return {ref: [] for ref in refs}
        if version not in self._indexes:
            versions, unreadable = await runs.load_versions(conn, [version])
            if unreadable:
                raise Refused(str(unreadable[0]))
            tasks = versions[version].spec.tasks
            if len(self._indexes) >= MOST_VERSIONS:
                del self._indexes[next(iter(self._indexes))]
            self._indexes[version] = {task.task_id: index for index, task in enumerate(tasks)}
        indexes = self._indexes[version]
        known = [(indexes.get(ref.task_id, -1), ref) for ref in refs]
        return dict(zip(refs, await runs.get_xcoms(conn, run, known), strict=True))

    async def call(self, run: int, name: str, args: str, *, request: UUID | None = None) -> str:
        """Call a service by name; raises NotFound or Refused.

        `request` is the id of a call that may come again; by default each call is a new one.
        """
        service = self._services.get(name)
        if service is None:
            raise NotFound(f"There is no service {name!r}; known are {', '.join(sorted(self._services))}.")
        call = ServiceCall(run, msgspec.json.decode(args), request or uuid4())
        answer = await self._retry.make(f"the service {name!r}", lambda: service(self._db, call))
        return msgspec.json.encode(answer).decode()


async def _previous_success(db: Database, call: ServiceCall) -> dict[str, Any] | None:
    found = await task_services.previous_success(db, call.run)
    return None if found is None else found._asdict()


async def _previous_run(db: Database, call: ServiceCall) -> dict[str, Any]:
    args = call.args
    which = task_services.EarlierRun(
        task_id=str(args["task_id"]),
        map_index=int(args["map_index"]),
        state=args.get("state"),
        task_state=args.get("task_state"),
        with_manual=not args.get("planned_only"),
        date=args.get("before") and datetime.fromisoformat(args["before"]),
    )
    async with db.acquire() as conn:
        found = await task_services.previous_run(conn, call.run, which)
        if found is None:
            return {"run": None, "task": None}
        task = await task_services.earlier_task(conn, found.key, which.task_id, which.map_index)
    return {"run": found._asdict(), "task": None if task is None else task._asdict()}


def trigger_service(keyring: Keyring | None = None) -> Service:
    """The service `trigger_dag`; `keyring` encrypts the secret values of a conf."""
    return partial(_trigger_dag, keyring)


async def _trigger_dag(keyring: Keyring | None, db: Database, call: ServiceCall) -> dict[str, Any]:
    args = call.args
    dag_id = str(args["dag_id"])
    async with db.acquire() as conn:
        asked_before = await inbox.find_request(conn, call.id) is not None  # then the checks below were made
        dag = await task_services.dag_outline(conn, dag_id)
    if dag is None and not asked_before:
        raise NotFound(f"There is no DAG {dag_id!r} to trigger; see `aiosched dags list`.")
    is_paused = dag is not None and dag.is_paused
    if is_paused and args.get("fail_when_paused") and not asked_before:
        unpause = command_line("dags unpause", dag_id)
        raise Refused(f"DAG {dag_id!r} is paused: its run would wait. Unpause it: `{unpause}`.")
    names = ("run_id", "logical_date", "run_after", "conf", "partition_key")
    wanted = {name: args[name] for name in names if args.get(name) is not None}
    wanted["triggered_by"] = "operator"
    answer = await _ask_owner(db, call, "trigger", dag_id, wanted, keyring=keyring)
    if args.get("note"):
        noting = call._replace(id=uuid5(call.id, "note"))
        await _ask_owner(db, noting, "set_note", dag_id, {"run_id": answer["run_id"], "note": args["note"]})
    return {"run_id": answer["run_id"], "is_paused": is_paused}


async def _clear_run(db: Database, call: ServiceCall) -> dict[str, Any]:
    run_id, dag_id = call.args["run_id"], str(call.args["dag_id"])
    async with db.acquire() as conn:
        owner, reader = await owner_of_dag(conn, dag_id), await reader_of_run(conn, call.run)
        asking = await task_services.who_asks(conn, call.run)
    if reader.is_denied(owner):
        logger.warning("refused: a task of %s asked to clear runs of %r of the team %r", asking, dag_id, owner)
        raise Refused(
            f"Runs of the DAG {dag_id!r} are cleared by DAGs of its team {owner!r}, and not by {asking}: what they "
            "have stored would be lost. Trigger a run with an id of its own instead (reset_dag_run=False)."
        )
    await _ask_owner(db, call, "clear", dag_id, {"run_ids": [run_id]})
    return {"run_id": run_id}


async def _ask_owner(
    db: Database,
    call: ServiceCall,
    verb: str,
    dag_id: str,
    args: Mapping[str, Any],
    *,
    keyring: Keyring | None = None,
) -> dict[str, Any]:
    """Put a request into the inbox, once per call, and wait for the owner's answer."""
    async with db.acquire() as conn:
        who = await task_services.who_asks(conn, call.run)
        number = await inbox.send_request(
            conn, verb=verb, dag_id=dag_id, args=args, requested_by=who, idempotency_key=call.id, keyring=keyring
        )
    result = await inbox.wait_applied(db, number, timeout=PATIENCE)
    if result is None:
        raise TimedOut(f"No scheduler has answered the request to {verb} {dag_id!r} within {PATIENCE:.0f} s.")
    if result.error is not None:
        raise result.error
    return result.result


async def _run_state(db: Database, call: ServiceCall) -> dict[str, Any]:
    args = call.args
    dag_id = str(args["dag_id"])
    async with db.acquire() as conn:
        dag = await task_services.dag_outline(conn, dag_id)
        found = await (task_services.newest_run(conn, dag_id) if args.get("newest") else _find(conn, dag_id, args))
    return {"dag_exists": dag is not None, "run": _shown(found)}


async def _task_states(db: Database, call: ServiceCall) -> dict[str, Any]:
    args = call.args
    dag_id, task_ids, group_id = str(args["dag_id"]), list(args.get("task_ids") or ()), args.get("group_id")
    async with db.acquire() as conn:
        dag = await task_services.dag_outline(conn, dag_id)
        found = await _find(conn, dag_id, args)
        tasks = []
        if found is not None and (task_ids or group_id):
            tasks = await task_services.task_states(conn, found.key, task_ids=task_ids, group_id=group_id)
    unknown: list[str] = []
    if dag is not None:
        unknown = [task_id for task_id in task_ids if task_id not in dag.task_ids]
        unknown += [group_id] if group_id and group_id not in dag.group_ids else []
    return {"dag_exists": dag is not None, "unknown": unknown, "run": _shown(found), "tasks": tasks}


async def _find(conn: DatabaseConnection, dag_id: str, args: Mapping[str, Any]) -> task_services.AskedRun | None:
    run_id, date = args.get("run_id"), args.get("logical_date")
    found = await task_services.find_runs(
        conn,
        dag_id,
        run_ids=[run_id] if run_id is not None else [],
        logical_dates=[datetime.fromisoformat(date)] if date is not None else [],
    )
    return found[0] if found else None


def _shown(run: task_services.AskedRun | None) -> dict[str, Any] | None:
    return None if run is None else {"run_id": run.run_id, "state": run.state, "logical_date": run.logical_date}


SERVICES: Final[Mapping[str, Service]] = MappingProxyType(
    {
        "ask_input": ask_input,
        "asset_check": asset_services.asset_check,
        "asset_events": asset_services.asset_events,
        "check_assets": asset_services.check_assets,
        "clear_run": _clear_run,
        "close_input": close_input,
        "previous_run": _previous_run,
        "previous_success": _previous_success,
        "reserve_xcoms": reserve_xcoms,
        "run_state": _run_state,
        "sla_misses": sla_misses,
        "task_states": _task_states,
        "trigger_dag": trigger_service(),
        "triggering_asset_events": asset_services.triggering_asset_events,
        "xcoms": find_xcoms,
    }
)
