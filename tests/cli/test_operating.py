"""Pools, settings, the database as a whole, and the doctor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from aiosched.cli.operation.doctor import fix_of
from aiosched.cli.serve import disk
from aiosched.config import Settings
from aiosched.core.values.messages import AttemptKey, StoredXCom, XComValue
from aiosched.db.server import admin
from aiosched.db.server.engine import Database
from aiosched.db.server.schema_version import HEAD
from aiosched.db.statements import unwritten_logs
from aiosched.db.statements.journal import upsert_xcoms, xcom_row
from aiosched.db.statements.unwritten_logs import UnwrittenRow
from aiosched.errors import (
    DatabaseError,
    DatabaseReadOnly,
    DatabaseUnreachable,
    RemoteStorageError,
    SchemaOutOfDate,
    TooManyConnections,
)
from aiosched.remote.folder import RemoteFolder
from tests.cli.conftest import Cli
from tests.cli.records import NOON, add_dag, add_file, add_run, add_scheduler, add_task, own


def test_setting_a_pool_prints_the_change_and_is_idempotent(on_db: Cli) -> None:
    made = on_db("pools", "set", "etl", "4", "loads")
    same = on_db("pools", "set", "etl", "4")
    changed = on_db("pools", "set", "etl", "-1", "--include-deferred")

    assert made.stderr == "created pool etl with 4 slots\n"
    assert same.stderr == "pool etl is so already: 4 slots\n"
    assert changed.stderr == "changed pool etl: slots 4 -> infinite, include_deferred False -> True\n"
    assert on_db.lines("pools", "list")[1] == ["etl", "infinite", "0", "infinite", "", "yes", "loads", ""]
    assert on_db.json("pool", "get", "etl")["slots"] == -1


def test_a_pool_gets_a_rate_and_loses_it(on_db: Cli) -> None:
    made = on_db.json("pools", "set", "api", "4", "--rate", "120/2min")
    kept_description = on_db.json("pools", "get", "api")["description"]
    kept = on_db("pools", "set", "api", "4")
    changed = on_db("pools", "set", "api", "4", "--rate", "5/30s")
    gone = on_db("pools", "set", "api", "4", "--rate=")
    wrong = on_db("pools", "set", "api", "4", "--rate", "fast", code=4)
    for words in (("4", "--rat=5/min"), ("4", "--no-rate"), ("-x", "4"), ("4", "about it", "--no-rate")):
        assert on_db("pools", "set", "api", *words, code=2).stdout == "", words
    assert on_db.json("pools", "get", "api")["description"] == kept_description

    assert made["after"]["rate"] == "120/2min"
    assert kept.stderr == "pool api is so already: 4 slots\n"
    assert changed.stderr == "changed pool api: rate 120/2min -> 5/30s\n"
    assert gone.stderr == "changed pool api: rate 5/30s -> none\n"
    assert "such as 100/min, 5/30s or 1000/day, not 'fast'" in wrong.stderr


@pytest.mark.parametrize(("slots", "words"), [("1", "1 slot"), ("0", "0 slots"), ("-1", "infinite slots")])
def test_the_slots_of_a_new_pool_are_counted_in_words(on_db: Cli, slots: str, words: str) -> None:
    assert on_db("pools", "set", "etl", slots).stderr == f"created pool etl with {words}\n"


def test_the_change_of_a_pool_is_data_too(on_db: Cli) -> None:
    on_db("pools", "set", "etl", "4")

    change = on_db.json("pools", "set", "etl", "6")

    assert (change["before"]["slots"], change["after"]["slots"], change["changed"]) == (4, 6, True)


@pytest.mark.parametrize("name", ["..", " ", "etl/queue"])
def test_a_new_pool_that_no_address_could_name_is_refused(on_db: Cli, name: str) -> None:
    assert "choose another" in on_db("pools", "set", name, "4", code=4).stderr


def test_pools_are_exported_and_imported(on_db: Cli, tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('{"etl": {"slots": 3, "description": "for etl", "include_deferred": true}}')

    imported = on_db("pools", "import", "in.json")
    on_db("pools", "export", "out.yaml")

    assert imported.stderr == "imported 1 pool: 1 created\n"
    assert on_db("pools", "import", "out.yaml").stderr == "imported 2 pools: 2 unchanged\n"
    assert on_db.json("pools", "get", "etl")["include_deferred"]


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ("3", 'pool etl must be an object such as {"slots": 4'),
        ('{"slots": "3"}', "pool etl must be an object such as"),
        ('{"slots": 3, "size": 4}', "pool etl has no 'size'; it has slots, description"),
        ('{"slots": 3, "description": 4}', "description of pool etl must not be 4"),
    ],
)
def test_what_is_no_pool_is_not_imported(on_db: Cli, tmp_path: Path, pool: str, said: str) -> None:
    (tmp_path / "in.json").write_text(f'{{"first": {{"slots": 1}}, "etl": {pool}}}')

    assert said in on_db("pools", "import", "in.json", code=2).stderr
    assert [line[0] for line in on_db.lines("pools", "list")] == ["default_pool"]


def test_a_pool_is_deleted_after_a_yes(on_db: Cli) -> None:
    on_db("pools", "set", "etl", "4")

    asked = on_db("pools", "delete", "etl", code=2)
    on_db("pools", "delete", "etl", "--yes")

    assert "Delete pool etl? Add --yes" in asked.stderr
    on_db("pools", "get", "etl", code=3)
    assert "cannot be deleted" in on_db("pools", "delete", "default_pool", "-y", code=4).stderr


def test_settings_are_listed_with_their_origin_and_without_secrets(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "aiosched.toml").write_text("[core]\nparallelism = 3\n")

    rows = {
        row["key"]: (row["value"], row["origin"])
        for row in Cli("postgresql://u:secret@h/d").json("config", "list", "--origin")
    }

    assert rows["core.parallelism"] == (3, "aiosched.toml")
    assert rows["database.dsn"] == ("postgresql://u:***@h/d", "AIOSCHED_DSN")
    assert rows["logs.level"] == ("INFO", "default")
    assert ["core.parallelism", "3", "aiosched.toml"] in cli.lines("config", "list", "--origin")
    assert ["core.parallelism", "3"] in cli.lines("config", "list")


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("get", "core.parallelism"), "32\n"),
        (("get", "core.dags_are_paused_at_creation"), "false\n"),
        (("get", "database.dsn"), "\n"),
        (("get-value", "core", "parallelism"), "32\n"),
    ],
)
def test_one_setting_is_its_value(cli: Cli, words: tuple[str, ...], value: str) -> None:
    assert cli("config", *words).stdout == value


def test_one_setting_as_data_has_its_origin(cli: Cli) -> None:
    assert cli.json("config", "get", "web.port") == {"key": "web.port", "value": 8484, "origin": "default"}


def test_a_database_is_migrated_checked_and_described(empty_dsn: str) -> None:
    cli = Cli(empty_dsn)

    cli("db", "check", code=5)
    first = cli("db", "migrate")
    again = cli("db", "upgrade")
    cli("db", "check")

    assert first.stderr == f"migrated from empty to {HEAD}\n"
    assert again.stderr == f"schema {HEAD} is current\n"
    assert cli.json("db", "info")["tables"]["pool"] == {"rows": 1, "exact": True}
    assert ["rows of pool", "1"] in cli.lines("db", "info")


def test_a_database_that_was_never_migrated_is_described(empty_dsn: str) -> None:
    assert Cli(empty_dsn).json("db", "info")["revision"] is None


def test_a_reset_asks_and_then_empties(on_db: Cli) -> None:
    on_db("pools", "set", "etl", "4")

    assert "Add --yes" in on_db("db", "reset", code=2).stderr
    assert "reset database test_" in on_db("db", "reset", "-y").stderr
    assert [line[0] for line in on_db.lines("pools", "list")] == ["default_pool"]


def test_a_backup_is_a_file_and_never_overwrites_one(on_db: Cli, tmp_path: Path) -> None:
    written = on_db.json("db", "backup", "now.dump")

    assert written == {"file": "now.dump", "bytes": (tmp_path / "now.dump").stat().st_size}
    assert "exists" in on_db("db", "backup", "now.dump", code=4).stderr


def test_the_shell_is_psql_with_its_exit_code(on_db: Cli) -> None:
    command = [sys.executable, "-m", "aiosched", "db", "shell"]
    env = {**os.environ, "AIOSCHED_DSN": str(on_db.dsn), "PSQLRC": os.devnull}

    done = subprocess.run(
        command,
        env=env,
        input="\\pset tuples_only on\nSELECT 6 * 7;\n\\q\n",
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "42" in done.stdout


def test_the_embedded_database_is_made_by_migrate_and_started_when_needed(short_path: Path) -> None:
    cli = Cli(home=short_path)

    nothing = cli("pools", "list", code=5)
    cli("db", "migrate")

    assert "There is no database" in nothing.stderr
    assert [line[0] for line in cli.lines("pools", "list")] == ["default_pool"]


async def healthy(db: Database) -> None:
    await add_dag(db, "sales")
    await add_file(db, "sales.py", dag_ids=["sales"])


def test_the_doctor_says_what_is_wrong_and_what_to_do(on_db: Cli) -> None:
    async def wrong(db: Database) -> None:
        await add_scheduler(db, "first", lease=-1)
        await add_file(db, "bad.py", error="NameError")

    on_db.work(wrong)

    findings = {f["check"]: (f["status"], f["fix"]) for f in on_db.json("doctor", code=1)}
    findings.pop("postgresql", None)  # which depends on the day

    assert findings == {
        "database": ("ok", None),
        "schema": ("ok", None),
        "schedulers": ("error", "aiosched serve"),
        "parsing": ("error", "aiosched dags errors"),
    }


def test_the_doctor_cuts_nothing_off_on_a_narrow_terminal(on_db: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    shown = " ".join(on_db("doctor", "-o", "table", code=1).stdout.split())

    assert "…" not in shown
    for finding in on_db.json("doctor", code=1):
        assert finding["fix"] is None or f"do: {finding['fix']}" in shown


def test_the_doctor_names_sequences_that_are_behind_their_rows(on_db: Cli) -> None:
    """`db migrate`, which it tells to do, puts them forward; those that are ahead are fine."""

    async def go_back(db: Database) -> None:
        sales = await add_dag(db, "sales")
        for number in range(3):
            await add_run(db, "sales", sales, f"r{number}")
        await db.execute(
            "SELECT setval('dag_run_id_seq', 1), setval('dag_version_id_seq', 1, false), setval('asset_id_seq', 70)"
        )

    on_db.work(go_back)

    behind = [f for f in on_db.json("doctor", code=1) if f["check"] == "sequences"]
    assert [(f["status"], f["text"]) for f in behind] == [
        ("error", "dag_run: the last number issued is 1, rows have up to 3"),
        ("error", "dag_version: the last number issued is 0, rows have up to 1"),
    ]
    assert {f["fix"] for f in behind} == {"aiosched db migrate (a scheduler that starts does it, too)"}

    on_db("db", "migrate")
    assert "sequences" not in {f["check"] for f in on_db.json("doctor", code=1)}


def test_the_doctor_names_machines_that_differ(on_db: Cli) -> None:
    async def say(db: Database) -> None:
        await own(db, figures='{"remarks": ["lacks a.py, which two has", "noticed: a jump"]}')

    on_db.work(say)
    found = [f for f in on_db.json("doctor") if f["check"] == "schedulers" and f["status"] == "warning"]
    assert [f["text"] for f in found] == ["one lacks a.py, which two has", "one noticed: a jump"]
    assert {f["fix"] for f in found} == {"docs/operations.md, Machines that differ"}


def test_the_doctor_stops_at_a_schema_that_is_not_current(empty_dsn: str) -> None:
    findings = Cli(empty_dsn).json("doctor", code=1)

    assert [(f["check"], f["status"]) for f in findings] == [("database", "ok"), ("schema", "error")]
    assert findings[-1]["fix"] == "aiosched db migrate"


def test_the_doctor_says_who_can_write_if_the_database_is_read_only(on_db: Cli) -> None:
    async def read_only(db: Database) -> None:
        async with db.acquire() as conn:
            name = await conn.fetchval("SELECT current_database()")
            await conn.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")

    on_db.work(read_only)

    found = on_db.json("doctor", code=1)[-1]

    assert found["check"] == "schema"
    assert "is read-only" in found["text"]
    assert found["fix"] == "turn default_transaction_read_only off, or point the DSN at the primary"


def test_the_doctor_wants_room_on_a_full_disk(on_db: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(_: Database, **__: object) -> None:
        raise asyncpg.DiskFullError("could not extend file: No space left on device")

    monkeypatch.setattr(admin, "info", full)

    found = on_db.json("doctor", code=1)[-1]

    assert "is full: could not extend file" in found["text"]
    assert (found["check"], found["fix"]) == ("database", "make room on that disk")


@pytest.mark.parametrize(
    ("pgbouncer", "fix"),
    [
        ("true", "start pgbouncer and the PostgreSQL behind it, or correct the address"),
        ("false", "start PostgreSQL, or correct the address"),
    ],
)
def test_the_doctor_names_what_should_answer_at_the_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pgbouncer: str, fix: str
) -> None:
    monkeypatch.setenv("AIOSCHED__DATABASE__PGBOUNCER", pgbouncer)

    found = Cli(f"postgresql:///x?host={tmp_path}").json("doctor", code=1)[-1]

    assert (found["check"], found["fix"]) == ("database", fix)


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (SchemaOutOfDate(found=None, needed=HEAD), "aiosched db migrate"),
        (
            SchemaOutOfDate(found="0031", needed=HEAD, of_development=True),
            "use a new database, or empty this one: aiosched db reset",
        ),
        (SchemaOutOfDate(found="9999", needed=HEAD, newer=True), "upgrade aiosched"),
        (TooManyConnections("none is left"), "end other sessions, or lower database.pool_size"),
        (DatabaseUnreachable("it has gone"), "aiosched serve"),
        (DatabaseReadOnly("it is read-only"), "turn default_transaction_read_only off"),
    ],
)
def test_what_to_do_about_the_embedded_database(error: DatabaseError, fix: str) -> None:
    assert fix_of(error, Settings()) == fix


def test_the_doctor_without_any_database_says_how_to_begin(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()

    result = cli("doctor", "-o", "json", code=1)

    assert [(f["check"], f["fix"]) for f in json.loads(result.stdout)] == [
        ("dags", None),
        ("airflow", None),
        ("isolation", "set executor.run_as; see docs/isolation.md"),
        ("database", "aiosched serve"),
    ]
    assert result.stderr == "1 of 4 checks failed\n"


def test_the_doctor_and_the_banner_say_when_the_disk_runs_low(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "LEAST_FREE", 1 << 80)

    assert "MiB are free on the disk of the logs" in (disk.problem_with(tmp_path / "not" / "there") or "")
    assert "WARNING: only" in disk.logs_summary(Settings())


@pytest.mark.parametrize("place", ["/proc", __file__])
def test_a_folder_of_logs_that_cannot_be_made_is_named(place: str) -> None:
    assert disk.problem_with(Path(place) / "x" / "logs") == (
        f"the folder of the logs cannot be made: {place} holds no files of users"
    )


def test_the_doctor_counts_what_is_healthy(on_db: Cli) -> None:
    on_db.work(healthy)

    (parsing,) = [f for f in on_db.json("doctor", code=1) if f["check"] == "parsing"]

    assert parsing["text"] == "1 DAG in 1 file, last parsed at 2026-11-20 12:00:00Z"


def test_the_doctor_looks_at_remote_storage_if_it_is_set(
    on_db: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOSCHED__LOGS__REMOTE", f"file://{tmp_path}/logs")
    monkeypatch.setenv("AIOSCHED__XCOM__REMOTE", "nosuch://bucket")

    found = {each["check"]: each for each in on_db.json("doctor", code=1)}

    assert (found["logs.remote"]["status"], found["logs.remote"]["text"]) == ("ok", f"file://{tmp_path}/logs")
    assert found["xcom.remote"]["status"] == "error"
    assert "xcom.remote = nosuch://bucket cannot be opened" in found["xcom.remote"]["text"]


def test_the_doctor_says_whose_output_was_lost(on_db: Cli) -> None:
    async def lost(db: Database) -> None:
        async with db.acquire() as conn:
            run = await add_run(db, "sales", await add_dag(db, "sales"), "one")
            for number, why in ((1, "No space left on device"), (2, "Read-only file system"), (3, "No such device")):
                row = UnwrittenRow("node-1", why, 10, "end\n")
                await unwritten_logs.store(conn, AttemptKey(run, 0, -1, number), row)
            await conn.execute("UPDATE unwritten_log SET created_at = now() - interval '25 h' WHERE try_number = 3")

    on_db.work(lost)

    (finding,) = [f for f in on_db.json("doctor", code=1) if f["check"] == "logs"]

    assert finding["status"] == "error"
    assert finding["text"] == (
        "output of 2 tries could not be written within a day "
        "(node-1: No space left on device; node-1: Read-only file system)"
    )
    assert finding["fix"] == "make room there, and let aiosched write below logs.folder"


def test_the_doctor_says_that_files_of_xcoms_are_not_removed(on_db: Cli) -> None:
    async def released(db: Database) -> None:
        query = "INSERT INTO unreferenced_xcom (path, since) VALUES ($1, now() - make_interval(hours => $2))"
        async with db.acquire() as conn:
            await conn.execute(query, "old", 3)
            await conn.execute(query, "young", 0)

    on_db.work(released)

    (finding,) = [f for f in on_db.json("doctor", code=1) if f["check"] == "xcom.remote"]

    assert finding == {
        "check": "xcom.remote",
        "status": "warning",
        "text": "1 file of XComs that are gone has waited for more than an hour to be removed, the oldest for 3 h",
        "fix": "keep xcom.remote set, and see the scheduler's log for why the store refuses",
    }


# -- db clean -------------------------------------------------------------------------------------


async def _old_and_new(db: Database) -> None:
    version = await add_dag(db, "sales")
    for run_id, end in (("old", NOON - timedelta(days=40)), ("new", NOON)):
        run = await add_run(db, "sales", version, run_id, state="success", end_date=end)
        await add_task(db, run, 0, "success")
    await add_run(db, "sales", version, "runs", run_after=NOON - timedelta(days=40))


def test_db_clean_removes_what_ended_before_and_says_how_much(on_db: Cli, tmp_path: Path) -> None:
    on_db.work(_old_and_new)
    on_db = Cli(on_db.dsn, tmp_path)
    words = ("db", "clean", "--before", "2026-11-01")
    logs = {name: tmp_path / f"logs/dag_id=sales/run_id={name}/task_id=extract" for name in ("old", "new")}
    for folder in logs.values():
        folder.mkdir(parents=True)
        (folder / "attempt=1.log").write_text("said\n")

    preview = on_db(*words, "--dry-run", "-o", "json")
    unasked = on_db(*words, code=2)
    assert "Remove 1 run and other history that ended before" in unasked.stderr
    result = on_db(*words, "--yes", "-o", "json")

    assert json.loads(preview.stdout) == json.loads(result.stdout)
    assert (json.loads(result.stdout)["runs"], json.loads(result.stdout)["task_instances"]) == (1, 1)
    assert "would remove 2 rows" in preview.stderr
    assert "removed 2 rows" in result.stderr
    assert {run["run_id"] for run in on_db.json("runs", "list")} == {"runs", "new"}
    assert json.loads(result.stdout)["log_files"] == 1
    assert [name for name, folder in logs.items() if folder.exists()] == ["new"]


def test_db_clean_removes_logs_and_large_values_in_remote_storage(
    on_db: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def store(db: Database) -> None:
        await _old_and_new(db)
        async with db.acquire() as conn:
            key = await conn.fetchval("SELECT id FROM dag_run WHERE run_id = 'old'")
            one = StoredXCom(key="k", path="old/one.json", size=2, length=0, value='"[]"')
            await upsert_xcoms(conn, [xcom_row(key, 0, -1, one)])

    on_db.work(store)
    on_db = Cli(on_db.dsn, tmp_path)
    logs, xcoms = (RemoteFolder(f"file://{tmp_path}/{name}", setting="x") for name in ("remote logs", "remote xcoms"))
    for run_id in ("old", "new"):
        logs.write(f"dag_id=sales/run_id={run_id}/task_id=extract/attempt=1.x.log", b"said\n")
        xcoms.write(f"{run_id}/one.json", b"[]")
    monkeypatch.setenv("AIOSCHED__LOGS__REMOTE", f"file://{tmp_path}/remote logs")
    monkeypatch.setenv("AIOSCHED__XCOM__REMOTE", f"file://{tmp_path}/remote xcoms")

    preview = on_db.json("db", "clean", "--before", "2026-11-01", "--dry-run")
    result = on_db.json("db", "clean", "--before", "2026-11-01", "--yes")

    assert preview == result
    assert (result["log_files"], result["xcoms"]) == (1, 1)
    assert [file.path.split("/")[1] for file in logs.find("")] == ["run_id=new"]
    assert [file.path for file in xcoms.find("")] == ["new/one.json"]


def test_values_are_listed_and_written_in_full_wherever_they_are(
    on_db: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def store(db: Database) -> None:
        run = await add_run(db, "sales", await add_dag(db, "sales"), "one", state="success")
        await add_task(db, run, 0, "success")
        big = StoredXCom(key="big", path="one.json", size=8, length=2, value='"[1,"')
        when = XComValue("when", '[{"$aiosched":"date","value":"2026-01-01"}]')
        async with db.acquire() as conn:
            await upsert_xcoms(conn, [xcom_row(run, 0, -1, one) for one in (big, XComValue("small", "7"), when)])

    on_db.work(store)
    url = f"file://{tmp_path}/xcoms"
    RemoteFolder(url, setting="x").write("one.json", b'[1,"\xc3\xa9"]')
    words = ("tasks", "xcoms", "sales", "one", "extract")
    unset = on_db(*words, "--key", "big", code=1)
    monkeypatch.setenv("AIOSCHED__XCOM__REMOTE", url)

    assert [line[:3] for line in on_db.lines(*words)] == [
        ["big", "8", f"{url}/one.json"], ["small", "1", "7"], ["when", "43", '["date 2026-01-01"]'],
    ]  # fmt: skip
    assert on_db(*words, "--key", "when").stdout == '[{"$aiosched":"date","value":"2026-01-01"}]\n'
    assert on_db(*words, "--key", "big").stdout == '[1,"é"]\n'
    assert on_db.json(*words, "--key", "small")["value"] == "7"
    assert "xcom.remote is not set here" in unset.stderr
    assert "has no XCom 'other'" in on_db(*words, "--key", "other", code=3).stderr
    assert "has no instance extract[3]" in on_db(*words, "--map-index", "3", code=3).stderr


def test_db_clean_keeps_a_run_whose_remote_logs_cannot_be_removed(
    on_db: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: RemoteFolder, path: str) -> int:
        raise RemoteStorageError(f"{self.url_of(path)} cannot be used: it is down")

    on_db.work(_old_and_new)
    on_db = Cli(on_db.dsn, tmp_path)
    monkeypatch.setenv("AIOSCHED__LOGS__REMOTE", f"file://{tmp_path}/store")
    monkeypatch.setattr(RemoteFolder, "remove_tree", fail)

    result = on_db("db", "clean", "--before", "2026-11-01", "--yes", code=1)

    assert "cannot be removed: run 'old' of DAG 'sales' (RemoteStorageError: file://" in result.stderr
    assert "old" in {run["run_id"] for run in on_db.json("runs", "list")}


def test_db_clean_names_what_it_cannot_remove_and_removes_the_rest(on_db: Cli, tmp_path: Path) -> None:
    async def hold(db: Database) -> None:
        run = await add_run(db, "sales", 1, "held", state="success", end_date=NOON - timedelta(days=40))
        async with db.acquire() as conn:
            await conn.execute("CREATE TABLE audit (run bigint REFERENCES dag_run (id))")
            await conn.execute("INSERT INTO audit VALUES ($1)", run)

    on_db.work(_old_and_new)
    on_db.work(hold)
    on_db = Cli(on_db.dsn, tmp_path)

    result = on_db("db", "clean", "--before", "2026-11-01", "--yes", code=1)

    assert "cannot be removed: run 'held' of DAG 'sales' (ForeignKeyViolationError: " in result.stderr
    assert {run["run_id"] for run in on_db.json("runs", "list")} == {"runs", "held", "new"}


def test_db_clean_with_nothing_to_do_asks_nothing(on_db: Cli) -> None:
    assert "nothing is older than 2026-11-01" in on_db("db", "clean", "--clean-before-timestamp=2026-11-01").stderr


def test_db_clean_wants_a_time_that_has_passed(on_db: Cli) -> None:
    assert "is in the future" in on_db("db", "clean", "--before", "2999-01-01", code=2).stderr
    assert "write a date" in on_db("db", "clean", "--before", "long ago", code=2).stderr


def test_the_doctor_says_what_the_database_has_lost_within_a_week(on_db: Cli) -> None:
    async def lose(db: Database) -> None:
        await db.execute(
            "INSERT INTO lost_span (noticed_at, lost_from, lost_to, noticed_by, seen, found)"
            " SELECT now() - ago, '2026-01-01 12:00+0', '2026-01-01 12:00:05+0', 'one',"
            " 'timeline 1, position 0/9', 'timeline 2, position 0/8'"
            " FROM unnest(ARRAY[interval '6 days', interval '8 days']) AS ago"
        )

    on_db.work(lose)

    (found,) = [one for one in on_db.json("doctor", code=1) if one["check"] == "lost span"]
    assert found["status"] == "warning"
    assert found["text"].startswith("what was stored from 2026-01-01 12:00:00 to 2026-01-01 12:00:05 UTC may be lost")
    assert "noticed by one" in found["text"]
    assert found["text"].endswith("(timeline 1, position 0/9; then timeline 2, position 0/8)")
