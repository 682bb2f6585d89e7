"""What a worker asks one set of servers about all of its attempts: claims of starts and final reports, in batches."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from aiosched.core.values.worker_messages import (
    MOST_ATTEMPTS,
    FinalReport,
    FinalReportsAnswer,
    StartAnswer,
    StartAnswers,
    StartClaims,
)
from aiosched.executors.engines.api_client import ApiClient, TokenRefused

Q = TypeVar("Q")
A = TypeVar("A")


class Batcher(Generic[Q, A]):
    """Asks questions together: what comes while a request is under way goes with the next one.

    `send` answers a number of them in their order, or raises an error, which is then that of each of them.

    One call has at most `most` questions, and no more once their weights exceed `heaviest`.
    """

    def __init__(
        self, send: Callable[[Sequence[Q]], Awaitable[Sequence[A]]], *, most: int, heaviest: float = math.inf
    ) -> None:
        self._send, self._most, self._heaviest = send, most, heaviest
        self._waiting: list[tuple[Q, int, asyncio.Future[A]]] = []
        self._sending: asyncio.Task[None] | None = None

    async def ask(self, question: Q, *, weight: int = 0) -> A:
        """The answer to one question."""
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, weight, answer))
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_all(), name="questions to the worker API")
        return await answer

    async def _send_all(self) -> None:
        try:
            while batch := self._next():
                try:
                    answers = await self._send([question for question, _ in batch])
                except Exception as error:
                    for _, future in batch:
                        if not future.done():
                            future.set_exception(error)
                else:
                    for (_, future), answer in zip(batch, answers, strict=True):
                        if not future.done():
                            future.set_result(answer)
        finally:
            self._sending = None

    def _next(self) -> list[tuple[Q, asyncio.Future[A]]]:
        """Those that go together, without those that nobody waits for any more."""
        batch: list[tuple[Q, asyncio.Future[A]]] = []
        weights = taken = 0
        for question, weight, future in self._waiting:
            if batch and (len(batch) >= self._most or weights + weight > self._heaviest):
                break
            taken += 1
            if not future.done():
                weights += weight
                batch.append((question, future))
        del self._waiting[:taken]
        return batch


_CLAIM_PATIENCE: Final = 60.0  # seconds in which a start is claimed; the job ends if no server answers
_HEAVIEST: Final = 8 * 2**20  # bytes of reports in one request, unless the first one has more
_encode: Final = msgspec.msgpack.Encoder().encode


class Begin(NamedTuple):
    """The answer to a claim; the lease has `lease` seconds from `asked`, a monotonic second."""

    answer: StartAnswer
    lease: float
    asked: float


class WorkerConnection:
    """`worker` is the worker's id; reports are repeated while `lease_holds`."""

    def __init__(self, api: ApiClient, worker: str, lease_holds: Callable[[], bool]) -> None:
        self.api: ApiClient = api
        self._worker, self._lease_holds = worker, lease_holds
        self._me: dict[str, Any] = {"worker": worker, "hostname": socket.gethostname(), "pid": os.getpid()}
        self._claims = Batcher(self._claim, most=MOST_ATTEMPTS)
        self._reports = Batcher(self._report, most=MOST_ATTEMPTS, heaviest=_HEAVIEST)

    async def claim(self, token: str) -> Begin:
        """Claim the start of an attempt. Raises AttemptStopped if no server answers."""
        return await self._claims.ask(token)

    async def report(self, final: FinalReport) -> bool:
        """Store a final report; returns whether the attempt had not ended yet. Raises AttemptStopped.

        One that had to be sent again counts as stored: it may have been, and the answer lost.
        """
        body = _encode(final)
        return await self._reports.ask((final.token, msgspec.Raw(body)), weight=len(body))

    async def _claim(self, tokens: Sequence[str]) -> list[Begin]:
        """Claim again if the answer took long, since the lease counts from before the request.

        The first token speaks for all; if it is none of this database, each is asked for by itself.
        """
        claims, since = StartClaims(**self._me, tokens=list(tokens)), time.monotonic()

        def goes_on() -> bool:
            return time.monotonic() < since + _CLAIM_PATIENCE

        while True:
            asked = time.monotonic()
            try:
                found = await self.api.post("starts", claims, StartAnswers, token=tokens[0], goes_on=goes_on)
            except TokenRefused:
                if len(tokens) == 1:
                    raise
                return [await self._claim_one(token) for token in tokens]
            if time.monotonic() < asked + found.lease / 3 or not goes_on():
                return [Begin(answer, found.lease, asked) for answer in found.answers]

    async def _claim_one(self, token: str) -> Begin:
        try:
            return (await self._claim([token]))[0]
        except TokenRefused as error:
            return Begin(StartAnswer(refusal=str(error)), 0.0, time.monotonic())

    async def _report(self, reports: Sequence[tuple[str, msgspec.Raw]]) -> list[bool]:
        body = _encode({"worker": self._worker, "reports": [report for _, report in reports]})
        is_repeated = False

        def goes_on() -> bool:
            nonlocal is_repeated
            is_repeated = True
            return self._lease_holds()

        answer = await self.api.post("reports", body, FinalReportsAnswer, token=reports[0][0], goes_on=goes_on)
        return [is_repeated or stored for stored in answer.stored]
