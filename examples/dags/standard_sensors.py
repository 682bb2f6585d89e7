"""Sensors for what most DAGs wait for: a moment, a span of time, a file, a command that succeeds.

They wait on an event loop, so thousands of them share one process. With `mode="reschedule"` a sensor gives its
slot back between two looks; `timeout` fails it, and with `soft_fail` skips it; `exponential_backoff` looks ever less
often. Others wait for runs and tasks of other DAGs (`ExternalTaskSensor`) or ask a server (`HttpSensor`).
"""

import tempfile
from datetime import timedelta

import pendulum

from aiosched import (
    DAG,
    BashOperator,
    BashSensor,
    DateTimeSensor,
    DayOfWeekSensor,
    FileSensor,
    TimeDeltaSensor,
    WeekDay,
)

MARKER = f"{tempfile.gettempdir()}/aiosched-example-standard-sensors-{{{{ run_id }}}}"

with DAG(
    "standard_sensors",
    schedule="@once",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    default_args={"poke_interval": 0.5, "timeout": 60},
    tags=["example"],
):
    make = BashOperator(task_id="make", bash_command=f"sleep 1; echo ready > '{MARKER}'")
    there = FileSensor(task_id="there", filepath=MARKER, mode="reschedule")
    ready = BashSensor(task_id="ready", bash_command=f"grep -q ready '{MARKER}'", exponential_backoff=True, max_wait=2)
    in_time = DateTimeSensor(task_id="in_time", target_time="{{ dag_run.start_date.add(seconds=1) }}")
    settled = TimeDeltaSensor(task_id="settled", delta=timedelta(seconds=1))
    some_day = DayOfWeekSensor(task_id="some_day", week_day=list(WeekDay))
    never = FileSensor(task_id="never", filepath=f"{MARKER}-nobody-makes-it", timeout=1, soft_fail=True)
    clean = BashOperator(task_id="clean", bash_command=f"rm '{MARKER}'", trigger_rule="none_failed")

    [make, there, ready, in_time, settled, some_day, never] >> clean
