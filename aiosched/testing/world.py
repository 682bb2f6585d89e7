"""A whole scheduler in memory, on a virtual clock: what happens, when, in microseconds.

    async with World(now=datetime(2026, 1, 1, tzinfo=UTC)) as world:
        world.add(dag)
        world.script("sales", "load", fails=2, takes=timedelta(minutes=5))
        await world.run_until(datetime(2026, 1, 8, tzinfo=UTC))
        assert world.states("sales", world.runs("sales")[0].run_id) == {"load": "success"}

The decisions are those of the real scheduler: the same holdings, boards, waiting queue, run
creation, evaluation and allocation. In place of PostgreSQL there are rows in memory with the
same guards (rows.py), in place of workers a script (executor.py); the clock goes from one
instant at which something happens to the next. Equal input and seed give equal decisions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiosched.core.board import Board, Instance, Run
from aiosched.core.deferral import trigger_key
from aiosched.core.ids import partition_of
from aiosched.core.messages import AttemptKey
from aiosched.core.states import HOLDING_SLOT, TaskState
from aiosched.errors import AioschedError, NotFound
from aiosched.scheduler.batch import Batch
from aiosched.scheduler.claiming import claim, room_of
from aiosched.scheduler.evaluation import decide
from aiosched.scheduler.metrics import Metrics
from aiosched.scheduler.session import Attempts
from aiosched.scheduler.triggers import triggers_to_run
from aiosched.testing.acting import Authored, Stage
from aiosched.testing.checks import check_commit, check_starts
from aiosched.testing.decisions import DecisionLog, Scripts
from aiosched.testing.desk import MemoryDesk, WorldClock
from aiosched.testing.endings import Ending, dies, fails, firing, skips, succeeds
from aiosched.testing.executor import ScriptedExecutor
from aiosched.testing.people import People
from aiosched.testing.rows import Rows
from aiosched.testing.services import WorldServices
from aiosched.testing.view import index_of

Listener = Callable[[Batch, datetime], None]

_PLENTY: Final = 1_000_000
_MOST_PASSES: Final = 10_000  # at one instant
_WORDS: Final[Mapping[str, Ending]] = {"success": succeeds(), "failed": fails(), "skipped": skips(), "lost": dies()}


class World(People):
    """See the module docstring.

    now           where the clock begins; aware
    seed          decides the order of what ends at one instant
    takes         how long an attempt takes whose script does not say
    parallelism   attempts of this scheduler at one time; slots and async_slots: of its executor
    checked       compare memory with rows and check every limit after each commit (costs time)
    keep          remember decisions and the task instances of finished runs
    listener      is called with each committed batch and the instant
    """

    def __init__(
        self,
        *,
        now: datetime,
        seed: int = 0,
        takes: timedelta = timedelta(seconds=1),
        parallelism: int = _PLENTY,
        slots: int = _PLENTY,
        async_slots: int = _PLENTY,
        checked: bool = True,
        keep: bool = True,
        listener: Listener | None = None,
    ) -> None:
        self.clock = WorldClock(_aware(now))
        self.parallelism = parallelism
        self.rows = Rows(keep_finished=keep)
        self._checked, self._listener = checked, listener
        self._decisions = DecisionLog(keep=keep)
        self._authored = Authored(self._version_id)
        self._scripts = Scripts(self.rows, self._authored)
        self._numbers = itertools.count(1)
        self._shrunk: set[str] = set()
        self._lose_commit: bool | None = None
        self._attempts = Attempts(Metrics())
        self._stage = Stage(self.clock, self._authored, WorldServices(self))
        self._executor = ScriptedExecutor(
            self.clock,
            self._scripts,
            self._stage,
            seed=seed,
            usual=takes,
            slots=slots,
            async_slots=async_slots,
            called=self.rows.callbacks.append,
        )
        self._executor.listen(self._attempts.receive)
        self._attempts.revoke = self._executor.revoke
        self._desk = MemoryDesk(self.clock, self.rows, self._attempts, 1, self._attempts.metrics)

    async def __aenter__(self) -> World:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._executor.die()
        self._stage.close()

    # -- rows -------------------------------------------------------------------------------

    def set_task(
        self, dag_id: str, run_id: str, task_id: str, *, state: str | None, map_index: int = -1, **fields: Any
    ) -> None:
        """Put a task instance into any state, as if it had come there by itself, and read the rows again.

        `fields` are columns of its row: try_number, start_date, end_date, next_at, … Queued
        and running ones have an attempt, deferred ones a trigger, that never ends by itself (see `events`).
        """
        run = self.rows.runs[self._key(dag_id, run_id)]
        version = self.rows.versions[run.version_id]
        graph = self._desk.holdings.graph_of(version)
        task, to = graph.tasks[index_of(graph.index, task_id)], TaskState.of(state)
        place = (graph.index[task_id], map_index)
        if to is not TaskState.NONE:
            fields = {"try_number": max(1, self._row(run.key, *place).try_number)} | fields
        if to in (TaskState.SCHEDULED, TaskState.DEFERRED):
            fields = {"scheduled_at": self.now} | fields
        if to in HOLDING_SLOT:
            fields = {"start_date": self.now, "queued_at": self.now, "queued_by": self._desk.incarnation} | fields
        row = self.rows.put(run.key, place, to, task.pool, task.pool_slots, **fields)
        self._attempts.in_flight = {k: at for k, at in self._attempts.in_flight.items() if k[:3] != (run.key, *place)}
        if to in HOLDING_SLOT:
            key = AttemptKey(run.key, *place, row.try_number)
            self._attempts.in_flight[key] = self.clock.monotonic()
        self._decisions.moved(row, self.rows, self._desk.holdings, self.now)
        self._renew(None)
        found = self._desk.holdings.find(AttemptKey(run.key, *place, row.try_number))
        if found is not None and to in HOLDING_SLOT:
            self._executor.adopt_running(found[0].attempt(found[1]), self.now)
        elif found is not None and to is TaskState.DEFERRED:
            self._hand_out_triggers([found])

    # -- time -------------------------------------------------------------------------------

    async def run_until(self, instant: datetime) -> None:
        """Let everything happen up to `instant`, inclusive; the clock stands there afterwards."""
        instant = _aware(instant)
        self._settle()
        while (due := self._next_instant()) is not None and due <= instant:
            self.clock.at = max(due, self.clock.at)
            self._settle()
        self.clock.at = max(instant, self.clock.at)
        self._store_starts()

    async def run_for(self, span: timedelta) -> None:
        """As `run_until`, `span` from now."""
        await self.run_until(self.now + span)

    async def run_until_idle(self, *, within: timedelta = timedelta(days=366)) -> None:
        """Let time pass until no run is unfinished, or only such that wait for nothing that has an instant.

        Runs that the schedule would create later are not waited for; those that fall due
        meanwhile are. Raises AioschedError when that takes longer than `within`.
        """
        latest = self.now + within
        self._settle()
        while self._desk.holdings.unfinished_runs() and (due := self._next_instant(idle=True)) is not None:
            if due > latest:
                raise AioschedError(f"The world is not idle after {within}: use run_until for DAGs that never rest.")
            self.clock.at = max(due, self.clock.at)
            self._settle()
        self._store_starts()

    async def step(self) -> bool:
        """One pass of whatever has work, or else a move of the clock; False when nothing is left to happen."""
        if self._pass():
            return True
        due = self._next_instant()
        if due is None:
            return False
        self.clock.at = max(due, self.clock.at)
        return True

    def _next_instant(self, *, idle: bool = False) -> datetime | None:
        holdings = self._desk.holdings
        instants = [
            self._executor.earliest, holdings.timers.earliest, self.rows.deadlines.earliest,
            self._attempts.beginnings.look_at,
        ]  # fmt: skip
        waiting = [i for i in instants if i is not None]
        scheduled = holdings.due_runs.earliest
        if scheduled is not None and (waiting or not idle or any(dag.queued for dag in holdings.dags.values())):
            waiting.append(scheduled)
        return min(waiting, default=None)

    def _settle(self) -> None:
        for _ in range(_MOST_PASSES):
            if not self._pass():
                return
        raise AioschedError(
            f"At {self.now} the world does not come to rest: something starts and ends without taking time. "
            "Give it a `takes`."
        )

    def _pass(self) -> bool:
        """The first of the passes that has work; whether one had."""
        desk = self._desk
        holdings, now = desk.holdings, self.clock.at
        if (
            self._attempts.reports
            or holdings.to_evaluate
            or _is_due(holdings.timers.earliest, now)
            or _is_due(self._attempts.beginnings.look_at, now)
        ):
            decide(desk, now)
        elif _is_due(self._executor.earliest, now):
            self._executor.end_due(now)
        elif (
            holdings.to_start
            or holdings.asset_news
            or holdings.to_look_back
            or _is_due(holdings.due_runs.earliest, now)
        ):
            self._create_due()
        elif holdings.dirty or holdings.ended or holdings.room_changed:
            self._store()
        elif _is_due(self.rows.deadlines.earliest, now):
            self._decisions.missed(desk.miss_deadlines(), self.rows, now)
        else:
            return False
        return True

    def _store_starts(self) -> None:
        """A start is stored with the next commit that concerns its run, or now that somebody may look."""
        starts, self._desk.starting_late = self._desk.starting_late, {}
        for board in starts:
            if board.effects.lazy:
                self._desk.holdings.dirty[board] = None
        self._settle()

    # -- single passes ----------------------------------------------------------------------

    async def create_runs(self) -> list[tuple[str, str]]:
        """One pass of run creation; returns the new runs as (DAG id, run id)."""
        return [(run.dag_id, run.run_id) for run in self._create_due()]

    def _create_due(self) -> list[Run]:
        created = self._desk.create_runs()
        if self._checked:
            check_starts(self._desk)
        self._decisions.created(created, self.now)
        return created

    async def evaluate(self, dag_id: str, run_id: str) -> None:
        """Decide about one run alone; nothing is stored before the next `enqueue`."""
        board = self._board(dag_id, run_id)
        self._desk.holdings.to_evaluate.pop(board, None)
        board.evaluate(self.now)
        self._desk.absorb(board)

    async def enqueue(self, limit: int | None = None) -> list[tuple[str, str, str]]:
        """One pass of the critical section and its commit; returns what was queued, in order.

        At most `limit` task instances are queued, each as (DAG id, run id, task id).
        """
        batch = self._store(limit)
        return [(b.run.dag_id, b.run.run_id, b.graph.task_ids[i.task]) for b, i in batch.claimed] if batch else []

    def _store(self, limit: int | None = None) -> Batch | None:
        desk, holdings = self._desk, self._desk.holdings
        holdings.room_changed = False
        left = self.parallelism - len(self._attempts.in_flight)
        pools = self.rows.pools
        keeping = {name for name, pool in pools.items() if pool is not None and pool.include_deferred}
        room = room_of(
            {name: pools.get(name) for name in holdings.waiting.pools()},
            holdings.slots_given_back(keeping),
            self._executor,
            open=left if limit is None else min(left, limit),
            parallelism=self.parallelism,
        )
        batch = claim(holdings, room, self.now, incarnation=desk.incarnation, include_deferred=keeping)
        if self._lose_commit is not None:
            self._break_off(batch)
            return None
        if not batch.is_empty:
            self._commit(batch)
        self._act(batch)
        if self._checked:
            check_commit(desk, batch, self._shrunk, parallelism=self.parallelism)
        return batch

    async def events(self, dag_id: str, run_id: str, endings: Mapping[str, str | Ending]) -> None:
        """Attempts of a run end now: by task id `"success"`, `"failed"`, `"skipped"`, `"lost"`, or an `Ending`.

        Of a deferred task it is the trigger that ends: `"success"` and `succeeds(event)` let it fire. The reports are
        applied and the run decides; nothing is stored before the next `enqueue`.
        """
        board = self._board(dag_id, run_id)
        for task_id, ending in endings.items():
            instance = board.find(index_of(board.graph.index, task_id))
            key = None if instance is None else board.key(instance)
            how = _WORDS[ending] if isinstance(ending, str) else ending
            if instance is not None and key is not None and instance.state is TaskState.DEFERRED:
                key, how = trigger_key(key), firing(how)
            if key is None or not self._executor.end(key, how):
                raise NotFound(f"No attempt of {task_id!r} runs in {dag_id} {run_id}.")
        waiting, self._desk.holdings.to_evaluate = self._desk.holdings.to_evaluate, {}
        timers = self._desk.holdings.timers.earliest
        if timers is None or timers > self.now:
            decide(self._desk, self.now)
        self._desk.holdings.to_evaluate = waiting | self._desk.holdings.to_evaluate

    # -- accidents --------------------------------------------------------------------------

    async def restart(self) -> None:
        """The scheduler forgets all memory and reads the rows again; what runs goes on, its reports are kept."""
        self._renew(None)

    async def crash(self) -> None:
        """The scheduler's process dies with all that it runs; another one takes over at once."""
        self._executor.die()
        self._attempts.in_flight.clear()
        self._attempts.triggers.clear()
        self._attempts.reports.clear()
        self._desk.holdings.applied.clear()
        self._renew(None, incarnation=self._desk.incarnation + 1)

    def lose_next_commit(self, *, stored: bool) -> None:
        """The connection breaks in the next commit, before or after the rows were `stored`; nobody is told which."""
        self._lose_commit = stored

    def _break_off(self, batch: Batch) -> None:
        stored, self._lose_commit = self._lose_commit, None
        if stored and not batch.is_empty:
            self._commit(batch)
        self._renew(batch)

    def _renew(self, lost: Batch | None, *, incarnation: int | None = None) -> None:
        old = self._desk
        old.put_back(lost)
        self._desk = MemoryDesk(
            self.clock, self.rows, self._attempts, incarnation or old.incarnation, self._attempts.metrics
        )
        self._desk.load()
        unsent, self._desk.unsent = self._desk.unsent, []
        self._hand_out(unsent)

    # -- committing -------------------------------------------------------------------------

    def _commit(self, batch: Batch) -> None:
        self.rows.commit(batch)
        self._decisions.committed(batch, self.rows, self._desk.holdings, self.clock.at)
        if self._shrunk:
            self._shrunk = {n for n in self._shrunk if (p := self.rows.pools.get(n)) is not None and p.used > p.slots}
        if self._listener is not None:
            self._listener(batch, self.now)

    def _act(self, batch: Batch) -> None:
        """After the commit: hand out what was claimed, stop what is not wanted any more."""
        triggers = self._attempts.triggers
        for key in batch.cancelled:
            if key in self._attempts.in_flight or key in triggers:
                triggers.discard(key)
                self._executor.end(key, dies("it was stopped on request"))
        if batch.claimed:
            self._hand_out(batch.claimed)
        if batch.triggers:
            self._hand_out_triggers(batch.triggers)
        if batch.asset_events:
            self._desk.holdings.asset_news.update(partition_of(event.name) for event in batch.asset_events)
        if batch.finished:
            self._attempts.beginnings.forget({board.run.key for board in batch.finished})
        for board in batch.finished:
            self._desk.holdings.let_go(board)
        for dag_id in batch.paused:
            self._desk.holdings.pause(dag_id)

    def _hand_out(self, claimed: Iterable[tuple[Board, Any]]) -> None:
        attempts = [board.attempt(i) for board, i in claimed if i.state is TaskState.QUEUED]
        now = self.clock.monotonic()
        for attempt in attempts:
            self._attempts.in_flight[attempt.key] = now
        self._executor.submit(attempts)
        if self._executor.lying:
            self._attempts.beginnings.handed_out(self.clock.at)

    def _hand_out_triggers(self, waiting: Iterable[tuple[Board, Instance]]) -> None:
        triggers = triggers_to_run(waiting, self._attempts)
        self._attempts.triggers.update(trigger.key for trigger in triggers)
        self._executor.submit(triggers)

    # -- helpers ---------------------------------------------------------------------------

    def _version_id(self, run: int) -> int:
        return self.rows.runs[run].version_id


def _is_due(at: datetime | None, now: datetime) -> bool:
    return at is not None and at <= now


def _aware(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise ValueError(f"{instant.isoformat()} has no time zone; write datetime(…, tzinfo=UTC).")
    return instant.astimezone(UTC)
