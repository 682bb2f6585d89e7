"""The campaign `poison`: healthy DAGs beside poisoned ones; the healthy ones must not notice.

Calm and poisoned windows alternate, so that other work on the machine falls into both. Rule: every run of a healthy
DAG succeeds, no scheduler process ends, the lag of healthy runs is at most twice that of the calm windows, and each
poison is named somewhere, or harmless (naming.py). The lag of a window is the 99th percentile of its runs, that of all
windows of a kind the median: a pause of the machine spoils one window and not the result. A round with few windows only
counts the lag, and does not judge it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import shutil
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import asyncpg

from aiosched.db.server.migrate import migrate
from tests.faults.campaign.campaigns import Size
from tests.faults.campaign.fleet import Service
from tests.faults.campaign.measures import percentile
from tests.faults.campaign.naming import NOWHERE, Mark, names_of, read_names
from tests.faults.campaign.poison import POOL, VICTIMS, Poisoner, one
from tests.faults.campaign.postgres import Postgres
from tests.faults.campaign.results import Result
from tests.faults.campaign.stage import folder_of
from tests.faults.checker import Violation

POISON: Final = "poison"
POISONED: Final = Size(faults=300, tasks=0, gap=0.0, seed=13, schedulers=1)
POISONED_LONG: Final = Size(faults=10_000, tasks=0, gap=0.0, seed=13, schedulers=2)
HEALTHY: Final = 50
EVERY: Final = 4  # seconds between two runs of a healthy DAG
PER_SECOND: Final = 20.0
POISONS_PER_WINDOW: Final = 160
LEAST_PAIRS: Final = 2  # of a calm and a poisoned window
JUDGED_PAIRS: Final = 10  # with fewer, the medians say nothing on a machine that does other work
FLOOR: Final = 0.05  # seconds: a lag of some commits of two tasks; twice as much is never too much
BEGUN: Final = "SELECT count(DISTINCT dag_id) FROM dag_run WHERE dag_id LIKE 'healthy%' AND state = 'success'"
_START: Final = 60.0
_LAST_RUNS: Final = 20.0
_LAST_NAMES: Final = 30.0  # a victim gets another run meanwhile, and everything is polled

HEALTHY_FILE: Final = """\
from datetime import datetime, timedelta, timezone
from aiosched import DAG, task

with DAG({dag_id!r}, schedule=timedelta(seconds={every}), start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
         max_active_runs=4):
    @task
    async def a():
        return {{"rows": 3}}

    @task
    async def b(found):
        assert found == {{"rows": 3}}

    b(a())
"""

VICTIM_FILE: Final = """\
from datetime import datetime, timedelta, timezone
from aiosched import DAG, Asset, task

with DAG({dag_id!r}, schedule={schedule}, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), max_active_runs=6):
    @task(pool={pool!r}, retries=1, retry_delay=timedelta(seconds=1), outlets=[Asset("news")])
    async def a():
        return [1, 2]

    @task(pool={pool!r}, depends_on_past={past})
    async def b(n):
        if {fails}:
            raise ValueError(n)

    @task(trigger_rule="all_done")
    async def c():
        pass

    b.expand(n=a()) >> c()
