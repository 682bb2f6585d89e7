"""What tasks ask about runs of other DAGs, answered from the database and by the owner of those DAGs."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, cast
from unittest.mock import ANY

import asyncpg
import msgspec
import pytest

from aiosched.clock import FakeClock
from aiosched.core.graph.spec import GroupSpec
from aiosched.core.timetables import PartitionedAtRuntime
from aiosched.core.values.messages import XComRef
from aiosched.db.queries import asset_queries
from aiosched.db.server.connection import DatabaseConnection
from aiosched.db.server.engine import Database
from aiosched.db.statements import runs
from aiosched.errors import NotFound, Refused
from aiosched.scheduler.services import task_services
from aiosched.scheduler.services.task_services import DatabaseServices
from tests.scheduler.harness import NEW_YEAR, Running, dag, running, task

GROUPED = dag(
    "other",
    task("a"),
    task("g.b", group_id="g", after="a"),
    task("g.h.c", group_id="g.h", after="g.b"),
    groups=(GroupSpec(group_id="g"), GroupSpec(group_id="g.h", parent_id="g")),
)


async def ask(it: Running, name: str, *, run: int = 0, **args: Any) -> Any:
    """As a task of the run with that key would ask."""
    return json.loads(await DatabaseServices(it.db).call(run, name, json.dumps(args)))


async def test_the_state_of_a_run_is_found_by_run_id_and_by_logical_date(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("other")) as it:
        await it.trigger("other", run_id="r", logical_date=NEW_YEAR)

        for which in ({"run_id": "r"}, {"logical_date": NEW_YEAR.isoformat()}, {"newest": True}):
            answer = await ask(it, "run_state", dag_id="other", **which)
            assert answer["dag_exists"]
            assert (answer["run"]["run_id"], answer["run"]["state"]) == ("r", "running")
        assert await ask(it, "run_state", dag_id="other", run_id="x") == {"dag_exists": True, "run": None}
        assert await ask(it, "run_state", dag_id="nobody", run_id="r") == {"dag_exists": False, "run": None}


async def test_the_states_of_tasks_and_groups_come_with_what_does_not_exist(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, GROUPED) as it:
        await it.trigger("other", run_id="r", logical_date=NEW_YEAR)
        await it.finish("a")

        date = {"dag_id": "other", "logical_date": NEW_YEAR.isoformat()}
        some = await ask(it, "task_states", **date, task_ids=["a", "x"])
        group = await ask(it, "task_states", **date, group_id="g")
        inner = await ask(it, "task_states", **date, group_id="g.h")
        whole = await ask(it, "task_states", **date, group_id="h")

        assert (some["tasks"], some["unknown"]) == ([["a", -1, "success"]], ["x"])
        assert [one[0] for one in group["tasks"]] == ["g.b", "g.h.c"]
        assert inner["tasks"] == [["g.h.c", -1, None]]
        assert (whole["tasks"], whole["unknown"]) == ([], ["h"])
        earlier = await ask(it, "task_states", dag_id="other", run_id="earlier", task_ids=["a"])
        assert (earlier["run"], earlier["tasks"]) == (None, [])


async def test_a_task_starts_a_run_and_the_audit_log_says_which(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("other"), dag("mine")) as it:
        await it.trigger("mine", run_id="m")
        (row,) = await it.fetch("SELECT id FROM dag_run WHERE dag_id = 'mine'")

        answer = await ask(it, "trigger_dag", run=row["id"], dag_id="other", run_id="r", conf={"a": 1})

        assert answer == {"run_id": "r", "is_paused": False}
        (run,) = await it.fetch("SELECT triggered_by, conf, run_type FROM dag_run WHERE dag_id = 'other'")
        assert (run["triggered_by"], msgspec.json.decode(run["conf"]), run["run_type"]) == (
            "operator",
            {"a": 1},
            "manual",
        )
        (asked,) = await it.fetch("SELECT requested_by FROM request WHERE dag_id = 'other'")
        assert asked["requested_by"] == "mine m"


async def test_a_run_that_is_there_is_refused_and_can_be_cleared(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("other")) as it:
        await it.trigger("other", run_id="r", logical_date=NEW_YEAR)
        await it.finish("a")

        with pytest.raises(Refused, match="already"):
            await ask(it, "trigger_dag", dag_id="other", run_id="r")
        assert (await ask(it, "clear_run", dag_id="other", run_id="r"))["run_id"] == "r"
        await it.settled()
        assert await it.runs("other") == {"r": "running"}


@pytest.mark.parametrize(
    ("mine", "theirs", "may"),
    [(None, None, True), ("red", None, True), ("red", "red", True), ("red", "blue", False), (None, "blue", False)],
)
async def test_a_task_clears_no_run_of_another_team(
    dsn: str, clock: FakeClock, mine: str | None, theirs: str | None, may: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever team its question names: it is that of its run."""
    async with running(dsn, clock, dag("other"), dag("mine")) as it:
        for dag_id, team in {"mine": mine, "other": theirs}.items():
            async with it.db.acquire() as conn:
                await conn.execute("INSERT INTO team (name) VALUES ($1) ON CONFLICT DO NOTHING", team or "nobodys")
                await conn.execute("UPDATE dag SET team = $2 WHERE dag_id = $1", dag_id, team)
        asking = (await it.trigger("mine", run_id="m")).key
        await it.trigger("other", run_id="r")

        clearing = ask(it, "clear_run", run=asking, dag_id="other", run_id="r", team="blue")
        if may:
            assert await clearing == {"run_id": "r"}
            return
        with pytest.raises(Refused, match=r"cleared by DAGs of its team 'blue', and not by mine m: .*reset_dag_run"):
            await clearing
        assert "a task of mine m asked to clear runs of 'other' of the team 'blue'" in caplog.text
        assert not await it.fetch("SELECT 1 FROM request WHERE verb = 'clear'")


