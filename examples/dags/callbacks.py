"""Functions that are called when something happens to a task or a run: the place for alerts.

`on_retry_callback` and `on_failure_callback` exclude each other for one try. An exception in a callback is
logged and changes nothing. The context says which task, which try and why.
"""

from datetime import timedelta

import pendulum

from aiosched import DAG, task


def about(context) -> str:
    ti = context["ti"]
    return f"{ti.dag_id}.{ti.task_id} try {ti.try_number}"


def warn(context) -> None:
    print(f"RETRY    {about(context)}: {context.get('exception')}")


def alert(context) -> None:
    print(f"FAILED   {about(context)}: {context.get('exception')}")


def applaud(context) -> None:
    print(f"SUCCESS  {about(context)}")


def done(context) -> None:
    print(f"RUN DONE {context['dag_run'].run_id}")


with DAG(
    "callbacks",
    schedule="@once",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    default_args={
        "on_retry_callback": warn,
        "on_failure_callback": alert,
        "on_success_callback": applaud,
    },
    on_success_callback=done,
    tags=["example"],
):

    @task(retries=1, retry_delay=timedelta(seconds=1))
    def second_time_lucky(ti=None) -> str:
        if ti.try_number == 1:
            raise RuntimeError("not today")
        return "done"

    @task
    def celebrate(result: str) -> None:
        print(result)

    celebrate(second_time_lucky())
