"""A whole scheduler in memory, on a virtual clock: tests what happens when, in microseconds.

    async with World(now=datetime(2026, 1, 1, tzinfo=UTC)) as world:
        world.add(dag)
        world.script("sales", "load", fails=2, takes=timedelta(minutes=5))
        await world.run_until(datetime(2026, 1, 8, tzinfo=UTC))
        assert world.states("sales", world.runs("sales")[0].run_id) == {"load": "success"}

The decisions are those of the real scheduler: the same state cache, boards, waiting queue, run
creation, evaluation and allocation. PostgreSQL is replaced by rows in memory with the same
guards (rows.py), workers by scripts (executor.py); the clock jumps from one instant at which
something happens to the next. Equal input and seed give equal decisions.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiosched.core.run.deferral import trigger_key
from aiosched.core.values.messages import AttemptKey
from aiosched.core.values.states import HOLDING_SLOT, TaskState
from aiosched.errors import AioschedError, NotFound
from aiosched.scheduler.loops.evaluation import decide
from aiosched.testing.attempts.acting import Authored, Stage
from aiosched.testing.attempts.endings import Ending, dies, fails, firing, skips, succeeds
from aiosched.testing.attempts.executor import ScriptedExecutor
from aiosched.testing.decisions import DecisionLog, Scripts
from aiosched.testing.durable_schedules import Schedules
from aiosched.testing.member import Fleet, Listener, Member, is_due
from aiosched.testing.rows.rows import Rows
from aiosched.testing.services import WorldServices
from aiosched.testing.view import index_of
from aiosched.testing.world_memory import WorldClock

_PLENTY: Final = 1_000_000
_MOST_PASSES: Final = 10_000  # at one instant
_WORDS: Final[Mapping[str, Ending]] = {"success": succeeds(), "failed": fails(), "skipped": skips(), "lost": dies()}


class World(Schedules):
    """See the module docstring.

    now           where the clock starts; aware
    seed          decides the order of attempts that end at the same instant
    takes         how long an attempt takes unless its script sets that
    schedulers    how many there are: they share the rows and the pools, each owns its share of the DAGs
    parallelism   most attempts of a scheduler at one time; slots and async_slots: of its executor
    checked       compare memory with rows and check every limit after each commit (costs time)
    keep          keep decisions and the task instances of finished runs
    listener      is called with each committed batch and the instant
    variables     what operators that act look up; what is no text is read as JSON
    connections   the same by connection id: a URI, or a dict of fields
    """

    def __init__(
        self,
        *,
        now: datetime,
        seed: int = 0,
        takes: timedelta = timedelta(seconds=1),
        schedulers: int = 1,
        parallelism: int = _PLENTY,
        slots: int = _PLENTY,
        async_slots: int = _PLENTY,
        checked: bool = True,
        keep: bool = True,
        listener: Listener | None = None,
        variables: Mapping[str, Any] | None = None,
        connections: Mapping[str, str | Mapping[str, Any]] | None = None,
    ) -> None:
        if schedulers < 1:
            raise ValueError(f"schedulers={schedulers}: a world has at least one.")
        self.clock = WorldClock(_aware(now))
        self.rows = Rows(keep_finished=keep)
        self._decisions = DecisionLog(keep=keep)
        self._authored = Authored(lambda run: self.rows.runs[run].version_id)
        self._scripts = Scripts(self.rows, self._authored)
        self._numbers = itertools.count(1)
        self._schedules, self._refusals = {}, {}
        self._stages: list[Stage] = []
        self._fleet = Fleet(self.clock, self.rows, self._decisions, parallelism, checked, listener)
        self._services = WorldServices(self, variables, connections)
        for position in range(schedulers):
            self._stages.append(stage := Stage(self.clock, self._authored, self._services))
            executor = ScriptedExecutor(
                self.clock, self._scripts, stage, seed=seed + position, usual=takes, slots=slots,
                async_slots=async_slots, called=self.rows.callbacks.append,
            )  # fmt: skip
            self._fleet.members.append(Member(self._fleet, executor))
        self._fleet.share_out()

    async def __aenter__(self) -> World:
        return self

    async def __aexit__(self, *_: object) -> None:
        for member in self._fleet.members:
            member.executor.die()
        for stage in self._stages:
            stage.close()

    # -- rows -------------------------------------------------------------------------------

    def set_task(
        self, dag_id: str, run_id: str, task_id: str, *, state: str | None, map_index: int = -1, **fields: Any
    ) -> None:
        """Put a task instance into any state, as if the scheduler had done so, and read the rows again.

        `fields` are columns of its row: try_number, start_date, end_date, next_at, … Queued and
        running ones get an attempt, deferred ones a trigger, that never ends by itself (see `events`).
        """
        run, owner = self.rows.runs[self._key(dag_id, run_id)], self._fleet.owner_of(dag_id)
        graph = owner.context.cache.graph_of(self.rows.versions[run.version_id])
        task, to = graph.tasks[index_of(graph.index, task_id)], TaskState.of(state)
        place = (graph.index[task_id], map_index)
        if to is not TaskState.NONE:
            fields = {"try_number": max(1, self._row(run.key, *place).try_number)} | fields
        if to in (TaskState.SCHEDULED, TaskState.DEFERRED):
            fields = {"scheduled_at": self.now} | fields
        if to in HOLDING_SLOT:
            fields = {"start_date": self.now, "queued_at": self.now, "queued_by": owner.context.incarnation} | fields
        row = self.rows.put(run.key, place, to, task.pool, task.pool_slots, **fields)
        key = AttemptKey(run.key, *place, row.try_number)
        owner.put_in_flight(key[:3], key if to in HOLDING_SLOT else None)
        self._decisions.moved(row, self.rows, owner.context.cache, self.now)
        owner.renew(None)
        found = owner.context.cache.find(key)
        if found is not None and to in HOLDING_SLOT:
            owner.executor.adopt_running(found[0].attempt(found[1]), self.now)
        elif found is not None and to is TaskState.DEFERRED:
            owner.hand_out_triggers([found])

    # -- time -------------------------------------------------------------------------------

    async def run_until(self, instant: datetime) -> None:
        """Let everything happen up to `instant`, inclusive, to which the clock is then set."""
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
        """Let time pass until no run is unfinished, or unfinished ones wait for nothing with a known instant.

        It does not wait for runs that the schedule would create later, but for those that fall due
        meanwhile. Raises AioschedError if that takes longer than `within`.
        """
        latest = self.now + within
        self._settle()
        while self._has_unfinished_runs() and (due := self._next_instant(idle=True)) is not None:
            if due > latest:
                raise AioschedError(f"The world is not idle after {within}: use run_until for DAGs that never rest.")
            self.clock.at = max(due, self.clock.at)
            self._settle()
        self._store_starts()

    async def step(self) -> bool:
        """Make one pass that has work, or else move the clock; False if nothing is left to happen."""
        if self._pass():
            return True
        due = self._next_instant()
        if due is None:
            return False
        self.clock.at = max(due, self.clock.at)
        return True

    def _has_unfinished_runs(self) -> bool:
        if any(member.context.cache.unfinished_runs() for member in self._fleet.members):
            return True
        left_alone = self.rows.quarantine
        return any(left_alone.find(run.dag_id) is not None for run in self.rows.unfinished_runs())

    def _next_instant(self, *, idle: bool = False) -> datetime | None:
        waiting = [instant for member in self._fleet.members for instant in member.instants()]
        if (deadline := self.rows.deadlines.earliest) is not None:
            waiting.append(deadline)
        all_held = [member.context.cache for member in self._fleet.members]
        if waiting or not idle or any(dag.runs.queued for held in all_held for dag in held.dags.values()):
            waiting += [due for held in all_held if (due := held.work.due_runs.earliest) is not None]
            if (scheduled := self._next_scheduled()) is not None:
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
        """Make the first pass that has work; returns whether there was one."""
        now = self.clock.at
        if self._fire(now) or any(member.work(now) for member in self._fleet.members):
            return True
        if is_due(self.rows.deadlines.earliest, now):
            self._decisions.missed(self._fleet.members[0].context.miss_deadlines(), self.rows, now)
            return True
        return False

    def _store_starts(self) -> None:
        for member in self._fleet.members:
            member.store_starts()
        self._settle()

    # -- single passes ----------------------------------------------------------------------

    async def create_runs(self) -> list[tuple[str, str]]:
        """One pass of run creation; returns the new runs as (DAG id, run id)."""
        return [(run.dag_id, run.run_id) for member in self._fleet.members for run in member.create_runs()]

    async def evaluate(self, dag_id: str, run_id: str) -> None:
        """Evaluate one run only; nothing is stored before the next `enqueue`."""
        board, context = self._board(dag_id, run_id), self._context_of(dag_id)
        context.cache.work.to_evaluate.pop(board, None)
        board.evaluate(self.now)
        context.apply_effects(board)

    async def enqueue(self, limit: int | None = None) -> list[tuple[str, str, str]]:
        """One pass of the critical section and its commit; returns what was queued, in order.

        At most `limit` task instances are queued by each scheduler; each is a (DAG id, run id, task id).
        """
        batches = [batch for member in self._fleet.members if (batch := member.store(limit)) is not None]
        claimed = [claim for batch in batches for claim in batch.effects.claimed]
        return [(board.run.dag_id, board.run.run_id, board.graph.task_ids[i.task]) for board, i in claimed]

    async def events(self, dag_id: str, run_id: str, endings: Mapping[str, str | Ending]) -> None:
        """End attempts of a run now: by task id `"success"`, `"failed"`, `"skipped"`, `"lost"`, or an `Ending`.

        For a deferred task its trigger ends: `"success"` and `succeeds(event)` let it fire. The reports are
        applied and the run is evaluated; nothing is stored before the next `enqueue`.
        """
        board, owner = self._board(dag_id, run_id), self._fleet.owner_of(dag_id)
        for task_id, ending in endings.items():
            instance = board.find(index_of(board.graph.index, task_id))
            key = None if instance is None else board.key(instance)
            how = _WORDS[ending] if isinstance(ending, str) else ending
            if instance is not None and key is not None and instance.state is TaskState.DEFERRED:
                key, how = trigger_key(key), firing(how)
            if key is None or not owner.executor.end(key, how):
                raise NotFound(f"No attempt of {task_id!r} runs in {dag_id} {run_id}.")
        cache = owner.context.cache
        waiting, cache.work.to_evaluate = cache.work.to_evaluate, {}
        timers = cache.timers.earliest
        if timers is None or timers > self.now:
            decide(owner.context, self.now)
        cache.work.to_evaluate = waiting | cache.work.to_evaluate

    # -- accidents --------------------------------------------------------------------------

    async def restart(self) -> None:
        """All schedulers drop their memory and read the rows again; attempts go on, their reports are kept."""
        for member in self._fleet.members:
            member.renew(None)

    async def crash(self, *, scheduler: int | None = None) -> None:
        """A scheduler's process dies together with its attempts; a new one takes over at once.

        `scheduler` is its number (see `scheduler_of`), by default the first one. If there are others, they take
        over its DAGs instead.
        """
        members = self._fleet.members
        found = [member for member in members if scheduler in (None, member.context.incarnation)]
        if not found:
            raise NotFound(
                f"There is no scheduler {scheduler}; there is {[one.context.incarnation for one in members]}."
            )
        self._fleet.lose(found[0])

    def lose_next_commit(self, *, stored: bool) -> None:
        """Break the connection in the next commit, before or after the rows are `stored`; the outcome is unknown."""
        self._fleet.lose_commit = stored


def _aware(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise ValueError(f"{instant.isoformat()} has no time zone; write datetime(…, tzinfo=UTC).")
    return instant.astimezone(UTC)
