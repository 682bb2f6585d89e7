"""An alert whose scheduler is killed between opening it and delivering it is delivered by the next one."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from aiosched.db.server.engine import Database
from tests.faults.test_killed_processes import kill, until

BROKEN = "INSERT INTO dag_file (file, partition, dag_ids, error) VALUES ('bad.py', 0, '{d}', 'SyntaxError: oh')"


@pytest.mark.slow
async def test_an_alert_survives_the_scheduler_that_opened_it(dsn: str, tmp_path: Path) -> None:
    """SIGKILL while the notifier is at work: the message is delivered, at least once, and then it is at rest."""
    arguments = (sys.executable, "-m", "tests.faults.alerting_process", dsn, str(tmp_path))
    root, told = Path(__file__).parents[2], tmp_path / "told"
    (tmp_path / "hold").touch()
    async with await Database.open(dsn, application_name="test") as db:

        async def number(query: str) -> int:
            return int(await db.fetchval(query))

        first = await asyncio.create_subprocess_exec(*arguments, "one", cwd=root)
        await until(first, lambda: number("SELECT count(*) FROM alert_rule"), "the rule")
        await db.execute(BROKEN)
        opened = "SELECT count(*) FROM callback_outbox WHERE kind = 'alert' AND attempts = 1"
        await until(first, lambda: number(opened), "the delivery to begin")
        await kill(first)
        assert not told.exists()
        assert await number("SELECT count(*) FROM alert WHERE owes = 'opened' AND told_at IS NULL") == 1

        (tmp_path / "hold").unlink()
        second = await asyncio.create_subprocess_exec(*arguments, "two", cwd=root)
        try:
            delivered = "SELECT count(*) FROM alert WHERE owes IS NULL AND told_at IS NOT NULL"
            await until(second, lambda: number(delivered), "the delivery")
            assert await number("SELECT count(*) FROM callback_outbox") == 0
        finally:
            await kill(second)

    assert set(told.read_text().splitlines()) == {"bad.py cannot be imported: SyntaxError: oh"}
