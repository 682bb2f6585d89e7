"""`airflow.sdk` of Airflow 3, and the modules below it that authors and provider packages name."""

from __future__ import annotations

from typing import Final

_ASSETS: Final = {
    name: f"aiosched:{name}" for name in ("Asset", "AssetAlias", "AssetAll", "AssetAny", "AssetWatcher", "Metadata")
}
_TIMETABLES: Final = {
    name: f"aiosched.timetables:{name}"
    for name in (
        "AssetOrTimeSchedule",
        "CronDataIntervalTimetable",
        "CronTriggerTimetable",
        "DeltaDataIntervalTimetable",
        "DeltaTriggerTimetable",
        "EventsTimetable",
        "MultipleCronTriggerTimetable",
    )
}
_DECORATORS: Final = {name: f"aiosched:{name}" for name in ("setup", "task", "task_group", "teardown")}
_EXCEPTIONS: Final = {
    name: f"aiosched.exceptions:{name}"
    for name in (
        "AirflowDagCycleException",
        "AirflowException",
        "AirflowFailException",
        "AirflowNotFoundException",
        "AirflowRescheduleException",
        "AirflowSensorTimeout",
        "AirflowSkipException",
        "AirflowTaskTimeout",
        "AirflowTimetableInvalid",
        "DuplicateTaskIdFound",
        "ParamValidationError",
        "TaskDeferralError",
        "TaskDeferred",
        "TaskNotFound",
    )
}
_STATES: Final = {
    "DagRunState": "aiosched.airflow.utils.state:DagRunState",
    "TaskInstanceState": "aiosched.airflow.utils.state:TaskInstanceState",
    "TriggerRule": "aiosched:TriggerRule",
    "WeightRule": "aiosched.core.graph.weights:WeightRule",
}

