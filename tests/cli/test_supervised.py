"""`serve` under a supervisor: systemd hears of it, and an event loop that does not come back ends the process."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from aiosched.cli.serve.supervisor import STUCK_EXIT_CODE, supervised
from tests.cli.conftest import Cli
from tests.cli.serving import serve, wait_for

BLOCKS = """
import time
from aiosched import dag, task

@dag(schedule=None)
def hangs():
    @task
    async def block():
        time.sleep(3600)

    block()

hangs()
"""


def health(url: str) -> str:
    try:
        asked = urllib.request.Request(f"{url}/health", headers={"Authorization": "Bearer the-metrics"})
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return str(answer.read())
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read()!r}"


@pytest.mark.slow  # it lasts almost three leases
def test_a_loop_that_is_blocked_for_ever_turns_health_red_and_ends_its_process(
    cli: Cli, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "hangs.py").write_text(BLOCKS)
    monkeypatch.setenv("AIOSCHED__SCHEDULER__LEASE", "5")
    monkeypatch.setenv("AIOSCHED__METRICS__TOKEN", "the-metrics")
    command = [sys.executable, "-m", "aiosched"]

    with serve(tmp_path, dsn, "--executor", "inline", "--port", "0", web=True) as process:
        url = wait_for(process, "web")["url"]
        wait_for(process, "ready")
        subprocess.run([*command, "dags", "trigger", "hangs", "--dsn", dsn], check=True, capture_output=True)
        seen = ""
        while "the event loop is blocked" not in (seen := health(url)):
            assert process.poll() is None, seen
        check = cli("schedulers", "check", "--dsn", dsn, code=1)  # in this process: it has only until the lease ends

        _, said = process.communicate(timeout=60)

    assert seen.startswith("503")
    assert "has been blocked for" in check.stderr
    assert process.returncode == STUCK_EXIT_CODE
    assert "the event loop does not come back from block" in said


async def test_systemd_hears_of_the_start_the_end_and_each_sign_of_life(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(path)
        sock.setblocking(False)
        loop = asyncio.get_running_loop()

        async with supervised({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "2000"}):
            heard = [await loop.sock_recv(sock, 100) for _ in range(4)]
        rest = []
        while not rest or rest[-1] != b"STOPPING=1":
            rest.append(await loop.sock_recv(sock, 100))

    assert heard == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1", b"WATCHDOG=1"]
    assert set(rest) <= {b"WATCHDOG=1", b"STOPPING=1"}


async def test_without_systemd_nothing_is_sent() -> None:
    async with supervised({}):
        assert "NOTIFY_SOCKET" not in os.environ


async def test_a_socket_that_is_gone_does_no_harm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with supervised({"NOTIFY_SOCKET": str(tmp_path / "gone")}):
        pass

    assert "systemd cannot be notified of READY=1" in caplog.text
