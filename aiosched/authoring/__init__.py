"""What DAG authors import, and how a DAG becomes a `DagSpec`. A folder imports only those below it.

    decorators/  @task, @dag, @task_group, @setup, @asset     notifiers/   callbacks that send a message
    dag/         the DAG, its groups, its file, its spec      sensors/     tasks that wait
    operators/   what tasks do: Python, bash, SQL, HTTP, …    mapping/     mapped tasks
    tasks/       BaseOperator, its arguments and outputs      assets/      assets and their events
    triggers/    what deferred tasks wait for                 runtime/     what a running task can use
    base/        checks, dates, dependencies, params

Names are imported when they are first used. DAG files import them from `aiosched`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosched.lazy import imported_on_demand

if TYPE_CHECKING:
    from aiosched.authoring.assets.asset_events import Metadata
    from aiosched.authoring.assets.assets import Asset, AssetAlias, AssetAll, AssetAny, AssetWatcher
    from aiosched.authoring.base.dependencies import Label, chain, cross_downstream
    from aiosched.authoring.base.params import DagParam, Param, ParamsDict
    from aiosched.authoring.base.settings import AuthoringDefaults, use_defaults
    from aiosched.authoring.dag.dag import DAG
    from aiosched.authoring.dag.deadlines import DeadlineAlert, DeadlineReference
    from aiosched.authoring.dag.groups import TaskGroup
    from aiosched.authoring.dag.loader import LoadedFile, load_file, may_define_dags
    from aiosched.authoring.decorators.asset_dags import asset
    from aiosched.authoring.decorators.setup_teardown import setup, teardown
    from aiosched.authoring.decorators.taskflow import task
    from aiosched.authoring.notifiers import BaseNotifier, SmtpNotifier, WebhookNotifier, send_email, send_webhook
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
    from aiosched.authoring.runtime.connections import Connection
    from aiosched.authoring.runtime.context import Context, current_context, get_current_context
    from aiosched.authoring.runtime.hooks import BaseHook
    from aiosched.authoring.runtime.task_instance import TaskInstance
    from aiosched.authoring.runtime.variables import Variable
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
    from aiosched.authoring.tasks.operator import BaseOperator
    from aiosched.authoring.tasks.rendering import literal
    from aiosched.authoring.tasks.start_trigger import StartTriggerArgs
    from aiosched.authoring.tasks.task_context import build_context
    from aiosched.authoring.tasks.xcom_arg import XComArg
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

_HOMES = {
    "Asset": "assets.assets",
    "AssetAlias": "assets.assets",
    "AssetAll": "assets.assets",
    "AssetAny": "assets.assets",
    "AssetWatcher": "assets.assets",
    "AuthoringDefaults": "base.settings",
    "BaseBranchOperator": "operators",
    "BaseHook": "runtime.hooks",
    "BaseNotifier": "notifiers",
    "BaseOperator": "tasks.operator",
    "BaseSensorOperator": "operators",
    "BaseTrigger": "triggers",
    "BashOperator": "operators",
    "BashSensor": "sensors",
    "BranchDateTimeOperator": "operators",
    "BranchDayOfWeekOperator": "operators",
    "BranchPythonOperator": "operators",
    "Connection": "runtime.connections",
    "Context": "runtime.context",
    "DAG": "dag.dag",
    "DagParam": "base.params",
    "DagStateTrigger": "triggers",
    "DateTimeSensor": "sensors",
    "DateTimeTrigger": "triggers",
    "DayOfWeekSensor": "sensors",
    "DeadlineAlert": "dag.deadlines",
    "DeadlineReference": "dag.deadlines",
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
    "Label": "base.dependencies",
    "LatestOnlyOperator": "operators",
    "LoadedFile": "dag.loader",
    "Metadata": "assets.asset_events",
    "Param": "base.params",
    "ParamsDict": "base.params",
    "PokeReturnValue": "operators",
    "PythonOperator": "operators",
    "PythonSensor": "operators",
    "PythonVirtualenvOperator": "operators",
    "SQLExecuteQueryOperator": "operators",
    "ShortCircuitOperator": "operators",
    "SmtpNotifier": "notifiers",
    "TaskGroup": "dag.groups",
    "TaskInstance": "runtime.task_instance",
    "TimeDeltaSensor": "sensors",
    "TimeDeltaTrigger": "triggers",
    "TimeSensor": "sensors",
    "TriggerDagRunOperator": "operators",
    "StartTriggerArgs": "tasks.start_trigger",
    "TaskFailedEvent": "triggers",
    "TaskSkippedEvent": "triggers",
    "TaskSuccessEvent": "triggers",
    "TriggerEvent": "triggers",
    "Variable": "runtime.variables",
    "WebhookNotifier": "notifiers",
    "WeekDay": "operators",
    "XComArg": "tasks.xcom_arg",
    "asset": "decorators.asset_dags",
    "build_context": "tasks.task_context",
    "chain": "base.dependencies",
    "cross_downstream": "base.dependencies",
    "current_context": "runtime.context",
    "get_current_context": "runtime.context",
    "literal": "tasks.rendering",
    "load_file": "dag.loader",
    "may_define_dags": "dag.loader",
    "send_email": "notifiers",
    "send_webhook": "notifiers",
    "setup": "decorators.setup_teardown",
    "task": "decorators.taskflow",
    "teardown": "decorators.setup_teardown",
    "use_defaults": "base.settings",
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
