"""`aiosched celery …`: Celery workers with the options that suit them."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from aiosched.cli.base.options import DagsFolder
from aiosched.cli.base.session import load_for_author_code
from aiosched.errors import ConfigError

app: typer.Typer = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@app.callback()
def celery() -> None:
    """Run attempts in Celery workers, for schedulers with the executor `celery`."""


@app.command("worker", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def worker(
    context: typer.Context,
    dags: DagsFolder = None,
    queues: Annotated[
        str | None, typer.Option("--queues", "-Q", metavar="NAMES", help="Celery queues, separated by commas.")
    ] = None,
    slots: Annotated[
        int | None, typer.Option("--slots", min=1, help="Maximum number of concurrent plain functions.")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option("--log-level", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")
    ] = None,
) -> None:
    """Start a Celery worker whose tasks are attempts; further options are those of `celery worker`.

    As `celery -A aiosched.executors.celery worker --pool threads` with as many threads as slots, and without what these
    tasks do not need. SIGTERM, or SIGHUP, ends it: attempts have `scheduler.grace` seconds, then they are lost and run
    elsewhere.
    """
    settings = load_for_author_code(core__dags_folder=dags, executor__slots=slots, logs__level=log_level).settings
    try:
        from aiosched.executors.celery.celery_worker import make_worker_app
    except ImportError as error:
        raise ConfigError(f"Celery workers need Celery ({error}): pip install 'aiosched[celery]'.") from None
    from aiosched.prctl import hide_memory

    hide_memory()
    concurrency = settings.executor.slots or 4 * (os.cpu_count() or 1)
    make_worker_app(settings).worker_main(
        [
            "worker", "--pool", "threads", "--concurrency", str(concurrency), "-O", "fair",
            "--queues", queues or settings.celery.default_queue, "--loglevel", settings.logs.level,
            "--without-gossip", "--without-mingle", "--without-heartbeat", *context.args,
        ]
    )  # fmt: skip
