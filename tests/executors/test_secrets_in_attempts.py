"""What attempts read of variables and connections, and that their logs and reports hide what is secret."""

from __future__ import annotations

import io
import json
import logging
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aiosched import DAG, BashOperator, Connection, Variable, task
from aiosched.core.values.masking import secrets
from aiosched.core.values.messages import Attempt, Outcome, Report
from aiosched.core.values.states import RunState
from aiosched.executors.attempt.logs import AttemptLog
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import FakeServices, Reports, StartLocal, attempt, write_dag

pytestmark = pytest.mark.usefixtures("no_secrets")

IMPORTS = "from aiosched import BashOperator, Connection, Variable"


@dataclass
class Stored(FakeServices):
    """A scheduler that knows a secret variable, a plain one, and a connection."""

    values: dict[str, Any] = field(
        default_factory=lambda: {
            "api_key": "sk-live-1",
            "region": "eu-west-1",
            "sales": {"conn_type": "postgres", "host": "db", "password": "hunter2"},
        }
    )

    async def call(self, run: int, name: str, args: str) -> str:
        asked = json.loads(args)
        if "set" in asked:
            self.values[asked["set"]] = asked["value"]
        return json.dumps({"value": self.values.get(asked.get("get"))})


@pytest.fixture
def services() -> Stored:
    return Stored()


def value(report: Report) -> Any:
    assert report.outcome is Outcome.SUCCESS, report.reason
    return json.loads(report.xcoms[0].value)


async def test_tasks_in_workers_read_and_write_secrets_as_plain_and_as_async_functions(
    start_local: StartLocal, dags_folder: Path, reports: Reports, services: Stored
) -> None:
    body = f"""
    {IMPORTS}
    def plain():
        Variable.set("cursor", "7")
        return [Variable.get("region"), Connection.get("sales").password]
    async def later():
        return [await Variable.aget("region"), (await Connection.aget("sales")).password]
    task(plain), task(later)
    def echo(x): return x
    async def aecho(x): return x
    task(echo, op_args=["{{{{ var.value.region }}}}-{{{{ conn.sales.host }}}}"])
    task(aecho, op_args=["{{{{ var.value.region }}}}-{{{{ conn.sales.host }}}}"])
    """
    write_dag(dags_folder, body)
    executor = await start_local()
    attempts = [
        attempt(name, is_async=name[0] in "la", number=n) for n, name in enumerate(("plain", "later", "echo", "aecho"))
    ]

    executor.submit(attempts)

    found = [value(await reports.of(one)) for one in attempts]
    assert found == [["eu-west-1", "hunter2"], ["eu-west-1", "hunter2"], "eu-west-1-db", "eu-west-1-db"]
    assert services.values["cursor"] == "7"


LEAKS = f"""
{IMPORTS}
def say(password):
    print("printed", password)
    print("in pieces ", end=""); print(password[:3], end=""); print(password[3:])
    logging.getLogger("any").warning("logged %s", password)
    task_log.info("logged %s", password)
    os.write(1, b"written " + password.encode() + bytes([10]))
    subprocess.run(["echo", "child", password], check=True)
    subprocess.run(["echo", "given", password], check=True, stdout=sys.stdout)
    print("x" * 70000 + password, end="")
    try:
        raise KeyError(password)
    except KeyError as error:
        raise ValueError("cannot log in with " + password) from error
task_log = logging.getLogger("aiosched.task")
def plain(): say(Connection.get("sales").password)
async def later(): say((await Connection.aget("sales")).password)
task(plain), task(later)
"""


@pytest.mark.parametrize("name", ["plain", "later"])
async def test_no_secret_is_left_in_the_log_or_the_report_of_an_attempt_in_a_worker(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports, name: str
) -> None:
    write_dag(dags_folder, LEAKS)
    one = attempt(name, is_async=name == "later")
    executor = await start_local()

    executor.submit([one])

    report = await reports.of(one)
    log = log_path(logs_folder, one).read_text()
    assert report.reason == "ValueError: cannot log in with ***"
    assert report.details is not None
    assert "KeyError: '***'" in report.details
    assert "hunter2" not in report.details + log
    said = ["printed ***", "in pieces ***", "logged ***", "given ***", "cannot log in with ***"]
    said += ["written ***", "child ***"] if name == "plain" else []
    assert [words for words in said if words not in log] == []


