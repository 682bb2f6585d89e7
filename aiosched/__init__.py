"""The Airflow scheduler, rebuilt for asyncio and PostgreSQL.

The public names for DAG authors and applications. Each name is imported on first use, so that `import aiosched` is fast
and has no side effects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosched.lazy import imported_on_demand, provide
from aiosched.version import __version__

if TYPE_CHECKING:
    from aiosched.authoring.assets.asset_events import Metadata
    from aiosched.authoring.assets.assets import Asset, AssetAccessControl, AssetAlias, AssetAll, AssetAny, AssetWatcher
    from aiosched.authoring.assets.check_results import CheckResult
    from aiosched.authoring.assets.state_stores import NEVER_EXPIRE
    from aiosched.authoring.base.dependencies import Label, chain, cross_downstream
    from aiosched.authoring.base.params import Param
    from aiosched.authoring.dag.dag import DAG
    from aiosched.authoring.dag.deadlines import DeadlineAlert, DeadlineReference
    from aiosched.authoring.dag.groups import TaskGroup
    from aiosched.authoring.decorators.asset_checks import asset_check
    from aiosched.authoring.decorators.asset_dags import asset
    from aiosched.authoring.decorators.dags import dag, task_group
    from aiosched.authoring.decorators.setup_teardown import setup, teardown
    from aiosched.authoring.decorators.taskflow import task
    from aiosched.authoring.notifiers import BaseNotifier, SmtpNotifier, WebhookNotifier, send_email, send_webhook
    from aiosched.authoring.operators import BaseOperator
    from aiosched.authoring.operators.bash import BashOperator
    from aiosched.authoring.operators.branching import (
        BaseBranchOperator,
        BranchDateTimeOperator,
        BranchDayOfWeekOperator,
        LatestOnlyOperator,
    )
    from aiosched.authoring.operators.email import EmailOperator
    from aiosched.authoring.operators.empty import EmptyOperator
    from aiosched.authoring.operators.http import HttpOperator
    from aiosched.authoring.operators.human_input import (
        ApprovalOperator,
        HITLBranchOperator,
        HITLEntryOperator,
        HITLOperator,
    )
    from aiosched.authoring.operators.python import BranchPythonOperator, PythonOperator, ShortCircuitOperator
    from aiosched.authoring.operators.python_env import (
        BranchExternalPythonOperator,
        BranchPythonVirtualenvOperator,
        ExternalPythonOperator,
        PythonVirtualenvOperator,
    )
    from aiosched.authoring.operators.sensor import BaseSensorOperator, PokeReturnValue, PythonSensor
    from aiosched.authoring.operators.sql import SQLExecuteQueryOperator
    from aiosched.authoring.operators.trigger_dagrun import TriggerDagRunOperator
    from aiosched.authoring.operators.weekdays import WeekDay
    from aiosched.authoring.plugins.base import Plugin
    from aiosched.authoring.plugins.listeners import hookimpl
    from aiosched.authoring.runtime.connections import Connection
    from aiosched.authoring.runtime.context import Context, get_current_context
    from aiosched.authoring.runtime.hooks import BaseHook
    from aiosched.authoring.runtime.object_storage import ObjectStoragePath
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
    from aiosched.core.graph.trigger_rules import TriggerRule
    from aiosched.core.timetables import (
        CronPartitionTimetable,
        CronTriggerTimetable,
        DeltaTriggerTimetable,
        PartitionedAssetTimetable,
        PartitionedAtRuntime,
    )
    from aiosched.core.timetables.key_mappers import (
        AllowedKeyMapper,
        ChainMapper,
        FanOutMapper,
        FixedKeyMapper,
        IdentityMapper,
        PartitionMapper,
        ProductMapper,
        RollupMapper,
        StartOfDayMapper,
        StartOfHourMapper,
        StartOfMonthMapper,
        StartOfQuarterMapper,
        StartOfWeekMapper,
        StartOfYearMapper,
    )
    from aiosched.core.timetables.key_windows import (
        DayWindow,
        HourWindow,
        MinimumCount,
        MonthWindow,
        QuarterWindow,
        SegmentWindow,
        WaitForAll,
        WeekWindow,
        Window,
        YearWindow,
    )
    from aiosched.errors import AioschedError, DagError, FailTask, RescheduleTask, SkipTask, TaskDeferred, TaskTimeout
    from aiosched.scheduler import Scheduler
    from aiosched.transactional import enqueue, enqueue_many

_MODULES = {
    "authoring.assets.asset_events": "Metadata",
    "authoring.assets.assets": "Asset AssetAccessControl AssetAlias AssetAll AssetAny AssetWatcher",
    "authoring.assets.check_results": "CheckResult",
    "authoring.assets.state_stores": "NEVER_EXPIRE",
    "authoring.base.dependencies": "Label chain cross_downstream",
    "authoring.base.params": "Param",
    "authoring.dag.dag": "DAG",
    "authoring.dag.deadlines": "DeadlineAlert DeadlineReference",
    "authoring.dag.groups": "TaskGroup",
    "authoring.decorators.asset_checks": "asset_check",
    "authoring.decorators.asset_dags": "asset",
    "authoring.decorators.dags": "dag task_group",
    "authoring.decorators.setup_teardown": "setup teardown",
    "authoring.decorators.taskflow": "task",
    "authoring.notifiers": "BaseNotifier SmtpNotifier WebhookNotifier send_email send_webhook",
    "authoring.operators": "BaseOperator",
    "authoring.operators.bash": "BashOperator",
    "authoring.operators.branching": (
        "BaseBranchOperator BranchDateTimeOperator BranchDayOfWeekOperator LatestOnlyOperator"
    ),
    "authoring.operators.email": "EmailOperator",
    "authoring.operators.empty": "EmptyOperator",
    "authoring.operators.http": "HttpOperator",
    "authoring.operators.human_input": "ApprovalOperator HITLBranchOperator HITLEntryOperator HITLOperator",
    "authoring.operators.python": "BranchPythonOperator PythonOperator ShortCircuitOperator",
    "authoring.operators.python_env": (
        "BranchExternalPythonOperator BranchPythonVirtualenvOperator ExternalPythonOperator PythonVirtualenvOperator"
    ),
    "authoring.operators.sensor": "BaseSensorOperator PokeReturnValue PythonSensor",
    "authoring.operators.sql": "SQLExecuteQueryOperator",
    "authoring.operators.trigger_dagrun": "TriggerDagRunOperator",
    "authoring.operators.weekdays": "WeekDay",
    "authoring.plugins.base": "Plugin",
    "authoring.plugins.listeners": "hookimpl",
    "authoring.runtime.connections": "Connection",
    "authoring.runtime.context": "Context get_current_context",
    "authoring.runtime.hooks": "BaseHook",
    "authoring.runtime.object_storage": "ObjectStoragePath",
    "authoring.runtime.variables": "Variable",
    "authoring.runtime.xcom_values": "register_codec",
    "authoring.sensors": (
        "BashSensor DateTimeSensor DayOfWeekSensor ExternalTaskMarker ExternalTaskSensor FileSensor HttpSensor "
        "TimeDeltaSensor TimeSensor"
    ),
    "authoring.tasks.rendering": "literal",
    "authoring.tasks.retry_policies": "ExceptionRetryPolicy RetryAction RetryDecision RetryPolicy RetryRule",
    "authoring.tasks.start_trigger": "StartTriggerArgs",
    "authoring.tasks.weight_strategies": "PriorityWeightStrategy",
    "authoring.tasks.xcom_arg": "XComArg",
    "authoring.triggers": (
        "BaseTrigger DagStateTrigger DateTimeTrigger DirectoryFileDeleteTrigger ExternalTaskTrigger FileDeleteTrigger "
        "FileTrigger HttpTrigger TaskFailedEvent TaskSkippedEvent TaskSuccessEvent TimeDeltaTrigger TriggerEvent"
    ),
    "core.graph.trigger_rules": "TriggerRule",
    "core.timetables": (
        "CronPartitionTimetable CronTriggerTimetable DeltaTriggerTimetable PartitionedAssetTimetable "
        "PartitionedAtRuntime"
    ),
    "core.timetables.key_mappers": (
        "AllowedKeyMapper ChainMapper FanOutMapper FixedKeyMapper IdentityMapper PartitionMapper ProductMapper "
        "RollupMapper StartOfDayMapper StartOfHourMapper StartOfMonthMapper StartOfQuarterMapper StartOfWeekMapper "
        "StartOfYearMapper"
    ),
    "core.timetables.key_windows": (
        "DayWindow HourWindow MinimumCount MonthWindow QuarterWindow SegmentWindow WaitForAll WeekWindow Window "
        "YearWindow"
    ),
    "errors": "AioschedError DagError FailTask RescheduleTask SkipTask TaskDeferred TaskTimeout",
    "scheduler": "Scheduler",
    "transactional": "enqueue enqueue_many",
}

__getattr__, __dir__ = imported_on_demand(__name__, _MODULES)

provide("aiosched.authoring.runtime.object_storage", "path_of_data")  # for values of tasks
provide("aiosched.executors.dag_test", "run_dag_test")  # for DAG.test
provide("aiosched.testing.airflow_dag_bag", "DagBag")  # for tests of Airflow projects
provide("aiosched.testing.airflow_dag_bag", "FileLoadStat")
provide("aiosched.testing.airflow_runs", "TestedInstance")
provide("aiosched.testing.airflow_database", "empty_database")  # for sessions of tests
provide("aiosched.testing.airflow_database", "row_class")
provide("aiosched.testing.airflow_database", "services_of_tests")
provide("aiosched.testing.airflow_database", "session_of_tests")
provide("aiosched.testing.airflow_runs", "create_dagrun")  # for DAG.create_dagrun
provide("aiosched.testing.airflow_runs", "run_task")  # for BaseOperator.run
provide("aiosched.web.embedded", "web_app")  # for Scheduler.web_app

__all__ = [
    "DAG",
    "NEVER_EXPIRE",
    "AioschedError",
    "AllowedKeyMapper",
    "ApprovalOperator",
    "Asset",
    "AssetAccessControl",
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
    "BranchExternalPythonOperator",
    "BranchPythonOperator",
    "BranchPythonVirtualenvOperator",
    "ChainMapper",
    "CheckResult",
    "Connection",
    "Context",
    "CronPartitionTimetable",
    "CronTriggerTimetable",
    "DagError",
    "DagStateTrigger",
    "DateTimeSensor",
    "DateTimeTrigger",
    "DayOfWeekSensor",
    "DayWindow",
    "DeadlineAlert",
    "DeadlineReference",
    "DeltaTriggerTimetable",
    "DirectoryFileDeleteTrigger",
    "EmailOperator",
    "EmptyOperator",
    "ExceptionRetryPolicy",
    "ExternalPythonOperator",
    "ExternalTaskMarker",
    "ExternalTaskSensor",
    "ExternalTaskTrigger",
    "FailTask",
    "FanOutMapper",
    "FileDeleteTrigger",
    "FileSensor",
    "FileTrigger",
    "FixedKeyMapper",
    "HITLBranchOperator",
    "HITLEntryOperator",
    "HITLOperator",
    "HourWindow",
    "HttpOperator",
    "HttpSensor",
    "HttpTrigger",
    "IdentityMapper",
    "Label",
    "LatestOnlyOperator",
    "Metadata",
    "MinimumCount",
    "MonthWindow",
    "ObjectStoragePath",
    "Param",
    "PartitionMapper",
    "PartitionedAssetTimetable",
    "PartitionedAtRuntime",
    "Plugin",
    "PokeReturnValue",
    "PriorityWeightStrategy",
    "ProductMapper",
    "PythonOperator",
    "PythonSensor",
    "PythonVirtualenvOperator",
    "QuarterWindow",
    "RescheduleTask",
    "RetryAction",
    "RetryDecision",
    "RetryPolicy",
    "RetryRule",
    "RollupMapper",
    "SQLExecuteQueryOperator",
    "Scheduler",
    "SegmentWindow",
    "ShortCircuitOperator",
    "SkipTask",
    "SmtpNotifier",
    "StartOfDayMapper",
    "StartOfHourMapper",
    "StartOfMonthMapper",
    "StartOfQuarterMapper",
    "StartOfWeekMapper",
    "StartOfYearMapper",
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
    "WaitForAll",
    "WebhookNotifier",
    "WeekDay",
    "WeekWindow",
    "Window",
    "XComArg",
    "YearWindow",
    "__version__",
    "asset",
    "asset_check",
    "chain",
    "cross_downstream",
    "dag",
    "enqueue",
    "enqueue_many",
    "get_current_context",
    "hookimpl",
    "literal",
    "register_codec",
    "send_email",
    "send_webhook",
    "setup",
    "task",
    "task_group",
    "teardown",
]
