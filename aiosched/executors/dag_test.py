"""`dag.test()`: one run of a DAG in this process, without a database.

The scheduler's pure evaluation makes the decisions, and the inline executor runs ready tasks: `async def` tasks
concurrently, plain functions one after the other. Pools and limits do not apply. Nothing waits: a retry is due at once,
and a rescheduled task is called again after a short pause. Only triggers of deferred tasks, and their timeouts, take
their real time. Source: the semantics reference, section 33.3.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from aiosched.authoring.base.settings import defaults
from aiosched.authoring.mapping.mapped import MappedOperator
from aiosched.authoring.operators.python import PythonOperator
from aiosched.authoring.runtime.lookups import answer_here
from aiosched.authoring.runtime.task_instance import TaskInstance
from aiosched.authoring.runtime.xcom_values import read_xcom
from aiosched.authoring.tasks.nesting import is_mapped_over, map_length
from aiosched.authoring.tasks.task_context import build_context
from aiosched.clock import Clock, SystemClock
from aiosched.core.creation.run_creation import manual_run, tasks_of_manual_run
from aiosched.core.graph.graph import Graph
from aiosched.core.graph.instances import CallbackRequest
from aiosched.core.graph.new_instances import new_instances
from aiosched.core.graph.params import resolve_params
from aiosched.core.graph.previous_run import EarlierRuns
from aiosched.core.run.board import Board, Effects, Instance, Run
from aiosched.core.run.deferral import is_trigger, trigger_key
from aiosched.core.values.asset_checks import read_report
from aiosched.core.values.messages import (
    Attempt,
    AttemptKey,
    CallbackCall,
    Outcome,
    Report,
    RunInfo,
    XComPairs,
    XComRef,
)
from aiosched.core.values.states import FAILURES, RunState, TaskState
from aiosched.errors import AioschedError, NotFound
from aiosched.executors.attempt.blocking import blocking_on
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.attempt.failures import details_of, reason_of
from aiosched.executors.attempt.results import collect_xcoms
from aiosched.executors.inline.executor import InlineExecutor

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG

log: logging.Logger = logging.getLogger(__name__)

_RUN: Final = 1  # the run's key

MemoryService = Callable[["Memory", Mapping[str, Any]], Awaitable[Any]]
_Place = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class TestTask:
    """The outcome of a task instance. `reason` says in one line why it did not succeed; `details` is a traceback."""

    __test__: ClassVar[bool] = False  # not a pytest class

    task_id: str
    map_index: int  # -1 for an unmapped task
    state: TaskState
    try_number: int
    reason: str | None = None
    details: str | None = None


@dataclass(frozen=True, slots=True)
class TestRun:
    """The outcome of a run. `tasks` in the DAG's order; `xcoms` by task id and key (a list for a mapped task)."""

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
    partition_key: str | None = None,
    conf: Mapping[str, Any] | None = None,
    mocks: Mapping[str, Any] | None = None,
    only_task: str | None = None,
    clock: Clock | None = None,
    pause: float = 0.1,
) -> TestRun:
    """Run `dag` once and return the outcome of every task; failing tasks do not raise.

    `logical_date` (aware) defaults to now, and is in the run's id; the run can be about a partition. `conf` also sets
    values of params. A task in `mocks` does not run: it succeeds and returns that value (a branch follows it).
    `only_task` runs one task as if it had no upstream tasks.
    `pause` is the wait in seconds before a rescheduled task is called again. Raises DagError for a DAG that cannot run,
    ParamError for params that break their schema, NotFound for an unknown task id, Refused for a wrong partition key.
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
    planned = manual_run(
        spec, now=now, logical_date=logical_date or now, run_after=logical_date, partition_key=partition_key
    )
    interval, partition = planned.interval, planned.partition
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
        partition_key=partition.key if partition else None,
        partition_date=partition.date if partition else None,
        is_test=True,
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
    chosen = tasks_of_manual_run(spec, planned) if only_task is None else (graph.index[only_task],)
    board = Board(graph, run, new_instances(graph, chosen), info=info)
    board.set_past(EarlierRuns())  # no earlier runs
    played = await _Player(dag, board, mocked, clock, pause).play()
    if only_task is not None and any(task.state in FAILURES for task in played.tasks):  # the task may not be a leaf
        return replace(played, state=RunState.FAILED)
    return played


class _Player:
    """Advances a board until its run has ended."""

    def __init__(self, dag: DAG, board: Board, mocks: Mapping[str, Any], clock: Clock, pause: float) -> None:
        self._dag, self._board, self._mocks, self._clock, self._pause = dag, board, mocks, clock, pause
        self._ahead = timedelta()  # the total of skipped waiting time
        self._memory = Memory(self._states, dag_id=dag.dag_id, run_id=board.run.run_id)
        environment = AttemptEnvironment(max_xcom_bytes=defaults().max_tested_xcom_bytes)
        self._executor = InlineExecutor({dag.dag_id: dag}, environment, slots=1, kill_after=1.0)
        self._reports: asyncio.Queue[Report] = asyncio.Queue()
        self._running = 0
        self._waiting = 0  # triggers
        self._callbacks = self._last_callback = 0
        self._timers: list[tuple[datetime, Instance]] = []
        self._deadlines: list[tuple[datetime, datetime, Instance]] = []  # of deferrals: by the clock and by `_now`
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
                elif self._running or not self._reports.empty():
                    await self._take_reports()
                elif self._timers:
                    await self._skip_ahead()
                elif self._waiting:
                    await self._take_reports()
                else:
                    raise AioschedError(f"The run of {self._dag.dag_id!r} is stuck: this is a bug in aiosched.")
            while self._callbacks:
                self._apply(await self._reports.get())
        finally:
            await self._executor.stop(0)
        return self._result()

    async def _act(self, effects: Effects) -> list[Report]:
        """Carry out the board's decisions; returns the reports of mocked tasks."""
        board = self._board
        for instance in [
            i for i in effects.slots.ready if board.begins_deferred(i) and self._task_id(i) not in self._mocks
        ]:
            board.defer(instance, self._now())
        board.effects = Effects()
        for instance in effects.rows.forget_xcoms:
            self._memory.forget(self._task_id(instance), instance.map_index)
        for instance, xcom in effects.rows.xcoms:
            self._memory.values.setdefault((self._task_id(instance), xcom.key), {})[instance.map_index] = xcom.value
        for key in effects.cancelled:
            await self._executor.cancel(key, 1.0)
        self._timers += effects.slots.timers
        mocked: list[Report] = []
        attempts: list[Attempt] = []
        for instance in effects.slots.ready:
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
        self._submit_triggers(effects.triggers)
        self._submit_callbacks(effects.rows.callbacks)
        return mocked

    def _submit_triggers(self, instances: Sequence[Instance]) -> None:
        for instance in instances:
            waited = self._board.deferrals.get(instance)
            if instance.state is TaskState.DEFERRED and waited is not None:
                attempt = self._board.attempt(instance)
                key = trigger_key(attempt.key)
                self._executor.submit([msgspec.structs.replace(attempt, key=key, trigger=waited.deferral, resume=None)])
                self._waiting += 1
                if (at := self._board.deferrals.timer_of(instance)) is not None:
                    self._deadlines.append((self._clock.now() + (at - self._now()), at, instance))

    def _submit_callbacks(self, requests: Sequence[CallbackRequest]) -> None:
        board = self._board
        for request in requests:
            self._callbacks += 1
            self._last_callback += 1
            call = CallbackCall(
                id=self._last_callback,
                kind=request.kind,
                reason=request.reason,
                task_id=None if request.task is None else board.graph.task_ids[request.task],
                map_index=request.map_index,
                try_number=request.try_number,
            )
            key = AttemptKey(_RUN, -1, -1, call.id)
            attempt = Attempt(key=key, run=board.info, task_id="", is_async=False, max_tries=0, callback=call)
            self._executor.submit([attempt])

    async def _take_reports(self) -> None:
        """Wait for a report or until a deferred task times out; returns all available reports."""
        until = min((until for until, _, _ in self._deadlines), default=None)
        seconds = None if until is None else max(0.0, (until - self._clock.now()).total_seconds())
        try:
            async with asyncio.timeout(seconds):
                self._apply(await self._reports.get())
        except TimeoutError:
            late, self._deadlines = self._deadlines, []
            for deadline in late:
                real, at, instance = deadline
                if until is not None and real <= until:
                    self._board.time_out_trigger(instance, max(at, self._now()))
                else:
                    self._deadlines.append(deadline)
        while not self._reports.empty():
            self._apply(self._reports.get_nowait())

    def _apply(self, report: Report) -> None:
        if report.key.task_index < 0:
            self._callbacks -= 1
            if report.outcome is not Outcome.SUCCESS:
                log.error("a callback failed: %s\n%s", report.reason, report.details or "")
            return
        if is_trigger(report.key):
            self._waiting -= 1
            self._board.apply(report, self._now())
            return
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
            if isinstance(task, MappedOperator) and issubclass(task.operator_class, PythonOperator):
                task = task.unmapped({})
            if isinstance(task, PythonOperator):
                value = task.conclude(value, build_context(task, ti, attempt, self._dag))
            xcoms = collect_xcoms(
                value,
                (),
                push_result=task.do_xcom_push,
                multiple_outputs=task.multiple_outputs,
                limit=defaults().max_tested_xcom_bytes,
            )
            index, limit = attempt.key.map_index, defaults().max_map_length
            length = map_length(value, task, index, limit) if is_mapped_over(task) else None
        except Exception as error:  # a mocked value that the task could not return
            reason = f"mocked: {reason_of(error)}"
            return Report(
                key=attempt.key, outcome=Outcome.FAILED, at=at, reason=reason, details=details_of(error), fail_now=True
            )
        return Report(
            key=attempt.key, outcome=Outcome.SUCCESS, at=at, started_at=at, xcoms=xcoms, skip=ti.skip_decision,
            map_length=length,
        )  # fmt: skip

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
            decoded = [read_xcom(values[index]) for index in sorted(values)]
            if values:
                xcoms.setdefault(task_id, {})[key] = decoded[0] if set(values) == {-1} else decoded
        return TestRun(self._board.run.run_id, self._board.run.state, tasks, xcoms)


