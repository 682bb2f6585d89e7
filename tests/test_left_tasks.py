"""Tasks that a test leaves on the loop are found and ended, those of a wider scope go on: tests/left_tasks.py."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from tests import left_tasks


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop of its own, without tasks at the end."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        loop = runner.get_loop()
        loop.set_task_factory(left_tasks.make)
        yield loop


def begin(loop: asyncio.AbstractEventLoop, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    async def create() -> asyncio.Task[Any]:
        return asyncio.create_task(work, name=name)

    return loop.run_until_complete(create())


async def waits() -> None:
    await asyncio.Event().wait()


async def begins_another() -> None:
    asyncio.create_task(waits(), name="child")  # noqa: RUF006  it is left
    await asyncio.Event().wait()


async def ends_slowly() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.to_thread(lambda: None)


async def goes_on(done: asyncio.Event) -> None:
    while not done.is_set():
        with contextlib.suppress(asyncio.CancelledError):
            await done.wait()


def test_those_of_a_test_and_of_its_tasks_are_ended(loop: asyncio.AbstractEventLoop) -> None:
    with left_tasks.ended(loop):
        begin(loop, "left", begins_another())
        begin(loop, "takes a moment to end", ends_slowly())
    assert asyncio.all_tasks(loop) == set()


def test_one_that_does_not_end_is_named(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_tasks, "_LONGEST_END", 0.01)
    done = asyncio.Event()
    with pytest.raises(AssertionError, match=r"do not end: stubborn \(goes_on\)"), left_tasks.ended(loop):
        begin(loop, "stubborn", goes_on(done))
    done.set()


def test_those_that_end_or_were_asked_to_are_nothing(loop: asyncio.AbstractEventLoop) -> None:
    with left_tasks.ended(loop):
        begin(loop, "ends", asyncio.sleep(0))
        begin(loop, "cancelled", waits()).cancel()
        begin(loop, "takes a moment to end", ends_slowly()).cancel()


def test_those_of_a_wider_scope_go_on_with_what_they_begin(loop: asyncio.AbstractEventLoop) -> None:
    asked = asyncio.Event()

    async def of_the_module() -> None:
        await asked.wait()
        await begins_another()

    wider = begin(loop, "wider", of_the_module())
    with left_tasks.ended(loop):
        asked.set()
        loop.run_until_complete(asyncio.sleep(0))

    loop.run_until_complete(asyncio.sleep(0))
    assert {task.get_name() for task in asyncio.all_tasks(loop)} == {"wider", "child"}
    assert not wider.done()


async def test_the_loop_of_tests_is_watched() -> None:
    assert asyncio.get_running_loop().get_task_factory() is left_tasks.make
