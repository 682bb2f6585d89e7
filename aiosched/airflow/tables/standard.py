"""Operators, sensors and triggers of `airflow.providers.standard`, and their modules in Airflow 2 and 1.10."""

from __future__ import annotations

from typing import Final

_BASH: Final = {"BashOperator": "aiosched:BashOperator"}
_BRANCH: Final = {"BaseBranchOperator": "aiosched:BaseBranchOperator"}
_DATETIME: Final = {"BranchDateTimeOperator": "aiosched:BranchDateTimeOperator"}
_EMPTY: Final = {"DummyOperator": "aiosched:EmptyOperator", "EmptyOperator": "aiosched:EmptyOperator"}
_LATEST: Final = {"LatestOnlyOperator": "aiosched:LatestOnlyOperator"}
_PYTHON: Final = {
    "BranchPythonOperator": "aiosched:BranchPythonOperator",
    "ExternalPythonOperator": "aiosched:ExternalPythonOperator",
    "PythonOperator": "aiosched:PythonOperator",
    "PythonVirtualenvOperator": "aiosched:PythonVirtualenvOperator",
    "ShortCircuitOperator": "aiosched:ShortCircuitOperator",
    "get_current_context": "aiosched:get_current_context",
    "is_venv_installed": "aiosched.airflow.utils.environments:is_venv_installed",
}
_SUBDAG: Final = {
    "SkippedStatePropagationOptions": "aiosched.airflow.subdags:SkippedStatePropagationOptions",
    "SubDagOperator": "aiosched.airflow.subdags:SubDagOperator",
}
_TRIGGER: Final = {"TriggerDagRunOperator": "aiosched:TriggerDagRunOperator"}
_WEEKDAY: Final = {"BranchDayOfWeekOperator": "aiosched:BranchDayOfWeekOperator"}
_SENSOR: Final = {"BaseSensorOperator": "aiosched:BaseSensorOperator", "PokeReturnValue": "aiosched:PokeReturnValue"}
_EXTERNAL: Final = {"ExternalTaskSensor": "aiosched:ExternalTaskSensor"}
_FILE: Final = {"FileSensor": "aiosched:FileSensor"}
_MOMENT: Final = {
    "DateTimeSensor": "aiosched:DateTimeSensor",
    "DateTimeSensorAsync": "aiosched.airflow.deferred:DateTimeSensorAsync",
}
_TIME: Final = {"TimeSensor": "aiosched:TimeSensor", "TimeSensorAsync": "aiosched.airflow.deferred:TimeSensorAsync"}
_DELTA: Final = {
    "TimeDeltaSensor": "aiosched:TimeDeltaSensor",
    "TimeDeltaSensorAsync": "aiosched.airflow.deferred:TimeDeltaSensorAsync",
}
_DAY: Final = {"DayOfWeekSensor": "aiosched:DayOfWeekSensor"}
_PYTHON_SENSOR: Final = {"PythonSensor": "aiosched:PythonSensor"}

