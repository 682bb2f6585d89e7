"""From the death of one of three schedulers to the moment when each of its DAGs moves again.

Real processes of `aiosched serve` on one database; the DAGs are always at it (`@continuous`, one short task), and every
body writes down where and when it began. So "moves again" is a body of that DAG in another process. Each case kills
one that has the most DAGs, and starts another in its place.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks import measure
from benchmarks.figures import Figure, Finding
from benchmarks.lag import percentile
from benchmarks.run import postgres
from benchmarks.stage import Serve, Stage, TooSlow, stage, start_serve

SCHEDULERS: Final = 3
DAGS: Final = 24
_GIVE_UP: Final = 60.0  # seconds after which a DAG does not move any more
_BODY: Final = 0.2  # seconds that a body takes

_FILE: Final = '''\
"""DAGs that are always at it; generated for a benchmark."""

import asyncio
import os
import time
from datetime import datetime

from aiosched import DAG, task

files = {{}}


@task
async def beat(ti=None):
    pid = os.getpid()
    if pid not in files:
        files[pid] = os.open(os.path.join({records!r}, str(pid)), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(files[pid], f"{{ti.dag_id}} {{time.monotonic()!r}}\\n".encode())
    await asyncio.sleep({body!r})


for number in range({dags}):
    with DAG(f"beat_{{number:03d}}", schedule="@continuous", start_date=datetime(2026, 1, 1), max_active_runs=1):
        beat()
'''


@dataclass
class Beats:
    """When each DAG has begun a body, and where. Reads what was written since the last look."""

    folder: Path
    last: dict[str, tuple[int, float]] = field(default_factory=dict)  # DAG id -> process, monotonic second
    _read: dict[Path, int] = field(default_factory=dict)

    def look(self) -> list[tuple[str, int, float]]:
        """What is new: (DAG id, process, monotonic second), in no particular order."""
        found = []
        for file in self.folder.iterdir():
            with file.open("rb") as stream:
                stream.seek(self._read.get(file, 0))
                lines = stream.read()
            whole = lines.rpartition(b"\n")[0]
            self._read[file] = self._read.get(file, 0) + len(whole) + (1 if whole else 0)
            for line in whole.decode().splitlines():
                dag_id, second = line.split()
                found.append((dag_id, int(file.name), float(second)))
        for dag_id, pid, at in found:
            if dag_id not in self.last or at > self.last[dag_id][1]:
                self.last[dag_id] = (pid, at)
        return found

    def of(self, pid: int) -> set[str]:
        """The DAGs whose latest body began in this process."""
        return {dag_id for dag_id, (where, _) in self.last.items() if where == pid}


async def takeover(size: int, timeout: float, *, dags: int = DAGS) -> Finding:
    """`size` cases. Raises TooSlow when a DAG does not move within a minute of a death."""
    async with stage() as at:
        text = _FILE.format(records=str(at.folders.records), body=_BODY, dags=dags)
        (at.folders.dags / "beats.py").write_text(text)
        beats, names = Beats(at.folders.records), (f"s{number}" for number in itertools.count())
        fleet: list[Serve] = []
        try:
            while len(fleet) < SCHEDULERS:
                fleet.append(await _join(at, next(names)))
            await _all_move(beats, dags)
            first: list[float] = []
            last: list[float] = []
            async with asyncio.timeout(timeout):
                for _ in range(size):
                    victim = max(fleet, key=lambda serve: len(beats.of(serve.pid)))
                    seconds = await _case(beats, victim)
                    first.append(min(seconds))
                    last.append(max(seconds))
                    fleet.remove(victim)
                    fleet.append(await _join(at, next(names)))
                    await _all_move(beats, dags)
        finally:
            await asyncio.gather(*(serve.stop() for serve in fleet))
        failed = await at.conn.fetchval("SELECT count(*) FROM dag_run WHERE state = 'failed'")
        lost = await at.conn.fetchval("SELECT count(*) FROM task_try WHERE state = 'lost'")
        server = await postgres(at.conn)
    return Finding(
        "takeover",
        f"{size} deaths, {SCHEDULERS} schedulers, {dags} DAGs, {server}",
        measure.machine(),
        [
            Figure("all DAGs move again, p99", percentile(last, 99), "s", most=2.0),
            Figure("all DAGs move again, p50", percentile(last, 50), "s"),
            Figure("the first DAG moves again, p50", percentile(first, 50), "s"),
            Figure("attempts lost and run again", lost, ""),
        ],
        () if not failed else (f"{failed} runs failed, although only schedulers died",),
    )


async def _join(at: Stage, name: str) -> Serve:
    serve = await start_serve(at.folders, dsn=at.dsn, name=name)
    await serve.wait_ready()
    return serve


async def _case(beats: Beats, victim: Serve) -> list[float]:
    """Seconds from the death to the next body of each of its DAGs."""
    beats.look()
    waiting = beats.of(victim.pid)
    died = time.monotonic()
    await victim.kill()
    moved: dict[str, float] = {}
    while waiting - moved.keys():
        if time.monotonic() - died > _GIVE_UP:
            raise TooSlow(f"{len(waiting - moved.keys())} DAGs did not move in {_GIVE_UP:g} s after a death")
        await asyncio.sleep(0.02)
        for dag_id, pid, at in beats.look():
            if pid != victim.pid and dag_id in waiting and at > died:
                moved[dag_id] = min(at - died, moved.get(dag_id, at - died))
    return list(moved.values()) or [0.0]


async def _all_move(beats: Beats, dags: int) -> None:
    """Wait until every DAG has begun a body since now, and for a while, in which the fleet shares out anew."""
    began = time.monotonic()
    while sum(at > began for _, at in beats.last.values()) < dags or time.monotonic() - began < 1.5:
        if time.monotonic() - began > _GIVE_UP:
            raise TooSlow(f"only {len(beats.last)} of {dags} DAGs move")
        await asyncio.sleep(0.05)
        beats.look()
