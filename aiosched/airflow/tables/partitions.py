"""Partitioned assets: timetables, mappers of partition keys, windows and wait policies."""

from __future__ import annotations

from typing import Final

_MAPPERS: Final = "aiosched.core.timetables.key_mappers:"
_WINDOWS: Final = "aiosched.core.timetables.key_windows:"
_TIMETABLES: Final = "aiosched.core.timetables:"

_BASES: Final = {"PartitionMapper": _MAPPERS, "RollupMapper": _MAPPERS}
_PERIODS: Final = {
    "FanOutMapper": _MAPPERS,
    "StartOfDayMapper": _MAPPERS,
    "StartOfHourMapper": _MAPPERS,
    "StartOfMonthMapper": _MAPPERS,
    "StartOfQuarterMapper": _MAPPERS,
    "StartOfWeekMapper": _MAPPERS,
    "StartOfYearMapper": _MAPPERS,
}
_KEYS: Final = {
    "AllowedKeyMapper": _MAPPERS,
    "ChainMapper": _MAPPERS,
    "FixedKeyMapper": _MAPPERS,
    "IdentityMapper": _MAPPERS,
    "ProductMapper": _MAPPERS,
}
_OF_WINDOWS: Final = {
    "DayWindow": _WINDOWS,
    "HourWindow": _WINDOWS,
    "MonthWindow": _WINDOWS,
    "QuarterWindow": _WINDOWS,
    "SegmentWindow": _WINDOWS,
    "WeekWindow": _WINDOWS,
    "Window": _WINDOWS,
    "YearWindow": _WINDOWS,
}
_POLICIES: Final = {"MinimumCount": _WINDOWS, "WaitForAll": _WINDOWS, "WaitPolicy": _WINDOWS}
_ALL: Final = {**_BASES, **_PERIODS, **_KEYS, **_OF_WINDOWS, **_POLICIES}
_CRON: Final = {"CronPartitionTimetable": _TIMETABLES}
_OF_ASSETS: Final = {"PartitionedAssetTimetable": _TIMETABLES, "PartitionedAtRuntime": _TIMETABLES}

_SDK: Final = "airflow.sdk.definitions.partition_mappers"
_CORE: Final = "airflow.partition_mappers"


def _both(part: str, names: dict[str, str]) -> dict[str, dict[str, str]]:
    """The same names in Airflow's core and in its task SDK."""
    return {f"{_CORE}.{part}": names, f"{_SDK}.{part}": names}


NAMES: Final[dict[str, dict[str, str]]] = {
    "airflow.sdk": {**_ALL, **_CRON, **_OF_ASSETS},
    _CORE: _ALL,
    _SDK: _ALL,
    **_both("allowed_key", {"AllowedKeyMapper": _MAPPERS}),
    **_both("base", _BASES),
    **_both("chain", {"ChainMapper": _MAPPERS}),
    **_both("fixed_key", {"FixedKeyMapper": _MAPPERS}),
    **_both("identity", {"IdentityMapper": _MAPPERS}),
    **_both("product", {"ProductMapper": _MAPPERS}),
    **_both("temporal", _PERIODS),
    **_both("wait_policy", _POLICIES),
    **_both("window", _OF_WINDOWS),
    "airflow.sdk.definitions.timetables.assets": _OF_ASSETS,
    "airflow.sdk.definitions.timetables.trigger": _CRON,
    "airflow.timetables.simple": _OF_ASSETS,
    "airflow.timetables.trigger": _CRON,
}
