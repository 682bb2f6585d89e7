"""One connection to the broker, and the thread that waits for its answers: nothing of it blocks the event loop.

Whoever asks gets an answer or EngineUnavailable, within seconds. What fails on a connection that was open for a while
is asked once more on a new one, so an idle connection that the broker has closed is no failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Final, TypeVar

import msgspec
from celery import Celery
from kombu import connection as kombu_connection
from kombu import pidbox

from aiosched.config.secrecy import hide_password
from aiosched.core.values.worker_messages import Job
from aiosched.executors.celery.application import CANCEL, LOOK, NAMESPACE, RUN_JOBS, name_of
from aiosched.executors.celery.sealing import Seals
from aiosched.executors.engines.engine import EngineUnavailable

logger: logging.Logger = logging.getLogger(__name__)

T = TypeVar("T")

TIMEOUT: Final = 5.0  # seconds to connect, and for one answer
_AT_ONCE: Final = 1.0  # seconds within which a connection fails that the broker has closed
_MOST_PER_MESSAGE: Final = 0.05  # seconds
_ANSWERS_WITHIN: Final = 1.0  # seconds in which workers answer; those that do not are taken for gone
_DECLARED_FOR: Final = 5.0  # seconds
OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "amqp": {"read_timeout": TIMEOUT, "write_timeout": TIMEOUT, "max_retries": 1},
    "redis": {"socket_timeout": TIMEOUT, "socket_connect_timeout": TIMEOUT, "max_retries": 1},
}


class WorkerLook(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of itself: how many tasks it runs at a time, its queues, and the jobs that it has."""

    concurrency: Annotated[int, msgspec.Meta(ge=0, le=100_000)]
    queues: Annotated[list[Annotated[str, msgspec.Meta(max_length=255)]], msgspec.Meta(max_length=1_000)]
    jobs: Annotated[list[int], msgspec.Meta(max_length=1_000_000)]