class Memory:
    """The run's XComs, and the services by name, instead of a scheduler. Implements TaskServices.

    There are no other DAGs. So that a DAG that waits for others can be tested alone, those count as successful: a DAG
    that it triggers succeeds at once, and so does every run and task of another DAG that it queries. Each such case is
    logged.
    """

    def __init__(
        self, states: Callable[[], Sequence[tuple[str, int, str | None]]], *, dag_id: str, run_id: str
    ) -> None:
        self.values: dict[tuple[str, str], dict[int, str]] = {}  # (task id, key) -> map index -> JSON text
        self._variables: dict[str, str] = {}
        self._stores = StatesInMemory()
        self._states, self._dag_id, self._run_id = states, dag_id, run_id

    def forget(self, task_id: str, map_index: int) -> None:
        """Drop the XComs of an instance whose next try begins."""
        for (owner, _), values in self.values.items():
            if owner == task_id:
                values.pop(map_index, None)

    async def get_xcoms(self, run: int, refs: Sequence[XComRef]) -> list[XComPairs]:
        """See TaskServices."""
        found: list[XComPairs] = []
        for ref in refs:
            texts = {
                (key, index): text
                for (task_id, key), values in self.values.items()
                for index, text in values.items()
                if task_id == ref.task_id and ref.map_index in (None, index)
            }
            wanted = ref.key_among(key for key, _ in texts)
            found.append(sorted((index, text) for (key, index), text in texts.items() if key == wanted))
        return found

    async def call(self, run: int, name: str, args: str) -> str:
        """See TaskServices."""
        service = MEMORY_SERVICES.get(name)
        if service is None:
            raise NotFound(f"dag.test() has no database, so it cannot answer {name!r} ({args}).")
        return json.dumps(await service(self, json.loads(args)))

    async def trigger_dag(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Nothing is triggered; the run counts as successful."""
        run_id = args.get("run_id") or f"manual__{args.get('logical_date') or 'dag_test'}"
        log.info("dag.test() triggers no other DAG: run %s of %s counts as successful", run_id, args["dag_id"])
        return {"run_id": run_id, "is_paused": False}

    async def clear_run(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Nothing is cleared."""
        return {"run_id": args["run_id"]}

    async def run_state(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """A run of another DAG counts as successful; this run is running."""
        state = "running" if self._is_ours(args) else "success"
        return {"dag_exists": True, "run": {"run_id": args.get("run_id") or self._run_id, "state": state}}

    async def task_states(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Tasks of another DAG count as successful; those of this run have their real states."""
        task_ids = list(args.get("task_ids") or ())
        run = await self.run_state(args)
        if self._is_ours(args):
            group = args.get("group_id")
            tasks = [one for one in self._states() if one[0] in task_ids or (group and one[0].startswith(f"{group}."))]
        else:
            tasks = [(task_id, -1, "success") for task_id in task_ids or [f"{args.get('group_id')}.*"]]
        return {**run, "unknown": [], "tasks": tasks}

    async def ask_input(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Nobody can answer: a question has its defaults at once."""
        log.info("dag.test() asks nobody: %s", args["question"]["subject"])
        return {"nobody": True}

    async def close_input(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Nothing is stored."""
        return {}

    async def variable(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Variables come from the environment, were set by the run itself, or are known to who runs it."""
        if "set" in args:
            self._variables[args["set"]] = args["value"]
        elif "delete" in args and self._variables.pop(args["delete"], None) is None:
            raise NotFound(f"There is no variable {args['delete']!r} here, because dag.test() uses no database.")
        key = args.get("get", "")
        own = self._variables.get(key)
        return dict(answer_here("variable", key)) if own is None else {"value": own, "database": False}

    async def connection(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Connections come from the environment, or are known to who runs it."""
        return dict(answer_here("connection", args["get"]))

    async def check_assets(self, args: Mapping[str, Any]) -> dict[str, str]:
        """All assets count as active."""
        return {uri: uri for uri in args["uris"]}

    async def asset_check(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """What a check says is logged."""
        report = read_report(args)
        log.info("the check %s says %s: %s %s", report.task_id, report.status, report.message, report.metadata_text)
        return {"is_stored": False}

    async def asset_events(self, args: Mapping[str, Any]) -> list[Any]:
        """There are no events."""
        return []

    async def task_state(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """State stores are in memory."""
        return self._stores.of_task(0, args)

    async def asset_state(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """State stores are in memory."""
        return self._stores.of_asset(args)

    async def previous_success(self, args: Mapping[str, Any]) -> None:
        """There is no earlier run."""

    async def previous_run(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """There is no earlier run."""
        return {"run": None, "task": None}

    async def xcoms(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """There is no other run, and no other DAG."""
        hint = None
        if args["dag_id"] is not None or args["run_id"] is not None:
            asked = f"the DAG {args['dag_id'] or self._dag_id!r}"
            hint = f"dag.test() has this run only, so nothing is found of {asked}; try it in a World with both DAGs."
        return {"pairs": [[] for _ in args["refs"]], "hint": hint}

    def _is_ours(self, args: Mapping[str, Any]) -> bool:
        if args["dag_id"] == self._dag_id:
            return True
        log.info("dag.test() knows no other DAG: %s counts as successful", args["dag_id"])
        return False


MEMORY_SERVICES: Mapping[str, MemoryService] = {
    "ask_input": Memory.ask_input,
    "asset_check": Memory.asset_check,
    "asset_events": Memory.asset_events,
    "asset_state": Memory.asset_state,
    "check_assets": Memory.check_assets,
    "clear_run": Memory.clear_run,
    "close_input": Memory.close_input,
    "connection": Memory.connection,
    "previous_run": Memory.previous_run,
    "previous_success": Memory.previous_success,
    "run_state": Memory.run_state,
    "task_state": Memory.task_state,
    "task_states": Memory.task_states,
    "trigger_dag": Memory.trigger_dag,
    "triggering_asset_events": Memory.asset_events,
    "variable": Memory.variable,
    "xcoms": Memory.xcoms,
}


class StatesInMemory:
    """State stores: answers the services `task_state` and `asset_state` (scheduler/services/state_services.py).

    Nothing expires.
    """

    def __init__(self) -> None:
        self._values: dict[_Place, dict[str, Any]] = {}

    def of_task(self, run: int, args: Mapping[str, Any]) -> dict[str, Any]:
        """The answer about the store of a task instance."""
        task: _Place = ("task", run, args["task_id"])
        if args["map_index"] is None:
            for place in [place for place in self._values if place[:3] == task]:
                del self._values[place]
            return {}
        return self._answer((*task, args["map_index"]), args)

    def of_asset(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The answer about the store of an asset; here an asset is told apart by what the task calls it."""
        return self._answer(("asset", args.get("asset") or args.get("uri")), args)

    def _answer(self, place: _Place, args: Mapping[str, Any]) -> dict[str, Any]:
        values = self._values.setdefault(place, {})
        match args["do"]:
            case "get":
                return {"found": args["key"] in values, "value": values.get(args["key"])}
            case "set":
                values[args["key"]] = args["value"]
            case "delete":
                values.pop(args["key"], None)
            case _:
                values.clear()
        return {}
