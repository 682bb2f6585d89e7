"""Triggered runs: what a request asks for, and many of them in one transaction.

Source: the semantics reference, section 13.4.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from aiosched.core.creation.run_creation import check_manual_run, check_run_type
from aiosched.core.graph.new_instances import count_instances
from aiosched.core.requests.job_terms import Fate, fate_of, start_of
from aiosched.core.requests.requests import Trigger
from aiosched.core.values.secret_values import has_secrets
from aiosched.core.values.states import RunType
from aiosched.db.statements import keyed_runs
from aiosched.db.statements.dags import import_error
from aiosched.db.statements.inbox import RequestResult, WaitingRequest
from aiosched.errors import Refused
from aiosched.scheduler.memory.cache import OwnedDag
from aiosched.scheduler.runs import incomplete
from aiosched.scheduler.runs.due_runs import requested_run
from aiosched.scheduler.runs.new_runs import Creation, create, in_parts
from aiosched.scheduler.session.session import Session

_MOST: Final = 100  # runs in one transaction


class PlannedTrigger(NamedTuple):
    """A run that a request asks for, and that is not stored yet."""

    row: WaitingRequest
    creation: Creation
    size: int  # task instances

    @property
    def names(self) -> list[tuple[str, object]]:
        """What no two runs of a DAG share: the run id, and the logical date if there is one."""
        dag_id, planned = self.creation.dag.row.dag_id, self.creation.planned
        dated = planned.logical_date is not None
        return [(dag_id, planned.run_id), (dag_id, planned.logical_date)] if dated else [(dag_id, planned.run_id)]


class PlannedRuns:
    """The runs of requests in a row, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._found: list[PlannedTrigger] = []
        self._of_dags = Counter[str]()
        self._names: set[tuple[str, object]] = set()  # run ids and logical dates, by DAG
        self._keys: set[tuple[str | None, object]] = set()
        self._instances = 0

    def others(self, dag: OwnedDag) -> int:
        """How many of them are of this DAG."""
        return self._of_dags[dag.row.dag_id]

    def fits(self, one: PlannedTrigger) -> bool:
        """Whether it can be stored with them: a run that might exist by then is stored by itself."""
        if len(self._found) >= _MOST or self._instances + one.size > incomplete.PART:
            return False
        return self._names.isdisjoint(one.names)

    def have_key(self, dag_id: str | None, key: object) -> bool:
        """Whether one of them has this unique key."""
        return key is not None and (dag_id, key) in self._keys

    def add(self, one: PlannedTrigger) -> None:
        dag_id = one.creation.dag.row.dag_id
        self._found.append(one)
        self._of_dags[dag_id] += 1
        self._names.update(one.names)
        if one.creation.unique_key is not None:
            self._keys.add((dag_id, one.creation.unique_key))
        self._instances += one.size

    def take(self) -> list[PlannedTrigger]:
        """All of them, to be stored now."""
        found, self._found, self._instances = self._found, [], 0
        for each in (self._of_dags, self._names, self._keys):
            each.clear()
        return found


async def plan_trigger(
    session: Session, dag: OwnedDag, request: Trigger, row: WaitingRequest, others: int
) -> PlannedTrigger | RequestResult:
    """The run that a request asks for, or the answer to it if an unfinished run has its unique key.

    `others` of its DAG are about to be stored. Raises Refused and ParamError.
    """
    await _check_file(session, dag)
    check_run_type(dag.version.spec, RunType.MANUAL)
    now = session.env.clock.now()
    start = start_of(request, now)
    params, conf, confs = dag.version.spec.params, dict(request.conf), session.env.confs
    if conf and (dag.graph.has_secrets or has_secrets(conf)):
        async with session.env.db.acquire() as conn:
            conf = await confs.checked(conn, params, conf)
    creation = requested_run(
        dag,
        now,
        conf=conf,
        run_id=request.run_id,
        logical_date=request.logical_date,
        run_after=start,
        triggered_by=request.triggered_by,
        allowed_run_id=re.compile(session.env.settings.scheduler.allowed_run_id_pattern),
        may_start=not session.membership.draining,
        partition_key=request.partition_key,
        unpauses=request.unpause,
        others=others,
        unique_key=request.unique,
        priority=request.priority,
        traceparent=request.traceparent,
        expires_at=request.expires,
    )
    if request.unique is not None:
        answer = await _unfinished(session, creation, request.unique, debounced=request.debounce is not None)
        if answer is not None:
            return answer
    return PlannedTrigger(row, creation, count_instances(dag.graph, creation.tasks))


async def _unfinished(session: Session, creation: Creation, key: str, *, debounced: bool) -> RequestResult | None:
    """The unfinished run with this key as the answer, moved on if the request is debounced; None: it makes its own."""
    dag = creation.dag
    newest = await keyed_runs.newest_run(session.env.db, dag.row.dag_id, key)
    waiting = None if newest is None else dag.runs.queued.find(newest.key)
    fate = fate_of(None if newest is None else newest.state, is_queued=waiting is not None, debounced=debounced)
    if newest is None or fate is Fate.CREATE:
        return None
    if waiting is not None and fate is Fate.MOVE:
        terms = creation.terms
        async with session.env.side_journal.transaction() as transaction:
            await keyed_runs.move_start(transaction.conn, waiting.key, terms)
        dag.runs.queued.move(waiting, terms)
        session.cache.work.to_start[dag.row.dag_id] = None
    return RequestResult("applied", {"run_id": newest.run_id, "id": newest.key, "paused": dag.row.is_paused})


async def create_triggered(session: Session, planned: Sequence[PlannedTrigger]) -> list[RequestResult | None]:
    """Store these runs and the answers to their requests; for each run that exists already the refusal, else None."""
    creations = in_parts([one.creation for one in planned])
    numbers = [one.row.id for one in planned]
    runs = await create(session, creations, session.env.clock.now(), answering=numbers)
    return [None if run is not None else _taken(one.creation) for one, run in zip(planned, runs, strict=True)]


def _taken(creation: Creation) -> RequestResult:
    dag_id, planned = creation.dag.row.dag_id, creation.planned
    what = f"run id {planned.run_id!r}"
    if planned.logical_date:
        what += f" or logical date {planned.logical_date.isoformat()}"
    error = f"DAG {dag_id!r} has a run with the {what} already; choose another."
    return RequestResult("refused", {"error": error, "exit_code": Refused.exit_code})


async def _check_file(session: Session, dag: OwnedDag) -> None:
    """Raise Refused, with the import error, for a DAG that takes no runs because of its file."""
    row, reason = dag.row, None
    if row.has_import_errors and row.file is not None:
        found = await import_error(session.env.db, row.file)
        reason = None if found is None else str(found)
    check_manual_run(row.dag_id, is_stale=row.is_stale, has_import_errors=row.has_import_errors, import_error=reason)
