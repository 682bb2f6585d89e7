"""Questions that are asked together: what comes while a request is under way goes with the next one."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


class Batcher(Generic[Q, A]):
    """`send` answers a number of questions in their order, or raises an error, which is then that of each of them.

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