async def test_what_cannot_be_triggered_says_why(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("other", is_paused_upon_creation=True)) as it:
        with pytest.raises(NotFound, match="no DAG 'nobody'"):
            await ask(it, "trigger_dag", dag_id="nobody")
        with pytest.raises(Refused, match=r"is paused.*aiosched dags unpause other"):
            await ask(it, "trigger_dag", dag_id="other", fail_when_paused=True)
        assert (await ask(it, "trigger_dag", dag_id="other"))["is_paused"]
        with pytest.raises(NotFound, match=r"no service 'invented'; known are .*trigger_dag"):
            await ask(it, "invented")


async def test_the_run_before_is_the_latest_earlier_one_that_succeeded(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d"), dag("other")) as it:
        keys = {}
        for dag_id, run_id, day, succeeds in (
            ("d", "first", 1, True), ("d", "second", 2, True), ("other", "theirs", 3, True), ("d", "failed", 4, False),
            ("d", "mine", 5, True), ("d", "later", 6, True), ("d", "undated", None, True),
        ):  # fmt: skip
            date = None if day is None else NEW_YEAR + timedelta(days=day)
            keys[run_id] = (await it.trigger(dag_id, run_id=run_id, logical_date=date)).key
            clock.advance(60)
            attempt = await it.attempt("a", run_id)
            (it.executor.succeed if succeeds else it.executor.fail)(attempt)
            await it.settled()

        found = await ask(it, "previous_success", run=keys["mine"])

        day = (NEW_YEAR + timedelta(days=2)).isoformat().replace("+00:00", "Z")
        assert found == {
            "data_interval_start": day,
            "data_interval_end": day,
            "start_date": "2026-01-01T00:01:00Z",
            "end_date": "2026-01-01T00:02:00Z",
        }
        before = {"state": None, "planned_only": False, "task_id": "a", "map_index": -1}
        failed = await ask(it, "previous_run", run=keys["mine"], **before)
        assert (failed["run"]["run_id"], failed["run"]["state"], failed["run"]["run_type"]) == (
            "failed", "failed", "manual",
        )  # fmt: skip
        assert (failed["task"]["state"], failed["task"]["try_number"]) == ("failed", 1)
        second = await ask(it, "previous_run", run=keys["mine"], **before | {"state": "success", "task_id": "gone"})
        assert (second["run"]["run_id"], second["task"]) == ("second", None)
        done = await ask(it, "previous_run", run=keys["mine"], **before | {"task_state": "success"})
        assert (done["run"]["run_id"], done["task"]["state"]) == ("second", "success")
        earlier = (NEW_YEAR + timedelta(days=2)).isoformat()
        first = await ask(it, "previous_run", run=keys["mine"], **before | {"before": earlier})
        assert first["run"]["run_id"] == "first"
        nothing = {"run": None, "task": None}
        assert await ask(it, "previous_run", run=keys["mine"], **before | {"planned_only": True}) == nothing
        assert await ask(it, "previous_run", run=keys["first"], **before) == nothing
        assert await ask(it, "previous_success", run=keys["first"]) is None
        assert await ask(it, "previous_success", run=keys["undated"]) is None


# -- XComs ------------------------------------------------------------------------------------


class CountedDatabase:
    """A database whose connections are counted, and refused when the test says so."""

    def __init__(self, db: Database) -> None:
        self.db, self.acquired, self.broken = db, 0, False

    @contextlib.asynccontextmanager
    async def acquire(self) -> AsyncIterator[DatabaseConnection]:
        self.acquired += 1
        if self.broken:
            raise asyncpg.ConnectionFailureError("no connection")
        async with self.db.acquire() as conn:
            yield conn


VALUE, OTHER, NOBODY = XComRef("a"), XComRef("b"), XComRef("nobody")


async def test_attempts_that_ask_together_share_one_look(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"), task("c"))) as it:
        run = (await it.trigger("d", "r")).key
        it.executor.succeed(await it.attempt("a"), value=[1, 2])
        it.executor.succeed(await it.attempt("b"), value=3)
        await it.settled()
        counted = CountedDatabase(it.db)
        services = DatabaseServices(cast("Database", counted))

        answers = await asyncio.gather(
            *(services.get_xcoms(run, [VALUE]) for _ in range(50)),
            services.get_xcoms(run, [OTHER, NOBODY, VALUE]),
            services.get_xcoms(run + 1, [VALUE]),
        )

        assert answers[:50] == [[[(-1, "[1,2]")]]] * 50
        assert answers[50:] == [[[(-1, "3")], [], [(-1, "[1,2]")]], [[]]]
        assert counted.acquired == 2  # one for each run


async def test_who_asks_later_gets_what_is_stored_by_then(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d", task("a"), task("b"))) as it:
        run = (await it.trigger("d", "r")).key
        services = DatabaseServices(it.db)
        assert await services.get_xcoms(run, [VALUE]) == [[]]

        it.executor.succeed(await it.attempt("a"), value=1)
        await it.settled()

        assert await services.get_xcoms(run, [VALUE]) == [[(-1, "1")]]


async def test_a_look_that_fails_fails_all_who_share_it_and_nobody_else(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("d")) as it:
        run = (await it.trigger("d", "r")).key
        counted = CountedDatabase(it.db)
        services = DatabaseServices(cast("Database", counted))
        counted.broken = True
        together = await asyncio.gather(*(services.get_xcoms(run, [VALUE]) for _ in range(3)), return_exceptions=True)
        assert [str(one) for one in together] == ["no connection"] * 3

        counted.broken = False

        assert await services.get_xcoms(run, [VALUE]) == [[]]


async def test_an_attempt_that_is_cancelled_while_it_waits_leaves_the_others_their_answer(
    dsn: str, clock: FakeClock
) -> None:
    async with running(dsn, clock, dag("d")) as it:
        run = (await it.trigger("d", "r")).key
        services = DatabaseServices(it.db)
        one, other = (asyncio.ensure_future(services.get_xcoms(run, [VALUE])) for _ in range(2))
        await asyncio.sleep(0)

        one.cancel()

        assert await other == [[]]
        assert one.cancelled()


async def test_the_tasks_of_few_versions_are_remembered(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_services, "MOST_VERSIONS", 1)
    async with running(dsn, clock, dag("d", task("a")), dag("e", task("b"), task("a"))) as it:
        keys = [(await it.trigger(dag_id, "r")).key for dag_id in "de"]
        for value in (1, 2):
            it.executor.succeed(await it.attempt("a"), value=value)
            await it.settled()
        services = DatabaseServices(it.db)

        answers = [await services.get_xcoms(run, [VALUE]) for run in keys * 2]

        assert sorted(answers[:2]) == [[[(-1, "1")]], [[(-1, "2")]]]
        assert answers[2:] == answers[:2]
        assert len(services._indexes) == 1


async def test_one_task_cannot_pull_more_than_fits_into_an_answer_and_disturbs_nobody(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MOST_PULLED", 1_000_000)
    large = XComRef("b")
    async with running(dsn, clock, dag("d", task("a"), task("b"))) as it:
        run = (await it.trigger("d", "r")).key
        it.executor.succeed(await it.attempt("a"), value="x" * 900_000)
        await it.settled()
        await it.execute(
            """INSERT INTO xcom (run_id, task_index, map_index, key, value)
               SELECT $1, 1, n, 'return_value', to_json(repeat('y', 100000)) FROM generate_series(0, 99) AS n""",
            run,
        )
        services = DatabaseServices(it.db)

        answers = await asyncio.gather(
            services.get_xcoms(run, [large]),
            services.get_xcoms(run, [VALUE]),
            services.get_xcoms(run, [XComRef("b", map_index=7), XComRef("b", map_index=8)]),
            return_exceptions=True,
        )

        assert isinstance(answers[0], Refused)
        assert "more than 0 MiB" in str(answers[0])
        assert "map_indexes" in str(answers[0])
        assert answers[1:] == [[[(-1, f'"{"x" * 900_000}"')]], [[(7, ANY)], [(8, ANY)]]]


async def test_of_very_many_events_that_made_a_run_its_tasks_see_the_newest(
    dsn: str, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(asset_queries, "MOST_EVENTS", 3)
    async with running(dsn, clock, dag("d")) as it:
        run = (await it.trigger("d", "r")).key
        await it.execute("INSERT INTO asset (name, uri) VALUES ('x', 'x')")
        await it.execute(
            """INSERT INTO asset_event (asset_id, timestamp, extra)
               SELECT a.id, now() + make_interval(secs => n), json_build_object('n', n)
                 FROM asset AS a, generate_series(1, 5) AS n"""
        )
        await it.execute("INSERT INTO asset_consumption SELECT 'd', id, $1 FROM asset_event", run)

        seen = await ask(it, "triggering_asset_events", run=run)

        assert [event["extra"] for event in seen] == [{"n": 3}, {"n": 4}, {"n": 5}]
        assert "only the newest 3 events" in caplog.text


async def test_a_triggered_run_gets_its_note(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("other")) as it:
        await ask(it, "trigger_dag", dag_id="other", run_id="r", note="by hand")

        (note,) = await it.fetch("SELECT note FROM dag_run WHERE run_id = 'r'")
        assert note["note"] == "by hand"


async def test_a_triggered_run_may_be_about_a_partition(dsn: str, clock: FakeClock) -> None:
    async with running(dsn, clock, dag("other", schedule=PartitionedAtRuntime())) as it:
        await ask(it, "trigger_dag", dag_id="other", run_id="r", partition_key="eu")

        (run,) = await it.fetch("SELECT partition_key FROM dag_run WHERE run_id = 'r'")
        assert run["partition_key"] == "eu"
