"""Large values and uploaded logs of attempts in worker processes and in this process."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from aiosched import DAG, task
from aiosched.authoring.base.settings import AuthoringDefaults, defaults, use_defaults
from aiosched.config import Settings
from aiosched.core.values.messages import Outcome, XComPlace
from aiosched.executors.attempt.results import UnusableResult, XComLimits, collect_xcoms
from aiosched.remote.folder import RemoteFolder
from aiosched.remote.pending import list_pending
from aiosched.remote.values import XComRemote
from tests.executors.attempt_builders import FakeServices, Reports, StartLocal, attempt, trigger_attempt, write_dag

ODD = ["ü \U0001f600", "\u2028", {"": None}, [[]], 2**53, -1.5e300]


def remote(folder: Path, **limits: int) -> XComRemote:
    return XComRemote(url=f"file://{folder}", options=None, **{"remote_from": 1_000, "most": 100_000, **limits})


class Recording(FakeServices):
    """Notes the files that attempts reserve."""

    def __init__(self) -> None:
        super().__init__()
        self.reserved: list[dict[str, Any]] = []

    async def call(self, run: int, name: str, args: str) -> str:
        if name != "reserve_xcoms":
            return await super().call(run, name, args)
        self.reserved.append(json.loads(args))
        return "null"


@pytest.fixture
def services() -> Recording:
    return Recording()


BODY = f"""
    def push(ti=None):
        ti.xcom_push("small", 1)
        ti.xcom_push("odd", {ODD!r} * 100)
        return [os.getpid(), "x" * 5_000]
    async def apush(ti=None):
        ti.xcom_push("odd", {ODD!r} * 100)
    def pull(ti=None):
        return [len(ti.xcom_pull("push", key="odd")), os.getpid()]
    async def apull(ti=None):
        return len(await ti.axcom_pull("push", key="odd"))
    def fail(ti=None):
        ti.xcom_push("odd", {ODD!r} * 100)
        raise ValueError("no")
    def opaque():
        return [object()] * 1_000
    task(push), task(apush), task(pull), task(apull), task(fail), task(opaque)
"""


TRIGGER = """
from aiosched.authoring.triggers import BaseTrigger, TriggerEvent
class Pulls(BaseTrigger):
    async def run(self):
        yield TriggerEvent(len(await self.task_instance.axcom_pull("push", key="odd", dag_id="other")))
