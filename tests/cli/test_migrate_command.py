"""`aiosched migrate airflow`: from an Airflow's folder, configuration and metadata database. docs/migration.md."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from aiosched.db.crypto.keyring import new_key
from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli

KEY = Fernet.generate_key().decode()
DAG = """
from datetime import datetime
from aiosched import DAG, EmptyOperator

for name in ("daily", "broken", "other"):
    with DAG(name, schedule="@daily", start_date=datetime(2026, 1, 1), catchup=True):
        EmptyOperator(task_id="a")
"""
TABLES = {
    "1.10": """
        CREATE TABLE dag (dag_id TEXT, is_paused BOOLEAN, is_subdag BOOLEAN, is_active BOOLEAN);
        CREATE TABLE dag_run (id INTEGER, dag_id TEXT, execution_date TIMESTAMP, state TEXT, run_id TEXT,
            external_trigger BOOLEAN, start_date TIMESTAMP, end_date TIMESTAMP);
        CREATE TABLE task_instance (task_id TEXT, dag_id TEXT, execution_date TIMESTAMP, state TEXT);
        CREATE TABLE variable (id INTEGER, key TEXT, val TEXT, is_encrypted BOOLEAN);
        CREATE TABLE connection (id INTEGER, conn_id TEXT, conn_type TEXT, host TEXT, schema TEXT, login TEXT,
            password TEXT, port INTEGER, extra TEXT, is_encrypted BOOLEAN, is_extra_encrypted BOOLEAN);
        CREATE TABLE slot_pool (id INTEGER, pool TEXT, slots INTEGER, description TEXT);
        CREATE TABLE job (id INTEGER, job_type TEXT, state TEXT, latest_heartbeat TIMESTAMP);
    """,
    "2.11": """
        CREATE TABLE dag (dag_id TEXT, is_paused BOOLEAN, is_subdag BOOLEAN, is_active BOOLEAN);
        CREATE TABLE dag_run (id INTEGER, dag_id TEXT, execution_date TIMESTAMP, state TEXT, run_id TEXT, run_type TEXT,
            data_interval_start TIMESTAMP, data_interval_end TIMESTAMP, start_date TIMESTAMP, end_date TIMESTAMP);
        CREATE TABLE task_instance (task_id TEXT, dag_id TEXT, run_id TEXT, map_index INTEGER, state TEXT);
        CREATE TABLE variable (id INTEGER, key TEXT, val TEXT, description TEXT, is_encrypted BOOLEAN);
        CREATE TABLE connection (id INTEGER, conn_id TEXT, conn_type TEXT, description TEXT, host TEXT, schema TEXT,
            login TEXT, password TEXT, port INTEGER, extra TEXT, is_encrypted BOOLEAN, is_extra_encrypted BOOLEAN);
        CREATE TABLE slot_pool (id INTEGER, pool TEXT, slots INTEGER, description TEXT, include_deferred BOOLEAN);
        CREATE TABLE job (id INTEGER, job_type TEXT, state TEXT, latest_heartbeat TIMESTAMP);
    """,
    "3.3": """
        CREATE TABLE dag (dag_id TEXT, is_paused BOOLEAN, is_stale BOOLEAN);
        CREATE TABLE dag_run (id INTEGER, dag_id TEXT, logical_date TIMESTAMP, state TEXT, run_id TEXT, run_type TEXT,
            data_interval_start TIMESTAMP, data_interval_end TIMESTAMP, run_after TIMESTAMP, start_date TIMESTAMP,
            end_date TIMESTAMP);
        CREATE TABLE task_instance (task_id TEXT, dag_id TEXT, run_id TEXT, map_index INTEGER, state TEXT);
        CREATE TABLE variable (id INTEGER, key TEXT, val TEXT, description TEXT, is_encrypted BOOLEAN, team_name TEXT);
        CREATE TABLE connection (id INTEGER, conn_id TEXT, conn_type TEXT, description TEXT, host TEXT, schema TEXT,
            login TEXT, password TEXT, port INTEGER, extra TEXT, is_encrypted BOOLEAN, is_extra_encrypted BOOLEAN);
        CREATE TABLE slot_pool (id INTEGER, pool TEXT, slots INTEGER, description TEXT, include_deferred BOOLEAN);
        CREATE TABLE job (id INTEGER, job_type TEXT, state TEXT, latest_heartbeat TIMESTAMP);
    """,
}
LAST = "2026-02-10 00:00:00.000000"  # the latest logical date of `daily`, as Airflow 1 and 2 count
DUE = "2026-02-11 00:00:00.000000"


@contextmanager
def rows_of(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as conn:
        yield conn
        conn.commit()


def insert(conn: sqlite3.Connection, table: str, **values: Any) -> None:
    marks = ", ".join("?" * len(values))
    conn.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))


def make_airflow(path: Path, version: str, *, key: str = KEY, paused: bool = False) -> str:
    """A metadata database of that version, with a little of everything; its address."""
    secret = Fernet(key).encrypt
    active = {"is_stale": False} if version == "3.3" else {"is_active": True, "is_subdag": False}
    date = {"logical_date": DUE} if version == "3.3" else {"execution_date": LAST}
    with rows_of(path) as conn:
        conn.executescript(TABLES[version])
        for name in ("daily", "gone"):
            insert(conn, "dag", dag_id=name, is_paused=paused, **active)
        run: dict[str, Any] = {"dag_id": "daily", "run_id": f"scheduled__{name}", "state": "success", **date}
        if version == "2.11":
            run |= {"run_type": "scheduled", "data_interval_start": LAST, "data_interval_end": DUE}
        if version == "3.3":
            run |= {"run_type": "scheduled", "data_interval_start": DUE, "data_interval_end": DUE, "run_after": DUE}
        insert(conn, "dag_run", **run)
        insert(conn, "dag_run", **run | {"dag_id": "gone"})
        by = {"run_id": run["run_id"], "map_index": -1} if version != "1.10" else {"execution_date": LAST}
        insert(conn, "task_instance", task_id="a", dag_id="daily", state="success", **by)
        insert(conn, "variable", key="region", val=secret(b"eu-west-1").decode(), is_encrypted=True)
        insert(conn, "variable", key="plain", val="as it is", is_encrypted=False)
        insert(
            conn, "connection", conn_id="sales", conn_type="postgres", host="db", login="me", port=5432, schema="s",
            password=secret(b"hunter2").decode(), extra=secret(b'{"sslmode": "require"}').decode(), is_encrypted=True,
            is_extra_encrypted=True,
        )  # fmt: skip
        insert(conn, "slot_pool", pool="default_pool", slots=64)
        insert(conn, "slot_pool", pool="etl", slots=3, description="two at once")
    return f"sqlite:///{path}"


@pytest.fixture
def here(on_db: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """The command line on a database with a key, and a folder `dags`."""
    monkeypatch.setenv("AIOSCHED__SECRETS__FERNET_KEYS", new_key())
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "some.py").write_text(DAG)
    return on_db


def outcomes(report: Any) -> dict[tuple[str, str], str]:
    return {(step["kind"], step["name"]): step["outcome"] for step in report["steps"]}


async def commands(db: Database) -> list[Any]:
    return list(await db.fetch("SELECT dag_id, verb, args FROM request WHERE state = 'waiting' ORDER BY id"))


@pytest.mark.parametrize(
    "version",
    [
        pytest.param("1.10", marks=pytest.mark.slow),
        pytest.param("2.11", marks=pytest.mark.slow),  # most tests below read one
        "3.3",
    ],
)
def test_data_of_every_generation_comes_over_once(here: Cli, tmp_path: Path, version: str) -> None:
    url = make_airflow(tmp_path / "airflow.db", version)
    words = ("migrate", "airflow", "dags", "--database", url, "--fernet-key", KEY)

    planned = here.json(*words)
    assert here.lines("variables", "list") == [], "a dry run changes nothing"
    done = here.json(*words, "--apply", code=1)  # `gone` is in no file
    again = here.json(*words, "--apply", code=1)

    expected = {
        ("variable", "region"): "created", ("variable", "plain"): "created", ("connection", "sales"): "created",
        ("pool", "default_pool"): "changed", ("pool", "etl"): "created", ("dag", "daily"): "sent",
        ("dag", "gone"): "left",
    }  # fmt: skip
    assert outcomes(done) == expected
    assert outcomes(planned) == expected | {("dag", "daily"): "changed"}
    assert set(outcomes(again).values()) == {"unchanged", "left"}
    assert here("variables", "get", "region", "--reveal").stdout == "eu-west-1\n"
    sales = here.json("connections", "get", "sales", "--reveal")
    assert (sales["password"], sales["port"], sales["extra"]) == ("hunter2", 5432, {"sslmode": "require"})
    assert here.json("pools", "get", "etl")["slots"] == 3
    waiting = here.work(commands)
    assert [(row["dag_id"], row["verb"]) for row in waiting] == [("daily", "continue_schedule")]


LOOKS_UP = """
from airflow import DAG
from airflow.hooks.base import BaseHook
from airflow.models import Variable
from airflow.operators.empty import EmptyOperator

