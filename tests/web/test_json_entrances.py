"""A JSON value out of bounds is refused at every entrance, with the place, and harms nobody."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx2
import pytest

from aiosched import DAG, task
from aiosched.config import Settings, WebSettings
from aiosched.errors import Refused
from aiosched.scheduler import Scheduler


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


BAD: Final[tuple[tuple[Any, str], ...]] = (
    ({"n": 2**64}, "['n'] is an integer of more than 64 bits"),
    ({"n": nested(400)}, "is nested more than 64 levels deep"),
    ({"n": "a\0b"}, "['n'] has a NUL character"),
    ({"n": "\ud800"}, "['n'] has half of a surrogate pair"),
)


@pytest.fixture
async def scheduler(answered: None, dsn: str) -> AsyncIterator[Scheduler]:
    @task
    async def one() -> None: ...

    with DAG("sales", schedule="0 0 1 1 *", catchup=False) as dag:
        one()
    async with Scheduler(dsn=dsn, dags=[dag], settings=Settings(web=WebSettings(auth="none"))) as scheduler:
        yield scheduler


@pytest.fixture
async def live(scheduler: Scheduler) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=scheduler.web_app(), raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost/api/v1/") as client:
        yield client


async def test_the_api_refuses_it(live: httpx2.AsyncClient) -> None:
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("dags/sales/runs", {"conf": ...}),
        (
            "backfills",
            {"dag_id": "sales", "from_date": "2020-01-01T00:00Z", "to_date": "2021-01-01T00:00Z", "conf": ...},
        ),
        ("assets/orders/events", {"extra": ...}),
    ]
    for (path, body), (value, problem) in itertools.product(bodies, BAD):
        document = json.dumps({name: value if item is ... else item for name, item in body.items()})

        answer = await live.post(path, content=document, headers={"content-type": "application/json"})

        assert (path, problem, answer.status_code) == (path, problem, 422)
        assert problem in answer.text.replace('\\"', '"'), path


async def test_an_application_is_refused_it(scheduler: Scheduler) -> None:
    for value, problem in BAD:
        with pytest.raises(Refused) as raised:
            await scheduler.trigger("sales", conf=value)

        said = str(raised.value)
        assert any(
            words in said for words in (problem, "['n'] is nested too deeply", "['n'] has a text with lone surr")
        )
        assert said.startswith("trigger: conf")


async def test_an_argument_of_megabytes_is_refused(scheduler: Scheduler) -> None:
    with pytest.raises(Refused, match=r"The request 'trigger' has 1,0.. characters|allowed are 1,000,000"):
        await scheduler.trigger("sales", conf={"n": "x" * 1_000_001})


async def test_a_request_that_is_in_the_inbox_already_is_refused_by_the_owner(scheduler: Scheduler) -> None:
    document = json.dumps({"conf": {"n": 2**70}})
    number = await scheduler.db.fetchval(
        "INSERT INTO request (partition, dag_id, verb, args, requested_by)"
        " SELECT partition, dag_id, 'trigger', $1, 'a hand' FROM dag WHERE dag_id = 'sales' RETURNING id",
        document,
    )

    run = await scheduler.trigger("sales")
    assert await run.wait() == "success"

    row = await scheduler.db.fetchrow("SELECT state, result FROM request WHERE id = $1", number)
    assert row["state"] == "refused"
    assert "integer of more than 64 bits" in row["result"]
