"""The campaign `versions`: an older version and this one as one fleet, whose processes are killed again and again.

A scheduler and a web server of each version. Rule: every run ends, and succeeds unless a task was lost three times in
a row; nothing begins twice for one try; no page of either web server answers 500 or more; no process ends by itself.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from aiosched.db.server.engine import Database
from tests.faults.campaign.campaigns import Size
from tests.faults.campaign.postgres import Postgres
from tests.faults.campaign.results import Result
from tests.faults.campaign.stage import folder_of
from tests.faults.checker import Violation
from tests.faults.two_versions import ROOT, Version, beginnings, twice, unpack, why_not, write_dags
from tests.faults.two_versions_fleet import LEFT, Fleet, Visitor, asking, looking
from tests.ports import free_port

VERSIONS: Final = "versions"
BOTH: Final = Size(faults=10, tasks=0, gap=3.0, seed=12, schedulers=2)  # with 11 it kills the new scheduler once only
BOTH_LONG: Final = Size(faults=300, tasks=0, gap=3.0, seed=11, schedulers=2)
PAUSE: Final = 1.0  # seconds between two requests
REFUSED: Final = "SELECT count(*) FROM request WHERE state = 'refused'"
SUCCEEDED: Final = "SELECT count(*) FROM dag_run WHERE state = 'success'"
# A task that was lost three times in a row fails for good, whatever retries are left.
FAILED: Final = """
    SELECT r.dag_id || ' ' || r.run_id FROM dag_run AS r
     WHERE r.state <> 'success' AND NOT EXISTS (
           SELECT FROM task_instance AS ti WHERE ti.run_id = r.id AND ti.state = 'failed' AND ti.losses >= 3)
"""
LOST: Final = "SELECT count(*) FROM task_try WHERE state = 'lost'"


async def play_versions(size: Size, command: str, *, deadline: float | None = None, keep: Path | None = None) -> Result:
    """One round with `size.faults` kills, judged."""
    folder, began = folder_of(keep), time.monotonic()
    few = max(size.faults // 5, 1)
    names = [
        "kills of old",
        "kills of new",
        "runs",
        "begun by old",
        "begun by new",
        "pages of old_web",
        "pages of new_web",
    ]
    minima = dict.fromkeys(names, few)
    result = Result(VERSIONS, command, size.seed, size.tasks, minima=minima)
    if (why := why_not()) is not None:
        result.troubles.append(why)
        return result
    postgres = Postgres(folder)
    try:
        await postgres.start()
        async with asyncio.timeout(deadline or 300 + 4 * size.faults * size.gap):
            await _play(postgres.dsn, folder, size, result)
    except TimeoutError:
        result.troubles.append("the round did not end in time")
    except AssertionError as error:  # a process has ended, or what must happen did not
        result.violations.append(Violation("no_process_ends", str(error)))
    finally:
        await postgres.stop()
    result.seconds = time.monotonic() - began
    if keep is None and result.passed:
        shutil.rmtree(folder)
    elif not result.passed:
        result.troubles.append(f"logs: {folder}")
    return result


async def _play(dsn: str, folder: Path, size: Size, result: Result) -> None:
    await asyncio.to_thread(unpack, folder / "older")
    write_dags(folder, datetime.now(UTC))
    old, new = Version("old", folder / "older", folder, dsn), Version("new", ROOT, folder, dsn)
    webs = (
        Version("old_web", folder / "older", folder, dsn, port=free_port()),
        Version("new_web", ROOT, folder, dsn, port=free_port()),
    )
    visitors = [Visitor(web) for web in webs]
    await asyncio.to_thread(new.run, "db", "migrate")
    async with await Database.open(dsn, application_name="faults", check=False) as db:
        fleet = Fleet(db, old, new, webs)
        try:
            for process in fleet.processes:
                process.start()
            await fleet.all_dags()
            async with looking(*visitors), asking(fleet, PAUSE):
                await fleet.more_runs(2)
                await _kill(fleet, size, result.counts)
            await fleet.finished()
            await fleet.nothing_left()
            await _judge(fleet, folder, visitors, result)
            for process in fleet.processes:
                process.ask_to_stop()
            for process in fleet.processes:
                await fleet.ended(process)
        finally:
            for process in fleet.processes:
                process.kill()


async def _kill(fleet: Fleet, size: Size, counts: dict[str, int]) -> None:
    """SIGKILL for one process after the other, now and then for both schedulers; each is started again soon."""
    dice = random.Random(size.seed)
    schedulers = [fleet.old, fleet.new]
    seen = Counter[str]()
    while seen.total() < size.faults:
        both = dice.random() < 0.1
        victims = schedulers if both else [dice.choice([*schedulers, *schedulers, *fleet.webs])]
        for victim in victims:
            victim.check()
            victim.kill()
            seen[f"kills of {victim.name}"] += 1
        await asyncio.sleep(dice.uniform(0.0, 0.5) * size.gap)
        for victim in victims:
            victim.start()
        await asyncio.sleep(dice.uniform(0.5, 1.5) * size.gap)
    counts.update(seen)


async def _judge(fleet: Fleet, folder: Path, visitors: list[Visitor], result: Result) -> None:
    failed = [row[0] for row in await fleet.db.fetch(FAILED)]
    result.violations += [Violation("every_run_succeeds", run) for run in failed]
    result.violations += [Violation("one_beginning_for_a_try", what) for what in twice(folder)]
    for visitor in visitors:
        result.violations += [Violation("no_page_fails", failure) for failure in visitor.failures]
        result.counts[f"pages of {visitor.web.name}"] = visitor.answers.total()
    begun = beginnings(folder)
    result.tasks = begun.total()
    result.counts |= {f"begun by {name}": begun[name] for name in ("old", "new")}
    for name, query in {"runs": SUCCEEDED, "refused requests": REFUSED, "attempts lost": LOST, "left": LEFT}.items():
        result.counts[name] = await fleet.number(query)
