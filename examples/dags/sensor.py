"""Wait for something that another system will do: here, for a file to arrive.

A sensor asks again and again until its condition holds. With `mode="reschedule"` it gives its slot back
between two looks, so waiting for hours costs nothing. In real life a partner delivers the file; here the
task `deliver` plays the partner, so that the example ends by itself.
"""

import tempfile
import time
from pathlib import Path

import pendulum

from aiosched import dag, task


def inbox(run_id: str) -> Path:
    return Path(tempfile.gettempdir()) / f"aiosched-example-sensor-{run_id}.csv"


@dag(schedule="@once", start_date=pendulum.datetime(2025, 1, 1, tz="UTC"), catchup=False, tags=["example"])
def sensor():
    @task
    def deliver(run_id=None) -> None:
        time.sleep(2)
        inbox(run_id).write_text("id,euros\n1,120.50\n")

    @task.sensor(poke_interval=1, timeout=60, mode="reschedule")
    def arrived(run_id=None) -> bool:
        return inbox(run_id).exists()

    @task
    def load(run_id=None) -> int:
        rows = inbox(run_id).read_text().splitlines()[1:]
        inbox(run_id).unlink()
        return len(rows)

    deliver()
    arrived() >> load()


sensor()
