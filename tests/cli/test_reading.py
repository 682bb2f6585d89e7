"""Commands that read the database: what they write, and what they say when something is not there."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from aiosched.cli.base.session import open_database
from aiosched.config import DatabaseSettings, Settings
from aiosched.core.graph.spec import RunKeySpec, TaskSpec
from aiosched.db.server.dsn import address_of
from aiosched.db.server.engine import Database
from aiosched.errors import DatabaseUnreachable
from tests.cli.conftest import Cli
from tests.cli.records import NOON, add_dag, add_file, add_run, add_scheduler, add_task, insert


async def seed(db: Database) -> None:
    version = await add_dag(db, "sales", schedule="@daily", next_dagrun_create_after=NOON + timedelta(days=1))
    await add_dag(db, "refunds", is_paused=True)
    await add_dag(db, "gone", is_stale=True)
    failed = await add_run(
        db, "sales", version, "scheduled__1", state="failed", run_type="scheduled", logical_date=NOON,
        end_date=NOON + timedelta(seconds=95), reason="task_failure",
    )  # fmt: skip
    await add_task(db, failed, 0, "failed", try_number=2, max_tries=1, start_date=NOON, reason="ValueError: boom")
    await add_task(db, failed, 1, "upstream_failed")
    async with db.acquire() as conn:
        tried = {"run_id": failed, "task_index": 0, "map_index": -1, "try_number": 1, "state": "failed"}
        await insert(conn, "task_try", tried | {"reason": "ValueError: first", "start_date": NOON})
    running = await add_run(db, "sales", version, "manual__2", conf={"day": 1})
    await add_task(db, running, 0, "success", try_number=1)
    for index in range(3):
        await add_task(db, running, 1, "running", map_index=index, try_number=1)
    await add_file(db, "bad.py", error="NameError: name 'x' is not defined", error_line=3, code_frame="> 3 | x")


@pytest.fixture
def seeded(on_db: Cli) -> Cli:
    on_db.work(seed)
    return on_db


def test_dags_are_listed_for_pipes_and_for_programs(seeded: Cli) -> None:
    refunds, sales = seeded.lines("dags", "list")

    assert refunds[:2] == ["refunds", "paused"]
    assert sales == ["sales", "active", "@daily", "running", "1", "2026-11-21T12:00:00Z", "sales.py"]
    assert [row["dag_id"] for row in seeded.json("dag", "list", "--stale")] == ["gone", "refunds", "sales"]
    assert [row["dag_id"] for row in seeded.json("dags", "list", "s*")] == ["sales"]
    assert seeded("dags", "list", "x*").stderr == "no DAG matches x*\n"


def test_display_names_are_listed_where_there_are_some(seeded: Cli) -> None:
    assert "NAME" not in seeded("dags", "list", "-o", "table").stdout

    async def name(db: Database) -> None:
        tasks = (TaskSpec(task_id="load", operator="Op", display_name="Load it"), TaskSpec(task_id="t", operator="Op"))
        await add_dag(db, "named", tasks=tasks, display_name="Orders of \u0623")

    seeded.work(name)

    lines = {line[0]: line[-1] for line in seeded.lines("dags", "list")}
    assert lines == {"named": "Orders of \u0623", "refunds": "", "sales": ""}
    assert {row["dag_id"]: row["dag_display_name"] for row in seeded.json("dags", "list", "*e*")} == {
        "named": "Orders of \u0623", "refunds": None, "sales": None,
    }  # fmt: skip
    shown = seeded("dags", "show", "named", "-o", "table").stdout
    assert "Orders of \u0623" in shown
    assert "Load it" in shown
    assert [one["task_display_name"] for one in seeded.json("dags", "show", "named")["tasks"]] == ["Load it", None]


def test_dags_are_listed_by_tag_and_owner(on_db: Cli) -> None:
    async def add(db: Database) -> None:
        await add_dag(db, "sales", tags=["daily", "gold"], owner="ada")
        await add_dag(db, "stock", tags=["gold"], owner="bob")

    on_db.work(add)

    assert [row["dag_id"] for row in on_db.json("dags", "list", "--tag", "gold")] == ["sales", "stock"]
    assert [row["dag_id"] for row in on_db.json("dags", "list", "--tag", "gold", "--tag", "daily")] == ["sales"]
    assert [row["dag_id"] for row in on_db.json("dags", "list", "s*", "--owner", "bob")] == ["stock"]
    assert on_db("dags", "list", "--tag", "silver").stderr == "no such DAGs\n"


def test_dags_are_chosen_by_tag_owner_and_team(on_db: Cli) -> None:
    async def three(db: Database) -> None:
        await add_dag(db, "a", tags=["gold", "etl"], owner="ann", team="sales", is_paused=True)
        await add_dag(db, "b", tags=["gold"], owner="bob", team="sales", is_paused=True)
        await add_dag(db, "c", tags=[], owner="bob", is_paused=True)

    on_db.work(three)
    for words, ids in (
        (("--tag", "gold"), ["a", "b"]),
        (("--tag", "gold", "--tag", "etl"), ["a"]),
        (("--owner", "bob"), ["b", "c"]),
        (("--team", "sales", "--owner", "bob"), ["b"]),
        (("b*", "--tag", "gold"), ["b"]),
    ):
        assert [row["dag_id"] for row in on_db.json("dags", "list", *words)] == ids
        assert on_db.lines("dags", "pause", *words) == [[dag_id, "was paused already"] for dag_id in ids]
    assert "Give an id, a pattern, --tag" in on_db("dags", "unpause", code=2).stderr
    assert "no such DAGs" in on_db("dags", "pause", "--team", "nobody", code=3).stderr


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_dag_whose_file_cannot_be_parsed_is_listed_with_its_state_and_no_next_run(
    on_db: Cli, is_paused: bool
) -> None:
    async def add(db: Database) -> None:
        due = NOON + timedelta(days=1)
        broken = {"is_stale": True, "has_import_errors": True}  # as a file that was fine once leaves its DAGs
        await add_dag(db, "hello", **broken, schedule="@daily", next_dagrun_create_after=due, is_paused=is_paused)
        await add_dag(db, "removed", is_stale=True, next_dagrun_create_after=due)

    on_db.work(add)

    (hello,) = on_db.lines("dags", "list")
    assert (hello[:2], "2026-11-21T12:00:00Z" in hello) == (["hello", "error"], False)
    assert "2026-11-21T12:00:00Z" not in on_db("dags", "list", "--stale").stdout
    assert "2026-11-21" not in on_db("dags", "show", "removed").stdout


def test_a_dag_is_shown_with_its_tasks(seeded: Cli) -> None:
    data = seeded.json("dags", "show", "sales")
    lines = seeded.lines("dags", "show", "sales")

    assert [task["upstream"] for task in data["tasks"]] == [[], ["extract"]]
    assert data["next_run_after"] == "2026-11-21T12:00:00Z"
    assert ["schedule", "@daily"] in lines
    assert ["load", "PythonOperator", "extract", "all_success"] in lines
    assert seeded.lines("tasks", "list", "sales")[1][-2:] == ["0", "etl x 2"]


def test_runs_are_listed_newest_first(seeded: Cli) -> None:
    assert [line[1] for line in seeded.lines("dags", "runs", "sales")] == ["manual__2", "scheduled__1"]
    assert [line[1] for line in seeded.lines("runs", "list", "--dag", "sales", "--state", "failed")] == ["scheduled__1"]
    assert [line[1] for line in seeded.lines("dags", "list-runs", "-d", "sales", "-s", "running")] == ["manual__2"]
    assert seeded.lines("runs", "list", "-s", "failed") == [
        ["sales", "scheduled__1", "failed", "scheduled", "2026-11-20T12:00:00Z", "2026-11-20T12:00:00Z", "1 m 35 s",
         "task_failure"],
    ]  # fmt: skip


def test_a_list_that_goes_on_says_so(seeded: Cli) -> None:
    result = seeded("runs", "list", "--limit", "1")

    assert len(result.stdout.splitlines()) == 1
    assert result.stderr == "the newest 1 by RUN AFTER; more with --limit\n"


@pytest.mark.parametrize("run", ["scheduled__1", "latest-failed", "2026-11-20T12:00"])
def test_a_run_is_shown_with_its_task_instances(seeded: Cli, run: str) -> None:
    data = seeded.json("runs", "show", "sales", run)

    assert (data["run_id"], data["state"], data["reason"]) == ("scheduled__1", "failed", "task_failure")
    assert data["counts"] == {"failed": 1, "upstream_failed": 1}
    assert [(task["task_id"], task["state"]) for task in data["tasks"]] == [
        ("extract", "failed"),
        ("load", "upstream_failed"),
    ]
    lines = seeded.lines("runs", "show", "sales", run)
    assert ["tasks", "1 failed, 1 upstream_failed"] in lines
    assert lines[-1][:2] == ["load", "upstream_failed"]


def test_a_limit_by_key_stands_with_its_dag(on_db: Cli) -> None:
    on_db.work(lambda db: add_dag(db, "jobs", run_key=RunKeySpec(("customer", "id"), 2)))

    assert ["runs by key", "2 for each conf.customer.id"] in on_db.lines("dags", "show", "jobs")


def test_missed_slas_stand_with_their_dag_and_their_run(on_db: Cli) -> None:
    async def late(db: Database) -> None:
        await seed(db)
        async with db.acquire() as conn:
            miss = {"partition": 0, "dag_id": "sales", "task_id": "load", "logical_date": NOON, "missed_at": NOON}
            await insert(conn, "sla_miss", miss)

    on_db.work(late)

    assert ["missed SLAs", "load on 2026-11-20 12:00:00Z"] in on_db.lines("dags", "show", "sales")
    assert on_db.json("dags", "show", "sales")["missed_slas"][0]["task_id"] == "load"
    assert on_db.json("runs", "show", "sales", "scheduled__1")["missed_slas"] == ["load"]
    assert on_db.json("runs", "show", "sales", "manual__2")["missed_slas"] == []


def test_mapped_instances_have_their_index(seeded: Cli) -> None:
    names = [line[0] for line in seeded.lines("tasks", "states-for-dag-run", "sales", "latest")]

    assert names == ["extract", "load[0]", "load[1]", "load[2]"]
    assert len(seeded.json("tasks", "show", "sales", "latest", "load")) == 3
    assert seeded.json("tasks", "show", "sales", "latest", "load", "--map-index", "1")["map_index"] == 1
    assert "choose one of its 3 instances" in seeded("tasks", "logs", "sales", "latest", "load", code=3).stderr


def test_a_task_instance_is_shown_with_its_tries(seeded: Cli) -> None:
    data = seeded.json("tasks", "show", "sales", "latest-failed", "extract")

    assert [(t["try_number"], t["reason"]) for t in data["tries"]] == [
        (1, "ValueError: first"),
        (2, "ValueError: boom"),
    ]
    assert ["try", "2 of 2"] in seeded.lines("tasks", "show", "sales", "latest-failed", "extract")


def test_import_errors_name_the_place(seeded: Cli) -> None:
    assert seeded("dags", "errors").stdout == "bad.py:3: NameError: name 'x' is not defined\n"
    assert seeded.json("dags", "list-import-errors")[0]["code_frame"] == "> 3 | x"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("dags", "show", "sale"), "There is no DAG 'sale'. Did you mean sales?"),
        (("dags", "runs", "sale"), "There is no DAG 'sale'. Did you mean sales?"),
        (("dags", "trigger", "sale"), "There is no DAG 'sale'. Did you mean sales?"),
        (("dags", "pause", "x*"), "There is no DAG 'x*'."),
        (("dags", "next", "sale"), "There is no DAG 'sale'. Did you mean sales?"),
        (("dags", "delete", "sale", "--yes"), "There is no DAG 'sale'. Did you mean sales?"),
        (("runs", "show", "sales", "manual__3"), "Did you mean manual__2?"),
        (("runs", "watch", "refunds"), "DAG 'refunds' has no run yet."),
        (("runs", "cancel", "refunds"), "DAG 'refunds' has no run yet."),
        (("tasks", "show", "sales", "latest", "lod"), "DAG 'sales' has no task 'lod'. Did you mean load?"),
        (("tasks", "show", "sales", "latest", "load", "--map-index", "9"), "has no instance of load[9]"),
        (("tasks", "list", "sale"), "There is no DAG 'sale'. Did you mean sales?"),
        (("pools", "get", "default"), "There is no pool 'default'. Did you mean default_pool?"),
        (("config", "get", "core.paralelism"), "There is no setting 'core.paralelism'. Did you mean core.parallelism?"),
    ],
)
def test_what_is_not_there_is_exit_code_3_and_names_what_is_near(
    seeded: Cli, words: tuple[str, ...], said: str
) -> None:
    result = seeded(*words, code=3)

    assert said in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("dags", "trigger", "refunds"), 4, "DAG 'refunds' is paused"),
        (("runs", "cancel", "sales", "scheduled__1"), 4, "is failed already"),
        (("dags", "trigger", "sales", "--conf", "{"), 2, "--conf is not valid JSON"),
        (("dags", "trigger", "sales", "--conf", "[1]"), 2, "--conf must be a JSON object"),
        (("dags", "trigger", "sales", "-p", "day"), 2, "-p day: write it as key=value."),
        (("dags", "trigger", "sales", "-e", "tomorrow"), 2, "--logical-date tomorrow: write a date"),
        (("dags", "delete", "sales"), 2, "Add --yes"),
        (("dags", "next", "sales", "--tz", "Mars"), 2, "--tz: There is no time zone 'Mars'"),
    ],
)
def test_what_may_not_be_is_refused_with_the_way_out(seeded: Cli, words: tuple[str, ...], code: int, said: str) -> None:
    assert said in seeded(*words, code=code).stderr


def test_a_request_without_a_scheduler_is_kept_and_said_to_wait(seeded: Cli) -> None:
    result = seeded("dags", "trigger", "sales")
    waiting = seeded("dags", "trigger", "sales", "--wait", code=124)

    assert result.stdout == ""
    assert "waits: no scheduler has applied it yet" in result.stderr
    assert "the request stays" in waiting.stderr
    days = ("--from", "2026-01-01", "--to", "2026-01-01")
    assert (
        "nothing to follow; the request stays"
        in seeded("backfill", "create", "sales", *days, "--watch", code=124).stderr
    )


async def finish(db: Database) -> None:
    await db.execute("UPDATE dag_run SET state = 'success', end_date = now() WHERE run_id = 'manual__2'")


def test_watching_a_finished_run_ends_at_once(seeded: Cli) -> None:
    seeded.work(finish)

    assert seeded.json("runs", "watch", "sales")["state"] == "success"
    assert seeded.json("runs", "watch", "sales", "latest-failed", code=1)["state"] == "failed"


def test_schedulers_are_checked(on_db: Cli) -> None:
    async def dead(db: Database) -> None:
        await add_scheduler(db, "first", lease=-1)

    none = on_db("schedulers", "check", code=1)
    on_db.work(dead)
    one = on_db("schedulers", "check", code=1)

    assert none.stderr == "no scheduler is running\n"
    assert one.stderr == "0 of 1 schedulers alive; 0 of 64 partitions have a living owner\n"
    assert on_db.lines("schedulers", "list")[0][:2] == ["first", "dead"]
    on_db("schedulers", "check", "--restart", code=1)
    assert on_db("schedulers", "check", "--local", code=1).stderr.startswith("no scheduler on ")


@pytest.mark.parametrize("state", ["away", "not migrated", "read-only"])
def test_a_scheduler_is_not_restarted_for_what_is_wrong_with_the_database(on_db: Cli, state: str) -> None:
    async def spoil(db: Database) -> None:
        async with db.acquire() as conn:
            if state == "not migrated":
                await conn.execute("DELETE FROM alembic_version")
            else:
                name = address_of(db.dsn).database
                await conn.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")

    words = ("schedulers", "check", "--local")
    if state == "away":
        words += ("--dsn", "postgresql://nobody@127.0.0.1:1/x")
    else:
        on_db.work(spoil)
    on_db(*words, code=5)
    assert on_db(*words, "--restart").stderr.startswith("a restart would not help: ")


def test_an_unreachable_database_is_exit_code_5() -> None:
    result = Cli("postgresql://me:secret@127.0.0.1:1/x")("dags", "list", code=5)

    assert "127.0.0.1:1" in result.stderr
    assert "secret" not in result.stderr


async def test_a_connection_that_confuses_the_driver_is_an_unreachable_database(dsn: str) -> None:
    settings = Settings(database=DatabaseSettings(dsn=dsn))

    with pytest.raises(DatabaseUnreachable, match="cannot switch to state 12"):
        async with open_database(settings):
            raise asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress")


def test_an_empty_database_is_exit_code_5_and_names_the_command(empty_dsn: str) -> None:
    assert "aiosched db migrate" in Cli(empty_dsn)("dags", "list", code=5).stderr


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("yes", ["-y", "--yes"])
@pytest.mark.parametrize(
    "words",
    [
        ("runs", "cancel", "other"),
        ("runs", "mark", "other", "latest", "failed"),
        ("tasks", "mark", "other", "latest", "load", "success"),
        ("backfill", "cancel", "12345"),
    ],
)
def test_commands_that_ask_nothing_take_the_yes_of_those_that_do(on_db: Cli, words: tuple[str, ...], yes: str) -> None:
    assert "other" in (said := on_db(*words, yes, code=3).stderr) or "12345" in said