class Broker:
    """A connection to the broker at `url`, used by one thread of its own."""

    def __init__(self, app: Celery, url: str, seals: Seals) -> None:
        self._app, self._url, self._seals = app, url, seals
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="celery broker")
        self._connection: Any = None
        self._is_closed = False
        self._producer: Any = None
        self._declared: set[str] = set()  # queues
        self._declared_at = 0.0  # monotonic second
        mailbox: Any = pidbox.Mailbox
        self._mailbox = mailbox(NAMESPACE, type="fanout", accept=["json"], serializer="json")

    async def publish(self, messages: Sequence[tuple[str, Sequence[Job]]], *, held: bool) -> dict[str, str]:
        """Send jobs to queues, some of one owner in each message; returns once the broker has all of them.

        The answer has the queues that the broker refuses, and why: their messages were not sent.

        Past `send_task`, whose routes, signals and options take half as much processor time as the broker's protocol.
        `held`: see SealedJobs. Raises EngineUnavailable.
        """

        def work(connection: Any) -> dict[str, str]:
            refused: dict[str, str] = {}
            errors = (*connection.channel_errors, KeyError)  # reserved (kombu: KeyError), or has other properties
            for queue in {name for name, _ in messages} - self._declared:
                try:
                    self._app.amqp.queues[queue](self._open_producer(connection).channel).declare()
                    self._declared.add(queue)
                except errors as error:
                    refused[queue], self._producer = str(error) or type(error).__name__, None
            producer = self._open_producer(connection)
            for queue, jobs in messages:
                if queue in refused:
                    continue
                text, name = self._seals.seal(jobs, held=held), name_of(job.id for job in jobs)
                message = self._app.amqp.create_task_message(
                    name, RUN_JOBS, (text,), {}, argsrepr="<sealed>", kwargsrepr="{}", ignore_result=True
                )
                producer.publish(
                    message.body, exchange="", routing_key=queue, serializer="json", headers=message.headers,
                    retry=False, delivery_mode="persistent", **message.properties,
                )  # fmt: skip
            if self._is_amqp:
                producer.channel.tx_commit()  # returns once the broker has them on its disk
            return refused

        return await self._do(work, 3 * TIMEOUT + len(messages) * _MOST_PER_MESSAGE)

    def _open_producer(self, connection: Any) -> Any:
        """That of the connection; queues are declared again now and then, since somebody may have deleted them."""
        if self._producer is None:
            channel = connection.channel()
            if self._is_amqp:
                channel.tx_select()
            self._producer = self._app.amqp.Producer(channel, auto_declare=False)
        if (now := time.monotonic()) > self._declared_at + _DECLARED_FOR:
            self._declared_at = now
            self._declared.clear()
        return self._producer

    async def workers(self) -> dict[str, WorkerLook]:
        """What each worker says of itself (CeleryWorker.look), by name; other answers do not count.

        Raises EngineUnavailable.
        """

        def work(connection: Any) -> dict[str, WorkerLook]:
            return answers_of_workers(self._mailbox(connection).multi_call(LOOK, timeout=_ANSWERS_WITHIN))

        return await self._do(work, 3 * TIMEOUT)

    async def cancel(self, jobs: Iterable[int], *, grace: float) -> None:
        """Tell all workers. Raises EngineUnavailable."""

        def work(connection: Any) -> None:
            self._mailbox(connection).abcast(CANCEL, {"jobs": list(jobs), "grace": grace})

        await self._do(work, 3 * TIMEOUT)

    async def lengths(self, queues: Iterable[str]) -> dict[str, int]:
        """How many messages wait in each queue. Raises EngineUnavailable."""

        def length(connection: Any, queue: str) -> int:
            try:
                with connection.channel() as channel:
                    return int(channel.queue_declare(queue=queue, passive=True).message_count)
            except connection.channel_errors:  # there is no such queue
                return 0

        def work(connection: Any) -> dict[str, int]:
            return {queue: length(connection, queue) for queue in queues}

        return await self._do(work, 3 * TIMEOUT)

    async def _do(self, work: Callable[[Any], T], within: float) -> T:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(within):
                return await loop.run_in_executor(self._thread, self._attempt, work)
        except TimeoutError:
            raise EngineUnavailable(f"{self._where} does not answer (celery.broker)") from None

    def _attempt(self, work: Callable[[Any], T]) -> T:
        was_open, began = self._connection is not None, time.monotonic()
        try:
            return self._try(work)
        except EngineUnavailable:
            if not was_open or time.monotonic() > began + _AT_ONCE:
                raise
            return self._try(work)

    def _try(self, work: Callable[[Any], T]) -> T:
        if self._connection is None:
            self._connection = self._new_connection()
        connection = self._connection
        try:
            connection.connect()
            return work(connection)
        except Exception as error:  # of the broker's library, or about what somebody has put into the broker
            self._close()
            what = str(error) or type(error).__name__
            raise EngineUnavailable(f"{self._where} cannot be reached (celery.broker): {what}") from error

    def _new_connection(self) -> Any:
        kind = "amqp" if self._is_amqp else "redis"
        make: Any = kombu_connection.Connection
        return make(self._url, connect_timeout=TIMEOUT, heartbeat=0, transport_options=OPTIONS[kind])

    @property
    def _is_amqp(self) -> bool:
        return self._url.startswith("amqp")

    @property
    def _where(self) -> str:
        return f"the broker at {hide_password(self._url)}"

    def _close(self) -> None:
        connection, self._connection, self._producer = self._connection, None, None
        self._declared.clear()
        if connection is not None:
            with contextlib.suppress(Exception):  # whatever state it is in
                connection.release()  # `collect` would change the default timeout of all new sockets meanwhile

    async def close(self) -> None:
        """Disconnect. Can be called again. What is still being asked is given a few seconds."""
        if not self._is_closed:
            self._is_closed = True
            closing = asyncio.get_running_loop().run_in_executor(self._thread, self._close)
            self._thread.shutdown(wait=False)
            await asyncio.wait({closing}, timeout=TIMEOUT)


def answers_of_workers(answers: Iterable[object]) -> dict[str, WorkerLook]:
    """Those that a worker of ours may have given: anybody on the broker can answer."""
    found: dict[str, WorkerLook] = {}
    for answer in answers:
        with contextlib.suppress(msgspec.ValidationError):
            found |= msgspec.convert(answer, dict[str, WorkerLook])
    return found
