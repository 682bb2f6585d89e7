"""A hundred tasks that only wait, in one process.

A task whose function is `async def` does not hold a process while it waits, so that a hundred calls to slow
services take as long as the slowest of them. `max_active_tasks` is how many of this DAG may be active at once.
"""

import asyncio

import pendulum

from aiosched import dag, task


@dag(
    schedule="@once",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    max_active_tasks=100,
    tags=["example", "async"],
)
def async_fan_out():
    @task
    async def call_service(number: int) -> int:
        await asyncio.sleep(0.5)
        return number * number

    @task
    async def add_up(answers: list[int]) -> int:
        print(f"the answers add up to {sum(answers)}")
        return sum(answers)

    add_up([call_service.override(task_id=f"call_{number}")(number) for number in range(100)])


async_fan_out()
