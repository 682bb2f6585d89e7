"""Runs with very many task instances are stored in parts: they hold up no other run, and start when they are complete.

docs/decisions/0032-large-runs-are-stored-in-parts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import DagSpec, LiteralLength, MappingSpec
from aiosched.core.values.ids import PARTITIONS, as_incomplete, partition_of
from aiosched.db.queries.queries import get_dag
from aiosched.db.statements import inbox
from aiosched.db.upkeep.retention import clean
from aiosched.errors import NotFound, StaleRows
from aiosched.parsing.store import register_specs
from aiosched.scheduler.loops import run_creation
from aiosched.scheduler.partitions.ownership import give_back
from aiosched.scheduler.runs import incomplete
from aiosched.scheduler.session.session import Session
from tests.scheduler.harness import NEW_YEAR, Running, chain, dag, running, task

DAY = timedelta(days=1)


def wide(dag_id: str, count: int, **options: Any) -> DagSpec:
    return dag(dag_id, *(task(f"t{number}") for number in range(count)), **options)


async def stored(it: Running, dag_id: str) -> list[tuple[str, int, bool]]:
    """The state of each run of a DAG, the number of its task instances, and whether some follow."""
    rows = await it.fetch(
        "SELECT r.state, (SELECT count(*) FROM task_instance WHERE run_id = r.id), partition < 0"
        " FROM dag_run AS r WHERE dag_id = $1 ORDER BY id",
        dag_id,
    )
    return [tuple(row) for row in rows]


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> int:
    """Few task instances are many."""
    monkeypatch.setattr(incomplete, "PART", 3)
    return 3


@pytest.fixture
def held_up(monkeypatch: pytest.MonkeyPatch, part: int) -> Iterator[pytest.MonkeyPatch]:
    """No part is stored until this is undone."""

    async def never(_: Session) -> bool:
        return False

    with monkeypatch.context() as context:
        context.setattr(run_creation, "store_next_part", never)
        yield context


def go_on(it: Running, held_up: pytest.MonkeyPatch) -> None:
    held_up.undo()
    it.scheduler.wake_loops()


def after_each_part(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], Any]) -> None:
    """Call `act` with the number of the part after each commit of one, before anything else happens."""
    for_each_dag, number = incomplete.for_each_dag, 0

    async def counted(*args: Any, **options: Any) -> Any:
        nonlocal number
        left = await for_each_dag(*args, **options)
        number += 1
        await act(number)
        return left

    monkeypatch.setattr(incomplete, "for_each_dag", counted)


# -- the others -------------------------------------------------------------------------------


async def test_another_dag_gets_its_run_between_two_parts_of_a_large_one(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    async with running(dsn, clock, wide("large", 3 * part, max_active_tasks=2), dag("small")) as it:
        seen: list[object] = []

        async def act(number: int) -> None:
            seen.append((await stored(it, "large"), await it.runs("small")))
            if number == 1:
                async with it.db.acquire() as conn:
                    args = {"run_id": "r"}
                    await inbox.send_request(conn, verb="trigger", dag_id="small", args=args, requested_by="test")
                await it.until(lambda: it.session.locks.ownership._waiters, "the request to wait for its turn")

        after_each_part(monkeypatch, act)
        await it.trigger("large", "r")

        assert seen == [
            ([("queued", part, True)], {}),
            ([("queued", 2 * part, True)], {"r": "running"}),
            ([("queued", 3 * part, False)], {"r": "running"}),
        ]
        assert await it.runs("large") == {"r": "running"}
        states = [row["state"] for row in await it.instances("r", "large")]
        assert (states.count("queued"), states.count("scheduled")) == (2, 3 * part - 2)
        await it.assert_consistent()


async def test_two_large_runs_take_turns(dsn: str, clock: FakeClock, held_up: pytest.MonkeyPatch) -> None:
    async with running(dsn, clock, wide("one", 7), wide("two", 7)) as it:
        for dag_id in ("one", "two"):
            await it.scheduler.trigger(dag_id, run_id="r")
        sizes: list[tuple[int, int]] = []

        async def act(_: int) -> None:
            sizes.append(((await stored(it, "one"))[0][1], (await stored(it, "two"))[0][1]))

        go_on(it, held_up)
        after_each_part(held_up, act)
        await it.settled()

        assert sizes == [(3, 0), (3, 3), (6, 3), (6, 6), (7, 6), (7, 7)]


async def test_a_run_that_may_start_goes_before_those_that_wait(
    dsn: str, clock: FakeClock, held_up: pytest.MonkeyPatch
) -> None:
    async with running(dsn, clock, wide("paused", 7), wide("large", 7)) as it:
        await it.ask("pause", "paused")
        for dag_id in ("paused", "large"):
            await it.scheduler.trigger(dag_id, run_id="r")
        order: list[str] = []

        async def act(_: int) -> None:
            order.append("paused" if (await stored(it, "paused"))[0][1] else "large")

        go_on(it, held_up)
        after_each_part(held_up, act)
        await it.settled()

        assert order == ["large"] * 3 + ["paused"] * 3
        assert await stored(it, "paused") == [("queued", 7, False)]
        assert (await stored(it, "large"))[0][0] == "running"


async def test_runs_of_one_dag_share_a_transaction(dsn: str, clock: FakeClock, part: int) -> None:
    spec = wide("d", 2, schedule=DAY, start_date=NEW_YEAR, catchup=False, max_active_runs=1)
    clock.advance(40 * 86400)
    async with running(dsn, clock, spec) as it:
        await it.ask("pause", "d")
        args = {"from": NEW_YEAR.isoformat(), "to": (NEW_YEAR + 29 * DAY).isoformat(), "max_active_runs": 2}
        await it.ask("backfill_create", "d", **args)

        made = await it.fetch(
            "SELECT count(*) FROM task_instance AS t JOIN dag_run AS r ON r.id = t.run_id WHERE run_type = 'backfill'"
            " GROUP BY t.xmin::text ORDER BY min(r.id)"
        )
        assert [size for (size,) in made] == [14, *[3] * 15, 1]
        await it.ask("unpause", "d")
        await it.finish_all()
        assert {(state, size, follow) for state, size, follow in await stored(it, "d")} == {("success", 2, False)}
        assert (await it.fetch("SELECT completed_at IS NOT NULL FROM backfill"))[0][0]
        await it.assert_consistent()


async def test_scheduled_runs_beyond_the_share_of_their_dag_are_stored_in_parts(
    dsn: str, clock: FakeClock, part: int
) -> None:
    spec = wide("d", 2, schedule=DAY, start_date=NEW_YEAR, catchup=True, max_active_runs=100)
    clock.advance(30 * 86400)
    async with running(dsn, clock, spec) as it:
        assert [row[:2] for row in await stored(it, "d")] == [("running", 2)] * 30
        await it.finish_all()
        assert set((await it.runs("d")).values()) == {"success"}
        await it.assert_consistent()


async def test_tasks_mapped_over_literals_have_all_their_instances(dsn: str, clock: FakeClock, part: int) -> None:
    mapped = task("m", mapping=MappingSpec(inputs=(LiteralLength(5),)))
    async with running(dsn, clock, dag("d", task("a"), mapped, task("z", after="m"))) as it:
        await it.trigger("d", "r")
        await it.finish_all()

        found = [(row["task_id"], row["map_index"], row["state"]) for row in await it.instances("r")]
        expected = [("a", -1), *(("m", n) for n in range(5)), ("z", -1)]
        assert found == [(*place, "success") for place in expected]


# -- ends ---------------------------------------------------------------------------------------


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("last", range(4))
async def test_who_loads_a_run_goes_on_where_its_rows_end(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, part: int, last: int
) -> None:
    """After the `last` part the rows are read again: as by an heir."""
    async with running(dsn, clock, wide("d", 8)) as it:
        first = it.session

        async def act(number: int) -> None:
            if number == last and it.session is first:
                raise StaleRows("for the test")

        after_each_part(monkeypatch, act)
        await it.scheduler.trigger("d", run_id="r")
        if last:
            await it.until(lambda: it.scheduler.session not in (first, None), "another session")
        await it.finish_all()

        assert await stored(it, "d") == [("success", 8, False)]
        await it.assert_consistent()


async def test_partitions_that_move_take_their_incomplete_runs_along(
    dsn: str, clock: FakeClock, held_up: pytest.MonkeyPatch
) -> None:
    async with running(dsn, clock, wide("d", 8)) as it:
        await it.scheduler.trigger("d", run_id="r")
        async with it.session.locks.ownership:
            await incomplete.store_next_part(it.session)
        async with it.session.locks.ownership:
            await give_back(it.session, range(PARTITIONS))
        await it.until(lambda: len(it.session.cache.partitions) == PARTITIONS, "the partitions to come back")
        assert await stored(it, "d") == [("queued", 3, True)]
        go_on(it, held_up)
        await it.finish_all()

        assert await stored(it, "d") == [("success", 8, False)]
        await it.assert_consistent()


async def test_no_scheduler_loads_an_incomplete_run_by_its_partition_alone(
    dsn: str, clock: FakeClock, held_up: pytest.MonkeyPatch
) -> None:
    """It would start it with the instances that it has."""
    async with running(dsn, clock, wide("d", 8)) as it:
        await it.scheduler.trigger("d", run_id="r")

        assert [row[0] for row in await it.fetch("SELECT partition FROM dag_run")] == [as_incomplete(partition_of("d"))]
        assert as_incomplete(partition_of("d")) < 0


# -- requests -----------------------------------------------------------------------------------


async def test_a_task_of_an_incomplete_run_is_marked(dsn: str, clock: FakeClock, held_up: pytest.MonkeyPatch) -> None:
    async with running(dsn, clock, wide("d", 8)) as it:
        await it.scheduler.trigger("d", run_id="r")
        preview = await it.scheduler.mark_task("d", "r", "t7", "skipped", dry_run=True)
        assert await stored(it, "d") == [("queued", 0, True)]
        answer = await it.request("mark_tasks", "d", {"run_ids": ["r"], "task_ids": ["t7"], "state": "skipped"})
        go_on(it, held_up)
        await it.finish_all()

        assert (len(preview), answer["count"]) == (1, 1)
        assert await it.states("r") == {f"t{n}": "skipped" if n == 7 else "success" for n in range(8)}
        await it.assert_consistent()


async def test_an_incomplete_run_is_cleared_and_moved_to_the_newest_version(
    dsn: str, clock: FakeClock, held_up: pytest.MonkeyPatch
) -> None:
    async with running(dsn, clock, wide("d", 8)) as it:
        await it.scheduler.trigger("d", run_id="r")
        await it.request("pause", "d", {})
        async with it.db.transaction() as conn:
            await register_specs(conn, [wide("d", 6)], now=clock.now())
        it.dags_changed("d")
        await it.until(lambda: len(it.session.cache.dags["d"].graph) == 6, "the new version")
        answer = await it.request("clear", "d", {"run_ids": ["r"], "newest_version": True})
        await it.request("unpause", "d", {})
        go_on(it, held_up)
        await it.finish_all()

        assert answer["count"] == 8  # two of them are gone
        assert await it.states("r") == {f"t{n}": "success" for n in range(6)}
        await it.assert_consistent()


@pytest.mark.parametrize("state", ["success", "failed"])
async def test_an_incomplete_run_is_marked(dsn: str, clock: FakeClock, held_up: pytest.MonkeyPatch, state: str) -> None:
    async with running(dsn, clock, wide("d", 8)) as it:
        await it.scheduler.trigger("d", run_id="r")
        await it.request("mark_run", "d", {"run_id": "r", "state": state})
        go_on(it, held_up)
        await it.settled()

        assert await stored(it, "d") == [(state, 8, False)]
        await it.assert_consistent()


async def test_an_incomplete_run_is_cancelled(dsn: str, clock: FakeClock, held_up: pytest.MonkeyPatch) -> None:
    async with running(dsn, clock, wide("d", 8)) as it:
        await it.scheduler.trigger("d", run_id="r")
        await it.request("cancel_run", "d", {"run_id": "r"})

        assert await stored(it, "d") == [("failed", 8, False)]
        assert set((await it.states("r")).values()) == {"skipped"}
        go_on(it, held_up)
        await it.settled()
        await it.assert_consistent()


async def test_a_dag_with_an_incomplete_run_is_deleted(dsn: str, clock: FakeClock, held_up: pytest.MonkeyPatch) -> None:
    async with running(dsn, clock, wide("d", 8)) as it:
        await it.scheduler.trigger("d", run_id="r")
        async with it.session.locks.ownership:
            await incomplete.store_next_part(it.session)
        await it.request("delete_dag", "d", {})
        go_on(it, held_up)
        await it.settled()

        assert await it.fetch("SELECT run_id FROM task_instance") == []
        await it.assert_consistent()


async def test_a_task_of_an_incomplete_run_has_a_note(dsn: str, clock: FakeClock, held_up: pytest.MonkeyPatch) -> None:
    async with running(dsn, clock, wide("d", 8)) as it:
        await it.scheduler.trigger("d", run_id="r")
        await it.scheduler.set_note("d", "r", "of the run")
        assert await stored(it, "d") == [("queued", 0, True)]
        await it.scheduler.set_note("d", "r", "of t7", task_id="t7")

        assert (await it.fetch("SELECT task_index, note FROM task_note"))[0][:] == (7, "of t7")
        go_on(it, held_up)
        await it.finish_all()
        assert await stored(it, "d") == [("success", 8, False)]
        with pytest.raises(NotFound):
            await it.scheduler.set_note("d", "r", "of none", task_id="t8")
        await it.assert_consistent()


async def test_a_cancelled_backfill_leaves_its_runs_incomplete_until_somebody_clears_them(
    dsn: str, clock: FakeClock, held_up: pytest.MonkeyPatch
) -> None:
    spec = wide("d", 4, schedule=DAY, start_date=NEW_YEAR, catchup=False, is_paused_upon_creation=True)
    clock.advance(5.5 * 86400)
    async with running(dsn, clock, spec) as it:
        args = {"from": NEW_YEAR.isoformat(), "to": (NEW_YEAR + 2 * DAY).isoformat(), "max_active_runs": 2}
        made = await it.request("backfill_create", "d", args)
        answer = await it.request("backfill_cancel", "d", {"id": made["id"]})
        assert answer == {"failed": 3}
        assert await stored(it, "d") == [("failed", 0, True)] * 3
        run_id = f"backfill__{NEW_YEAR.isoformat()}"

        await it.request("clear", "d", {"run_ids": [run_id]})
        go_on(it, held_up)
        await it.settled()
        assert await stored(it, "d") == [("queued", 4, False)] + [("failed", 0, True)] * 2
        await it.assert_consistent()
        await clean(it.db, NEW_YEAR + 9 * DAY, partitions=[partition_of("d")])
        assert await stored(it, "d") == [("queued", 4, False)]


# -- who looks ----------------------------------------------------------------------------------


async def test_a_task_that_depends_on_the_past_waits_for_an_incomplete_run(
    dsn: str, clock: FakeClock, held_up: pytest.MonkeyPatch
) -> None:
    spec = dag("d", task("a", depends_on_past=True), *(task(f"t{n}") for n in range(3)))
    async with running(dsn, clock, spec) as it:
        await it.scheduler.trigger("d", run_id="first", logical_date=NEW_YEAR)
        held_up.setattr(incomplete, "PART", 100)
        await it.scheduler.trigger("d", run_id="second", logical_date=NEW_YEAR + DAY)
        await it.until(lambda: it.executor.find("t0", "second"), "a task that does not depend on it")
        assert it.executor.find("a", "second") is None
        assert await stored(it, "d") == [("queued", 0, True), ("running", 4, False)]
        go_on(it, held_up)
        await it.finish_all()

        assert await it.runs("d") == {"first": "success", "second": "success"}
        await it.assert_consistent()


async def test_why_says_that_a_run_and_its_tasks_wait_for_their_rows(
    dsn: str, clock: FakeClock, held_up: pytest.MonkeyPatch
) -> None:
    async with running(dsn, clock, chain("d", 8)) as it:
        await it.scheduler.trigger("d", run_id="r")
        of_run, of_task = await it.scheduler.why("d", "r"), await it.scheduler.why("d", "r", "t7")

        for said in (of_run, of_task):
            gate = said.in_the_way()[0]
            assert (gate.name, gate.detail) == (
                "task instances",
                "8 of its task instances are not stored yet; it starts when all are",
            )
        assert (await get_dag(it.db, "d")).active_runs == 1
