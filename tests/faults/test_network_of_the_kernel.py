"""Processes in a network of their own, whose packets to PostgreSQL the kernel drops, delays, loses or resets.

A proxy on the same machine acknowledges every packet, so it never shows what a network does that says nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import httpx2
import msgspec
import psutil
import pytest
import pytest_asyncio

from aiosched.config import Settings
from aiosched.db.crypto.keyring import new_key
from aiosched.db.server.dsn import address_of
from aiosched.db.server.engine import Database
from aiosched.db.server.migrate import migrate
from aiosched.scheduler.why.why import why
from tests.conftest import short_folder
from tests.databases import TEMPLATE, Server, server_at
from tests.engines.brokers import Redis
from tests.engines.celery_workers import CeleryWorkers
from tests.engines.dask_cluster import Cluster
from tests.engines.test_run_attempt import Place, Served
from tests.faults.campaign.postgres import Postgres
from tests.network_namespace import CAN_ISOLATE, CANNOT_ISOLATE, Wire, network_namespace
from tests.patience import PATIENCE
from tests.ports import free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CAN_ISOLATE, reason=CANNOT_ISOLATE),
    pytest.mark.asyncio(loop_scope="module"),
]

DAG = """
from datetime import datetime, timedelta
from aiosched import dag, task

@dag(schedule=timedelta(seconds=1), start_date=datetime(2026, 1, 1), catchup=False, max_active_runs=4)
def {name}():
    @task
    async def work(): ...
    work()

