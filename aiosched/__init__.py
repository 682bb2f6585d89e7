"""The Airflow scheduler, rebuilt for asyncio and PostgreSQL.

What DAG authors and applications import. Each name is imported when it is first used, so
that `import aiosched` is quick and does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosched.lazy import imported_on_demand

if TYPE_CHECKING:
    from aiosched.authoring.asset_dags import asset
    from aiosched.authoring.asset_events import Metadata
    from aiosched.authoring.assets import Asset, AssetAlias, AssetAll, AssetAny, AssetWatcher
    from aiosched.authoring.connections import BaseHook, Connection
    from aiosched.authoring.context import Context, get_current_context
    from aiosched.authoring.dag import DAG
    from aiosched.authoring.deadlines import DeadlineAlert, DeadlineReference
    from aiosched.authoring.decorators import dag, task_group
    from aiosched.authoring.dependencies import Label, chain, cross_downstream
    from aiosched.authoring.groups import TaskGroup
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
    from aiosched.authoring.params import Param
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
    from aiosched.authoring.setup_teardown import setup, teardown
    from aiosched.authoring.start_trigger import StartTriggerArgs
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
    from aiosched.core.graph.trigger_rules import TriggerRule
    from aiosched.core.timetables import CronTriggerTimetable, DeltaTriggerTimetable
    from aiosched.errors import AioschedError, DagError, FailTask, RescheduleTask, SkipTask, TaskDeferred, TaskTimeout
    from aiosched.scheduler import Scheduler

__version__ = "0.1.0"

_HOMES = {
    "AioschedError": "errors",
    "Asset": "authoring.assets",
    "AssetAlias": "authoring.assets",
    "AssetAll": "authoring.assets",
    "AssetAny": "authoring.assets",
    "AssetWatcher": "authoring.assets",
    "BaseBranchOperator": "authoring.operators",
    "BaseHook": "authoring.connections",
    "BaseNotifier": "authoring.notifiers",
    "BaseOperator": "authoring.operator",
    "BaseSensorOperator": "authoring.operators",
    "BaseTrigger": "authoring.triggers",
    "BashOperator": "authoring.operators",
    "BashSensor": "authoring.sensors",
    "BranchDateTimeOperator": "authoring.operators",
    "BranchDayOfWeekOperator": "authoring.operators",
    "BranchPythonOperator": "authoring.operators",
    "Connection": "authoring.connections",
    "Context": "authoring.context",
    "CronTriggerTimetable": "core.timetables",
    "DAG": "authoring.dag",
    "DagError": "errors",
    "DagStateTrigger": "authoring.triggers",
    "DateTimeSensor": "authoring.sensors",
    "DateTimeTrigger": "authoring.triggers",
    "DayOfWeekSensor": "authoring.sensors",
    "DeadlineAlert": "authoring.deadlines",
    "DeadlineReference": "authoring.deadlines",
    "DeltaTriggerTimetable": "core.timetables",
    "EmailOperator": "authoring.operators",
    "EmptyOperator": "authoring.operators",
    "ExternalPythonOperator": "authoring.operators",
    "ExternalTaskSensor": "authoring.sensors",
    "ExternalTaskTrigger": "authoring.triggers",
    "FailTask": "errors",
    "FileSensor": "authoring.sensors",
    "FileTrigger": "authoring.triggers",
    "HttpOperator": "authoring.operators",
    "HttpSensor": "authoring.sensors",
    "HttpTrigger": "authoring.triggers",
    "Label": "authoring.dependencies",
    "LatestOnlyOperator": "authoring.operators",
    "Metadata": "authoring.asset_events",
    "Param": "authoring.params",
    "PokeReturnValue": "authoring.operators",
    "PythonOperator": "authoring.operators",
    "PythonSensor": "authoring.operators",
    "PythonVirtualenvOperator": "authoring.operators",
    "RescheduleTask": "errors",
    "SQLExecuteQueryOperator": "authoring.operators",
    "Scheduler": "scheduler",
    "ShortCircuitOperator": "authoring.operators",
    "SkipTask": "errors",
    "SmtpNotifier": "authoring.notifiers",
    "TaskDeferred": "errors",
    "TaskGroup": "authoring.groups",
    "TaskTimeout": "errors",
    "TimeDeltaSensor": "authoring.sensors",
    "TimeDeltaTrigger": "authoring.triggers",
    "TimeSensor": "authoring.sensors",
    "TriggerDagRunOperator": "authoring.operators",
    "StartTriggerArgs": "authoring.start_trigger",
    "TaskFailedEvent": "authoring.triggers",
    "TaskSkippedEvent": "authoring.triggers",
    "TaskSuccessEvent": "authoring.triggers",
    "TriggerEvent": "authoring.triggers",
    "TriggerRule": "core.graph.trigger_rules",
    "Variable": "authoring.variables",
    "WebhookNotifier": "authoring.notifiers",
    "WeekDay": "authoring.operators",
    "XComArg": "authoring.xcom_arg",
    "asset": "authoring.asset_dags",
    "chain": "authoring.dependencies",
    "cross_downstream": "authoring.dependencies",
    "dag": "authoring.decorators",
    "get_current_context": "authoring.context",
    "literal": "authoring.rendering",
    "send_email": "authoring.notifiers",
    "send_webhook": "authoring.notifiers",
    "setup": "authoring.setup_teardown",
    "task": "authoring.taskflow",
    "task_group": "authoring.decorators",
    "teardown": "authoring.setup_teardown",
}

__getattr__, __dir__ = imported_on_demand(__name__, _HOMES)

__all__ = [
    "DAG",
    "AioschedError",
    "Asset",
    "AssetAlias",
    "AssetAll",
    "AssetAny",
    "AssetWatcher",
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
    "CronTriggerTimetable",
    "DagError",
    "DagStateTrigger",
    "DateTimeSensor",
    "DateTimeTrigger",
    "DayOfWeekSensor",
    "DeadlineAlert",
    "DeadlineReference",
    "DeltaTriggerTimetable",
    "EmailOperator",
    "EmptyOperator",
    "ExternalPythonOperator",
    "ExternalTaskSensor",
    "ExternalTaskTrigger",
    "FailTask",
    "FileSensor",
    "FileTrigger",
    "HttpOperator",
    "HttpSensor",
    "HttpTrigger",
    "Label",
    "LatestOnlyOperator",
    "Metadata",
    "Param",
    "PokeReturnValue",
    "PythonOperator",
    "PythonSensor",
    "PythonVirtualenvOperator",
    "RescheduleTask",
    "SQLExecuteQueryOperator",
    "Scheduler",
    "ShortCircuitOperator",
    "SkipTask",
    "SmtpNotifier",
    "StartTriggerArgs",
    "TaskDeferred",
    "TaskFailedEvent",
    "TaskGroup",
    "TaskSkippedEvent",
    "TaskSuccessEvent",
    "TaskTimeout",
    "TimeDeltaSensor",
    "TimeDeltaTrigger",
    "TimeSensor",
    "TriggerDagRunOperator",
    "TriggerEvent",
    "TriggerRule",
    "Variable",
    "WebhookNotifier",
    "WeekDay",
    "XComArg",
    "__version__",
    "asset",
    "chain",
    "cross_downstream",
    "dag",
    "get_current_context",
    "literal",
    "send_email",
    "send_webhook",
    "setup",
    "task",
    "task_group",
    "teardown",
]
