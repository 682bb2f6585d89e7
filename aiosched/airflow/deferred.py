"""Sensors of Airflow 2 that have a name of their own for `deferrable=True`."""

from __future__ import annotations

from typing import Any

from aiosched.authoring.sensors import DateTimeSensor, TimeDeltaSensor, TimeSensor


class DateTimeSensorAsync(DateTimeSensor):
    """`DateTimeSensor(deferrable=True)`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"deferrable": True, **kwargs})


class TimeDeltaSensorAsync(TimeDeltaSensor):
    """`TimeDeltaSensor(deferrable=True)`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"deferrable": True, **kwargs})


class TimeSensorAsync(TimeSensor):
    """`TimeSensor(deferrable=True)`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"deferrable": True, **kwargs})
