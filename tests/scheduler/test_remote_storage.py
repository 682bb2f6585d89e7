"""Logs and large XComs of tasks that really run, in a folder that stands for an object store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aiosched import DAG, Scheduler, task
from aiosched.config import Settings
from aiosched.db.upkeep.retention import clean
from aiosched.errors import ConfigError
from aiosched.remote.folder import RemoteFolder
from aiosched.remote.log_files import log_folder
from aiosched.remote.logs import AttemptLogs
from aiosched.scheduler.loops.stored_xcoms import remove_batch
from tests.executors.attempt_builders import write_dag
from tests.patience import PATIENCE, until

pytestmark = pytest.mark.usefixtures("kept_supervisors")

ELSEWHERE = Path("/nowhere")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings()
    found.core.home = tmp_path / "home"
    found.core.killed_task_cleanup_time = 0.0
    found.logs.remote = f"file://{tmp_path}/logs"
    found.xcom.remote = f"file://{tmp_path}/xcoms"
    found.xcom.remote_from = 1_000
    found.executor.slots = 2
    return found


def logs_store(settings: Settings) -> RemoteFolder:
    assert settings.logs.remote is not None
    return RemoteFolder(settings.logs.remote, setting="logs.remote")


def xcom_store(settings: Settings) -> RemoteFolder:
    assert settings.xcom.remote is not None
    return RemoteFolder(settings.xcom.remote, setting="xcom.remote")


def said(settings: Settings, run_id: str, task_id: str, try_number: int = 1) -> str:
    """The log of a try as another machine reads it."""
    folder = log_folder(Path(), dag_id="d", run_id=run_id, task_id=task_id).as_posix()
    with AttemptLogs(ELSEWHERE, logs_store(settings)).view(folder, try_number).open() as file:
        return file.read().decode()


def numbers_dag(length: int, seen: list[Any]) -> DAG:
    """A large list, tasks mapped over it, and one that reads it as a whole."""
    with DAG("d") as dag:

        @task
        def numbers(ti: Any = None) -> list[dict[str, Any]]:
            ti.log.info("makes %d", length)
            return [{"number": number, "text": "ü" * 100} for number in range(length)]

        @task
        def one(item: dict[str, Any]) -> int:
            return int(item["number"])

        @task
        async def both(items: list[dict[str, Any]], found: list[int], ti: Any = None) -> None:
            ti.log.info("found %s", found)
            assert [item["number"] for item in items] == found
            assert await ti.axcom_pull("numbers") == items
            seen.extend(found)

        items = numbers()
        both(items, one.expand(item=items))
    return dag


async def test_tasks_are_mapped_over_a_large_value_and_its_file_goes_with_the_run(dsn: str, settings: Settings) -> None:
    seen: list[int] = []
    store = xcom_store(settings)
    async with Scheduler(dsn=dsn, dags=[numbers_dag(20, seen)], executor="inline", settings=settings) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(PATIENCE) == "success"

        assert seen == list(range(20))
        (file,) = store.find("")
        assert json.loads(store.read(file.path))[3] == {"number": 3, "text": "ü" * 100}
        async with scheduler.db.acquire() as conn:
            rows = await conn.fetch("SELECT stored, value FROM xcom WHERE stored IS NOT NULL")
            assert [json.loads(row["stored"]) for row in rows] == [{"path": file.path, "size": file.size, "length": 20}]
            assert len(rows[0]["value"]) < 2_000
            assert await conn.fetch("SELECT FROM unreferenced_xcom") == []

        await clean(scheduler.db, scheduler.clock.now())
        assert await remove_batch(scheduler.db, store) == 0  # an attempt may still read it
        assert await remove_batch(scheduler.db, store, released_for=0.0) == 1
        assert store.find("") == []


async def test_the_earlier_value_of_a_cleared_task_and_those_of_a_deleted_dag_leave_no_file(
    dsn: str, settings: Settings
) -> None:
    store = xcom_store(settings)
    async with Scheduler(dsn=dsn, dags=[numbers_dag(20, [])], executor="inline", settings=settings) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(PATIENCE) == "success"
        (before,) = store.find("")

        await scheduler.clear("d", run_ids=["r"])
        assert await run.wait(PATIENCE) == "success"
        while await remove_batch(scheduler.db, store, released_for=0.0):
            pass
        (after,) = store.find("")
        assert after.path != before.path

        await scheduler.delete("d")
        while await remove_batch(scheduler.db, store, released_for=0.0):
            pass
        assert store.find("") == []


@pytest.mark.parametrize(
    ("size", "outcome", "files"),
    [(998, "success", 0), (999, "success", 1), (5_000, "success", 1), (5_001, "failed", 0)],
)
async def test_where_a_value_goes_depends_on_its_size(
    dsn: str, settings: Settings, size: int, outcome: str, files: int
) -> None:
    settings.core.max_xcom_bytes = 998  # the remote storage takes what is larger than that
    settings.xcom.max_remote_bytes = 5_000
    with DAG("d") as dag:

        @task
        def push() -> str:
            return "x" * (size - 2)

        push()
    async with Scheduler(dsn=dsn, dags=[dag], executor="inline", settings=settings) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(PATIENCE) == outcome

        assert len(xcom_store(settings).find("")) == files
        reason = await scheduler.db.fetchval("SELECT reason FROM task_instance")
    if outcome == "failed":
        assert "has 5,001 bytes, the limit is 5,000" in reason
        assert "xcom.max_remote_bytes" in reason


async def test_a_store_of_values_that_is_down_fails_the_task_with_the_url_and_keeps_the_scheduler(
    dsn: str, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiosched.remote.values.PAUSES", ())
    (tmp_path / "xcoms").write_text("not a folder")
    async with Scheduler(dsn=dsn, dags=[numbers_dag(20, [])], executor="inline", settings=settings) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(PATIENCE) == "failed"
        async with scheduler.db.acquire() as conn:
            reason = await conn.fetchval("SELECT reason FROM task_instance WHERE task_index = 0")
            reserved = await conn.fetchval("SELECT count(*) FROM unreferenced_xcom WHERE try_number = 1")

    assert f"The XCom 'return_value' cannot be written: file://{tmp_path}/xcoms/dag_id=d" in reason
    assert "Check xcom.remote" in reason
    assert reserved == 1


async def test_a_value_whose_file_is_gone_fails_its_reader_with_the_url(dsn: str, settings: Settings) -> None:
    store = xcom_store(settings)
    with DAG("d") as dag:

        @task
        def push() -> str:
            return "x" * 2_000

        @task
        def lose() -> None:
            store.remove_tree("dag_id=d")

        @task
        def pull(ti: Any = None) -> None:
            ti.xcom_pull("push")

        push() >> lose() >> pull()
    async with Scheduler(dsn=dsn, dags=[dag], executor="inline", settings=settings) as scheduler:
        run = await scheduler.trigger("d", run_id="r")
        assert await run.wait(PATIENCE) == "failed"
        reason = await scheduler.db.fetchval("SELECT reason FROM task_instance WHERE state = 'failed'")

    assert f"{store.url}/dag_id=d/run_id=r/task_id=push/attempt=1." in reason
    assert "does not exist" in reason


async def test_a_task_that_only_runs_after_another_does_not_read_its_value(dsn: str, settings: Settings) -> None:
    """The file is gone, and only what reads it would notice."""
    store = xcom_store(settings)
    with DAG("d") as dag:

        @task
        def push() -> list[str]:
            return ["x" * 2_000, "y"]

        @task
        def lose() -> None:
            store.remove_tree("dag_id=d")

        @task
        def one(ti: Any = None) -> None:
            ti.log.info("instance %d", ti.map_index)

        lost = lose()
        pushed = push()
        pushed >> lost >> one()
    async with Scheduler(dsn=dsn, dags=[dag], executor="inline", settings=settings) as scheduler:
        run = await scheduler.trigger("d", run_id="r")

        assert await run.wait(PATIENCE) == "success"

    assert store.find("") == []


TASKS = """
    def talk():
        print("printed", os.getpid())
        sys.stdout.flush()
        while not os.path.exists({gate!r}):
            time.sleep(0.01)
        return "v" * 5000
    def read(ti=None):
        print("got", len(ti.xcom_pull("talk")))
    async def gather(ti=None):
        print("awaited", len(await ti.axcom_pull("talk")))
    def told(context):
        print("the callback ran")
    talk = task(talk)
    talk >> task(read) >> task(gather)
    talk.dag.on_success_callback = [told]
