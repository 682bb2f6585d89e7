"""What waits for its database at the start: the processes of `aiosched serve`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiosched.cli.serve.waiting import when_usable
from aiosched.config import Settings
from aiosched.config.sections import CoreSettings, LogSettings
from aiosched.db.server.dsn import address_of
from aiosched.errors import DatabaseUnreachable, UnsupportedDatabase
from aiosched.scheduler.membership import outage
from tests.cli.test_serve_waits import until_told
from tests.database_answers import CONDITIONS, OF_A_DATABASE, OF_THE_DATABASE
from tests.one_dag import Broken
from tests.patience import PATIENCE


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(outage, "LAST_PAUSE", 0.0)


def never() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


async def test_it_starts_after_any_class_of_errors() -> None:
    left: list[Exception] = [kind("said") for kind in OF_THE_DATABASE]
    left += [DatabaseUnreachable("gone")]
    number, told = len(left), []

    async def start() -> str:
        if left:
            raise left.pop()
        return "started"

    async def tell() -> None:
        told.append(len(left))

    assert await when_usable(start, never(), on_wait=tell) == "started"
    assert len(told) == number


@pytest.mark.parametrize(
    "error",
    [
        Broken("a bug"),
        UnsupportedDatabase("PostgreSQL 9"),
        PermissionError(13, "Permission denied", "/srv/logs"),
        OSError(28, "No space left on device"),
        ConnectionRefusedError(111, "of the place of logs"),
    ],
    ids=str,
)
async def test_what_waiting_does_not_help_is_raised(error: Exception) -> None:
    async def start() -> None:
        raise error

    with pytest.raises(type(error)):
        await when_usable(start, never())


async def test_who_may_not_wait_is_told_the_error() -> None:
    async def start() -> None:
        raise DatabaseUnreachable("gone")

    with pytest.raises(DatabaseUnreachable):
        await when_usable(start, never(), may_wait=lambda: False)


@pytest.mark.parametrize("hangs", [True, False])
async def test_it_can_be_asked_to_stop_during_a_try_and_between_two(
    monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    monkeypatch.setattr(outage, "FIRST_PAUSE", PATIENCE)
    asked, cancelled = never(), []

    async def start() -> None:
        asyncio.get_running_loop().call_soon(asked.set_result, None)
        if not hangs:
            raise DatabaseUnreachable("gone")
        try:
            await never()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async with asyncio.timeout(PATIENCE / 2):
        assert await when_usable(start, asked) is None
    assert cancelled == [True] * hangs


@contextlib.contextmanager
def peer(folder: Path, dsn: str) -> Iterator[subprocess.Popen[str]]:
    """Another scheduler of `serve --schedulers N`."""
    settings = Settings(core=CoreSettings(home=folder / "home"), logs=LogSettings(format="json"))
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "aiosched.cli.serve.peer_process", str(writing)]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=folder, text=True, pass_fds=(writing,), **pipes) as process:  # type: ignore[call-overload]
        os.close(writing)
        say(process, {"settings": settings.model_dump(mode="json"), "dsn": dsn, "name": "n-2"})
        try:
            yield process
        finally:
            process.kill()
            os.close(reading)


def say(process: subprocess.Popen[str], order: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(order) + "\n")
    process.stdin.flush()


@pytest.mark.slow
@pytest.mark.fresh_database  # it is renamed
@pytest.mark.parametrize("condition", OF_A_DATABASE)
async def test_another_scheduler_of_this_machine_waits_and_joins(
    tmp_path: Path, dsn: str, server: Any, condition: str
) -> None:
    bad, good, reason = CONDITIONS[condition]
    name = address_of(dsn).database
    await server.execute(bad.format(db=name))
    with peer(tmp_path, dsn) as process:
        until_told(process, reason.format(db=name))
        await server.execute(good.format(db=name))
        until_told(process, "it can be used again")
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=PATIENCE) == 0


@pytest.mark.slow
@pytest.mark.parametrize("order", [{"announce": True}, {"drain": 1.0}, None])
def test_another_scheduler_that_waits_ends_when_all_stop(tmp_path: Path, order: dict[str, Any] | None) -> None:
    with peer(tmp_path, "postgresql://nobody@127.0.0.1:1/x") as process:
        until_told(process, "127.0.0.1:1")
        if order is None:
            assert process.stdin is not None
            process.stdin.close()
        else:
            say(process, order)
        assert process.wait(timeout=PATIENCE) == 0
