"""One task for each value, however many there are: `expand` over what a task returned.

`list_files` decides at run time how many instances the tasks after it have. Outputs can be filtered and paired
before they are mapped over (`map`, `zip`), and a whole group can be mapped: there, instance 1 of `load` waits
for instance 1 of `check` only.
"""

import pendulum

from aiosched import DAG, BashOperator, SkipTask, task, task_group

with DAG(
    "mapping",
    schedule="@once",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    tags=["example"],
):

    @task
    def list_files() -> list[str]:
        return ["orders.csv", "customers.csv", "notes.txt"]

    @task
    def list_sizes() -> list[int]:
        return [120, 45, 3]

    def only_tables(name: str) -> str:
        if not name.endswith(".csv"):
            raise SkipTask(f"{name} is no table")
        return name

    @task(map_index_template="{{ task.op_kwargs['name'] }}")
    def count_rows(name: str, factor: int) -> int:
        return len(name) * factor

    @task(trigger_rule="none_failed")  # instances may be skipped
    def total(rows: list[int]) -> int:
        return sum(rows)

    @task
    def describe(pair: tuple[str, int]) -> str:
        name, size = pair
        return f"{name} has {size} kB"

    @task_group
    def warehouse(name: str):
        @task
        async def check(name: str) -> str:
            return f"{name}, checked"

        @task
        def load(checked: str) -> str:
            return f"{checked}, loaded"

        return load(check(name))

    files = list_files()
    total(count_rows.partial(factor=10).expand(name=files.map(only_tables)))
    describe.expand(pair=files.zip(list_sizes()))
    loaded = warehouse.expand(name=files)

    BashOperator.partial(task_id="publish").expand(
        bash_command=loaded.map(lambda line: f"echo '{line}' to $TO"), env=[{"TO": "web"}, {"TO": "mail"}]
    )
