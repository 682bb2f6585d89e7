"""Following a run until it ends, for `--wait` and `runs watch`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from aiosched.cli.base.output import ExactInstant, RunId, console, duration, instant, talk
from aiosched.core.values.commands import command_line
from aiosched.core.values.states import FINISHED
from aiosched.errors import TimedOut

if TYPE_CHECKING:
    from aiosched.db.queries.queries import RunRow
    from aiosched.db.server.engine import Database

_LOOK_SECONDS: Final = 0.25

# The columns of the table of runs, also used by `dags runs`.
RUN_COLUMNS: Final[Mapping[str, Callable[[RunRow], Any]]] = {
    "DAG": lambda run: run.dag_id,
    "RUN": lambda run: RunId(run.run_id),
    "STATE": lambda run: run.state,
    "TYPE": lambda run: run.run_type,
    "LOGICAL DATE": lambda run: ExactInstant(run.logical_date),
    "START": lambda run: run.start_date,
    "DURATION": lambda run: duration(run.seconds),
    "REASON": lambda run: run.reason,
}


async def follow(db: Database, run: RunRow, *, timeout: float | None) -> RunRow:
    """Wait until `run` is finished and return it; show its progress on stderr meanwhile.

    Raises TimedOut after `timeout` seconds (None: no limit); the run then continues.
    """
    from aiosched.db.queries.queries import count_tasks, find_run

    with _progress(run) as show:
        try:
            async with asyncio.timeout(timeout):
                while True:
                    run = await find_run(db, run.dag_id, run.run_id)
                    show(run, await count_tasks(db, run))
                    if run.finished:
                        return run
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            raise TimedOut(
                f"Run {run.run_id} of {run.dag_id} is still {run.state}. It continues; follow it with: "
                f"{command_line('runs watch', run.dag_id, run.run_id)}"
            ) from None


@contextlib.contextmanager
def _progress(run: RunRow) -> Any:
    """On a terminal one line that is rewritten; elsewhere a line for each change."""
    screen = console(stderr=True)
    if not screen.is_terminal:
        last = ""

        def show_line(run: RunRow, counts: Mapping[str, int]) -> None:
            nonlocal last
            line = f"{run.dag_id} {run.run_id} {run.state}: {_counted(counts)}"
            if line != last:
                talk(line)
            last = line

        yield show_line
        return
    from rich.live import Live
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.fields[state]}"),
        BarColumn(bar_width=30),
        TextColumn("{task.completed:.0f} of {task.total:.0f} tasks"),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[counted]}"),
        console=screen,
    )
    bar = progress.add_task(run.run_id, total=1, state=run.state, counted="")

    def show(run: RunRow, counts: Mapping[str, int]) -> None:
        done = sum(number for state, number in counts.items() if state in FINISHED)
        total = max(sum(counts.values()), 1)
        progress.update(bar, completed=done, total=total, state=run.state, counted=_counted(counts))

    with Live(progress, console=screen, transient=True):
        yield show


def run_fields(run: RunRow, counts: Mapping[str, int]) -> dict[str, Any]:
    """A run as `runs show` lists it."""
    return {
        "dag": run.dag_id,
        "run": run.run_id,
        "state": run.state,
        "type": run.run_type,
        "logical date": run.logical_date,
        "data interval": f"{instant(run.data_interval_start)} to {instant(run.data_interval_end)}"
        if run.data_interval_start
        else None,
        "partition": run.partition_key,
        "partition date": run.partition_date,
        "run after": run.run_after,
        "started": run.start_date,
        "ended": run.end_date,
        "duration": duration(run.seconds),
        "tasks": _counted(counts),
        "reason": run.reason,
        "note": run.note,
        "conf": run.conf or None,
        "DAG version": run.version,
    }


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {'waiting' if state == 'none' else state}" for state, number in counts.items())
