"""Sensors: tasks that wait for something outside. The base class is in operators/sensor.py.

filesystem.py  files                  temporal.py  moments, spans of time, days of the week
external.py    tasks of other DAGs    bash.py      a command that succeeds
http.py        a server that answers
"""

from aiosched.authoring.operators.sensor import BaseSensorOperator, PokeReturnValue, PythonSensor
from aiosched.authoring.sensors.bash import BashSensor
from aiosched.authoring.sensors.external import ExternalTaskFailed, ExternalTaskSensor
from aiosched.authoring.sensors.filesystem import FileSensor
from aiosched.authoring.sensors.http import HttpSensor
from aiosched.authoring.sensors.temporal import DateTimeSensor, DayOfWeekSensor, TimeDeltaSensor, TimeSensor

__all__ = [
    "BaseSensorOperator",
    "BashSensor",
    "DateTimeSensor",
    "DayOfWeekSensor",
    "ExternalTaskFailed",
    "ExternalTaskSensor",
    "FileSensor",
    "HttpSensor",
    "PokeReturnValue",
    "PythonSensor",
    "TimeDeltaSensor",
    "TimeSensor",
]
