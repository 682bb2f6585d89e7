"""Code of an author that sends its worker's messages itself: it speaks for its own attempts, whatever it says.

The victim is an attempt of another team that runs at the same time, in a process of its own.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from aiosched.core.values.messages import Attempt, AttemptKey, Outcome, Report, RunInfo, StoredXCom
from aiosched.core.values.received_reports import received
from aiosched.executors.worker.protocol import LARGEST_FRAME, FrameReader
from tests.executors.attempt_builders import (
    FakeServices,
    Reports,
    StartLocal,
    attempt,
    callback_attempt,
    trigger_attempt,
    write_dag,
)

# What an author finds in its process: the object that sends messages, and the constructors of these.
SPEAKER = """
from datetime import UTC, datetime
from aiosched.authoring.runtime.services import running_services
from aiosched.core.values.messages import AttemptKey, Outcome, Report, XComRef, XComValue
from aiosched.executors.worker.protocol import (
    Ended, FieldsRendered, Fired, Ready, ServiceCall, Warmed, Withdraw, XComCall,
)
from aiosched.triggers import BaseTrigger, TriggerEvent

VICTIM, NOW = AttemptKey(1, 0, -1, 1), datetime(2026, 1, 1, tzinfo=UTC)

def speaker():
    return running_services()._services

def as_victim(run=VICTIM.run):
    found = running_services()
    return type(found)(found._services, run, found._blocking)

def said(ask):
    try:
        return str(ask())
    except Exception as error:
        return f"{type(error).__name__}: {error}"

async def said_later(ask):
    try:
        return str(await ask())
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def report(outcome, key=VICTIM, **facts):
    return Report(key=key, outcome=Outcome(outcome), at=NOW, **facts)

class Asks(BaseTrigger):
    async def run(self):
        yield TriggerEvent(await said_later(lambda: as_victim().acall("connection", get="shop")))
"""
VICTIM = """
def victim():
    while not os.path.exists("go"):
        time.sleep(0.01)
    return "untouched"
task(victim)
"""
NOW_OF_SPEAKER = datetime(2026, 1, 1, tzinfo=UTC)
REFUSED = "Refused: A task can ask in the name of its own run only, and while it runs."


@pytest.fixture
def folder(dags_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the module of the author and the victim's DAG; the processes start in its parent."""
    dags_folder.mkdir()
    dags_folder.joinpath("speaker.py").write_text(SPEAKER)
    write_dag(dags_folder, VICTIM.replace('"go"', repr(str(dags_folder / "go"))), name="v")
    return dags_folder