"""


async def test_a_large_value_goes_to_the_store_and_a_small_one_with_the_report(
    start_local: StartLocal, dags_folder: Path, services: Recording, reports: Reports, tmp_path: Path
) -> None:
    write_dag(dags_folder, BODY)
    executor = await start_local(xcoms=remote(tmp_path / "xcoms"))
    one, other = attempt("push"), attempt("apush", is_async=True, number=1)

    executor.submit([one, other])

    report = await reports.of(one)
    assert [value.key for value in report.xcoms] == ["small"]
    assert [value.key for value in report.stored_xcoms] == ["odd", "return_value"]
    store = RemoteFolder(f"file://{tmp_path}/xcoms", setting="xcom.remote")
    assert json.loads(store.read(report.stored_xcoms[0].path)) == ODD * 100
    assert report.stored_xcoms[0].length == 600
    (odd,) = (await reports.of(other)).stored_xcoms
    assert json.loads(store.read(odd.path)) == ODD * 100
    assert {path for one in services.reserved for path in one["paths"]} == {file.path for file in store.find("")}


async def test_a_value_is_read_by_functions_coroutines_and_triggers_and_the_worker_stays(
    start_local: StartLocal, dags_folder: Path, services: Recording, reports: Reports, tmp_path: Path
) -> None:
    write_dag(dags_folder, BODY)
    (dags_folder / "my_triggers.py").write_text(TRIGGER)
    executor = await start_local(slots=1, xcoms=remote(tmp_path / "xcoms"))
    executor.submit([push := attempt("push")])
    odd, _ = (await reports.of(push)).stored_xcoms
    services.xcoms["push", "odd"] = [(-1, XComPlace(odd.path, odd.size))]  # type: ignore[list-item]

    pulls = [attempt("pull", number=number) for number in (1, 2)]
    awaits = attempt("apull", is_async=True, number=3)
    executor.submit([*pulls, awaits])

    (length, first), (_, second) = [json.loads((await reports.of(one)).xcoms[0].value) for one in pulls]
    assert length == 600
    assert first == second  # its process is not replaced because of what the store needs
    assert (await reports.of(awaits)).xcoms[0].value == "600"

    services.elsewhere["push", "odd"] = services.xcoms["push", "odd"]
    executor.submit([waits := trigger_attempt("my_triggers.Pulls", number=4)])
    assert (await reports.of(waits)).event == "600"


async def test_what_an_attempt_pushed_before_it_failed_is_stored_too(
    start_local: StartLocal, dags_folder: Path, reports: Reports, tmp_path: Path
) -> None:
    write_dag(dags_folder, BODY)
    executor = await start_local(xcoms=remote(tmp_path / "xcoms"))

    executor.submit([one := attempt("fail")])

    report = await reports.of(one)
    assert (report.outcome, report.reason) == (Outcome.FAILED, "ValueError: no")
    assert [value.key for value in report.stored_xcoms] == ["odd"]


async def test_values_that_json_cannot_hold_are_refused_whatever_their_size(
    start_local: StartLocal, dags_folder: Path, reports: Reports, tmp_path: Path
) -> None:
    write_dag(dags_folder, BODY)
    executor = await start_local(xcoms=remote(tmp_path / "xcoms"))

    executor.submit([one := attempt("opaque")])

    assert "return_value[0]" in ((await reports.of(one)).reason or "")
    assert not (tmp_path / "xcoms").exists()


async def test_a_store_that_fails_fails_the_task_and_not_its_worker(
    start_local: StartLocal, dags_folder: Path, reports: Reports, tmp_path: Path
) -> None:
    body = """
    def push():
        import aiosched.remote.values as values
        values.PAUSES = (0.01, 0.02)  # seconds between the tries
        return "x" * 5_000
    task(push)
    """
    write_dag(dags_folder, body)
    (tmp_path / "xcoms").write_text("not a folder")
    executor = await start_local(xcoms=remote(tmp_path / "xcoms"))

    executor.submit([one := attempt("push")])

    report = await reports.of(one)
    assert report.outcome is Outcome.FAILED
    assert f"cannot be written: file://{tmp_path}/xcoms/dag_id=d/run_id=manual__0/task_id=push/" in (
        report.reason or ""
    )


async def test_an_attempt_that_is_killed_while_it_writes_has_reserved_what_it_leaves(
    start_local: StartLocal, dags_folder: Path, services: Recording, reports: Reports, tmp_path: Path
) -> None:
    body = """
    def push(ti=None):
        import aiosched.remote.values as values
        write = values.XComStore.write
        def first_only(self, path, value):
            if value.key == "b":
                os.kill(os.getpid(), signal.SIGKILL)
            return write(self, path, value)
        values.XComStore.write = first_only
        ti.xcom_push("a", "x" * 5_000)
        ti.xcom_push("b", "y" * 5_000)
    task(push)
    """
    write_dag(dags_folder, body)
    executor = await start_local(xcoms=remote(tmp_path / "xcoms"))

    executor.submit([one := attempt("push")])

    assert (await reports.of(one)).outcome is Outcome.FAILED
    (left,) = RemoteFolder(f"file://{tmp_path}/xcoms", setting="xcom.remote").find("")
    (reserved,) = services.reserved
    assert left.path in reserved["paths"]
    assert len(reserved["paths"]) == 2


@pytest.mark.parametrize(
    ("size", "remote_from", "most", "is_remote"),
    [(999, 1_000, 100, True), (1_000, 1_000, 2_000, True), (999, 1_000, 2_000, False), (101, 1_000, 100, True)],
)
def test_the_smaller_limit_decides_where_a_value_goes(size: int, remote_from: int, most: int, is_remote: bool) -> None:
    assert XComLimits(most, remote_from, 10_000).is_remote("7" * size) is is_remote


def test_sizes_are_those_in_bytes() -> None:
    limits = XComLimits(2_000, 1_000, 1_500)

    assert limits.is_remote('"' + "ü" * 499 + '"')
    with pytest.raises(UnusableResult, match=r"has 1,502 bytes, the limit is 1,500.*raise xcom\.max_remote_bytes"):
        collect_xcoms("ü" * 750, (), push_result=True, multiple_outputs=False, limit=limits)


def test_without_a_store_the_error_names_both_settings() -> None:
    with pytest.raises(UnusableResult, match=r"set xcom\.remote, or raise core\.max_xcom_bytes\."):
        collect_xcoms("x" * 100, (), push_result=True, multiple_outputs=False, limit=50)


def test_all_values_of_an_attempt_have_a_limit_for_each_place() -> None:
    limits = XComLimits(100, 50, 200)
    pushed = [(f"k{number}", "x" * 150) for number in range(40)]

    with pytest.raises(UnusableResult, match=r"together, the limit is 3,200.*xcom\.max_remote_bytes"):
        collect_xcoms(None, pushed, push_result=False, multiple_outputs=False, limit=limits)


async def test_logs_of_tries_in_workers_are_announced(
    start_local: StartLocal, dags_folder: Path, logs_folder: Path, reports: Reports
) -> None:
    body = """
    def talk():
        print("words")
    async def whisper(ti=None):
        print("softly")
    def silent(): ...
    def die():
        print("the end")
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    task(talk), task(whisper), task(silent), task(die)
    """
    write_dag(dags_folder, body)
    executor = await start_local(uploads_logs=True)
    names = ("talk", "whisper", "silent", "die")
    tries = [attempt(name, number=number, is_async=name == "whisper") for number, name in enumerate(names)]

    executor.submit(tries)
    await asyncio.gather(*(reports.of(one) for one in tries))

    paths = sorted(log.path.split("/")[-2] for log in list_pending(logs_folder))
    assert paths == ["task_id=die", "task_id=talk", "task_id=whisper"]


@pytest.mark.parametrize(("remote_url", "outcome"), [(None, "failed"), ("s3://never-opened/x", "success")])
async def test_a_test_of_a_dag_accepts_large_values_if_there_is_a_store_for_them(
    remote_url: str | None, outcome: str
) -> None:
    settings = Settings.model_validate({"xcom": {"remote": remote_url, "max_remote_bytes": 3_000_000}})
    before = defaults()
    use_defaults(AuthoringDefaults.of(settings))
    try:
        with DAG("d") as dag:

            @task
            def push() -> str:
                return "x" * 2_000_000

            @task
            def pull(value: str) -> int:
                return len(value)

            pull(push())

        assert (await dag.test()).state == outcome
    finally:
        use_defaults(before)
