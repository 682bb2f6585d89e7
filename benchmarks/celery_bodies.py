"""The Celery application of the bare engine: `celery -A benchmarks.celery_bodies worker`."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

from benchmarks.bare_engines import body


def app_on(broker: str) -> Celery:
    """The application on a broker, as Celery's own documentation makes one for tasks without results."""
    made = Celery("bodies", broker=broker, set_as_current=False)
    made.conf.update(task_ignore_result=True, worker_prefetch_multiplier=4)
    made.task(body, name="body")
    return made


def signature(made: Celery, records: str, dag_id: str, task_id: str) -> Any:
    """One call, which gets nothing from the one before it."""
    return made.signature("body", args=(records, dag_id, task_id), immutable=True)


app = app_on(os.environ.get("BENCHMARK_BROKER", ""))
