"""Sensors: tasks that wait for a condition. The base class is in operators/sensor.py.

filesystem.py  files                  temporal.py  instants, durations, days of the week
external.py    tasks of other DAGs    bash.py      a command that succeeds
http.py        an HTTP response       external_marker.py  what is cleared in other DAGs
"""

from aiosched.authoring.operators.sensor import BaseSensorOperator, PokeReturnValue, PythonSensor
from aiosched.authoring.sensors.bash import BashSensor
from aiosched.authoring.sensors.external import ExternalTaskFailed, ExternalTaskSensor
from aiosched.authoring.sensors.external_marker import ExternalTaskMarker
from aiosched.authoring.sensors.filesystem import FileSensor
from aiosched.authoring.sensors.http import HttpSensor
from aiosched.authoring.sensors.temporal import DateTimeSensor, DayOfWeekSensor, TimeDeltaSensor, TimeSensor

__all__ = [
    "BaseSensorOperator",
    "BashSensor",
    "DateTimeSensor",
    "DayOfWeekSensor",
    "ExternalTaskFailed",
    "ExternalTaskMarker",
    "ExternalTaskSensor",
    "FileSensor",
    "HttpSensor",
    "PokeReturnValue",
    "PythonSensor",
    "TimeDeltaSensor",
    "TimeSensor",
]
