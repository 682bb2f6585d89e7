"""`python -m tests.security.fuzz`: hostile requests as viewer, operator, editor, admin and worker at a real web server.

A scheduler works beside it. No answer may be a failure of ours (5xx), no process may grow beyond its limit, and the
scheduler's event loop goes on. Part of the requests come from schemathesis, the others from hostile.py and
hostile_workers.py; some never end. /livez is timed from a process of its own, before and beside them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx2
import psutil
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.generation.modes import GenerationMode

from aiosched.core.values.ids import partition_of
from aiosched.core.values.messages import Attempt, AttemptKey, RunInfo
from aiosched.core.values.worker_messages import PREFIX
from aiosched.db.engines.attempts import insert_attempts, new_attempt
from aiosched.db.engines.tokens import TokenSigner
from aiosched.db.people import web_sessions
from aiosched.db.people.signing_keys import OF_ATTEMPTS, signing_keys
from aiosched.db.server.embedded import EmbeddedPostgres
from aiosched.db.server.engine import Database
from aiosched.db.server.migrate import migrate
from aiosched.web.auth import cookies
from aiosched.web.auth.passwords import hash_token
from aiosched.web.auth.sessions import CSRF_HEADER
from tests.cli.serving import serve, wait_for
from tests.conftest import short_folder
from tests.security.hostile import Hostile, HostileRequests, operations_of
from tests.security.hostile_workers import OPEN_SECONDS, SLOWNESS, HostileWorkers, send_slowly
from tests.security.probe_times import ProbeTimes, share

ROLES: Final = ("viewer", "operator", "editor", "admin")
MOST_BYTES: Final = 600 * 2**20  # of memory, for each process
MOST_LAG: Final = 0.1  # seconds; p99 of the scheduler's event loop
HUGE: Final = 60_000  # bytes of a body
SENDERS: Final = 8
ENDLESS: Final = frozenset({"stream"})
SHARE_OF_WORKERS: Final = 0.15
SLOW_SENDERS: Final = 24
IDLE_SECONDS: Final = 5.0  # in which /livez is timed without anything beside it
MOST_SILENT: Final = 10_000.0  # milliseconds without an answer of /livez: what stops a server takes longer
SHARE_OF_SCHEMATHESIS: Final = 0.1
KNOWN: Final = {
    "dag_id": ["sales", "hourly"],
    "run": ["latest", "one", "two"],
    "task_id": ["extract", "load"],
    "key": ["return_value", "limit"],
    "conn_id": ["warehouse"],
    "name": ["default_pool", "etl", "ann", "orders"],
    "number": [1, 2, 3],
    "try_number": [1],
}
DAGS: Final = """
from datetime import UTC, datetime

from aiosched import Asset, DAG, Param, task

with DAG("sales", schedule=None, tags=["etl"], params={"day": Param(1, type="integer")}):

    @task(outlets=[Asset("orders")])
    async def extract() -> int:
        return 1

    @task
    def load(number: int) -> None:
        raise RuntimeError("the warehouse is closed")

    load(extract())

with DAG("hourly", schedule="* * * * *", start_date=datetime(2026, 1, 1, tzinfo=UTC)):

    @task
    async def look() -> None: ...

    look()