region, sales = Variable.get("region"), BaseHook.get_connection("sales")
with DAG(f"in_{region}_of_{sales.login}", schedule=None):
    EmptyOperator(task_id="a")
"""


def test_files_see_the_values_that_come_over_with_them(here: Cli, tmp_path: Path) -> None:
    url = make_airflow(tmp_path / "airflow.db", "3.3")
    (tmp_path / "dags" / "looks_up.py").write_text(LOOKS_UP)
    (tmp_path / "dags" / "lacks.py").write_text(LOOKS_UP.replace('"region"', '"nowhere"'))
    words = ("migrate", "airflow", "dags", "--database", url, "--fernet-key", KEY)

    def found(*options: str) -> dict[str, Any]:
        return {one["file"]: one for one in here.json(*words, *options, code=None)["files"]}

    for options in ([], ["--apply"]):
        files = found(*options)
        assert files["looks_up.py"]["dags"] == ["in_eu-west-1_of_me"]
        assert files["lacks.py"]["verdict"] == "needs a variable or connection"
        assert "There is no variable 'nowhere' here: --database reads it" in files["lacks.py"]["details"][-1]
    assert "in_eu-west-1_of_me" in str(here.json("dags", "list"))
    here("variables", "set", "region", "here")
    assert found()["looks_up.py"]["dags"] == ["in_here_of_me"]  # what is here is kept
    assert found("--overwrite")["looks_up.py"]["dags"] == ["in_eu-west-1_of_me"]


@pytest.mark.slow
def test_what_was_changed_here_is_kept_unless_it_may_be_overwritten(here: Cli, tmp_path: Path) -> None:
    url = make_airflow(tmp_path / "airflow.db", "2.11")
    words = ("migrate", "airflow", "dags", "--database", url, "--fernet-key", KEY, "--apply")
    here("variables", "set", "region", "us-east-1")
    here("pools", "set", "etl", "5")

    kept = outcomes(here.json(*words, code=1))

    assert (kept["variable", "region"], kept["pool", "etl"]) == ("kept", "kept")
    assert here("variables", "get", "region").stdout == "us-east-1\n"
    replaced = outcomes(here.json(*words, "--overwrite", code=1))
    assert (replaced["variable", "region"], replaced["pool", "etl"]) == ("changed", "changed")
    assert here("variables", "get", "region").stdout == "eu-west-1\n"


def test_secrets_that_no_key_decrypts_are_named_and_the_rest_comes_over(here: Cli, tmp_path: Path) -> None:
    url = make_airflow(tmp_path / "airflow.db", "2.11", key=new_key())

    found = here.json("migrate", "airflow", "dags", "--database", url, "--fernet-key", KEY, "--apply", code=1)

    by_name = {(step["kind"], step["name"]): step for step in found["steps"]}
    assert by_name["variable", "region"]["why"] == "no Fernet key that was given decrypts it (--fernet-key)"
    assert by_name["connection", "sales"]["outcome"] == "left"
    assert by_name["variable", "plain"]["outcome"] == "created"


@pytest.mark.slow
def test_the_key_and_its_predecessors_come_from_the_configuration(
    here: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = make_airflow(tmp_path / "airflow.db", "2.11")
    (tmp_path / "airflow.cfg").write_text(f"[core]\nfernet_key = {new_key()},{KEY}\n")

    in_file = here.json("migrate", "airflow", "dags", "--database", url, "--config", "airflow.cfg")
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", KEY)
    in_environment = here.json("migrate", "airflow", "dags", "--database", url)

    assert outcomes(in_file)["variable", "region"] == outcomes(in_environment)["variable", "region"] == "created"
    assert KEY not in str(in_file)


def test_a_dag_that_still_runs_in_airflow_is_left_there(here: Cli, tmp_path: Path) -> None:
    url = make_airflow(tmp_path / "airflow.db", "2.11")
    with rows_of(tmp_path / "airflow.db") as conn:
        conn.execute("UPDATE dag_run SET state = 'running'")

    found = here.json("migrate", "airflow", "dags", "--database", url, "--fernet-key", KEY, "--apply", code=1)

    (step,) = [step for step in found["steps"] if step["name"] == "daily"]
    assert step["outcome"] == "left"
    assert "1 run of it in Airflow are queued or running" in step["why"]
    assert here.work(commands) == []


def test_a_dag_that_airflows_scheduler_runs_stays_paused_until_it_is_handed_over(here: Cli, tmp_path: Path) -> None:
    url = make_airflow(tmp_path / "airflow.db", "2.11")
    with rows_of(tmp_path / "airflow.db") as conn:
        conn.execute("INSERT INTO job VALUES (1, 'SchedulerJob', 'running', datetime('now'))")
    words = ("migrate", "airflow", "dags", "--database", url, "--fernet-key", KEY, "--dag", "daily")

    first = here.json(*words, "--apply")
    (step,) = [step for step in first["steps"] if step["kind"] == "dag"]
    assert "then repeat this with --dag daily --unpause" in step["why"]
    assert '"unpause"' not in here.work(commands)[0]["args"]

    here.json(*words, "--unpause", "--apply")
    assert '"unpause": true' in here.work(commands)[1]["args"].replace('":true', '": true')


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:////nowhere/airflow.db", "cannot be read"),
        ("postgresql://me:hunter2@127.0.0.1:1/airflow", "cannot be read"),
        ("airflow", "write it as postgresql://"),
        ("sqlite:///empty.db", "has no table 'dag'"),
    ],
)
def test_an_address_that_leads_nowhere_is_explained_without_its_password(
    here: Cli, tmp_path: Path, url: str, message: str
) -> None:
    (tmp_path / "empty.db").touch()

    found = here("migrate", "airflow", "dags", "--database", url, code=None)

    assert found.exit_code not in (0, 1)
    assert message in found.stderr
    assert "hunter2" not in found.stderr


def test_files_settings_and_commands_are_reported(here: Cli, tmp_path: Path) -> None:
    (tmp_path / "dags" / "cloud.py").write_text("import airflow_dag_marker\n")
    (tmp_path / "dags" / "spark.py").write_text("import pyspark  # of an airflow dag\n")
    (tmp_path / "airflow.cfg").write_text(
        "[core]\nparallelism = 7\nexecutor = CeleryExecutor\ndag_concurrency = 5\nload_examples = True\n"
        "[scheduler]\nschedulr = 1\n[celery]\nbroker_url = redis://:hunter2@x\n"
    )

    found = here("migrate", "airflow", "dags", "--config", "airflow.cfg", "-o", "table")

    assert "some.py" in found.stdout
    assert "runs" in found.stdout
    assert "needs a package" in found.stdout
    assert "needs a module" in found.stdout
    assert "a command: Run: pip install pyspark (spark.py)" in found.stderr
    assert "cloud.py: Decide where airflow_dag_marker comes from" in found.stderr
    assert "install airflow_dag_marker" not in found.stdout + found.stderr
    assert "parallelism = 7  # for each scheduler\n" in found.stdout
    assert "max_active_tasks_per_dag = 5" in found.stdout
    assert '[executor]\nkind = "celery"' in found.stdout
    assert "[core] load_examples: not needed" in found.stderr
    assert "[scheduler] schedulr: unknown" in found.stderr
    assert "hunter2" not in found.stdout + found.stderr


def test_a_project_of_containers_has_its_settings_in_variables(
    here: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Dockerfile").write_text("FROM apache/airflow:2.10.5\n")
    (tmp_path / ".env-base").write_text(
        "AIRFLOW__CORE__PARALLELISM=6 # CPUs\nAIRFLOW__SCHEDULER__CREATE_CRON_DATA_INTERVALS=False\n"
        "AIRFLOW__CORE__LOAD_EXAMPLES=False\n"
    )
    (tmp_path / "compose.yaml").write_text("environment:\n  AIRFLOW__SCHEDULER__CATCHUP_BY_DEFAULT: 'false'\n")

    unread = {one["text"]: one["about"] for one in here.json("migrate", "airflow", "dags")["todo"]}
    monkeypatch.setenv("AIRFLOW__CORE__PARALLELISM", "6")
    monkeypatch.setenv("AIRFLOW__SCHEDULER__CREATE_CRON_DATA_INTERVALS", "False")
    monkeypatch.setenv("AIRFLOW__SCHEDULER__CATCHUP_BY_DEFAULT", "false")
    found = here.json("migrate", "airflow", "dags")

    start_again = "Start this command again with the settings of {} in its environment: no airflow.cfg has them."
    assert unread[start_again.format(".env-base")] == [
        "AIRFLOW__CORE__PARALLELISM", "AIRFLOW__SCHEDULER__CREATE_CRON_DATA_INTERVALS",
    ]  # fmt: skip
    assert unread[start_again.format("compose.yaml")] == ["AIRFLOW__SCHEDULER__CATCHUP_BY_DEFAULT"]
    assert not any("Start this command again" in one["text"] for one in found["todo"])
    settings = {line["key"]: line["value"] for line in found["settings"]}
    assert settings["core.parallelism"] == 6
    assert [one["what"] for one in found["differences"]] == ["[scheduler] create_cron_data_intervals = False"]


NO_START = "from airflow.decorators import dag\n@dag()\ndef first(): ...\nfirst()\n"


@pytest.mark.parametrize(
    ("cfg", "defaults", "files"),
    [
        ("[api]\nport = 1\n[dag_processor]\nrefresh_interval = 9\n", "3", {"first.py": "runs", "old.py": "runs"}),
        ("[webserver]\nrbac = True\n", "2", {"some.py": "runs"}),
        ("[webserver]\nrbac = True\n[core]\ndag_ignore_file_syntax = glob\n", "2", {"old.py": "runs"}),
    ],
)
def test_files_are_found_and_read_as_in_the_airflow_of_the_project(
    here: Cli, tmp_path: Path, cfg: str, defaults: str, files: dict[str, str]
) -> None:
    (tmp_path / "airflow.cfg").write_text(cfg)
    (tmp_path / "dags" / "first.py").write_text(NO_START)
    (tmp_path / "dags" / "old.py").write_text(DAG.replace('"daily", "broken", "other"', '"old",'))
    (tmp_path / "dags" / ".airflowignore").write_text("ol\nfirst\n" if defaults == "2" else "some.py\n")

    found = here.json("migrate", "airflow", "dags")

    assert {one["file"]: one["verdict"] for one in found["files"]}.items() >= files.items()
    assert ("old.py" in files) == ("old.py" in [one["file"] for one in found["files"]])
    settings = {line["key"]: line["value"] for line in found["settings"]}
    assert settings["core.airflow_defaults"] == defaults
    assert settings["core.dag_ignore_file_syntax"] == ("glob" if "old.py" in files else "regexp")


def test_what_is_set_here_counts_before_what_the_report_proposes(
    here: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOSCHED__CORE__DAG_IGNORE_FILE_SYNTAX", "glob")
    (tmp_path / "airflow.cfg").write_text(f"[webserver]\nrbac = True\n[core]\nplugins_folder = {tmp_path}/none\n")
    (tmp_path / "dags" / ".airflowignore").write_text("som")

    found = here.json("migrate", "airflow", "dags", "--config", "airflow.cfg")

    assert [one["file"] for one in found["files"]] == ["some.py"]


def test_the_report_is_a_page_and_data_in_the_order_of_effort(here: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "dags"
    (folder / "<b>.py").write_text("import acme_private  # of an airflow dag\n")
    (folder / "code.py").write_text("raise ValueError('<script>')  # of an airflow dag\n")
    (folder / "spark.py").write_text("import pyspark  # of an airflow dag\n")
    (folder / "airflow_local_settings.py").write_text("def pod_mutation_hook(pod): ...\n")
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "hb_views.py").write_text(
        "from airflow.plugins_manager import AirflowPlugin\n"
        "class Views(AirflowPlugin):\n    name = 'views'\n    appbuilder_views = [1]\n"
    )
    (tmp_path / "airflow.cfg").write_text(
        "[core]\nxcom_backend = acme.XCom\nparallelism = many\n[acme]\nsecret = 1\n[webserver]\nrbac = True\n"
    )

    found = here.json("migrate", "airflow", "dags", "--html", "report.html")

    assert found["generation"]["number"] == 2
    efforts = [one["effort"] for one in found["todo"]]
    assert efforts == ["a command", "a command", "a setting", "a decision", "a decision", "a change of code"]
    assert {one["command"] for one in found["todo"]} == {"pip install pyspark", None}
    assert {one["about"][0] for one in found["todo"] if one["about"]} >= {"<b>.py", "code.py", "spark.py", "broken"}
    assert [one["dag_id"] for one in found["caught_up"]] == ["broken", "daily", "other"]
    different = " ".join(f"{one['what']} {one['why']}" for one in found["differences"])
    for words in (
        "[core] xcom_backend = acme.XCom",
        "pod_mutation_hook",
        "appbuilder_views of plugin 'views'",
        "[acme]",
    ):
        assert words in different
    page = (tmp_path / "report.html").read_text()
    for words in (
        "To do, in the order of effort",
        "&lt;b&gt;.py",
        "&lt;script&gt;",
        "acme_private",
        "airflow_defaults",
    ):
        assert words in page
    assert "<script>" not in page
    assert "pip install acme_private" not in page


def test_a_page_that_cannot_be_written_is_named(here: Cli) -> None:
    found = here("migrate", "airflow", "dags", "--html", "nowhere/report.html", code=2)

    assert "nowhere/report.html cannot be written: No such file" in found.stderr


def test_a_project_that_tells_no_generation_is_asked_for_it(here: Cli) -> None:
    found = here("migrate", "airflow", "dags", "-o", "table")

    assert "a setting: Set core.airflow_defaults to 2 or 3" in found.stderr
