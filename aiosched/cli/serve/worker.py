"""`aiosched worker …`: what engines start to run attempts."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aiosched.cli.base.options import DagsFolder, UsageProblem
from aiosched.cli.base.session import load_for_author_code
from aiosched.cli.serve.stopping import handle_stopping
from aiosched.errors import AioschedError

if TYPE_CHECKING:
    from aiosched.config import Settings
    from aiosched.core.values.messages import Outcome
    from aiosched.core.values.worker_messages import Job

app: typer.Typer = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)

LOST: Final = 75  # EX_TEMPFAIL: the attempt is run again
_LOOK_EVERY: Final = 0.2  # seconds between two looks for a file with a job
NOT_BEGUN: Final = 4  # another worker runs it, or it has been given up


@app.callback()
def worker() -> None:
    """Run attempts that an engine has delivered to this machine."""


@app.command("run-attempt")
def run_attempt(
    job: Annotated[
        str, typer.Argument(metavar="[FILE]", help="File with the job; - or nothing: standard input.")
    ] = "-",
    dags: DagsFolder = None,
    grace: Annotated[
        float | None, typer.Option("--grace", metavar="SECONDS", help="Seconds that SIGTERM leaves to the task.")
    ] = None,
    wait: Annotated[
        float | None,
        typer.Option("--wait", metavar="SECONDS", help="Seconds to wait for the file.", show_default=False),
    ] = None,
    log_level: Annotated[
        str | None, typer.Option("--log-level", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")
    ] = None,
) -> None:
    """Run the attempt of one job, which names the worker API and has a token for it.

    Exit code: 0 for a task that succeeded, was skipped or waits, 1 for one that failed, 4 if the attempt is not to be
    begun here, 75 if it was lost. SIGTERM, or SIGHUP, ends it as lost: its task runs again elsewhere. With --wait it is
    also 0 if no job has come in time.
    """
    settings = load_for_author_code(core__dags_folder=dags, scheduler__grace=grace, logs__level=log_level).settings
    from aiosched.logs import configure_logging
    from aiosched.prctl import hide_memory

    configure_logging(settings.logs)
    hide_memory()
    given = read_job(job) if wait is None else None
    raise typer.Exit(asyncio.run(_run(settings, given, place=job, wait=wait or 0.0)))


def read_job(place: str) -> Job:
    """The job in a file, or on standard input for `-`. Raises UsageProblem."""
    import msgspec

    from aiosched.core.values.worker_messages import Job

    try:
        text = sys.stdin.buffer.read() if place == "-" else Path(place).read_bytes()
    except OSError as error:
        raise UsageProblem(f"The job cannot be read from {place}: {error.strerror}.") from None
    try:
        return msgspec.json.decode(text, type=Job)
    except msgspec.MsgspecError as error:
        raise UsageProblem(f"What was read is not a job, as engines deliver them: {error}.") from None


async def _run(settings: Settings, job: Job | None, *, place: str, wait: float) -> int:
    """Run the job, or that which comes to the file `place` within `wait` seconds; returns the exit code."""
    from aiosched.executors.engines.agent import WorkerAgent
    from aiosched.executors.local.options import LocalOptions

    agent = WorkerAgent(LocalOptions.from_settings(settings))
    stop = asyncio.Event()
    handle_stopping(stop.set)
    await agent.start()
    try:
        if job is None and not await _comes(Path(place), wait, stop):
            await agent.stop(0.0)
            return 0
        running = asyncio.create_task(agent.run(job or read_job(place)))
    except UsageProblem:
        await agent.stop(0.0)
        raise
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        await agent.stop(settings.scheduler.grace if not running.done() else 0.0)
    try:
        return _exit_code(await running)
    except asyncio.CancelledError:
        raise AioschedError("The attempt was cancelled.") from None


async def _comes(file: Path, seconds: float, stop: asyncio.Event) -> bool:
    """Wait for a file; False if it does not come in time, or if we are to stop."""
    until = time.monotonic() + seconds
    while not (exists := await asyncio.to_thread(file.exists)) and not stop.is_set() and time.monotonic() < until:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_EVERY):
                await stop.wait()
    return exists


def _exit_code(outcome: Outcome | None) -> int:
    from aiosched.core.values.messages import Outcome

    if outcome is None:
        return NOT_BEGUN
    return {Outcome.FAILED: 1, Outcome.LOST: LOST}.get(outcome, 0)
