"""The Celery application of schedulers and workers: its settings, its task and its remote control commands by name.

Needs Celery. A message is JSON: the one argument of the task is the sealed text of some Jobs (sealing.py). There is no
result backend, since outcomes come through the worker API. The broker keeps a message until its task has ended; what it
delivers again is begun by no second worker. Source: docs/decisions/0036-attempts-on-engines.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from celery import Celery

from aiosched.config import Settings
from aiosched.errors import ConfigError

RUN_JOBS: Final = "aiosched.run_jobs"
LOOK: Final = "aiosched_look"
CANCEL: Final = "aiosched_cancel"
NAMESPACE: Final = "aiosched"  # of remote control: other applications on the same broker do not hear our commands


def name_of(jobs: Iterable[int]) -> str:
    """The id of the message that carries these jobs."""
    return "-".join(("aiosched", *map(str, jobs)))


def jobs_of(name: str) -> list[int]:
    """The jobs of the message with this id; none for messages of others."""
    ours, *jobs = name.split("-")
    return list(map(int, jobs)) if ours == "aiosched" and all(map(str.isdecimal, jobs)) else []


def broker_of(settings: Settings) -> str:
    """The address of the broker. Raises ConfigError if there is none."""
    if settings.celery.broker is None:
        raise ConfigError(
            "The executor 'celery' needs a broker: set celery.broker (AIOSCHED__CELERY__BROKER) to the address of a "
            "Redis or a RabbitMQ, such as redis://host:6379/0 or amqp://user:password@host:5672/vhost."
        )
    return settings.celery.broker


def make_app(settings: Settings, **more: Any) -> Celery:
    """A Celery application with these settings, and `more` of Celery's own. Raises ConfigError."""
    app = Celery("aiosched", broker=broker_of(settings), set_as_current=False)
    app.conf.update(
        accept_content=["json"],
        broker_connection_max_retries=None,
        broker_connection_retry_on_startup=True,
        control_exchange=NAMESPACE,
        task_acks_late=True,
        task_default_queue=settings.celery.default_queue,
        task_ignore_result=True,
        task_reject_on_worker_lost=True,
        task_serializer="json",
        worker_cancel_long_running_tasks_on_connection_loss=False,
        # After a lost connection Celery would take one message at a time until what ran then has ended; a message that
        # came again meanwhile used up that one, and the worker took nothing any more.
        worker_enable_prefetch_count_reduction=False,
        worker_prefetch_multiplier=1,
        worker_redirect_stdouts=False,
        **more,
    )
    return app