"""


@pytest.mark.slow  # processes; the others store without them
async def test_worker_processes_write_logs_and_values_and_another_machine_reads_them_meanwhile(
    dsn: str, settings: Settings, tmp_path: Path
) -> None:
    gate, folder = tmp_path / "gate", tmp_path / "dags"
    write_dag(folder, TASKS.format(gate=str(gate)))
    async with Scheduler(dsn=dsn, dags_folder=folder, executor="local", settings=settings) as scheduler:
        await scheduler.read_folder()
        run = await scheduler.trigger("d", run_id="r")
        await until(lambda: "printed" in said(settings, "r", "talk"))  # it still runs
        gate.touch()
        assert await run.wait(PATIENCE) == "success"
        await scheduler.wait_idle()

    assert "got 5000" in said(settings, "r", "read")
    assert "awaited 5000" in said(settings, "r", "gather")
    (callback,) = [file for file in logs_store(settings).find("") if "callback=dag_success" in file.path]
    assert b"the callback ran" in logs_store(settings).read(callback.path)
    assert len(xcom_store(settings).find("")) == 1
    assert list((settings.logs_folder / ".remote" / "pending").iterdir()) == []


@pytest.mark.parametrize(
    ("section", "url", "text"),
    [
        ("logs", "nosuch://bucket", "logs.remote = nosuch://bucket cannot be opened"),
        ("xcom", "abfs://bucket/x", "xcom.remote = abfs://bucket/x needs a package"),
    ],
)
async def test_a_store_that_cannot_be_opened_is_said_at_the_start(
    dsn: str, settings: Settings, section: str, url: str, text: str
) -> None:
    getattr(settings, section).remote = url

    with pytest.raises(ConfigError, match=text):
        await Scheduler(dsn=dsn, dags=[numbers_dag(1, [])], executor="inline", settings=settings).start()


async def test_a_folder_of_logs_that_cannot_be_written_is_said_at_the_start(
    dsn: str, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    settings.logs.folder = tmp_path / "file" / "logs"

    with pytest.raises(ConfigError, match=r"file/logs cannot be uploaded: .*logs\.remote needs a logs\.folder"):
        await Scheduler(dsn=dsn, dags=[numbers_dag(1, [])], executor="inline", settings=settings).start()
