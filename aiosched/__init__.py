"""The Airflow scheduler, rebuilt for asyncio and PostgreSQL.

What DAG authors and applications import. Each name is imported when it is first used, so
that `import aiosched` is quick and does nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiosched.authoring.asset_dags import asset
    from aiosched.authoring.asset_events import Metadata
    from aiosched.authoring.assets import Asset, AssetAlias, AssetAll, AssetAny
    from aiosched.authoring.connections import BaseHook, Connection
    from aiosched.authoring.context import Context, get_current_context
    from aiosched.authoring.dag import DAG
    from aiosched.authoring.decorators import dag, task_group
    from aiosched.authoring.dependencies import Label, chain, cross_downstream
    from aiosched.authoring.groups import TaskGroup
    from aiosched.authoring.operator import BaseOperator
    from aiosched.authoring.operators import (
        BaseSensorOperator,
        BashOperator,
        BranchPythonOperator,
        EmptyOperator,
        PokeReturnValue,
        PythonOperator,
        PythonSensor,
        ShortCircuitOperator,
    )
    from aiosched.authoring.params import Param
    from aiosched.authoring.rendering import literal
    from aiosched.authoring.setup_teardown import setup, teardown
    from aiosched.authoring.taskflow import task
    from aiosched.authoring.variables import Variable
    from aiosched.authoring.xcom_arg import XComArg
    from aiosched.core.timetables import CronTriggerTimetable, DeltaTriggerTimetable
    from aiosched.errors import AioschedError, DagError, FailTask, RescheduleTask, SkipTask, TaskTimeout
    from aiosched.scheduler import Scheduler

__version__ = "0.1.0"

_HOMES = {
    "AioschedError": "errors",
    "Asset": "authoring.assets",
    "AssetAlias": "authoring.assets",
    "AssetAll": "authoring.assets",
    "AssetAny": "authoring.assets",
    "BaseHook": "authoring.connections",
    "BaseOperator": "authoring.operator",
    "BaseSensorOperator": "authoring.operators",
    "BashOperator": "authoring.operators",
    "BranchPythonOperator": "authoring.operators",
    "Connection": "authoring.connections",
    "Context": "authoring.context",
    "CronTriggerTimetable": "core.timetables",
    "DAG": "authoring.dag",
    "DagError": "errors",
    "DeltaTriggerTimetable": "core.timetables",
    "EmptyOperator": "authoring.operators",
    "FailTask": "errors",
    "Label": "authoring.dependencies",
    "Metadata": "authoring.asset_events",
    "Param": "authoring.params",
    "PokeReturnValue": "authoring.operators",
    "PythonOperator": "authoring.operators",
    "PythonSensor": "authoring.operators",
    "RescheduleTask": "errors",
    "Scheduler": "scheduler",
    "ShortCircuitOperator": "authoring.operators",
    "SkipTask": "errors",
    "TaskGroup": "authoring.groups",
    "TaskTimeout": "errors",
    "Variable": "authoring.variables",
    "XComArg": "authoring.xcom_arg",
    "asset": "authoring.asset_dags",
    "chain": "authoring.dependencies",
    "cross_downstream": "authoring.dependencies",
    "dag": "authoring.decorators",
    "get_current_context": "authoring.context",
    "literal": "authoring.rendering",
    "setup": "authoring.setup_teardown",
    "task": "authoring.taskflow",
    "task_group": "authoring.decorators",
    "teardown": "authoring.setup_teardown",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


__all__ = [
    "DAG",
    "AioschedError",
    "Asset",
    "AssetAlias",
    "AssetAll",
    "AssetAny",
    "BaseHook",
    "BaseOperator",
    "BaseSensorOperator",
    "BashOperator",
    "BranchPythonOperator",
    "Connection",
    "Context",
    "CronTriggerTimetable",
    "DagError",
    "DeltaTriggerTimetable",
    "EmptyOperator",
    "FailTask",
    "Label",
    "Metadata",
    "Param",
    "PokeReturnValue",
    "PythonOperator",
    "PythonSensor",
    "RescheduleTask",
    "Scheduler",
    "ShortCircuitOperator",
    "SkipTask",
    "TaskGroup",
    "TaskTimeout",
    "Variable",
    "XComArg",
    "__version__",
    "asset",
    "chain",
    "cross_downstream",
    "dag",
    "get_current_context",
    "literal",
    "setup",
    "task",
    "task_group",
    "teardown",
]
