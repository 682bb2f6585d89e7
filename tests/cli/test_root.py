"""The root command: fast help, names and aliases, one line for an error, exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aiosched.cli.app import Root
from aiosched.cli.suggestions import MEANT
from aiosched.errors import DatabaseUnreachable
from tests.cli.conftest import Cli

HEAVY = ("sqlalchemy", "asyncpg", "pydantic", "msgspec", "rich", "alembic", "jinja2", "croniter", "pendulum", "uvloop")


def aiosched(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The real thing, in a process of its own."""
    command = [sys.executable, "-m", "aiosched", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def test_help_imports_nothing_heavy_and_no_command() -> None:
    script = (
        "import sys\nfrom aiosched.cli import main\n"
        "try:\n    main(['--help'])\n"
        "except SystemExit:\n    print('\\n'.join(sys.modules), file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    modules = done.stderr.splitlines()
    assert [name for name in modules if name.partition(".")[0] in HEAVY] == []
    ours = {name for name in modules if name.startswith("aiosched")}
    assert ours == {
        "aiosched",
        "aiosched.cli",
        "aiosched.cli.app",
        "aiosched.cli.lazy",
        "aiosched.cli.streams",
        "aiosched.errors",
        "aiosched.lazy",
        "aiosched.logs",
        "aiosched.version",
    }
    assert "Usage: aiosched" in done.stdout


@pytest.mark.parametrize(
    ("handler", "code"), [("default_int_handler", -signal.SIGINT), ("SIG_IGN", 0)], ids=["terminal", "background"]
)
def test_ctrl_c_during_the_imports_says_nothing(handler: str, code: int) -> None:
    script = (
        "import os, signal, sys\nfrom aiosched.cli import main\n"
        f"signal.signal(signal.SIGINT, signal.{handler})\n"
        "class Pressed:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'aiosched.cli.app': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Pressed)\n"
        "main(['--version'])"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize("name", [name for name, entry in Root.entries.items() if not entry.hidden])
def test_every_command_of_the_help_exists_and_explains_itself(cli: Cli, name: str) -> None:
    assert f"\n  {name} " in cli("--help").stdout
    assert f"Usage: aiosched {name}" in cli(name, "--help").stdout


@pytest.mark.parametrize(
    ("alias", "shown"),
    [
        (("dag", "list", "--help"), "List DAGs with their state"),
        (("run", "show", "--help"), "Show a run and its task instances"),
        (("task", "logs", "--help"), "Show the log of a task instance"),
        (("pool", "set", "--help"), "Create or change a pool"),
        (("scheduler", "list", "--help"), "List schedulers"),
        (("scheduler", "check", "--help"), "Exit 0 if a scheduler is alive"),
        (("scheduler", "--help"), "Usage: aiosched scheduler [OPTIONS]"),
        (("standalone", "--help"), "Usage: aiosched standalone [OPTIONS]"),
        (("jobs", "check", "--help"), "Exit 0 if a scheduler is alive"),
        (("db", "upgrade", "--help"), "Migrate the tables"),
        (("dags", "list-runs", "--help"), "Airflow's spelling of `runs`"),
        (("dags", "list-import-errors", "--help"), "Show the import errors"),
        (("dags", "next-execution", "--help"), "Show the next data intervals"),
        (("dags", "details", "--help"), "Show a DAG"),
        (("tasks", "states-for-dag-run", "--help"), "Airflow's spelling of `runs show`"),
        (("config", "get-value", "--help"), "Airflow's spelling of `get`"),
    ],
)
def test_singular_nouns_and_airflow_spellings_work_and_are_hidden(cli: Cli, alias: tuple[str, ...], shown: str) -> None:
    assert shown in cli(*alias).stdout
    assert f"\n  {alias[0]} " not in cli("--help").stdout or alias[0] in ("db", "dags", "tasks", "config")


def test_an_alias_of_a_noun_is_not_in_its_help(cli: Cli) -> None:
    assert "list-runs" not in cli("dags", "--help").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("dgas",), "No such command 'dgas'. Did you mean 'dags'?"),
        (("dags", "lsit"), "No such command 'lsit'. Did you mean 'list'?"),
        (("dags", "show"), "Missing argument 'DAG'"),
        (("dags", "list", "--dns", "x"), "No such option: --dns"),
        (("pools", "set", "etl", "many"), "Invalid value for 'SLOTS'"),
        (("dags", "list", "-o", "xml"), "Invalid value for '--output'"),
        (("dags", "list", "-o", "jsn"), "Did you mean json?"),
        (("runs", "list", "--state", "faild"), "'failed'. Did you mean failed?"),
        (("tasks", "mark", "d", "r", "t", "sucess"), "Did you mean success?"),
        (
            ("backfill", "create", "d", "--from", "2026-01-01", "--to", "2026-01-01", "--rerun", "mising"),
            "mean missing?",
        ),
        (("trigger",), "No such command 'trigger'. Did you mean 'dags trigger'?"),
        (("trigger", "sales"), "Did you mean 'dags trigger'?"),
        (("tirgger", "sales"), "Did you mean 'dags trigger'?"),
        (("clear", "sales"), "Did you mean 'runs clear' or 'tasks clear'?"),
        (("tasks", "run", "sales", "load"), "No such command 'run'. Did you mean 'tasks test'?"),
        (("tasks", "state"), "Did you mean 'tasks show'?"),
        (("dags", "state"), "Did you mean 'runs show'?"),
        (("task", "failed-deps"), "Did you mean 'why'?"),
        (("dags", "cancel", "sales"), "Did you mean 'runs cancel' or 'backfill cancel'?"),
        (("pools", "unpause"), "Did you mean 'dags unpause'?"),
        (("runs", "list", "--ownre", "x"), "Possible options: --owner"),
        (("backfill", "create", "-s", "2026-01-01", "x"), "Possible options: --from"),  # in Airflow
        (("runs", "list", "--end-date", "2026-01-01"), "Possible options: --until"),
        (("dags", "trigger"), "Usage: aiosched dags trigger [OPTIONS]"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_says_what_was_meant(cli: Cli, words: tuple[str, ...], said: str) -> None:
    result = cli(*words, code=2)

    assert said in result.stderr
    assert result.stdout == ""


def test_nothing_typed_shows_the_help(cli: Cli) -> None:
    assert "Usage: aiosched" in cli(code=2).output


def test_an_error_is_one_line_on_stderr_and_its_exit_code(tmp_path: Path) -> None:
    done = aiosched("dags", "list", AIOSCHED_HOME=str(tmp_path))

    assert done.returncode == 5
    assert done.stdout == ""
    assert done.stderr.startswith("error: There is no database")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("option", [("--debug",), ()])
def test_debug_shows_the_traceback(tmp_path: Path, option: tuple[str, ...]) -> None:
    done = aiosched(*option, "dags", "list", AIOSCHED_HOME=str(tmp_path), AIOSCHED_DEBUG="" if option else "1")

    assert done.returncode == 5
    assert "Traceback (most recent call last)" in done.stderr


@pytest.mark.parametrize(
    ("errors", "code"),
    [((DatabaseUnreachable("gone"),), 5), ((DatabaseUnreachable("gone"), ValueError("a bug")), None)],
)
def test_an_error_of_a_task_group_counts_when_all_of_it_is_ours(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, errors: tuple[Exception, ...], code: int | None
) -> None:
    def broken(_: str) -> str:
        raise ExceptionGroup("unhandled errors in a TaskGroup", errors)

    monkeypatch.setattr("aiosched.cli.operation.version.version_of", broken)

    if code is None:
        with pytest.raises(ExceptionGroup):
            cli("version")
    else:
        assert cli("version", code=code).stderr == "error: gone\n"


def test_a_wrong_setting_is_exit_code_2() -> None:
    done = aiosched("config", "list", AIOSCHED__CORE__PARALELISM="3")

    assert done.returncode == 2
    assert done.stderr == (
        "error: The environment sets AIOSCHED__CORE__PARALELISM, which does not exist. "
        "Did you mean AIOSCHED__CORE__PARALLELISM?\n"
    )


def test_a_reader_that_stops_reading_is_no_error() -> None:
    command = f"{sys.executable} -m aiosched config list | head -1"

    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602

    assert done.stdout == "core.dags_folder\tdags\n"
    assert done.stderr == ""


def test_the_version_is_told_in_two_ways(cli: Cli) -> None:
    assert cli("--version").stdout.startswith("aiosched 0.")
    assert cli.json("version").keys() >= {"aiosched", "python", "asyncpg"}


def test_completion_knows_the_commands(tmp_path: Path) -> None:
    done = aiosched(_AIOSCHED_COMPLETE="complete_bash", COMP_WORDS="aiosched dags sh", COMP_CWORD="2")

    assert done.stdout.split() == ["show"]


@pytest.mark.parametrize(
    "words", [("dags", "delete", "--owner", "x"), ("dags", "show", "--limit", "1"), ("dags", "show", "--tag")]
)
def test_an_option_that_is_not_near_is_not_suggested(cli: Cli, words: tuple[str, ...]) -> None:
    said = cli(*words, code=2).stderr

    assert "No such option" in said
    assert "Possible" not in said
    assert "Did you mean" not in said


def test_each_command_that_is_suggested_exists(cli: Cli) -> None:
    for command in MEANT.values():
        assert "Usage" in cli(*command.split(), "--help").stdout
