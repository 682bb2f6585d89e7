"""Schedules that are data, from the API and its client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from aiosched import dag, task
from aiosched.client import ApiProblem, Client
from aiosched.config import Settings, WebSettings
from aiosched.errors import NotFound, Refused
from aiosched.scheduler import Scheduler

FAR = datetime(2100, 1, 1, tzinfo=UTC)


@dag(schedule=None)
def tenants() -> None:
    @task
    async def work() -> None: ...

    work()


@pytest.fixture
async def scheduler(dsn: str) -> AsyncIterator[Scheduler]:
    async with Scheduler(dsn=dsn, dags=[tenants()], settings=Settings(web=WebSettings(auth="none"))) as it:
        yield it


async def test_a_schedule_is_made_listed_paused_changed_and_removed(client: Client) -> None:
    made = await client.schedule("tenants", "t-7", cron="0 6 * * *", timezone="Europe/Paris", conf={"t": 7}, start=FAR)
    assert (made.summary, made.conf, made.is_paused, made.start, made.last_state) == (
        "0 6 * * * (Europe/Paris)", {"t": 7}, False, FAR, None,
    )  # fmt: skip
    assert made.next_at == datetime(2100, 1, 1, 5, tzinfo=UTC)
    assert (await client.pause_schedule("tenants", "t-7", reason="no money")).is_paused
    assert (await client.schedule("tenants", "t-7", every=60, start=FAR)).is_paused  # as it was
    assert not (await client.resume_schedule("tenants", "t-7")).is_paused
    await client.schedule("tenants", "t-8", at=FAR, key="k")
    await client.schedule("tenants", "t-8", at=FAR, key="k")

    found = [(one.name, one.every, one.at) async for one in client.schedules(dag_id="tenants")]
    assert found == [("t-7", 60.0, None), ("t-8", None, FAR)]
    assert [one.name async for one in client.schedules(dag_id="other")] == []
    await client.unschedule("tenants", "t-7")
    assert [one.name async for one in client.schedules()] == ["t-8"]


async def test_what_cannot_be_is_refused_and_what_is_not_there_not_found(client: Client) -> None:
    with pytest.raises(Refused, match="one of cron, every and at"):
        await client.schedule("tenants", "n")
    with pytest.raises(Refused, match="begins the ids of its runs"):
        await client.schedule("tenants", "a b", every=60)
    with pytest.raises(ApiProblem):
        await client.schedule("tenants", "n", at=datetime(2100, 1, 1))  # noqa: DTZ001  what is refused
    with pytest.raises(NotFound):
        await client.schedule("no dag", "n", every=60)
    with pytest.raises(NotFound, match="has no schedule 'n'"):
        await client.unschedule("tenants", "n")
    with pytest.raises(NotFound):
        await client.pause_schedule("tenants", "n")


async def test_lists_have_pages(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiosched.client.client._PAGE", 2)
    for n in range(5):
        await client.schedule("tenants", f"t{n}", at=FAR)

    assert [one.name async for one in client.schedules()] == [f"t{n}" for n in range(5)]


async def test_why_a_dag_does_not_run_names_the_next_of_its_schedules(client: Client, scheduler: Scheduler) -> None:
    for name in ("a", "b"):
        await client.schedule("tenants", name, at=FAR)
    await client.pause_schedule("tenants", "a")

    explanation = await scheduler.why("tenants")

    (gate,) = [each for each in explanation.gates if each.name == "schedules"]
    assert gate.detail == "2 schedules, 1 paused; next is b at 2100-01-01 00:00:00 UTC"
    assert explanation.earliest_start == FAR
    await client.pause_schedule("tenants", "b")
    assert "2 paused; none is due any more" in (await scheduler.why("tenants")).summary
