"""A process that is one scheduler with an alert rule: `python -m tests.faults.alerting_process DSN FOLDER NAME`.

Its notifier writes a line to FOLDER/told, and waits before that while FOLDER/hold exists.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from aiosched import DAG, BaseNotifier, Scheduler
from aiosched.config import Settings
from aiosched.config.alerts import AlertRuleSettings, NotifierSettings


class FileNotifier(BaseNotifier):
    """Writes what it has to say to a file."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    async def notify(self, context: Any) -> None:
        while True:
            if not (self.folder / "hold").exists():
                break
            await asyncio.sleep(0.01)
        with (self.folder / "told").open("a") as file:
            file.write(f"{context['alert']['title']}\n")


async def main(dsn: str, folder: str, name: str) -> None:
    settings = Settings()
    settings.scheduler.lease = 2.0
    settings.core.home = Path(folder)
    settings.alerts.interval = 0.1
    kind = "tests.faults.alerting_process.FileNotifier"
    settings.alerts.notifiers = [NotifierSettings.model_validate({"name": "file", "kind": kind, "folder": folder})]
    settings.alerts.rules = [AlertRuleSettings(name="errors", kind="import_error", notifier="file")]
    dags = [DAG("d", schedule=None)]
    async with Scheduler(dsn=dsn, dags=dags, settings=settings, name=name) as scheduler:
        await scheduler.failed


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
