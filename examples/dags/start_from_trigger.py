"""Wait without ever starting a worker: a task begins in its trigger, and the trigger may end it, too.

`start_from_trigger` lets the scheduler hand the waiting out at once: no slot and no process is taken before the event.
A trigger that yields `TaskSuccessEvent`, `TaskSkippedEvent` or `TaskFailedEvent` ends its task itself; after any other
event a worker goes on in `next_method`. What the trigger is given is fixed when the file is parsed: no templates.
"""

import asyncio
from datetime import UTC, datetime

import pendulum

from aiosched import DAG, BaseOperator, DateTimeSensor, task
from aiosched.triggers import BaseTrigger, StartTriggerArgs, TaskSkippedEvent, TaskSuccessEvent, TriggerEvent


class JobTrigger(BaseTrigger):
    """Follows a job of another system to its end."""

    def __init__(self, job: str) -> None:
        self.job = job

    async def run(self):
        await asyncio.sleep(0.2)  # ask for the job's state here
        if self.job == "empty":
            yield TaskSkippedEvent(reason="the job had nothing to do")
        elif self.job == "long":
            yield TriggerEvent({"job": self.job, "rows": 3})  # a worker goes on
        else:
            yield TaskSuccessEvent(xcoms={"return_value": ["a.csv", "b.csv"]})


class FollowJob(BaseOperator):
    start_from_trigger = True

    def __init__(self, job: str, **kwargs) -> None:
        super().__init__(**kwargs)
        self.start_trigger_args = StartTriggerArgs(JobTrigger, "fetch", {"job": job}, timeout=60)

    async def fetch(self, context, event) -> str:
        return f"{event['rows']} rows of {event['job']}"


with DAG(
    "start_from_trigger",
    schedule="@once",
    start_date=pendulum.datetime(2025, 1, 1, tz="UTC"),
    catchup=False,
    tags=["example"],
):

    @task
    def load(file: str) -> str:
        return f"loaded {file}"

    export = FollowJob(task_id="export", job="export")
    load.expand(file=export.output)
    FollowJob(task_id="long", job="long")
    FollowJob(task_id="empty", job="empty")
    DateTimeSensor(task_id="since_2025", target_time=datetime(2025, 1, 1, tzinfo=UTC), start_from_trigger=True)
