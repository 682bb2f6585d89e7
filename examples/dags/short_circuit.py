"""Go on only if it is worth it.

When the condition of a short circuit is false, everything behind it is skipped and the run still succeeds. With
`ignore_downstream_trigger_rules=False` only its direct neighbours are skipped, so that `tidy_up` with the
rule `all_done` runs in any case.
"""

import pendulum

from aiosched import DAG, BashOperator, PythonOperator, ShortCircuitOperator


def count_new_rows() -> int:
    return 0


with DAG(
    "short_circuit",
    schedule="@once",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    tags=["example"],
):
    any_news = ShortCircuitOperator(
        task_id="any_news",
        python_callable=lambda: count_new_rows() > 0,
        ignore_downstream_trigger_rules=False,
    )
    rebuild = PythonOperator(task_id="rebuild", python_callable=lambda: print("this line is not printed"))
    tidy_up = BashOperator(task_id="tidy_up", bash_command="echo tidy", trigger_rule="all_done")

    any_news >> rebuild >> tidy_up
