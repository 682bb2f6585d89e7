"""Triggers that wait together are stored together, and end as if each had been applied alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.values.ids import partition_of
from aiosched.db.statements import inbox
from aiosched.db.statements.inbox import RequestResult
from aiosched.errors import DatabaseError
from aiosched.parsing.store import register_specs
from aiosched.scheduler.requests import triggers
from aiosched.scheduler.runs import incomplete, new_runs
from tests.patience import PATIENCE
from tests.scheduler.harness import Running, chain, running

Asked = tuple[str, str, dict[str, Any]]  # verb, DAG id, arguments


async def ask_at_once(it: Running, asked: Sequence[Asked]) -> list[RequestResult]:
    """Make requests while the owner is busy, so that it finds all of them; their answers."""
    async with it.session.locks.ownership, it.scheduler.db.acquire() as conn:
        numbers = [
            await inbox.send_request(conn, verb=verb, dag_id=dag_id, args=args, requested_by="test")
            for verb, dag_id, args in asked
        ]
    answers = [await inbox.wait_applied(it.scheduler.db, number, timeout=PATIENCE) for number in numbers]
    return [answer for answer in answers if answer is not None]


def trigger(dag_id: str, run_id: str | None = None, **args: Any) -> Asked:
    return "trigger", dag_id, {"conf": {}, "run_id": run_id, **args}


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The run ids of each transaction that creates triggered runs."""
    found: list[list[str]] = []
    create = new_runs.create

    async def creating(session: Any, creations: Any, now: Any, **options: Any) -> Any:
        found.append([one.planned.run_id for one in creations])
        return await create(session, creations, now, **options)

    monkeypatch.setattr(triggers, "create", creating)
    return found


async def test_they_share_a_transaction_and_each_is_answered(
    dsn: str, clock: FakeClock, stored: list[list[str]]
) -> None:
    async with running(dsn, clock, chain("d", 1), chain("e", 1)) as it:
        asked = [trigger("de"[n % 2], f"r{n}", conf={"n": n}) for n in range(20)]
        answers = await ask_at_once(it, asked)

        assert [answer.result["run_id"] for answer in answers] == [f"r{n}" for n in range(20)]
        assert stored == [[f"r{n}" for n in range(20)]]
        rows = await it.fetch("SELECT id, run_id, conf::text FROM dag_run ORDER BY id")
        assert [tuple(row) for row in rows] == [
            (answer.result["id"], f"r{n}", f'{{"n":{n}}}') for n, answer in enumerate(answers)
        ]
        await it.settled()
        await it.assert_consistent()


async def test_one_that_exists_is_refused_alone_whichever_came_first(
    dsn: str, clock: FakeClock, stored: list[list[str]]
) -> None:
    day = "2026-02-01T00:00:00+00:00"
    async with running(dsn, clock, chain("d", 1), chain("e", 1)) as it:
        await it.trigger("d", "old")
        stored.clear()
        asked = [
            trigger("d", "a"), trigger("d", "a"), trigger("d", "old"), trigger("e", "a"),
            trigger("d", "b", logical_date=day), trigger("d", "c", logical_date=day), trigger("d", "d"),
        ]  # fmt: skip
        answers = await ask_at_once(it, asked)

        assert [answer.state for answer in answers] == [
            "applied", "refused", "refused", "applied", "applied", "refused", "applied",
        ]  # fmt: skip
        assert "run id 'a' already" in answers[1].result["error"]
        assert f"run id 'c' or logical date {day} already" in answers[5].result["error"]
        assert sum(map(len, stored)) == len(asked)
        assert set(await it.runs("d")) == {"old", "a", "b", "d"}
        await it.settled()
        await it.assert_consistent()


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("bad", [{"run_id": "a\0b"}, {"conf": {"x": "\0"}}, {"run_id": "no/good"}, {"conf": 3}])
async def test_one_that_cannot_be_stored_is_refused_alone(dsn: str, clock: FakeClock, bad: dict[str, Any]) -> None:
    async with running(dsn, clock, chain("d", 1)) as it:
        asked = [trigger("d", "a"), trigger("d", **{"run_id": "bad", **bad}), trigger("d", "b")]
        answers = await ask_at_once(it, asked)

        assert [answer.state for answer in answers] == ["applied", "refused", "applied"]
        assert set(await it.runs("d")) == {"a", "b"}


async def test_only_as_many_start_as_there_is_room_for(dsn: str, clock: FakeClock) -> None:
    spec = chain("d", 1, max_active_runs=2)
    async with running(dsn, clock, spec, chain("e", 1)) as it:
        await it.trigger("d", "first")
        await ask_at_once(it, [trigger("d", "a"), trigger("e", "x"), trigger("d", "b"), trigger("d", "c")])

        rows = await it.fetch("SELECT run_id, state FROM dag_run ORDER BY id")
        assert [tuple(row) for row in rows][:2] == [("first", "running"), ("a", "running")]
        await it.settled()
        assert await it.runs("d") == {"first": "running", "a": "running", "b": "queued", "c": "queued"}
        assert await it.runs("e") == {"x": "running"}
        for _ in range(4):
            await it.finish_all()
        assert set((await it.runs("d")).values()) == {"success"}
        await it.assert_consistent()