NAMES: Final[dict[str, dict[str, str]]] = {
    # Airflow 3
    "airflow.providers.standard.operators.bash": _BASH,
    "airflow.providers.standard.operators.branch": _BRANCH,
    "airflow.providers.standard.operators.datetime": _DATETIME,
    "airflow.providers.standard.operators.empty": _EMPTY,
    "airflow.providers.standard.operators.latest_only": _LATEST,
    "airflow.providers.standard.operators.python": _PYTHON,
    "airflow.providers.standard.operators.smooth": {"SmoothOperator": "aiosched:EmptyOperator"},
    "airflow.providers.standard.operators.trigger_dagrun": _TRIGGER,
    "airflow.providers.standard.operators.weekday": _WEEKDAY,
    "airflow.providers.standard.sensors.bash": {"BashSensor": "aiosched:BashSensor"},
    "airflow.providers.standard.sensors.date_time": _MOMENT,
    "airflow.providers.standard.sensors.external_task": _EXTERNAL,
    "airflow.providers.standard.sensors.filesystem": _FILE,
    "airflow.providers.standard.sensors.python": _PYTHON_SENSOR,
    "airflow.providers.standard.sensors.time": _TIME,
    "airflow.providers.standard.sensors.time_delta": _DELTA,
    "airflow.providers.standard.sensors.weekday": _DAY,
    "airflow.providers.standard.triggers.external_task": {
        "DagStateTrigger": "aiosched:DagStateTrigger",
        "WorkflowTrigger": "aiosched:ExternalTaskTrigger",
    },
    "airflow.providers.standard.triggers.file": {"FileTrigger": "aiosched:FileTrigger"},
    "airflow.providers.standard.triggers.temporal": {
        "DateTimeTrigger": "aiosched:DateTimeTrigger",
        "TimeDeltaTrigger": "aiosched:TimeDeltaTrigger",
    },
    "airflow.providers.standard.utils.weekday": {"WeekDay": "aiosched:WeekDay"},
    # Airflow 2
    "airflow.operators.bash": _BASH,
    "airflow.operators.branch": _BRANCH,
    "airflow.operators.datetime": _DATETIME,
    "airflow.operators.dummy": _EMPTY,
    "airflow.operators.email": {"EmailOperator": "aiosched:EmailOperator"},
    "airflow.operators.empty": _EMPTY,
    "airflow.operators.latest_only": _LATEST,
    "airflow.operators.python": {**_PYTHON, "task": "aiosched:task"},
    "airflow.operators.smooth": {"SmoothOperator": "aiosched:EmptyOperator"},
    "airflow.operators.subdag": _SUBDAG,
    "airflow.operators.trigger_dagrun": _TRIGGER,
    "airflow.operators.weekday": _WEEKDAY,
    "airflow.sensors.base": _SENSOR,
    "airflow.sensors.bash": {"BashSensor": "aiosched:BashSensor"},
    "airflow.sensors.date_time": _MOMENT,
    "airflow.sensors.external_task": _EXTERNAL,
    "airflow.sensors.filesystem": _FILE,
    "airflow.sensors.python": _PYTHON_SENSOR,
    "airflow.sensors.time": _TIME,
    "airflow.sensors.time_delta": _DELTA,
    "airflow.sensors.time_sensor": _TIME,
    "airflow.sensors.weekday": _DAY,
    # Airflow 1.10
    "airflow.operators": {
        **_BASH,
        **_EMPTY,
        **_LATEST,
        **_PYTHON,
        **_SUBDAG,
        **_TRIGGER,
        "EmailOperator": "aiosched:EmailOperator",
    },
    "airflow.operators.bash_operator": _BASH,
    "airflow.operators.branch_operator": _BRANCH,
    "airflow.operators.dagrun_operator": {
        **_TRIGGER,
        "DagRunOrder": "aiosched.airflow.dag_run_order:DagRunOrder",
    },
    "airflow.operators.dummy_operator": _EMPTY,
    "airflow.operators.email_operator": {"EmailOperator": "aiosched:EmailOperator"},
    "airflow.operators.latest_only_operator": _LATEST,
    "airflow.operators.python_operator": _PYTHON,
    "airflow.operators.subdag_operator": _SUBDAG,
    "airflow.sensors.base_sensor_operator": _SENSOR,
    "airflow.sensors.date_time_sensor": _MOMENT,
    "airflow.sensors.external_task_sensor": _EXTERNAL,
    "airflow.sensors.time_delta_sensor": _DELTA,
    "airflow.contrib.sensors.bash_sensor": {"BashSensor": "aiosched:BashSensor"},
    "airflow.contrib.sensors.file_sensor": _FILE,
    "airflow.contrib.sensors.python_sensor": _PYTHON_SENSOR,
    "airflow.contrib.sensors.weekday_sensor": _DAY,
    "airflow.contrib.utils.weekday": {"WeekDay": "aiosched:WeekDay"},
}
