"""The core of Airflow 2 and 1.10: `airflow`, its models, decorators, exceptions, timetables, datasets and `utils`."""

from __future__ import annotations

from typing import Final

from aiosched.airflow.tables.sdk import NAMES as SDK

_DAG: Final = {"DAG": "aiosched:DAG", "dag": "aiosched:dag"}
_OPERATOR: Final = {
    "BaseOperator": "aiosched:BaseOperator",
    "chain": "aiosched:chain",
    "chain_linear": "aiosched.airflow.utils.helpers:chain_linear",
    "cross_downstream": "aiosched:cross_downstream",
}
_EXCEPTIONS: Final = {
    **SDK["airflow.sdk.exceptions"],
    "AirflowDagDuplicatedIdException": "aiosched.exceptions:DuplicateTaskIdFound",
}
_DATASETS: Final = {
    "Dataset": "aiosched:Asset",
    "DatasetAlias": "aiosched:AssetAlias",
    "DatasetAll": "aiosched:AssetAll",
    "DatasetAny": "aiosched:AssetAny",
}
_STATES: Final = {
    "DagRunState": "aiosched.airflow.utils.state:DagRunState",
    "State": "aiosched.airflow.utils.state:StateNames",
    "TaskInstanceState": "aiosched.airflow.utils.state:TaskInstanceState",
}
_CONTEXT: Final = {"Context": "aiosched:Context", "get_current_context": "aiosched:get_current_context"}
_TIMETABLE_BASE: Final = {
    name: f"aiosched.timetables:{name}" for name in ("DagRunInfo", "DataInterval", "TimeRestriction", "Timetable")
}

