"""Whatever an attempt raises, wherever, ends it: all exception classes of the interpreter, and hostile ones.

Source: the semantics reference, sections 22.2, 23.1 and 25.3.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from aiosched.core.values.messages import Attempt, Executor, Outcome, Report
from aiosched.executors.attempt.dag_cache import FileDags
from aiosched.executors.attempt.environment import AttemptEnvironment
from aiosched.executors.inline.executor import InlineExecutor
from aiosched.remote.log_files import log_path
from tests.executors.attempt_builders import (
    FakeServices,
    Reports,
    StartLocal,
    attempt,
    callback_attempt,
    trigger_attempt,
    write_dag,
)

EVERY = '''
"""What is raised, by name."""

import asyncio, builtins

class Own(BaseException): pass
class NoText(Exception):
    def __str__(self): raise ValueError("no text")
class NoTextAtAll(Exception):
    def __str__(self): raise GeneratorExit("no text")
    __repr__ = __str__
class TextExits(BaseException):
    def __str__(self): raise SystemExit(5)
class NoInit(Exception):
    def __init__(self): raise KeyboardInterrupt("no init")
class NoPickle(Exception):
    def __init__(self): self.lock = __import__("threading").Lock()
    def __reduce__(self): raise TypeError("no pickle")
class NoClass(Exception):
    @property
    def __class__(self): raise RuntimeError("no class")
class Metal(type):
    def __getattribute__(cls, name): raise RuntimeError("no " + name)
class NoName(Exception, metaclass=Metal): pass
class LongText(Exception):
    def __str__(self): return "long " * 1_000_000

ARGUMENTS = {
    UnicodeDecodeError: ("utf-8", b"x", 0, 1, "bad"), UnicodeEncodeError: ("utf-8", "x", 0, 1, "bad"),
    UnicodeTranslateError: ("x", 0, 1, "bad"), SystemExit: (0,),
    ExceptionGroup: ("group", [ValueError("inner")]), BaseExceptionGroup: ("group", [KeyboardInterrupt()]),
}
KINDS = [k for k in vars(builtins).values() if isinstance(k, type) and issubclass(k, BaseException)]
KINDS += [asyncio.CancelledError, asyncio.TimeoutError, asyncio.InvalidStateError]
OWN = [Own, NoText, NoTextAtAll, TextExits, NoInit, NoPickle, NoClass, NoName, LongText]

def makes(kind):
    arguments = ARGUMENTS.get(kind, ())
    return lambda: kind(*arguments)

MAKERS = {type.__dict__["__name__"].__get__(kind): makes(kind) for kind in [*KINDS, *OWN]}
'''

TASKS = """
from every import MAKERS
def ends(**context): pass
for name, make in MAKERS.items():
    def plain(make=make):
        raise make()
    async def waits(make=make):
        await asyncio.sleep(0)
        raise make()
    async def child(make=make):
        async def inner():
            raise make()
        await asyncio.create_task(inner())
    def tells(context, make=make):
        raise make()
    async def tells_async(context, make=make):
        await asyncio.sleep(0)
        raise make()
    async def fine():
        pass
    def raises(make=make):
        raise ValueError("an ordinary failure")
    both = [tells, tells_async]
    PythonOperator(task_id=f"plain_{name}", python_callable=plain)
    PythonOperator(task_id=f"async_{name}", python_callable=waits)
    PythonOperator(task_id=f"child_{name}", python_callable=child)
    PythonOperator(task_id=f"before_{name}", python_callable=ends, on_execute_callback=both)
    PythonOperator(task_id=f"before_async_{name}", python_callable=fine, on_execute_callback=both)
    PythonOperator(task_id=f"after_{name}", python_callable=ends, on_success_callback=both)
    PythonOperator(task_id=f"after_async_{name}", python_callable=fine, on_success_callback=both)
    PythonOperator(task_id=f"failed_{name}", python_callable=raises, on_failure_callback=both)
PythonOperator(task_id="good", python_callable=ends)
PythonOperator(task_id="good_async", python_callable=fine)
"""

TRIGGERS = """
import asyncio
from aiosched.authoring.triggers import BaseTrigger, TriggerEvent
from every import MAKERS

