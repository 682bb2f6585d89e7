"""What a worker asks one set of servers about all of its attempts: claims of starts and final reports, in batches."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

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
from aiosched.executors.engines.batching import Batcher

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
