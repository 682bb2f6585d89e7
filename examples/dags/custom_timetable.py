"""A timetable of your own: a run after each working day, about that day.

The timetable is asked for its calendar when this file is parsed, some weeks ahead, and parsing goes on asking:
the scheduler itself never runs code of a DAG file. Its answers must depend on nothing but their arguments.
"""

from datetime import datetime, timedelta

import pendulum

from aiosched import DAG, task
from aiosched.timetables import DagRunInfo, DataInterval, TimeRestriction, Timetable

DAY = timedelta(days=1)


class AfterWorkday(Timetable):
    description = "after each working day"

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        if last_automated_data_interval is not None:
            day = last_automated_data_interval.end
        else:
            day = restriction.earliest.start_of("day")
        while day.weekday() >= 5:
            day += DAY
        return DagRunInfo.interval(day, day + DAY)

    def infer_manual_data_interval(self, *, run_after: datetime) -> DataInterval:
        day = run_after.replace(hour=0, minute=0, second=0, microsecond=0) - DAY
        while day.weekday() >= 5:
            day -= DAY
        return DataInterval(day, day + DAY)


with DAG(
    "custom_timetable",
    schedule=AfterWorkday(),
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    tags=["example"],
):

    @task
    def summarise(data_interval_start: datetime | None = None) -> None:
        print(f"what happened on {data_interval_start:%A, %d %B %Y}")

    summarise()
