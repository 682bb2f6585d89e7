"""`DatasetOrTimeSchedule` of Airflow 2."""

from __future__ import annotations

from typing import Any

from aiosched.core.timetables import AssetOrTimeSchedule


def DatasetOrTimeSchedule(*, timetable: Any, datasets: Any) -> AssetOrTimeSchedule:
    """`AssetOrTimeSchedule` under the name, and with the parameter, that Airflow 2 has."""
    return AssetOrTimeSchedule(timetable=timetable, assets=datasets)
