"""A real PostgreSQL for every test: one server per session and worker, one database per test.

The database of a test is cloned from a migrated template and dropped afterwards (databases.py). The server
is not durable and lives in a short temporary folder; it ends with the session.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import fcntl
import gc
import logging
import os
import shutil
import signal
import stat
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from aiosched.airflow.finder import install
from aiosched.authoring.base.settings import defaults, use_defaults
from aiosched.clock import FakeClock
from aiosched.core.values.masking import secrets
from aiosched.db.server.dsn import with_database
from aiosched.db.server.embedded import EmbeddedPostgres, embedded_dsn
from aiosched.db.server.engine import Database
from aiosched.db.server.installations import binaries
from aiosched.db.server.migrate import migrate
from aiosched.errors import DatabaseError
from aiosched.web.auth import passwords
from tests import left_tasks, tiers, warm
from tests.databases import TEMPLATE, Server, server_at
from tests.engines.brokers import rabbitmq, redis  # noqa: F401  fixtures
from tests.parsing.kept_supervisors import KeptSupervisors
from tests.sharing import WholeFiles

T = TypeVar("T")

PREFIX = "aiosched-test-"

NIGHTLY = os.environ.get("AIOSCHED_NIGHTLY") == "1"  # every property tries 20,000 examples, and has the time for it
NIGHTLY_TIMEOUT = 7_200

if (
    signal.getsignal(signal.SIGINT) == signal.SIG_IGN
):  # a job in the background: what tests start would never hear Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What tests start would else compile aiosched anew each time, where the variable is set.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

OTHER_SERVER = os.environ.get("AIOSCHED_TEST_DSN")  # of a superuser; without -n: all tests on a server of your own
POSTGRES_15 = Path(os.environ.get("AIOSCHED_TEST_POSTGRES_15", "/usr/lib/postgresql/15/bin"))  # as Debian installs it
POSTGRES_16 = binaries().parent.with_name("pginstall") / "bin"  # comes with the wheel
OLDER_SERVERS = {v: path for v, path in ((15, POSTGRES_15), (16, POSTGRES_16)) if (path / "postgres").exists()}


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "; ".join(f"{name}: {what}" for name, what in tiers.TIERS.items())
    parser.addoption("--tier", choices=tuple(tiers.TIERS), default="quick", help=told)


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile(
        "aiosched",
        max_examples=20_000 if NIGHTLY else tiers.EXAMPLES[config.option.tier],
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    settings.load_profile("aiosched")


def pytest_report_header(config: pytest.Config) -> list[str]:
    versions = ", ".join(map(str, (*OLDER_SERVERS, 18)))
    missing = "" if 15 in OLDER_SERVERS else f"; not on 15, because {POSTGRES_15}/postgres does not exist"
    tier = f"tier: {config.option.tier} ({tiers.TIERS[config.option.tier]}); all: make test-all"
    return [tier, f"postgresql: schema and statements are tested on {versions}{missing}"]


_counts: Final = pytest.StashKey[tuple[int, int]]()  # tests that run, and all


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return tiers.not_imported(path, parent)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return tiers.not_imported(module_path, parent)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    named = tiers.named_files(config)
    is_in = {item: tiers.in_tier(config.option.tier, item) or item.path in named for item in items}
    config.stash[_counts] = (sum(is_in.values()), len(items))
    config.hook.pytest_deselected(items=[item for item in items if not is_in[item]])
    items[:] = [item for item in items if is_in[item]]
    if NIGHTLY:
        for item in filter(tiers.is_property, items):
            item.add_marker(pytest.mark.timeout(NIGHTLY_TIMEOUT))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Ten thousand tests and their modules stay: collections of garbage need not look at them, then and later."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(20_000)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # a process of pytest-xdist tells the one that prints
        session.config.workeroutput["tier"] = session.config.stash.get(_counts, (0, 0))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[_counts] = getattr(node, "workeroutput", {}).get("tier", (0, 0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    runs, tests = config.stash.get(_counts, (0, 0))
    terminalreporter.write_line(f"tier {config.option.tier}: {runs} of {tests} tests; all: make test-all")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> WholeFiles | None:
    """For `-n 2`."""
    return WholeFiles(config, log) if config.option.dist == "load" else None


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """As pytest's, but passable for the system user that runs an embedded server in it when we are root."""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        if os.geteuid() == 0:
            folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
    return tmp_path


def _base() -> Path:
    memory = Path("/dev/shm")  # cloning a database takes 10 ms there and 300 ms on a disk
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2**30
    return memory if roomy else Path(tempfile.gettempdir())


def short_folder() -> Path:
    """A folder whose sockets have short paths, passable for the system user that runs the server when we are root."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_base()))
    folder.chmod(0o711)
    lock = _lock_of(folder).open("w")  # held as long as this process lives
    fcntl.flock(lock, fcntl.LOCK_EX)
    _locks.append(lock)
    return folder


_YOUNG: Final = 60.0  # seconds in which a lock file may not be locked yet
_locks: list[TextIO] = []


def _lock_of(folder: Path) -> Path:
    """A file beside the folder, which its process holds locked."""
    return folder.with_name(f"{folder.name}.lock")


@atexit.register
def _remove_locks() -> None:
    for lock in _locks:
        Path(lock.name).unlink(missing_ok=True)
        lock.close()


def _end_leftovers() -> None:
    """End the servers of test sessions that were killed, and remove their folders; sessions that live keep theirs."""
    for lock in _base().glob(f"{PREFIX}*.lock"):
        folder = lock.with_suffix("")
        with contextlib.suppress(OSError, DatabaseError), lock.open() as held:
            if time.time() - lock.stat().st_mtime < _YOUNG:
                continue
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError: its process lives
            if embedded_dsn(folder) is not None:
                left = EmbeddedPostgres(folder / "pg")
                left.start_blocking()
                left.stop_blocking()
            if embedded_dsn(folder) is None:
                shutil.rmtree(folder, ignore_errors=True)
                lock.unlink()


@pytest.fixture
def short_path() -> Iterator[Path]:
    """An empty folder with a short path, for embedded servers of a test's own. Removed afterwards."""
    folder = short_folder()
    yield folder
    shutil.rmtree(folder)


