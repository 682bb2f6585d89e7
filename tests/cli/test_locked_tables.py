"""Another session holds a lock: `doctor` names it."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from aiosched.cli.operation import doctor
from tests.cli.conftest import Cli
from tests.db.locks import holding, waiting

LOCK = "LOCK TABLE task_instance IN ACCESS EXCLUSIVE MODE"


async def test_the_doctor_names_the_session_for_which_the_scheduler_waits(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_LOCKED_FOR", 0.0)

    async with holding(dsn, LOCK) as holder, waiting(dsn, "aiosched journal", "SELECT FROM task_instance"):
        found = await asyncio.to_thread(partial(Cli(dsn).json, "doctor", code=1))

    findings, pid = {finding["check"]: finding for finding in found}, holder.get_server_pid()
    assert findings["locks"]["status"] == "error"
    assert findings["locks"]["text"].startswith(f"session {pid} (psql, user postgres, idle in transaction, ")
    assert "keeps aiosched journal waiting for a lock on task_instance" in findings["locks"]["text"]
    assert findings["locks"]["fix"] == f"end its transaction, or SELECT pg_terminate_backend({pid})"
    assert findings["parsing"]["status"] == "ok"  # which needs no row of that table