def victim_and(*, is_async: bool = False, task_id: str = "forge") -> tuple[Attempt, Attempt]:
    author = attempt(task_id, number=2, is_async=is_async, team="red")
    return attempt("victim", number=1, file="v.py", dag_id="v", team="blue"), author


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "coroutine"])
async def test_a_task_asks_for_its_own_run_only(
    start_local: StartLocal, folder: Path, reports: Reports, services: FakeServices, is_async: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    services.xcoms["victim", "return_value"] = [(-1, '"of the victim"')]
    questions = {
        "own": "running_services().acall('connection', get='shop')",
        "other": "as_victim().acall('variable', set='region', value='poisoned')",
        "nobody": "as_victim(-2**63).acall('variable', set='x', value='y')",
        "raw": "speaker().call(VICTIM.run, 'trigger', '{}')",
        "xcoms": "speaker().get_xcoms(VICTIM.run, [XComRef('victim')])",
        "elsewhere": "speaker().call(VICTIM.run, 'xcoms', '{}')",
    }
    how = "await said_later(lambda: {})" if is_async else "said(lambda: running_services()._blocking({}))"
    found = ", ".join(f"{name!r}: {how.format(question)}" for name, question in questions.items())
    kind = "async def" if is_async else "def"
    write_dag(folder, f"from speaker import *\n{kind} forge():\n    return {{{found}}}\ntask(forge)")
    executor = await start_local()
    victim, author = victim_and(is_async=is_async)

    executor.submit([victim, author])

    (pushed,) = (await reports.of(author)).xcoms
    found = json.loads(pushed.value)
    assert "'run': 2" in found.pop("own")
    assert found.pop("nobody").startswith("Refused: 'variable' can be called by a task only")
    assert found.pop("xcoms") == REFUSED.replace("Refused", "ExecutorError")
    assert set(found.values()) == {REFUSED}
    assert not services.calls
    assert "asked in the name of a run of which it runs nothing (1)" in caplog.text
    assert str(author.key) in caplog.text
    (folder / "go").touch()
    assert (await reports.of(victim)).outcome is Outcome.SUCCESS


async def test_a_trigger_asks_for_its_own_run_only(start_local: StartLocal, folder: Path, reports: Reports) -> None:
    write_dag(folder, "pass")
    executor = await start_local()
    victim, _ = victim_and()
    trigger = trigger_attempt("speaker.Asks", number=2, team="red")

    executor.submit([victim, trigger])

    assert REFUSED in ((await reports.of(trigger)).event or "")
    (folder / "go").touch()
    await reports.of(victim)


FORGED = {
    "another's end": "Ended([report('success', xcoms=(XComValue('return_value', '\"forged\"'),))])",
    "another's failure": "Ended([report('failed', fail_now=True)])",
    "another's fields": "FieldsRendered(VICTIM, '{\"forged\": 1}')",
    "another's trigger": "Fired(1, report('failed'))",
    "another's import": "Warmed(1, 0.0, 'broken')",
    "a second start": "Ready()",
    "another's question withdrawn": "Withdraw(1)",
    "times that are none": "Ended([], None, float('nan'), float('-inf'))",
}


@pytest.mark.parametrize("message", FORGED.values(), ids=FORGED)
async def test_a_forged_message_does_nothing_to_others(
    start_local: StartLocal, folder: Path, reports: Reports, message: str
) -> None:
    write_dag(folder, f"from speaker import *\ndef forge():\n    speaker().send({message})\n    return 1\ntask(forge)")
    executor = await start_local()
    victim, author = victim_and()

    executor.submit([victim, author])

    assert (await reports.of(author)).outcome is Outcome.SUCCESS
    assert not [report for report in reports.final if report.key == victim.key]
    (folder / "go").touch()
    ended = await reports.of(victim)
    assert (ended.outcome, [value.value for value in ended.xcoms]) == (Outcome.SUCCESS, ['"untouched"'])
    assert {report.rendered for report in reports.all if report.key == victim.key} == {None}


@pytest.mark.parametrize("outcome", ["started", "stuck", "triggered"])
async def test_a_task_cannot_say_what_only_a_scheduler_knows(
    start_local: StartLocal, folder: Path, reports: Reports, outcome: str
) -> None:
    sent = f"report({outcome!r}, AttemptKey(2, 0, -1, 1), inbox_id=7, ran_by=8)"
    write_dag(folder, f"from speaker import *\ndef forge():\n    speaker().send(Ended([{sent}]))\ntask(forge)")
    executor = await start_local()
    _, author = victim_and()

    executor.submit([author])

    ended = await reports.of(author, outcome=Outcome.FAILED)
    assert ended.reason == f"its worker reported '{outcome}', which only a scheduler can know"
    assert (ended.inbox_id, ended.ran_by) == (None, None)
    assert [report.outcome for report in reports.final] == [Outcome.FAILED]


async def test_a_trigger_fires_for_itself(start_local: StartLocal, folder: Path, reports: Reports) -> None:
    source = (
        SPEAKER
        + """
class Forges(BaseTrigger):
    async def run(self):
        host = speaker()
        host._transport.write(frame(Fired(1, report('failed'))))
        await asyncio.Event().wait()
        yield
"""
    )
    folder.joinpath("speaker.py").write_text(
        f"import asyncio\nfrom aiosched.executors.worker.protocol import frame\n{source}"
    )
    write_dag(folder, "pass")
    executor = await start_local()
    victim, _ = victim_and()
    trigger = trigger_attempt("speaker.Forges", number=2, team="red")

    executor.submit([victim, trigger])

    assert (await reports.of(trigger)).outcome is Outcome.FAILED
    assert not [report for report in reports.final if report.key == victim.key]
    (folder / "go").touch()
    assert (await reports.of(victim)).outcome is Outcome.SUCCESS


def test_a_message_that_is_announced_too_large_is_not_waited_for() -> None:
    with pytest.raises(msgspec.ValidationError, match="exceeds the frame size"):
        FrameReader().feed((LARGEST_FRAME + 1).to_bytes(4, "big"))


PIDS = """
from aiosched.triggers import BaseTrigger, TriggerEvent

def pid(): return os.getpid()
async def apid(): return os.getpid()
def told(context): print("pid", os.getpid())
class Pid(BaseTrigger):
    async def run(self):
        yield TriggerEvent(os.getpid())
task(pid), PythonOperator(task_id="apid", python_callable=apid)
"""


@pytest.mark.parametrize("slots", [1, 4])
async def test_no_process_ever_runs_code_of_two_teams(
    start_local: StartLocal, dags_folder: Path, reports: Reports, slots: int
) -> None:
    """Tasks, coroutines and triggers of two teams and of nobody, over and over: the processes differ."""
    write_dag(dags_folder, PIDS)
    executor = await start_local(slots=slots)
    teams = {number: (None, "red", "blue")[number % 3] for number in range(1, 31)}
    attempts = [attempt("pid", number=number, team=team) for number, team in teams.items()]
    attempts += [attempt("apid", number=100 + n, is_async=True, team=team) for n, team in teams.items()]
    attempts += [trigger_attempt("d.Pid", number=200 + n, team=team) for n, team in list(teams.items())[:6]]

    executor.submit(attempts)

    ended = {report.key: report for report in await reports.count(len(attempts))}
    processes: dict[str, set[str | None]] = {}
    for one in attempts:
        report = ended[one.key]
        assert report.outcome in (Outcome.SUCCESS, Outcome.TRIGGERED), report
        pid = report.event or report.xcoms[0].value
        processes.setdefault(pid, set()).add(one.run.team)
    assert all(len(teams) == 1 for teams in processes.values())
    assert len(processes) >= 9


async def test_what_an_alert_sends_is_not_in_a_process_with_code_of_authors(
    start_local: StartLocal, folder: Path, reports: Reports
) -> None:
    """Its arguments are secrets: webhook addresses, passwords of mail servers."""
    write_dag(folder, "def spy(): return os.getpid()\ntask(spy)")
    executor = await start_local(slots=1)
    notice = msgspec.structs.replace(callback_attempt("alert", notice="{}"), run=_of_service())

    executor.submit([attempt("spy", number=2), notice, attempt("spy", number=3)])

    ended = await reports.count(3)
    (told,) = (report for report in ended if report.key == notice.key)
    assert told.pid not in {report.pid for report in ended if report is not told}


def _of_service() -> RunInfo:
    return msgspec.structs.replace(attempt("").run, team="", file=None)


def test_what_a_report_says_of_its_sender_does_not_count() -> None:
    mine, other = attempt("t", number=1), AttemptKey(2, 0, -1, 1)
    report = Report(key=other, outcome=Outcome.SUCCESS, at=mine.run.run_after, inbox_id=3, ran_by=4)

    assert received(report, mine, 0) == msgspec.structs.replace(report, key=mine.key, inbox_id=None, ran_by=None)
    fired = msgspec.structs.replace(report, outcome=Outcome.TRIGGERED)
    assert received(fired, mine, 0).outcome is Outcome.FAILED
    assert received(fired, trigger_attempt("c", number=1), 0).outcome is Outcome.TRIGGERED


OF_MINE = "dag_id=d/run_id=manual__1/task_id=t/attempt=1.0a.json"
FILES = {
    OF_MINE: True,
    "dag_id=d/run_id=manual__1/task_id=other/map_index=3/attempt=1.0a.json": True,
    "dag_id=d/run_id=manual__10/task_id=t/attempt=1.0a.json": False,
    "dag_id=v/run_id=manual__1/task_id=t/attempt=1.0a.json": False,
    "dag_id=d/run_id=manual__1/../../dag_id=v/run_id=r/attempt=1.0a.json": False,
    "dag_id=d/run_id=manual__1/./x": False,
    "dag_id=d/run_id=manual__1//x": False,
    "dag_id=d/run_id=manual__1/": False,
    "/etc/passwd": False,
    "": False,
}


@pytest.mark.parametrize(("path", "may"), FILES.items())
def test_a_report_refers_to_files_of_its_own_run(path: str, may: bool) -> None:
    """What a row of an XCom refers to is read for it, and removed with it."""
    mine = attempt("t", number=1)
    stored = (StoredXCom(key="k", path=OF_MINE, size=1, length=None, value='"1"'),)
    stored += (StoredXCom(key="l", path=path, size=1, length=None, value='"1"'),)
    report = Report(key=mine.key, outcome=Outcome.SUCCESS, at=mine.run.run_after, stored_xcoms=stored)

    found = received(report, mine, 100)

    if may:
        assert found is report
    else:
        assert (found.outcome, found.stored_xcoms) == (Outcome.FAILED, ())
        assert found.reason == "its worker reported the XCom 'l' in a file that is not of its run"


async def test_a_task_gives_no_file_of_another_run_as_its_value(
    start_local: StartLocal, folder: Path, reports: Reports
) -> None:
    path = "dag_id=v/run_id=manual__1/task_id=victim/attempt=1.0a.json"
    value = f"StoredXCom(key='k', path={path!r}, size=1, length=None, value='1')"
    sent = f"report('success', AttemptKey(2, 0, -1, 1), stored_xcoms=({value},))"
    imports = "from speaker import *\nfrom aiosched.core.values.messages import StoredXCom\n"
    write_dag(folder, f"{imports}def forge():\n    speaker().send(Ended([{sent}]))\ntask(forge)")
    executor = await start_local()
    _, author = victim_and()

    executor.submit([author])

    ended = await reports.of(author)
    assert (ended.outcome, ended.stored_xcoms) == (Outcome.FAILED, ())
