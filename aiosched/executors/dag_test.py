"""`dag.test()`: one run of a DAG in this process, without a database.

The same pure evaluation decides as in the scheduler, the inline executor runs what is
ready: `async def` tasks at the same time, plain functions one after the other. Pools and
limits do not apply. Nobody waits: a retry is due at once, a task that asks to be called
again is called after a short pause. Source: the semantics reference, section 33.3.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from aiosched.authoring.context import build_context
from aiosched.authoring.operators.python import PythonOperator
from aiosched.authoring.task_instance import TaskInstance
from aiosched.clock import Clock, SystemClock
from aiosched.core.board import Board, Effects, Instance, Run, new_instances
from aiosched.core.graph import Graph
from aiosched.core.messages import Attempt, Outcome, Report, RunInfo
from aiosched.core.params import resolve_params
from aiosched.core.run_creation import manual_run, tasks_of_run
from aiosched.core.states import RunState, TaskState
from aiosched.errors import AioschedError, NotFound
from aiosched.executors.blocking import blocking_on
from aiosched.executors.dag_test_services import Memory
from aiosched.executors.failures import details_of, reason_of
from aiosched.executors.inline import InlineExecutor
from aiosched.executors.results import collect_xcoms

if TYPE_CHECKING:
    from aiosched.authoring.dag import DAG

log = logging.getLogger(__name__)

_RUN: Final = 1  # the run's key
_MAX_XCOM_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class TestTask:
    """What became of a task instance. `reason` says in one line why it did not succeed; `details` is a traceback."""

    __test__: ClassVar[bool] = False  # not one of pytest's

    task_id: str
    map_index: int  # -1 for a task that is not mapped
    state: TaskState
    try_number: int
    reason: str | None = None
    details: str | None = None


@dataclass(frozen=True, slots=True)
class TestRun:
    """What became of a run. `tasks` in the DAG's order; `xcoms` by task id and key (of a mapped task a list)."""

    __test__: ClassVar[bool] = False

    run_id: str
    state: RunState
    tasks: Sequence[TestTask]
    xcoms: Mapping[str, Mapping[str, Any]]

    def task(self, task_id: str, map_index: int = -1) -> TestTask:
        """The instance of a task; raises NotFound."""
        for one in self.tasks:
            if one.task_id == task_id and one.map_index == map_index:
                return one
        raise NotFound(f"The run has no task instance {task_id!r} with map index {map_index}.")


async def run_dag_test(
    dag: DAG,
    *,
    logical_date: datetime | None = None,
    conf: Mapping[str, Any] | None = None,
    mocks: Mapping[str, Any] | None = None,
    only_task: str | None = None,
    clock: Clock | None = None,
    pause: float = 0.1,
) -> TestRun:
    """Run `dag` once and say what became of every task; failing tasks do not raise.

    `logical_date` (aware) is now if not given. `conf` gives values of params, too. A task
    in `mocks` does not run: it succeeds and returns that value (a branch follows it).
    `only_task` runs one task as if nothing were upstream of it. `pause` is the wait in
    seconds before a rescheduled task is called again. Raises DagError for a DAG that cannot
    run, ParamError for params that break their schema, NotFound for an unknown task id.
    """
    spec = dag.to_spec()
    graph = Graph(spec)
    mocked = dict(mocks or {})
    for task_id in [*mocked, *([only_task] if only_task is not None else [])]:
        if task_id not in graph.index:
            raise NotFound(f"DAG {dag.dag_id!r} has no task {task_id!r}; it has {', '.join(graph.task_ids)}.")
    resolve_params(spec.params, conf)
    clock = clock or SystemClock()
    now = clock.now()
    planned = manual_run(spec, now=now, logical_date=logical_date or now)
    interval = planned.interval
    info = RunInfo(
        key=_RUN,
        dag_id=dag.dag_id,
        run_id=planned.run_id,
        run_type=planned.run_type,
        run_after=planned.run_after,
        logical_date=planned.logical_date,
        interval_start=interval.start if interval else None,
        interval_end=interval.end if interval else None,
        start_date=now,
        conf=dict(conf or {}),
    )
    run = Run(
        key=_RUN,
        dag_id=dag.dag_id,
        run_id=planned.run_id,
        version_id=1,
        run_type=planned.run_type,
        state=RunState.QUEUED,
        run_after=planned.run_after,
        logical_date=planned.logical_date,
        conf=info.conf,
    )
    chosen = tasks_of_run(spec, planned) if only_task is None else (graph.index[only_task],)
    board = Board(graph, run, new_instances(graph, chosen), info=info)
    return await _Player(dag, board, mocked, clock, pause).play()


