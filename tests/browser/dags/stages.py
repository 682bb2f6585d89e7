"""Groups, a mapped task and one that fails; nothing runs by schedule before the far future."""

import pendulum

from aiosched import DAG, EmptyOperator, TaskGroup, task

with DAG("stages", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), tags=["shapes"]):

    @task
    def names() -> list[str]:
        return ["ada", "grace", "edsger"]

    @task
    def greet(name: str) -> str:
        return f"hello {name}"

    @task
    def fail() -> None:
        raise ValueError("as the test wants it")

    with TaskGroup("people") as people:
        greet.expand(name=names())
    people >> fail() >> EmptyOperator(task_id="never")

with DAG(
    "yearly",
    schedule="30 2 1 1 *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    is_paused_upon_creation=True,
    tags=["shapes"],
):
    EmptyOperator(task_id="once")
