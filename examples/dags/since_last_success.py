"""Taking up where the last success ended: `prev_data_interval_end_success` and its kin.

They tell of the run with the latest earlier logical date that succeeded, and are None in the first run. So what a
failed run has left undone is done by the next one, whatever the schedule. The scheduler is asked only for tasks that
read them.
"""

import pendulum

from aiosched import DAG, BashOperator, task

with DAG(
    "since_last_success",
    schedule="@daily",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    tags=["example"],
):

    @task
    async def load(data_interval_end, prev_data_interval_end_success=None) -> str:
        since = prev_data_interval_end_success or pendulum.datetime(2025, 1, 1, tz="UTC")
        return f"rows from {since:%Y-%m-%d} to {data_interval_end:%Y-%m-%d}"

    report = BashOperator(
        task_id="report",
        bash_command="echo the run before ended at {{ prev_end_date_success or 'no time' }}",
    )

    load() >> report