class InRun(BaseTrigger):
    def __init__(self, kind): self.kind = kind
    async def run(self):
        await asyncio.sleep(0)
        raise MAKERS[self.kind]()
        yield

class InInit(BaseTrigger):
    def __init__(self, kind): raise MAKERS[kind]()
    async def run(self):
        yield TriggerEvent()

class InCleanup(BaseTrigger):
    def __init__(self, kind): self.kind = kind
    async def run(self):
        yield TriggerEvent("fired")
    async def cleanup(self):
        raise MAKERS[self.kind]()
"""

KINDS = [k for k in vars(builtins).values() if isinstance(k, type) and issubclass(k, BaseException)]
OWN = ["Own", "NoText", "NoTextAtAll", "TextExits", "NoInit", "NoPickle", "NoClass", "NoName", "LongText"]
NAMES = list(
    dict.fromkeys([kind.__name__ for kind in [*KINDS, asyncio.CancelledError, asyncio.InvalidStateError]] + OWN)
)
SHOWN = {"NoInit": "KeyboardInterrupt: no init"}  # what is said, where that is not the name

Start = Callable[..., Awaitable[Executor]]


@pytest.fixture(autouse=True)
def written(dags_folder: Path) -> None:
    """A DAG file that has a task for each exception and place, and its helper modules."""
    write_dag(dags_folder, TASKS)
    dags_folder.joinpath("every.py").write_text(EVERY)
    dags_folder.joinpath("raising_triggers.py").write_text(TRIGGERS)


@pytest.fixture(params=["inline", "local"])
async def start(
    request: pytest.FixtureRequest, start_local: StartLocal, dags_folder: Path, logs_folder: Path,
    services: FakeServices, reports: Reports,
) -> AsyncIterator[Start]:  # fmt: skip
    """Starts either executor."""
    inline = InlineExecutor(FileDags(dags_folder), AttemptEnvironment(logs_folder=logs_folder), slots=2, kill_after=0.3)

    async def begin() -> Executor:
        if request.param == "local":
            return await start_local(slots=2, async_workers=1)
        await inline.start(reports, services)
        return inline

    yield begin
    await inline.stop(0)


async def ends_of(executor: Executor, reports: Reports, wanted: dict[str, Attempt]) -> dict[str, Report]:
    """What became of the attempts, when all have ended; then the executor takes others, as if nothing had been."""
    slots = executor.open_slots, executor.open_async_slots
    executor.submit(list(wanted.values()))
    found = {name: await reports.of(one) for name, one in wanted.items()}
    others = [attempt("good", number=9998), attempt("good_async", number=9999, is_async=True)]
    executor.submit(others)
    for other in others:
        assert (await reports.of(other)).outcome is Outcome.SUCCESS
    assert (executor.open_slots >= slots[0], executor.open_async_slots) == (True, slots[1])
    return found


def of_each(place: str, *, is_async: bool = False) -> dict[str, Attempt]:
    return {name: attempt(f"{place}_{name}", number=n, is_async=is_async) for n, name in enumerate(NAMES)}


def shown(name: str) -> str:
    return SHOWN.get(name, name)


@pytest.mark.parametrize(("place", "is_async"), [("plain", False), ("async", True), ("plain", True), ("async", False)])
async def test_each_exception_ends_the_task_that_raises_it(
    start: Start, reports: Reports, place: str, is_async: bool
) -> None:
    """Also where the scheduler took a plain function for a coroutine, or the other way round: the file has changed."""
    found = await ends_of(await start(), reports, of_each(place, is_async=is_async))

    for name, report in found.items():
        assert report.outcome is Outcome.FAILED, (name, report)
        assert shown(name) in str(report.reason), (name, report)
        assert not report.unattended, (name, report)
        assert len(str(report.reason)) <= 500
        assert "bug in aiosched" not in str(report.reason)


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize("place", ["before", "before_async", "after", "after_async", "failed"])
async def test_each_exception_of_a_callback_is_logged_and_changes_nothing(
    start: Start, reports: Reports, logs_folder: Path, place: str
) -> None:
    wanted = of_each(place, is_async="async" in place)

    found = await ends_of(await start(), reports, wanted)

    for name, report in found.items():
        expected = (Outcome.FAILED, "ValueError: an ordinary failure") if place == "failed" else (Outcome.SUCCESS, None)
        assert (report.outcome, report.reason) == expected, (name, report)
        log = log_path(logs_folder, wanted[name]).read_text()
        for callback in ("tells", "tells_async"):
            assert f"callback {callback} raised " in log, (name, log)
            assert shown(name) in log, (name, log)


@pytest.mark.parametrize("is_async", [False, True])
async def test_each_exception_at_import_is_a_dag_that_cannot_be_loaded(
    start: Start, reports: Reports, dags_folder: Path, is_async: bool
) -> None:
    executor = await start()
    wanted = {}
    for number, name in enumerate(NAMES):
        (dags_folder / f"i_{name}.py").write_text(f"from every import MAKERS\nraise MAKERS[{name!r}]()\n")
        wanted[name] = attempt("t", number=number, file=f"i_{name}.py", dag_id=name, is_async=is_async)

    found = await ends_of(executor, reports, wanted)

    for name, report in found.items():
        assert report.outcome is Outcome.FAILED, (name, report)
        assert report.dag_missing, (name, report)
        assert str(report.reason).startswith(f"i_{name}.py cannot be imported: "), (name, report)
        assert shown(name) in str(report.reason), (name, report)


@pytest.mark.slow(but_first=True)
@pytest.mark.parametrize(
    ("place", "reason", "outcome"),
    [
        ("InRun", "", Outcome.FAILED),
        ("InInit", "the trigger raising_triggers.InInit cannot be loaded: ", Outcome.FAILED),
        ("InCleanup", None, Outcome.TRIGGERED),
    ],
)
async def test_each_exception_ends_the_trigger_that_raises_it(
    start: Start, reports: Reports, logs_folder: Path, place: str, reason: str | None, outcome: Outcome
) -> None:
    wanted = {
        name: trigger_attempt(f"raising_triggers.{place}", f'{{"kind": "{name}"}}', number=number)
        for number, name in enumerate(NAMES)
    }

    found = await ends_of(await start(), reports, wanted)

    for name, report in found.items():
        assert report.outcome is outcome, (name, report)
        if reason is None:
            log = log_path(logs_folder, wanted[name]).read_text()
            assert "cleanup raised " in log, (name, log)
            assert shown(name) in log, (name, log)
        else:
            assert str(report.reason).startswith(reason), (name, report)
            assert shown(name) in str(report.reason), (name, report)


async def test_each_exception_of_a_callback_that_the_scheduler_asks_for_is_a_failure_of_it(
    start: Start, reports: Reports, dags_folder: Path
) -> None:
    body = """
