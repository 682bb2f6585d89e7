"""Long computations share the event loop with others."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from aiosched.errors import Refused
from aiosched.scheduler.concurrency.slices import in_slices


class Computing:
    """Numbers that take a millisecond each, by a clock of their own."""

    def __init__(self) -> None:
        self.now = 0.0

    def numbers(self, most: int) -> Iterator[int]:
        for number in range(most):
            self.now += 0.001
            yield number

    def seconds(self) -> float:
        return self.now


async def test_others_run_between_the_slices() -> None:
    computing, turns = Computing(), []

    async def other() -> None:
        while True:
            turns.append(computing.now)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    found = await in_slices(computing.numbers(160), "numbers", seconds=computing.seconds)
    task.cancel()

    assert found == list(range(160))
    assert max(later - earlier for earlier, later in itertools.pairwise(turns)) <= 0.017


async def test_what_takes_longer_than_its_budget_is_refused() -> None:
    computing = Computing()

    with pytest.raises(Refused, match=r"Computing numbers took longer than 0\.1 s; ask for less at a time"):
        await in_slices(computing.numbers(10_000), "numbers", budget=0.1, seconds=computing.seconds)

    assert computing.now < 0.15


async def test_the_pauses_do_not_count() -> None:
    computing = Computing()

    async def other() -> None:
        while True:
            computing.now += 1.0
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    assert len(await in_slices(computing.numbers(64), "numbers", budget=0.1, seconds=computing.seconds)) == 64
    task.cancel()
