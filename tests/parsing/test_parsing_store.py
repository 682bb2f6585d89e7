"""What a batch of outcomes does to the tables. Source: the semantics reference, sections 1.1, 30.4 and 31.2."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from aiosched.clock import FakeClock
from aiosched.core.assets.conditions import AssetRequired
from aiosched.core.graph.spec import DagSpec, TaskSpec, decode_spec
from aiosched.core.timetables import (
    AssetOrTimeSchedule,
    CronDataIntervalTimetable,
    CronTriggerTimetable,
    NullTimetable,
    parse_schedule,
)
from aiosched.core.values.ids import partition_of
from aiosched.db.people import teams
from aiosched.db.server.engine import Database
from aiosched.db.statements.dags import guessed_without_runs, touch_files
from aiosched.db.statements.runs import set_paused
from aiosched.errors import Refused
from aiosched.parsing.result import ParsedFile
from aiosched.parsing.store import StoredFiles, register_specs, remove_files, store_results
from tests.parsing.builders import a_dag, a_result

Row = dict[str, Any]

# Returns once another session waits for a lock in this database.
WAIT_FOR_A_WAITER = """
    DO $$ BEGIN
        WHILE NOT EXISTS (SELECT FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
                           WHERE NOT l.granted AND a.datname = current_database()) LOOP
            PERFORM pg_sleep(0.005), pg_stat_clear_snapshot();
        END LOOP;
    END $$
