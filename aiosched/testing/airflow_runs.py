"""Runs and task instances that tests of Airflow projects make: `dag.create_dagrun(…)`, `TaskInstance(task, …).run()`.

A call runs one try in the test's own process, without a database, as a worker would. It looks at no other task: whoever
calls `run` has decided that the task is to run. A run has the XComs of the instances that ran in it.
Source: the methods of `DAG`, `DagRun`, `TaskInstance` and `BaseOperator` in Airflow 1.10 to 3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import msgspec

from aiosched.authoring.base.dates import optional_aware
from aiosched.authoring.base.plain_callers import value_of
from aiosched.authoring.base.settings import defaults
from aiosched.authoring.runtime import context, task_instance
from aiosched.authoring.runtime.context import Context
from aiosched.authoring.tasks.task_context import build_context
from aiosched.clock import SystemClock
from aiosched.core.creation.run_creation import manual_run
from aiosched.core.graph.graph import Graph
from aiosched.core.graph.new_instances import new_instances
from aiosched.core.run.board import Board, Run
from aiosched.core.values.messages import Outcome, RunInfo
from aiosched.core.values.states import RunState, RunType, TaskState
from aiosched.errors import DagError
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.attempt.results import collect_xcoms
from aiosched.executors.attempt.runner import Execution, drive
from aiosched.executors.dag_test import Memory
from aiosched.executors.inline.executor import RegisteredDags

if TYPE_CHECKING:
    from aiosched.authoring.dag.dag import DAG
    from aiosched.authoring.tasks.operator import BaseOperator

_RUN: Final = 1
_ENDED: Final = {
    Outcome.SUCCESS: TaskState.SUCCESS,
    Outcome.SKIPPED: TaskState.SKIPPED,
    Outcome.RESCHEDULED: TaskState.UP_FOR_RESCHEDULE,
    Outcome.DEFERRED: TaskState.DEFERRED,
}
_runs: WeakKeyDictionary[DAG, dict[str, TestedRun]] = WeakKeyDictionary()


class TestedRun(context.DagRun):
    """A run that a test has made. `state` is what the test says it is."""

    __test__ = False  # not a pytest class

    def __init__(self, dag: DAG, info: RunInfo, state: str) -> None:
        super().__init__(info)
        self.state = state
        self._dag = dag
        self._instances_by_place: dict[tuple[str, int], TestedInstance] = {}
        self.memory: Memory = Memory(self._states, dag_id=dag.dag_id, run_id=info.run_id)

    @property
    def dag(self) -> DAG:
        """The DAG."""
        return self._dag

    @dag.setter
    def dag(self, dag: DAG) -> None:
        self._dag = dag

    @property
    def info(self) -> RunInfo:
        """What the runner knows about the run."""
        return self._run

    def get_state(self) -> str:
        """The state that the test gave it."""
        return self.state

    def set_state(self, state: str) -> None:
        """Give it a state."""
        self.state = str(state)

    def update_state(self, *_: Any, **__: Any) -> tuple[list[Any], None]:
        """The state by those of its instances; nothing is to be scheduled, because tests call tasks themselves."""
        states = {one.state for one in self._instances_by_place.values()}
        if len(self._instances_by_place) == len(self.dag.task_dict) and states <= {"success", "skipped", "failed"}:
            self.state = "failed" if "failed" in states else "success"
        return [], None

    def get_task_instance(self, task_id: str, session: Any = None, *, map_index: int = -1) -> TestedInstance | None:  # type: ignore[override]
        """The instance of a task; None if the DAG has no such task."""
        if task_id not in self.dag.task_dict:
            return None
        place = (task_id, map_index)
        if place not in self._instances_by_place:
            TestedInstance(self.dag.get_task(task_id), run_id=self.run_id, map_index=map_index)
        return self._instances_by_place[place]

    def get_task_instances(self, state: Any = None, session: Any = None) -> list[TestedInstance]:  # type: ignore[override]
        """The instances of all tasks, in one of the given states if any."""
        wanted = None if state is None else {state} if isinstance(state, str) else set(state)
        found = [self.get_task_instance(task_id) for task_id in self.dag.task_dict]
        return [one for one in found if one is not None and (wanted is None or one.state in wanted)]

    task_instances = property(get_task_instances)

    def instances(self) -> list[TestedInstance]:
        """Those that the test has made or asked for."""
        return list(self._instances_by_place.values())

    def forget(self, instance: TestedInstance | None = None) -> None:
        """Drop one instance and its XComs; without one the run."""
        if instance is None:
            _runs.get(self.dag, {}).pop(self.run_id, None)
        else:
            self._instances_by_place.pop((instance.task_id, instance.map_index), None)
            self.memory.forget(instance.task_id, instance.map_index)

    def add(self, instance: TestedInstance) -> None:
        """An instance that the test has made itself takes the place of an earlier one."""
        self._instances_by_place[instance.task_id, instance.map_index] = instance

    def _states(self) -> list[tuple[str, int, str | None]]:
        return [(task_id, index, one.state) for (task_id, index), one in self._instances_by_place.items()]


class TestedInstance(task_instance.TaskInstance):
    """A task instance that a test runs. `state` is None until then."""

    __test__ = False

    def __init__(
        self,
        task: BaseOperator,
        execution_date: datetime | str | None = None,
        run_id: str | None = None,
        state: str | None = None,
        map_index: int = -1,
        **_: Any,
    ) -> None:
        dag = getattr(task, "dag", None)
        if dag is None:
            raise DagError(f"Task {task.task_id!r} is in no DAG: make it inside `with DAG(…):`, or pass dag=….")
        run = _run_of(dag, run_id, optional_aware("execution_date", execution_date))
        graph = Graph(dag.to_spec())
        board = Board(graph, _row_of(run), new_instances(graph, range(len(graph.task_ids))), info=run.info)
        row = board.find(graph.index[task.task_id], -1)
        assert row is not None
        attempt = board.attempt(row)
        key = attempt.key._replace(map_index=map_index, try_number=1)
        super().__init__(msgspec.structs.replace(attempt, key=key), task, run.memory, drive)
        self.state, self.start_date = state, None  # type: ignore[assignment]
        self._tested_run = run
        run.add(self)

    @property
    def dag_run(self) -> TestedRun:
        """The run."""
        return self._tested_run

    @dag_run.setter
    def dag_run(self, run: Any) -> None:
        """Another run: one that a test has made, or what it has written down of one."""
        if not isinstance(run, TestedRun):
            given = {name: getattr(run, name) for name in ("run_id", "run_type", "logical_date", "conf")}
            run = create_dagrun(self._tested_run.dag, run.state or "running", **given)
        self._tested_run = run
        self.attempt = msgspec.structs.replace(self.attempt, run=run.info)
        self.run_id = run.run_id
        run.add(self)

    def get_dagrun(self, session: Any = None) -> TestedRun:
        """The run."""
        return self._tested_run

    def forget(self) -> None:
        """Drop it from its run."""
        self._tested_run.forget(self)

    def set_state(self, state: str | None, session: Any = None) -> bool:
        """Give it a state; whether it had another one."""
        before, self.state = self.state, state  # type: ignore[assignment]
        return before != state

    def refresh_from_db(self, *_: Any, **__: Any) -> None:
        """Nothing is stored elsewhere."""

    def refresh_from_task(self, task: BaseOperator, *_: Any, **__: Any) -> None:
        """Take over a task."""
        self.task = task

    def get_template_context(self, session: Any = None, **_: Any) -> Context:
        """The context that the task gets."""
        return build_context(self.dag_run.dag.task_dict[self.task_id], self, self.attempt, self.dag_run.dag)

    def render_templates(self, context: Context | None = None, **_: Any) -> BaseOperator:
        """Render the template fields of `task`, which is another object from then on."""
        rendered: BaseOperator = self.dag_run.dag.task_dict[self.task_id].render(context or self.get_template_context())
        self.task = rendered
        return rendered

    def xcom_push(self, key: str, value: Any, *_: Any, **__: Any) -> None:
        """Push a value for the tasks that run after this."""
        super().xcom_push(key, value)
        self._store(self._pushed_texts())

    def run(self, *_: Any, mark_success: bool = False, **__: Any) -> None:
        """Run one try, whatever the states of this and other tasks are. Raises what the task raises.

        A skip, a reschedule and a deferral are states, not errors.
        """
        if mark_success:
            self.state = TaskState.SUCCESS
            return
        if self.state is not None:  # again
            key = self.attempt.key
            self.try_number = key.try_number + (self.state in {TaskState.UP_FOR_RETRY, TaskState.FAILED})
            self.attempt = msgspec.structs.replace(self.attempt, key=key._replace(try_number=self.try_number))
        task = self.dag_run.dag.task_dict[self.task_id]
        environment = AttemptEnvironment(max_xcom_bytes=defaults().max_tested_xcom_bytes)
        blocking = asyncio.run if self.attempt.is_async else drive
        execution = _Watched(self.attempt, self.dag_run.memory, environment, blocking=blocking)
        self.state, self.start_date = TaskState.RUNNING, execution.started_at
        dags = RegisteredDags(lambda _: self.dag_run.dag)
        report = _finished(execution.run(dags), on_loop=self.attempt.is_async)
        self.end_date, self.duration = report.at, (report.at - execution.started_at).total_seconds()
        self.task = execution.operator or task
        self.rendered_map_index = execution.map_label
        self._store({value.key: value.value for value in report.xcoms})
        self.state = _ENDED.get(report.outcome) or (execution.ended or TaskState.FAILED)
        if report.outcome not in _ENDED:
            raise execution.error or DagError(report.reason or f"{self} failed")

    _run_raw_task = run

    def _pushed_texts(self) -> dict[str, str]:
        limit = defaults().max_tested_xcom_bytes
        found = collect_xcoms(None, self.pushed.items(), push_result=False, multiple_outputs=False, limit=limit)
        return {value.key: value.value for value in found}

    def _store(self, texts: Mapping[str, str]) -> None:
        for key, text in texts.items():
            self.dag_run.memory.values.setdefault((self.task_id, key), {})[self.map_index] = text


class _Watched(Execution):
    """Remembers what the task raised."""

    __slots__ = ("ended", "error")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.error: BaseException | None = None
        self.ended: TaskState | None = None

    async def conclude(self, error: BaseException) -> Any:
        self.error = error
        return await super().conclude(error)

    def _ended(self, state: TaskState) -> None:
        self.ended = state
        super()._ended(state)


def create_dagrun(dag: DAG, state: str = "queued", **given: Any) -> TestedRun:
    """A run of a DAG, with the arguments of Airflow 1.10 to 3 in any order; those that mean nothing here are ignored.

    `logical_date` (or `execution_date`), by default now; `run_id`, `run_type`, `conf`, `data_interval`.
    """
    date = optional_aware("logical_date", given.get("logical_date") or given.get("execution_date"))
    now = SystemClock().now()
    planned = manual_run(dag.to_spec(), now=now, logical_date=date or now, run_after=date)
    start, end = given.get("data_interval") or (
        (planned.interval.start, planned.interval.end) if planned.interval else (None, None)
    )
    run_type = str(given.get("run_type") or planned.run_type)
    info = RunInfo(
        key=_RUN,
        dag_id=dag.dag_id,
        run_id=given.get("run_id") or planned.run_id.replace("manual__", f"{run_type}__", 1),
        run_type=RunType(run_type) if run_type in set(RunType) else RunType.MANUAL,
        run_after=planned.run_after,
        logical_date=planned.logical_date,
        interval_start=optional_aware("data_interval", start),
        interval_end=optional_aware("data_interval", end),
        start_date=optional_aware("start_date", given.get("start_date")) or now,
        conf=dict(given.get("conf") or {}),
        is_test=True,
    )
    run = TestedRun(dag, info, str(state))
    _runs.setdefault(dag, {})[run.run_id] = run
    return run


def made_runs() -> Iterator[TestedRun]:
    """The runs that tests made and whose DAGs are still there."""
    for runs in list(_runs.values()):
        yield from list(runs.values())


def run_task(
    task: BaseOperator, start_date: datetime | None = None, end_date: datetime | None = None, **options: Any
) -> None:
    """Run a task for each logical date of its DAG from `start_date` to `end_date`: by default its own dates, or now.

    The first date is `start_date` itself, whatever the schedule says. Raises what the task raises.
    """
    dag: DAG = task.dag  # type: ignore[assignment]
    first = optional_aware("start_date", start_date or task.start_date or dag.start_date) or SystemClock().now()
    final = optional_aware("end_date", end_date or task.end_date) or max(first, SystemClock().now())
    for date in _dates(dag, first, final):
        TestedInstance(task, execution_date=date).run(**options)


def _dates(dag: DAG, first: datetime, final: datetime) -> Iterator[datetime]:
    date: datetime | None = first
    while date is not None and date <= final:
        yield date
        date = dag.following_schedule(date)


def _run_of(dag: DAG, run_id: str | None, date: datetime | None) -> TestedRun:
    """The run that a test means; a new one if it has not made that itself."""
    runs = _runs.setdefault(dag, {})
    if run_id is not None and run_id in runs:
        return runs[run_id]
    for run in reversed(runs.values()):
        if run_id is None and date is not None and run.info.logical_date == date.astimezone(UTC):
            return run
    return create_dagrun(dag, "running", run_id=run_id, logical_date=date)


def _row_of(run: TestedRun) -> Run:
    info = run.info
    return Run(
        key=_RUN,
        dag_id=info.dag_id,
        run_id=info.run_id,
        version_id=1,
        run_type=info.run_type,
        state=RunState.RUNNING,
        run_after=info.run_after,
        logical_date=info.logical_date,
        conf=info.conf,
    )


def _finished(work: Coroutine[Any, Any, Any], *, on_loop: bool) -> Any:
    """The result of an attempt; one that needs an event loop gets one of its own, also below a running one."""
    return value_of(work) if on_loop else drive(work)
