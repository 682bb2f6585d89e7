"""Partitions: runs that are about one hour, one day or one region of their assets.

`partitions_load` runs every hour for the hour before; its key is that hour, and the task also makes a partition for
each of two regions. `partitions_day` gets a run a day: it begins with the first hour that arrives, instead of waiting
for all 24 with a RollupMapper. `partitions_region` gets one run for each region. Try `aiosched why partitions_day`,
`aiosched assets emit measurements --partition-key 2026-01-05T10:00:00` and
`aiosched dags trigger partitions_load --partition-key 2026-01-05T10:00:00`.
"""

import pendulum

from aiosched import (
    AllowedKeyMapper,
    Asset,
    CronPartitionTimetable,
    DayWindow,
    MinimumCount,
    PartitionedAssetTimetable,
    RollupMapper,
    StartOfDayMapper,
    dag,
    task,
)

START = pendulum.datetime(2025, 1, 1, tz="UTC")

measurements = Asset("measurements", uri="s3://weather/measurements")
regions = Asset("measurements_by_region", uri="s3://weather/regions")

first_hour_of_a_day = RollupMapper(upstream_mapper=StartOfDayMapper(), window=DayWindow(), wait_policy=MinimumCount(1))


@dag(
    schedule=CronPartitionTimetable("0 * * * *", timezone="UTC", run_offset=-1),
    start_date=START,
    catchup=False,
    tags=["example", "assets"],
)
def partitions_load():
    @task(outlets=[measurements, regions])
    def load(partition_key, outlet_events):
        print(f"reading {partition_key}")
        outlet_events[regions].add_partitions(["north", "south"])

    load()


@dag(
    schedule=PartitionedAssetTimetable(assets=measurements, default_partition_mapper=first_hour_of_a_day),
    start_date=START,
    catchup=False,
    tags=["example", "assets"],
)
def partitions_day():
    @task
    def summarize(dag_run):
        print(f"summary of {dag_run.partition_key}, which begins at {dag_run.partition_date}")

    summarize()


@dag(
    schedule=PartitionedAssetTimetable(assets=regions, default_partition_mapper=AllowedKeyMapper(["north", "south"])),
    start_date=START,
    catchup=False,
    tags=["example", "assets"],
)
def partitions_region():
    @task
    def draw(partition_key):
        print(f"a map of the {partition_key}")

    draw()


partitions_load()
partitions_day()
partitions_region()