def _run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:  # leaves the policy's loop alone
        return runner.run(work)


@contextlib.contextmanager
def _server_of(dsn: str) -> Iterator[Server]:
    """A server that somebody else runs. It must not have a database of the template's name."""
    own = with_database(dsn, TEMPLATE)
    with server_at(own) as server:
        _run(server.execute(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0"))
        try:
            _run(migrate(own))
            yield server
        finally:
            _run(server.execute(f"DROP DATABASE {TEMPLATE} WITH (FORCE)"))


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The session's PostgreSQL (one per pytest-xdist worker), its template migrated."""
    if OTHER_SERVER is not None:
        with _server_of(OTHER_SERVER) as server:
            yield server
        return
    _end_leftovers()
    folder = short_folder()
    options = {"shared_buffers": "32MB"}  # dropping a database looks at all of them
    embedded = EmbeddedPostgres(folder / "pg", durable=False, options=options)
    try:
        dsn = embedded.start_blocking()
        _run(migrate(dsn))
        with server_at(dsn) as server:
            yield server
    finally:
        embedded.stop_blocking()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
async def connections(server: Server) -> AsyncIterator[None]:
    """Connections to databases of tests are used again."""
    server.connections = warm.Connections()
    with server.connections.kept():
        yield


@pytest.fixture
async def dsn(request: pytest.FixtureRequest, server: Server, connections: None) -> AsyncIterator[str]:
    """A migrated database of the test's own: with the marker `fresh_database` a new one, with new connections."""
    if request.node.get_closest_marker("fresh_database") is None:
        address = await server.take()
        yield address
        await server.give_back(address)
    else:
        address = await server.create(TEMPLATE)
        yield address
        await server.drop(address)


@pytest.fixture
async def empty_dsn(server: Server) -> AsyncIterator[str]:
    """An empty database of the test's own."""
    address = await server.create("template0")
    yield address
    await server.drop(address)


@pytest.fixture
async def db(dsn: str) -> AsyncIterator[Database]:
    """An open Database on `dsn`."""
    async with await Database.open(dsn, application_name="test", check=False) as database:  # it is migrated
        yield database


@pytest.fixture
def hangup() -> Iterator[None]:
    """SIGHUP does what a shell leaves it to do, here and in child processes, also if nohup has started the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="module")
def supervisors() -> Iterator[KeptSupervisors]:
    """The supervisors of this file's parsers, which end with it."""
    kept = KeptSupervisors()
    yield kept
    kept.end()


@pytest.fixture
def kept_supervisors(supervisors: KeptSupervisors, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsers and checks of this process begin with supervisors that another test of the file had."""
    for module in ("service", "check"):
        monkeypatch.setattr(f"aiosched.parsing.{module}.ParsingPool", supervisors)


@pytest.fixture
def no_secrets() -> Iterator[None]:
    """Nothing that this process masks is known from another test."""
    secrets.clear()
    yield
    secrets.clear()


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands at the beginning of 2026."""
    return FakeClock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture(scope="session")
async def loop_of_tests() -> asyncio.AbstractEventLoop:
    """The event loop of all tests, which knows whose tasks are on it."""
    loop = asyncio.get_running_loop()
    loop.set_task_factory(left_tasks.make)
    return loop


@pytest.fixture(autouse=True)
def a_test_leaves_no_tasks(loop_of_tests: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Nothing that a test or one of its own fixtures began goes on beside the next test."""
    with left_tasks.ended(loop_of_tests):
        yield


@pytest.fixture(autouse=True)
def passwords_are_hashed_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each hash takes 80 ms."""
    monkeypatch.setattr(passwords, "LOG2_COST", 4)


@pytest.fixture(autouse=True)
def import_path_as_it_was() -> Iterator[None]:
    """DAGs folders that a test imports from in this process are not on the path of the next one."""
    path = list(sys.path)
    yield
    sys.path[:] = path


@pytest.fixture(autouse=True)
def authoring_defaults_as_they_were() -> Iterator[None]:
    """The settings of a scheduler that runs tasks in this process are not the defaults of the next test."""
    before = defaults()
    yield
    if defaults() is not before:
        use_defaults(before)
        install(before.airflow)


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """What a test sets up for our loggers, such as a handler on a stream that is closed then, ends with it."""
    logger, root = logging.getLogger("aiosched"), logging.getLogger()
    handlers, level, propagates = list(logger.handlers), logger.level, logger.propagate
    ours = [handler for handler in root.handlers if handler.get_name() == "aiosched"]
    yield
    for handler in list(root.handlers):
        if handler.get_name() == "aiosched" and handler not in ours:
            root.removeHandler(handler)
    logger.handlers[:], logger.propagate = handlers, propagates
    logger.setLevel(level)