async def test_the_output_of_a_command_hides_what_its_template_read(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    body = f"""
    {IMPORTS}
    BashOperator(task_id="curl", bash_command="echo -H {{{{ var.value.api_key }}}} {{{{ var.value.region }}}}; exit 3")
    """
    write_dag(dags_folder, body)
    one = attempt("curl")
    executor = await start_local()

    executor.submit([one])

    report = await reports.of(one)
    log = log_path(logs_folder, one).read_text()
    assert report.outcome is Outcome.FAILED
    assert "sk-live-1" not in f"{log}{report.reason}{report.details}"
    assert "-H *** eu-west-1" in log


@pytest.mark.parametrize("name", ["plain", "later"])
async def test_tasks_do_not_have_the_keys(
    start_local: StartLocal, dags_folder: Path, reports: Reports, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("AIOSCHED__SECRETS__FERNET_KEYS", "the-keys")
    monkeypatch.setenv("AIOSCHED_VAR_REGION", "eu-west-1")
    body = """
    def seen(): return [name for name, value in os.environ.items() if value in ("the-keys", "eu-west-1")]
    def plain(): return seen()
    async def later(): return seen()
    task(plain), task(later)
    """
    write_dag(dags_folder, body)
    executor = await start_local()
    one = attempt(name, is_async=name == "later")

    executor.submit([one])

    assert value(await reports.of(one)) == ["AIOSCHED_VAR_REGION"]


# ---- dag.test() ----


async def test_a_dag_test_reads_the_environment_and_remembers_what_it_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOSCHED_VAR_REGION", "eu-west-1")
    monkeypatch.setenv("AIOSCHED_CONN_SALES", "postgres://user:hunter2@db")
    with DAG("d", schedule=None) as dag:

        @task
        def first() -> str:
            Variable.set("cursor", "7")
            return f"{Variable.get('region')} {Connection.get('sales').login} {Variable.get('other', 'default')}"

        @task
        async def second() -> str:
            return str(await Variable.aget("cursor"))

        BashOperator(task_id="third", bash_command="echo {{ conn.sales.host }} {{ var.value.get('x', 'y') }}")
        first() >> second()

    run = await dag.test()

    assert run.state is RunState.SUCCESS
    assert [run.xcoms[name]["return_value"] for name in ("first", "second", "third")] == [
        "eu-west-1 user default", "7", "db y",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "variable"),
    [("{{ var.value.region }}", "AIOSCHED_VAR_REGION"), ("{{ conn.sales.host }}", "AIOSCHED_CONN_SALES")],
)
async def test_a_dag_test_without_the_variable_names_it(code: str, variable: str) -> None:
    with DAG("d", schedule=None) as dag:
        BashOperator(task_id="t", bash_command=f"echo {code}")

    failed = (await dag.test()).task("t")

    assert failed.reason is not None
    assert f"because no database is used here. Set {variable} in the environment" in failed.reason


async def test_a_dag_test_hides_secrets_on_the_console_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AIOSCHED_VAR_API_KEY", "sk-live-1")
    with DAG("d", schedule=None) as dag:

        @task
        def say() -> None:
            key = Variable.get("api_key")
            logging.getLogger("aiosched.task").warning("the key is %s", key)
            raise ValueError(key)

        say()

    with caplog.at_level(logging.INFO):
        failed = (await dag.test()).task("say")

    assert "the key is ***" in caplog.text
    assert "sk-live-1" not in f"{caplog.text}{failed.reason}{failed.details}"


# ---- the log file itself ----


@pytest.fixture
def one() -> Attempt:
    return attempt("t")


def test_a_secret_across_two_parts_of_an_endless_line_is_hidden(logs_folder: Path, one: Attempt) -> None:
    secrets.register("hunter2hunter2")
    log = AttemptLog(logs_folder, one, 10_000_000)

    log.feed("stdout", "x" * 65_530 + "hunter2")
    log.feed("stdout", "hunter2" + "y" * 65_530)
    log.close()

    text = log_path(logs_folder, one).read_text()
    assert "hunter2" not in text
    assert text.count("***") == 1
    assert (text.count("x"), text.count("y")) == (65_530, 65_530)


def test_what_a_child_wrote_into_the_file_is_cleaned_when_the_log_is_closed(logs_folder: Path, one: Attempt) -> None:
    log = AttemptLog(logs_folder, one, 10_000)
    with open(log.fileno(), "wb", closefd=False) as file:
        file.write(b"before \xff hunter2\n")
    secrets.register("hunter2")
    log.line("INFO", "me", "after hunter2")

    log.close()

    path = log_path(logs_folder, one)
    assert path.read_bytes().startswith(b"before \xff ***\n")
    assert b"hunter2" not in path.read_bytes()
    assert [other.name for other in path.parent.iterdir()] == [path.name]


def test_a_log_that_cannot_be_cleaned_is_said_and_costs_no_attempt(
    logs_folder: Path, one: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = io.StringIO()
    monkeypatch.setattr(sys, "__stderr__", console)
    secrets.register("hunter2")
    log = AttemptLog(logs_folder, one, 10_000)
    log.fileno()
    log_path(logs_folder, one).unlink()

    log.close()

    assert "may hold secrets, because it cannot be written again" in console.getvalue()
