"""Parameters of Airflow 1.10 to 3 that have another name here, have no effect, or cannot be taken.

The tables have a row for each of aiosched's classes. In a file of Airflow's dialect a renamed parameter is taken, one
that changes nothing is dropped (with a warning, once a file, if its author should know), and one that would change
results is refused with a remedy. Parameters that are in no table are refused as everywhere.
Source: the semantics reference, section 38.3.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from aiosched.authoring.base.checks import fail, warn_once
from aiosched.authoring.base.location import Location

AIRFLOW_2_SCHEDULE: Final = timedelta(days=1)  # of a DAG that gives none

RENAMED: Final[Mapping[str, Mapping[str, str]]] = {
    "DagContents": {
        "schedule_interval": "schedule",
        "timetable": "schedule",
        "concurrency": "max_active_tasks",
        "fail_stop": "fail_fast",
    },
    "BaseOperator": {
        "task_concurrency": "max_active_tis_per_dag",
        "max_active_tis": "max_active_tis_per_dag",
        "xcom_push": "do_xcom_push",
    },
    "BashOperator": {"skip_exit_code": "skip_on_exit_code"},
    "BranchDateTimeOperator": {"use_task_execution_date": "use_task_logical_date"},
    "BranchDayOfWeekOperator": {"use_task_execution_day": "use_task_logical_date"},
    "DayOfWeekSensor": {"use_task_execution_day": "use_task_logical_date"},
    "TriggerDagRunOperator": {"execution_date": "logical_date"},
}
"""aiosched's class -> old name -> new name. Values that differ are an error, unless `USED_OF_BOTH` has the old name."""

USED_OF_BOTH: Final = {"concurrency": "concurrency", "task_concurrency": "max_active_tis_per_dag"}
"""Old name -> the name whose value Airflow 2 uses if both are given."""

DROPPED: Final[Mapping[str, Mapping[str, str]]] = {
    "DagContents": {
        "default_view": "",
        "orientation": "",
        "full_filepath": "",
        "disable_bundle_versioning": "a run stays with the version with which it was created",
        "rerun_with_latest_version": "attempts run the newest code of their version's source",
    },
    "TaskGroup": {"ui_color": "", "ui_fgcolor": ""},
    "BaseOperator": {
        "provide_context": "",
        "adhoc": "",
        "allow_nested_operators": "",
        "ui_color": "",
        "ui_fgcolor": "",
        "schedule_interval": "the schedule is that of the DAG",
        "resources": "use executor_config",
    },
    "HttpOperator": dict.fromkeys(
        (
            "tcp_keep_alive",
            "tcp_keep_alive_idle",
            "tcp_keep_alive_count",
            "tcp_keep_alive_interval",
            "warn_on_non_idempotent",
        ),
        "",
    ),
    "HttpSensor": dict.fromkeys(
        ("tcp_keep_alive", "tcp_keep_alive_idle", "tcp_keep_alive_count", "tcp_keep_alive_interval"), ""
    ),
    "SQLExecuteQueryOperator": {"show_return_value_in_logs": ""},
    "TriggerDagRunOperator": {"openlineage_inject_parent_info": ""},
    "PythonOperator": {"provide_context": ""},
}
"""aiosched's class -> name -> why it has no effect; without a reason nobody has to know."""

_ENTITIES: Final = "aiosched.airflow.objects.entities"
_HTTP: Final = "Install the real operator: `aiosched providers install apache-airflow-providers-http`."
_SQL: Final = "Install the real operator: `aiosched providers install apache-airflow-providers-common-sql`."

REFUSED: Final[Mapping[str, Mapping[str, str]]] = {
    "BaseOperator": {
        "render_template_as_native_obj": "It is an option of the DAG here: DAG(render_template_as_native_obj=True).",
        "subdag": "Use SubDagOperator, or a TaskGroup.",
    },
    "HttpOperator": dict.fromkeys(("auth_type", "pagination_function", "request_kwargs", "retry_args"), _HTTP),
    "HttpSensor": {"request_kwargs": _HTTP},
    "SQLExecuteQueryOperator": dict.fromkeys(("hook_params", "output_processor", "requires_result_fetch"), _SQL),
}
"""aiosched's class -> name -> the remedy. Without it, what the task does would be different, so a value is refused."""


