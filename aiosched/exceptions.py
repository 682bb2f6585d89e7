"""Airflow's names for the errors of tasks and DAG files, for DAG files that import them.

`from aiosched.exceptions import AirflowSkipException` is `from aiosched.errors import SkipTask`.
"""

from __future__ import annotations

from aiosched.errors import (
    AioschedError,
    CommandFailed,
    DagCycleError,
    DagError,
    DuplicateTaskError,
    FailTask,
    NotFound,
    ParamError,
    RescheduleTask,
    SensorTimeout,
    SkipTask,
    TaskDeferralError,
    TaskDeferralTimeout,
    TaskDeferred,
    TaskTimeout,
    TimetableError,
)

AirflowException = AioschedError
AirflowSkipException = SkipTask
AirflowFailException = FailTask
AirflowRescheduleException = RescheduleTask
AirflowSensorTimeout = SensorTimeout
AirflowTaskTimeout = TaskTimeout
AirflowNotFoundException = NotFound
AirflowDagCycleException = DagCycleError
AirflowTimetableInvalid = TimetableError
DuplicateTaskIdFound = DuplicateTaskError
ParamValidationError = ParamError
TaskNotFound = NotFound

__all__ = [
    "AioschedError",
    "AirflowDagCycleException",
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowRescheduleException",
    "AirflowSensorTimeout",
    "AirflowSkipException",
    "AirflowTaskTimeout",
    "AirflowTimetableInvalid",
    "CommandFailed",
    "DagCycleError",
    "DagError",
    "DuplicateTaskError",
    "DuplicateTaskIdFound",
    "FailTask",
    "NotFound",
    "ParamError",
    "ParamValidationError",
    "RescheduleTask",
    "SensorTimeout",
    "SkipTask",
    "TaskDeferralError",
    "TaskDeferralTimeout",
    "TaskDeferred",
    "TaskNotFound",
    "TaskTimeout",
    "TimetableError",
]
