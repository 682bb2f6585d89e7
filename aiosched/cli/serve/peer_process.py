"""The process of another scheduler of `serve --schedulers N`: `python -m aiosched.cli.serve.peer_process PIPE`.

It reads its order from its standard input, then `{"announce": true}` and `{"drain": seconds}`, and stops when that
closes. Into the pipe it writes JSON lines: events of runs, the partitions that it owns with its incarnation, that it
has announced to drain, and while it drains the attempts that still run. While the parent does not read, it goes on:
events that do not fit into its memory are dropped, and their number is told later.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import asdict
from typing import Any, Final

from aiosched.cli.serve.line_writer import LineWriter
from aiosched.cli.serve.stopping import STOPPING
from aiosched.cli.serve.supervisor import end_process
from aiosched.cli.serve.waiting import when_usable
from aiosched.config import Settings
from aiosched.logs import claim_streams, configure_logging
from aiosched.prctl import hide_memory
from aiosched.scheduler import Scheduler, SchedulerEvent

_TICK: Final = 0.5
_MOST_TOLD: Final = 1_000  # running attempts: a line must stay under the parent's limit of 1 MiB


class _Telling:
    """Writes lines to the parent, never waiting for it; one that is gone is noticed on the standard input."""

    def __init__(self, pipe: int) -> None:
        os.set_inheritable(pipe, False)  # workers must not keep it open
        self._lines = LineWriter(pipe, lambda count: json.dumps({"dropped": count}))

    def __call__(self, *, droppable: bool = False, **told: Any) -> None:
        self._lines.write(json.dumps(told, default=str), droppable=droppable)

    def event(self, event: SchedulerEvent) -> None:
        self(event=asdict(event) | {"at": event.at.isoformat()}, droppable=True)

    def flush(self) -> None:
        self._lines.flush()


async def _serve(order: dict[str, Any], reader: asyncio.StreamReader, tell: _Telling) -> None:
    settings = Settings.model_validate(order["settings"])
    configure_logging(settings.logs)
    claim_streams()
    hide_memory()

    async def start() -> Scheduler:
        scheduler = Scheduler(
            dsn=order["dsn"],
            settings=settings,
            executor=settings.executor.kind,
            name=order["name"],
            parse=False,
            listener=tell.event,
        )
        scheduler.on_stuck = end_process
        scheduler.on_partitions = lambda mine: tell(partitions=sorted(mine), incarnation=scheduler.incarnation)
        await scheduler.start()
        return scheduler

    first = asyncio.ensure_future(reader.readline())  # while it waits for its database, each order means to end
    scheduler = await when_usable(start, first)
    if scheduler is None:
        return
    try:
        told = asyncio.ensure_future(_read_orders(first, reader, scheduler, tell))
        await asyncio.wait({told, scheduler.failed}, return_when=asyncio.FIRST_COMPLETED)
        if scheduler.failed.done():
            await scheduler.failed  # raises what ended it
        await told
    finally:
        await scheduler.stop(0.0)


async def _read_orders(
    first: asyncio.Future[bytes], reader: asyncio.StreamReader, scheduler: Scheduler, tell: _Telling
) -> None:
    """Follow what the parent says, the first line of which is being read, until it closes."""
    draining: asyncio.Task[None] | None = None
    line = await first
    while line:
        match json.loads(line):
            case {"announce": _}:
                await scheduler.announce_drain()
                tell(announced=True)
            case {"drain": grace}:
                draining = draining or asyncio.create_task(_drain(scheduler, grace, tell))
        line = await reader.readline()
    if draining is not None:
        draining.cancel()
        await asyncio.gather(draining, return_exceptions=True)


async def _drain(scheduler: Scheduler, grace: float, tell: _Telling) -> None:
    async def count() -> None:
        while True:
            tell(running=scheduler.running_attempts()[:_MOST_TOLD], droppable=True)
            await asyncio.sleep(_TICK)

    counting = asyncio.ensure_future(count())
    try:
        await scheduler.drain(grace)
    finally:
        counting.cancel()
    tell(running=scheduler.running_attempts()[:_MOST_TOLD])
    tell(drained=True)


async def _main(pipe: int) -> None:
    for number in STOPPING:  # the parent decides
        asyncio.get_running_loop().add_signal_handler(number, lambda: None)
    reader = asyncio.StreamReader(limit=2**20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    if line := await reader.readline():
        tell = _Telling(pipe)
        try:
            await _serve(json.loads(line), reader, tell)
        finally:
            await asyncio.to_thread(tell.flush)


def main() -> None:
    """The process, started by `PeerScheduler` only."""
    import uvloop

    from aiosched.scheduler.gc_tuning import rare_collections

    with rare_collections(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main(int(sys.argv[1])))


if __name__ == "__main__":
    main()