NAMES: Final[dict[str, dict[str, str]]] = {
    "airflow": {
        "AirflowException": "aiosched.exceptions:AirflowException",
        "Asset": "aiosched:Asset",
        "DAG": "aiosched:DAG",
        "Dataset": "aiosched:Asset",
        "XComArg": "aiosched:XComArg",
        "__version__": "aiosched.airflow.version:version",
        "conf": "aiosched.airflow.configuration:conf",
    },
    "airflow.assets": {**_DATASETS, "Asset": "aiosched:Asset"},
    "airflow.configuration": {
        name: f"aiosched.airflow.configuration:{name}"
        for name in ("AIRFLOW_HOME", "as_dict", "conf", "get", "getboolean", "getfloat", "getint", "getlist")
    },
    "airflow.datasets": _DATASETS,
    "airflow.datasets.metadata": {"Metadata": "aiosched:Metadata"},
    "airflow.decorators": {
        **SDK["airflow.sdk.definitions.decorators"],
        "TaskDecorator": "aiosched.authoring.decorators.taskflow:TaskDecorator",
    },
    "airflow.exceptions": _EXCEPTIONS,
    "airflow.hooks.base": {"BaseHook": "aiosched:BaseHook"},
    "airflow.hooks.base_hook": {"BaseHook": "aiosched:BaseHook"},
    "airflow.macros": {"*": "aiosched.authoring.runtime.macros"},
    "airflow.models": {
        **_OPERATOR,
        "Connection": "aiosched:Connection",
        "DAG": "aiosched:DAG",
        "Param": "aiosched:Param",
        "TaskInstance": "aiosched.authoring:TaskInstance",
        "Variable": "aiosched:Variable",
    },
    "airflow.models.abstractoperator": {"AbstractOperator": "aiosched:BaseOperator"},
    "airflow.models.asset": {**_DATASETS, "Asset": "aiosched:Asset"},
    "airflow.models.baseoperator": _OPERATOR,
    "airflow.models.connection": {"Connection": "aiosched:Connection"},
    "airflow.models.dag": _DAG,
    "airflow.models.dagparam": {"DagParam": "aiosched.authoring:DagParam"},
    "airflow.models.dagrun": {"DagRun": "aiosched.authoring.runtime.context:DagRun"},
    "airflow.models.dataset": _DATASETS,
    "airflow.models.operator": {"Operator": "aiosched:BaseOperator"},
    "airflow.models.param": SDK["airflow.sdk.definitions.param"],
    "airflow.models.taskinstance": {
        "clear_task_instances": "aiosched.airflow.utils.clearing:clear_task_instances",
        "TaskInstance": "aiosched.authoring:TaskInstance",
        "get_current_context": "aiosched:get_current_context",
    },
    "airflow.models.variable": {"Variable": "aiosched:Variable"},
    "airflow.models.xcom_arg": {"XComArg": "aiosched:XComArg"},
    "airflow.notifications.basenotifier": {"BaseNotifier": "aiosched:BaseNotifier"},
    "airflow.security.permissions": {"*": "aiosched.airflow.utils.permissions"},
    "airflow.security": {
        "kerberos": "aiosched.airflow.utils.kerberos",
        "permissions": "aiosched.airflow.utils.permissions",
        "utils": "aiosched.airflow.utils.security",
    },
    "airflow.security.kerberos": {
        "get_kerberos_principal": "aiosched.airflow.utils.kerberos:get_kerberos_principal",
        "renew_from_kt": "aiosched.airflow.utils.kerberos:renew_from_kt",
    },
    "airflow.security.utils": {"*": "aiosched.airflow.utils.security"},
    "airflow.settings": {
        "AIRFLOW_HOME": "aiosched.airflow.configuration:AIRFLOW_HOME",
        "DAGS_FOLDER": "aiosched.airflow.configuration:DAGS_FOLDER",
        "TIMEZONE": "aiosched.airflow.utils.timezone:utc",
    },
    "airflow.timetables.assets": {"AssetOrTimeSchedule": "aiosched.timetables:AssetOrTimeSchedule"},
    "airflow.timetables.base": _TIMETABLE_BASE,
    "airflow.timetables.datasets": {"DatasetOrTimeSchedule": "aiosched.airflow.datasets:DatasetOrTimeSchedule"},
    "airflow.timetables.events": SDK["airflow.sdk.definitions.timetables.events"],
    "airflow.timetables.interval": SDK["airflow.sdk.definitions.timetables.interval"],
    "airflow.timetables.simple": {
        **SDK["airflow.sdk.definitions.timetables.simple"],
        "AssetTriggeredTimetable": "aiosched.timetables:AssetTriggeredTimetable",
        "DatasetTriggeredTimetable": "aiosched.timetables:AssetTriggeredTimetable",
    },
    "airflow.timetables.trigger": SDK["airflow.sdk.definitions.timetables.trigger"],
    "airflow.triggers.base": {
        name: f"aiosched.triggers:{name}"
        for name in (
            "BaseTrigger",
            "StartTriggerArgs",
            "TaskFailedEvent",
            "TaskSkippedEvent",
            "TaskSuccessEvent",
            "TriggerEvent",
        )
    },
    "airflow.triggers.external_task": {
        "DagStateTrigger": "aiosched:DagStateTrigger",
        "WorkflowTrigger": "aiosched:ExternalTaskTrigger",
    },
    "airflow.triggers.file": {"FileTrigger": "aiosched:FileTrigger"},
    "airflow.triggers.temporal": {
        "DateTimeTrigger": "aiosched:DateTimeTrigger",
        "TimeDeltaTrigger": "aiosched:TimeDeltaTrigger",
    },
    "airflow.typing_compat": {
        name: f"typing:{name}"
        for name in ("Literal", "ParamSpec", "Protocol", "Self", "TypedDict", "runtime_checkable")
    },
    "airflow.utils.context": _CONTEXT,
    "airflow.utils.dag_parsing_context": {
        "get_parsing_context": "aiosched.airflow.utils.parsing:get_parsing_context",
    },
    "airflow.utils.dates": {"*": "aiosched.airflow.utils.dates"},
    "airflow.utils.decorators": {"apply_defaults": "aiosched.airflow.utils.decorators:apply_defaults"},
    "airflow.utils.edgemodifier": SDK["airflow.sdk.definitions.edges"],
    "airflow.utils.email": {
        "send_email": "aiosched.airflow.utils.email:send_email",
        "send_email_smtp": "aiosched.airflow.utils.email:send_email",
    },
    "airflow.utils.helpers": {
        "chain": "aiosched:chain",
        "cross_downstream": "aiosched:cross_downstream",
    },
    "airflow.utils.state": _STATES,
    "airflow.utils.strings": {"*": "aiosched.airflow.utils.strings"},
    "airflow.utils.task_group": {"TaskGroup": "aiosched:TaskGroup"},
    "airflow.utils.template": {"literal": "aiosched:literal"},
    "airflow.utils.timezone": {"*": "aiosched.airflow.utils.timezone"},
    "airflow.utils.trigger_rule": {"TriggerRule": "aiosched:TriggerRule"},
    "airflow.utils.types": {"DagRunType": "aiosched.core.values.states:RunType"},
    "airflow.utils.weekday": {"WeekDay": "aiosched:WeekDay"},
    "airflow.utils.weight_rule": {"WeightRule": "aiosched.core.graph.weights:WeightRule"},
    "airflow.version": {"version": "aiosched.airflow.version:version"},
}
