"""Operators that need nothing but this package.

python.py    functions, branches, short circuits      bash.py     shell commands
empty.py     tasks that do nothing                    sensor.py   tasks that wait for something
"""

from aiosched.authoring.operators.bash import BashOperator
from aiosched.authoring.operators.empty import EmptyOperator
from aiosched.authoring.operators.python import BranchPythonOperator, PythonOperator, ShortCircuitOperator
from aiosched.authoring.operators.sensor import BaseSensorOperator, PokeReturnValue, PythonSensor

__all__ = [
    "BaseSensorOperator",
    "BashOperator",
    "BranchPythonOperator",
    "EmptyOperator",
    "PokeReturnValue",
    "PythonOperator",
    "PythonSensor",
    "ShortCircuitOperator",
]
