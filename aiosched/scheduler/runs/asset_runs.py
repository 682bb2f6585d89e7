"""Runs by asset events: which owned DAGs have their condition met, and creating their runs.

Called by the run-creation coroutine. Everything queued for a DAG becomes one run, in one transaction
with the list of the events that triggered it; rows that arrive meanwhile stay and cause the next
run. The decisions are pure (core/assets/conditions.py). Source: the semantics reference, sections 15.1 to 15.4.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from aiosched.core.assets.conditions import (
    AssetStatus,
    alias_names,
    consumed_after,
    triggering_instant,
    why_not_triggered,
)
from aiosched.core.creation.run_creation import active_runs_limit, allows, asset_run, tasks_of_run
from aiosched.core.graph.params import resolve_params
from aiosched.core.requests.requests import EmitAsset
from aiosched.core.timetables.assets import PartitionedAssetTimetable
from aiosched.core.timetables.base import Partition
from aiosched.core.timetables.key_formats import check_key
from aiosched.core.values.states import RunType
from aiosched.db.assets import asset_partitions, assets
from aiosched.db.statements.inbox import RequestResult
from aiosched.errors import DagError, did_you_mean
from aiosched.scheduler.concurrency.period import Period
from aiosched.scheduler.effects.notify import asset_conditions_changed
from aiosched.scheduler.failures.isolation import concerning, for_each_dag
from aiosched.scheduler.journal.asset_events import store_events
from aiosched.scheduler.memory.cache import OwnedDag
from aiosched.scheduler.runs.new_runs import Creation, chunks, hold, in_parts, most_at_once, store
from aiosched.scheduler.session.session import Session

logger: logging.Logger = logging.getLogger(__name__)


async def create_asset_runs(session: Session, partitions: Collection[int], now: datetime) -> None:
    """Create the runs whose conditions are met in these partitions, with new events. Call with `locks.ownership` held.

    Runs of partitions are created in partitioned_runs.py.
    """
    cache = session.cache
    async with session.env.db.acquire() as conn:
        queue = await assets.read_queue(conn, partitions)
        aliases = await assets.alias_targets(conn, _aliases(session, queue))
    dags = {dag_id: cache.dags[dag_id] for dag_id in queue if dag_id in cache.dags}
    if left := [dag_id for dag_id, dag in dags.items() if status_of(dag).condition is None]:
        await _forget(session, left)
    planned = []  # decided again with the rows locked
    for dag_id, dag in dags.items():
        with concerning(dag_id, "the asset condition"):
            if why_not_triggered(status_of(dag), queue[dag_id], aliases) is None:
                planned += [creation] if (creation := run_by_assets(dag, now)) is not None else []

    async def create(ready: Sequence[OwnedDag]) -> None:
        await _create(session, ready, now)

    for chunk in chunks(in_parts(planned), most_at_once(session.env.settings)):
        ready = [creation.dag for creation in chunk]
        await for_each_dag("the creation of runs by assets", ready, lambda dag: dag.row.dag_id, create, held=cache.dags)


async def _create(session: Session, dags: Collection[OwnedDag], now: datetime) -> None:
    """Create one run for each of these DAGs whose condition is met by the rows, which are locked first."""
    by_id = {dag.row.dag_id: dag for dag in dags}
    creations: list[Creation] = []
    consumed: assets.Queue = {}
    async with session.env.side_journal.transaction() as transaction:
        conn = transaction.conn
        watermarks = await assets.lock_watermarks(conn, by_id)
        queue = await assets.lock_queue(conn, by_id)
        aliases = await assets.alias_targets(conn, _aliases(session, queue))
        for dag_id, rows in queue.items():
            dag = by_id[dag_id]
            if dag_id in watermarks and why_not_triggered(status_of(dag), rows, aliases) is None:
                creation = run_by_assets(dag, triggering_instant(rows))
                if creation is not None:
                    creations.append(creation)
                    consumed[dag_id] = rows
        if not creations:
            return
        creations = in_parts(creations)
        keys = await store(session, conn, creations, now)
        await assets.consume(
            conn,
            [
                _consumer(creation, key, watermarks[creation.dag.row.dag_id])
                for creation, key in zip(creations, keys, strict=True)
                if key is not None
            ],
        )
        await assets.drop_queue(conn, consumed)
    session.changed_runs.add_runs(key for key in keys if key is not None)
    hold(session.context, creations, keys, now)


def status_of(dag: OwnedDag) -> AssetStatus:
    """The facts that decide whether the DAG gets a run by asset events; one with partitions gets none by these."""
    has_partitions = isinstance(dag.version.spec.timetable, PartitionedAssetTimetable)
    return AssetStatus(
        condition=None if has_partitions else dag.asset_condition,
        active_runs=len(dag.runs.under_way()) + len(dag.runs.queued) + len(dag.runs.starting),
        max_active_runs=active_runs_limit(dag.version.spec),
        is_paused=dag.row.is_paused,
        is_stale=dag.row.is_stale,
        has_import_errors=dag.row.has_import_errors,
    )


def run_by_assets(dag: OwnedDag, at: datetime, partition: Partition | None = None) -> Creation | None:
    """The run that asset events trigger, `at` their triggering instant, about this partition (if any).

    None for a DAG that allows no such runs, or whose params have no valid defaults.
    """
    spec = dag.version.spec
    if not allows(spec, RunType.ASSET_TRIGGERED):
        return None
    try:
        resolve_params(spec.params, {})
    except DagError as error:
        logger.error("no run by asset events: %s", error, extra={"dag_id": dag.row.dag_id})
        return None
    planned = asset_run(at, partition)
    return Creation(dag, planned, tasks_of_run(spec, planned), "asset", {}, starts=True)


def _consumer(creation: Creation, key: int, watermark: assets.Watermark) -> assets.NewConsumer:
    spec, until = creation.dag.version.spec, creation.planned.run_after
    after = consumed_after(watermark.last_run_after, scheduled_at=watermark.scheduled_at, catchup=spec.catchup)
    return assets.NewConsumer(spec.dag_id, key, after, until)


def _aliases(session: Session, queue: Iterable[str]) -> set[str]:
    """The aliases that the conditions of these DAGs name."""
    conditions = (dag.asset_condition for dag_id in queue if (dag := session.cache.dags.get(dag_id)) is not None)
    return {name for condition in conditions if condition is not None for name in alias_names(condition)}


async def _forget(session: Session, dag_ids: Collection[str]) -> None:
    """Delete queue rows of DAGs that are no longer scheduled on assets (15.3)."""
    async with session.env.side_journal.transaction() as transaction:
        await assets.drop_queue(transaction.conn, await assets.lock_queue(transaction.conn, dag_ids))


async def check_assets(session: Session, cleanup: Period) -> None:
    """A periodic safety net for lost notifications, and for assets that no DAG mentions any more."""
    session.cache.work.assets |= session.cache.partitions
    session.wakeups.creation.wake()
    env = session.env
    if cleanup.is_over(env.clock.monotonic(), env.settings.parsing.cleanup_interval):
        async with session.env.db.acquire() as conn:
            changed = await assets.sweep(conn)
            await asset_partitions.drop_keys_without_use(conn)
        for name, is_active in sorted(changed.items()):
            logger.info("asset %s is %s", name, "active again" if is_active else "inactive: no DAG mentions it")


async def emit_event(session: Session, request: EmitAsset, number: int) -> RequestResult | None:
    """Apply a request to emit an asset event; None if it is applied and answered."""
    name = request.name
    try:
        if request.partition_key is not None:
            check_key(request.partition_key)
    except ValueError as error:
        return _refused(str(error))
    extra = msgspec.json.encode(request.extra).decode()
    event = assets.NewAssetEvent(name, "", extra, None, session.env.clock.now(), partition_key=request.partition_key)
    async with session.env.side_journal.transaction() as transaction:
        conn = transaction.conn
        known = await assets.asset_states(conn)
        if not known.get(name):
            return _unknown(name, known)
        partitions = await store_events(conn, [event])
        result: dict[str, Any] = {"name": name, "at": event.timestamp.isoformat()}
        await transaction.answer(number, result)
    asset_conditions_changed(session, partitions)
    return None


def _unknown(name: str, known: Mapping[str, bool]) -> RequestResult:
    if name in known:
        return _refused(f"The asset {name!r} is inactive: no DAG mentions it any more, so it would have no effect.")
    hint = did_you_mean(name, known)
    return _refused(f"There is no asset {name!r}.{hint} See `aiosched assets list`.", exit_code=3)


def _refused(error: str, *, exit_code: int = 4) -> RequestResult:
    return RequestResult("refused", {"error": error, "exit_code": exit_code})