"""


async def play_poison(size: Size, command: str, *, deadline: float | None = None, keep: Path | None = None) -> Result:
    """One round of the campaign with `size.faults` poisons and `size.schedulers` schedulers, judged."""
    folder, began = folder_of(keep), time.monotonic()
    result = Result(
        "poison", command, size.seed, HEALTHY, minima={"poisons": size.faults // 2, "noticed": size.faults // 20}
    )
    postgres = Postgres(folder)
    services = [_service(f"s{n}", folder, n) for n in range(size.schedulers)]
    try:
        await postgres.start()
        await migrate(postgres.dsn)
        _write(folder)
        await postgres.ask("INSERT INTO pool (name, slots) VALUES ($1, 3)", POOL)
        for service in services:
            service.dsn = postgres.dsn
            await service.start()
        async with asyncio.timeout(deadline or 150 + 3 * size.faults / PER_SECOND):
            await _play(postgres, services, folder, size, result)
    except TimeoutError:
        result.troubles.append("the round did not end in time")
    finally:
        orderly = await asyncio.gather(*(service.stop(30.0) for service in services))
        if not all(orderly):
            result.troubles.append("a scheduler did not end in order")
        await postgres.stop()
    _read_logs(services, result)
    result.seconds = time.monotonic() - began
    if keep is None and result.passed:
        shutil.rmtree(folder)
    elif not result.passed:
        result.troubles.append(f"logs: {folder}")
    return result


def _service(name: str, folder: Path, number: int) -> Service:
    settings = {
        "AIOSCHED__SCHEDULER__SAFETY_POLL": "2",
        "AIOSCHED__EXECUTOR__SLOTS": "4",
        "AIOSCHED__DATABASE__POOL_SIZE": "4",
        "AIOSCHED__PARSING__PROCESSES": "1",
        "AIOSCHED__CORE__DAGBAG_IMPORT_TIMEOUT": "1",
        "AIOSCHED__LOGS__FORMAT": "json",
        "AIOSCHED__LOGS__RETENTION_DAYS": "1",
    }
    return Service(name, "inline" if number % 2 == 0 else "local", "", folder, settings)


def _write(folder: Path) -> None:
    (folder / "dags").mkdir()
    (folder / "lib").mkdir()
    (folder / "records").mkdir()
    for n in range(HEALTHY):
        text = HEALTHY_FILE.format(dag_id=f"healthy{n:03}", every=EVERY)
        (folder / "dags" / f"healthy{n:03}.py").write_text(text)
    for n in range(VICTIMS):
        schedule = "Asset('news')" if n % 4 == 3 else f"timedelta(seconds={EVERY})"
        text = VICTIM_FILE.format(
            dag_id=f"victim{n:02}",
            schedule=schedule,
            pool=POOL,
            past=n % 2 == 0,
            fails="True" if n % 3 == 0 else "False",
        )
        (folder / "dags" / f"victim{n:02}.py").write_text(text)


async def _play(postgres: Postgres, services: list[Service], folder: Path, size: Size, result: Result) -> None:
    async with asyncio.timeout(_START):
        while await postgres.value(BEGUN) < HEALTHY:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    conn = await asyncpg.connect(postgres.dsn)
    seen = Counter[str]()
    spans: dict[bool, list[tuple[Any, Any]]] = {True: [], False: []}
    pairs = max(LEAST_PAIRS, size.faults // POISONS_PER_WINDOW)
    poisoner = Poisoner(random.Random(size.seed), conn, folder)
    seconds = max(size.faults / pairs / PER_SECOND, 1.5 * EVERY)
    calm = seconds if pairs >= JUDGED_PAIRS else 0.0  # with fewer, nothing is compared with them
    try:
        for phase in range(2 * pairs):
            is_poisoned, began = phase % 2 == 1, await postgres.value("SELECT now()")
            until = time.monotonic() + (seconds if is_poisoned else calm)
            for _ in range(size.faults // pairs if is_poisoned else 0):
                name = await one(poisoner)
                seen[name] += 1
                seen["poisons"] += name != "refused by PostgreSQL"
                await asyncio.sleep(seconds / (size.faults / pairs))
            await asyncio.sleep(max(0.0, until - time.monotonic()))
            spans[is_poisoned].append((began, await postgres.value("SELECT now()")))
            for service in services:
                if not service.alive:
                    result.violations.append(Violation("no_process_ends", f"{service.name}: {service.last_words()}"))
                    return
        end = await postgres.value("SELECT now()")
        await _judge_runs(postgres, end, result)
        lags = {poisoned: [await _lags(postgres, *span) for span in some] for poisoned, some in spans.items()}
    finally:
        await conn.close()
    seen.update(await _noticed(postgres))
    judge_lag(lags[False], lags[True], seen, result)
    for mark, name in await _names(postgres, services, poisoner.marks):
        seen[name] += 1
        if name == NOWHERE:
            what = f"seed {size.seed}, number {mark.number}, about {mark.dag_id}: {mark.place}"
            result.violations.append(Violation("each_poison_is_named", what))
    result.counts = dict(seen)


async def _judge_runs(postgres: Postgres, end: Any, result: Result) -> None:
    """All healthy runs up to `end` succeed, and none is missing."""
    due = "dag_id LIKE 'healthy%' AND run_after <= $1"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LAST_RUNS):
            unfinished = f"SELECT 1 FROM dag_run WHERE {due} AND state NOT IN ('success', 'failed')"
            while await postgres.ask(unfinished, end):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
    for dag_id, run_id, state in await postgres.ask(
        f"SELECT dag_id, run_id, state FROM dag_run WHERE {due} AND state <> 'success'", end
    ):
        result.violations.append(Violation("healthy_runs_succeed", f"{dag_id} {run_id} is {state}"))
    rows = await postgres.ask(
        f"""SELECT dag_id, count(*), extract(epoch FROM max(run_after) - min(run_after))::float8
              FROM dag_run WHERE {due} GROUP BY 1""", end
    )  # fmt: skip
    if len(rows) < HEALTHY:
        result.violations.append(Violation("healthy_runs_succeed", f"only {len(rows)} healthy DAGs have runs"))
    for dag_id, count, span in rows:
        if count < span / EVERY - 1:
            result.violations.append(Violation("no_run_is_missing", f"{dag_id} has {count} runs in {span:.0f} s"))
    waiting = await postgres.ask(
        """SELECT id, verb, dag_id FROM request
            WHERE state = 'waiting' AND created_at < $1::timestamptz - interval '10 s'""", end
    )  # fmt: skip
    for number, verb, dag_id in waiting:
        result.violations.append(Violation("requests_are_answered", f"{number}: {verb!r} about {dag_id}"))


async def _names(postgres: Postgres, services: list[Service], marks: Sequence[Mark]) -> list[tuple[Mark, str]]:
    """What names each poison, once all of them are named, or had the time for it."""
    until = time.monotonic() + _LAST_NAMES
    while True:
        victims = [f"victim{n:02}" for n in range(VICTIMS)]
        found = names_of(await read_names(postgres.dsn, services, victims), marks)
        if time.monotonic() > until or not any(name == NOWHERE for _, name in found):
            return found
        await asyncio.sleep(1.0)


def judge_lag(calm: list[list[float]], poisoned: list[list[float]], seen: Counter[str], result: Result) -> None:
    """Compare the lags of calm and poisoned windows."""
    before, beside = (
        statistics.median([percentile(lags, 0.99) for lags in some if lags] or [0.0]) for some in (calm, poisoned)
    )
    seen["healthy runs"] = sum(map(len, (*calm, *poisoned)))
    seen["calm p99 ms"], seen["poisoned p99 ms"] = round(before * 1000), round(beside * 1000)
    if len(calm) >= JUDGED_PAIRS and beside > 2 * max(before, FLOOR):
        result.violations.append(Violation("healthy_lag", f"p99 {beside:.3f} s, without poison {before:.3f} s"))


async def _lags(postgres: Postgres, began: Any, ended: Any) -> list[float]:
    """Seconds from the instant at which a healthy run is due to the end of its last task."""
    rows = await postgres.ask(
        """SELECT extract(epoch FROM end_date - run_after)::float8 FROM dag_run
            WHERE dag_id LIKE 'healthy%' AND run_after BETWEEN $1 AND $2 AND end_date IS NOT NULL""",
        began, ended,
    )  # fmt: skip
    return [row[0] for row in rows]


async def _noticed(postgres: Postgres) -> dict[str, int]:
    counts = {
        "DAGs in quarantine": "SELECT count(*) FROM dag_quarantine",
        "import errors": "SELECT count(*) FROM dag_file WHERE error IS NOT NULL",
        "refused requests": "SELECT count(*) FROM request WHERE state = 'refused'",
        "applied requests": "SELECT count(*) FROM request WHERE state = 'applied'",
        "bugs in requests": "SELECT count(*) FROM request WHERE result::text LIKE '%hit a bug%'",
    }
    found = {name: int(await postgres.value(query)) for name, query in counts.items()}
    return found | {"noticed": sum(found.values()) - found["applied requests"]}


def _read_logs(services: list[Service], result: Result) -> None:
    for service in services:
        if service.gave_up and service.process is not None and service.process.returncode not in (0, 130):
            result.troubles.append(f"{service.name} ended with {service.process.returncode}: {service.last_words()}")
        for line in service.logged():
            if line.get("level") in ("error", "critical"):
                result.counts["logged errors"] = result.counts.get("logged errors", 0) + 1
            for words in ("reading everything again", "it is started again in", "hit a bug", "tried again"):
                if words in json.dumps(line.get("event", "")):
                    result.counts[words] = result.counts.get(words, 0) + 1
