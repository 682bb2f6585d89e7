"""`aiosched airflow …` on a database: what is stored, shown and followed, with a scheduler and without."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiosched.db.crypto.keyring import new_key
from tests.cli.conftest import Cli
from tests.cli.serving import living
from tests.databases import Server

KEY = ("AIOSCHED__SECRETS__FERNET_KEYS", new_key())
DAGS = """
from airflow import DAG
from airflow.operators.python import PythonOperator

def fail(): raise ValueError("boom")

for name, paused in (("daily", False), ("asleep", True)):
    with DAG(name, start_date="2024-01-01", schedule=None, is_paused_upon_creation=paused) as dag:
        PythonOperator(task_id="work", python_callable=print)
with DAG("broken", start_date="2024-01-01", schedule="@daily", catchup=False, is_paused_upon_creation=True) as broken:
    PythonOperator(task_id="fail", python_callable=fail)
"""


def rows(cli: Cli, *words: str) -> Any:
    """The rows that a command of Airflow writes as JSON."""
    return json.loads(cli("airflow", *words, "-o", "json").stdout)


# ---- without a scheduler ----


@pytest.fixture
def stored(on_db: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line on a database with a key."""
    monkeypatch.setenv(*KEY)
    return on_db


def test_connections_are_added_shown_and_imported(stored: Cli, tmp_path: Path) -> None:
    stored("airflow", "connections", "add", "pg", "--conn-type", "postgres", "--conn-password", "p", "--conn-port", "1")
    (tmp_path / "in.yaml").write_text("pg: http://other\nweb: http://h\n")

    again = stored("airflow", "connections", "add", "pg", "--conn-uri", "http://h", code=1)
    stored("airflow", "connections", "import", "in.yaml")

    assert "exists already" in again.stderr
    (shown,) = rows(stored, "connections", "get", "pg")
    assert (shown["conn_type"], shown["password"], shown["port"]) == ("postgres", "p", "1")
    assert [row["password"] for row in rows(stored, "connections", "list")] == ["***", None]
    stored("airflow", "connections", "import", "in.yaml", "--overwrite")
    assert rows(stored, "connections", "get", "pg")[0]["host"] == "other"
    stored("airflow", "connections", "delete", "pg")
    stored("airflow", "connections", "get", "pg", code=1)


def test_variables_of_1_10_go_into_a_file_and_come_back(stored: Cli, tmp_path: Path) -> None:
    stored("airflow", "variables", "-s", "api_key", "s3cret")
    stored("airflow", "variables", "-e", "out.json")
    stored("airflow", "variables", "-x", "api_key")
    stored("airflow", "variables", "-i", "out.json")

    assert json.loads((tmp_path / "out.json").read_text()) == {"api_key": "s3cret"}
    assert stored("airflow", "variables", "-g", "api_key").stdout == "s3cret\n"
    stored("airflow", "variables", "get", "nothing", code=1)


def test_users_have_the_role_that_fits(stored: Cli) -> None:
    given = ("-f", "A", "-l", "B", "-e", "a@b.c", "-u")
    made = stored("airflow", "users", "create", *given, "ann", "-r", "Admin", "-p", "a-long-password")
    again = stored("airflow", "users", "create", *given, "ann", "-r", "Admin", "-p", "a-long-password")
    random = stored("airflow", "create_user", *given, "bob", "-r", "Viewer", "--use_random_password")
    stored("airflow", "users", "add-role", "-u", "bob", "-r", "Op")
    stored("airflow", "users", "add-role", "-u", "bob", "-r", "User")  # less than what bob has

    assert 'User "ann" created with role "Admin"' in made.stdout
    assert "ann already exist in the db" in again.stdout
    assert "its password: " in random.stderr
    assert {row["username"]: row["roles"] for row in rows(stored, "users", "list")} == {"ann": "admin", "bob": "editor"}
    assert (
        "bob is not admin, but editor"
        in stored("airflow", "users", "remove-role", "-u", "bob", "-r", "Admin", code=1).stderr
    )
    assert "roles are Admin, Op" in stored("airflow", "users", "add-role", "-u", "bob", "-r", "Boss", code=2).stderr
    stored("airflow", "users", "reset-password", "-u", "bob", "-p", "another-password")
    stored("airflow", "users", "delete", "-u", "bob")


def test_a_password_that_is_too_short_is_refused(stored: Cli) -> None:
    words = ("-u", "ann", "-f", "A", "-l", "B", "-e", "a@b.c", "-r", "Admin", "-p", "admin")

    assert "needs at least" in stored("airflow", "users", "create", *words, code=1).stderr
    assert rows(stored, "users", "list") == []


