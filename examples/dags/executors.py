"""Several executors in one DAG: what is quick stays on the scheduler's machine, what is large goes elsewhere.

    BIG_EXECUTOR=kubernetes aiosched serve --executor local,kubernetes     # or dask

A task names one of its scheduler's executors; without a name it runs in the first. The file below asks its environment
where the large task runs, so it also works with the default settings, which have only `local`. An executor's
own options are in `executor_config`; the others ignore them.
"""

import os

import pendulum

from aiosched import DAG, task

BIG = os.environ.get("BIG_EXECUTOR", "local")

with DAG(
    "executors",
    schedule="@once",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    tags=["example"],
):

    @task(executor="local")
    def list_files() -> list[str]:
        return ["a.csv", "b.csv"]

    @task(
        executor=BIG,
        executor_config={
            "pod_override": {
                "spec": {
                    "containers": [
                        {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}}
                    ]
                }
            }
        },
    )
    def crunch(names: list[str]) -> int:
        return sum(len(name) for name in names)

    @task(executor="local")
    def publish(total: int) -> None:
        print(f"the total is {total}")

    publish(crunch(list_files()))
