"""A report when a task is late: `sla` of a task and `sla_miss_callback` of a DAG, as Airflow 1.10 had them.

A task is late for a date of the schedule when that date plus its `sla` has passed, and the task has not been done
for the date before. The callback is called once for all misses that were not reported yet; tasks with an `email` get a
mail, too. It runs in a worker, and the runs go on as if nothing had happened. What was late stays to be seen:

    aiosched dags show slas
"""

from datetime import timedelta

import pendulum

from aiosched import DAG, task


def late(dag, task_list, blocking_task_list, slas, blocking_tis) -> None:
    print(f"late in {dag.dag_id}: {[miss.task_id for miss in slas]}")
    print(f"not done yet: {blocking_task_list or 'nothing'}")


with DAG(
    "slas",
    schedule="@hourly",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    sla_miss_callback=late,
    tags=["example"],
):

    @task(sla=timedelta(minutes=20))
    def load() -> int:
        return 3

    @task(sla=timedelta(minutes=45))
    def publish(rows: int) -> None:
        print(f"{rows} rows are public")

    publish(load())
