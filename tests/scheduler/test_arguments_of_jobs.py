"""The arguments of a job: given where it is asked for, checked against its signature, and typed when it runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import asyncpg
import pytest

from aiosched import Scheduler, dag, enqueue, enqueue_many, task
from aiosched.errors import NotFound, ParamError, Refused
from aiosched.testing import World

seen: list[Any] = []


@dataclass
class Mine:
    """A class of an author."""


async def made(dsn: str) -> AsyncIterator[tuple[Scheduler, Any]]:
    """A running scheduler, and its job."""
    seen.clear()
    scheduler = Scheduler(dsn=dsn, dags=[], context={"pool": "the pool"})

    @scheduler.job()
    async def load(amounts: Sequence[Any], label: str = "none", *, pool: Any, run_id: str, limit: int = 3) -> Any:
        """Load amounts."""
        seen.append((amounts, label, pool, run_id, limit))
        return amounts

    async with scheduler:
        yield scheduler, load


running = pytest.fixture(made)


async def test_a_job_gets_its_arguments_typed_and_everything_else_as_before(running: Any) -> None:
    scheduler, load = running
    values = [Decimal("1.50"), (1, 2), {date(2026, 1, 2)}, {"a": timedelta(1)}, "{{ 1 + 1 }}", {"$aiosched": "date"}]

    run = await scheduler.trigger(load, amounts=values, run_id="one")

    assert await run.result() == values
    assert seen == [(values, "none", "the pool", "one", 3)]


async def test_conf_gives_arguments_too_as_for_those_who_have_only_the_name(running: Any) -> None:
    scheduler, load = running

    by_name = await scheduler.trigger("load", conf={"amounts": [1], "label": "x"})
    both = await scheduler.trigger(load, conf={"amounts": [2]}, limit=5)
    many = await scheduler.trigger_batch(load, [{"conf": {"amounts": (3,)}}])

    assert [await each.result() for each in (by_name, both, *many)] == [[1], [2], (3,)]
    assert sorted((each[1], each[4]) for each in seen) == [("none", 3), ("none", 5), ("x", 3)]


async def test_a_wrong_call_is_refused_where_it_is_made(running: Any, dsn: str) -> None:
    scheduler, load = running
    conn = await asyncpg.connect(dsn)
    try:
        for given, told in [
            ({}, "load.. lacks the argument 'amounts'"),
            ({"amount": [1]}, "load.. has no argument 'amount'.*amounts"),
            ({"amounts": [1], "pool": "mine"}, "has no argument 'pool'"),
            ({"amounts": [1], "run_after": None, "ds": "2026"}, "has no argument 'ds'"),
            ({"conf": {"amounts": [1]}, "amounts": [2]}, "'amounts' twice"),
            ({"amounts": Mine()}, "amounts.*Mine: values of classes of your own"),
            ({"amounts": float("nan")}, None),
        ]:
            if told is None:
                await enqueue(conn, load, **given)
                continue
            with pytest.raises(Refused, match=told):
                await scheduler.trigger(load, **given)
            with pytest.raises(Refused, match=told):
                await enqueue(conn, load, **given)
        with pytest.raises(Refused, match="lacks the argument"):
            await enqueue_many(conn, load, [{"conf": {"amounts": [1]}}, {"conf": {}}])
        with pytest.raises(TypeError, match="unexpected keyword argument 'amounts'"):
            await scheduler.trigger("load", amounts=[1])
        with pytest.raises(Refused, match="is no job"):
            await scheduler.trigger(test_a_wrong_call_is_refused_where_it_is_made)
    finally:
        await conn.close()


@dag(schedule=None)
def nightly() -> None:
    """A DAG."""


async def test_a_dag_is_named_by_its_id_and_what_is_none_is_refused_in_words(running: Any, dsn: str) -> None:
    scheduler, load = running
    conn = await asyncpg.connect(dsn)
    made = nightly()
    asked: dict[str, Any] = {
        "trigger": scheduler.trigger,
        "trigger_batch": lambda given: scheduler.trigger_batch(given, [{}]),
        "enqueue": lambda given: enqueue(conn, given),
        "enqueue_many": lambda given: enqueue_many(conn, given, [{}]),
        "pause": scheduler.pause,
        "delete": scheduler.delete,
        "clear": scheduler.clear,
        "cancel": lambda given: scheduler.cancel(given, "r"),
        "schedule": lambda given: scheduler.schedule(given, "s", every=60),
        "unschedule": lambda given: scheduler.unschedule(given, "s"),
        "why": scheduler.why,
        "schedules": lambda given: scheduler.schedules(b"d" if given is None else given),
        "xcom": lambda given: scheduler.xcom(given, "r", "t"),
        "run_state": lambda given: scheduler.run_state(given, "r"),
        "remove": scheduler.remove,
    }
    try:
        for ask in asked.values():
            for given, told in (
                (made, "give 'nightly', not the DAG itself"),
                (5, "text, not 5"),
                (None, "which is text"),
            ):
                with pytest.raises(Refused, match=told):
                    await ask(given)
        with pytest.raises(Refused, match="give 'load', not the function itself"):
            await scheduler.pause(load)
    finally:
        await conn.close()


async def test_a_key_that_is_no_text_and_a_number_that_is_none_are_refused_in_words(running: Any) -> None:
    scheduler, load = running

    with pytest.raises(Refused, match=r"^trigger: conf has the key 1, which is no text"):
        await scheduler.trigger("load", conf={1: 2})
    for wrong in (float("nan"), float("inf"), timedelta(minutes=5)):
        with pytest.raises(Refused, match=r"'every' is .*give a number of seconds"):
            await scheduler.schedule("load", "s", every=wrong, conf={"amounts": []})
        with pytest.raises(Refused, match=r"'debounce' is .*give a number of seconds"):
            await scheduler.trigger(load, amounts=[], unique="a", debounce=wrong)


async def test_who_has_only_the_name_is_refused_by_the_owner(running: Any) -> None:
    scheduler, _ = running

    with pytest.raises((ParamError, Refused), match="amounts"):
        await scheduler.trigger("load")
    with pytest.raises((ParamError, Refused), match="limit"):
        await scheduler.trigger("load", conf={"amounts": [1], "limit": "many"})


async def test_a_job_is_asked_for_in_a_transaction(running: Any, dsn: str) -> None:
    scheduler, load = running
    conn = await asyncpg.connect(dsn)
    try:
        async with conn.transaction():
            number = await enqueue(conn, load, amounts={Decimal("0.1")})
            two = await enqueue_many(conn, load, [{"conf": {"amounts": (1,)}}, {"conf": {"amounts": (2,)}}])
    finally:
        await conn.close()

    assert [await (await scheduler.run_of(each)).result() for each in (number, *two)] == [{Decimal("0.1")}, (1,), (2,)]


async def test_a_durable_schedule_of_a_job_has_arguments(running: Any) -> None:
    scheduler, load = running

    await scheduler.schedule(load, "tenant-7", every=3600, amounts=[Decimal(7)])

    assert [one.name for one in await scheduler.schedules("load")] == ["tenant-7"]
    with pytest.raises(Refused, match="lacks the argument 'amounts'"):
        await scheduler.schedule(load, "tenant-8", every=3600)


async def test_a_dag_takes_typed_values_in_its_conf(dsn: str) -> None:
    @dag(schedule=None)
    def echo() -> None:
        @task
        async def say(params: Any = None) -> Any:
            return params["at"]

        say()

    async with Scheduler(dsn=dsn, dags=[echo()]) as scheduler:
        run = await scheduler.trigger("echo", conf={"at": date(2026, 1, 2)})
        assert await run.result() == date(2026, 1, 2)
        with pytest.raises(NotFound):
            await scheduler.trigger("ech", conf={"at": date(2026, 1, 2)})


def test_a_job_with_a_schedule_needs_defaults(dsn: str) -> None:
    scheduler = Scheduler(dsn=dsn, dags=[])

    with pytest.raises(Refused, match="a schedule, which gives no amounts: give defaults"):

        @scheduler.job(every=60)
        async def load(amounts: list[int]) -> None: ...


def test_a_default_that_cannot_be_stored_stays_that_of_the_function(dsn: str) -> None:
    scheduler = Scheduler(dsn=dsn, dags=[])
    own = object()

    @scheduler.job(every=60)
    async def load(client: Any = own, size: int | None = None, texts: list[str] = []) -> None: ...  # noqa: B006

    (made_of,) = scheduler._registered.known.values()
    assert sorted(made_of.params) == ["size", "texts"]


def test_a_world_takes_the_arguments_of_a_job(dsn: str) -> None:
    scheduler = Scheduler(dsn=dsn, dags=[])

    @scheduler.job()
    async def load(amounts: list[Any]) -> None: ...

    world = World(now=datetime(2026, 1, 1, tzinfo=UTC))
    world.add(scheduler._registered.known["load"])
    run_id = world.trigger(load, amounts=[(1,)])

    assert world.run("load", run_id).conf == {"amounts": [{"$aiosched": "tuple", "value": [1]}]}
    with pytest.raises(Refused, match="lacks the argument"):
        world.trigger(load)
