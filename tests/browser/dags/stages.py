"""Groups, a mapped task, one that fails and one that waits; nothing runs by schedule before the far future."""

import asyncio
from pathlib import Path

import pendulum

from aiosched import DAG, EmptyOperator, Param, TaskGroup, task

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

    found = names()
    with TaskGroup("people") as people:
        greet.expand(name=found)
    people >> fail() >> EmptyOperator(task_id="never")

with DAG("gated", schedule=None, params={"file": Param("", type="string")}, tags=["shapes"]):

    @task
    async def wait(params: dict[str, str]) -> None:
        while not await asyncio.to_thread(Path(params["file"]).exists):  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    wait() >> EmptyOperator(task_id="after")  # type: ignore[call-arg]  # the context gives it

with DAG(
    "yearly",
    schedule="30 2 1 1 *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    is_paused_upon_creation=True,
    tags=["shapes"],
):
    EmptyOperator(task_id="once")

with DAG("fanned", schedule=None):

    @task(pool="gate")
    def each(number: int) -> int:
        return number

    each.expand(number=[1, 2, 3, 4])