NUMBERS: Final = frozenset(
    {
        "concurrency", "max_active_runs", "max_active_tasks", "max_active_tis_per_dag", "max_active_tis_per_dagrun",
        "pool_slots", "priority_weight", "retries", "task_concurrency",
    }
)  # fmt: skip
"""Whole numbers that variables and YAML files often have as text, or as `2.0`."""


def translated(kind: str, given: Mapping[str, Any], where: Location | None) -> dict[str, Any]:
    """The arguments that aiosched's class `kind` takes. Raises DagError; see the module."""
    arguments = _with_numbers(given, where)
    for old, new in RENAMED.get(kind, {}).items():
        if old in arguments:
            value = arguments.pop(old)
            if new in arguments and arguments[new] != value and value is not None:
                both = f"{old!r} and {new!r} are the same parameter, and both are given"
                if (used := USED_OF_BOTH.get(old)) is None:
                    raise fail(f"{both}. Leave out {old!r}.", where)
                warn_once(f"{both}: {used!r} is used, as in Airflow 2. Leave out the other.", where)
                if used == old:
                    arguments[new] = value
            if new not in arguments:
                arguments[new] = value
    for name, reason in DROPPED.get(kind, {}).items():
        if name in arguments and arguments.pop(name) and reason:
            warn_once(f"{name!r} has no effect: {reason}.", where)
    for name, remedy in REFUSED.get(kind, {}).items():
        if name in arguments and (value := arguments.pop(name)):
            raise fail(f"{name}={value!r:.80} is not possible here. {remedy}", where)
    if (change := SPECIAL.get(kind)) is not None:
        change(arguments, where)
    return arguments


def default_args(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """`given`, and the values with old names of all tasks under their new names."""
    numbers = _with_numbers(given, None)
    found = {new: numbers[old] for old, new in RENAMED["BaseOperator"].items() if old in given and new not in given}
    return {**numbers, **found}


def _with_numbers(given: Mapping[str, Any], where: Location | None) -> dict[str, Any]:
    """`given`, with whole numbers that are texts or floats as numbers; what is no number is left to be refused."""
    arguments = dict(given)
    for name in NUMBERS & arguments.keys():
        value = arguments[name]
        if isinstance(value, str | float):
            with contextlib.suppress(ValueError, OverflowError):
                if (number := float(value)).is_integer():
                    arguments[name] = int(number)
                    warn_once(f"{name}={value!r} is taken as {int(number)}: write a whole number.", where)
    return arguments


def _serializer(arguments: dict[str, Any], where: Location | None) -> None:
    if arguments.pop("use_dill", False):
        arguments.setdefault("serializer", "dill")


def _triggered(arguments: dict[str, Any], where: Location | None) -> None:
    function = arguments.pop("python_callable", None)
    if function is not None:
        from aiosched.airflow.dag_run_order import before_triggering

        arguments["pre_execute"] = before_triggering(function, arguments.get("pre_execute"))


def _returned_command(arguments: dict[str, Any], where: Location | None) -> None:
    arguments.setdefault("render_returned", True)


def _without_entities(arguments: dict[str, Any], where: Location | None) -> None:
    """Leave out what is no asset among inlets and outlets."""
    for name in ("inlets", "outlets"):
        given = arguments.get(name)
        listed = given if isinstance(given, list | tuple) else [given]
        kept = [one for one in listed if type(one).__module__ != _ENTITIES]
        if len(kept) < len(listed):
            arguments[name] = kept
            warn_once(f"What is no Asset among the {name} has no effect: lineage is not collected.", where)


SPECIAL: Final[Mapping[str, Callable[[dict[str, Any], Location | None], None]]] = {
    "BaseOperator": _without_entities,
    "DecoratedBashOperator": _returned_command,
    "IsolatedPythonOperator": _serializer,
    "TriggerDagRunOperator": _triggered,
}
"""aiosched's class -> what changes its arguments, where a name is not enough."""