def test_a_database_is_checked_whatever_is_in_it(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cli = Cli(empty_dsn)

    assert "answers" in cli("airflow", "db", "check").stdout
    cli("airflow", "db", "check-migrations", "-t", "0", code=1)
    cli("airflow", "db", "init")
    cli("airflow", "db", "check-migrations")
    cli("airflow", "db", "reset", "-y")
    assert "No alive jobs found." in cli("airflow", "jobs", "check", code=1).stderr


def test_a_database_that_is_away_is_tried_again() -> None:
    said = Cli("postgresql://127.0.0.1:1/x")("airflow", "db", "check", "--retry", "1", "--retry-delay", "0", code=1)

    assert "Tried again in 0 s, 1 times at most." in said.stderr


@pytest.mark.parametrize(
    ("words", "value"),
    [(("core", "dags_folder"), "dags"), (("core", "executor"), "local"), (("core", "load_examples"), "False")],
)
def test_options_of_airflow_have_values(cli: Cli, words: tuple[str, ...], value: str) -> None:
    assert cli("airflow", "config", "get-value", *words).stdout == f"{value}\n"
    cli("airflow", "config", "get-value", "core", "unheard_of", code=1)


# ---- with a scheduler ----


@pytest.fixture(scope="module")
def live(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """The command line beside a living scheduler that has parsed DAGS."""
    folder = tmp_path_factory.mktemp("live")
    (folder / "dags").mkdir()
    (folder / "dags" / "all.py").write_text(DAGS)
    with living(server, folder) as cli:
        yield cli


def test_a_run_is_triggered_and_its_states_are_shown(live: Cli) -> None:
    words = ("-e", "2024-02-01", "-r", "mine", "-c", '{"x": 1}')
    (run,) = rows(live, "dags", "trigger", "daily", *words)
    live("runs", "watch", "daily", "mine")

    assert (run["dag_run_id"], run["logical_date"], run["conf"]) == ("mine", "2024-02-01T00:00:00+00:00", {"x": "1"})
    assert live("airflow", "dags", "state", "daily", "2024-02-01").stdout == 'success, {"x": 1}\n'
    assert live("airflow", "dags", "state", "daily", "2024-02-02").stdout == "None\n"
    live("airflow", "dags", "state", "nothing", "2024-02-02", code=1)
    assert live("airflow", "tasks", "state", "daily", "work", "2024-02-01").stdout == "success\n"
    assert rows(live, "tasks", "states-for-dag-run", "daily", "mine")[0]["state"] == "success"
    assert [one["run_id"] for one in rows(live, "dags", "list-runs", "-d", "daily", "-s", "2024-02-01")] == ["mine"]
    assert rows(live, "dags", "list-runs", "daily", "-e", "2024-01-31") == []


def test_a_paused_dag_takes_a_run_that_waits(live: Cli) -> None:
    (run,) = rows(live, "dags", "trigger", "asleep", "-r", "waits")

    assert run["state"] == "queued"
    assert rows(live, "dags", "unpause", "asleep") == [{"dag_id": "asleep", "is_paused": "False"}]
    assert live("airflow", "unpause", "asleep").stdout == "No paused DAGs were found\n"
    assert live.json("runs", "watch", "asleep", "waits")["state"] == "success"


def test_a_task_is_run_again_in_its_run(live: Cli) -> None:
    live("airflow", "dags", "unpause", "broken")
    live("airflow", "dags", "backfill", "broken", "-s", "2024-03-01", "-e", "2024-03-01", code=1)

    assert "fail: failed" in live("airflow", "tasks", "run", "broken", "fail", "2024-03-01", code=1).stderr
    live("airflow", "tasks", "run", "broken", "fail", "2024-03-01", "-m")
    assert live("airflow", "task_state", "broken", "fail", "2024-03-01").stdout == "success\n"
    assert live("airflow", "dags", "next-execution", "broken").stdout.endswith("+00:00\n")


def test_the_database_knows_the_dags_while_a_scheduler_runs(live: Cli) -> None:
    listed = rows(live, "dags", "list", "--columns", "dag_id,schedule_interval")

    assert [row["dag_id"] for row in listed] == ["asleep", "broken", "daily"]
    assert live("airflow", "tasks", "list", "daily").stdout == "work\n"
    assert rows(live, "dags", "details", "daily")[0]["dag_id"] == "daily"
    assert "dag_id" in live("airflow", "dags", "details", "daily").stdout


@pytest.mark.parametrize("kind", ["SchedulerJob", "TriggererJob", "DagProcessorJob"])
def test_a_scheduler_is_every_job_that_it_does(live: Cli, kind: str) -> None:
    assert live("airflow", "jobs", "check", "--job-type", kind, "--local").stdout == "Found one alive job.\n"
    live("airflow", "jobs", "check", "--hostname", "elsewhere", code=1)


def test_a_backfill_that_nobody_runs_is_an_error(stored: Cli, tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "all.py").write_text(DAGS)
    stored("airflow", "dags", "reserialize")

    said = stored("airflow", "dags", "backfill", "broken", "-s", "2024-03-01", "-e", "2024-03-01", code=1).stderr

    assert "No scheduler has created its runs" in said
    assert (
        "No scheduler runs that could run fail"
        in stored("airflow", "tasks", "run", "broken", "fail", "2024-03-01", code=1).stderr
    )
