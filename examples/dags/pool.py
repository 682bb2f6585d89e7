"""Eight tasks that want the same thing, and a pool that lets four have it at a time.

A pool is a number of slots that tasks of all DAGs share. Every installation has `default_pool` with 128 slots;
each copy below takes 32 of them, so four run side by side. For a pool of its own, create it once

    aiosched pools set warehouse 4

and write `pool="warehouse"` below, without `pool_slots`. With `--rate 100/min` no more than 100 tasks start in any
minute. When the pool is full, the task with the highest
priority goes first; `aiosched pools list` shows who holds what.
"""

import pendulum

from aiosched import DAG, BashOperator

with DAG(
    "pool",
    schedule="@once",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    tags=["example"],
):
    for number in range(8):
        BashOperator(
            task_id=f"copy_table_{number}",
            bash_command="sleep 0.5; echo copied",
            pool="default_pool",
            pool_slots=32,
            priority_weight=8 - number,
            weight_rule="absolute",
        )