class _Player:
    """Moves a board until its run is done."""

    def __init__(self, dag: DAG, board: Board, mocks: Mapping[str, Any], clock: Clock, pause: float) -> None:
        self._dag, self._board, self._mocks, self._clock, self._pause = dag, board, mocks, clock, pause
        self._ahead = timedelta()  # how much waiting was skipped
        self._memory = Memory(self._states, dag_id=dag.dag_id, run_id=board.run.run_id)
        self._executor = InlineExecutor({dag.dag_id: dag}, slots=1, kill_after=1.0)
        self._reports: asyncio.Queue[Report] = asyncio.Queue()
        self._running = 0
        self._timers: list[tuple[datetime, Instance]] = []
        self._details: dict[Instance, str | None] = {}

    def _states(self) -> list[tuple[str, int, str | None]]:
        return [(self._task_id(one), one.map_index, one.state.stored) for one in self._board]

    def _now(self) -> datetime:
        return self._clock.now() + self._ahead

    async def play(self) -> TestRun:
        await self._executor.start(self._reports.put_nowait, self._memory)
        board = self._board
        try:
            board.start(self._now())
            while True:
                board.evaluate(self._now())
                mocked = await self._act(board.effects)
                if board.finished:
                    break
                if mocked:
                    for report in mocked:
                        board.apply(report, self._now())
                elif self._running:
                    self._apply(await self._reports.get())
                    while not self._reports.empty():
                        self._apply(self._reports.get_nowait())
                elif self._timers:
                    await self._skip_ahead()
                else:
                    raise AioschedError(f"The run of {self._dag.dag_id!r} stands still: this is a bug in aiosched.")
        finally:
            await self._executor.stop(0)
        return self._result()

    async def _act(self, effects: Effects) -> list[Report]:
        """Do what the board's decisions ask for; returns the reports of mocked tasks."""
        board = self._board
        board.effects = Effects()
        for instance in effects.forget_xcoms:
            self._memory.forget(self._task_id(instance), instance.map_index)
        for instance, xcom in effects.xcoms:
            self._memory.values.setdefault((self._task_id(instance), xcom.key), {})[instance.map_index] = xcom.value
        for key in effects.cancelled:
            await self._executor.cancel(key, 1.0)
        self._timers += effects.timers
        mocked: list[Report] = []
        attempts: list[Attempt] = []
        for instance in effects.ready:
            if instance.state is not TaskState.SCHEDULED:
                continue
            board.grant(instance, self._now(), 0)
            attempt = board.attempt(instance)
            if attempt.task_id in self._mocks:
                mocked.append(self._mock(attempt, self._mocks[attempt.task_id]))
            else:
                attempts.append(attempt)
        self._running += len(attempts)
        self._executor.submit(attempts)
        return mocked

    def _apply(self, report: Report) -> None:
        if report.outcome is not Outcome.STARTED:
            self._running -= 1
        instance = self._board.find(report.key.task_index, report.key.map_index)
        if self._board.apply(report, self._now()) and instance is not None:
            self._details[instance] = report.details
            if report.outcome is Outcome.FAILED:
                log.error("%s failed: %s\n%s", self._task_id(instance), report.reason, report.details or "")

    async def _skip_ahead(self) -> None:
        due = min(at for at, _ in self._timers)
        now = self._now()
        awake = [instance for at, instance in self._timers if at <= max(due, now)]
        self._timers = [(at, instance) for at, instance in self._timers if at > max(due, now)]
        if any(instance.state is TaskState.UP_FOR_RESCHEDULE for instance in awake):
            await asyncio.sleep(min(self._pause, max(0.0, (due - now).total_seconds())))
        self._ahead = max(self._ahead, due - self._clock.now())
        for instance in awake:
            self._board.wake(instance)

    def _mock(self, attempt: Attempt, value: Any) -> Report:
        task = self._dag.task_dict[attempt.task_id]
        ti = TaskInstance(attempt, task, self._memory, blocking_on(asyncio.get_running_loop()))
        at = datetime.now(UTC)
        try:
            if isinstance(task, PythonOperator):
                value = task.conclude(value, build_context(task, ti, attempt, self._dag))
            xcoms = collect_xcoms(
                value, (), push_result=task.do_xcom_push, multiple_outputs=task.multiple_outputs, limit=_MAX_XCOM_BYTES
            )
        except Exception as error:  # a mocked value that the task could not have returned
            reason = f"mocked: {reason_of(error)}"
            return Report(
                key=attempt.key, outcome=Outcome.FAILED, at=at, reason=reason, details=details_of(error), fail_now=True
            )
        return Report(
            key=attempt.key, outcome=Outcome.SUCCESS, at=at, started_at=at, xcoms=xcoms, skip=ti.skip_decision
        )

    def _task_id(self, instance: Instance) -> str:
        return self._board.graph.task_ids[instance.task]

    def _result(self) -> TestRun:
        tasks = [
            TestTask(
                self._task_id(instance), instance.map_index, instance.state, instance.try_number, instance.reason,
                self._details.get(instance),
            )
            for instance in self._board
        ]  # fmt: skip
        xcoms: dict[str, dict[str, Any]] = {}
        for (task_id, key), values in self._memory.values.items():
            decoded = [json.loads(values[index]) for index in sorted(values)]
            if values:
                xcoms.setdefault(task_id, {})[key] = decoded[0] if set(values) == {-1} else decoded
        return TestRun(self._board.run.run_id, self._board.run.state, tasks, xcoms)
