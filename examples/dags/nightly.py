"""Every night at half past two in Amsterdam, also in the nights when the clock changes.

`CronTriggerTimetable` starts a run at its tick. (A cron string as `schedule` means an interval instead: the run
starts when the period that it is about has ended.) In spring, when half past two does not exist, the run starts
at the tick of that day all the same; in autumn, when it happens twice, there is one run and not two. See the ticks:

    aiosched dags next nightly -n 3 --tz Europe/Amsterdam
"""

from datetime import timedelta

import pendulum

from aiosched import DAG, task
from aiosched.timetables import CronTriggerTimetable

with DAG(
    "nightly",
    schedule=CronTriggerTimetable("30 2 * * *", timezone="Europe/Amsterdam"),
    start_date=pendulum.datetime(2025, 1, 1, tz="Europe/Amsterdam"),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=2),
    tags=["example", "nightly"],
):

    @task
    def snapshot(logical_date=None) -> str:
        night = pendulum.instance(logical_date).in_timezone("Europe/Amsterdam")
        return f"snapshot-{night:YYYY-MM-DD}"

    @task
    def verify(name: str) -> None:
        print(f"{name} is complete")

    verify(snapshot())
