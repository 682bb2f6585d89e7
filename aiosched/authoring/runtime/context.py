"""What a task knows about its run: the context that functions, templates and callbacks see."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from aiosched.authoring.base.settings import defaults
from aiosched.authoring.runtime.previous_run import PREVIOUS_RUN, read_previous_run
from aiosched.errors import AioschedError

if TYPE_CHECKING:
    from pendulum import DateTime

    from aiosched.authoring.dag.dag import DAG
    from aiosched.authoring.runtime.task_instance import TaskInstance
    from aiosched.authoring.tasks.operator import BaseOperator
    from aiosched.core.values.messages import Attempt, RunInfo


class Context(dict[str, Any]):
    """A dict whose dearer values are worked out when they are first asked for.

    A run without a logical date has no `logical_date`, `ds`, `ts` and their kin: a template that names
    them fails and says so. Of the run before (previous_run.py) the scheduler is asked: iterating leaves that out.
    """

    __slots__ = ("_lazy", "_run")

    def __init__(
        self,
        values: Mapping[str, Any],
        lazy: Mapping[str, Callable[[Context], Any]] | None = None,
        run: RunInfo | None = None,
    ) -> None:
        super().__init__(values)
        self._lazy = lazy or {}
        self._run = run

    @property
    def run(self) -> RunInfo:
        """The run that the dearer values are about."""
        if self._run is None:
            raise AioschedError("This context belongs to no run. Make it with build_context().")
        return self._run

    def __missing__(self, key: str) -> Any:
        work_out = self._lazy.get(key)
        if work_out is None:
            if self._run is None or key not in PREVIOUS_RUN:
                raise KeyError(key)
            return read_previous_run(self, key)
        self[key] = value = work_out(self)
        return value

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self._lazy or (self._run is not None and key in PREVIOUS_RUN)

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __iter__(self) -> Iterator[str]:
        yield from list(super().__iter__())
        yield from [key for key in self._lazy if not super(Context, self).__contains__(key)]

    def __len__(self) -> int:
        return super().__len__() + sum(not super(Context, self).__contains__(key) for key in self._lazy)

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        return KeysView(self)

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        return ItemsView(self)

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        return ValuesView(self)

    def copy(self) -> Context:
        """Another context with the same values."""
        return Context(dict(super().items()), self._lazy, self._run)


class DagRun:
    """The run of a task, as `dag_run` shows it. Times are pendulum, in UTC."""

    state = "running"

    def __init__(self, run: RunInfo) -> None:
        self.dag_id = run.dag_id
        self.run_id = run.run_id
        self.run_type = str(run.run_type)
        self.conf = run.conf
        self._run = run

    @property
    def logical_date(self) -> DateTime | None:
        return moment(self._run.logical_date)

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
    def is_backfill(self) -> bool:
        return self.run_type == "backfill"

    def __repr__(self) -> str:
        return f"<DagRun {self.dag_id} {self.run_id}>"


def build_context(task: BaseOperator, ti: TaskInstance, attempt: Attempt, dag: DAG | None) -> Context:
    """The context of one attempt. `exception` and `reason` are None until the runner sets them."""
    run = attempt.run
    return Context(
        {
            "conf": run.conf,
            "dag": dag,
            "exception": None,
            "inlets": task.inlets,
            "outlets": task.outlets,
            "reason": None,
            "run_id": run.run_id,
            "task": task,
            "task_instance": ti,
            "test_mode": False,
            "ti": ti,
            "try_number": attempt.key.try_number,
        },
        _UNDATED if run.logical_date is None else _DATED,
        run,
    )


def build_run_context(dag: DAG, run: RunInfo) -> Context:
    """The context of a DAG's callback when no task instance goes with it: `ti` and `task` are None."""
    values = dict.fromkeys(("exception", "reason", "task", "task_instance", "ti"))
    params = _over(dag.params, run)
    return Context(
        {**values, "conf": run.conf, "dag": dag, "params": params, "run_id": run.run_id, "test_mode": False},
        _UNDATED if run.logical_date is None else _DATED,
        run,
    )


