"""One of several ways, and the place where they meet again.

`choose` returns the id of the task to follow; the others are skipped. The join would be skipped with
them under the default rule `all_success`, so it says `none_failed_min_one_success`.
"""

import pendulum

from aiosched import DAG, EmptyOperator, task

with DAG(
    "branching",
    schedule="@once",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    tags=["example"],
):

    @task
    def measure() -> int:
        return 17

    @task.branch
    def choose(celsius: int) -> str:
        if celsius < 10:
            return "heat"
        return "rest" if celsius < 25 else "cool"

    join = EmptyOperator(task_id="join", trigger_rule="none_failed_min_one_success")

    choice = choose(measure())
    for way in ("heat", "rest", "cool"):
        choice >> EmptyOperator(task_id=way) >> join
