"""Deferral, callbacks and deadlines with tasks that really run: the semantics reference, sections 23 and 25."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiosched import DAG, BaseOperator, DeadlineAlert, DeadlineReference, Scheduler
from aiosched.authoring.triggers.temporal import DateTimeTrigger
from aiosched.config import Settings

PAST = datetime(2026, 1, 1, tzinfo=UTC)


class Patient(BaseOperator):
    """Defers once, and returns the event."""

    def execute(self, context: Any) -> None:
        self.defer(trigger=DateTimeTrigger(PAST), method_name="go_on", kwargs={"by": timedelta(days=1)})

    def go_on(self, context: Any, event: Any, by: timedelta) -> str:
        return (event + by).isoformat()  # type: ignore[no-any-return]


class Hopeless(BaseOperator):
    """Defers on something that never comes."""

    def execute(self, context: Any) -> None:
        self.defer(trigger=DateTimeTrigger(datetime.max.replace(tzinfo=UTC)), method_name="never", timeout=0.01)


async def test_a_run_with_all_of_it(dsn: str, tmp_path: Path) -> None:
    told: asyncio.Queue[tuple[str, str | None]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def tell(kind: str) -> Any:
        return lambda context: loop.call_soon_threadsafe(told.put_nowait, (kind, context["reason"]))

    late = DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT, interval=timedelta(seconds=-1), callback=tell("late")
    )
    with DAG("patience", deadline=late, on_success_callback=tell("good"), on_failure_callback=tell("bad")) as good:
        Patient(task_id="patient")
    with DAG("despair", on_success_callback=tell("good"), on_failure_callback=tell("bad")) as bad:
        Hopeless(task_id="hopeless")
    settings = Settings()
    settings.core.home = tmp_path

    async with Scheduler(dsn=dsn, dags=[good, bad], executor="inline", settings=settings) as scheduler:
        patience = await scheduler.trigger("patience")
        assert await patience.wait(30) == "success"
        despair = await scheduler.trigger("despair")
        assert await despair.wait(30) == "failed"
        heard = {await told.get() for _ in range(3)}
        await scheduler.wait_idle()

        assert heard == {("late", "deadline_missed"), ("good", "success"), ("bad", "task_failure")}
        assert told.empty()
        async with scheduler.db.acquire() as conn:
            assert await conn.fetchval("SELECT value FROM xcom") == '"2026-01-02T00:00:00+00:00"'
            assert await conn.fetchval("SELECT count(*) FROM callback_outbox") == 0
            assert await conn.fetchval("SELECT count(*) FROM deferred_trigger") == 0
            reason = await conn.fetchval("SELECT reason FROM task_instance WHERE run_id = $1", despair.key)
        assert "Trigger timeout" in reason
