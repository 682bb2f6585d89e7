"""`aiosched worker …`: what engines start to run attempts."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from aiosched.cli.base.options import DagsFolder, UsageProblem
from aiosched.cli.base.session import load
from aiosched.errors import AioschedError

if TYPE_CHECKING:
    from aiosched.config import Settings
    from aiosched.core.values.messages import Outcome
    from aiosched.core.values.worker_messages import Job

app = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)

LOST: Final = 75  # EX_TEMPFAIL: the attempt is run again
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
    log_level: Annotated[
        str | None, typer.Option("--log-level", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")
    ] = None,
) -> None:
    """Run the attempt of one job, which names the worker API and has a token for it.

    Exit code: 0 for a task that succeeded, was skipped or waits, 1 for one that failed, 4 if the attempt is not to be
    begun here, 75 if it was lost. SIGTERM ends it as lost: its task runs again elsewhere.
    """
    settings = load(core__dags_folder=dags, scheduler__grace=grace, logs__level=log_level).settings
    from aiosched.logs import configure_logging

    configure_logging(settings.logs)
    outcome = asyncio.run(_run(settings, read_job(job)))
    raise typer.Exit(_exit_code(outcome))


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


async def _run(settings: Settings, job: Job) -> Outcome | None:
    from aiosched.executors.engines.agent import WorkerAgent
    from aiosched.executors.local.options import LocalOptions

    agent = WorkerAgent(LocalOptions.from_settings(settings))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await agent.start()
    running = asyncio.create_task(agent.run(job))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        await agent.stop(settings.scheduler.grace if not running.done() else 0.0)
    try:
        return await running
    except asyncio.CancelledError:
        raise AioschedError("The attempt was cancelled.") from None


def _exit_code(outcome: Outcome | None) -> int:
    from aiosched.core.values.messages import Outcome

    if outcome is None:
        return NOT_BEGUN
    return {Outcome.FAILED: 1, Outcome.LOST: LOST}.get(outcome, 0)
