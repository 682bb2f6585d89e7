"""The service of attempts whose output could not be written."""

from __future__ import annotations

import json
import logging
from uuid import uuid4

import pytest

from aiosched.core.figures.metrics import Metrics
from aiosched.core.values.messages import Attempt, AttemptKey, CallbackCall, RunInfo
from aiosched.core.values.unwritten import TAIL, UnwrittenLog
from aiosched.db.server.engine import Database
from aiosched.db.statements import unwritten_logs
from aiosched.db.statements.unwritten_logs import UnwrittenRow
from aiosched.scheduler.services.log_services import SAY_AGAIN, UnwrittenLogs
from aiosched.scheduler.services.task_services import DatabaseServices
from aiosched.scheduler.why.why import why
from tests.cli.records import NOON as NOW
from tests.cli.records import add_dag, add_run, add_task


def told(run: int, *, text: bytes = b"end\0\xff\n", map_index: int = -1, number: int = 1, calls: bool = False) -> str:
    """What a worker asks about an attempt."""
    info = RunInfo(key=run, dag_id="sales", run_id="one", run_type="manual", run_after=NOW)
    call = CallbackCall(id=3, kind="task_failure") if calls else None
    one = Attempt(
        key=AttemptKey(run, 0, map_index, number), run=info, task_id="t", is_async=False, max_tries=0, callback=call
    )
    log = UnwrittenLog(OSError(28, "No space left on device"))
    log.add(text)
    return log.told(one, "node-1")


async def test_the_last_call_of_a_try_counts_and_a_run_that_is_gone_keeps_nothing(db: Database) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "one")
    metrics = Metrics()
    services = DatabaseServices(db, {"unwritten_log": UnwrittenLogs(metrics.count_unwritten)})

    for text in (b"first\n", b"end\0\xff\n"):
        assert await services.call(run, "unwritten_log", told(run, text=text), request=uuid4()) == "null"
    await services.call(run, "unwritten_log", told(run, number=-2))  # of a trigger: it has the log of its try
    await services.call(run, "unwritten_log", told(run, map_index=4, calls=True))
    await services.call(run + 1, "unwritten_log", told(run + 1))

    row = UnwrittenRow("node-1", "No space left on device", 6, "end\ufffd\ufffd\n")
    assert await unwritten_logs.find(db, AttemptKey(run, 0, -1, 1)) == row
    assert await unwritten_logs.find(db, AttemptKey(run, 0, -1, 2)) == row
    assert await db.fetchval("SELECT count(*) FROM unwritten_log") == 2
    assert metrics.unwritten_logs == 5


async def test_a_thousand_of_them_are_one_line_a_minute(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    service = UnwrittenLogs(lambda: None, monotonic=lambda: now[0])
    services = DatabaseServices(db, {"unwritten_log": service})

    with caplog.at_level(logging.WARNING):
        for second in (0.0, 1.0, SAY_AGAIN - 1, SAY_AGAIN):
            now[0] = 1000.0 + second
            await services.call(1, "unwritten_log", told(1))

    lost = (
        "No space left on device. The end of these 6 bytes is kept in the database; make room, or let it write below "
        "logs.folder"
    )
    assert caplog.messages == [
        f"the log of sales.t could not be written on node-1{others}: {lost}"
        for others in ("", ", and 2 others in the last minute")
    ]


async def test_a_task_that_asks_by_itself_gets_no_more_into_rows_and_the_log(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    run = await add_run(db, "sales", await add_dag(db, "sales"), "one")
    services = DatabaseServices(db, {"unwritten_log": UnwrittenLogs(lambda: None)})
    forged = {
        "name": "x\nCRITICAL forged" + "y" * 10_000, "why": "\x1b[2J", "hostname": "h\0", "lost": 10**30,
        "tail": "z" * 1_000_000, "task_index": 0, "map_index": -1, "try_number": 1,
    }  # fmt: skip

    with caplog.at_level(logging.WARNING):
        await services.call(run, "unwritten_log", json.dumps(forged))

    row = await unwritten_logs.find(db, AttemptKey(run, 0, -1, 1))
    assert row is not None
    assert (len(row.tail), row.lost, row.hostname, row.why) == (TAIL, 2**62, "h\ufffd", "\ufffd[2J")
    assert len(caplog.messages[0]) < 1_000
    assert all(letter.isprintable() for letter in caplog.messages[0])


async def test_why_says_it_of_the_try_and_of_its_run_as_its_log_does(db: Database) -> None:
    version = await add_dag(db, "sales")
    run, other = [await add_run(db, "sales", version, name) for name in ("one", "two")]
    services = DatabaseServices(db, {"unwritten_log": UnwrittenLogs(lambda: None)})
    for key in (run, other):
        await add_task(db, key, 0, "running", try_number=5, map_index=2, queued_at=NOW, start_date=NOW)
        await add_task(db, key, 1, "success", try_number=1, queued_at=NOW, start_date=NOW, end_date=NOW)

    for number in (1, 3, 4, -5):  # an earlier try, the trigger of this one
        await services.call(run, "unwritten_log", told(run, map_index=2, number=number))
    await services.call(run, "unwritten_log", told(run, map_index=2, text=b"", number=3))
    await services.call(run, "unwritten_log", told(run, calls=True))

    lost = "of the log of try {} could not be written on node-1 (No space left on device)"
    end = "; their end is shown at the end of that log"
    assert (await why(db, "sales", "one", "extract", 2)).notes == (
        f"6 bytes {lost.format(5)}{end}", f"6 bytes {lost.format(4)}{end}", f"0 bytes {lost.format(3)}",
    )  # fmt: skip
    assert (await why(db, "sales", "one")).notes == (
        "output of 4 tries could not be written (node-1: No space left on device)",
    )
    for place in (("one", "load"), ("two", "extract", 2), ("two",), ()):
        assert (await why(db, "sales", *place)).notes == ()
