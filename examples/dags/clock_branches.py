"""Go one way or another by the date, and do some work for the latest run only.

`BranchDateTimeOperator` and `BranchDayOfWeekOperator` decide by now or by the logical date. `LatestOnlyOperator` skips
what follows it in runs that catch up: an old run should load its data, but send no mail.
"""

import pendulum

from aiosched import DAG, BranchDateTimeOperator, LatestOnlyOperator, task

with DAG(
    "clock_branches",
    schedule="@once",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    tags=["example"],
):

    @task
    def old_warehouse() -> None: ...

    @task
    def new_warehouse() -> str:
        return "loaded"

    @task(trigger_rule="none_failed_min_one_success")
    def loaded() -> None: ...

    @task
    def send_mail() -> None: ...

    moved = BranchDateTimeOperator(
        task_id="moved",
        follow_task_ids_if_true="new_warehouse",
        follow_task_ids_if_false="old_warehouse",
        target_lower=pendulum.datetime(2024, 6, 1, tz="UTC"),
        target_upper=None,
        use_task_logical_date=True,
    )
    moved >> [old_warehouse(), new_warehouse()] >> loaded() >> LatestOnlyOperator(task_id="newest") >> send_mail()
