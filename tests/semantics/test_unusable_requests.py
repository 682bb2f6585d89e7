"""Requests whose arguments cannot be: each is refused with a reason, and nothing stops the scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from aiosched.clock import FakeClock
from aiosched.errors import AioschedError
from tests.scheduler.harness import dag, running, task

FROM_TO = {"from": "2025-01-01T00:00:00+00:00", "to": "2025-01-03T00:00:00+00:00"}


REFUSED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("trigger", {"run_id": "a\x00b"}),
    ("trigger", {"run_id": ["r"]}),
    ("trigger", {"run_id": "r", "logical_date": "2026-01-01T00:00:00"}),
    ("trigger", {"run_id": "r", "conf": [1]}),
    ("cancel_run", {"run_id": "a\x00b"}),
    ("clear", {"run_ids": ["a\x00b"]}),
    ("clear", {"run_ids": ["running"], "pattern": "("}),
    ("clear", {"from": "2025-01-01T00:00:00", "to": "2025-01-03T00:00:00"}),
    ("mark_run", {"run_id": "a\x00b", "state": "success"}),
    ("mark_tasks", {"run_ids": ["running"], "task_ids": ["a"], "state": "nonsense"}),
    ("backfill_create", FROM_TO | {"max_active_runs": 10**12}),
    ("backfill_create", FROM_TO | {"max_active_runs": -1}),
    ("backfill_create", {"from": "2025-01-01T00:00:00", "to": "2025-01-03T00:00:00"}),
    ("backfill_create", FROM_TO | {"rerun": "sometimes"}),
    ("backfill_pause", {"id": 10**30}),
    ("backfill_cancel", {"id": 7}),
)


async def test_a_request_that_cannot_be_is_refused(dsn: str, clock: FakeClock, subtests: pytest.Subtests) -> None:
    async with running(dsn, clock, dag("d", task("a"), schedule="@daily"), dag("other", task("a"))) as it:
        await it.trigger("d", "running")
        for number, (verb, args) in enumerate(REFUSED):
            with subtests.test(verb=verb, args=args):
                with pytest.raises(AioschedError):
                    await it.ask(verb, "d", **args)

                await it.trigger("other", f"r{number}")
                assert (await it.runs("other"))[f"r{number}"] == "running"
