"""Variables and connections that a DAG file reads at its top, when a process imports it to run a task."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aiosched.authoring.dag.sources import finder
from aiosched.authoring.runtime.lookups import answering
from aiosched.core.values.messages import Outcome, Report, RunInfo
from aiosched.errors import Refused
from aiosched.executors.attempt import dag_cache
from aiosched.executors.attempt.blocking import WouldBlock, answered_on
from aiosched.executors.attempt.dag_cache import FileDags
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.attempt.runner import drive
from aiosched.executors.inline.executor import InlineExecutor
from aiosched.executors.inline.running import run_attempt
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import FakeServices, Reports, StartLocal, attempt, trigger_attempt, write_dag

pytestmark = pytest.mark.usefixtures("no_secrets")

READS = """
from aiosched import Connection, Variable
REGION = Variable.get("region")
HOST = Connection.get("sales").host
MISSING = asyncio.run(Variable.aget("missing", "default"))
def plain(): return [REGION, HOST, MISSING]
async def later(): return [REGION, HOST, MISSING]
task(plain), task(later)
"""


@dataclass
class Stored(FakeServices):
    """A scheduler that knows a variable and a connection."""

    values: dict[str, Any] = field(
        default_factory=lambda: {
            "region": "eu-west-1",
            "sales": {"conn_type": "postgres", "host": "db", "password": "hunter2"},
        }
    )
    asked: list[tuple[int, str, str]] = field(default_factory=list)

    async def call(self, run: int, name: str, args: str) -> str:
        key = json.loads(args)["get"]
        self.asked.append((run, name, key))
        return json.dumps({"value": self.values.get(key)})


@pytest.fixture
def services() -> Stored:
    return Stored()


def value(report: Report) -> Any:
    assert report.outcome is Outcome.SUCCESS, f"{report.reason} {report.details}"
    return json.loads(report.xcoms[0].value)


async def test_workers_of_both_kinds_ask_in_the_name_of_the_attempt(
    start_local: StartLocal, dags_folder: Path, reports: Reports, services: Stored
) -> None:
    write_dag(dags_folder, READS)
    executor = await start_local()
    attempts = [attempt("plain", number=1), attempt("later", is_async=True, number=2)]

    executor.submit(attempts)

    assert [value(await reports.of(one)) for one in attempts] == [["eu-west-1", "db", "default"]] * 2
    asked = [("variable", "region"), ("connection", "sales"), ("variable", "missing")]
    assert [(name, key) for run, name, key in services.asked if run == 1] == asked
    assert [(name, key) for run, name, key in services.asked if run == 2] == asked


async def test_many_coroutines_of_files_that_share_a_module_that_reads(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    """Imports in threads and the loop that answers them share locks of modules."""
    for name in ("a", "b", "c"):
        body = "import shared\nasync def later():\n    import shared\n    return shared.REGION\ntask(later)"
        write_dag(dags_folder, body, name=name)
    (dags_folder / "shared.py").write_text("from aiosched import Variable\nREGION = Variable.get('region')\n")
    executor = await start_local()
    attempts = [
        attempt("later", is_async=True, number=n, file=f"{name}.py", dag_id=name) for n, name in enumerate("abc" * 3)
    ]

    executor.submit(attempts)

    assert [value(await reports.of(one)) for one in attempts] == ["eu-west-1"] * 9


@pytest.mark.parametrize("name", ["plain", "later"])
async def test_a_missing_variable_is_the_reason_and_says_what_to_do(
    start_local: StartLocal, dags_folder: Path, reports: Reports, services: Stored, name: str
) -> None:
    del services.values["region"]
    write_dag(dags_folder, READS)
    executor = await start_local()
    one = attempt(name, is_async=name == "later")

    executor.submit([one])

    report = await reports.of(one)
    assert (report.outcome, report.dag_missing) == (Outcome.FAILED, True)
    assert "d.py cannot be imported: NoVariable: There is no variable 'region'." in str(report.reason)
    assert "aiosched variables set region VALUE" in str(report.reason)


@pytest.mark.parametrize("name", ["plain", "later"])
async def test_what_the_import_was_told_is_hidden_in_the_log(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports, name: str
) -> None:
    body = "PASSWORD = Connection.get('sales').password\nraise ValueError('cannot log in with ' + PASSWORD)\n"
    write_dag(dags_folder, READS + body)
    one = attempt(name, is_async=name == "later")
    executor = await start_local()

    executor.submit([one])

    report = await reports.of(one)
    assert "cannot log in with ***" in str(report.reason)
    assert "hunter2" not in f"{report.reason}{report.details}{log_path(logs_folder, one).read_text()}"


async def test_a_trigger_whose_module_reads_a_variable(
    start_local: StartLocal, dags_folder: Path, reports: Reports
) -> None:
    write_dag(dags_folder, "import own_triggers")
    (dags_folder / "own_triggers.py").write_text(
        "from aiosched import BaseTrigger, TriggerEvent, Variable\n"
        "REGION = Variable.get('region')\n"
        "class Own(BaseTrigger):\n"
        "    def serialize(self): return 'own_triggers.Own', {}\n"
        "    async def run(self): yield TriggerEvent(REGION)\n"
    )
    executor = await start_local()
    one = trigger_attempt("own_triggers.Own")

    executor.submit([one])

    report = await reports.of(one)
    assert (report.outcome, report.event) == (Outcome.TRIGGERED, '"eu-west-1"'), report.reason


@pytest.mark.parametrize("name", ["plain", "later"])
async def test_the_inline_executor_answers_on_its_loop(
    dags_folder: Path, reports: Reports, services: Stored, name: str
) -> None:
    write_dag(dags_folder, READS)
    inline = InlineExecutor(FileDags(dags_folder), slots=2)
    await inline.start(reports, services)
    one = attempt(name, is_async=name == "later")

    inline.submit([one])

    assert value(await reports.of(one)) == ["eu-west-1", "db", "default"]
    await inline.stop(5)


@pytest.mark.parametrize("is_async", [False, True])
async def test_attempts_of_executors_of_other_packages_ask_their_services(
    dags_folder: Path, services: Stored, is_async: bool
) -> None:
    write_dag(dags_folder, READS)
    one = attempt("later" if is_async else "plain", is_async=is_async)

    report = await run_attempt(one, services, FileDags(dags_folder), AttemptEnvironment())

    assert value(report) == ["eu-west-1", "db", "default"]


async def test_an_import_gives_up_if_its_loop_does_not_answer(
    dags_folder: Path, reports: Reports, services: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(run: int, name: str, args: str) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(services, "call", never)
    monkeypatch.setattr("aiosched.executors.inline.executor.ANSWERED_WITHIN", 0.05)
    write_dag(dags_folder, READS)
    inline = InlineExecutor(FileDags(dags_folder), slots=2)
    await inline.start(reports, services)
    one = attempt("plain")

    inline.submit([one])

    assert "The scheduler did not answer within 0.05 s." in str((await reports.of(one)).reason)
    await inline.stop(5)


async def test_an_import_on_the_loop_itself_is_refused_at_once(services: Stored) -> None:
    answered = answered_on(asyncio.get_running_loop(), seconds=60)

    with pytest.raises(WouldBlock, match="would block the event loop"):
        answered(services.call(0, "variable", "{}"))


# ---- values that change ----


@pytest.fixture
def alone() -> Iterator[None]:
    """Undo what importing adds to this process."""
    path = list(sys.path)
    finder.forget()
    yield
    finder.forget()
    sys.path[:] = path


def loaded(dags: FileDags, one: RunInfo) -> Any:
    """What the module of the DAG has as REGION."""
    dag = drive(dags.load(one)) if dags.cached(one) is None else dags.cached(one)
    assert dag is not None
    return dag.description


def source_of(values: dict[str, str]) -> Callable[[RunInfo, str, str], dict[str, Any]]:
    def ask(run: RunInfo, kind: str, key: str) -> dict[str, Any]:
        if "refused" in values:
            raise Refused("not now")
        return {"value": values[key]}

    return ask


@pytest.fixture
def dags(dags_folder: Path, alone: None) -> FileDags:
    dags_folder.mkdir()
    (dags_folder / "d.py").write_text(
        "from aiosched import DAG\nfrom shared import REGION\ndag = DAG('d', schedule=None, description=REGION)\n"
    )
    (dags_folder / "shared.py").write_text("from aiosched import Variable\nREGION = Variable.get('region')\n")
    return FileDags(dags_folder)


def test_a_process_imports_a_file_again_once_it_sees_that_a_value_has_changed(
    dags: FileDags, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, run = {"region": "before"}, attempt("t").run
    dags.ask = source_of(values)
    assert loaded(dags, run) == "before"
    values["region"] = "after"

    assert loaded(dags, run) == "before", "it does not ask each time"

    monkeypatch.setattr(dag_cache, "VALUES_LAST", 0.0)
    assert loaded(dags, run) == "after", "the module that has read it is imported again, too"


def test_a_value_that_is_as_it_was_imports_nothing_again(dags: FileDags, monkeypatch: pytest.MonkeyPatch) -> None:
    values, run = {"region": "same"}, attempt("t").run
    dags.ask = source_of(values)
    monkeypatch.setattr(dag_cache, "VALUES_LAST", 0.0)
    first = drive(dags.load(run))

    assert drive(dags.load(run)) is first

    values["refused"] = "yes"
    assert drive(dags.load(run)) is first, "what cannot be asked now stays as it is"


def test_a_dag_that_does_not_fit_is_imported_with_the_values_of_now(dags: FileDags) -> None:
    values, run = {"region": "before"}, attempt("t").run
    dags.ask = source_of(values)
    assert loaded(dags, run) == "before"
    values["region"] = "after"

    dags.forget(run)

    assert loaded(dags, run) == "after"


def test_without_a_scheduler_there_is_nobody_to_ask(dags: FileDags) -> None:
    with (
        answering(None),
        pytest.raises(Exception, match=r"d\.py cannot be imported: DagError: .*no database can be asked here"),
    ):
        drive(dags.load(attempt("t").run))
