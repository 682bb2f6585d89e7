"""Groups put tasks that belong together into one box; a group can stand on either side of an arrow.

Ids get the group's id as prefix (`ingest.orders.fetch`), groups can be nested, and what follows a group
waits for its last tasks. A display name is shown in place of an id, which stays in addresses and commands.
"""

import pendulum

from aiosched import DAG, EmptyOperator, TaskGroup, chain, task, task_group

with DAG(
    "task_groups",
    schedule="@once",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    dag_display_name="Task groups",
    tags=["example"],
):

    @task
    def fetch(source: str) -> str:
        return f"rows of {source}"

    @task
    def check(rows: str) -> None:
        print(f"{rows} look good")

    start = EmptyOperator(task_id="start")
    publish = EmptyOperator(task_id="publish", task_display_name="Publish it all")

    with TaskGroup("ingest", group_display_name="From outside", tooltip="Everything that comes from outside") as ingest:
        for source in ("orders", "customers"):
            with TaskGroup(source):
                check(fetch(source))

    @task_group
    def marts():
        @task
        async def build(name: str) -> str:
            return f"mart {name}"

        build.override(task_id="sales")("sales")
        build.override(task_id="churn")("churn")

    chain(start, ingest, marts(), publish)
