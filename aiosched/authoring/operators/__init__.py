"""Operators.

python.py     functions, branches, short circuits      python_env.py      functions with another interpreter
bash.py       shell commands                           trigger_dagrun.py  runs of other DAGs
empty.py      tasks that do nothing                    branching.py       branches by date and time, latest only
sensor.py     the base class of sensors                sql.py             SQL on any database
http.py       requests                                 email.py           mails
human_input.py  answers of people
stub.py       tasks that something else does

They use subprocesses.py (commands), venvs.py (virtual environments) and weekdays.py.
Names are imported when they are first used; what makes mapped tasks of operators comes with the first of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiosched.authoring.mapping import mapped  # noqa: F401 - gives operators their `partial`
from aiosched.authoring.tasks.operator import BaseOperator
from aiosched.lazy import imported_on_demand

if TYPE_CHECKING:
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

_HOMES = {
    "ApprovalOperator": "human_input",
    "BaseBranchOperator": "branching",
    "BaseSensorOperator": "sensor",
    "BashOperator": "bash",
    "BranchDateTimeOperator": "branching",
    "BranchDayOfWeekOperator": "branching",
    "BranchExternalPythonOperator": "python_env",
    "BranchPythonOperator": "python",
    "BranchPythonVirtualenvOperator": "python_env",
    "EmailOperator": "email",
    "EmptyOperator": "empty",
    "ExternalPythonOperator": "python_env",
    "HITLBranchOperator": "human_input",
    "HITLEntryOperator": "human_input",
    "HITLOperator": "human_input",
    "HttpOperator": "http",
    "LatestOnlyOperator": "branching",
    "PokeReturnValue": "sensor",
    "PythonOperator": "python",
    "PythonSensor": "sensor",
    "PythonVirtualenvOperator": "python_env",
    "SQLExecuteQueryOperator": "sql",
    "ShortCircuitOperator": "python",
    "TriggerDagRunOperator": "trigger_dagrun",
    "WeekDay": "weekdays",
}

__getattr__, __dir__ = imported_on_demand(__name__, _HOMES)

__all__ = [
    "ApprovalOperator",
    "BaseBranchOperator",
    "BaseOperator",
    "BaseSensorOperator",
    "BashOperator",
    "BranchDateTimeOperator",
    "BranchDayOfWeekOperator",
    "BranchExternalPythonOperator",
    "BranchPythonOperator",
    "BranchPythonVirtualenvOperator",
    "EmailOperator",
    "EmptyOperator",
    "ExternalPythonOperator",
    "HITLBranchOperator",
    "HITLEntryOperator",
    "HITLOperator",
    "HttpOperator",
    "LatestOnlyOperator",
    "PokeReturnValue",
    "PythonOperator",
    "PythonSensor",
    "PythonVirtualenvOperator",
    "SQLExecuteQueryOperator",
    "ShortCircuitOperator",
    "TriggerDagRunOperator",
    "WeekDay",
]
