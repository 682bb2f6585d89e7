"""`aiosched airflow …`: every command of Airflow 1.10, 2 and 3 is answered or refused, without a database."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from aiosched.cli.airflow import actions
from aiosched.cli.airflow.answers import RefusedCall, answer_of, modern, translate
from aiosched.cli.airflow.commands import COLUMNS, TABLE, Unreadable, command_of, forms, read
from aiosched.cli.airflow.shown import projected, show
from aiosched.cli.app import Root
from aiosched.cli.lazy import command_of as ours_in
from tests.cli.conftest import Cli
from tools.airflow_commands import rows

DAG = """
from datetime import datetime
from airflow import DAG
from airflow.operators.python import PythonOperator

def say(prev_ds, ds, run_id, dag_run, params):
    print("VALUES", prev_ds, ds, run_id, dag_run.run_type, dag_run.external_trigger, params.get("x"))

options = {"schedule_interval": "@daily", "params": {"x": 1}, "default_args": {"owner": "team"}}
with DAG("etl", start_date=datetime(2024, 1, 1), **options) as dag:
    first = PythonOperator(task_id="first", python_callable=say)
    second = PythonOperator(task_id="second", python_callable=say)
    first >> [second, PythonOperator(task_id="third", python_callable=say)]
"""


@pytest.fixture
def dags(tmp_path: Path) -> Path:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "etl.py").write_text(DAG)
    return tmp_path / "dags"


# ---- the tables ----


@pytest.mark.parametrize("command", forms())
def test_every_command_of_airflow_is_answered_or_refused(command: str) -> None:
    _, answer = answer_of(command)

    assert sum(map(bool, (answer.do, answer.by, answer.instead, answer.modes))) == 1
    assert not answer.by or callable(getattr(actions, answer.by))
    for form in forms()[command] if not (answer.instead or answer.modes) else ():
        for argument in form.arguments:
            if argument.flags:
                meaning = answer.meaning(argument.name)
                assert meaning is not None, argument
                assert meaning != "@" or answer.by or argument.name in {"output", "columns"}, argument
            elif answer.do:
                assert argument.name.replace("-", "_") in answer.do.replace("-", "_"), argument


@pytest.mark.parametrize("command", [name for name in forms() if answer_of(name)[1].do])
def test_what_is_done_is_a_command_of_ours_with_these_options(command: str) -> None:
    answer = answer_of(command)[1]
    found, words = None, [word for word in answer.do.split() if not word.startswith("{")]
    found = ours_in(Root.entries[words.pop(0)].module)
    while words and hasattr(found, "commands"):
        found = found.commands[words.pop(0)]
    known = {flag for parameter in found.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    known |= set(getattr(found, "spelled", ())) | ({"--hostname"} if command.endswith("worker") else set())
    given = [*words, *(one for one in answer.options.values() if one.startswith("--"))]
    if "folder" in answer.options.values():
        given.append("--dags")

    assert {one.partition("=")[0] for one in given if one.startswith("--")} <= known


def test_no_answer_is_for_a_command_that_airflow_does_not_have() -> None:
    reached = {answer_of(command)[0] for command in forms()}
    reached |= {name for command in forms() for name in answer_of(command)[1].modes.values()}

    assert reached <= forms().keys() | {"db migrate"}
    assert all(command in forms() for command in ("dags trigger", "trigger_dag", "api-server", "fab-db migrate"))


def test_the_table_is_read_from_wheels(tmp_path: Path) -> None:
    old = tmp_path / "apache_airflow-1.10.15-py2.py3-none-any.whl"
    with zipfile.ZipFile(old, "w") as archive:
        archive.writestr(
            "airflow/bin/cli.py",
            "ARG_ID = Arg(('dag_id',), 'help')\n"
            "DAGS = (ActionCommand(name='list', args=(ARG_ID,)),)\n"
            "airflow_commands = [GroupCommand(name='dags', subcommands=DAGS)]\n"
            "class CLIFactory(object):\n"
            "    args = {'yes': Arg(('-y', '--yes'), 'help', 'store_true'), 'd': Arg(('-sd', '--sub_dir'))}\n"
            "    subparsers = ({'func': initdb, 'args': ('yes', 'd')},)\n",
        )
    new = tmp_path / "apache_airflow_core-3.3.2-py3-none-any.whl"
    with zipfile.ZipFile(new, "w") as archive:
        archive.writestr(
            "airflow/cli/cli_config.py",
            "ARG_ID = Arg(('dag_id',), help='x')\n"
            "ARG_N = Arg(('-n', '--num'), nargs='*', required=True)\n"
            "core_commands: list = [GroupCommand(name='dags', subcommands=("
            "ActionCommand(name='list', args=(ARG_ID,)), ActionCommand(name='n', args=(*[ARG_N], ARG_ID))))]\n",
        )

    assert rows([new, old]) == [
        ("dags list", "1 3", "dag_id"),
        ("dags n", "3", "-n/--num=*! dag_id"),
        ("initdb", "1", "-y/--yes -sd/--sub_dir="),
    ]
    assert TABLE.read_text().splitlines()[0].split("\t") == list(COLUMNS)


# ---- words ----


def _ours(line: str) -> list[str]:
    command, rest = command_of(line.split())
    assert command is not None
    call, answer = read(command, rest), answer_of(command)[1]
    if answer.modes:
        call = modern(call, answer)
        answer = answer_of(call.command)[1]
    return translate(call, answer).words


@pytest.mark.parametrize(
    ("airflow", "ours"),
    [
        (
            "dags trigger d -e 2024-01-01 -r mine",
            "dags trigger --even-paused --run-id=mine --logical-date=2024-01-01 -- d",
        ),
        ("dags trigger -l 2024-01-01 d", "dags trigger --even-paused --logical-date=2024-01-01 -- d"),
        ("trigger_dag d --exec_date 2024-01-01", "dags trigger --even-paused --logical-date=2024-01-01 -- d"),
        (
            "tasks clear d -t ^a -s 2024-01-01 -f -y",
            "tasks clear --pattern=^a --from=2024-01-01 --yes --only-failed -- d",
        ),
        ("clear d -c -xp", "tasks clear --yes -- d"),
        ("backfill d -s 1 -e 2 --reset_dagruns", "dags backfill --start-date=1 --end-date=2 --reset-dagruns -- d"),
        ("test d t 2024-01-01", "tasks test -- d t 2024-01-01"),
        ("tasks test d t", "tasks test -- d t"),
        ("pools set p -1 text", "pools set -- p -1 text"),
        ("pool -s p 3 text", "pools set -- p 3 text"),
        ("pool -x p", "pools delete --yes -- p"),
        ("variables -s k v", "variables set -- k v"),
        ("variables --get k -d x", "variables get --reveal --default=x -- k"),
        ("variables", "variables list"),
        ("variables import v.json -a skip", "variables import --existing=skip -- v.json"),
        ("connections -a --conn_id c --conn_uri http://h", "connections add --uri=http://h -- c"),
        ("connections -d --conn_id c", "connections delete --yes -- c"),
        ("connections import f --overwrite", "connections import --existing=skip --existing=overwrite -- f"),
        ("db upgrade --show-sql-only", "db migrate --sql"),
        ("initdb", "db migrate"),
        ("webserver -p 8081 -hn 0.0.0.0", "serve --role web --port=8081 --host=0.0.0.0"),
        ("api-server --port 8081 -H 0.0.0.0", "serve --role web --port=8081 --host=0.0.0.0"),
        ("scheduler -r 60", "serve --no-web --run-duration=60"),
        ("dag-processor", "serve --role parser"),
        ("celery worker -q a,b -c 4", "celery worker --queues=a,b --slots=4"),
        ("worker -cn w1", "celery worker --hostname=w1"),
        ("backfill create --dag-id d --from-date 1 --to-date 2", "backfill create --from-date=1 --to-date=2 -- d"),
        ("dags clear d --run-id r -y", "runs clear --yes -- d r"),
    ],
)
def test_words_of_three_generations_are_ours(airflow: str, ours: str) -> None:
    found = _ours(airflow)
    head, _, tail = ours.partition(" -- ")

    assert sorted(found[: found.index("--")] if "--" in found else found) == sorted(head.split())
    assert (found[found.index("--") + 1 :] if "--" in found else []) == tail.split()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("scheduler -D", "airflow scheduler --daemon: aiosched starts no daemons"),
        ("scheduler --num-runs 1", "--num-runs: it does not poll in loops"),
        ("webserver --ssl-cert x", "--ssl-cert: let a proxy"),
        ("dags pause d --treat-dag-id-as-regex", "give a pattern with * and ?"),
        ("variables -s k v -x k", "--set and --delete exclude each other"),
    ],
)
def test_what_would_mean_something_else_here_is_refused(line: str, said: str) -> None:
    with pytest.raises(RefusedCall) as refused:
        _ours(line)

    assert said in str(refused.value)


@pytest.mark.parametrize(
    "line", ["dags trigger", "dags trigger d --bogus", "dags list extra words", "pool -s p 3", "users create -u a"]
)
def test_what_airflow_does_not_read_is_not_read(line: str) -> None:
    with pytest.raises(Unreadable):
        _ours(line)


def test_an_option_without_effect_is_a_warning() -> None:
    call = read("webserver", ["-w", "4", "-k", "gevent"])

    assert [warning.partition(":")[0] for warning in translate(call, answer_of("webserver")[1]).warnings] == [
        "--workers has no effect", "--workerclass has no effect",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, ""),
        (("--help",), 0, ""),
        (("dags",), 2, ""),
        (("dags", "trgger"), 2, "airflow dags trgger: no such command. Did you mean trigger?"),
        (("shedule",), 2, "airflow shedule: no such command"),
        (("dags", "trigger", "--help"), 0, ""),
        (("kerberos",), 2, "`airflow kerberos` is not answered by aiosched: run `kinit -R`"),
        (("sync-perm",), 0, "sync-perm: permissions follow from roles"),
        (("dags", "list", "-o", "xml"), 2, "-o xml: there are table, json, yaml, plain"),
        (("dags", "list", "-v"), 1, "warning: --verbose has no effect"),  # there is no DAGs folder
        (("tasks", "test", "d", "t", "--env-vars", "[]"), 2, "--env-vars must be a JSON object"),
        (("dags", "test", "nowhere"), 2, "There is no DAGs folder"),
    ],
)
def test_exit_codes_are_those_of_airflow(cli: Cli, words: tuple[str, ...], code: int, said: str) -> None:
    result = cli("airflow", *words, code=None)

    assert said in result.stderr
    assert result.exit_code == code


def test_settings_of_airflow_are_not_left_out_silently(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql+psycopg2://db/airflow")

    assert "not read here (AIRFLOW__DATABASE__SQL_ALCHEMY_CONN)" in cli("airflow", "db", "check").stderr


# ---- DAG files ----


def test_dags_and_tasks_come_from_the_files_while_nothing_keeps_a_database(cli: Cli, dags: Path) -> None:
    listed = json.loads(cli("airflow", "dags", "list", "-o", "json").stdout)
    tree = cli("airflow", "tasks", "list", "etl", "--tree").stdout

    assert listed == [{"dag_id": "etl", "fileloc": str(dags / "etl.py"), "owners": "team", "is_paused": None}]
    assert tree.splitlines() == [
        "<Task(PythonOperator): first>",
        "    <Task(PythonOperator): second>",
        "    <Task(PythonOperator): third>",
    ]
    assert cli("airflow", "list_tasks", "etl", "-sd", "dags").stdout.split() == ["first", "second", "third"]
    assert '"first" -> "second"' in cli("airflow", "dags", "show", "etl").stdout
    assert cli("airflow", "dags", "list-import-errors").stdout == "No data found\n"


def test_import_errors_are_listed_with_exit_code_1(cli: Cli, dags: Path) -> None:
    (dags / "broken.py").write_text("from airflow import DAG\nimport nowhere_to_be_found\n")

    (row,) = json.loads(cli("airflow", "dags", "list-import-errors", "-o", "json", code=1).stdout)

    assert row["filepath"] == str(dags / "broken.py")
    assert "No module named 'nowhere_to_be_found'" in row["error"]
    assert "some files cannot be read" in cli("airflow", "list_dags").stderr


@pytest.mark.parametrize(
    "words",
    ["tasks test etl first 2024-01-05", "dags test etl 2024-01-05 -S dags/etl.py", "test etl second 2024-01-05"],
)
def test_a_test_run_has_the_values_of_airflow(cli: Cli, dags: Path, words: str) -> None:
    said = cli("airflow", *words.split()).stderr

    assert "VALUES 2024-01-04 2024-01-05 manual__2024-01-05T00:00:00+00:00 manual False 1" in said


def test_params_and_variables_of_the_environment_reach_a_tested_task(
    cli: Cli, dags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOO", "before")
    words = ("-t", '{"x": 5}', "--env-vars", '{"FOO": "bar"}')

    assert " 5\n" in cli("airflow", "tasks", "test", "etl", "first", "2024-01-05", *words).stderr
    assert os.environ["FOO"] == "bar"


# ---- output ----

ROWS = [{"name": "a", "on": True, "tags": ["x", "y"], "at": "2024-01-05T00:00:00Z", "conf": {"n": 1}}]
COLUMNS_OF_ROWS = "id=name is_on=on tags at none="


TABLE_OF_ROWS = """\
id | is_on | tags | at                        | none
===+=======+======+===========================+=====
a  | True  | x,y  | 2024-01-05T00:00:00+00:00 | None
"""
PLAIN = """\
id  is_on  tags  at                         none
a   True   x,y   2024-01-05T00:00:00+00:00  None
"""
JSON = '[{"id": "a", "is_on": "True", "tags": ["x", "y"], "at": "2024-01-05T00:00:00+00:00", "none": null}]\n'


@pytest.mark.parametrize(("output", "text"), [(None, TABLE_OF_ROWS), ("plain", PLAIN), ("json", JSON)])
def test_rows_are_shown_as_airflow_does(capsys: pytest.CaptureFixture[str], output: str | None, text: str) -> None:
    show(projected(ROWS, COLUMNS_OF_ROWS), output)

    assert capsys.readouterr().out == text


def test_columns_can_be_chosen() -> None:
    assert projected(ROWS, COLUMNS_OF_ROWS, ["conf", "id", "unknown"], "conf") == [{"conf": {"n": 1}, "id": "a"}]


# ---- the program ----


def test_the_program_is_made_and_removed(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "bin" / "airflow"
    file.parent.mkdir()

    made = cli("airflow", "install-command", "bin")
    again = cli("airflow", "install-command", "bin")
    said = subprocess.run([file, "version"], capture_output=True, text=True, check=True).stdout

    assert made.stdout == again.stdout == f"{file}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o755
    assert said == cli("version", "--short").stdout
    cli("airflow", "install-command", "--remove", "bin")
    assert not file.exists()


def test_a_program_of_others_stays(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "airflow").write_text("#!/bin/sh\n")

    for words in ((".",), ("--remove", ".")):
        assert "is another program, which stays" in cli("airflow", "install-command", *words, code=4).stderr
    assert "cannot be made: No such file" in cli("airflow", "install-command", "nowhere", code=4).stderr
    assert "there are only --remove" in cli("airflow", "install-command", "--force", code=2).stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_service_that_is_not_needed_waits_to_be_stopped(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "aiosched", "airflow", "triggerer", "--capacity", "10"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = [process.stderr.readline() for _ in range(2)]
        process.send_signal(number)

        assert process.wait(timeout=60) == 0
    assert "--capacity has no effect" in said[0]
    assert "there is no triggerer to start" in said[1]
