"""Every command takes `-o`, and writes what it did as data: who takes the option, and what each of them writes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from aiosched.cli.app import Root
from aiosched.cli.lazy import command_of
from aiosched.core.values.ids import partition_of
from aiosched.db.crypto.keyring import new_key
from aiosched.db.server.engine import Database
from aiosched.db.server.schema_version import HEAD
from aiosched.remote.log_files import log_folder
from tests.cli.conftest import Cli
from tests.cli.records import NOON, add_dag, add_run, add_task, insert

# Commands without the option, and why.
WITHOUT: Final = {
    "airflow": "its words are Airflow's, which has the option itself",
    "audit export": "it writes JSON lines",
    "celery worker": "Celery has the terminal",
    "db shell": "psql has the terminal",
    "worker run-attempt": "engines read its exit code",
}


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that a help shows, by the words that call it."""
    for name, entry in Root.entries.items():
        if not entry.hidden:
            yield from below(name, command_of(entry.module))


def below(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    """`command` itself, or the commands of the group that it is."""
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name, inner in command.commands.items():
        if not inner.hidden:
            yield from below(f"{words} {name}", inner)


def test_every_command_takes_output() -> None:
    without = {
        words
        for words, command in commands()
        if not any({"--output", "-o"} <= set(parameter.opts) for parameter in command.params)
    }

    assert without == set(WITHOUT)


def test_the_walk_sees_commands_of_their_own_and_of_groups() -> None:
    assert {"init", "doctor", "dags delete", "db shell", "tasks logs"} <= {words for words, _ in commands()}


# ---- what is done at once ----


@pytest.fixture
def ready(on_db: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """A database with a key, a pool, a variable and a connection, and files to import."""
    monkeypatch.setenv("AIOSCHED__SECRETS__FERNET_KEYS", new_key())
    on_db("pools", "set", "etl", "4")
    on_db("variables", "set", "region", "eu")
    on_db("connections", "add", "web", "--uri", "http://host")
    (tmp_path / "variables.json").write_text('{"region": "eu", "limit": 3}')
    (tmp_path / "connections.json").write_text('{"web": "http://other", "new": "http://host"}')
    return on_db


@pytest.mark.parametrize(
    ("words", "data"),
    [
        ("pools delete etl -y", {"pool": "etl", "deleted": True}),
        ("variables set zone a", {"key": "zone", "result": "created"}),
        ("variables set region eu", {"key": "region", "result": "unchanged"}),
        ("variables delete region -y", {"key": "region", "deleted": True}),
        (
            "variables import variables.json",
            {"file": "variables.json", "variables": {"region": "unchanged", "limit": "created"}},
        ),
        ("variables export out.json", {"file": "out.json", "variables": 1}),
        ("variables export -", {"region": "eu"}),
        ("connections add api --uri http://host", {"conn_id": "api", "result": "created"}),
        ("connections set web --host other", {"conn_id": "web", "result": "changed"}),
        ("connections delete web -y", {"conn_id": "web", "deleted": True}),
        (
            "connections import connections.json",
            {"file": "connections.json", "connections": {"web": "changed", "new": "created"}},
        ),
        ("connections export out.json", {"file": "out.json", "connections": 1}),
        ("connections export -", {"web": {"conn_type": "http", "host": "host"}}),
        ("db migrate", {"before": HEAD, "after": HEAD, "changed": False}),
        ("db check", {"ok": True, "revision": HEAD}),
        ("db rotate-keys", {"encrypted": 2}),
        ("init demo", {"folder": "demo", "files": ["aiosched.toml", "dags/hello.py", "tests/test_dags.py"]}),
    ],
)
def test_what_a_command_did_is_one_object(ready: Cli, words: str, data: dict[str, Any]) -> None:
    assert ready.json(*words.split()) == data


def test_an_empty_database_says_where_it_came_from(empty_dsn: str) -> None:
    assert Cli(empty_dsn).json("db", "migrate") == {"before": None, "after": HEAD, "changed": True}


def test_a_reset_names_the_database(on_db: Cli) -> None:
    done = on_db.json("db", "reset", "--yes")

    assert (done["database"][:5], done["reset"]) == ("test_", True)


def test_a_new_key_is_data_or_a_line(cli: Cli) -> None:
    assert len(cli.json("db", "make-key")["key"]) == len(cli("db", "make-key").stdout.strip()) == 44


def test_a_connection_that_works_says_what_was_shown(ready: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as service:
        ready("connections", "set", "web", "--host", "127.0.0.1", "--port", str(service.getsockname()[1]))

        done = ready.json("connections", "test", "web")

    assert (done["conn_id"], done["ok"]) == ("web", True)
    assert "takes connections" in done["shown"]


def test_data_is_yaml_where_that_is_asked_for(ready: Cli) -> None:
    assert ready("variables", "export", "-", "-o", "yaml").stdout == '"region": "eu"\n'
    assert ready("pools", "delete", "etl", "-y", "-o", "yaml").stdout == '"pool": "etl"\n"deleted": true\n'


@pytest.mark.parametrize("output", [(), ("-o", "plain"), ("-o", "table")])
def test_people_are_told_on_stderr_only(ready: Cli, output: tuple[str, ...]) -> None:
    result = ready("pools", "delete", "etl", "-y", *output)

    assert (result.stdout, result.stderr) == ("", "deleted pool etl\n")


def test_an_error_leaves_no_data(ready: Cli) -> None:
    result = ready("variables", "delete", "none", "-y", "-o", "json", code=3)

    assert (result.stdout, result.stderr) == ("", "error: There is no variable 'none'.\n")


# ---- what a scheduler does ----


async def sales(db: Database) -> None:
    """A running run with a mapped task, and a backfill, number 1."""
    run = await add_run(db, "sales", await add_dag(db, "sales"), "manual__1")
    await add_task(db, run, 0, "running", try_number=2)
    await add_task(db, run, 1, "running", map_index=3, try_number=1)
    async with db.acquire() as conn:
        row = {"dag_id": "sales", "partition": partition_of("sales"), "from_date": NOON, "to_date": NOON}
        await insert(conn, "backfill", row)


@pytest.mark.parametrize(
    "words",
    [
        "dags trigger sales",
        "dags delete sales -y",
        "runs cancel sales",
        "runs mark sales manual__1 failed",
        "tasks clear sales --run manual__1 --yes",
        "backfill create sales --from 2026-01-01 --to 2026-01-02",
        "backfill pause 1",
        "backfill resume 1",
        "backfill cancel 1",
    ],
)
def test_a_request_that_nobody_applied_yet_waits(on_db: Cli, words: str) -> None:
    on_db.work(sales)

    assert on_db.json(*words.split()) == {"waits": True}


# ---- logs ----


@pytest.fixture
def logged(on_db: Cli, tmp_path: Path) -> Cli:
    """Two tries of `extract` and one of the fourth `load`, with their logs."""
    on_db.work(sales)
    cli = Cli(on_db.dsn, tmp_path / "home")
    for task_id, map_index, tries in (("extract", -1, ["first\n", "second\n"]), ("load", 3, ["a\nb\n"])):
        folder = log_folder(
            tmp_path / "home" / "logs", dag_id="sales", run_id="manual__1", task_id=task_id, map_index=map_index
        )
        folder.mkdir(parents=True)
        for number, text in enumerate(tries, start=1):
            (folder / f"attempt={number}.log").write_text(text)
    return cli


@pytest.mark.parametrize(
    ("words", "map_index", "try_number", "log"),
    [
        (("extract",), -1, 2, "second\n"),
        (("extract", "--try", "1"), -1, 1, "first\n"),
        (("load", "--map-index", "3"), 3, 1, "a\nb\n"),
    ],
)
def test_a_log_is_one_object_with_the_try_it_is_of(
    logged: Cli, words: tuple[str, ...], map_index: int, try_number: int, log: str
) -> None:
    assert logged.json("tasks", "logs", "sales", "latest", *words) == {
        "dag_id": "sales", "run_id": "manual__1", "task_id": words[0], "map_index": map_index,
        "try_number": try_number, "log": log,
    }  # fmt: skip
    assert logged("tasks", "logs", "sales", "latest", *words).stdout == log


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_a_log_that_is_followed_is_no_object(cli: Cli, output: str) -> None:
    refused = cli("tasks", "logs", "sales", "latest", "extract", "-f", "-o", output, code=2)

    assert refused.stdout == ""
    assert f"-o {output} writes it in one piece" in refused.stderr