from aiosched import DAG, EmptyOperator
from every import MAKERS
for name, make in MAKERS.items():
    def tells(context, make=make):
        raise make()
    with DAG("c_" + name, schedule=None, on_failure_callback=tells):
        EmptyOperator(task_id="t")
"""
    (dags_folder / "c.py").write_text(body)
    wanted = {}
    for number, name in enumerate(NAMES):
        one = callback_attempt("dag_failure", number=number)
        run = msgspec.structs.replace(one.run, file="c.py", dag_id=f"c_{name}")
        wanted[name] = msgspec.structs.replace(one, run=run)

    found = await ends_of(await start(), reports, wanted)

    for name, report in found.items():
        assert report.outcome is Outcome.FAILED, (name, report)
        assert str(report.reason).startswith("callback tells raised "), (name, report)
        assert shown(name) in str(report.reason), (name, report)


async def test_an_exception_that_ends_a_process_ends_only_the_task_whose_child_task_raises_it(
    start_local: StartLocal, reports: Reports
) -> None:
    """asyncio lets SystemExit and KeyboardInterrupt of a task leave the loop: in a worker they do not end it."""
    executor = await start_local(slots=2, async_workers=1)

    wanted = of_each("child", is_async=True)
    del wanted["NoClass"]  # asyncio itself does not survive it: such a child task never ends, for nobody

    found = await ends_of(executor, reports, wanted)

    for name, report in found.items():
        assert report.outcome is Outcome.FAILED, (name, report)
        assert shown(name) in str(report.reason), (name, report)
        assert not report.unattended, (name, report)