async def test_others_between_them_keep_their_place(dsn: str, clock: FakeClock, stored: list[list[str]]) -> None:
    async with running(dsn, clock, chain("d", 1)) as it:
        asked: list[Asked] = [
            trigger("d", "a"), ("pause", "d", {}), trigger("d", "b"), trigger("d", "c", unpause=True),
            trigger("d", "e"), ("cancel_run", "d", {"run_id": "e"}), ("pause", "d", {}), trigger("d", "f"),
            trigger("none", "x"),
        ]  # fmt: skip
        answers = await ask_at_once(it, asked)

        assert [answer.state for answer in answers] == ["applied"] * 8 + ["refused"]
        assert [answers[n].result["paused"] for n in (0, 2, 3, 4, 7)] == [False, True, False, False, True]
        await it.settled()
        states = await it.runs("d")
        assert (states["a"], states["e"], states["f"]) == ("running", "failed", "queued")
        assert [row[0] for row in await it.fetch("SELECT run_id FROM dag_run ORDER BY id")] == ["a", "b", "c", "e", "f"]


async def test_reading_dags_again_between_them_loses_no_run(dsn: str, clock: FakeClock) -> None:
    """It replaces the DAGs of a partition, to which planned runs would belong."""
    same = [name for name in map("d{}".format, range(500)) if partition_of(name) == partition_of("d0")][:2]
    first, second = same
    async with running(dsn, clock, chain(first, 1), chain(second, 1)) as it:
        async with it.db.transaction() as conn:  # nobody announces it
            await register_specs(conn, [chain(second, 2)], now=clock.now())
        answers = await ask_at_once(it, [trigger(first, "a"), trigger(second, "b"), trigger(first, "c")])

        assert [one.state for one in answers] == ["applied"] * 3
        await it.settled()
        assert [len(await it.states("a", first)), len(await it.states("b", second))] == [1, 2]
        for _ in range(2):
            await it.finish_all()
        assert {**await it.runs(first), **await it.runs(second)} == dict.fromkeys("abc", "success")
        await it.assert_consistent()


async def _ask(conn: Any, run_id: str) -> int:
    verb, dag_id, args = trigger("d", run_id)
    return await inbox.send_request(conn, verb=verb, dag_id=dag_id, args=args, requested_by="test")


async def test_one_that_is_withdrawn_in_the_last_moment_takes_no_other_with_it(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = new_runs.create
    async with running(dsn, clock, chain("d", 1)) as it:
        async with it.session.locks.ownership, it.scheduler.db.acquire() as conn:
            numbers = [await _ask(conn, run_id) for run_id in "abc"]
            withdrawn = asyncio.Event()

            async def creating(*args: Any, **options: Any) -> Any:
                if not withdrawn.is_set():
                    withdrawn.set()
                    async with it.scheduler.db.acquire() as other:
                        await inbox.withdraw_request(other, numbers[1], by="ann")
                return await create(*args, **options)

            monkeypatch.setattr(triggers, "create", creating)
        answers = [await inbox.wait_applied(it.scheduler.db, number, timeout=PATIENCE) for number in numbers]

        assert [answer and answer.state for answer in answers] == ["applied", "refused", "applied"]
        assert set(await it.runs("d")) == {"a", "c"}
        await it.settled()
        await it.assert_consistent()


async def test_large_runs_do_not_share_one_transaction(
    dsn: str, clock: FakeClock, stored: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incomplete, "PART", 5)
    async with running(dsn, clock, chain("d", 2), chain("large", 7)) as it:
        await ask_at_once(it, [trigger("d", "a"), trigger("d", "b"), trigger("d", "c"), trigger("large", "x")])

        assert stored == [["a", "b"], ["c"], ["x"]]
        await it.settled()
        assert len(await it.states("x", "large")) == 7
        await it.assert_consistent()


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("heir", [False, True], ids=["the same process", "another scheduler"])
async def test_a_scheduler_that_ends_between_their_commit_and_its_announcement_loses_and_doubles_none(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, *, heir: bool
) -> None:
    """Nobody hears of the answers, and no board knows the runs."""
    stored = asyncio.Event()
    create = new_runs.create

    async def ending(*args: Any, **options: Any) -> Any:
        await create(*args, **options)
        first = not stored.is_set()
        stored.set()
        if heir:
            await asyncio.Event().wait()  # until it is stopped
        if first:
            raise DatabaseError("the answer got lost")

    async with running(dsn, clock, chain("d", 2), chain("e", 1)) as it:
        monkeypatch.setattr(triggers, "create", ending)
        async with it.session.locks.ownership, it.scheduler.db.acquire() as conn:
            numbers = [await _ask(conn, run_id) for run_id in "abc"]
        async with asyncio.timeout(PATIENCE):
            await stored.wait()
        monkeypatch.setattr(triggers, "create", create)
        if not heir:
            await _check_that_they_run(it, numbers)
    if heir:
        async with running(dsn, clock) as again:
            await _check_that_they_run(again, numbers)


async def _check_that_they_run(it: Running, numbers: Sequence[int]) -> None:
    answers = [await inbox.wait_applied(it.db, number, timeout=PATIENCE) for number in numbers]
    assert [answer and (answer.state, answer.result["run_id"]) for answer in answers] == [
        ("applied", run_id) for run_id in "abc"
    ]
    await it.until(lambda: it.session.cache.unfinished_runs() == 3, "the runs")
    for _ in range(3):
        await it.finish_all()
    assert await it.runs("d") == dict.fromkeys("abc", "success")
    await it.assert_consistent()