"""


class Shelf:
    """Stores and reads, for these tests."""

    def __init__(self, db: Database, clock: FakeClock) -> None:
        self.db, self.clock = db, clock

    async def store(
        self,
        *results: ParsedFile,
        paused: bool = False,
        present: Collection[str] | None = None,
        executors: Collection[str] | None = None,
    ) -> StoredFiles:
        now = self.clock.now()
        async with self.db.transaction() as conn:
            return await store_results(
                conn, results, now=now, paused_at_creation=paused, present=present, executors=executors
            )

    async def remove(self, *files: str) -> StoredFiles:
        async with self.db.transaction() as conn:
            return await remove_files(conn, files)

    async def register(self, *specs: DagSpec) -> StoredFiles:
        async with self.db.transaction() as conn:
            return await register_specs(conn, specs, now=self.clock.now())

    async def rows(self, query: str, *args: object) -> list[Row]:
        return [dict(row) for row in await self.db.fetch(query, *args)]

    async def dag(self, dag_id: str) -> Row:
        (row,) = await self.rows("SELECT * FROM dag WHERE dag_id = $1", dag_id)
        return row

    async def file(self, name: str) -> Row:
        (row,) = await self.rows("SELECT * FROM dag_file WHERE file = $1", name)
        return row

    async def versions(self, dag_id: str) -> list[Row]:
        return await self.rows("SELECT * FROM dag_version WHERE dag_id = $1 ORDER BY number", dag_id)

    async def use_newest(self, dag_id: str) -> None:
        """Create a run of the newest version."""
        await self.db.execute(
            "INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after) "
            "SELECT dag_id, 'r' || version_id, partition, version_id, 'manual', 'test', 'queued', now() "
            "FROM dag WHERE dag_id = $1",
            dag_id,
        )


@pytest.fixture
def shelf(db: Database, clock: FakeClock) -> Shelf:
    return Shelf(db, clock)


async def test_a_new_dag_gets_its_row_its_first_version_and_its_file(shelf: Shelf, clock: FakeClock) -> None:
    dag = a_dag("x", max_active_runs=3, tags=("a", "b"), description="what", owner="me", timezone="UTC")

    stored = await shelf.store(a_result("a.py", dag, "y"))

    row = await shelf.dag("x")
    (version,) = await shelf.versions("x")
    assert stored.changed == {"x", "y"}
    assert row["partition"] == partition_of("x")
    assert (row["file"], row["version_id"], row["is_stale"], row["has_import_errors"]) == (
        "a.py",
        version["id"],
        False,
        False,
    )
    assert (row["max_active_runs"], row["tags"], row["description"], row["owner"]) == (3, ["a", "b"], "what", "me")
    assert row["last_parsed_at"] == clock.now()
    assert (version["number"], version["content_hash"], version["file"]) == (1, dag.content_hash, "a.py")
    assert decode_spec(version["spec"]) == dag.spec
    assert (version["file_hash"], version["source"]) == ("d1", "# source of a.py d1")
    file = await shelf.file("a.py")
    assert (file["partition"], file["content_hash"], file["dag_ids"]) == (partition_of("a.py"), "d1", ["x", "y"])
    assert (file["parsed_at"], file["error"], file["warnings"]) == (clock.now(), None, [])


@pytest.mark.parametrize(
    ("own_wish", "setting", "paused"),
    [(None, False, False), (None, True, True), (True, False, True), (False, True, False)],
)
async def test_whether_a_new_dag_is_paused(shelf: Shelf, own_wish: bool | None, setting: bool, paused: bool) -> None:
    await shelf.store(a_result("a.py", a_dag("x", is_paused_upon_creation=own_wish)), paused=setting)

    assert (await shelf.dag("x"))["is_paused"] is paused


async def test_later_parses_never_touch_the_pause(shelf: Shelf) -> None:
    await shelf.store(a_result("a.py", "x"))
    await shelf.rows("UPDATE dag SET is_paused = true RETURNING 1")

    await shelf.store(a_result("a.py", a_dag("x", tasks=2, is_paused_upon_creation=False)))
    await shelf.remove("a.py")
    await shelf.store(a_result("a.py", "x"))

    assert (await shelf.dag("x"))["is_paused"] is True


def of_sources(name: str, dag: str, **digests: str) -> ParsedFile:
    """A parse of file `name`, which imported these modules (without `.py`), too."""
    sources = {f"{module}.py": digest for module, digest in digests.items()}
    return msgspec.structs.replace(a_result(name, dag), sources={name: "d1", **sources})


async def test_a_source_that_differs_is_a_version_also_where_only_a_module_changed(shelf: Shelf) -> None:
    await shelf.store(of_sources("a.py", "x", helper="h1"))
    await shelf.use_newest("x")

    stored = await shelf.store(of_sources("a.py", "x", helper="h2"))
    again = await shelf.store(of_sources("a.py", "x", helper="h2"))

    first, second = await shelf.versions("x")
    assert (stored.changed, again) == ({"x"}, StoredFiles())
    assert (first["number"], second["number"]) == (1, 2)
    assert first["content_hash"] == second["content_hash"]
    assert first["source_hash"] != second["source_hash"]
    assert msgspec.json.decode(second["sources"]) == {"a.py": "d1", "helper.py": "h2"}
    assert msgspec.json.decode((await shelf.file("a.py"))["sources"]) == {"a.py": "d1", "helper.py": "h2"}


@pytest.mark.parametrize("known", [True, False])
async def test_a_version_that_a_try_has_run_is_not_replaced(shelf: Shelf, known: bool) -> None:
    await shelf.store(of_sources("a.py", "x"))
    await shelf.use_newest("x")
    await shelf.store(of_sources("a.py", "x", helper="h2"))
    column = "id" if known else "NULL"  # of a try that ran it before it was parsed only the hash is known
    await shelf.rows(
        f"""INSERT INTO try_source (run_id, task_index, map_index, try_number, version_id, source_hash)
            SELECT 1, 0, -1, 2, {column}, source_hash FROM dag_version WHERE number = 2 RETURNING 1"""
    )

    await shelf.store(of_sources("a.py", "x", helper="h3"))

    assert [version["number"] for version in await shelf.versions("x")] == [1, 2, 3]


async def test_an_unchanged_meaning_writes_no_version_and_is_no_news(shelf: Shelf, clock: FakeClock) -> None:
    """Source: the semantics reference, sections 31.2 and 35 (15)."""
    await shelf.store(a_result("a.py", "x"))
    before = await shelf.versions("x")
    clock.advance(60)

    stored = await shelf.store(a_result("a.py", "x", digest="another comment"))

    assert stored == StoredFiles()
    assert await shelf.versions("x") == before
    assert (await shelf.dag("x"))["last_parsed_at"] == clock.now()
    assert (await shelf.file("a.py"))["content_hash"] == "another comment"


async def test_a_version_that_a_run_uses_stays_and_the_next_number_follows(shelf: Shelf) -> None:
    await shelf.store(a_result("a.py", "x"))
    await shelf.use_newest("x")

    stored = await shelf.store(a_result("a.py", a_dag("x", tasks=2)))

    versions = await shelf.versions("x")
    assert stored.changed == {"x"}
    assert [v["number"] for v in versions] == [1, 2]
    assert (await shelf.dag("x"))["version_id"] == versions[1]["id"]


async def test_a_version_that_no_run_uses_is_replaced_under_its_number_and_a_new_id(shelf: Shelf) -> None:
    await shelf.store(a_result("a.py", "x"))
    await shelf.use_newest("x")
    await shelf.store(a_result("a.py", a_dag("x", tasks=2)))
    replaced = (await shelf.versions("x"))[1]

    await shelf.store(a_result("a.py", a_dag("x", tasks=3), digest="d3"))

    versions = await shelf.versions("x")
    assert [(v["number"], len(decode_spec(v["spec"]).tasks)) for v in versions] == [(1, 1), (2, 3)]
    assert versions[1]["id"] != replaced["id"]
    assert versions[1]["file_hash"] == "d3"


async def test_a_run_that_is_being_created_keeps_its_version(shelf: Shelf) -> None:
    await shelf.store(a_result("a.py", "x"))
    async with shelf.db.transaction() as conn:
        await conn.execute(
            "INSERT INTO dag_run (dag_id, run_id, partition, version_id, run_type, triggered_by, state, run_after) "
            "SELECT dag_id, 'r', partition, version_id, 'manual', 'test', 'queued', now() FROM dag"
        )
        storing = asyncio.create_task(shelf.store(a_result("a.py", a_dag("x", tasks=2))))
        await shelf.rows(WAIT_FOR_A_WAITER)
    await storing

    assert [v["number"] for v in await shelf.versions("x")] == [1, 2]


async def test_two_schedulers_that_store_the_same_new_dag_give_it_to_one_file(shelf: Shelf) -> None:
    await asyncio.gather(shelf.store(a_result("a.py", "x")), shelf.store(a_result("b.py", "x")))

    errors = [(await shelf.file(name))["error"] for name in ("a.py", "b.py")]
    owner = (await shelf.dag("x"))["file"]
    assert [v["number"] for v in await shelf.versions("x")] == [1]
    assert [error is None for error in errors] == [owner == "a.py", owner == "b.py"]


async def test_a_broken_file_makes_its_dags_stale_and_broken_but_leaves_their_versions(shelf: Shelf) -> None:
    await shelf.store(a_result("a.py", "x"), a_result("b.py", "y"))

    stored = await shelf.store(a_result("a.py", error="no such module"))

    row, file = await shelf.dag("x"), await shelf.file("a.py")
    assert stored == StoredFiles(frozenset({"x"}), frozenset({"x"}))
    assert (row["is_stale"], row["has_import_errors"]) == (True, True)
    assert len(await shelf.versions("x")) == 1
    assert (file["error"], file["error_line"], file["dag_ids"]) == ("ValueError: no such module", 3, ["x"])
    assert (await shelf.dag("y"))["is_stale"] is False


@pytest.mark.parametrize("how", ["emptied", "removed"])
async def test_a_file_that_gave_no_dags_for_a_moment_and_then_is_broken_still_has_its_last_ones(
    shelf: Shelf, how: str
) -> None:
    """As while it is written anew, or moved away and back."""
    await shelf.store(a_result("a.py", "old", "x", "y"))
    shelf.clock.advance(60)
    await shelf.store(a_result("a.py", "moved", "x", "y"))  # the author has deleted "old"
    shelf.clock.advance(60)
    if how == "emptied":
        await shelf.store(a_result("a.py"))
    else:
        await shelf.remove("a.py")
    await shelf.store(a_result("b.py", "moved"))
    assert (await shelf.dag("x"))["has_import_errors"] is False

    stored = await shelf.store(a_result("a.py", error="no"))

    flags = {i: (await shelf.dag(i))["has_import_errors"] for i in ("old", "moved", "x", "y")}
    assert flags == {"old": False, "moved": False, "x": True, "y": True}
    assert stored.changed == {"x", "y"}
    assert (await shelf.file("a.py"))["dag_ids"] == ["x", "y"]
    await shelf.store(a_result("a.py", "x", "y"))
    assert [(await shelf.dag(i))["is_stale"] for i in ("x", "y")] == [False, False]
    await shelf.store(a_result("a.py", error="no"))
    await shelf.remove("a.py")
    assert [(await shelf.dag(i))["has_import_errors"] for i in ("x", "y")] == [False, False]


async def test_an_error_is_as_old_as_the_first_parse_that_has_found_it(shelf: Shelf) -> None:
    async def since(*results: ParsedFile) -> Any:
        shelf.clock.advance(60)
        await shelf.store(*results)
        return (await shelf.file("a.py"))["error_since"]

    assert await since(a_result("a.py", "x")) is None
    first = await since(a_result("a.py", error="no"))
    assert first == shelf.clock.now()
    assert await since(a_result("a.py", error="no")) == first
    assert await since(a_result("a.py", error="another")) == first  # it still cannot be imported
    async with shelf.db.acquire() as conn:
        await touch_files(conn, [("a.py", shelf.clock.now(), 0.1)])
    assert (await shelf.file("a.py"))["error_since"] == first
    assert await since(a_result("a.py", "x")) is None
    assert await since(a_result("a.py", error="no")) == shelf.clock.now()
    await shelf.remove("a.py")
    assert await since(a_result("a.py", error="no")) == shelf.clock.now()


@pytest.mark.parametrize(
    ("timetable", "stored"),
    [
        (CronTriggerTimetable("0 0 * * *", timezone="Europe/Amsterdam"), "Europe/Amsterdam"),
        (CronDataIntervalTimetable("0 0 * * *", timezone="Asia/Tokyo"), "Asia/Tokyo"),
        (
            parse_schedule(AssetOrTimeSchedule("0 6 * * *", AssetRequired("stock")), timezone="America/Lima"),
            "America/Lima",
        ),
        (NullTimetable(), None),
    ],
)
async def test_the_zone_of_a_schedule_is_stored_with_it(shelf: Shelf, timetable: Any, stored: str | None) -> None:
    await shelf.register(DagSpec(dag_id="x", timetable=timetable, tasks=(TaskSpec(task_id="t", operator="o"),)))

    assert (await shelf.dag("x"))["schedule_timezone"] == stored


async def test_a_changed_display_name_is_stored_with_the_next_parse(shelf: Shelf) -> None:
    for name in ("", "Orders", "\u0623\u0648\u0627\u0645\u0631", ""):
        await shelf.register(DagSpec(dag_id="x", display_name=name, tasks=(TaskSpec(task_id="t", operator="o"),)))
        assert (await shelf.dag("x"))["display_name"] == (name or None)


async def test_a_file_that_is_good_again_brings_its_dags_back(shelf: Shelf) -> None:
    await shelf.store(a_result("a.py", "x"))
    await shelf.store(a_result("a.py", error="no"))

    stored = await shelf.store(a_result("a.py", "x"))

    row, file = await shelf.dag("x"), await shelf.file("a.py")
    assert stored.changed == {"x"}
    assert (row["is_stale"], row["has_import_errors"], file["error"]) == (False, False, None)
    assert len(await shelf.versions("x")) == 1


async def test_a_file_that_never_was_good_has_an_error_and_no_dags(shelf: Shelf) -> None:
    stored = await shelf.store(a_result("a.py", error="no"))

    assert stored == StoredFiles()
    assert (await shelf.file("a.py"))["dag_ids"] == []


async def test_a_dag_that_is_gone_from_its_file_is_stale_without_being_broken(shelf: Shelf) -> None:
    await shelf.store(a_result("a.py", "x", "y"))

    stored = await shelf.store(a_result("a.py", "x"))

    row = await shelf.dag("y")
    assert stored.withdrawn == {"y"}
    assert (row["is_stale"], row["has_import_errors"]) == (True, False)


async def test_a_deleted_file_takes_its_error_with_it_and_its_dags_are_stale(shelf: Shelf) -> None:
    await shelf.store(a_result("a.py", "x"))
    await shelf.store(a_result("a.py", error="no"))

    await shelf.remove("a.py")

    row = await shelf.dag("x")
    assert (row["is_stale"], row["has_import_errors"]) == (True, False)
    assert await shelf.rows("SELECT FROM dag_file") == []


async def test_a_renamed_file_keeps_its_dags_in_either_order(shelf: Shelf) -> None:
    await shelf.store(a_result("b.py", "x"), a_result("z.py", "y"))

    await shelf.remove("b.py")
    await shelf.store(a_result("c.py", "x"), present={"c.py", "z.py"})
    await shelf.store(a_result("d.py", "y"), present={"c.py", "d.py"})  # before its deletion was noticed
    await shelf.remove("z.py")

    for dag_id, file in (("x", "c.py"), ("y", "d.py")):
        row = await shelf.dag(dag_id)
        assert (row["file"], row["is_stale"]) == (file, False)
        assert len(await shelf.versions(dag_id)) == 1
    assert (await shelf.file("d.py"))["error"] is None


async def test_the_first_file_keeps_a_dag_and_the_second_gets_the_error(shelf: Shelf) -> None:
    await shelf.store(a_result("b.py", a_dag("x", tasks=2)))

    stored = await shelf.store(a_result("a.py", "x", "mine"))

    file = await shelf.file("a.py")
    assert stored.changed == {"mine"}
    assert [c.winner for c in stored.conflicts["a.py"]] == ["b.py"]
    assert (await shelf.dag("x"))["file"] == "b.py"
    assert "already defined in b.py" in file["error"]
    assert file["dag_ids"] == ["mine"]


async def test_the_second_file_gets_the_dag_once_the_first_lets_go(shelf: Shelf) -> None:
    await shelf.store(a_result("a.py", "x"), a_result("b.py", "x"))
    await shelf.store(a_result("a.py"))

    await shelf.store(a_result("b.py", "x"))

    row = await shelf.dag("x")
    assert (row["file"], row["is_stale"], (await shelf.file("b.py"))["error"]) == ("b.py", False, None)


async def test_a_dag_that_moves_between_two_files_of_a_batch_is_never_stale(shelf: Shelf) -> None:
    await shelf.store(a_result("a.py", "x"))

    stored = await shelf.store(a_result("a.py"), a_result("b.py", "x"))

    row = await shelf.dag("x")
    assert stored.withdrawn == frozenset()
    assert (row["file"], row["is_stale"]) == ("b.py", False)


async def test_an_unknown_pool_is_a_warning_of_the_file(shelf: Shelf) -> None:
    await shelf.store(a_result("a.py", a_dag("x", pool="etl")))

    (warning,) = (await shelf.file("a.py"))["warnings"]
    assert "etl" in warning


async def test_an_unknown_executor_is_a_warning_of_the_file(shelf: Shelf) -> None:
    await shelf.store(a_result("a.py", a_dag("x", executor="gpu")), executors=("local", "inline"))
    await shelf.store(a_result("b.py", a_dag("y", executor="local")), executors=("local", "inline"))
    await shelf.store(a_result("c.py", a_dag("z", executor="gpu")))

    assert (await shelf.file("a.py"))["warnings"] == [
        (
            "DAG 'x' uses the executor 'gpu', which is not configured (configured: local, inline): "
            "its tasks wait until the setting executor.kind includes it."
        )
    ]
    assert (await shelf.file("b.py"))["warnings"] == (await shelf.file("c.py"))["warnings"] == []


async def test_limits_that_change_are_news(shelf: Shelf) -> None:
    await shelf.store(a_result("a.py", "x"))

    stored = await shelf.store(a_result("a.py", a_dag("x", max_active_runs=1)))

    assert stored.changed == {"x"}
    assert (await shelf.dag("x"))["max_active_runs"] == 1


async def test_registered_dags_name_no_file_and_a_file_may_take_them(shelf: Shelf) -> None:
    spec = DagSpec(dag_id="x", tasks=(TaskSpec(task_id="t0", operator="EmptyOperator"),))

    assert (await shelf.register(spec)).changed == {"x"}
    assert (await shelf.register(spec)).changed == frozenset()
    assert (await shelf.dag("x"))["file"] is None
    assert [v["source"] for v in await shelf.versions("x")] == [None]

    await shelf.store(a_result("a.py", "x"))
    assert (await shelf.dag("x"))["file"] == "a.py"
    assert len(await shelf.versions("x")) == 1


async def test_odd_text_is_stored_as_it_is(shelf: Shelf) -> None:
    odd = a_dag("x", description="quotes ' \" and \\ {a,b} \u2028 \N{SNOWMAN}", tags=("a,b", '"c"', "{}"))
    result = msgspec.structs.replace(a_result("a.py", odd), warnings=("one, 'two'", '{"three"}'))

    await shelf.store(result)

    assert (await shelf.dag("x"))["tags"] == ["a,b", '"c"', "{}"]
    assert (await shelf.dag("x"))["description"] == odd.description
    assert (await shelf.file("a.py"))["warnings"] == ["one, 'two'", '{"three"}']


async def test_the_number_of_statements_does_not_depend_on_the_number_of_files(dsn: str, clock: FakeClock) -> None:
    async with await Database.open(dsn, count_statements=True) as db:
        assert db.statements is not None
        shelf, counts = Shelf(db, clock), []
        await shelf.store(a_result("first.py", "first"))  # asyncpg asks for types once
        for tasks in (1, 2):
            for files in (range(1), range(1, 150)):
                before = db.statements.total
                await shelf.store(*(a_result(f"f{n}.py", a_dag(f"dag{n}", tasks=tasks)) for n in files))
                counts.append(db.statements.total - before)
    assert counts[0] == counts[1] <= 11
    assert counts[2] == counts[3] <= 16


@pytest.mark.parametrize("version", [2**62, None, 1])
async def test_a_dag_whose_row_does_not_lead_to_its_newest_version_gets_another(
    shelf: Shelf, version: int | None
) -> None:
    await shelf.register(DagSpec(dag_id="first"))
    for owner in ("a", "b"):
        await shelf.register(DagSpec(dag_id="d", owner=owner))
        await shelf.use_newest("d")
    await shelf.rows("UPDATE dag SET version_id = $1 WHERE dag_id = 'd' RETURNING 1", version)

    stored = await shelf.register(DagSpec(dag_id="d", owner="b"))

    assert stored.changed
    assert [row["number"] for row in await shelf.versions("d")] == [1, 2, 3]
    assert len(await shelf.versions("first")) == 1


async def test_a_dag_that_is_renamed_stays_with_its_team_until_an_administrator_moves_it(shelf: Shelf) -> None:
    """Research has a file with the id of a DAG of sales, and waits: it gets neither the id nor the history."""
    await teams.create_team(shelf.db, "sales", folders=["sales"])
    await teams.create_team(shelf.db, "research", folders=["research"])
    await shelf.store(a_result("sales/v1.py", "orders"))
    waiting = a_result("research/zz.py", "orders")
    await shelf.store(waiting, present={"sales/v1.py", "research/zz.py"})
    with pytest.raises(Refused, match=r"'orders' is defined in sales/v1.py"):
        await teams.move_dag(shelf.db, "orders", "research")

    await shelf.remove("sales/v1.py")
    await shelf.store(waiting, present={"research/zz.py"})

    (row,) = await shelf.rows("SELECT file, team, is_stale FROM dag")
    assert row == {"file": "sales/v1.py", "team": "sales", "is_stale": True}
    (file,) = await shelf.rows("SELECT error FROM dag_file")
    assert "is not of this file's team" in file["error"]
    assert "sales" not in file["error"]

    await shelf.store(a_result("sales/v2.py", "orders"), waiting)
    (row,) = await shelf.rows("SELECT file, team, is_stale FROM dag")
    assert row == {"file": "sales/v2.py", "team": "sales", "is_stale": False}

    await shelf.remove("sales/v2.py")
    await teams.move_dag(shelf.db, "orders", "research")
    await shelf.store(waiting, present={"research/zz.py"})

    (row,) = await shelf.rows("SELECT file, team, is_stale FROM dag")
    assert row == {"file": "research/zz.py", "team": "research", "is_stale": False}
    (entry,) = await shelf.rows("SELECT object, detail::text FROM audit_log WHERE kind = 'dag.moved'")
    assert entry == {"object": "orders", "detail": '{"team":"research"}'}


async def test_a_file_that_moves_into_the_folder_of_a_team_takes_no_history_along(shelf: Shelf) -> None:
    await shelf.store(a_result("orders.py", "orders"))
    await teams.create_team(shelf.db, "research", folders=["research"])
    await shelf.remove("orders.py")

    await shelf.store(a_result("research/orders.py", "orders"), present={"research/orders.py"})

    (file,) = await shelf.rows("SELECT error FROM dag_file")
    assert "'orders' is not of this file's team" in file["error"]


def guessed(dag_id: str, **fields: Any) -> Any:
    """A daily DAG that would catch up since 2020, by a guess."""
    start = datetime(2020, 1, 1, tzinfo=UTC)
    given = {"timetable": parse_schedule("@daily"), "start_date": start, "catchup": True, "catchup_is_guess": True}
    return a_dag(dag_id, **{**given, **fields})


async def test_a_dag_that_would_catch_up_by_a_guess_begins_paused_until_somebody_unpauses_it(shelf: Shelf) -> None:
    dags = [
        guessed("guess"),
        guessed("unpaused", is_paused_upon_creation=False),
        guessed("meant", catchup_is_guess=False),
        guessed("few", start_date=shelf.clock.now() - timedelta(days=3)),
        guessed("never", timetable=NullTimetable()),
    ]
    await shelf.store(a_result("a.py", *dags))

    assert {dag.dag_id for dag in dags if (await shelf.dag(dag.dag_id))["is_paused"]} == {"guess", "unpaused"}
    (first, second) = (await shelf.file("a.py"))["warnings"]
    assert first.startswith("DAG 'guess' begins paused: as one of Airflow 2 it catches up all runs since 2020-01-01")
    assert "'unpaused'" in second
    async with shelf.db.acquire() as conn:
        assert await guessed_without_runs(conn) == ["guess", "unpaused"]
        await set_paused(conn, "guess", False)
    await shelf.use_newest("unpaused")
    await shelf.store(a_result("a.py", *dags, digest="d2"))
    assert not (await shelf.dag("guess"))["is_paused"]
    assert (await shelf.file("a.py"))["warnings"] == []
    async with shelf.db.acquire() as conn:
        assert await guessed_without_runs(conn) == []


async def test_so_does_one_that_an_application_registers(shelf: Shelf) -> None:
    await shelf.register(guessed("guess").spec, guessed("meant", catchup_is_guess=False).spec)

    assert (await shelf.dag("guess"))["is_paused"]
    assert not (await shelf.dag("meant"))["is_paused"]
