"""Authors' classes that derive from Airflow's timetables of data intervals."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from aiosched.core.timetables import CronDataIntervalTimetable
from aiosched.core.timetables.custom import CustomTimetable
from tests.airflow.airflow_builders import one_dag

HEAD = """
from datetime import datetime, timedelta
from airflow import DAG
from airflow.timetables.base import DagRunInfo, DataInterval
from airflow.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable

class Late(CronDataIntervalTimetable):
    def __init__(self, cron, timezone, delay):
        super().__init__(cron, timezone=timezone)
        self._delay = delay

    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        info = super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )
        return None if info is None else DagRunInfo(info.run_after + self._delay, info.data_interval)

class Hourly(DeltaDataIntervalTimetable):
    def __init__(self):
        super().__init__(timedelta(hours=1))

START = datetime(2026, 1, 1)
"""
NOW = datetime(2026, 1, 3, 12, tzinfo=UTC)


def runs(folder: Path, schedule: str) -> list[tuple[datetime, datetime, datetime]]:
    dag = one_dag(folder, f"{HEAD}dag = DAG('d', schedule={schedule}, start_date=START, catchup=True)\n")
    timetable = dag.to_spec(now=NOW).timetable
    assert isinstance(timetable, CustomTimetable)
    return [(run.run_after, run.start, run.end) for run in timetable.runs[:3]]


def test_the_runs_are_those_of_the_base_but_for_what_is_overridden(tmp_path: Path) -> None:
    days = [datetime(2026, 1, day, 5, tzinfo=UTC) for day in range(1, 5)]  # midnight in New York

    found = runs(tmp_path, "Late('0 0 * * *', 'America/New_York', timedelta(hours=2))")

    assert found == [(end.replace(hour=7), start, end) for start, end in pairwise(days)]


def test_a_length_of_intervals_is_derived_from_too(tmp_path: Path) -> None:
    first, *_ = runs(tmp_path, "Hourly()")

    begin, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, tzinfo=UTC)
    assert first == (end, begin, end)


def test_the_class_itself_makes_ours_and_helpers_find_ticks(tmp_path: Path) -> None:
    code = (
        HEAD
        + """
from datetime import timezone
plain = CronDataIntervalTimetable("0 0 * * *", "UTC")
assert isinstance(plain, CronDataIntervalTimetable) and not isinstance(plain, DeltaDataIntervalTimetable)
late = Late("0 0 * * *", "UTC", timedelta(0))
assert isinstance(late, CronDataIntervalTimetable)
noon, day = datetime(2026, 1, 2, 12, tzinfo=timezone.utc), datetime(2026, 1, 2, tzinfo=timezone.utc)
assert (late._get_next(noon), late._get_prev(noon)) == (day + timedelta(1), day)
assert (late._align_to_next(day), late._align_to_prev(day), late._align_to_next(noon)) == (day, day, day + timedelta(1))
assert late.infer_manual_data_interval(run_after=noon) == DataInterval(day - timedelta(1), day)
dag = DAG("d", schedule=plain, start_date=START)
"""
    )

    assert isinstance(one_dag(tmp_path, code).timetable, CronDataIntervalTimetable)


def test_the_condition_of_a_timetable_of_assets_has_airflows_name(tmp_path: Path) -> None:
    lines = [
        "from airflow import DAG",
        "from airflow.sdk import Asset",
        "from airflow.timetables.simple import AssetTriggeredTimetable",
        "with DAG('d', schedule=AssetTriggeredTimetable(Asset('a') | Asset('b'))) as dag: ...",
    ]
    dag = one_dag(tmp_path, "\n".join(lines))

    assert dag.timetable.asset_condition == dag.timetable.condition
    assert str(dag.timetable.asset_condition) == dag.timetable.summary
