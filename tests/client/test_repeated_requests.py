"""Requests with a key: repeated by whom, when and where ever, they are done once, and have the first answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
from cryptography.fernet import Fernet

from aiosched import Param, dag, enqueue, enqueue_many, task
from aiosched.client import ApiProblem, Client
from aiosched.config import Settings, WebSettings
from aiosched.errors import NotAnswered, NotFound, Refused
from aiosched.scheduler import Scheduler, service
from aiosched.web.requests.request_client import RequestClient
from tests.patience import PATIENCE

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@dag(
    schedule="@daily", start_date=NEW_YEAR, catchup=False, params={"code": Param("", type="string", format="password")}
)
def secret() -> None:
    @task
    async def use() -> None: ...

    use()


@dag(schedule=None)
def pay() -> None:
    @task
    async def once() -> None: ...

    once()


def scheduler_of(dsn: str) -> Scheduler:
    return Scheduler(dsn=dsn, dags=[pay(), secret()], settings=Settings(web=WebSettings(auth="none")))


@pytest.fixture
async def scheduler(dsn: str) -> AsyncIterator[Scheduler]:
    async with scheduler_of(dsn) as it:
        yield it


async def count(scheduler: Scheduler, verb: str) -> int:
    return int(await scheduler.db.fetchval("SELECT count(*) FROM request WHERE verb = $1", verb))


async def test_many_at_once_are_one(scheduler: Scheduler) -> None:
    runs = await asyncio.gather(*(scheduler.trigger("pay", conf={"n": 1}, key="order 7") for _ in range(20)))

    assert len({run.run_id for run in runs}) == 1
    assert await count(scheduler, "trigger") == 1


async def test_it_is_the_same_over_restarts_and_after_the_run_has_ended(dsn: str) -> None:
    async with scheduler_of(dsn) as first:
        run = await first.trigger("pay", key="k")
        await run.wait(PATIENCE)
    async with scheduler_of(dsn) as second:
        assert (await second.trigger("pay", key="k")).run_id == run.run_id
        assert (await second.trigger("pay", key="another")).run_id != run.run_id


async def test_another_request_with_the_key_is_refused(scheduler: Scheduler) -> None:
    await scheduler.trigger("pay", conf={"n": 1}, key="k")

    others: list[Callable[[], Awaitable[object]]] = [
        lambda: scheduler.trigger("pay", conf={"n": 2}, key="k"),
        lambda: scheduler.trigger("secret", conf={"n": 1}, key="k"),
        lambda: scheduler.pause("pay", key="k"),
        lambda: scheduler.trigger("pay", conf={"n": 1}, run_id="r", key="k"),
    ]
    for other in others:
        with pytest.raises(Refused, match="The key 'k' was sent with another request before"):
            await other()
    for wrong in ("", "k" * 251):
        with pytest.raises(Refused, match="has 1 to 250 characters"):
            await scheduler.trigger("pay", key=wrong)
    assert await count(scheduler, "trigger") == 1


async def test_a_refusal_is_an_answer_too(scheduler: Scheduler) -> None:
    for _ in range(2):
        with pytest.raises(NotFound, match="There is no DAG 'pya'"):
            await scheduler.trigger("pya", key="k")
    assert await count(scheduler, "trigger") == 1


@pytest.mark.parametrize("verb", ["pause", "unpause", "backfill", "clear", "schedule"])
async def test_every_verb_has_a_key(scheduler: Scheduler, verb: str) -> None:
    options: dict[str, Any] = {
        "backfill": {"first": NEW_YEAR, "final": NEW_YEAR},
        "schedule": {"name": "n", "every": 1e6},
    }.get(verb, {})
    answers = [await getattr(scheduler, verb)("secret", **options, key="k") for _ in range(2)]

    assert answers[0] == answers[1]
    assert await scheduler.db.fetchval("SELECT count(*) FROM request") == 1


async def test_secrets_are_compared_though_each_is_encrypted_anew(dsn: str) -> None:
    settings = Settings(web=WebSettings(auth="none"))
    settings.secrets.fernet_keys = Fernet.generate_key().decode()
    async with Scheduler(dsn=dsn, dags=[secret()], settings=settings) as it:
        first = await it.trigger("secret", conf={"code": "s3cr3t"}, key="k")
        assert "s3cr3t" not in await it.db.fetchval("SELECT args::text FROM request")
        assert (await it.trigger("secret", conf={"code": "s3cr3t"}, key="k")).run_id == first.run_id
        with pytest.raises(Refused, match="another request"):
            await it.trigger("secret", conf={"code": "y"}, key="k")


async def test_who_had_no_answer_asks_again(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(service, "_ANSWER_SECONDS", 0.0)
        with pytest.raises(NotAnswered):
            await scheduler.trigger("pay", key="k")

    run = await scheduler.trigger("pay", key="k")

    assert await run.wait(PATIENCE) == "success"
    assert await count(scheduler, "trigger") == 1


async def test_batches_have_a_key_for_each(scheduler: Scheduler) -> None:
    one = await scheduler.trigger_batch("pay", [{"key": "a"}, {}, {"key": "b"}])
    two = await scheduler.trigger_batch("pay", [{"key": "b"}, {"key": "a"}, {"key": "a", "conf": {"n": 1}}])

    ids = [getattr(each, "run_id", None) for each in (*one, *two)]
    assert ids[3:5] == [ids[2], ids[0]]
    assert isinstance(two[2], Refused)


async def test_enqueued_ones_too_whose_transaction_decides(dsn: str, scheduler: Scheduler) -> None:
    one, two = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    try:
        begun = one.transaction()
        await begun.start()
        await enqueue(one, "pay", key="k")
        waiting = asyncio.create_task(enqueue(two, "pay", key="k"))  # until it is known what the first does
        await begun.rollback()
        number = await waiting
        assert await enqueue(one, "pay", key="k") == number
        assert (await scheduler.trigger("pay", key="k")).run_id == (await scheduler.run_of(number)).run_id
        with pytest.raises(Refused, match="another request"):
            await enqueue(one, "pay", conf={"n": 1}, key="k")
        with pytest.raises(Refused, match="same key"):
            await enqueue_many(one, "pay", [{"key": "x"}, {"key": "x"}])
        assert (await enqueue_many(one, "pay", [{"key": "new"}, {"key": "k"}]))[1] == number
    finally:
        await one.close()
        await two.close()


# -- the API


async def test_the_client_sends_the_header_and_gets_the_first_answer(client: Client, scheduler: Scheduler) -> None:
    first = await client.trigger("pay", conf={"n": 1}, key="k")
    await client.pause("pay", key="p")  # a trigger would be refused now

    assert (await client.trigger("pay", conf={"n": 1}, key="k")).run_id == first.run_id
    with pytest.raises(Refused, match="another request"):
        await client.trigger("pay", conf={"n": 2}, key="k")
    with pytest.raises(Refused, match="paused"):
        await client.trigger("pay", key="another")
    await client.unpause("pay", key="u")
    assert (await client.pause("pay", key="p")).is_paused is False  # what was done is done: it shows what is so now


async def test_batches_of_the_client(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiosched.client.client._BATCH", 2)
    first, again = [await client.trigger_batch("pay", [{}, {}, {}], key="k") for _ in range(2)]

    assert first == again
    assert len({each.run_id for each in first}) == 3


async def test_an_action_on_many_is_done_once(client: Client, scheduler: Scheduler) -> None:
    runs = [(dag_id, (await client.trigger(dag_id)).run_id) for dag_id in ("pay", "pay")]
    for dag_id, run_id in runs:
        await client.wait(dag_id, run_id)

    first, again = [await client.act_on_many("clear", runs=runs, key="k") for _ in range(2)]
    with pytest.raises(Refused, match="another request"):
        await client.clear("pay", [runs[0][1]], key="0 k")
    noted = await client.act_on_many("note", runs=runs, note="n", key="k")

    assert (first.count, first.runs) == (2, 2)
    assert first == again
    assert await count(scheduler, "clear") == 1
    assert ["another request" in each.detail for each in noted.refused] == [True]  # the first of two has that key
    for dag_id, run_id in runs:
        await client.wait(dag_id, run_id)
    await client.act_on_many("clear", runs=runs, key="other")
    assert await count(scheduler, "clear") == 2


async def test_an_action_on_many_that_was_cut_off_is_done_to_its_end(
    client: Client, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [("pay", (await client.trigger("pay")).run_id) for _ in range(3)]
    ask, asked = RequestClient.ask, list[object]()

    async def dies(self: RequestClient, request: Any, *where: Any, **by: Any) -> Any:
        asked.append(request)
        if len(asked) == 2:
            raise ConnectionResetError("the server is gone")
        return await ask(self, request, *where, **by)

    monkeypatch.setattr(RequestClient, "ask", dies)
    with pytest.raises((ApiProblem, ConnectionResetError)):
        await client.act_on_many("note", runs=runs, note="n", key="k")
    monkeypatch.setattr(RequestClient, "ask", ask)
    await client.act_on_many("note", runs=runs, note="n", key="k")

    assert [(await client.run(dag_id, run_id)).note for dag_id, run_id in runs] == ["n"] * 3
    assert await count(scheduler, "set_note") == 3


async def test_a_header_that_cannot_be_one_is_refused(client: Client) -> None:
    for wrong in ("", "k" * 241):
        with pytest.raises(ApiProblem, match="Idempotency-Key"):
            await client.trigger("pay", key=wrong)
