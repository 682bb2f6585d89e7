"""A scheduler process whose tasks are deferred: `python -m tests.faults.deferring_process DSN FOLDER NAME`.

Their triggers wait until FOLDER/open exists. Triggers write a line to FOLDER/waits when they begin, tasks one to
FOLDER/resumed when they go on. In each of the DAGs one task defers, one begins in its trigger, and one is ended by it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiosched import DAG, BaseOperator, Scheduler, StartTriggerArgs
from aiosched.config import Settings
from aiosched.triggers import BaseTrigger, TaskSuccessEvent, TriggerEvent

DAG_IDS = tuple(f"d{number}" for number in range(6))
TASKS = ("defers", "begins", "ends")


class Gate(BaseTrigger):
    """Waits until the gate is open; the event says in which process it was seen."""

    def __init__(self, folder: str, ends: bool = False) -> None:
        self.folder, self.ends = folder, ends

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "tests.faults.deferring_process.Gate", {"folder": self.folder, "ends": self.ends}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        note(Path(self.folder) / "waits", os.getpid())
        while not (Path(self.folder) / "open").exists():  # noqa: ASYNC110  nobody in this process opens it
            await asyncio.sleep(0.02)
        yield TaskSuccessEvent(xcoms={"return_value": os.getpid()}) if self.ends else TriggerEvent(os.getpid())


class Waits(BaseOperator):
    """Defers, or begins deferred."""

    def __init__(self, *, folder: str, ends: bool = False, at_once: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.gate, self.folder = Gate(folder, ends), folder
        if at_once:
            self.start_from_trigger = True
            self.start_trigger_args = StartTriggerArgs(*self.gate.serialize()[:1], "go_on", self.gate.serialize()[1])

    def execute(self, context: Any) -> None:
        self.defer(trigger=self.gate, method_name="go_on")

    async def go_on(self, context: Any, event: Any) -> Any:
        ti = context["ti"]
        note(Path(self.folder) / "resumed", ti.dag_id, ti.task_id, ti.try_number, os.getpid())
        return event


def note(file: Path, *words: object) -> None:
    with file.open("a") as lines:
        lines.write(" ".join(map(str, words)) + "\n")


def deferring_dags(folder: Path) -> list[DAG]:
    """All of DAG_IDS."""
    found = []
    for dag_id in DAG_IDS:
        with DAG(dag_id, schedule=None) as dag:
            Waits(task_id="defers", folder=str(folder))
            Waits(task_id="begins", folder=str(folder), at_once=True)
            Waits(task_id="ends", folder=str(folder), ends=True, at_once=True)
        found.append(dag)
    return found


async def main(dsn: str, folder: Path, name: str) -> None:
    settings = Settings()
    settings.core.home = folder
    async with Scheduler(dsn=dsn, dags=deferring_dags(folder), settings=settings, name=name) as scheduler:
        await scheduler.failed


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
