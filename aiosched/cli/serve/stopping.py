"""How `serve` stops: the first request drains, the second one ends running tasks, the third one exits.

Source: docs/operations.md, "The command line". SIGTERM and the end of the
terminal (SIGHUP) count like Ctrl-C.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from aiosched.cli.base.output import counted, duration, talk
from aiosched.forks import reset_in_children
from aiosched.logs import writes_json

logger: logging.Logger = logging.getLogger(__name__)

STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SECOND_GRACE: Final = 5.0  # seconds between TERM and KILL, after the second request
_NAMED: Final = 5  # running tasks that the countdown names
_TICK: Final = 1.0

RunningAttempt = tuple[str, str, str, float]  # DAG id, run id, task id, seconds


class Stoppable(Protocol):
    """The part of a scheduler that is needed to stop it."""

    async def drain(self, grace: float) -> object: ...
    async def stop(self, grace: float) -> object: ...
    def running_attempts(self) -> Sequence[RunningAttempt]: ...


def handle_stopping(ask: Callable[[], object]) -> None:
    """Call `ask` for each signal that stops, on the running loop. Started by nohup, a closed terminal stops nothing."""
    loop = asyncio.get_running_loop()
    for number in STOPPING:
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, ask)
    reset_in_children(*STOPPING)  # of tasks with `inline`


@dataclass
class StopRequests:
    """Counts the requests to stop; the third one exits at once."""

    exit_now: Callable[[int], object] = os._exit
    count: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    insisted: asyncio.Event = field(default_factory=asyncio.Event)

    def install(self) -> None:
        """Handle Ctrl-C, SIGTERM and SIGHUP on the running loop."""
        handle_stopping(self.ask)

    def ask(self) -> None:
        """Count one more request."""
        self.count += 1
        if self.count == 1:
            self.asked.set()
        elif self.count == 2:
            self.insisted.set()
        else:
            self.exit_now(130)


async def end(scheduler: Stoppable, requests: StopRequests, *, grace: float) -> bool:
    """Drain for at most `grace` seconds, then stop; a second request ends running tasks at once.

    True if all running tasks finished by themselves.
    """
    draining = asyncio.ensure_future(scheduler.drain(grace))
    insisting = asyncio.ensure_future(requests.insisted.wait())
    countdown = asyncio.ensure_future(_count_down(scheduler, grace))
    try:
        await asyncio.wait({draining, insisting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (insisting, countdown):
            task.cancel()
        await asyncio.gather(insisting, countdown, return_exceptions=True)
    if draining.done():
        draining.result()
        left = scheduler.running_attempts()
        if left:
            late = f"{counted(len(left), 'task')} did not finish within {duration(grace)}"
            _say(f"{late} and will be ended: {_named(left)}")
        await scheduler.stop(0.0)
        return not left
    left = scheduler.running_attempts()
    if left:
        number = counted(len(left), "task")
        _say(f"ending {number}: TERM now, KILL in {duration(_SECOND_GRACE)}; once more exits at once")
    draining.cancel()
    await asyncio.gather(draining, return_exceptions=True)
    await scheduler.stop(0.0)
    return not left


async def _count_down(scheduler: Stoppable, grace: float) -> None:
    """Show what still runs: one updated line on a terminal, elsewhere a line for each change."""
    terminal = sys.stderr.isatty()
    ends = time.monotonic() + grace
    shown: frozenset[tuple[str, str, str]] | None = None
    try:
        while left := scheduler.running_attempts():
            names = frozenset(attempt[:3] for attempt in left)
            remaining = max(ends - time.monotonic(), 0.0)
            line = f"stopping: {_still_run(len(left))}, {remaining:.0f} s left: {_named(left)}"
            if terminal:
                sys.stderr.write(f"\r\x1b[K{line}")
                sys.stderr.flush()
            elif names != shown:
                _say(line, logging.INFO)
            shown = names
            await asyncio.sleep(_TICK)
    finally:
        if terminal and shown is not None:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _say(message: str, level: int = logging.WARNING) -> None:
    """A message on stderr; a line of the log where that is in JSON, so that each line can be read as JSON."""
    if writes_json():
        logger.log(level, message)
    else:
        talk(message)


def _still_run(number: int) -> str:
    return "1 task still runs" if number == 1 else f"{number} tasks still run"


def _named(attempts: Sequence[RunningAttempt]) -> str:
    shown = [f"{dag} {task} ({duration(seconds)})" for dag, _, task, seconds in attempts[:_NAMED]]
    more = len(attempts) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
