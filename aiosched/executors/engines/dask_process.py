"""The process that talks to Dask for a scheduler: `python -m aiosched.executors.engines.dask_process CONTROL LIFELINE`.

It knows what it is told, and no secret: neither the database nor a key. Whoever answers in the cluster can run code
here. Below its guard it ends with its scheduler, and with it a cluster of this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aiosched.executors.engines.dask_messages import (
    LONGEST_REASON,
    MOST_WORKERS,
    Begin,
    CancelJobs,
    Done,
    Ended,
    FromDask,
    Holds,
    Look,
    Seen,
    Send,
    Stop,
    ToDask,
    to_dask,
)
from aiosched.executors.engines.engine import EngineUnavailable
from aiosched.executors.worker.guard import stand_guard
from aiosched.executors.worker.protocol import FramesOf, frame
from aiosched.prctl import die_first_for_memory

if TYPE_CHECKING:
    from aiosched.executors.engines.dask_client import DaskClient

logger: logging.Logger = logging.getLogger(__name__)

_READ: Final = 262_144
_ANSWERS_WITHIN: Final = 20.0  # seconds: the scheduler waits longer
_MEMORY: Final = 2**31  # bytes of data that it may have: an answer of the cluster does not fill the machine


class Server:
    """Answers the questions of the scheduler at the other end of `reader` and `writer`.

    `restrict` limits this process, which has a cluster of its own or none.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, restrict: Callable[[bool], None]
    ) -> None:
        self._reader, self._writer = reader, writer
        self._restrict = restrict
        self.client: DaskClient | None = None
        self._answering: set[asyncio.Task[None]] = set()
        self._unsent: list[bytes] = []

    async def serve(self) -> None:
        """Serve until the scheduler is gone."""
        frames = FramesOf(to_dask)
        looking: asyncio.Task[None] | None = None
        while data := await self._reader.read(_READ):
            for message in frames.feed(data):
                if isinstance(message, Begin):
                    from aiosched.executors.engines.dask_client import DaskClient  # below the guard, and takes a second

                    self._restrict(message.address is None)
                    self.client = DaskClient(message, lambda job, reason: self._tell(Ended(job, _cut(reason))))
                    looking = asyncio.create_task(self._look(self.client), name="looks of Dask's client")
                elif self.client is not None:
                    task = asyncio.create_task(self._answer(self.client, message))
                    self._answering.add(task)
                    task.add_done_callback(self._answering.discard)
        if looking is not None:
            looking.cancel()

    async def _look(self, client: DaskClient) -> None:
        try:
            await client.start_cluster()
        except Exception as error:
            logger.error("a Dask cluster cannot be started on this machine: %s", error)
            self._reader.feed_eof()  # this process is started again
            return
        await client.look_for_ever()

    async def _answer(self, client: DaskClient, message: ToDask) -> None:
        jobs, trouble = list[int](), ""
        try:
            async with asyncio.timeout(_ANSWERS_WITHIN):
                match message:
                    case Look(number):
                        self._tell(await _seen(client, number))
                        return
                    case Send(number, given, quick):
                        await client.send(given, quick=quick, sent=jobs)
                    case CancelJobs(number, given_up, grace):
                        await client.cancel(given_up, grace=grace)
                    case Holds(number, names):
                        jobs = sorted(await client.holds(names))
                    case Stop(number):
                        await client.stop()
        except TimeoutError:
            trouble = f"Dask does not answer within {_ANSWERS_WITHIN:.0f} s"
        except EngineUnavailable as error:
            trouble = str(error) or type(error).__name__
        except Exception as error:
            trouble = f"{type(error).__name__}: {error}"
        assert not isinstance(message, Begin)
        self._tell(Done(message.number, jobs, _cut(trouble) or ""))

    def _tell(self, message: FromDask) -> None:
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(frame(message))

    def _flush(self) -> None:
        data, self._unsent = b"".join(self._unsent), []
        self._writer.write(data)


async def _seen(client: DaskClient, number: int) -> Seen:
    """What the next look says; what the last one has said if it takes too long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_ANSWERS_WITHIN / 2):
            client.looked.clear()
            await client.looked.wait()
    return Seen(number, client.threads, client.workers[:MOST_WORKERS], _cut(client.trouble) or "")


def _cut(text: str | None) -> str | None:
    return None if text is None else text.encode(errors="replace").decode()[:LONGEST_REASON]


def restrict(has_cluster: bool) -> None:
    """No core files; and no more data than it needs, unless it starts a cluster, whose tasks would inherit that."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux" and not has_cluster:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = _MEMORY if hard == resource.RLIM_INFINITY else min(_MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


async def _main(control: int) -> None:
    sock = socket.socket(fileno=control)
    sock.setblocking(False)
    reader, writer = await asyncio.open_unix_connection(sock=sock)
    await Server(reader, writer, restrict).serve()


def main(control: int, lifeline: int) -> None:
    """Serve at the inherited socket `control`, below a guard that watches `lifeline`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stand_guard(lifeline)
    die_first_for_memory()
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main(control))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