NAMES: Final[dict[str, dict[str, str]]] = {
    "airflow.sdk": {
        **_ASSETS,
        **_TIMETABLES,
        **_DECORATORS,
        **_STATES,
        "BaseBranchOperator": "aiosched:BaseBranchOperator",
        "BaseHook": "aiosched:BaseHook",
        "BaseNotifier": "aiosched:BaseNotifier",
        "BaseOperator": "aiosched:BaseOperator",
        "BaseSensorOperator": "aiosched:BaseSensorOperator",
        "Connection": "aiosched:Connection",
        "Context": "aiosched:Context",
        "DAG": "aiosched:DAG",
        "DeadlineAlert": "aiosched:DeadlineAlert",
        "DeadlineReference": "aiosched:DeadlineReference",
        "EdgeModifier": "aiosched:Label",
        "Label": "aiosched:Label",
        "Param": "aiosched:Param",
        "ParamsDict": "aiosched.authoring:ParamsDict",
        "PokeReturnValue": "aiosched:PokeReturnValue",
        "TaskGroup": "aiosched:TaskGroup",
        "TaskInstance": "aiosched.authoring:TaskInstance",
        "Variable": "aiosched:Variable",
        "XComArg": "aiosched:XComArg",
        "asset": "aiosched:asset",
        "chain": "aiosched:chain",
        "chain_linear": "aiosched.airflow.utils.helpers:chain_linear",
        "conf": "aiosched.airflow.configuration:conf",
        "cross_downstream": "aiosched:cross_downstream",
        "dag": "aiosched:dag",
        "get_current_context": "aiosched:get_current_context",
        "get_parsing_context": "aiosched.airflow.utils.parsing:get_parsing_context",
        "literal": "aiosched:literal",
        "macros": "aiosched.authoring.runtime.macros",
        "timezone": "aiosched.airflow.utils.timezone",
    },
    "airflow.sdk.bases.branch": {"BaseBranchOperator": "aiosched:BaseBranchOperator"},
    "airflow.sdk.bases.decorator": {"TaskDecorator": "aiosched.authoring.decorators.taskflow:TaskDecorator"},
    "airflow.sdk.bases.hook": {"BaseHook": "aiosched:BaseHook"},
    "airflow.sdk.bases.notifier": {"BaseNotifier": "aiosched:BaseNotifier"},
    "airflow.sdk.bases.operator": {
        "BaseOperator": "aiosched:BaseOperator",
        "chain": "aiosched:chain",
        "chain_linear": "aiosched.airflow.utils.helpers:chain_linear",
        "cross_downstream": "aiosched:cross_downstream",
    },
    "airflow.sdk.bases.sensor": {
        "BaseSensorOperator": "aiosched:BaseSensorOperator",
        "PokeReturnValue": "aiosched:PokeReturnValue",
    },
    "airflow.sdk.bases.timetable": {"BaseTimetable": "aiosched.timetables:Timetable"},
    "airflow.sdk.configuration": {"conf": "aiosched.airflow.configuration:conf"},
    "airflow.sdk.definitions.asset": {**_ASSETS, "Dataset": "aiosched:Asset"},
    "airflow.sdk.definitions.asset.decorators": {"asset": "aiosched:asset"},
    "airflow.sdk.definitions.asset.metadata": {"Metadata": "aiosched:Metadata"},
    "airflow.sdk.definitions.connection": {"Connection": "aiosched:Connection"},
    "airflow.sdk.definitions.context": {
        "Context": "aiosched:Context",
        "get_current_context": "aiosched:get_current_context",
        "get_parsing_context": "aiosched.airflow.utils.parsing:get_parsing_context",
    },
    "airflow.sdk.definitions.dag": {"DAG": "aiosched:DAG", "dag": "aiosched:dag"},
    "airflow.sdk.definitions.deadline": {
        "DeadlineAlert": "aiosched:DeadlineAlert",
        "DeadlineReference": "aiosched:DeadlineReference",
    },
    "airflow.sdk.definitions.decorators": {**_DECORATORS, "dag": "aiosched:dag"},
    "airflow.sdk.definitions.edges": {"EdgeModifier": "aiosched:Label", "Label": "aiosched:Label"},
    "airflow.sdk.definitions.param": {"Param": "aiosched:Param", "ParamsDict": "aiosched.authoring:ParamsDict"},
    "airflow.sdk.definitions.taskgroup": {"TaskGroup": "aiosched:TaskGroup"},
    "airflow.sdk.definitions.template": {"literal": "aiosched:literal"},
    "airflow.sdk.definitions.timetables.assets": {
        "AssetOrTimeSchedule": "aiosched.timetables:AssetOrTimeSchedule",
        "AssetTriggeredTimetable": "aiosched.timetables:AssetTriggeredTimetable",
    },
    "airflow.sdk.definitions.timetables.events": {"EventsTimetable": "aiosched.timetables:EventsTimetable"},
    "airflow.sdk.definitions.timetables.interval": {
        "CronDataIntervalTimetable": "aiosched.timetables:CronDataIntervalTimetable",
        "DeltaDataIntervalTimetable": "aiosched.timetables:DeltaDataIntervalTimetable",
    },
    "airflow.sdk.definitions.timetables.simple": {
        "ContinuousTimetable": "aiosched.timetables:ContinuousTimetable",
        "NullTimetable": "aiosched.timetables:NullTimetable",
        "OnceTimetable": "aiosched.timetables:OnceTimetable",
    },
    "airflow.sdk.definitions.timetables.trigger": {
        "CronTriggerTimetable": "aiosched.timetables:CronTriggerTimetable",
        "DeltaTriggerTimetable": "aiosched.timetables:DeltaTriggerTimetable",
        "MultipleCronTriggerTimetable": "aiosched.timetables:MultipleCronTriggerTimetable",
    },
    "airflow.sdk.definitions.variable": {"Variable": "aiosched:Variable"},
    "airflow.sdk.definitions.xcom_arg": {"XComArg": "aiosched:XComArg"},
    "airflow.sdk.exceptions": _EXCEPTIONS,
    "airflow.sdk.execution_time.context": {"get_current_context": "aiosched:get_current_context"},
    "airflow.sdk.execution_time.macros": {"*": "aiosched.authoring.runtime.macros"},
    "airflow.sdk.execution_time.task_runner": {"RuntimeTaskInstance": "aiosched.authoring:TaskInstance"},
    "airflow.sdk.timezone": {"*": "aiosched.airflow.utils.timezone"},
    "airflow.sdk.types": {"RuntimeTaskInstanceProtocol": "aiosched.authoring:TaskInstance"},
}
