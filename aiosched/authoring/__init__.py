"""What DAG authors import, and how a DAG becomes a `DagSpec`.

    dag.py            the DAG                        operator.py       what all tasks have in common
    taskflow.py       @task                          operators/        what tasks do: Python, bash, SQL, HTTP, …
    sensors/          tasks that wait                triggers/         what deferred tasks wait for
    notifiers/        callbacks that tell somebody   services.py       asking the scheduler while a task runs
    decorators.py     @dag, @task_group              groups.py         groups
    setup_teardown.py @setup, @teardown              setup_scopes.py   `with` a setup or teardown
    dependencies.py   >>, chain, labels              xcom_arg.py       outputs as arguments
    expansion.py      what is mapped over            nesting.py        who reads whose instances
    mapped.py         mapped tasks (function_mapping.py, group_mapping.py: of functions and groups)
    deadlines.py      deadlines of runs              custom_timetables.py  timetables of the author's own
    slas.py           telling of tasks that are late previous_run.py   the successful run before, in the context
    params.py         params and their schema        rendering.py      filling in arguments (templates.py: Jinja)
    context.py        what a task knows of its run   task_instance.py  ti and its XComs
    loader.py         from a file to its DAGs        serialize.py      from a DAG to its spec
    assets.py         assets and conditions on them  asset_events.py   what tasks say and read about them
    settings.py       defaults of an installation    macros.py         helpers in templates
    variables.py, connections.py  what is kept outside of DAGs (lookups.py: in which order it is looked for)

Beneath these: http.py and mail.py (requests and mails), building.py (the innermost `with`), defaults_by_name.py
(default_args), checks.py and dates.py (what authors may write), plain_values.py (values as JSON), location.py (the
author's line).
Names are imported when they are first used; DAG files import everything from `aiosched`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosched.lazy import imported_on_demand

if TYPE_CHECKING:
    from aiosched.authoring.asset_dags import asset
    from aiosched.authoring.asset_events import Metadata
    from aiosched.authoring.assets import Asset, AssetAlias, AssetAll, AssetAny, AssetWatcher
    from aiosched.authoring.connections import BaseHook, Connection
    from aiosched.authoring.context import Context, build_context, current_context, get_current_context
    from aiosched.authoring.dag import DAG
    from aiosched.authoring.deadlines import DeadlineAlert, DeadlineReference
    from aiosched.authoring.dependencies import Label, chain, cross_downstream
    from aiosched.authoring.groups import TaskGroup
    from aiosched.authoring.loader import LoadedFile, load_file, may_define_dags
    from aiosched.authoring.notifiers import BaseNotifier, SmtpNotifier, WebhookNotifier, send_email, send_webhook
    from aiosched.authoring.operator import BaseOperator
    from aiosched.authoring.operators import (
        BaseBranchOperator,
        BaseSensorOperator,
        BashOperator,
        BranchDateTimeOperator,
        BranchDayOfWeekOperator,
        BranchPythonOperator,
        EmailOperator,
        EmptyOperator,
        ExternalPythonOperator,
        HttpOperator,
        LatestOnlyOperator,
        PokeReturnValue,
        PythonOperator,
        PythonSensor,
        PythonVirtualenvOperator,
        ShortCircuitOperator,
        SQLExecuteQueryOperator,
        TriggerDagRunOperator,
        WeekDay,
    )
    from aiosched.authoring.params import DagParam, Param, ParamsDict
    from aiosched.authoring.rendering import literal
    from aiosched.authoring.sensors import (
        BashSensor,
        DateTimeSensor,
        DayOfWeekSensor,
        ExternalTaskSensor,
        FileSensor,
        HttpSensor,
        TimeDeltaSensor,
        TimeSensor,
    )
    from aiosched.authoring.settings import AuthoringDefaults, use_defaults
    from aiosched.authoring.setup_teardown import setup, teardown
    from aiosched.authoring.start_trigger import StartTriggerArgs
    from aiosched.authoring.task_instance import TaskInstance
    from aiosched.authoring.taskflow import task
    from aiosched.authoring.triggers import (
        BaseTrigger,
        DagStateTrigger,
        DateTimeTrigger,
        ExternalTaskTrigger,
        FileTrigger,
        HttpTrigger,
        TaskFailedEvent,
        TaskSkippedEvent,
        TaskSuccessEvent,
        TimeDeltaTrigger,
        TriggerEvent,
    )
    from aiosched.authoring.variables import Variable
    from aiosched.authoring.xcom_arg import XComArg

_HOMES = {
    "Asset": "assets",
    "AssetAlias": "assets",
    "AssetAll": "assets",
    "AssetAny": "assets",
    "AssetWatcher": "assets",
    "AuthoringDefaults": "settings",
    "BaseBranchOperator": "operators",
    "BaseHook": "connections",
    "BaseNotifier": "notifiers",
    "BaseOperator": "operator",
    "BaseSensorOperator": "operators",
    "BaseTrigger": "triggers",
    "BashOperator": "operators",
    "BashSensor": "sensors",
    "BranchDateTimeOperator": "operators",
    "BranchDayOfWeekOperator": "operators",
    "BranchPythonOperator": "operators",
    "Connection": "connections",
    "Context": "context",
    "DAG": "dag",
    "DagParam": "params",
    "DagStateTrigger": "triggers",
    "DateTimeSensor": "sensors",
    "DateTimeTrigger": "triggers",
    "DayOfWeekSensor": "sensors",
    "DeadlineAlert": "deadlines",
    "DeadlineReference": "deadlines",
    "EmailOperator": "operators",
    "EmptyOperator": "operators",
    "ExternalPythonOperator": "operators",
    "ExternalTaskSensor": "sensors",
    "ExternalTaskTrigger": "triggers",
    "FileSensor": "sensors",
    "FileTrigger": "triggers",
    "HttpOperator": "operators",
    "HttpSensor": "sensors",
    "HttpTrigger": "triggers",
    "Label": "dependencies",
    "LatestOnlyOperator": "operators",
    "LoadedFile": "loader",
    "Metadata": "asset_events",
    "Param": "params",
    "ParamsDict": "params",
    "PokeReturnValue": "operators",
    "PythonOperator": "operators",
    "PythonSensor": "operators",
    "PythonVirtualenvOperator": "operators",
    "SQLExecuteQueryOperator": "operators",
    "ShortCircuitOperator": "operators",
    "SmtpNotifier": "notifiers",
    "TaskGroup": "groups",
    "TaskInstance": "task_instance",
    "TimeDeltaSensor": "sensors",
    "TimeDeltaTrigger": "triggers",
    "TimeSensor": "sensors",
    "TriggerDagRunOperator": "operators",
    "StartTriggerArgs": "start_trigger",
    "TaskFailedEvent": "triggers",
    "TaskSkippedEvent": "triggers",
    "TaskSuccessEvent": "triggers",
    "TriggerEvent": "triggers",
    "Variable": "variables",
    "WebhookNotifier": "notifiers",
    "WeekDay": "operators",
    "XComArg": "xcom_arg",
    "asset": "asset_dags",
    "build_context": "context",
    "chain": "dependencies",
    "cross_downstream": "dependencies",
    "current_context": "context",
    "get_current_context": "context",
    "literal": "rendering",
    "load_file": "loader",
    "may_define_dags": "loader",
    "send_email": "notifiers",
    "send_webhook": "notifiers",
    "setup": "setup_teardown",
    "task": "taskflow",
    "teardown": "setup_teardown",
    "use_defaults": "settings",
}

__getattr__, __dir__ = imported_on_demand(__name__, _HOMES)

__all__ = [
    "DAG",
    "Asset",
    "AssetAlias",
    "AssetAll",
    "AssetAny",
    "AssetWatcher",
    "AuthoringDefaults",
    "BaseBranchOperator",
    "BaseHook",
    "BaseNotifier",
    "BaseOperator",
    "BaseSensorOperator",
    "BaseTrigger",
    "BashOperator",
    "BashSensor",
    "BranchDateTimeOperator",
    "BranchDayOfWeekOperator",
    "BranchPythonOperator",
    "Connection",
    "Context",
    "DagParam",
    "DagStateTrigger",
    "DateTimeSensor",
    "DateTimeTrigger",
    "DayOfWeekSensor",
    "DeadlineAlert",
    "DeadlineReference",
    "EmailOperator",
    "EmptyOperator",
    "ExternalPythonOperator",
    "ExternalTaskSensor",
    "ExternalTaskTrigger",
    "FileSensor",
    "FileTrigger",
    "HttpOperator",
    "HttpSensor",
    "HttpTrigger",
    "Label",
    "LatestOnlyOperator",
    "LoadedFile",
    "Metadata",
    "Param",
    "ParamsDict",
    "PokeReturnValue",
    "PythonOperator",
    "PythonSensor",
    "PythonVirtualenvOperator",
    "SQLExecuteQueryOperator",
    "ShortCircuitOperator",
    "SmtpNotifier",
    "StartTriggerArgs",
    "TaskFailedEvent",
    "TaskGroup",
    "TaskInstance",
    "TaskSkippedEvent",
    "TaskSuccessEvent",
    "TimeDeltaSensor",
    "TimeDeltaTrigger",
    "TimeSensor",
    "TriggerDagRunOperator",
    "TriggerEvent",
    "Variable",
    "WebhookNotifier",
    "WeekDay",
    "XComArg",
    "asset",
    "build_context",
    "chain",
    "cross_downstream",
    "current_context",
    "get_current_context",
    "literal",
    "load_file",
    "may_define_dags",
    "send_email",
    "send_webhook",
    "setup",
    "task",
    "teardown",
    "use_defaults",
]
