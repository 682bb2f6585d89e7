"""Triggers, as executors run them: no slot, one report, and an end on request.

Source: the semantics reference, sections 25.3, 25.4 and 25.6.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from aiosched import DAG, EmptyOperator
from aiosched.bundles.places import CodePlaces
from aiosched.core.values.messages import Executor, Outcome, RunInfo
from aiosched.executors.attempt.dag_cache import FileDags
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.inline.executor import InlineExecutor
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import (
    FakeServices,
    Reports,
    StartLocal,
    attempt,
    resumed,
    trigger_attempt,
    write_dag,
)
from tests.patience import PATIENCE, until

HERE = "my_triggers."
MODULE = """
import asyncio, os, signal
from pathlib import Path
from aiosched.authoring.runtime.services import acall
from aiosched.authoring.triggers import (
    BaseTrigger, TaskFailedEvent, TaskSkippedEvent, TaskSuccessEvent, TriggerEvent
)

class EndsTask(BaseTrigger):
    def __init__(self, how, xcoms=None, reason=None):
        self.how, self.xcoms, self.reason = how, xcoms, reason
    async def run(self):
        kind = {"success": TaskSuccessEvent, "failed": TaskFailedEvent, "skipped": TaskSkippedEvent}[self.how]
        yield kind(xcoms=self.xcoms, reason=self.reason)

class Says(BaseTrigger):
    def __init__(self, what):
        self.what = what
    async def run(self):
        await asyncio.sleep(0)
        print("waited")
        yield TriggerEvent(self.what)
        yield TriggerEvent("too late")

class Raises(BaseTrigger):
    async def run(self):
        raise ValueError("bad")
        yield

class Ends(BaseTrigger):
    async def run(self):
        return
        yield

class Asks(BaseTrigger):
    async def run(self):
        yield TriggerEvent(await acall("echo", question=1))

class Pulls(BaseTrigger):
    async def run(self):
        yield TriggerEvent(await self.task_instance.axcom_pull("a", dag_id="other", include_prior_dates=True))

class Waits(BaseTrigger):
    def __init__(self, folder):
        self.folder = folder
    async def run(self):
        self.note("began")
        await asyncio.Event().wait()
        yield
    async def on_kill(self):
        self.note("killed")
    async def cleanup(self):
        self.note("cleaned")
    def note(self, word):
        (Path(self.folder) / word).touch()

class Dies(BaseTrigger):
    async def run(self):
        os.kill(os.getpid(), signal.SIGKILL)
        yield
"""

DAG_OF_NO_USE = """
from aiosched import DAG, EmptyOperator
with DAG("e", schedule=None):
    EmptyOperator(task_id="t")
