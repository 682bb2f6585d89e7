"""What a run needs is made before and removed after, also when something in between fails.

`remove_cluster` runs in any case once the queries are done, as long as `make_cluster` succeeded; whether it
succeeds does not matter to the run. With `with`, the tasks of the block are put between the two.
"""

import pendulum

from aiosched import DAG, setup, task, teardown

with DAG(
    "setup_teardown",
    schedule="@once",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    tags=["example"],
):

    @setup
    def make_cluster() -> str:
        return "cluster-7"

    @teardown
    def remove_cluster(cluster: str) -> None:
        print(f"{cluster} is gone")

    @task
    def query(cluster: str, table: str) -> str:
        return f"{table} counted on {cluster}"

    @task(trigger_rule="all_done")
    def report() -> None:
        print("all queries are done")

    cluster = make_cluster()
    with remove_cluster(cluster):
        counted = query.partial(cluster=cluster).expand(table=["orders", "customers"])

    counted >> report()
