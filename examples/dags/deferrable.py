"""Wait without a worker: a deferred task hands its waiting to a trigger and gives its slot and process back.

Thousands of triggers share one process and survive restarts. Most sensors defer with `deferrable=True`; an operator
of your own calls `self.defer(...)` and goes on in the method that it names. A trigger of your own is an async
generator: it waits, then yields one event. Define it at the top of a module.
"""

import asyncio
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import pendulum

from aiosched import DAG, BaseOperator, BaseTrigger, DateTimeSensor, FileSensor, TriggerEvent, task

FILE = str(Path(tempfile.gettempdir()) / "aiosched-example-deferrable-{{ run_id }}.csv")


class CountdownTrigger(BaseTrigger):
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds  # the parameters of __init__ are what is stored

    async def run(self):
        await asyncio.sleep(self.seconds)  # never block here: others wait in the same process
        yield TriggerEvent({"waited": self.seconds})


class CountdownOperator(BaseOperator):
    def __init__(self, seconds: float, **kwargs) -> None:
        super().__init__(**kwargs)
        self.seconds = seconds

    def execute(self, context) -> None:
        trigger = CountdownTrigger(self.seconds)
        self.defer(trigger=trigger, method_name="lift_off", kwargs={"rocket": 5}, timeout=timedelta(minutes=1))

    def lift_off(self, context, event, rocket: int) -> str:
        return f"rocket {rocket} after {event['waited']} s"


with DAG(
    "deferrable",
    schedule="@once",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    tags=["example"],
):

    @task
    def deliver(path: str) -> None:
        time.sleep(1)
        Path(path).write_text("id,euros\n1,120.50\n")

    @task
    def remove(path: str) -> None:
        Path(path).unlink()

    deliver(FILE)
    arrived = FileSensor(task_id="arrived", filepath=FILE, deferrable=True, poke_interval=0.2, timeout=60)
    after_tick = DateTimeSensor(
        task_id="after_tick", target_time="{{ dag_run.start_date.add(seconds=2) }}", deferrable=True
    )
    [arrived, after_tick] >> remove(FILE)
    CountdownOperator(task_id="countdown", seconds=0.5)