"""

Start = Callable[..., Awaitable[Executor]]


@pytest.fixture(params=["inline", "local"])
async def start(
    request: pytest.FixtureRequest, start_local: StartLocal, dags_folder: Path, logs_folder: Path,
    services: FakeServices, reports: Reports,
) -> AsyncIterator[Start]:  # fmt: skip
    """Starts either executor; the DAG file has a module of triggers beside it."""
    write_dag(dags_folder, "def t(): pass\ntask(t)\n")
    dags_folder.joinpath("my_triggers.py").write_text(MODULE)
    inline = InlineExecutor(FileDags(dags_folder), AttemptEnvironment(logs_folder=logs_folder), kill_after=0.3)

    async def begin() -> Executor:
        if request.param == "local":
            return await start_local(slots=1)
        await inline.start(reports, services)
        return inline

    yield begin
    await inline.stop(0)


async def test_a_trigger_reads_values_of_another_dag(start: Start, services: FakeServices, reports: Reports) -> None:
    services.elsewhere["a", "return_value"] = [(-1, '{"x": 1}')]
    executor = await start()
    one = trigger_attempt(f"{HERE}Pulls")
    executor.submit([one])

    assert (await reports.of(one)).event == '{"x": 1}'


async def test_the_first_event_is_reported_and_no_start(start: Start, reports: Reports) -> None:
    executor, one = await start(), trigger_attempt(HERE + "Says", '{"what": {"rows": 3}}')

    executor.submit([one])
    report = await reports.of(one)

    assert (report.outcome, report.event) == (Outcome.TRIGGERED, '{"rows": 3}')
    assert reports.all == [report]


@pytest.mark.parametrize(
    ("kwargs", "outcome", "reason", "xcoms"),
    [
        ('{"how": "success", "xcoms": {"return_value": [1], "k": 2}}', Outcome.SUCCESS, None,
         (("return_value", "[1]"), ("k", "2"))),
        ('{"how": "skipped"}', Outcome.SKIPPED, "its trigger EndsTask ended it", ()),
        ('{"how": "failed", "reason": "refused"}', Outcome.FAILED, "refused", ()),
    ],
    ids=["success", "skipped", "failed"],
)  # fmt: skip
async def test_an_event_may_end_the_task(
    start: Start, reports: Reports, kwargs: str, outcome: Outcome, reason: str | None, xcoms: tuple[object, ...]
) -> None:
    executor, one = await start(), trigger_attempt(HERE + "EndsTask", kwargs)

    executor.submit([one])
    report = await reports.of(one)

    assert (report.ends, report.outcome, report.reason, report.xcoms) == (True, outcome, reason, xcoms)


async def test_an_end_whose_values_cannot_be_stored_is_a_failure_of_the_trigger(start: Start, reports: Reports) -> None:
    executor, one = await start(), trigger_attempt(HERE + "EndsTask", '{"how": "success", "xcoms": {"": 1}}')

    executor.submit([one])
    report = await reports.of(one)

    assert (report.ends, report.outcome) == (False, Outcome.FAILED)
    assert "An XCom key is a string of 1 to 512 characters" in (report.reason or "")


async def test_a_trigger_takes_no_slot(start: Start, reports: Reports, tmp_path: Path) -> None:
    executor = await start()
    free, free_async = executor.open_slots, executor.open_async_slots

    executor.submit([trigger_attempt(HERE + "Waits", f'{{"folder": "{tmp_path}"}}', number=n) for n in range(20)])
    await until(lambda: (tmp_path / "began").exists())

    assert (executor.open_slots, executor.open_async_slots) == (free, free_async)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Raises", "ValueError: bad"),
        ("Ends", "the trigger Ends ended without an event"),
        ("Gone", "the trigger my_triggers.Gone cannot be loaded"),
        ("Says", "missing 1 required positional argument: 'what'"),
    ],
)
async def test_a_trigger_that_fails_says_why(start: Start, reports: Reports, name: str, reason: str) -> None:
    executor, one = await start(), trigger_attempt(HERE + name)

    executor.submit([one])
    report = await reports.of(one)

    assert report.outcome is Outcome.FAILED
    assert reason in (report.reason or "")


async def test_a_trigger_may_ask_the_scheduler(start: Start, reports: Reports) -> None:
    executor, one = await start(), trigger_attempt(HERE + "Asks", number=4)

    executor.submit([one])

    assert '"question": 1' in ((await reports.of(one)).event or "")


async def test_a_trigger_may_stand_in_the_dag_file(start: Start, reports: Reports, dags_folder: Path) -> None:
    from aiosched.authoring.dag.loader import module_name

    (dags_folder / "e.py").write_text(MODULE + DAG_OF_NO_USE)
    module = module_name(dags_folder / "e.py")
    executor, one = await start(), trigger_attempt(f"{module}.Says", '{"what": 1}', file="e.py", dag_id="e")

    executor.submit([one])
    report = await reports.of(one)

    assert (report.outcome, report.event) == (Outcome.TRIGGERED, "1"), report.details


async def test_a_cancelled_trigger_is_reported_at_once_and_cleans_up(
    start: Start, reports: Reports, tmp_path: Path
) -> None:
    executor, one = await start(), trigger_attempt(HERE + "Waits", f'{{"folder": "{tmp_path}"}}')
    executor.submit([one])
    await until(lambda: (tmp_path / "began").exists())

    await executor.cancel(one.key, 1.0)

    assert [(report.outcome, report.reason) for report in reports.all] == [(Outcome.FAILED, "was stopped on request")]
    await until(lambda: (tmp_path / "killed").exists() and (tmp_path / "cleaned").exists())
    assert len(reports.all) == 1


async def test_stopping_the_executor_waits_for_no_trigger_and_kills_nothing_outside(
    start: Start, reports: Reports, tmp_path: Path
) -> None:
    executor, one = await start(), trigger_attempt(HERE + "Waits", f'{{"folder": "{tmp_path}"}}')
    executor.submit([one])
    await until(lambda: (tmp_path / "began").exists())

    async with asyncio.timeout(PATIENCE):
        await executor.stop(60)

    assert [(report.outcome, report.reason) for report in reports.all] == [(Outcome.LOST, "the scheduler stopped")]
    assert not (tmp_path / "killed").exists()


async def test_what_a_trigger_says_is_in_the_log_of_its_try(
    start_local: StartLocal, reports: Reports, dags_folder: Path, logs_folder: Path
) -> None:
    write_dag(dags_folder, "def t(): pass\ntask(t)\n")
    dags_folder.joinpath("my_triggers.py").write_text(MODULE)
    executor, one = await start_local(), trigger_attempt(HERE + "Says", '{"what": 1}')

    executor.submit([one])
    await reports.of(one)

    assert "waited" in log_path(logs_folder, one).read_text()
    assert log_path(logs_folder, one) == log_path(logs_folder, attempt("t"))


async def test_a_trigger_that_kills_its_process_loses_all_and_the_next_ones_wait_in_another(
    start_local: StartLocal, reports: Reports, dags_folder: Path, tmp_path: Path
) -> None:
    write_dag(dags_folder, "def t(): pass\ntask(t)\n")
    dags_folder.joinpath("my_triggers.py").write_text(MODULE)
    executor = await start_local()
    waiting = trigger_attempt(HERE + "Waits", f'{{"folder": "{tmp_path}"}}', number=1)
    deadly, task = trigger_attempt(HERE + "Dies", number=2), attempt("t", number=3)
    executor.submit([waiting])
    await until(lambda: (tmp_path / "began").exists())

    executor.submit([deadly, task])

    assert (await reports.of(waiting)).outcome is Outcome.LOST
    assert "SIGKILL" in ((await reports.of(deadly)).reason or "")
    assert (await reports.of(task)).outcome is Outcome.SUCCESS
    after = trigger_attempt(HERE + "Says", '{"what": 2}', number=4)
    executor.submit([after])
    assert (await reports.of(after)).event == "2"


async def test_the_try_goes_on_under_the_key_that_its_trigger_had(reports: Reports) -> None:
    with DAG("d", schedule=None) as dag:
        EmptyOperator(task_id="t")
    executor = InlineExecutor({"d": dag})
    await executor.start(reports, FakeServices())
    wait = trigger_attempt("aiosched.authoring.triggers.DateTimeTrigger", '{"moment": "x"}')
    try:
        executor.submit([wait])
        await executor.cancel(wait.key, 0)
        one = resumed(attempt("t"), "gone", error="Trigger timeout", timed_out=True)
        executor.submit([one])

        assert (await reports.of(one)).reason == "TaskDeferralTimeout: Trigger timeout"
    finally:
        await executor.stop(0)


class Overtaken:
    """The first time that it has loaded a DAG, a thread loads that of another bundle before anybody goes on."""

    def __init__(self, dags: FileDags, other: RunInfo) -> None:
        self._dags, self._other = dags, other
        self.import_timeout, self.cached, self.forget = dags.import_timeout, dags.cached, dags.forget

    async def load(self, run: RunInfo) -> DAG:
        found = await self._dags.load(run)
        if self._other is not run:
            other, self._other = self._other, run
            await self._dags.load(other)
        return found


@pytest.mark.parametrize("both", [True, False])
async def test_a_trigger_is_that_of_its_bundle_whatever_is_imported_beside_it(
    tmp_path: Path, services: FakeServices, reports: Reports, *, both: bool
) -> None:
    for team in ("one", "two"):
        (tmp_path / team).mkdir()
        write_dag(tmp_path / team, "def t(): pass\ntask(t)\n")
        if both or team == "one":
            says = MODULE.replace("TriggerEvent(self.what)", f"TriggerEvent({team!r})")
            (tmp_path / team / "triggers_of_team.py").write_text(says)
    one = trigger_attempt("triggers_of_team.Says", '{"what": 1}')
    mine, other = (
        msgspec.structs.replace(one.run, bundle=team, file=f"{team}:{one.run.file}") for team in ("one", "two")
    )
    dags = FileDags(places=CodePlaces({team: str(tmp_path / team) for team in ("one", "two")}))
    executor = InlineExecutor(Overtaken(dags, other), AttemptEnvironment(logs_folder=tmp_path / "logs"))
    await executor.start(reports, services)

    executor.submit([msgspec.structs.replace(one, run=mine)])

    assert (await reports.of(one)).event == '"one"'
    await executor.stop(0)
