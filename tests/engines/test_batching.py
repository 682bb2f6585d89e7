"""Questions that are asked together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from aiosched.executors.engines.worker_connection import Batcher


class Server:
    """Doubles numbers, one call at a time; each call waits for `go_on`."""

    def __init__(self, *, most: int = 10, heaviest: float = 100) -> None:
        self.calls: list[list[int]] = []
        self.called, self.go_on = asyncio.Event(), asyncio.Semaphore(0)
        self.batcher = Batcher(self._answer, most=most, heaviest=heaviest)

    async def _answer(self, numbers: Sequence[int]) -> list[int]:
        self.calls.append(list(numbers))
        self.called.set()
        await self.go_on.acquire()
        if 13 in numbers:
            raise ValueError("not 13")
        return [2 * number for number in numbers]

    def ask(self, *numbers: int, weight: int = 0) -> list[asyncio.Task[int]]:
        return [asyncio.ensure_future(self.batcher.ask(number, weight=weight)) for number in numbers]

    def release(self, calls: int) -> None:
        for _ in range(calls):
            self.go_on.release()


async def test_what_comes_while_a_call_is_under_way_goes_with_the_next_one() -> None:
    server = Server()
    first = server.ask(1)
    await server.called.wait()
    others = server.ask(2, 3, 4)
    server.release(2)
    assert await asyncio.gather(*first, *others) == [2, 4, 6, 8]
    assert server.calls == [[1], [2, 3, 4]]


async def test_a_call_has_a_most_and_a_heaviest() -> None:
    server = Server(most=3, heaviest=10)
    asked = [*server.ask(1, 2, 3, 4), *server.ask(5, 6, weight=6), *server.ask(7, weight=99)]
    server.release(9)
    assert await asyncio.gather(*asked) == [2, 4, 6, 8, 10, 12, 14]
    assert server.calls == [[1, 2, 3], [4, 5], [6], [7]]


async def test_an_error_is_that_of_all_questions_of_its_call_and_of_no_other() -> None:
    server = Server(most=2)
    asked = server.ask(1, 13, 3)
    server.release(2)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert list(map(str, answers)) == ["not 13", "not 13", "6"]


async def test_a_question_that_nobody_waits_for_any_more_is_not_asked() -> None:
    server = Server()
    first = server.ask(1)
    await server.called.wait()
    second, third = server.ask(2, 3)
    await asyncio.sleep(0)
    second.cancel()
    server.release(2)
    assert await asyncio.gather(*first, third) == [2, 6]
    with pytest.raises(asyncio.CancelledError):
        await second
    assert server.calls == [[1], [3]]
