"""Why something does not run, read from the rows: works from any process, with or without a running scheduler.

Loads one DAG (and one run of it) into the same structures that a scheduler holds, with the same functions, and
passes them to core/why. All statements use one snapshot. Does not live here: the gates and their texts (core), SQL
(db/queries/why.py), competition for slots (slots.py). Source: docs/why.md.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from aiosched.clock import SystemClock
from aiosched.core.assets.conditions import QueuedAsset, alias_names
from aiosched.core.creation.next_run import next_scheduled_run
from aiosched.core.creation.partitions import progress_of
from aiosched.core.creation.run_creation import DagStatus, active_runs_limit
from aiosched.core.creation.run_keys import KeyRoom, same_key
from aiosched.core.graph.human_input import InputRequest
from aiosched.core.run.board import Board, Instance, Run
from aiosched.core.timetables import AssetOrTimeSchedule, PartitionedAssetTimetable
from aiosched.core.values.ids import instance_name, read_instance_name
from aiosched.core.values.messages import AttemptKey
from aiosched.core.values.states import (
    ACTIVE_FOR_TASK_LIMITS,
    FAILURES,
    FINISHED,
    HOLDING_SLOT,
    SCHEDULABLE,
    RunState,
    TaskState,
)
from aiosched.core.why.dag import MOST_SHOWN, DagFacts, PartitionFacts, ScheduleFacts, explain_dag
from aiosched.core.why.ends import dependencies_of
from aiosched.core.why.explanation import MOST_HOLDERS, Explanation, Holder, Owner, ago, run_label, seconds_since
from aiosched.core.why.quarantine import QuarantineFacts, explain_quarantine
from aiosched.core.why.run import RunFacts, explain_run
from aiosched.core.why.task import BlockedLoop, OnEngine, TaskFacts, explain_task
from aiosched.db.assets import asset_partitions, assets
from aiosched.db.engines.attempts import decode_attempt
from aiosched.db.people import human_inputs
from aiosched.db.people.human_inputs import TaskPlace
from aiosched.db.queries import queries
from aiosched.db.queries import why as why_rows
from aiosched.db.queries.quarantine_queries import quarantine_of, set_aside_of
from aiosched.db.queries.queries import RunRow
from aiosched.db.queries.schedulers import SchedulerRow, list_schedulers
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.server.failures import is_of_database
from aiosched.db.statements import runs, unwritten_logs
from aiosched.db.statements.backfills import load_backfills
from aiosched.db.statements.dag_schedules import sum_of_schedules
from aiosched.db.statements.schedules import schedule_positions
from aiosched.errors import DagError, NotFound, Refused, UnreadableRow, did_you_mean
from aiosched.scheduler.memory.cache import OwnedDag, StateCache, candidate_of, make_board
from aiosched.scheduler.memory.version_reading import ensure_versions, readable_versions
from aiosched.scheduler.partitions.previous_run import read_past
from aiosched.scheduler.partitions.run_rehydration import NOTHING, rehydrate
from aiosched.scheduler.runs.awaited import NOT_ASKED, answers, awaited_by, awaited_in
from aiosched.scheduler.runs.incomplete import missing_instances
from aiosched.scheduler.why.slots import TypicalDurations, competition, room_for

_MOST_LOOKBACK_RUNS: Final = 200  # running runs for which it is read whether they wait for a previous run


async def why(
    db: Database,
    dag_id: str,
    run: str | None = None,
    task_id: str | None = None,
    map_index: int | None = None,
    *,
    now: datetime | None = None,
) -> Explanation:
    """Why a DAG, a run of it, or a task instance does not run; or that it does, or how it ended.

    `run` is a run id, a logical date, `latest` or `latest-failed`. Of a mapped task without a `map_index` (or with -1)
    the most informative instance is explained: one that waits, else one that failed. NotFound suggests similar names.
    """
    now = now or SystemClock().now()
    await queries.get_dag(db, dag_id)
    found = None if run is None else await queries.find_run(db, dag_id, run)
    schedulers = await list_schedulers(db)
    quarantine: QuarantineFacts | None = None
    try:
        async with db.acquire() as conn, conn.transaction(isolation="repeatable_read", readonly=True):
            quarantine = await _quarantine(conn, dag_id)
            reader = await _Reader.open(conn, dag_id, schedulers, now, quarantine)
            if found is None:
                explanation = explain_dag(await reader.of_dag())
            else:
                explanation = await _explain(reader, found, task_id, map_index)
            return replace(explanation, notes=tuple(reader.notes))
    except Exception as error:
        if quarantine is None or isinstance(error, NotFound) or is_of_database(error):
            raise
        # What its scheduler cannot decide, these functions, which are the same, may not be able to explain.
        labels = [] if found is None else [run_label(found.run_id, found.logical_date)]
        subject = " · ".join([dag_id, *labels, *([task_id] if task_id else [])])
        state = "idle" if found is None else found.state
        return explain_quarantine(subject, state, dag_id, quarantine, now, error)


async def _explain(reader: _Reader, found: RunRow, task_id: str | None, map_index: int | None) -> Explanation:
    stored = await runs.load_runs(reader.conn, [found.key])
    if not stored:
        raise NotFound(f"Run {found.run_id} of {found.dag_id} was deleted just now.")
    run = stored[0]
    board = await reader.board_of(run)
    instance = None if task_id is None else _chosen(board, task_id, map_index)  # raises for unknown names
    facts = await reader.of_run(run)
    usual = TypicalDurations(reader.cache, reader.conn)
    reader.notes += await _unwritten(reader.conn, run.key, instance)
    if instance is None:
        unfinished = [each for each in board if each.state not in FINISHED and each.state is not TaskState.NONE]
        names = {board.graph.task_ids[each.task] for each in unfinished[:MOST_HOLDERS]}
        await usual.learn({(run.dag_id, name) for name in names})
        return explain_run(facts, board, lambda name: usual.of(run.dag_id, name))
    reader.notes += map(str, await set_aside_of(reader.conn, run.key, instance.task, instance.map_index))
    return explain_task(await reader.of_task(facts, board, instance, usual))


async def _unwritten(conn: DatabaseConnection, run: int, instance: Instance | None) -> list[str]:
    """What of the logs of a run, or of an instance, could not be written."""
    if instance is not None:
        lost = await unwritten_logs.newest(conn, run, instance.task, instance.map_index)
        kept = {True: "; their end is shown at the end of that log", False: ""}
        return [f"{row.loss(f'the log of try {number}')}{kept[bool(row.tail)]}" for number, row in lost.items()]
    counted = await unwritten_logs.of_run(conn, run)
    return [] if counted is None else [counted]


def _chosen(board: Board, task_id: str, map_index: int | None) -> Instance:
    """The instance to explain; `load[3]` names one. Raises NotFound, and Refused for two different map indexes."""
    task_id, map_index = read_instance_name(task_id, map_index)
    index, run = board.graph.index, board.run
    if task_id not in index:
        raise NotFound(f"DAG {run.dag_id!r} has no task {task_id!r}.{did_you_mean(task_id, index)}")
    group = board.upstream_counts.of(index[task_id])
    if not group:
        raise NotFound(f"Task {task_id!r} takes no part in run {run.run_id} of {run.dag_id}: its dates exclude it.")
    if map_index is not None and (map_index >= 0 or group[0].map_index < 0):
        if (instance := board.find(index[task_id], map_index)) is None:
            raise NotFound(f"Run {run.run_id} of {run.dag_id} has no instance {instance_name(task_id, map_index)}.")
        return instance
    return min(group, key=_most_informative)


def _most_informative(instance: Instance) -> tuple[int, int]:
    """A sort key: what waits, then what failed, then what runs, then the rest."""
    waits = instance.state not in FINISHED and instance.state not in HOLDING_SLOT
    failed, holds = instance.state in FAILURES, instance.state in HOLDING_SLOT
    return (0 if waits else 1 if failed else 2 if holds else 3), instance.map_index


async def _quarantine(conn: DatabaseConnection, dag_id: str) -> QuarantineFacts | None:
    row = await quarantine_of(conn, dag_id)
    if row is None:
        return None
    return QuarantineFacts(
        since=row.since, retry_at=row.retry_at, failures=row.failures, place=row.place, error=row.error
    )


@dataclass(slots=True)
class _Reader:
    """One DAG as a scheduler holds it, from rows."""

    conn: DatabaseConnection
    dag_id: str
    now: datetime
    owner: Owner
    figures: dict[str, Any] | None
    blocked: list[dict[str, Any]]  # blocked event loops of workers, in the whole fleet (metrics_snapshot.py)
    names: dict[int, str]  # of schedulers, by incarnation
    quarantine: QuarantineFacts | None
    cache: StateCache
    dag: OwnedDag
    unfinished: list[Run]
    notes: list[str] = field(default_factory=list)  # the bounds of reads that were reached
    missing: int = 0  # task instances of the run that are not stored yet
    previous: int | None = None  # the previous run of the run, if one of its tasks may wait for it

    @classmethod
    async def open(
        cls,
        conn: DatabaseConnection,
        dag_id: str,
        schedulers: list[SchedulerRow],
        now: datetime,
        quarantine: QuarantineFacts | None,
    ) -> _Reader:
        if (row := await why_rows.get_dag_row(conn, dag_id)) is None:
            raise NotFound(f"DAG {dag_id!r} has no version: its file was never read.")
        incarnation = await why_rows.owner_of(conn, row.partition)
        mine = next((each for each in schedulers if each.incarnation == incarnation), None)
        others = [each.draining for each in schedulers if each.alive and each is not mine]
        owner = Owner(others=others.count(False), draining_others=others.count(True))
        if mine is not None:
            owner = replace(owner, name=mine.name or mine.hostname, is_alive=mine.alive, is_draining=mine.draining)
        figures = mine.figures if mine is not None and mine.alive else None
        published = [each.figures or {} for each in schedulers if each.alive]
        rooms = [room for each in published for room in each.get("executor", {}).values()]
        blocked = [loop for room in rooms for loop in room.get("blocked", ())]
        names = {each.incarnation: each.name or each.hostname for each in schedulers}
        cache = StateCache()
        await ensure_versions(cache, conn, {row.version_id})
        dag = cache.put_dag(row, cache.versions[row.version_id][0])
        unfinished = await why_rows.unfinished_runs(conn, dag_id, row.partition)
        reader = cls(conn, dag_id, now, owner, figures, blocked, names, quarantine, cache, dag, unfinished)
        if len(unfinished) >= why_rows.MOST_RUNS:
            reader.notes.append(f"of the unfinished runs of {dag_id} the first {why_rows.MOST_RUNS:,} are counted")
        return reader

    # -- the DAG ----------------------------------------------------------------------------

    async def of_dag(self) -> DagFacts:
        latest = await why_rows.latest_run(self.conn, self.dag_id)
        last = None
        if latest is not None:
            ended = seconds_since(latest.end_date, self.now)
            words = f"{latest.state}{ago(ended).replace(' for', '')}{' ago' if latest.end_date else ''}"
            last = f"{run_label(latest.run_id, latest.logical_date)} ({words})"
        row, spec, condition = self.dag.row, self.dag.version.spec, self.dag.asset_condition
        is_timed = isinstance(spec.timetable, AssetOrTimeSchedule) or (
            condition is None and spec.timetable.can_be_scheduled
        )
        position = (await schedule_positions(self.conn, [spec], self.now))[self.dag_id]
        try:
            next_run = next_scheduled_run(spec, position, self.now)
        except DagError:
            next_run = None
        counted = [run for run in self.unfinished if run.backfill_id is None or condition is not None]
        status = DagStatus(
            self.dag_id,
            next_run,
            active_runs_limit(spec),
            len(counted),
            is_paused=row.is_paused,
            is_stale=row.is_stale,
            has_import_errors=row.has_import_errors,
            allowed_run_types=spec.allowed_run_types,
            failures=0 if position.failures is None else position.failures.runs,
        )
        queue: list[QueuedAsset] = []
        aliases: dict[str, set[str]] = {}
        if condition is not None:
            queue = (await assets.read_queue(self.conn, [row.partition])).get(self.dag_id, [])
            aliases = await assets.alias_targets(self.conn, alias_names(condition))
        partitions = None
        if isinstance(spec.timetable, PartitionedAssetTimetable):
            partitions = await _partition_facts(self.conn, self.dag_id, spec.timetable, aliases)
        running = sum(run.state is RunState.RUNNING for run in self.unfinished)
        schedules = await sum_of_schedules(self.conn, self.dag_id)
        return DagFacts(
            now=self.now,
            owner=self.owner,
            status=status,
            quarantine=self.quarantine,
            schedule=spec.timetable.summary,
            is_timed=is_timed,
            condition=condition,
            queue=tuple(queue),
            aliases=aliases,
            partitions=partitions,
            schedules=ScheduleFacts(*schedules) if schedules.number else None,
            running=running,
            queued=len(self.unfinished) - running,
            active=await self._holders(counted),
            last=last,
        )

    async def _holders(self, active: list[Run]) -> tuple[Holder, ...]:
        usual = await why_rows.usual_run_seconds(self.conn, self.dag_id) if active else None
        return tuple(
            Holder(
                dag_id=run.dag_id,
                run_id=run.run_id,
                state=run.state.value,
                seconds=seconds_since(run.start_date if run.state is RunState.RUNNING else run.queued_at, self.now),
                usual_seconds=usual,
                logical_date=run.logical_date,
            )
            for run in active[:MOST_HOLDERS]
        )

    # -- a run ------------------------------------------------------------------------------

    async def of_run(self, run: Run) -> RunFacts:
        dag = self.dag
        for each in self.unfinished:
            if each.state is RunState.QUEUED:
                dag.runs.queued.append(each)
        for backfill in await load_backfills(self.conn, [dag.row.partition]):
            if backfill.dag_id == self.dag_id:
                dag.runs.backfills[backfill.id] = backfill
        group = run.backfill_id
        limits = dag.run_limits()
        running = Counter(each.backfill_id for each in self.unfinished if each.state is RunState.RUNNING)
        limit = limits.get(group, active_runs_limit(dag.version.spec))
        waits = run.state is RunState.QUEUED
        known = await self._hold_running() if running[group] + waits > limit else NOT_ASKED
        awaited = awaited_in(self.cache, dag, known)
        places = {key: place for place, key in enumerate(awaited.by)}
        keys, under_way = dag.version.spec.run_key, [e for e in self.unfinished if e.state is RunState.RUNNING]
        queued = [each for each in self.unfinished if each.state is RunState.QUEUED and each.backfill_id == group]
        queued.sort(key=lambda each: places.get(each.key, len(places)))  # now in the order in which they may start
        turn = next((number for number, each in enumerate(queued, 1) if each.key == run.key), 0)
        active = [each for each in under_way if each.backfill_id == group]
        same = [each for each in under_way if same_key(keys, run.conf, each.conf)]
        beyond = self._beyond(active, known) if len(active) > max(limit, 0) else None
        return RunFacts(
            now=self.now,
            owner=self.owner,
            run=run,
            quarantine=self.quarantine,
            is_paused=dag.row.is_paused,
            limit=limit,
            running=running[group],
            queued=tuple(queued[:turn]) if waits else (),
            active=await self._holders(active) if waits else (),
            backfill_is_paused=group in dag.runs.backfills and dag.runs.backfills[group].is_paused,
            awaited=awaited,
            waiting=dag.runs.running[awaited.by[run.key]].run.run_id if run.key in awaited.by else None,
            beyond=beyond,
            missing=self.missing,
            keys=None if keys is None else KeyRoom(keys, (each.conf for each in under_way)),
            same_key=await self._holders(same) if waits else (),
        )

    def _beyond(self, active: list[Run], known: Mapping[int, int | None]) -> str | None:
        """Which of these running runs was started beyond the limit, and why, if that reason still holds."""

        def begun(run: Run) -> tuple[datetime, bool, int]:
            return (
                run.start_date or self.now,
                run.key not in self.dag.runs.running or not self.dag.runs.running[run.key].is_held_back,
                run.key,
            )

        last = max(active, key=begun)
        waiting = awaited_by(self.cache, self.dag, last.key, known)
        return None if waiting is None else f"{last.run_id} started beyond the limit because {waiting} waits for it"

    async def _hold_running(self) -> Mapping[int, int | None]:
        """Hold the running runs that depend on a previous run, as their scheduler does.

        Returns the previous runs of the awaited runs. Holds and returns nothing if there are too many.
        """
        running = [each for each in self.unfinished if each.state is RunState.RUNNING]
        await ensure_versions(self.cache, self.conn, {each.version_id for each in self.unfinished})
        versions = self.cache.versions
        lookback = [each for each in running if versions[each.version_id][1].lookback is not None]
        if not lookback:
            return NOT_ASKED
        if len(lookback) > _MOST_LOOKBACK_RUNS:
            self.notes.append(f"more than {_MOST_LOOKBACK_RUNS} runs of {self.dag_id} may wait for others: not checked")
            return NOT_ASKED
        instances = await runs.load_instances(self.conn, [each.key for each in lookback])
        rehydrations = await rehydrate(self.conn, lookback, self.cache)
        for each in lookback:
            board = make_board(each, *versions[each.version_id], instances[each.key])
            self.dag.runs.run(board)
            board.is_paused = self.dag.row.is_paused
            rehydrations.get(each.key, NOTHING).apply_to(board)
        boards = list(self.dag.runs.running.values())
        for board, past, before in await read_past(self.cache, self.conn, boards, self.dag.runs.running):
            self.cache.previous_run_index.add(board, past, before)
        for board in boards:
            board.resume()
            board.evaluate(self.now)  # its decisions are not stored
        self.dag.has_lookback = True
        return await answers(self.cache, self.conn, [self.dag.row.dag_id])

    async def board_of(self, run: Run) -> Board:
        """The run as a scheduler would hold it, rehydrated as in loading.py."""
        board, self.missing = await self._instances_of(run)
        for place, (waited, holds_pool) in (await why_rows.stored_deferrals(self.conn, run.key)).items():
            if (instance := board.find(*place)) is not None:
                instance.holds_pool = holds_pool
                board.deferrals.recall(instance, waited)
        (await rehydrate(self.conn, [run], self.cache)).get(run.key, NOTHING).apply_to(board)
        if board.graph.lookback is not None:
            for _, past, before in await read_past(self.cache, self.conn, [board]):
                board.set_past(past)
                self.previous = before
        return board

    async def _instances_of(self, run: Run) -> tuple[Board, int]:
        """The run with the states of its task instances only, and how many of these are not stored yet."""
        await ensure_versions(self.cache, self.conn, {run.version_id})
        version, graph = self.cache.versions[run.version_id]
        stored = (await runs.load_instances(self.conn, [run.key]))[run.key]
        if beyond := {each.task for each in stored} - {*range(len(graph.task_ids))}:
            raise UnreadableRow(f"{run.run_id} of {run.dag_id} has an instance of task {min(beyond)}")
        missing = missing_instances(graph, run, stored)
        return make_board(run, version, graph, [*stored, *missing]), len(missing)

    # -- a task instance --------------------------------------------------------------------

    async def of_task(self, run: RunFacts, board: Board, instance: Instance, usual: TypicalDurations) -> TaskFacts:
        await self._count_active()
        graph, dag_id = board.graph, board.run.dag_id
        candidate = candidate_of(board, instance, self.dag.room)
        room, used = await room_for(self.conn, candidate, self.figures)
        competing_demands = await competition(self.cache, self.conn, candidate, room, instance, self.now)
        self.notes += competing_demands.notes
        names = {graph.task_ids[each.task] for each in (instance, *dependencies_of(board, instance))}
        await usual.learn({(dag_id, name) for name in names} | competing_demands.tasks())
        return TaskFacts(
            run=run,
            board=board,
            instance=instance,
            previous=await self._previous_run(board, instance),
            is_gone=board.info.bundle_version is None and graph.task_ids[instance.task] not in self.dag.graph.index,
            candidate=candidate,
            room=room,
            has_figures=self.figures is not None and "executor" in self.figures,
            executor=next(iter((self.figures or {}).get("executor", ())), None),
            troubles=_troubles((self.figures or {}).get("executor", {})),
            pool_used=used,
            pool_holders=usual.applied(competing_demands.of_pool),
            dag_holders=usual.applied(competing_demands.of_dag),
            ahead=competing_demands.ahead,
            queued_by=None if instance.queued_by is None else self.names.get(instance.queued_by),
            on_engine=await self._on_engine(board.key(instance)) if instance.state in HOLDING_SLOT else None,
            deferred_since=await why_rows.deferred_since(self.conn, board.run.key, instance.task, instance.map_index),
            question=await self._question(board, instance),
            blocked=self._blocked_loop(board.key(instance)) if instance.state in HOLDING_SLOT else None,
            usual=lambda name: usual.of(dag_id, name),
        )

    async def _previous_run(self, board: Board, instance: Instance) -> Board | None:
        """The previous run, if the instance waits for it and it can be read."""
        waits = instance.state in SCHEDULABLE and board.waits_for_past(instance.task) is not None
        if not waits or self.previous is None:
            return None
        try:
            (run,) = await runs.load_runs(self.conn, [self.previous])
            return (await self._instances_of(run))[0]
        except (UnreadableRow, Refused):
            return None

    async def _question(self, board: Board, instance: Instance) -> InputRequest | None:
        if instance.state is not TaskState.DEFERRED or not board.deferrals.asks(instance):
            return None
        return await human_inputs.find(self.conn, TaskPlace(board.run.key, instance.task, instance.map_index))

    async def _on_engine(self, key: AttemptKey) -> OnEngine | None:
        found = await why_rows.on_engine(self.conn, key)
        if found is None:
            return None
        seen = (self.figures or {}).get("executor", {}).get(found.name, {}).get("engine") or {}
        unserved = None
        with contextlib.suppress(msgspec.MsgspecError):  # another version wrote it
            attempt = decode_attempt(found.attempt)
            place = [attempt.queue or "default", attempt.run.team]
            unserved = next((name for *of, name in seen.get("unserved", ()) if of == place), None)
        facts = found._asdict()
        del facts["attempt"]
        return OnEngine(**facts, unserved=unserved)

    def _blocked_loop(self, key: AttemptKey) -> BlockedLoop | None:
        """What blocks the worker process of an attempt, if anything does."""
        found = next((loop for loop in self.blocked if list(key) in loop["attempts"]), None)
        if found is None:
            return None
        since = datetime.fromtimestamp(found["since"], UTC)
        by_itself = found["by"] == list(key)
        return BlockedLoop(since=since, who=found["who"], where=found["where"], by_itself=by_itself)

    async def _count_active(self) -> None:
        """Occupy the DAG's room as a scheduler would count it."""
        counts = await why_rows.active_instances(self.conn, self.dag_id, self.dag.row.partition)
        readable = await readable_versions(self.cache, self.conn, {each.version_id for each in counts})
        for each in (each for each in counts if each.version_id in readable):
            task_id = self.cache.versions[each.version_id][1].task_ids[each.task_index]
            task = self.dag.room.tasks.get(task_id)
            for _ in range(each.number):
                if each.state in HOLDING_SLOT:
                    self.dag.room.occupy(each.run, task)
                elif task is not None and each.state in ACTIVE_FOR_TASK_LIMITS:
                    task.occupy(each.run)


def _troubles(executors: Mapping[str, Any]) -> dict[str, str]:
    """What keeps a scheduler from its engines, by executor, as far as it says so (metrics_snapshot.py)."""
    return {name: str(each["trouble"]) for name, each in executors.items() if each.get("trouble")}


async def _partition_facts(
    conn: DatabaseConnection,
    dag_id: str,
    timetable: PartitionedAssetTimetable,
    aliases: Mapping[str, Collection[str]],
) -> PartitionFacts:
    """What the newest pending keys of the DAG wait for, and which events led to no run."""
    due = await asset_partitions.count_due(conn, dag_id)
    pending = await asset_partitions.pending_of_dag(conn, dag_id, limit=MOST_SHOWN)
    progress = [progress_of(timetable, one.key, one.arrived, aliases) for one in pending]
    refused, reason = await asset_partitions.refused_of_dag(conn, dag_id)
    return PartitionFacts(tuple(one for one in progress if not one.is_due), due, refused, reason)
