"""The values of the context of an attempt or a DAG's callback. Those that few tasks read are computed on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aiosched.authoring.assets.asset_events import InletEvents, OutletEvents, TriggeringAssetEvents
from aiosched.authoring.assets.state_stores import AssetStateStores, TaskStateStore
from aiosched.authoring.base.params import ParamsDict
from aiosched.authoring.base.settings import defaults
from aiosched.authoring.runtime.connections import connection_access
from aiosched.authoring.runtime.context import Context, DagRun, moment
from aiosched.authoring.runtime.variables import VariableAccess
from aiosched.authoring.runtime.xcom_values import as_default
from aiosched.authoring.tasks.previous_run import PREVIOUS_RUN, read_previous_run
from aiosched.core.values.given_values import CannotConvert
from aiosched.core.values.masking import secrets
from aiosched.core.values.typed_json import NotJson
from aiosched.errors import AioschedError, FailTask

if TYPE_CHECKING:
    from aiosched.authoring.base.protocols import Dag
    from aiosched.authoring.runtime.task_instance import TaskInstance
    from aiosched.authoring.tasks.operator import BaseOperator
    from aiosched.core.values.messages import Attempt, RunInfo


def build_context(task: BaseOperator, ti: TaskInstance, attempt: Attempt, dag: Dag | None) -> Context:
    """The context of one attempt. `exception` and `reason` are None until the runner sets them."""
    run = attempt.run
    lazy = _UNDATED if run.logical_date is None else _DATED
    if task._dialect is not None:
        lazy = {**lazy, **task._dialect.context}
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
        lazy,
        run,
        _UNLISTED,
    )


def build_run_context(dag: Dag, run: RunInfo) -> Context:
    """The context of a DAG's callback without a task instance: `ti` and `task` are None."""
    values = dict.fromkeys(("exception", "reason", "task", "task_instance", "ti"))
    params = _with_conf(dag.params, run)
    lazy = _UNDATED if run.logical_date is None else _DATED
    if dag.dialect is not None:
        lazy = {**lazy, **dag.dialect.context}
    return Context(
        {**values, "conf": run.conf, "dag": dag, "params": params, "run_id": run.run_id, "test_mode": False},
        lazy,
        run,
        _UNLISTED,
    )


def _params(context: Context) -> dict[str, Any]:
    return _with_conf(context["task"].params, context.run)


def _with_conf(params: Mapping[str, Any], run: RunInfo) -> dict[str, Any]:
    """The params of a run: overridden by its conf, unless the settings forbid it. Logs show `***` for secret ones."""
    found = {**params, **run.conf} if defaults().conf_overrides_params else dict(params)
    if isinstance(params, ParamsDict):
        given = run.conf.keys() & params.keys() if defaults().conf_overrides_params else ()
        found |= {name: param_value(name, run.conf[name], params[name]) for name in given}
        for name in params.secret_names():
            secrets.register(found[name])
    return found


def param_value(name: str, given: Any, default: Any) -> Any:
    """What somebody gave for a param, as the type of its default. Raises FailTask."""
    try:
        return as_default(given, default)
    except (CannotConvert, NotJson, AioschedError) as error:
        raise FailTask(f"Param {name!r}: {error}") from error


def _macros(_: Context) -> Any:
    from aiosched.authoring.runtime import macros  # takes long

    return macros


def _ts_nodash(context: Context) -> str:
    return str(context["logical_date"].strftime("%Y%m%dT%H%M%S"))


def _key(context: Context) -> str:
    ti = context["ti"]
    return f"{ti.dag_id}__{ti.task_id}__{context['ds_nodash']}"


_UNDATED: Final[Mapping[str, Callable[[Context], Any]]] = {
    "asset_state_store": lambda context: AssetStateStores(context.get("inlets") or (), context.get("outlets") or ()),
    "conn": lambda _: connection_access(),
    "dag_run": lambda context: DagRun(context.run),
    "inlet_events": lambda context: InletEvents(context.get("inlets") or ()),
    "macros": _macros,
    "outlet_events": lambda context: OutletEvents(context.get("outlets") or ()),
    "params": _params,
    "task_state_store": lambda context: TaskStateStore(context["ti"].task_id, context["ti"].map_index),
    "partition_date": lambda context: moment(context.run.partition_date),
    "partition_key": lambda context: context.run.partition_key,
    "triggering_asset_events": lambda context: TriggeringAssetEvents(
        is_asset_run=context.run.run_type == "asset_triggered"
    ),
    "var": lambda _: VariableAccess(),
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


def _expanded_ti_count(context: Context) -> int | None:
    """The number of instances of a mapped task in this run; None for a task that is not mapped."""
    ti = context["ti"]
    if ti is None or ti.map_index < 0:
        return None
    count: int = ti.get_ti_count(ti.dag_id, task_ids=[ti.task_id], run_ids=[ti.run_id])
    return count


_UNLISTED: Final[Mapping[str, Callable[[Context], Any]]] = {
    "expanded_ti_count": _expanded_ti_count,
    "map_index_template": lambda context: getattr(context["task"], "map_index_template", None),
    **{name: partial(read_previous_run, name=name) for name in PREVIOUS_RUN},
}

CONTEXT_KEYS: Final = frozenset(
    {
        "conf", "dag", "exception", "inlets", "outlets", "reason", "run_id", "task", "task_instance", "test_mode", "ti",
        "try_number", "templates_dict", *_DATED, *PREVIOUS_RUN,
    }
)  # fmt: skip