"""


@dataclass
class Found:
    """What was seen. `failures`: requests with their answers, the first ones only."""

    requests: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    operations: set[str] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)
    most_bytes: dict[str, int] = field(default_factory=dict)  # by process
    lags: list[float] = field(default_factory=list)  # p99 of the loop's lag, each time that it was asked
    slow: dict[str, list[float]] = field(default_factory=dict)  # seconds until one of this kind was given up
    idle: list[float] = field(default_factory=list)  # milliseconds of /livez before
    livez: list[float] = field(default_factory=list)  # and beside the requests

    def violations(self) -> list[str]:
        found = [f"failed: {one}" for one in self.failures]
        found += [f"{name} grew to {size:,} bytes" for name, size in self.most_bytes.items() if size > MOST_BYTES]
        if self.lags and sorted(self.lags)[len(self.lags) // 2] > MOST_LAG:
            found.append(f"the loop's lag p99 was {max(self.lags):.3f} s")
        found += [f"{how}: was not given up" for how, times in self.slow.items() if max(times) >= OPEN_SECONDS]
        if max(self.livez, default=0.0) > MOST_SILENT:
            found.append(f"/livez took {max(self.livez) / 1000:.1f} s")
        return found


class Sender:
    """A user of one role, with a session in a browser; comes back when some request has ended it."""

    def __init__(self, db: Database, url: str, role: str) -> None:
        self.role, self._db, self._number = role, db, 0
        self.client = httpx2.AsyncClient(base_url=url, timeout=300, headers={"User-Agent": "fuzz"})

    async def come_back(self) -> None:
        """Begin a session, again if a request of another sender ends it at once."""
        for _ in range(20):
            if (me := await self._log_in()).is_success:
                break
        me.raise_for_status()
        self.client.headers[CSRF_HEADER] = me.json()["csrf"]

    async def _log_in(self) -> httpx2.Response:
        """Make sure that the user exists, with the role, and ask who they are in a new session."""
        await self._db.execute(
            "INSERT INTO web_user (name, role) VALUES ($1, $1) "
            "ON CONFLICT (name) DO UPDATE SET role = $1, is_disabled = false",
            self.role,
        )
        self._number += 1
        cookie = f"fuzz-{self.role}-{self._number}-{id(self)}"
        await web_sessions.start_session(
            self._db, self.role, hash_token(cookie), seconds=3600, address="127.0.0.1", agent="fuzz"
        )
        self.client.cookies.clear()
        self.client.cookies.set(cookies.SESSION, cookie)
        return await self.client.get("/api/v1/me")

    async def send(self, request: Hostile, found: Found) -> None:
        told = f"{request.method} {request.path:.200} {request.body!r:.300}"
        try:
            answer = await self.client.request(
                request.method, request.path, content=request.body, headers=dict(request.headers)
            )
        except httpx2.TransportError as error:  # a body that the server stops to read
            if len(request.body or b"") < HUGE:
                found.failures.append(f"{self.role}: {told} -> {error!r}")
            found.requests += 1
            found.statuses[0] += 1
            return
        note(found, self.role, request.operation, told, answer)
        if answer.status_code == 401 and not request.path.startswith(PREFIX):
            await self.come_back()


def note(found: Found, role: str, operation: str, request: str, answer: httpx2.Response) -> None:
    found.requests += 1
    found.statuses[answer.status_code] += 1
    found.operations.add(operation)
    # 503 says that no scheduler can answer, which nobody caused here
    if answer.status_code >= 500 and len(found.failures) < 50:
        found.failures.append(f"{role}: {request} -> {answer.status_code} {answer.text:.300}")


async def tokens_of_attempts(db: Database) -> list[str]:
    """Tokens of attempts that engines were given, and of some that are not there."""
    signer, keys = TokenSigner(await signing_keys(db, accepted_for=OF_ATTEMPTS)), []
    async with db.transaction() as conn:
        incarnation = await conn.fetchval("SELECT max(incarnation) FROM scheduler")
        run_id = await conn.fetchval("SELECT min(id) FROM dag_run WHERE dag_id = 'hourly'") or 1
        for number in range(100, 140):
            run = RunInfo(key=run_id, dag_id="hourly", run_id="r", run_type="manual", run_after=datetime.now(UTC))
            keys.append(AttemptKey(run_id, 0, -1, number))
            attempt = Attempt(key=keys[-1], run=run, task_id="look", is_async=True, max_tries=0)
            await insert_attempts(
                conn, [new_attempt(partition_of("hourly"), "engine", attempt)], incarnation=incarnation
            )
        rows = await conn.fetch("SELECT id, try_number FROM engine_attempt")
    known = [signer.seal(row["id"], AttemptKey(run_id, 0, -1, row["try_number"])) for row in rows]
    return [*known, *(signer.seal(10**9 + number, keys[0]) for number in range(5))]


async def send_slow(url: str, tokens: Sequence[str], found: Found, random: Random) -> None:
    """Requests that never end, one after the other."""
    while True:
        how, token = random.choice(SLOWNESS), random.choice(tokens)
        route = random.choice(("/worker/v1/starts", "/worker/v1/reports", "/api/v1/login", "/api/v1/dags", "/metrics"))
        taken = await send_slowly(url, token, how, route)
        found.slow.setdefault(how, []).append(taken)
        found.requests += 1


async def send_hostile(senders: Sequence[Sender], requests: Iterator[Hostile], found: Found) -> None:
    async def work(sender: Sender) -> None:
        for number, request in enumerate(requests):
            if number % 500 == 0:
                await sender.come_back()  # a role that an administrator has changed
            await sender.send(request, found)

    async with asyncio.TaskGroup() as group:
        for sender in senders:
            group.create_task(work(sender))


async def send_from_schemathesis(senders: Sequence[Sender], document: Any, examples: int, found: Found) -> None:
    """For each operation, role and mode some cases that schemathesis makes up."""
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        for made in schemathesis.openapi.from_dict(document).get_all_operations():
            operation = made.ok()
            name = operation.definition.raw["operationId"]
            if name in ENDLESS:
                continue
            cases = await asyncio.to_thread(_cases, operation, mode, examples * len(senders))
            for number, case in enumerate(cases):
                sender = senders[number % len(senders)]
                wanted = case.as_transport_kwargs(base_url=str(sender.client.base_url).rstrip("/"))
                headers = {key: value for key, value in wanted["headers"].items() if key.lower() != "user-agent"}
                try:
                    answer = await sender.client.request(
                        wanted["method"], wanted["url"], params=wanted.get("params"), content=wanted.get("data"),
                        json=wanted.get("json"), headers=headers,
                    )  # fmt: skip
                except (UnicodeError, ValueError, TypeError, httpx2.InvalidURL, httpx2.LocalProtocolError):
                    continue  # this client cannot say it
                note(found, sender.role, name, f"schemathesis {case.method} {case.formatted_path}", answer)
                if answer.status_code == 401:
                    await sender.come_back()


def _cases(operation: Any, mode: GenerationMode, number: int) -> list[schemathesis.Case]:
    cases: list[schemathesis.Case] = []

    @settings(
        max_examples=number, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck), print_blob=False,
    )  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def keep(case: schemathesis.Case) -> None:
        cases.append(case)

    try:
        keep()
    except Unsatisfiable:  # without parameters there is nothing to break
        return []
    return cases


async def watch(sender: Sender, processes: dict[str, int], found: Found) -> None:
    """Each second: the memory of each process with its children, and the lag of the scheduler's loop."""
    while True:
        for name, pid in processes.items():
            size = psutil.Process(pid).memory_info().rss
            found.most_bytes[name] = max(found.most_bytes.get(name, 0), size)
        try:
            answer = await sender.client.get("/api/v1/metrics/summary")
        except httpx2.TransportError as error:
            found.failures.append(f"viewer: GET /api/v1/metrics/summary -> {error!r}")
            continue
        if answer.status_code == 401:
            await sender.come_back()
        elif answer.is_success:
            spreads = [one["loop_lag"] for one in answer.json()["schedulers"] if one["alive"]]
            found.lags += [spread["p99"] for spread in spreads if spread["count"]]
        await asyncio.sleep(1)


