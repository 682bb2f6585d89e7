"""Shell commands as tasks, with templates in them.

What stands in double braces is rendered when the task runs: `ds` is the logical date as a day, `params` and
`ti.xcom_pull` are there as well. The last line that a command prints is its return value; an exit code other
than 0 fails it, and 99 skips it.
"""

import pendulum

from aiosched import DAG, BashOperator, chain

with DAG(
    "bash",
    schedule="@once",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    params={"greeting": "good morning"},
    tags=["example"],
):
    today = BashOperator(task_id="today", bash_command="echo {{ dag.dag_id }}: {{ params.greeting }}")
    count = BashOperator(
        task_id="count",
        bash_command='echo "$TEXT" | wc -w',
        env={"TEXT": "{{ ti.xcom_pull(task_ids='today') }}"},
        append_env=True,
    )
    say = BashOperator(task_id="say", bash_command="echo it has {{ ti.xcom_pull(task_ids='count') }} words")

    chain(today, count, say)
