"""`serve --until-idle` ends when the whole fleet has nothing left to do, whatever was killed before."""

from __future__ import annotations

import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aiosched import __version__
from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli
from tests.cli.records import quarantine
from tests.cli.serving import serve, wait_for

ONCE = """
import asyncio, time
from datetime import datetime, timedelta
from pathlib import Path
from aiosched import DAG, dag, get_current_context, task
from aiosched.triggers import TimeDeltaTrigger
{top}

@dag("{name}", schedule={schedule}, start_date=datetime(2026, 1, 1), is_paused_upon_creation={paused})
def once():
    @task({options})
    async def work():
{body}
    @task
    async def after():
        pass
    work() >> after()

once()
"""


def put_dag(
    folder: Path,
    body: str = "pass",
    *,
    name: str = "once",
    schedule: str = '"@once"',
    options: str = "",
    top: str = "",
    paused: bool = False,
) -> None:
    (folder / "dags").mkdir(exist_ok=True)
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    text = ONCE.format(name=name, schedule=schedule, options=options, body=lines, top=top, paused=paused)
    (folder / "dags" / f"{name}.py").write_text(text)


def until_idle(folder: Path, dsn: str, *words: str) -> str:
    """Run it to its end, which must be a good one; what it said on stderr."""
    with serve(folder, dsn, "--until-idle", *words) as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    return said


@pytest.mark.slow
@pytest.mark.parametrize(
    "delay",
    [0.1, pytest.param(2.5, marks=pytest.mark.slow)],  # seconds between the kill and the next start
)
def test_after_sigkill_it_waits_for_what_was_under_way(tmp_path: Path, dsn: str, delay: float) -> None:
    put_dag(tmp_path, "await asyncio.sleep(1)")
    with serve(tmp_path, dsn) as process:
        wait_for(process, "run_started")
        process.send_signal(signal.SIGKILL)
    time.sleep(delay)

    until_idle(tmp_path, dsn)

    assert Cli(dsn).json("runs", "show", "once")["state"] == "success"


@pytest.mark.slow  # two starts
def test_after_sigkill_it_reads_the_files_that_nobody_had_read(tmp_path: Path, dsn: str) -> None:
    put_dag(tmp_path, name="quick")
    put_dag(tmp_path, name="slow", top="while not Path('go').exists():\n    time.sleep(0.05)")
    with serve(tmp_path, dsn) as process:
        wait_for(process, "run_started")
        process.send_signal(signal.SIGKILL)
    (tmp_path / "go").touch()

    until_idle(tmp_path, dsn)

    for name in ("quick", "slow"):
        assert Cli(dsn).json("runs", "show", name)["state"] == "success"


@pytest.mark.slow  # two services side by side; tests/scheduler/test_idle.py has peers without processes
def test_beside_another_scheduler_it_waits_for_the_runs_of_both(tmp_path: Path, dsn: str) -> None:
    names = [f"once_{number}" for number in range(6)]
    for name in names:
        body = "while not Path('go').exists():\n    await asyncio.sleep(0.05)\nawait asyncio.sleep(1)"
        put_dag(tmp_path, body, name=name)
    with serve(tmp_path, dsn, "--name", "other") as other:
        wait_for(other, "run_started")

        with serve(tmp_path, dsn, "--until-idle", "--name", "mine") as process:
            wait_for(process, "ready")
            (tmp_path / "go").touch()
            _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said

        assert {Cli(dsn).json("runs", "show", name)["state"] for name in names} == {"success"}
        assert other.poll() is None


@pytest.mark.slow  # tests/scheduler/test_idle.py has both
def test_it_waits_for_a_retry_and_for_a_deferred_task(tmp_path: Path, dsn: str) -> None:
    fails_once = 'if get_current_context()["ti"].try_number == 1:\n    raise ValueError("once")'
    put_dag(tmp_path, fails_once, name="retried", options="retries=1, retry_delay=timedelta(seconds=1)")
    (tmp_path / "dags" / "deferred.py").write_text(
        "from datetime import datetime, timedelta\n"
        "from aiosched import DAG, TimeDeltaSensor\n"
        'with DAG("deferred", schedule="@once", start_date=datetime(2026, 1, 1)):\n'
        '    TimeDeltaSensor(task_id="wait", delta=timedelta(seconds=1), deferrable=True)\n'
    )

    until_idle(tmp_path, dsn)

    for name in ("retried", "deferred"):
        assert Cli(dsn).json("runs", "show", name)["state"] == "success"


@pytest.mark.slow  # two starts; tests/scheduler/test_idle.py has paused DAGs
def test_runs_of_paused_dags_and_files_with_errors_are_not_waited_for(tmp_path: Path, dsn: str) -> None:
    put_dag(tmp_path, "await asyncio.sleep(600)", name="paused")
    put_dag(tmp_path, name="broken", top="raise RuntimeError('no')")
    cli = Cli(dsn)
    with serve(tmp_path, dsn) as process:
        wait_for(process, "run_started")
        cli("dags", "pause", "paused")
        process.send_signal(signal.SIGKILL)
    put_dag(tmp_path)

    until_idle(tmp_path, dsn)

    assert cli.json("runs", "show", "paused")["state"] == "running"
    assert cli.json("runs", "show", "once")["state"] == "success"
    assert [error["file"] for error in cli.json("dags", "errors")] == ["broken.py"]


@pytest.mark.slow  # two starts
def test_a_dag_that_stays_in_quarantine_ends_it_with_an_error_that_names_it(tmp_path: Path, dsn: str) -> None:
    put_dag(tmp_path, name="held")
    until_idle(tmp_path, dsn)
    cli = Cli(dsn)
    cli.work(hold)
    put_dag(tmp_path, name="fine")

    with serve(tmp_path, dsn, "--until-idle") as process:
        _, said = process.communicate(timeout=60)

    assert process.returncode == 1, said
    assert "DAG 'held' is in quarantine since" in said
    assert "3 times in a row" in said
    assert "`aiosched dags release held`" in said
    assert "Traceback" not in said
    assert cli.json("runs", "show", "fine")["state"] == "success"


async def hold(db: Database) -> None:
    """Put the DAG `held` into quarantine for an hour, as if it had failed three times in a row."""
    version = await db.fetchval("SELECT version_id FROM dag WHERE dag_id = 'held'")
    hour = datetime.now(UTC) + timedelta(hours=1)
    await quarantine(db, "held", failures=3, retry_at=hour, version=__version__, dag_version_id=version)
