"""Another session holds a lock: `doctor` names it, and no command waits for ever."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from aiosched.cli.base import session
from aiosched.cli.operation import doctor
from aiosched.db.server.engine import Database
from tests.cli.conftest import Cli
from tests.cli.records import add_dag, add_run
from tests.db.locks import holding, waiting

LOCK = "LOCK TABLE task_instance IN ACCESS EXCLUSIVE MODE"


async def test_the_doctor_names_the_session_for_which_the_scheduler_waits(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "LOCKED_FOR", 0.0)

    async with holding(dsn, LOCK) as holder, waiting(dsn, "aiosched journal", "SELECT FROM task_instance"):
        found = await asyncio.to_thread(partial(Cli(dsn).json, "doctor", code=1))

    findings, pid = {finding["check"]: finding for finding in found}, holder.get_server_pid()
    assert findings["locks"]["status"] == "error"
    assert findings["locks"]["text"].startswith(f"session {pid} (psql, user postgres, idle in transaction, ")
    assert "keeps aiosched journal waiting for a lock on task_instance" in findings["locks"]["text"]
    assert findings["locks"]["fix"] == f"end its transaction, or SELECT pg_terminate_backend({pid})"
    assert findings["parsing"]["status"] == "ok"  # which needs no row of that table


async def test_the_doctor_reports_what_it_cannot_read(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LOCKED_FOR", 0.0)
    monkeypatch.setattr(session, "LOCK_TIMEOUT", "100ms")

    async with holding(dsn, "LOCK TABLE dag_file IN ACCESS EXCLUSIVE MODE") as holder:
        found = await asyncio.to_thread(partial(Cli(dsn).json, "doctor", code=1))

    checks = [finding["check"] for finding in found if finding["check"] != "postgresql"]  # which depends on the day
    assert checks == ["database", "locks", "schema", "schedulers", "database"]
    assert found[1]["text"].endswith(" has locked dag_file")
    assert found[1]["fix"] == f"end its transaction, or SELECT pg_terminate_backend({holder.get_server_pid()})"
    assert "holds a lock" in found[-1]["text"]
    assert found[-1]["fix"] == "release the lock"


@pytest.mark.parametrize("words", [("why", "sales", "latest"), ("runs", "show", "sales", "latest"), ("db", "info")])
async def test_a_command_does_not_wait_for_ever(
    db: Database, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LOCK_TIMEOUT", "100ms")
    await add_run(db, "sales", await add_dag(db, "sales"), "first")

    async with holding(db.dsn, LOCK):
        said = await asyncio.to_thread(partial(Cli(db.dsn), *words, code=5))

    assert "Another session" in said.stderr
    assert "`aiosched doctor` names the session" in said.stderr
    assert len(said.stderr.splitlines()) == 1
