"""Timeouts in clean-ups: in tasks that were cancelled, on every Python that is supported."""

from __future__ import annotations

import asyncio

import pytest

from aiosched.timeouts import clean_up_timeout

NEVER = 60.0  # seconds: longer than a test may last


async def for_ever() -> None:
    await asyncio.Event().wait()


async def clean_up(seconds: float, log: list[str], began: asyncio.Event) -> None:
    try:
        began.set()
        await for_ever()
    finally:
        log.append("cancelled")
        began.set()
        try:
            async with clean_up_timeout(seconds):
                await for_ever()
        except TimeoutError:
            log.append("too long")


async def started(seconds: float, log: list[str]) -> tuple[asyncio.Task[None], asyncio.Event]:
    began = asyncio.Event()
    task = asyncio.create_task(clean_up(seconds, log, began))
    await began.wait()
    began.clear()
    task.cancel()
    await began.wait()
    return task, began


async def test_a_cancelled_task_is_told_that_its_clean_up_took_too_long() -> None:
    log: list[str] = []
    task, _ = await started(0.01, log)

    with pytest.raises(asyncio.CancelledError):
        await task

    assert log == ["cancelled", "too long"]


async def test_a_second_cancellation_ends_the_clean_up() -> None:
    log: list[str] = []
    task, _ = await started(NEVER, log)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert log == ["cancelled"]


async def test_in_a_task_that_was_not_cancelled_it_is_a_timeout_as_any_other() -> None:
    with pytest.raises(TimeoutError):
        async with clean_up_timeout(0.0):
            await for_ever()

    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_what_is_over_in_time_is_not_disturbed() -> None:
    async with clean_up_timeout(NEVER):
        await asyncio.sleep(0)

    with pytest.raises(ValueError, match="mine"):
        async with clean_up_timeout(NEVER):
            raise ValueError("mine")
