"""DAG files that are slow to import, imported before they are due (`executor.warm_ahead`) and with their first tasks.

The files import for a second, and one after the other becomes due for the first time; a quick DAG runs beside them.
Then two shapes of 100 cold DAG files that are all due at one instant. Rounds with and without warmth alternate.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Final

from aiosched.config import Settings
from benchmarks import measure, record
from benchmarks.figures import Figure, Finding
from benchmarks.lag import percentile
from benchmarks.processes import Folders
from benchmarks.report import Result
from benchmarks.run import postgres, run
from benchmarks.shapes import SHAPES, CallableKind
from benchmarks.stage import Stage, TooSlow, stage, start_serve

AHEAD: Final = 30.0  # seconds, the default of the setting
ROUNDS: Final = 2  # with warmth, and as many without
_IMPORT: Final = 1.0  # seconds
_EVERY: Final = 0.5  # seconds between two slow DAGs that become due
_READ: Final = 12.0  # seconds for reading the files, which import quickly at that time
_AFTER: Final = 60.0
_SHAPES: Final = ("linear-100x10", "tree-100x10")
_KINDS: Final[tuple[CallableKind, ...]] = ("sync", "async")
_MOST_LAG: Final = 50.0  # ms

_FILE: Final = '''\
"""A DAG; generated for a benchmark."""

import os
import time
from datetime import datetime, timedelta

from aiosched import DAG, task

if os.path.exists({slow!r}):
    with open({imports!r}, "a") as notes:
        notes.write("{name}\\n")
    time.sleep({seconds})


@task
def body(ti=None):
    start = time.monotonic()
    pid = os.getpid()
    line = f"{{ti.dag_id}}@{{ti.run_id}} {{ti.task_id}} {{ti.try_number}} {{pid}} {{start!r}} {{start!r}}\\n"
    with open(os.path.join({records!r}, str(pid)), "a") as notes:
        notes.write(line)


START = datetime.fromisoformat({start!r})
with DAG("{name}", schedule={schedule}, start_date=START, end_date=START + timedelta(seconds={lasts}), catchup=True):
    body()
'''


@dataclass
class _Round:
    slow: list[float]  # lags, in seconds
    quick: list[float]
    imports: int
    memory: int  # bytes of all processes when everything has run
    problems: list[str] = field(default_factory=list)


async def warm(
    size: int,
    seconds: float,
    *,
    rounds: int = ROUNDS,
    shapes: Sequence[str] = _SHAPES,
    ahead: float = AHEAD,
    lead: float = _READ,
) -> Finding:
    """`size` slow files, each due once; `seconds` bounds a round of them and a run of a shape.

    They are read in `lead` seconds, and are due `ahead` after that.
    """
    made: dict[float, list[_Round]] = {0.0: [], ahead: []}
    results: dict[tuple[str, CallableKind, float], list[Result]] = {}
    problems: list[str] = []
    server = ""
    for number in range(rounds):
        for setting in (0.0, ahead) if number % 2 == 0 else (ahead, 0.0):
            async with stage() as at:
                server = await postgres(at.conn)
                first = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=math.ceil(lead + size / 20))
                made[setting].append(one := await _round(at, size, first, ahead, setting, seconds))
            problems += one.problems
            for name, kind in itertools.product(shapes, _KINDS):
                result = await run(SHAPES[name], executor="local", kind=kind, timeout=seconds, around=_with(setting))
                results.setdefault((name, kind, setting), []).append(result)
                problems += result.problems
    return Finding(
        "warm",
        f"{size} files that import for {_IMPORT:g} s, local executor, {server}",
        measure.machine(),
        [*_figures(made[0.0], "cold"), *_figures(made[ahead], "warm", most=_MOST_LAG), *_shape_figures(results)],
        tuple(problems),
    )


async def _round(at: Stage, size: int, first: datetime, ahead: float, setting: float, seconds: float) -> _Round:
    """The slow files become due one after the other, `ahead` after `first`; the lags from their due instants."""
    slow = at.folders.root / "slow"
    notes = at.folders.root / "imports"
    due = {f"slow{number:03d}": first + timedelta(seconds=ahead + number * _EVERY) for number in range(size)}
    _write(at.folders, slow, notes, due, first)
    settings = {"AIOSCHED__EXECUTOR__WARM_AHEAD": str(setting)}
    serve = await start_serve(at.folders, dsn=at.dsn, executor="local", settings=settings)
    try:
        await serve.wait_ready()
        await _reach(at, "SELECT count(*) FROM dag", size + 1, seconds)
        problems = ["the files were read too late: give more time"] if datetime.now(UTC) > first else []
        slow.touch()
        ended = "SELECT count(*) FROM dag_run WHERE dag_id <> 'quick' AND state = 'success'"
        await _reach(at, ended, size, ahead + size * _EVERY + _AFTER)
        memory = measure.proportional(measure.descendants(serve.pid))
    finally:
        await serve.stop()
    offset = datetime.now(UTC).timestamp() - asyncio.get_running_loop().time()
    records = record.read(at.folders.records)
    lags = [r.start + offset - due[r.dag_id.split("@")[0]].timestamp() for r in records if r.dag_id.startswith("slow")]
    quick = [r.start + offset - _due_of(r.dag_id) for r in records if r.dag_id.startswith("quick")]
    imports = len(notes.read_text().splitlines()) if notes.exists() else 0
    return _Round(lags, quick, imports, memory, problems)


def _write(folders: Folders, slow: Path, notes: Path, due: dict[str, datetime], first: datetime) -> None:
    given = {"slow": str(slow), "imports": str(notes), "records": str(folders.records)}
    for name, at in due.items():
        text = _FILE.format(name=name, start=at.isoformat(), schedule="'@once'", lasts=86_400, seconds=_IMPORT, **given)
        (folders.dags / f"{name}.py").write_text(text)
    lasts = math.ceil((max(due.values()) - first).total_seconds())
    each = "timedelta(seconds=1)"
    text = _FILE.format(name="quick", start=first.isoformat(), schedule=each, lasts=lasts, seconds=0, **given)
    (folders.dags / "quick.py").write_text(text.replace("time.sleep(0)", "pass"))


def _due_of(run: str) -> float:
    """When a run of the quick DAG was due: at the end of its interval."""
    return datetime.fromisoformat(run.partition("__")[2]).timestamp() + 1.0


async def _reach(at: Stage, query: str, wanted: int, seconds: float) -> None:
    """Wait until a count is reached. Raises TooSlow."""
    try:
        async with asyncio.timeout(seconds):
            while await at.conn.fetchval(query) < wanted:  # noqa: ASYNC110  # PostgreSQL's
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise TooSlow(f"{query} was not {wanted} after {seconds:g} s") from None


def _with(ahead: float) -> Callable[[Stage], AbstractAsyncContextManager[Callable[[Settings], None]]]:
    def change(settings: Settings) -> None:
        settings.executor.warm_ahead = ahead

    return lambda _: nullcontext(change)


def _figures(rounds: Sequence[_Round], name: str, most: float | None = None) -> Iterator[Figure]:
    slow = [lag for each in rounds for lag in each.slow]
    quick = [lag for each in rounds for lag in each.quick]
    yield Figure(f"{name}: lag p50 of first tasks, from the due instant", percentile(slow, 50) * 1000, "ms")
    yield Figure(f"{name}: lag p99 of first tasks, from the due instant", percentile(slow, 99) * 1000, "ms", most=most)
    yield Figure(f"{name}: lag p99 of the quick DAG's tasks", percentile(quick, 99) * 1000, "ms")
    yield Figure(f"{name}: imports, of each round", median(each.imports for each in rounds), "")
    yield Figure(f"{name}: memory of all processes of serve", median(each.memory for each in rounds) / 2**20, "MiB")


def _shape_figures(results: dict[tuple[str, CallableKind, float], list[Result]]) -> Iterator[Figure]:
    for (name, kind, ahead), some in results.items():
        title = f"{name}, {kind}, {'warm' if ahead else 'cold'}"
        yield Figure(f"{title}: makespan", median(each.makespan for each in some), "s")
        yield Figure(f"{title}: lag p99", median(each.lag.p99 for each in some) * 1000, "ms")
        cpu = median(each.usage.workers.cpu_seconds for each in some)
        yield Figure(f"{title}: processor time of the workers", cpu, "s")
