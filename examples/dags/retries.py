"""A task that fails twice and succeeds at its third try, with longer and longer waits between.

Exponential backoff doubles the delay after each failure and adds a jitter that is the same in every scheduler;
`max_retry_delay` caps it. The number of the try is in the context. A `retry_policy` sees what went wrong: False means
that trying again is no use, a timedelta is the wait before the next try, None leaves it to the options of the task.
"""

from datetime import timedelta

import pendulum

from aiosched import dag, get_current_context, task


def unless_it_is_forbidden(error, context):
    return False if isinstance(error, PermissionError) else None


@dag(
    schedule="@once",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    default_args={
        "retries": 3,
        "retry_delay": timedelta(seconds=1),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(seconds=3),
    },
    tags=["example"],
)
def retries():
    @task(retry_policy=unless_it_is_forbidden)
    def flaky() -> int:
        attempt = get_current_context()["ti"].try_number
        if attempt < 3:
            raise ConnectionError(f"the service did not answer (try {attempt})")
        return attempt

    @task(execution_timeout=timedelta(seconds=30), retries=0)
    def report(tries: int) -> None:
        print(f"it took {tries} tries")

    report(flaky())


retries()
