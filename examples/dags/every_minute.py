"""Hello, once a minute: the smallest DAG with a cron schedule.

The run of 12:00 is about the minute from 12:00 to 12:01 and starts when that minute is over. With
`catchup=False` only the latest complete minute is run after a pause, not all that were missed.
"""

import pendulum

from aiosched import dag, task


@dag(
    schedule="* * * * *",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    tags=["example"],
)
def every_minute():
    @task
    def hello(data_interval_start=None, data_interval_end=None):
        print(f"hello from {data_interval_start} to {data_interval_end}")
        return "hello"

    @task
    async def world(greeting: str):
        print(greeting, "world")

    world(hello())


every_minute()