async def play(
    dsn: str, url: str, processes: dict[str, int], *, requests: int, seed: int, minutes: float = math.inf
) -> Found:
    """Send so many requests to the web server at `url`, or as many as so long allows."""
    with ProbeTimes(f"{url}/livez") as probe:
        await asyncio.sleep(IDLE_SECONDS)
        idle = await asyncio.to_thread(probe.take)
        until = time.monotonic() + minutes * 60
        found = await _play(dsn, url, processes, requests=requests, seed=seed, until=until)
        found.idle, found.livez = idle, await asyncio.to_thread(probe.take)
    return found


async def _play(dsn: str, url: str, processes: dict[str, int], *, requests: int, seed: int, until: float) -> Found:
    found = Found()
    async with await Database.open(dsn) as db:
        senders = [Sender(db, url, ROLES[number % len(ROLES)]) for number in range(SENDERS)]
        watcher = Sender(db, url, "viewer")
        for sender in (*senders, watcher):
            await sender.come_back()
        watching = asyncio.create_task(watch(watcher, processes, found))
        tokens = await tokens_of_attempts(db)
        slow = [asyncio.create_task(send_slow(url, tokens, found, Random(seed + n))) for n in range(SLOW_SENDERS)]
        document = (await senders[-1].client.get("/api/v1/openapi.json")).json()
        usable = [one for one in operations_of(document) if one.id not in ENDLESS]
        each = int(requests * SHARE_OF_SCHEMATHESIS) // (len(usable) * SENDERS * 2)
        if each:
            await send_from_schemathesis(senders, document, each, found)
        hostile = HostileRequests(document, KNOWN, seed)
        hostile.operations = usable
        of_workers = HostileWorkers(tokens, hostile, seed)
        chance = Random(seed)
        left = (
            (of_workers if chance.random() < SHARE_OF_WORKERS else hostile).next()
            for _ in range(requests - found.requests)
            if time.monotonic() < until
        )
        await send_hostile(senders, left, found)
        assert not watching.done(), watching.result()
        for one in slow:
            assert not one.done(), one.result()
            one.cancel()
        watching.cancel()
        for sender in (*senders, watcher):
            await sender.client.aclose()
    return found


