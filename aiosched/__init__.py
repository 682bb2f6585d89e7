"""The Airflow scheduler, rebuilt for asyncio and PostgreSQL.

The public names for DAG authors and applications. Each name is imported on first use, so that `import aiosched` is fast
and has no side effects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosched.lazy import imported_on_demand

if TYPE_CHECKING:
    from aiosched.authoring.assets.asset_events import Metadata
    from aiosched.authoring.assets.assets import Asset, AssetAlias, AssetAll, AssetAny, AssetWatcher
    from aiosched.authoring.base.dependencies import Label, chain, cross_downstream
    from aiosched.authoring.base.params import Param
    from aiosched.authoring.dag.dag import DAG
    from aiosched.authoring.dag.deadlines import DeadlineAlert, DeadlineReference
    from aiosched.authoring.dag.groups import TaskGroup
    from aiosched.authoring.decorators.asset_dags import asset
    from aiosched.authoring.decorators.dags import dag, task_group
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
    from aiosched.authoring.runtime.context import Context, get_current_context
    from aiosched.authoring.runtime.hooks import BaseHook
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
    from aiosched.core.graph.trigger_rules import TriggerRule
    from aiosched.core.timetables import CronTriggerTimetable, DeltaTriggerTimetable
    from aiosched.errors import AioschedError, DagError, FailTask, RescheduleTask, SkipTask, TaskDeferred, TaskTimeout
    from aiosched.scheduler import Scheduler

__version__ = "0.1.0"

_HOMES = {
    "AioschedError": "errors",
    "Asset": "authoring.assets.assets",
    "AssetAlias": "authoring.assets.assets",
    "AssetAll": "authoring.assets.assets",
    "AssetAny": "authoring.assets.assets",
    "AssetWatcher": "authoring.assets.assets",
    "BaseBranchOperator": "authoring.operators",
    "BaseHook": "authoring.runtime.hooks",
    "BaseNotifier": "authoring.notifiers",
    "BaseOperator": "authoring.tasks.operator",
    "BaseSensorOperator": "authoring.operators",
    "BaseTrigger": "authoring.triggers",
    "BashOperator": "authoring.operators",
    "BashSensor": "authoring.sensors",
    "BranchDateTimeOperator": "authoring.operators",
    "BranchDayOfWeekOperator": "authoring.operators",
    "BranchPythonOperator": "authoring.operators",
    "Connection": "authoring.runtime.connections",
    "Context": "authoring.runtime.context",
    "CronTriggerTimetable": "core.timetables",
    "DAG": "authoring.dag.dag",
    "DagError": "errors",
    "DagStateTrigger": "authoring.triggers",
    "DateTimeSensor": "authoring.sensors",
    "DateTimeTrigger": "authoring.triggers",
    "DayOfWeekSensor": "authoring.sensors",
    "DeadlineAlert": "authoring.dag.deadlines",
    "DeadlineReference": "authoring.dag.deadlines",
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
    "Label": "authoring.base.dependencies",
    "LatestOnlyOperator": "authoring.operators",
    "Metadata": "authoring.assets.asset_events",
    "Param": "authoring.base.params",
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
    "TaskGroup": "authoring.dag.groups",
    "TaskTimeout": "errors",
    "TimeDeltaSensor": "authoring.sensors",
    "TimeDeltaTrigger": "authoring.triggers",
    "TimeSensor": "authoring.sensors",
    "TriggerDagRunOperator": "authoring.operators",
    "StartTriggerArgs": "authoring.tasks.start_trigger",
    "TaskFailedEvent": "authoring.triggers",
    "TaskSkippedEvent": "authoring.triggers",
    "TaskSuccessEvent": "authoring.triggers",
    "TriggerEvent": "authoring.triggers",
    "TriggerRule": "core.graph.trigger_rules",
    "Variable": "authoring.runtime.variables",
    "WebhookNotifier": "authoring.notifiers",
    "WeekDay": "authoring.operators",
    "XComArg": "authoring.tasks.xcom_arg",
    "asset": "authoring.decorators.asset_dags",
    "chain": "authoring.base.dependencies",
    "cross_downstream": "authoring.base.dependencies",
    "dag": "authoring.decorators.dags",
    "get_current_context": "authoring.runtime.context",
    "literal": "authoring.tasks.rendering",
    "send_email": "authoring.notifiers",
    "send_webhook": "authoring.notifiers",
    "setup": "authoring.decorators.setup_teardown",
    "task": "authoring.decorators.taskflow",
    "task_group": "authoring.decorators.dags",
    "teardown": "authoring.decorators.setup_teardown",
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
