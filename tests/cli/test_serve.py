"""`aiosched serve`: the screen, the ways to end it, what it refuses."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from aiosched.cli.base.options import UsageProblem
from aiosched.cli.serve.screen import Screen, short_run
from aiosched.cli.serve.serve import _Service, read_roles
from aiosched.cli.serve.stopping import StopRequests
from aiosched.config import Settings
from aiosched.parsing.service import ParserStats
from aiosched.scheduler import Scheduler, SchedulerEvent
from tests.cli.conftest import Cli
from tests.cli.serving import serve, stop, wait_for
from tests.patience import PATIENCE

ONE_RUN = """
import asyncio
from datetime import datetime
from aiosched import dag, task

@dag(schedule="@once", start_date=datetime(2026, 1, 1))
def once():
    @task
    async def work():
        {body}
    work()

once()
"""


def put_dag(folder: Path, body: str = "...") -> None:
    (folder / "dags").mkdir()
    (folder / "dags" / "once.py").write_text(ONE_RUN.replace("{body}", body))


def test_until_idle_runs_what_is_due_and_ends(tmp_path: Path, dsn: str) -> None:
    put_dag(tmp_path)

    with serve(tmp_path, dsn, "--until-idle") as process:
        out, err = process.communicate(timeout=60)

    events = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == 0, err
    seen = [event["event"] for event in events]
    assert seen[:5] == ["database", "dags", "executor", "logs", "ready"]
    assert [name for name in seen[5:] if name != "dags"] == ["run_started", "run_finished"]
    told = [event for event in events if event["event"] == "dags"][-1]  # the second, if the first pass took long
    assert (told["dags"], told["errors"]) == (1, 0)
    assert (events[-1]["dag_id"], events[-1]["state"], events[-1]["done"], events[-1]["total"]) == (
        "once", "success", 1, 1,
    )  # fmt: skip
    assert {json.loads(line)["level"] for line in err.splitlines()} <= {"info"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "reason",
    [
        pytest.param("_FIRST_PASS_SECONDS = 0.0", id="slow"),
        pytest.param("_FIRST_PASS_FILES = -1", id="many", marks=pytest.mark.slow),
    ],
)
def test_files_that_are_read_after_the_banner_are_told_as_well(tmp_path: Path, dsn: str, reason: str) -> None:
    """A file that was imported slowly and failed was not mentioned at all."""
    put_dag(tmp_path)
    (tmp_path / "dags" / "wrong.py").write_text("from aiosched import DAG\n1 / 0\n")
    script = (
        "import sys\nfrom aiosched.cli import main\nfrom aiosched.cli.serve import serve\n"
        f"serve.{reason}\n"
        "main(['serve', '--no-web', '--until-idle', '-o', 'json', '--dsn', sys.argv[1]])"
    )

    done = subprocess.run([sys.executable, "-c", script, dsn], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    told = [(event.get("dags"), event.get("errors")) for event in events if event["event"] == "dags"]
    assert told == [(None, None), (1, 1)]


def test_people_see_a_banner_and_a_line_for_each_run_and_current_tables_need_no_sqlalchemy(
    tmp_path: Path, dsn: str
) -> None:
    put_dag(tmp_path)
    script = (
        "import sys\nfrom aiosched.cli import main\n"
        "try:\n    main(['serve', '--no-web', '--until-idle', '--slots', '2', '--dsn', sys.argv[1]])\n"
        "except SystemExit as end:\n    print(end.code, {'alembic', 'sqlalchemy'} & set(sys.modules))"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, dsn], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )

    title, database, dags, executor, logs, ready, started, ended, imported = done.stdout.splitlines()
    assert imported == "0 set()"
    assert title.startswith("aiosched 0.")
    assert database.startswith("  database   PostgreSQL 18")
    assert re.fullmatch(r"  dags       \./dags   1 DAG, 0 errors, parsed in [\d.]+ m?s, watching", dags)
    assert executor == "  executor   local, 2 slots"
    assert logs.startswith("  logs       ./.aiosched/logs, kept for 30 days after a run")
    assert re.fullmatch(r"ready in [\d.]+ s", ready)
    assert re.fullmatch(r"\d\d:\d\d:\d\d once  run \S+ running", started)
    assert re.fullmatch(r"\d\d:\d\d:\d\d once  run \S+ success in [\d.]+ m?s, 1 of 1 tasks", ended)


def say_stopping(process: subprocess.Popen[str], number: signal.Signals) -> str:
    """Ask it to stop; the line that says what still runs."""
    process.send_signal(number)
    assert process.stderr is not None
    return next(line for line in process.stderr if "stopping:" in line)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_the_first_signal_lets_running_tasks_finish(tmp_path: Path, dsn: str, number: signal.Signals) -> None:
    put_dag(tmp_path, "while not __import__('pathlib').Path('go').exists(): await asyncio.sleep(0.05)")

    with serve(tmp_path, dsn) as process:
        wait_for(process, "run_started")
        stopping = say_stopping(process, number)
        (tmp_path / "go").touch()
        _, said = process.communicate(timeout=60)

    assert process.returncode == 0, said
    assert "stopping: 1 task still runs, 30 s left: once work" in stopping
    assert Cli(dsn).json("runs", "show", "once")["counts"] == {"success": 1}


@pytest.mark.slow
def test_the_second_signal_ends_them_and_nothing_is_lost(tmp_path: Path, dsn: str) -> None:
    put_dag(tmp_path, "await asyncio.sleep(600)")

    with serve(tmp_path, dsn) as process:
        wait_for(process, "run_started")
        say_stopping(process, signal.SIGINT)
        said = stop(process, signal.SIGINT)

    run = Cli(dsn).json("runs", "show", "once")
    assert process.returncode == 130, said
    assert run["state"] == "running"
    assert run["tasks"][0]["state"] not in ("success", "failed")


@pytest.mark.slow
def test_the_grace_ends_too(tmp_path: Path, dsn: str) -> None:
    put_dag(tmp_path, "await asyncio.sleep(600)")

    with serve(tmp_path, dsn, "--grace", "0.2") as process:
        wait_for(process, "run_started")
        said = stop(process)

    assert process.returncode == 0, said
    assert "did not finish within 200 ms and will be ended: once work" in said


@pytest.mark.slow  # tests/cli/test_line_writer.py has closed readers
def test_a_reader_that_goes_away_does_not_end_it(tmp_path: Path, dsn: str) -> None:
    put_dag(tmp_path)

    with serve(tmp_path, dsn) as process:
        assert process.stdout is not None
        process.stdout.close()
        watched = Cli(dsn)
        for _ in range(100):
            if watched("runs", "watch", "once", "--timeout", "1", code=None).exit_code == 0:
                break
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0

    assert watched.json("runs", "show", "once")["state"] == "success"


@pytest.mark.slow
def test_run_duration_ends_it_in_order(tmp_path: Path, dsn: str) -> None:
    with serve(tmp_path, dsn, "--run-duration", "1") as process:
        assert wait_for(process, "ready")["version"]
        _, err = process.communicate(timeout=60)

    assert process.returncode == 0, err


@pytest.mark.slow
def test_not_idle_within_the_run_duration_is_exit_code_124(tmp_path: Path, dsn: str) -> None:
    put_dag(tmp_path, "await asyncio.sleep(600)")

    with serve(tmp_path, dsn, "--until-idle", "--run-duration", "2", "--grace", "0") as process:
        _, err = process.communicate(timeout=60)

    assert process.returncode == 124, err
    assert "Runs were still unfinished after 2.0 s" in err


def test_a_parser_alone_fills_the_database_and_requests_from_before_a_scheduler_ran_are_applied_first(
    tmp_path: Path, dsn: str
) -> None:
    put_dag(tmp_path)
    with serve(tmp_path, dsn, "--role", "parser") as process:
        assert wait_for(process, "dags")["dags"] == 1
        wait_for(process, "ready")
        said = stop(process)
    assert process.returncode == 0, said
    assert [row["dag_id"] for row in Cli(dsn).json("dags", "list")] == ["once"]
    assert Cli(dsn).json("schedulers", "list") == []

    asked = Cli(dsn)("dags", "pause", "once")
    with serve(tmp_path, dsn, "--until-idle") as process:
        process.communicate(timeout=60)

    assert asked.stdout == "once\twaits for a scheduler\n"
    assert "no scheduler has applied it yet" in asked.stderr
    assert Cli(dsn).json("dags", "show", "once")["is_paused"] is True
    assert Cli(dsn).json("runs", "list") == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--dags", "nowhere"), 2, "There is no DAGs folder ./nowhere. Start with `aiosched init demo`"),
        (("--executor", "mesos"), 2, "executor.kind = mesos (from --executor)"),
        (("--slots", "0"), 2, "executor.slots = 0 (from --slots)"),
        (
            ("--role", "schedler"),
            2,
            "there are scheduler, web, parser, worker-api. Did you mean scheduler?",
        ),
        (("--no-wait", "--dsn", "postgresql://nobody@127.0.0.1:1/x"), 5, "127.0.0.1:1"),
        (("--until-idle", "--dsn", "postgresql://nobody@127.0.0.1:1/x"), 5, "127.0.0.1:1"),
        (("--no-wait", "--role", "parser", "--dsn", "postgresql://nobody@127.0.0.1:1/x"), 5, "127.0.0.1:1"),
        (("--dsn", "mysql://x"), 2, "must look like postgresql://"),
        (("--role", "web", "--dags", "nowhere", "--dsn", "mysql://x"), 2, "must look like postgresql://"),
    ],
)
def test_what_cannot_work_is_said_at_once(
    tmp_path: Path, cli: Cli, words: tuple[str, ...], code: int, said: str
) -> None:
    (tmp_path / "dags").mkdir()

    result = cli("serve", *words, code=code)

    assert said in result.stderr


@pytest.mark.slow
def test_an_empty_external_database_is_migrated_only_on_request(tmp_path: Path, empty_dsn: str) -> None:
    with serve(tmp_path, empty_dsn, "--until-idle") as process:
        _, refused = process.communicate(timeout=60)
    with serve(tmp_path, empty_dsn, "--until-idle", "--migrate") as again:
        again.communicate(timeout=60)

    assert process.returncode == 5
    assert "aiosched db migrate" in refused
    assert again.returncode == 0


@pytest.mark.parametrize(
    ("text", "roles"),
    [(None, {"scheduler", "web", "parser"}), ("parser", {"parser"}), ("scheduler, parser", {"scheduler", "parser"})],
)
def test_roles_are_a_list(text: str | None, roles: set[str]) -> None:
    assert read_roles(text) == roles


@pytest.mark.parametrize("text", ["", "schedler"])
def test_roles_that_cannot_be_are_wrong_usage(text: str) -> None:
    with pytest.raises(UsageProblem):
        read_roles(text)


def test_a_scheduled_run_is_shown_by_its_logical_date() -> None:
    assert short_run("scheduled__2026-11-20T12:00:00+00:00") == "2026-11-20T12:00:00+00:00"
    assert short_run("manual__2026-11-20T12:00:00+00:00_ab") == "manual__2026-11-20T12:00:00+00:00_ab"


def test_a_slow_first_pass_does_not_hold_the_banner_up(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(None).dags("./dags", None, watching=True)

    assert capsys.readouterr().out == "  dags       ./dags   still parsing, watching\n"


@pytest.mark.parametrize("has_read_all", [True, False])
async def test_a_first_pass_that_a_stop_has_ended_is_not_shown(
    capsys: pytest.CaptureFixture[str], has_read_all: bool
) -> None:
    pass_ended = asyncio.get_running_loop().create_future()
    stats = ParserStats(files=3, dags=3, errors=0, seconds=9.0, elsewhere=0)
    parser = SimpleNamespace(first_pass=pass_ended, stats=stats, has_read_all=has_read_all)
    service = _Service(Settings(), {"scheduler"}, Screen(None), False, False, None)
    service._is_late = True

    async with service._showing_late_files(cast("Scheduler", SimpleNamespace(parser=parser))):
        pass_ended.set_result(None)

    assert ("3 DAGs, 0 errors, parsed in 9.0 s" in capsys.readouterr().out) is has_read_all


def test_files_that_others_parse_are_counted_apart(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(None).dags("./dags", ParserStats(files=0, dags=0, errors=0, seconds=0.2, elsewhere=3), watching=True)

    said = "0 DAGs, 0 errors, parsed in 200 ms, watching; other schedulers parse 3 files"
    assert capsys.readouterr().out == f"  dags       ./dags   {said}\n"


def test_runs_that_move_during_the_banner_are_shown_behind_it(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(None)
    started = SchedulerEvent("run_started", datetime(2026, 1, 1, tzinfo=UTC), "sales", "r1", "running")

    screen.run(started)
    screen.fact("executor", "local, 2 slots")
    screen.ready(0.5)
    screen.run(replace(started, kind="run_finished", state="failed", seconds=2.0, done=1, total=3, reason="timed_out"))

    executor, ready, first, second = capsys.readouterr().out.splitlines()
    assert (executor, ready) == ("  executor   local, 2 slots", "ready in 0.5 s")
    assert first.endswith("sales  run r1 running")
    assert second.endswith("sales  run r1 failed in 2.0 s, 1 of 3 tasks (timed_out)")


async def test_stop_requests_listen_to_signals() -> None:
    import os

    requests = StopRequests()
    requests.install()
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            await requests.asked.wait()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(number)

    assert requests.count == 1


@pytest.mark.slow
def test_the_web_server_ends_before_its_embedded_database(tmp_path: Path, short_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    command = [sys.executable, "-m", "aiosched", "serve", "-o", "json", "--home", str(short_path / "home")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}

    with subprocess.Popen([*command, "--port", "0"], cwd=tmp_path, text=True, **pipes) as process:  # type: ignore[call-overload]
        web = wait_for(process, "web")
        wait_for(process, "ready")
        said = stop(process)

    assert process.returncode == 0
    assert web["url"].startswith("http://127.0.0.1:")
    assert "Traceback" not in said


@pytest.mark.slow  # a process that starts
@pytest.mark.parametrize("how", ["flag", "variable", "file"])
def test_a_port_that_was_chosen_and_is_in_use_ends_serve(
    on_db: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        match how:
            case "variable":
                monkeypatch.setenv("AIOSCHED__WEB__PORT", port)
            case "file":
                (tmp_path / "aiosched.toml").write_text(f"[web]\nport = {port}\n")
        (tmp_path / "dags").mkdir(exist_ok=True)
        done = on_db("serve", *(("--port", port) if how == "flag" else ()), code=2)
    assert f"Port {port} of 127.0.0.1 is in use" in done.stderr
