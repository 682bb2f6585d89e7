"""What a running task asks about the run of its DAG before its own, by Airflow's names: methods of `ti`.

That is the run with the latest earlier logical date. In files with Airflow 2's defaults, without a state, in a DAG with
`catchup` and a schedule, runs that somebody triggered do not count, as there. A run without a logical date has none
before it, and in `dag.test()` there is none. They ask the scheduler, so plain functions may call them; on an event loop
they would block, and raise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from aiosched.authoring.runtime.context import OtherInstance, moment
from aiosched.authoring.runtime.services import Services

if TYPE_CHECKING:
    from pendulum import DateTime

_INSTANTS = ("logical_date", "run_after", "data_interval_start", "data_interval_end", "start_date", "end_date")


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A run of the DAG before that of the task. Times are pendulum, in UTC."""

    services: Services
    dag_id: str
    run_id: str
    state: str
    run_type: str
    logical_date: DateTime | None
    run_after: DateTime | None
    data_interval_start: DateTime | None
    data_interval_end: DateTime | None
    start_date: DateTime | None
    end_date: DateTime | None

    @property
    def execution_date(self) -> DateTime | None:
        """The logical date, by the name that Airflow had for it before version 3."""
        return self.logical_date

    @property
    def data_interval(self) -> tuple[DateTime | None, DateTime | None]:
        """Start and end of the data interval."""
        return self.data_interval_start, self.data_interval_end

    def get_state(self) -> str:
        """The state of the run."""
        return self.state

    def get_task_instance(self, task_id: str, map_index: int = -1) -> OtherInstance | None:
        """One task instance of the run, or None."""
        answer = self.services.call("task_states", dag_id=self.dag_id, run_id=self.run_id, task_ids=[task_id])
        found = [OtherInstance(self.dag_id, name, self.run_id, index, now) for name, index, now in answer["tasks"]]
        return next((one for one in found if one.map_index == map_index), None)


@dataclass(frozen=True, slots=True)
class EarlierInstance:
    """The instance of a task in an earlier run; the state is None before it has one."""

    run: EarlierRun
    task_id: str
    map_index: int
    state: str | None
    try_number: int
    start_date: DateTime | None
    end_date: DateTime | None

    @property
    def dag_id(self) -> str:
        """The id of the DAG."""
        return self.run.dag_id

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.run.run_id

    @property
    def dag_run(self) -> EarlierRun:
        """The run."""
        return self.run

    @property
    def logical_date(self) -> DateTime | None:
        """The run's logical date."""
        return self.run.logical_date

    @property
    def execution_date(self) -> DateTime | None:
        """The logical date, by the name that Airflow had for it before version 3."""
        return self.run.logical_date

    @property
    def duration(self) -> float | None:
        """Seconds from its start to its end."""
        if self.start_date is None or self.end_date is None:
            return None
        return (self.end_date - self.start_date).total_seconds()


class _AsksBefore(Protocol):
    dag_id: str
    task_id: str
    map_index: int
    task: Any

    @property
    def services(self) -> Services: ...


class AsksAboutEarlierRuns:
    """Base of `TaskInstance`. States are those of runs; of runs in other states none counts."""

    def get_previous_dagrun(self: _AsksBefore, state: str | None = None, session: object = None) -> EarlierRun | None:
        """The run before this one, or None."""
        return _run(self, _ask(self, state=state))

    def get_previous_ti(
        self: _AsksBefore,
        state: str | None = None,
        logical_date: datetime | None = None,
        map_index: int | None = None,
        session: object = None,
    ) -> EarlierInstance | None:
        """The instance of this task in the run before this one, or before `logical_date` (aware); None if none.

        `state` is that of the instance, as in Airflow 3; in files with Airflow 2's defaults that of the run, as there.
        """
        index = self.map_index if map_index is None else map_index
        states = {"state" if _is_of_airflow_2(self) else "task_state": state}
        before = None if logical_date is None else logical_date.isoformat()
        answer = _ask(self, map_index=index, before=before, **states)
        run, task = _run(self, answer), answer["task"]
        if run is None or task is None:
            return None
        times = {name: _moment(task[name]) for name in ("start_date", "end_date")}
        return EarlierInstance(run, self.task_id, index, task["state"], task["try_number"], **times)

    def get_previous_execution_date(
        self: _AsksBefore, state: str | None = None, session: object = None
    ) -> DateTime | None:
        """The logical date of the run before this one."""
        run = _run(self, _ask(self, state=state))
        return None if run is None else run.logical_date

    def get_previous_start_date(self: _AsksBefore, state: str | None = None, session: object = None) -> DateTime | None:
        """When this task started in the run before this one."""
        task = _ask(self, state=state)["task"]
        return None if task is None else _moment(task["start_date"])

    @property
    def previous_ti(self) -> EarlierInstance | None:
        """As `get_previous_ti()`; a name of Airflow before version 2.8."""
        return self.get_previous_ti()  # type: ignore[misc] # a TaskInstance

    @property
    def previous_ti_success(self) -> EarlierInstance | None:
        """As `get_previous_ti("success")`."""
        return self.get_previous_ti("success")  # type: ignore[misc] # a TaskInstance

    @property
    def previous_execution_date_success(self) -> DateTime | None:
        """As `get_previous_execution_date("success")`."""
        return self.get_previous_execution_date("success")  # type: ignore[misc] # a TaskInstance

    @property
    def previous_start_date_success(self) -> DateTime | None:
        """As `get_previous_start_date("success")`."""
        return self.get_previous_start_date("success")  # type: ignore[misc] # a TaskInstance


def _ask(
    ti: _AsksBefore,
    *,
    state: str | None = None,
    task_state: str | None = None,
    map_index: int | None = None,
    before: str | None = None,
) -> Mapping[str, Any]:
    dag = getattr(ti.task, "dag", None)
    catches_up = dag is not None and dag.catchup and dag.schedule is not None
    answer: Mapping[str, Any] = ti.services.call(
        "previous_run",
        task_id=ti.task_id,
        map_index=ti.map_index if map_index is None else map_index,
        state=_text(state),
        task_state=_text(task_state),
        planned_only=bool(state is None and catches_up and _is_of_airflow_2(ti)),
        before=before,
    )
    return answer


def _is_of_airflow_2(ti: _AsksBefore) -> bool:
    """Whether the task's file has the defaults of Airflow 2, or 1.10."""
    dialect = getattr(ti.task, "_dialect", None)
    return dialect is not None and dialect.name == "Airflow 2"


def _text(state: Any) -> str | None:
    return None if state is None else str(getattr(state, "value", state))


def _run(ti: _AsksBefore, answer: Mapping[str, Any]) -> EarlierRun | None:
    if (run := answer["run"]) is None:
        return None
    times = {name: _moment(run[name]) for name in _INSTANTS}
    return EarlierRun(ti.services, ti.dag_id, run["run_id"], run["state"], run["run_type"], **times)


def _moment(text: str | None) -> DateTime | None:
    return None if text is None else moment(datetime.fromisoformat(text))
