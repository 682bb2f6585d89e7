"""`aiosched serve` that starts while its database cannot be used: it waits, says why, and goes on by itself."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from aiosched.db.server.dsn import address_of
from tests.cli.serving import serve, stop, wait_for
from tests.database_answers import CONDITIONS, OF_A_DATABASE
from tests.patience import PATIENCE


def status(url: str) -> int:
    """The status of an answer; it waits in the socket until the web server has imported all."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def until_told(process: subprocess.Popen[str], words: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            json.loads(line)  # one line of the log, and no traceback
            return
    raise AssertionError(f"serve ended with {process.wait()} before it said {words!r}")


@pytest.mark.slow
@pytest.mark.fresh_database  # it is renamed
@pytest.mark.parametrize("role", ["scheduler,web,parser", "parser,web"])
@pytest.mark.parametrize("condition", OF_A_DATABASE)
async def test_it_waits_with_a_web_server_and_goes_on(
    tmp_path: Path, dsn: str, server: Any, condition: str, role: str
) -> None:
    bad, good, reason = CONDITIONS[condition]
    name = address_of(dsn).database
    await server.execute(bad.format(db=name))
    with serve(tmp_path, dsn, "--port", "0", "--role", role) as process:
        until_told(process, reason.format(db=name))
        url = wait_for(process, "web")["url"]
        assert status(f"{url}/livez") == 200
        assert status(f"{url}/readyz") == 503
        assert status(f"{url}/api/v1/pools") == 503

        await server.execute(good.format(db=name))
        wait_for(process, "ready")
        said = stop(process)
        assert process.returncode == 0, said


@pytest.mark.slow
@pytest.mark.parametrize("condition", [one for one in OF_A_DATABASE if one != "renamed"])  # nobody can, once it runs
async def test_a_parser_alone_says_in_its_log_what_it_waits_for_and_goes_on(
    tmp_path: Path, dsn: str, server: Any, condition: str
) -> None:
    """It has no page: what is in the way is a line of its log, when it begins and later."""
    bad, good, reason = CONDITIONS[condition]
    name = address_of(dsn).database
    await server.execute(bad.format(db=name))
    with serve(tmp_path, dsn, "--role", "parser") as process:
        until_told(process, reason.format(db=name))
        await server.execute(good.format(db=name))
        wait_for(process, "ready")

        await server.execute(bad.format(db=name))
        await server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        (tmp_path / "dags").mkdir(exist_ok=True)
        (tmp_path / "dags" / "new.py").write_text("from aiosched import DAG\nDAG('new', schedule=None)\n")
        until_told(process, reason.format(db=name))
        await server.execute(good.format(db=name))
        said = stop(process)
        assert process.returncode == 0, said


@pytest.mark.slow
def test_it_waits_for_somebody_who_migrates(tmp_path: Path, empty_dsn: str) -> None:
    with serve(tmp_path, empty_dsn) as process:
        until_told(process, "aiosched db migrate")
        with serve(tmp_path, empty_dsn, "--until-idle", "--migrate") as other:
            assert other.wait(timeout=PATIENCE) == 0, other.communicate()
        wait_for(process, "ready")
        stop(process)
        assert process.returncode == 0


@pytest.mark.slow
def test_it_can_be_stopped_while_it_waits(tmp_path: Path) -> None:
    with serve(tmp_path, "postgresql://nobody@127.0.0.1:1/x") as process:
        until_told(process, "127.0.0.1:1")
        said = stop(process)
        assert process.returncode == 130, said


@pytest.mark.slow
def test_it_does_not_wait_beyond_the_time_that_it_was_given(tmp_path: Path) -> None:
    with serve(tmp_path, "postgresql://nobody@127.0.0.1:1/x", "--run-duration", "0") as process:
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 5
    assert "127.0.0.1:1" in said


PARSER = """
import itertools, sys
from aiosched.cli import main
from aiosched.parsing.service import Parser
from aiosched.scheduler.membership import outage
from aiosched.scheduler.concurrency import supervision

number, listed = itertools.count(1), Parser._list_once

async def fails(self):
    if next(number) <= {failures}:
        raise ZeroDivisionError("a bug")
    await listed(self)

Parser._list_once, supervision.FIRST_PAUSE, outage.PATIENCE = fails, 0.0, {patience}
main(["serve", "--role", "parser", "--until-idle", "-o", "json", "--dsn", sys.argv[1]])
"""


@pytest.mark.slow
@pytest.mark.parametrize(("failures", "patience", "parsed"), [(2, 300.0, True), (1000, 0.0, False)])
def test_a_parser_of_its_own_outlives_errors_that_nothing_explains_for_minutes(
    tmp_path: Path, dsn: str, failures: int, patience: float, parsed: bool
) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "d.py").write_text("from aiosched import DAG\nwith DAG('d', schedule=None): ...\n")
    script = PARSER.format(failures=failures, patience=patience)

    done = subprocess.run(
        [sys.executable, "-c", script, dsn], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
    )

    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode == 0) is parsed, done.stderr
    assert [each["dags"] for each in told if each["event"] == "dags"][-1:] == ([1] if parsed else []), done.stdout
    assert "a bug" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("role", ["scheduler,parser", "parser"])
def test_a_bundle_that_does_not_come_is_named_while_the_other_dags_are_read(
    tmp_path: Path, dsn: str, role: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts, and answers nothing
        (tmp_path / "dags").mkdir()
        (tmp_path / "dags" / "bad.py").write_text("from aiosched import DAG\nnothing\n")
        away = (
            f'[[dags.bundles]]\nname = "away"\nkind = "archive"\nurl = "http://127.0.0.1:{silent.getsockname()[1]}/a"\n'
        )
        own = f'[[dags.bundles]]\nname = "own"\nkind = "folder"\npath = "{tmp_path / "dags"}"\n'
        (tmp_path / "aiosched.toml").write_text(away + own)
        with serve(tmp_path, dsn, "--role", role) as process:
            told = wait_for(process, "dags", read=False)
            said = stop(process)
    assert "still parsing, watching: the bundle away is being fetched, the other files are read" in told["text"]
    assert said.count("own:bad.py:2 cannot be used: NameError: name 'nothing' is not defined") == 1