def get_current_context() -> Context:
    """The context of the task that runs in the caller's thread or coroutine; raises AioschedError outside one."""
    context = _current.get()
    if context is None:
        raise AioschedError(
            "No task is running here. Call get_current_context() inside a task, not while a DAG is built."
        )
    return context


def running_context() -> Context | None:
    """As `get_current_context`, but None outside of a task."""
    return _current.get()


class current_context:
    """Makes `context` the answer of `get_current_context` in this thread or coroutine, and those started from it."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: Context) -> None:
        self._context = context

    def __enter__(self) -> Context:
        self._token = _current.set(self._context)
        return self._context

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def moment(value: datetime | None) -> DateTime | None:
    """An instant as the context shows it: pendulum, in UTC."""
    if value is None:
        return None
    import pendulum

    return pendulum.instance(value).in_timezone("UTC")


def _params(context: Context) -> dict[str, Any]:
    return _over(context["task"].params, context.run)


def _over(params: Mapping[str, Any], run: RunInfo) -> dict[str, Any]:
    """The params of a run: its conf goes over them, unless the installation forbids it."""
    return {**params, **run.conf} if defaults().conf_overrides_params else dict(params)


def _macros(context: Context) -> Any:
    from aiosched.authoring.runtime import macros

    return macros


def _var(_: Context) -> Any:
    from aiosched.authoring.runtime.variables import VariableAccess

    return VariableAccess()


def _conn(_: Context) -> Any:
    from aiosched.authoring.runtime.connections import connection_access

    return connection_access()


def _inlet_events(context: Context) -> Any:
    from aiosched.authoring.assets.asset_events import InletEvents

    return InletEvents(context.get("inlets") or ())


def _outlet_events(context: Context) -> Any:
    from aiosched.authoring.assets.asset_events import OutletEvents

    return OutletEvents(context.get("outlets") or ())


def _triggering_asset_events(context: Context) -> Any:
    from aiosched.authoring.assets.asset_events import TriggeringAssetEvents

    return TriggeringAssetEvents(is_asset_run=context.run.run_type == "asset_triggered")


def _ts_nodash(context: Context) -> str:
    return str(context["logical_date"].strftime("%Y%m%dT%H%M%S"))


def _key(context: Context) -> str:
    ti = context["ti"]
    return f"{ti.dag_id}__{ti.task_id}__{context['ds_nodash']}"


_current: ContextVar[Context | None] = ContextVar("aiosched_context", default=None)

_UNDATED: Final[Mapping[str, Callable[[Context], Any]]] = {
    "conn": _conn,
    "dag_run": lambda context: DagRun(context.run),
    "inlet_events": _inlet_events,
    "macros": _macros,
    "outlet_events": _outlet_events,
    "params": _params,
    "triggering_asset_events": _triggering_asset_events,
    "var": _var,
}
_DATED: Final[Mapping[str, Callable[[Context], Any]]] = {
    **_UNDATED,
    "data_interval_end": lambda context: moment(context.run.interval_end),
    "data_interval_start": lambda context: moment(context.run.interval_start),
    "ds": lambda context: context["logical_date"].strftime("%Y-%m-%d"),
    "ds_nodash": lambda context: context["logical_date"].strftime("%Y%m%d"),
    "logical_date": lambda context: moment(context.run.logical_date),
    "task_instance_key_str": _key,
    "ts": lambda context: context["logical_date"].isoformat(),
    "ts_nodash": _ts_nodash,
    "ts_nodash_with_tz": lambda context: f"{_ts_nodash(context)}+0000",
}

CONTEXT_KEYS: Final = frozenset(
    {
        "conf", "dag", "exception", "inlets", "outlets", "reason", "run_id", "task", "task_instance", "test_mode", "ti",
        "try_number", "templates_dict", *_DATED, *PREVIOUS_RUN,
    }
)  # fmt: skip