{name}()
"""
RAN = "SELECT count(*) FROM task_instance WHERE state = 'success' AND start_date > to_timestamp($1)"
HOLDS = "SELECT count(*) FROM scheduler WHERE lease_expires_at > clock_timestamp()"
END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'aiosched%'"
SHORT_LEASE = {"AIOSCHED__SCHEDULER__LEASE": "6"}  # a connection that is silent for half of it is given up


class Site:
    """PostgreSQL here, the processes of aiosched behind the cable."""

    def __init__(self, folder: Path, postgres: Postgres, dsn: str, wire: Wire, there: str) -> None:
        self.folder, self.postgres, self.dsn, self.wire, self.there = folder, postgres, dsn, wire, there
        self.processes: list[asyncio.subprocess.Process] = []

    async def start(self, *words: str, **variables: str) -> None:
        """`aiosched serve` with these options."""
        number = len(self.processes)
        words = ("serve", "--dsn", self.dsn, "--dags", str(self.folder / "dags"), "-o", "json", *words)
        environment = {
            "AIOSCHED_HOME": str(self.folder / f"home{number}"),
            "AIOSCHED__WEB__AUTH": "password",
            "AIOSCHED__WEB__ADMIN_PASSWORD": "long enough",
        }
        with (self.folder / f"log{number}").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(*self.wire.enter, sys.executable, "-m", "aiosched", *words),
                env=os.environ | environment | variables,
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)

    def write(self, name: str) -> None:
        (self.folder / "dags" / f"{name}.py").write_text(DAG.format(name=name))

    async def until(self, question: Callable[[], Awaitable[bool]], what: str) -> float:
        """Wait for it; returns the seconds that it took."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                while not await question():
                    assert all(process.returncode is None for process in self.processes), self.logs()
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{what} is missing: {self.logs()}") from None
        return time.monotonic() - began

    async def until_work_goes_on(self) -> float:
        """Wait until a task that has started after now has succeeded."""
        now = time.time()

        async def has_run() -> bool:
            return bool(await self.postgres.value(RAN, now))

        return await self.until(has_run, "work")

    def logs(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in sorted(self.folder.glob("log*")))

    async def stop(self) -> None:
        self.wire.heal()
        for process in self.processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                for each in (*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        each.kill()
            await process.wait()


@pytest.fixture(scope="module")
def cable() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    with network_namespace() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def near(cable: tuple[str, str, tuple[str, ...]]) -> AsyncIterator[tuple[Postgres, Server]]:
    """A server on our side of the cable, and who makes databases of it."""
    here, there, _ = cable
    folder = short_folder()
    postgres = Postgres(folder, listen_addresses=here)
    await postgres.start()
    try:
        with (folder / "pg" / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {there}/32 trust\n")
        await migrate(postgres.dsn)
        with server_at(postgres.dsn) as server:
            await server.execute("SELECT pg_reload_conf()")
            yield postgres, server
    finally:
        await postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest_asyncio.fixture(loop_scope="module")
async def site(
    cable: tuple[str, str, tuple[str, ...]], near: tuple[Postgres, Server], tmp_path: Path
) -> AsyncIterator[Site]:
    here, there, enter = cable
    postgres, server = near
    postgres.dsn = await server.create(TEMPLATE)
    (tmp_path / "dags").mkdir()
    address = address_of(postgres.dsn)
    dsn = f"postgresql://postgres@{here}:{address.port}/{address.database}?sslmode=disable"
    site = Site(tmp_path, postgres, dsn, Wire(enter, int(address.port or 5432)), there)
    try:
        yield site
    finally:
        await site.stop()
        await server.drop(postgres.dsn)


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Iterator[list[float]]:
    found: list[float] = []
    yield found
    print(request.node.name, [round(seconds, 1) for seconds in found])


async def test_a_scheduler_whose_connections_are_swallowed_takes_new_ones(site: Site, figures: list[float]) -> None:
    site.write("d")
    await site.start("--role", "scheduler,parser", **SHORT_LEASE)
    await site.until_work_goes_on()

    for _ in range(2):
        site.wire.swallow_present_connections()
        figures.append(await site.until_work_goes_on())


@pytest.mark.parametrize("how", ["cut", "lose_answers", "half_open", "reset"])
async def test_a_scheduler_goes_on_after_its_network_is_back(site: Site, how: str, figures: list[float]) -> None:
    site.write("d")
    await site.start("--role", "scheduler,parser", **SHORT_LEASE)
    await site.until_work_goes_on()

    if how == "half_open":  # the server has ended its side, and nobody could be told
        site.wire.cut()
        await site.postgres.ask(END_SESSIONS)
    else:
        getattr(site.wire, how)()

    async def has_lost_its_lease() -> bool:
        return not await site.postgres.value(HOLDS)

    if how != "half_open":
        await site.until(has_lost_its_lease, "the end of the lease")
    site.wire.heal()
    figures.append(await site.until_work_goes_on())


@pytest.mark.parametrize("how", ["lose", "delay"])
async def test_a_scheduler_works_on_a_bad_network(site: Site, how: str, figures: list[float]) -> None:
    site.write("d")
    await site.start("--role", "scheduler,parser")
    await site.until_work_goes_on()

    site.wire.lose(0.05) if how == "lose" else site.wire.delay()
    figures += [await site.until_work_goes_on() for _ in range(3)]


async def test_a_parser_whose_connections_are_swallowed_takes_new_ones(site: Site, figures: list[float]) -> None:
    site.write("d")
    await site.start("--role", "parser")

    async def knows(name: str) -> bool:
        return bool(await site.postgres.value("SELECT count(*) FROM dag WHERE dag_id = $1", name))

    await site.until(lambda: knows("d"), "the DAG")
    site.wire.swallow_present_connections()
    site.write("e")
    figures.append(await site.until(lambda: knows("e"), "the second DAG"))


ONCE = """
import time
from pathlib import Path
from aiosched import DAG, task

with DAG("d", schedule=None):
    @task
    def once():
        with Path({here!r}, "began").open("a") as began:
            began.write("x")
        while not Path({here!r}, "go").exists():
            time.sleep(0.02)

    once()
"""
RENEWED = "SELECT count(*) FROM engine_attempt WHERE alive_until > $1::timestamptz + interval '9 seconds'"
REPORTS = "SELECT count(*) FROM task_report WHERE outcome = 'success'"


@contextlib.asynccontextmanager
async def worker_api(site: Site, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """A server for workers on this side of the cable, which is killed at the end."""
    here = address_of(site.dsn).host
    words = ("--role", "worker-api", "--dsn", site.postgres.dsn, "--host", str(here), "--port", str(port), "-o", "json")
    with (site.folder / "log-api").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "aiosched", "serve", "--home", str(site.folder / "api"), *words),
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


class Worker:
    """One whose job comes as those of pods come, behind the cable; its server is on this side."""

    def __init__(self, site: Site, process: asyncio.subprocess.Process, server: asyncio.subprocess.Process) -> None:
        self.site, self.process, self.server = site, process, server

    async def has_begun(self) -> bool:
        return (self.site.folder / "began").exists()

    async def is_stored(self) -> bool:
        return bool(await self.site.postgres.value(REPORTS))

    def warnings(self) -> int:
        return (self.site.folder / "log-worker").read_text().count("cannot be reached")

    async def succeeds(self) -> float:
        """It ends in order, has begun once and reported once; the seconds until its report was stored."""
        (self.site.folder / "go").touch()
        seconds = await self.site.until(self.is_stored, "the report")
        assert await asyncio.wait_for(self.process.wait(), PATIENCE) == 0, self.site.logs()
        assert await self.site.postgres.value(REPORTS) == 1
        assert (self.site.folder / "began").read_text() == "x"
        return seconds


@contextlib.asynccontextmanager
async def working(site: Site, port: int) -> AsyncIterator[Worker]:
    """A worker that has begun its attempt, which waits for the file `go`."""
    (site.folder / "dags" / "d.py").write_text(ONCE.format(here=str(site.folder)))
    served = Served(f"http://{address_of(site.dsn).host}:{port}", site.postgres.dsn, site.folder)
    async with worker_api(site, port) as server, await Database.open(site.postgres.dsn) as db:
        job = await Place(db, served).job("once")
        (site.folder / "job").write_bytes(msgspec.json.encode(msgspec.structs.replace(job, urls=job.urls[1:])))
        with (site.folder / "log-worker").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(*site.wire.enter, sys.executable, "-m", "aiosched", "worker", "run-attempt"),
                *(str(site.folder / "job"), "--dags", str(site.folder / "dags"), "--log-level", "INFO"),
                stdout=log,
                stderr=log,
            )
        site.processes.append(process)
        worker = Worker(site, process, server)
        await site.until(worker.has_begun, "the attempt")
        site.processes.remove(process)  # it may end from now on
        try:
            yield worker
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


@pytest.mark.parametrize(
    "how", ["swallow_present_connections", "cut", "lose_answers", "reset", "half_open", "delay", "lose"]
)
async def test_a_worker_reports_its_attempt_exactly_once(site: Site, how: str, figures: list[float]) -> None:
    """Also if its report was stored, and only the answer was lost."""
    port = free_port()
    wire = Wire(site.wire.enter, port)
    async with working(site, port) as worker, contextlib.AsyncExitStack() as stack:
        before = worker.warnings()

        async def has_noticed() -> bool:
            return worker.warnings() > before

        match how:
            case "half_open":
                wire.cut()
            case "lose":
                wire.lose(0.1)
            case _:
                getattr(wire, how)()
        (site.folder / "go").touch()
        if how == "lose_answers":
            figures.append(await site.until(worker.is_stored, "the report"))
        passes = how in ("swallow_present_connections", "delay", "lose")
        if not passes:
            figures.append(await site.until(has_noticed, "the notice"))
            assert await worker.is_stored() is (how == "lose_answers")
        if how == "half_open":  # the server ends its side, and nobody can be told
            worker.server.kill()
            await worker.server.wait()
            await stack.enter_async_context(worker_api(site, port))
        wire.heal() if not passes else None
        figures.append(await worker.succeeds())


async def test_a_worker_keeps_its_lease_while_its_connections_are_swallowed(
    site: Site, figures: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat that nobody answers leaves time for another one."""
    monkeypatch.setenv("AIOSCHED__EXECUTOR__WORKER_LEASE", "9")
    port = free_port()
    wire = Wire(site.wire.enter, port)
    async with working(site, port) as worker:
        for _ in range(3):
            wire.swallow_present_connections()
            now = await site.postgres.value("SELECT clock_timestamp()")

            async def is_renewed(now: object = now) -> bool:
                assert worker.process.returncode is None, site.logs()
                return bool(await site.postgres.value(RENEWED, now))

            figures.append(await site.until(is_renewed, "a heartbeat"))
        figures.append(await worker.succeeds())


WAITS = """
    SELECT r.run_id FROM dag_run r JOIN task_instance t ON t.run_id = r.id
     WHERE t.state IN ('scheduled', 'queued') ORDER BY r.id LIMIT 1
"""
LOST = "SELECT count(*) FROM task_try WHERE state IN ('lost', 'failed')"


class NearRedis(Redis):
    """One that listens on our side of the cable."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self.url, self.host = f"redis://{host}:{self.port}/0", host

    def command(self) -> list[str]:
        return [*super().command(), "--bind", self.host, "--protected-mode", "no"]


class EngineSite:
    """A scheduler behind the cable; its engine, that engine's worker and the worker API are on this side."""

    def __init__(self, site: Site, wire: Wire, db: Database) -> None:
        self.site, self.wire, self.db = site, wire, db

    async def says_why(self) -> bool:
        """Whether it is said of a task that waits that its engine cannot be reached."""
        if not (waiting := await self.site.postgres.ask(WAITS)):
            return False
        said = "\n".join(gate.detail for gate in (await why(self.db, "d", waiting[0][0], "work")).gates)
        return "celery.broker" in said or ("dask" in said.lower() and "cannot" in said)


@contextlib.asynccontextmanager
async def on_engine(site: Site, kind: str) -> AsyncIterator[EngineSite]:
    """The DAG `d` runs on this engine."""
    here = str(address_of(site.dsn).host)
    settings = Settings()
    settings.core.dags_folder, settings.executor.slots = site.folder / "dags", 2
    port = free_port()
    settings.executor.worker_api = f"http://{here}:{port}"
    variables = {"AIOSCHED__EXECUTOR__KIND": kind, "AIOSCHED__EXECUTOR__WORKER_API": settings.executor.worker_api}
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(worker_api(site, port))
        if kind == "celery":
            broker = NearRedis(here)
            stack.callback(broker.close)
            await asyncio.to_thread(broker.start)
            settings.celery.broker, settings.celery.keys, engine_port = broker.url, new_key(), broker.port
            variables |= {"AIOSCHED__CELERY__BROKER": broker.url, "AIOSCHED__CELERY__KEYS": settings.celery.keys}
            workers = CeleryWorkers(settings, site.folder)
            stack.callback(workers.close)
            workers.start("one", AIOSCHED__EXECUTOR__WORKER_API=settings.executor.worker_api)
        else:
            cluster = Cluster(settings, site.folder, host=here)
            stack.callback(cluster.close)
            cluster.scheduler()
            worker_api_of = {"AIOSCHED__EXECUTOR__WORKER_API": settings.executor.worker_api}
            cluster.worker("one", "--no-nanny", "--host", here, **worker_api_of)
            variables["AIOSCHED__DASK__ADDRESS"], engine_port = cluster.address, cluster.port
        site.write("d")
        await site.start("--role", "scheduler,parser", **variables)
        async with await Database.open(site.postgres.dsn, application_name="asks") as db:
            yield EngineSite(site, Wire(site.wire.enter, engine_port), db)


@pytest.mark.parametrize("how", ["swallow_present_connections", "lose", "cut", "lose_answers", "reset"])
@pytest.mark.parametrize("kind", ["celery", "dask"])
async def test_a_scheduler_sends_to_its_engine_again(site: Site, kind: str, how: str, figures: list[float]) -> None:
    """Nothing runs twice or is lost; meanwhile `why` says what its tasks wait for."""
    pytest.importorskip("celery" if kind == "celery" else "distributed", reason=f"not installed: {kind}")
    async with on_engine(site, kind) as engine:
        await site.until_work_goes_on()
        engine.wire.lose(0.1) if how == "lose" else getattr(engine.wire, how)()
        if how in ("cut", "lose_answers", "reset"):
            figures.append(await site.until(engine.says_why, "the reason"))
            engine.wire.heal()
        figures += [await site.until_work_goes_on() for _ in range(2)]
        assert await site.postgres.value(LOST) == 0


@pytest.mark.parametrize("role", ["web", "worker-api"])
@pytest.mark.parametrize("how", ["swallow_present_connections", "cut", "reset"])
async def test_a_server_answers_its_probes_all_the_time_and_is_ready_again(
    site: Site, role: str, how: str, figures: list[float]
) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    await site.start("--role", role, "--host", site.there, "--port", str(port))
    async with httpx2.AsyncClient(base_url=f"http://{site.there}:{port}", timeout=PATIENCE) as client:

        async def status(path: str) -> int:
            with contextlib.suppress(httpx2.ConnectError):
                began = time.monotonic()
                code = (await client.get(path)).status_code
                slowest.append(time.monotonic() - began)
                return code
            return 0

        async def is_ready() -> bool:
            return await status("/readyz?scheduler=false") == 200

        async def is_not_ready() -> bool:
            assert await status("/livez") == 200
            return await status("/readyz?scheduler=false") == 503

        slowest: list[float] = []
        await site.until(is_ready, "the server")
        slowest.clear()  # before, requests wait for the start of the process
        getattr(site.wire, how)()
        if how == "swallow_present_connections":
            for _ in range(20):
                await is_not_ready()
        else:
            await site.until(is_not_ready, "the outage")
        site.wire.heal() if how != "swallow_present_connections" else None
        figures.append(await site.until(is_ready, "readiness"))
        figures.append(max(slowest))