def fuzz(dsn: str, folder: Path, *, requests: int, seed: int, minutes: float = math.inf) -> Found:
    """A scheduler and a web server on a migrated database, and so many requests."""
    (folder / "dags").mkdir(parents=True)
    (folder / "dags" / "dags.py").write_text(DAGS)
    config = "[web]\nauth = 'password'\nadmin_password = 'a password for the first'\nport = 0\n"
    (folder / "aiosched.toml").write_text(config)
    with (
        serve(folder, dsn) as scheduler,
        serve(folder, dsn, "--role", "web") as web,
    ):
        wait_for(scheduler, "ready")
        url = wait_for(web, "web")["url"]
        both = {"scheduler": scheduler, "web": web}
        pids = {name: process.pid for name, process in both.items()}
        with _read_on(scheduler) as of_scheduler, _read_on(web) as of_web:
            found = asyncio.run(play(dsn, url, pids, requests=requests, seed=seed, minutes=minutes))
            said = {"scheduler": of_scheduler, "web": of_web}
            for name, process in both.items():
                if process.poll() is not None:
                    found.failures.append(f"{name} ended with {process.returncode}: {''.join(said[name])[-2000:]}")
                found.failures += [f"{name} logged: {line:.2000}" for line in said[name] if '"level": "error"' in line]
    return found


@contextlib.contextmanager
def _read_on(process: subprocess.Popen[str]) -> Iterator[list[str]]:
    """The lines that it writes to stderr from now on, else its pipe fills and it waits; it is killed at the end."""
    lines = list[str]()
    assert process.stderr is not None
    reader = threading.Thread(target=lines.extend, args=(process.stderr,))
    reader.start()
    try:
        yield lines
    finally:
        process.kill()
        reader.join()


def shares(times: list[float]) -> dict[str, float]:
    """How many answers, and in which time half of them, 99 % and all of them came."""
    parts = {"p50": 0.5, "p99": 0.99, "most": 1.0}
    return {"answers": len(times), **{name: round(share(times, part), 1) for name, part in parts.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf, help="end earlier")
    options = parser.parse_args()
    folder, began = short_folder(), time.monotonic()
    embedded = EmbeddedPostgres(folder / "pg", durable=False)
    try:
        dsn = embedded.start_blocking()
        asyncio.run(migrate(dsn))
        found = fuzz(dsn, folder / "work", requests=options.requests, seed=options.seed, minutes=options.minutes)
    finally:
        embedded.stop_blocking()
        shutil.rmtree(folder)
    seen = {
        "requests": found.requests,
        "seconds": round(time.monotonic() - began),
        "operations": len(found.operations),
        "statuses": dict(sorted(found.statuses.items())),
        "most memory, MiB": {name: round(size / 2**20) for name, size in found.most_bytes.items()},
        "never ended": {how: [len(times), round(max(times), 1)] for how, times in sorted(found.slow.items())},
        "livez, ms, idle": shares(found.idle),
        "livez, ms": shares(found.livez),
        "loop lag p99, ms (median, most)": [
            round(sorted(found.lags)[len(found.lags) // 2] * 1000, 1),
            round(max(found.lags) * 1000, 1),
        ]
        if found.lags
        else None,
    }
    print(json.dumps(seen, indent=2))
    violations = found.violations()
    print(*violations, sep="\n")
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
