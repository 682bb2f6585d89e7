"""A request that no scheduler has applied in time: nobody takes it for refused, and it is applied once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from aiosched import dag, task
from aiosched.config import Settings
from aiosched.errors import NotAnswered, NotFound, Refused, TimedOut
from aiosched.scheduler import Scheduler, service
from tests.patience import PATIENCE


@dag(schedule=None)
def pay() -> None:
    @task
    async def once() -> None: ...

    once()


@pytest.fixture
async def owner(dsn: str) -> AsyncIterator[Scheduler]:
    async with Scheduler(dsn=dsn, dags=[pay()], settings=Settings()) as it:
        yield it


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for an answer."""
    monkeypatch.setattr(service, "_ANSWER_SECONDS", 0.0)


@pytest.mark.usefixtures("at_once")
async def test_a_request_that_waits_is_not_refused_and_its_outcome_comes(owner: Scheduler) -> None:
    with pytest.raises(NotAnswered, match=r"waits as number \d+ and will be applied, so do not repeat it") as raised:
        await owner.trigger("pay", run_id="r")
    number = raised.value.number

    both = await asyncio.gather(*(owner.outcome(number, timeout=PATIENCE) for _ in range(2)))

    assert isinstance(raised.value, TimedOut)
    assert not isinstance(raised.value, Refused)
    assert [answer["run_id"] for answer in both] == ["r", "r"]
    with pytest.raises(Refused, match="has a run with the run id 'r' already"):
        await owner.outcome(await number_of(owner, "r"), timeout=PATIENCE)
    with pytest.raises(Refused, match="was applied already"):
        await owner.withdraw(number)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("verb", ["pause", "unpause", "delete", "backfill"])
async def test_so_it_is_with_every_verb(owner: Scheduler, verb: str) -> None:
    dates = {"first": datetime(2026, 1, 1, tzinfo=UTC), "final": datetime(2026, 1, 2, tzinfo=UTC)}

    with pytest.raises(NotAnswered):
        await getattr(owner, verb)("pay", **dates if verb == "backfill" else {})


async def number_of(owner: Scheduler, run_id: str) -> int:
    with pytest.raises(NotAnswered) as raised:
        await owner.trigger("pay", run_id=run_id)
    return raised.value.number


async def test_only_what_waits_can_be_waited_for_and_taken_back(owner: Scheduler) -> None:
    for asking in (owner.outcome(999, timeout=0), owner.withdraw(999)):
        with pytest.raises(NotFound, match="There is no request 999"):
            await asking
