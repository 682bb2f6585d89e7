"""What DAG authors import, and how a DAG becomes a `DagSpec`. A folder imports only those below it.

    decorators/  @task, @dag, @task_group, @setup, @asset     notifiers/   callbacks that send a message
    dag/         the DAG, its groups, its file, its spec      sensors/     tasks that wait
    operators/   what tasks do: Python, bash, SQL, HTTP, …    mapping/     mapped tasks
    tasks/       BaseOperator, its arguments and outputs      assets/      assets and their events
    triggers/    what deferred tasks wait for                 runtime/     what a running task can use
    base/        checks, dates, dependencies, params      plugins/     macros and listeners of all DAGs

Names are imported when they are first used. DAG files import them from `aiosched`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosched.lazy import imported_on_demand

if TYPE_CHECKING:
    from aiosched.authoring.assets.asset_events import Metadata
    from aiosched.authoring.assets.assets import Asset, AssetAccessControl, AssetAlias, AssetAll, AssetAny, AssetWatcher
    from aiosched.authoring.assets.state_stores import NEVER_EXPIRE
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
        BaseOperator,
        BaseSensorOperator,
        BashOperator,
        BranchDateTimeOperator,
        BranchDayOfWeekOperator,
        BranchExternalPythonOperator,
        BranchPythonOperator,
        BranchPythonVirtualenvOperator,
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
    from aiosched.authoring.plugins.base import Plugin
    from aiosched.authoring.plugins.listeners import hookimpl
    from aiosched.authoring.runtime.connections import Connection
    from aiosched.authoring.runtime.context import Context, current_context, get_current_context
    from aiosched.authoring.runtime.hooks import BaseHook
    from aiosched.authoring.runtime.object_storage import ObjectStoragePath
    from aiosched.authoring.runtime.task_instance import TaskInstance
    from aiosched.authoring.runtime.variables import Variable
    from aiosched.authoring.runtime.xcom_values import register_codec
    from aiosched.authoring.sensors import (
        BashSensor,
        DateTimeSensor,
        DayOfWeekSensor,
        ExternalTaskMarker,
        ExternalTaskSensor,
        FileSensor,
        HttpSensor,
        TimeDeltaSensor,
        TimeSensor,
    )
    from aiosched.authoring.tasks.rendering import literal
    from aiosched.authoring.tasks.retry_policies import (
        ExceptionRetryPolicy,
        RetryAction,
        RetryDecision,
        RetryPolicy,
        RetryRule,
    )
    from aiosched.authoring.tasks.start_trigger import StartTriggerArgs
    from aiosched.authoring.tasks.task_context import build_context
    from aiosched.authoring.tasks.weight_strategies import PriorityWeightStrategy
    from aiosched.authoring.tasks.xcom_arg import XComArg
    from aiosched.authoring.triggers import (
        BaseTrigger,
        DagStateTrigger,
        DateTimeTrigger,
        DirectoryFileDeleteTrigger,
        ExternalTaskTrigger,
        FileDeleteTrigger,
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
    "AssetAccessControl": "assets.assets",
    "AssetAlias": "assets.assets",
    "AssetAll": "assets.assets",
    "AssetAny": "assets.assets",
    "AssetWatcher": "assets.assets",
    "AuthoringDefaults": "base.settings",
    "BaseBranchOperator": "operators",
    "BaseHook": "runtime.hooks",
    "BaseNotifier": "notifiers",
    "BaseOperator": "operators",
    "BaseSensorOperator": "operators",
    "BaseTrigger": "triggers",
    "BashOperator": "operators",
    "BashSensor": "sensors",
    "BranchDateTimeOperator": "operators",
    "BranchDayOfWeekOperator": "operators",
    "BranchExternalPythonOperator": "operators",
    "BranchPythonOperator": "operators",
    "BranchPythonVirtualenvOperator": "operators",
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
    "DirectoryFileDeleteTrigger": "triggers",
    "EmailOperator": "operators",
    "EmptyOperator": "operators",
    "ExceptionRetryPolicy": "tasks.retry_policies",
    "ExternalPythonOperator": "operators",
    "ExternalTaskMarker": "sensors",
    "ExternalTaskSensor": "sensors",
    "ExternalTaskTrigger": "triggers",
    "FileDeleteTrigger": "triggers",
    "FileSensor": "sensors",
    "FileTrigger": "triggers",
    "HttpOperator": "operators",
    "HttpSensor": "sensors",
    "HttpTrigger": "triggers",
    "Label": "base.dependencies",
    "LatestOnlyOperator": "operators",
    "LoadedFile": "dag.loader",
    "Metadata": "assets.asset_events",
    "NEVER_EXPIRE": "assets.state_stores",
    "ObjectStoragePath": "runtime.object_storage",
    "Param": "base.params",
    "ParamsDict": "base.params",
    "Plugin": "plugins.base",
    "PokeReturnValue": "operators",
    "PriorityWeightStrategy": "tasks.weight_strategies",
    "PythonOperator": "operators",
    "PythonSensor": "operators",
    "PythonVirtualenvOperator": "operators",
    "RetryAction": "tasks.retry_policies",
    "RetryDecision": "tasks.retry_policies",
    "RetryPolicy": "tasks.retry_policies",
    "RetryRule": "tasks.retry_policies",
    "SQLExecuteQueryOperator": "operators",
    "ShortCircuitOperator": "operators",
    "SmtpNotifier": "notifiers",
    "StartTriggerArgs": "tasks.start_trigger",
    "TaskFailedEvent": "triggers",
    "TaskGroup": "dag.groups",
    "TaskInstance": "runtime.task_instance",
    "TaskSkippedEvent": "triggers",
    "TaskSuccessEvent": "triggers",
    "TimeDeltaSensor": "sensors",
    "TimeDeltaTrigger": "triggers",
    "TimeSensor": "sensors",
    "TriggerDagRunOperator": "operators",
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
    "hookimpl": "plugins.listeners",
    "literal": "tasks.rendering",
    "load_file": "dag.loader",
    "may_define_dags": "dag.loader",
    "register_codec": "runtime.xcom_values",
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
    "NEVER_EXPIRE",
    "Asset",
    "AssetAccessControl",
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
    "BranchExternalPythonOperator",
    "BranchPythonOperator",
    "BranchPythonVirtualenvOperator",
    "Connection",
    "Context",
    "DagParam",
    "DagStateTrigger",
    "DateTimeSensor",
    "DateTimeTrigger",
    "DayOfWeekSensor",
    "DeadlineAlert",
    "DeadlineReference",
    "DirectoryFileDeleteTrigger",
    "EmailOperator",
    "EmptyOperator",
    "ExceptionRetryPolicy",
    "ExternalPythonOperator",
    "ExternalTaskMarker",
    "ExternalTaskSensor",
    "ExternalTaskTrigger",
    "FileDeleteTrigger",
    "FileSensor",
    "FileTrigger",
    "HttpOperator",
    "HttpSensor",
    "HttpTrigger",
    "Label",
    "LatestOnlyOperator",
    "LoadedFile",
    "Metadata",
    "ObjectStoragePath",
    "Param",
    "ParamsDict",
    "Plugin",
    "PokeReturnValue",
    "PriorityWeightStrategy",
    "PythonOperator",
    "PythonSensor",
    "PythonVirtualenvOperator",
    "RetryAction",
    "RetryDecision",
    "RetryPolicy",
    "RetryRule",
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
    "hookimpl",
    "literal",
    "load_file",
    "may_define_dags",
    "register_codec",
    "send_email",
    "send_webhook",
    "setup",
    "task",
    "teardown",
    "use_defaults",
]
