"""The context of a running task: a dict for functions, templates and callbacks."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from aiosched.authoring.base.building import running
from aiosched.authoring.base.context_values import bound
from aiosched.errors import AioschedError

if TYPE_CHECKING:
    from pendulum import DateTime

    from aiosched.core.values.messages import RunInfo

Compute = Callable[["Context"], Any]


class Context(dict[str, Any]):
    """A dict, some of whose values are computed when they are first read.

    These are `lazy` and `unlisted`: iteration leaves the latter out, because they are fetched from the scheduler. A run
    without a logical date has no `logical_date`, `ds`, `ts` and the like: a template that names them fails. What an
    application gives by type has the type as key, and iteration leaves it out, too.
    """

    __slots__ = ("_lazy", "_run", "_unlisted")

    def __init__(
        self,
        values: Mapping[str, Any],
        lazy: Mapping[str, Compute] | None = None,
        run: RunInfo | None = None,
        unlisted: Mapping[str, Compute] | None = None,
    ) -> None:
        super().__init__(values)
        self._lazy = lazy or {}
        self._run = run
        self._unlisted = unlisted or {}

    @property
    def run(self) -> RunInfo:
        """The run. Raises AioschedError for a context that was made without one."""
        if self._run is None:
            raise AioschedError("This context belongs to no run. Make it with build_context().")
        return self._run

    def __missing__(self, key: str) -> Any:
        compute = self._lazy.get(key) or self._unlisted.get(key)
        if compute is None:
            raise KeyError(key)
        self[key] = value = compute(self)
        return value

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self._lazy or key in self._unlisted

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __iter__(self) -> Iterator[str]:
        yield from [key for key in super().__iter__() if isinstance(key, str)]
        yield from [key for key in self._lazy if not super(Context, self).__contains__(key)]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        return KeysView(self)

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        return ItemsView(self)

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        return ValuesView(self)

    def copy(self) -> Context:
        """Another context with the same values."""
        return Context(dict(super().items()), self._lazy, self._run, self._unlisted)


class OtherInstance(NamedTuple):
    """A task instance of a run, as `DagRun.get_task_instances` sees it; without a state it is None."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int
    state: str | None


class OtherRun(NamedTuple):
    """A run, as `DagRun.find` sees it; the logical date is a text in ISO 8601."""

    dag_id: str
    run_id: str
    state: str
    logical_date: str | None


class DagRun:
    """The value of `dag_run`. Times are pendulum, in UTC."""

    state = "running"
    end_date: DateTime | None = None  # it still runs

    def __init__(self, run: RunInfo) -> None:
        self.dag_id: str = run.dag_id
        self.run_id: str = run.run_id
        self.run_type: str = str(run.run_type)
        self.conf: dict[str, Any] = run.conf
        self._run = run

    @property
    def logical_date(self) -> DateTime | None:
        return moment(self._run.logical_date)

    @property
    def execution_date(self) -> DateTime | None:
        """The logical date, by the name that Airflow had for it before version 3."""
        return self.logical_date

    @property
    def external_trigger(self) -> bool:
        """Whether somebody triggered it, rather than its schedule; a name of Airflow before version 3."""
        return self.run_type == "manual" and not self._run.is_test

    @property
    def run_after(self) -> DateTime | None:
        return moment(self._run.run_after)

    @property
    def data_interval_start(self) -> DateTime | None:
        return moment(self._run.interval_start)

    @property
    def data_interval_end(self) -> DateTime | None:
        return moment(self._run.interval_end)

    @property
    def start_date(self) -> DateTime | None:
        return moment(self._run.start_date)

    @property
    def traceparent(self) -> str | None:
        """The span in which somebody asked for it, as W3C's trace context writes it."""
        return self._run.traceparent

    @property
    def partition_key(self) -> str | None:
        """The key of the partition of assets that the run is about."""
        return self._run.partition_key

    @property
    def partition_date(self) -> DateTime | None:
        return moment(self._run.partition_date)

    @property
    def data_interval(self) -> tuple[DateTime | None, DateTime | None]:
        """Start and end of the data interval."""
        return self.data_interval_start, self.data_interval_end

    def get_state(self) -> str:
        """The state of the run."""
        return self.state

    @property
    def dag(self) -> Any:
        """The DAG, in a task of the run."""
        return get_current_context()["dag"]

    def get_dag(self) -> Any:
        """As `dag`."""
        return self.dag

    def get_previous_dagrun(self, state: str | None = None, session: object = None) -> Any:
        """The run before this one, or None, as `ti.get_previous_dagrun`. For plain functions of a task."""
        return get_current_context()["ti"].get_previous_dagrun(state)

    def get_task_instances(self, state: Any = None) -> list[OtherInstance]:
        """The instances of all tasks of the run, in one of the given states if any. For plain functions of a task."""
        dag = get_current_context()["dag"]
        return self._instances(list(dag.task_dict), state)

    def get_task_instance(self, task_id: str, map_index: int = -1) -> OtherInstance | None:
        """One task instance of the run, or None."""
        return next((one for one in self._instances([task_id], None) if one.map_index == map_index), None)

    def _instances(self, task_ids: list[str], state: Any) -> list[OtherInstance]:
        services = get_current_context()["ti"].services
        answer = services.call("task_states", dag_id=self.dag_id, run_id=self.run_id, task_ids=task_ids)
        wanted = [state] if state is None or isinstance(state, str) else list(state)
        found = [OtherInstance(self.dag_id, name, self.run_id, index, now) for name, index, now in answer["tasks"]]
        return [one for one in found if state is None or one.state in wanted]

    @classmethod
    def find(
        cls, dag_id: str | None = None, run_id: str | None = None, state: str | None = None, **_: Any
    ) -> list[OtherRun]:
        """The run of that id, as a list. Raises AioschedError without dag_id and run_id: runs cannot be listed."""
        if dag_id is None or run_id is None:
            raise AioschedError(
                "DagRun.find() needs dag_id and run_id: a task cannot list runs. Ask the REST API for more: "
                f"GET /api/v1/dags/{dag_id or '{dag_id}'}/runs"
            )
        found = get_current_context()["ti"].services.call("run_state", dag_id=dag_id, run_id=run_id)["run"]
        if found is None or state not in {None, found["state"]}:
            return []
        return [OtherRun(dag_id, found["run_id"], found["state"], found.get("logical_date"))]

    @property
    def is_backfill(self) -> bool:
        return self.run_type == "backfill"

    def __repr__(self) -> str:
        return f"<DagRun {self.dag_id} {self.run_id}>"


def get_current_context() -> Context:
    """The context of the task that runs in the caller's thread or coroutine; raises AioschedError outside one."""
    context: Context | None = running.get()
    if context is None:
        raise AioschedError(
            "No task is running here. Call get_current_context() inside a task, not while a DAG is built."
        )
    return context


def running_context() -> Context | None:
    """As `get_current_context`, but None outside a task."""
    context: Context | None = running.get()
    return context


def current_context(context: Context) -> bound[Any]:
    """Sets what `get_current_context` returns in a block."""
    return bound(running, context)


def moment(value: datetime | None) -> DateTime | None:
    """An instant as pendulum, in UTC; None for None."""
    if value is None:
        return None
    import pendulum

    return pendulum.instance(value).in_timezone("UTC")
