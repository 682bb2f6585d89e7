"""`aiosched doctor`: everything that must be right, on one screen, and how to fix what is not."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import typer

from aiosched.cli.base.options import Dsn, Output
from aiosched.cli.base.output import Columns, counted, instant, show_list, talk
from aiosched.cli.base.session import load, open_database, shown_path
from aiosched.cli.serve.disk import problem_with
from aiosched.clock import SystemClock
from aiosched.core.values.durations import duration
from aiosched.errors import (
    BundleError,
    ConfigError,
    DatabaseError,
    DatabaseLocked,
    DatabaseReadOnly,
    DiskFull,
    RemoteStorageError,
    SchemaOutOfDate,
    SecretBackendError,
    TooManyConnections,
)

Status = Literal["ok", "warning", "error"]

if TYPE_CHECKING:
    from aiosched.config import DatabaseSettings, ExecutorSettings, Settings
    from aiosched.db.server.engine import Database

_STATUS_OF: Final[Mapping[str, Status]] = {"none": "ok", "attention": "warning", "broken": "error"}
_RECENTLY: Final = timedelta(days=1)  # how long a report that was set aside is a finding
_LOST_FOR: Final = timedelta(days=7)  # how long a span that the database has lost is a finding
_MOST_SPANS: Final = 5
_MOST_REPORTS: Final = 20
_MOST_DAGS: Final = 20  # whose callbacks were given up
_RELEASED_FOR: Final = 3600.0  # seconds that files of XComs may wait to be removed
_STORE_SECONDS: Final = 10.0  # that the store may take
LOCKED_FOR: Final = 5.0  # seconds after which a lock is a finding

app: typer.Typer = typer.Typer(rich_markup_mode=None, add_completion=False)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `fix` says what to do about an error or a warning."""

    check: str
    status: Status
    text: str
    fix: str | None = None


_COLUMNS: Final[Columns[Finding]] = {
    "CHECK": lambda f: f.check,
    "STATUS": lambda f: f.status,
    "WHAT": lambda f: f.text,
    "DO": lambda f: f.fix,
}


@app.command()
def doctor(dsn: Dsn = None, output: Output = None) -> None:
    """Check database, schema, schedulers, parsing and remote storage; exit 1 if something is wrong."""
    settings = load(database__dsn=dsn).settings

    async def examine() -> list[Finding]:
        return [finding async for finding in _examine(settings)]

    findings = asyncio.run(examine())
    show_list(findings, _COLUMNS, output, empty="", sentences=2)
    if wrong := [finding for finding in findings if finding.status == "error"]:
        talk(f"{len(wrong)} of {len(findings)} checks failed")
        raise typer.Exit(1)


async def _examine(settings: Settings) -> AsyncIterator[Finding]:
    """Yield the findings; checks that depend on something broken are left out."""
    is_here = (
        settings.database.dsn is None or settings.core.dags_folder.is_dir()
    )  # otherwise files are parsed elsewhere
    if is_here and not settings.dags.bundles:  # they are examined with the database, which has their logins
        yield _dags_folder(settings)
    if is_here:
        yield await asyncio.to_thread(_airflow, settings.core.airflow)
        yield await asyncio.to_thread(_isolation, settings)
        if (exposed := _environments(settings)) is not None:
            yield exposed
    if (problem := problem_with(settings.logs_folder)) is not None:
        yield Finding("disk", "error", problem, "free some, lower logs.retention_days, or change logs.folder")
    if (names := _host_names(settings)) is not None:
        yield names
    async for finding in _stores(settings):
        yield finding
    async for finding in _plugins(settings):
        yield finding
    async for finding in _backends(settings):
        yield finding
    try:
        async with open_database(settings, check=False) as db:
            async for finding in _examine_database(db, settings):
                yield finding
            if settings.dags.bundles:
                async for finding in _bundles(settings, db):
                    yield finding
    except DatabaseError as error:
        yield Finding("database", "error", str(error), fix_of(error, settings))


def fix_of(error: DatabaseError, settings: Settings) -> str:
    """What to do about a database that cannot be used."""
    is_embedded = settings.database.dsn is None
    match error:
        case SchemaOutOfDate(of_development=True):
            return "use a new database, or empty this one: aiosched db reset"
        case SchemaOutOfDate():
            return "upgrade aiosched" if error.newer else "aiosched db migrate"
        case DiskFull():
            return "make room on that disk"
        case DatabaseLocked():
            return "release the lock"
        case TooManyConnections():
            return "end other sessions, or lower database.pool_size"
        case DatabaseReadOnly():
            other = "" if is_embedded else ", or point the DSN at the primary"
            return f"turn default_transaction_read_only off{other}"
    if is_embedded:
        return "aiosched serve"
    server = "pgbouncer and the PostgreSQL behind it" if settings.database.pgbouncer else "PostgreSQL"
    return f"start {server}, or correct the address"


def _dags_folder(settings: Settings) -> Finding:
    folder = settings.core.dags_folder
    if not folder.is_dir():
        return Finding("dags", "error", f"{shown_path(folder)} is not a folder", "aiosched init NAME, or set --dags")
    return Finding("dags", "ok", shown_path(folder))


def _isolation(settings: Settings) -> Finding:
    """As whom code of DAG authors runs."""
    from aiosched.other_user import check_access, check_rights, other_user

    if (name := settings.executor.run_as) is None:
        return Finding(
            "isolation",
            "warning",
            "code of DAGs runs as the scheduler's own user, and can reach all that this user can",
            "set executor.run_as; see docs/isolation.md",
        )
    from aiosched.executors.local.forkserver_client import FORKSERVER  # which takes a moment

    try:
        user = other_user(name, "executor.run_as")
        check_rights("executor.run_as")
        check_access(user, "executor.run_as", [settings.core.dags_folder.absolute()], program=FORKSERVER)
    except ConfigError as error:
        return Finding("isolation", "error", str(error), "see docs/isolation.md")
    if open_ones := [path for path in _secret_places(settings) if _is_open_to_all(path)]:
        shown = ", ".join(map(shown_path, open_ones))
        return Finding(
            "isolation",
            "warning",
            f"everybody can read {shown}, also the user {name}",
            "if secret: chmod 600, of a folder 700",
        )
    return Finding("isolation", "ok", f"code of DAGs runs as the user {name}")


async def _shared_user(db: Database, executor: ExecutorSettings) -> Finding | None:
    """What is open between teams whose tasks have one user."""
    from aiosched.db.people.teams import list_teams

    teams = [team.name for team in await list_teams(db)]
    given = {entry.rpartition(":")[0] for entry in executor.run_as_users}
    if executor.run_as is None or len(teams) < 2 or given >= set(teams):
        return None
    return Finding(
        "isolation",
        "warning",
        f"tasks of {len(teams)} teams run as {executor.run_as}: each can read what the others have in memory",
        "a user for each team: executor.run_as_users = TEAM:USER, …, and run_as_user; docs/isolation.md",
    )


def _secret_places(settings: Settings) -> list[Path]:
    """Files and folders of this machine that the settings name for secrets."""
    from aiosched.config.secret_environment import secret_variables
    from aiosched.config.sources import FROM_FILE

    named = [os.environ.get(variable) for variable in sorted(secret_variables()) if variable.endswith(FROM_FILE)]
    backends = [each.options for each in settings.secrets.backends if each.kind == "files"]
    named += [options.get(kind) for options in backends for kind in ("connections", "variables")]
    return [Path("aiosched.toml"), settings.core.home / "fernet.key", *(Path(str(path)) for path in named if path)]


def _is_open_to_all(path: Path) -> bool:
    """Whether every user of this machine can read a file, or one of the files in a folder."""
    path = path.resolve()
    if not all(folder.stat().st_mode & stat.S_IXOTH for folder in path.parents if folder.exists()):
        return False
    inside = [path] if path.is_file() else (file for file in path.rglob("*") if file.is_file())
    for file in inside:
        between = [folder for folder in file.parents if folder == path or path in folder.parents]
        if file.stat().st_mode & stat.S_IROTH and all(folder.stat().st_mode & stat.S_IXOTH for folder in between):
            return True
    return False


def _environments(settings: Settings) -> Finding | None:
    """Secret settings that tasks can read in the environment of init, or of what started this command."""
    from aiosched.config.secret_environment import ADVICE, exposed_to, processes_above
    from aiosched.other_user import uid_of

    found = exposed_to(uid_of(settings.executor.run_as), dict.fromkeys([*processes_above(), 1]))
    if not found:
        return None
    return Finding("environments", "warning", f"tasks can read this: {'; '.join(map(str, found[:3]))}", ADVICE)


def _host_names(settings: Settings) -> Finding | None:
    """Whether a web server with these settings answers to names that are not its own."""
    from aiosched.web.server.host_names import ADVICE, names_answered

    said = names_answered(settings.web, without_login=settings.web.auth in (None, "none")).warning
    return None if said is None else Finding("web", "warning", said, ADVICE)


def _airflow(mode: str) -> Finding:
    """Who answers `import airflow` in DAG files."""
    from aiosched.airflow.installed import installed_airflow

    place = installed_airflow()
    beside = f" (there is also an Airflow in {shown_path(Path(place).parent)})" if place is not None else ""
    if mode == "compat" or (mode == "installed" and place is None):
        return Finding("airflow", "ok", f"`import airflow` is answered by aiosched{beside}")
    if place is None:
        return Finding("airflow", "ok", "`import airflow` is answered by nobody: core.airflow is off")
    return Finding("airflow", "ok", f"`import airflow` is answered by the Airflow in {shown_path(Path(place).parent)}")


async def _stores(settings: Settings) -> AsyncIterator[Finding]:
    """Whether remote storage can be listed, if it is set."""
    from aiosched.remote.folder import open_folder

    for name, section in (("logs.remote", settings.logs), ("xcom.remote", settings.xcom)):
        open_it = partial(open_folder, section.remote, section.remote_options, setting=name, limit=_STORE_SECONDS)
        try:
            if (folder := await asyncio.to_thread(open_it)) is not None:
                await asyncio.to_thread(folder.files, "")
                yield Finding(name, "ok", folder.url)
        except (ConfigError, RemoteStorageError) as error:
            yield Finding(name, "error", str(error), f"correct {name}, or see why the store does not answer")


async def _backends(settings: Settings) -> AsyncIterator[Finding]:
    """Whether each backend of secrets can be asked."""
    from aiosched.backends.kinds import backends_of

    for backend in backends_of(settings).all:
        try:
            await backend.check()
            yield Finding("secrets", "ok", f"the backend {backend.name} answers")
        except SecretBackendError as error:
            yield Finding("secrets", "error", str(error), "correct secrets.backends, or see why it does not answer")


async def _plugins(settings: Settings) -> AsyncIterator[Finding]:
    """Whether plugins and cluster policies can be loaded, and what of them has no effect."""
    from aiosched.parsing.plugin_findings import find_plugins

    if (found := await find_plugins(settings)) is None:
        return
    yield Finding("plugins", "ok", ", ".join(found.plugins) or "none")
    for one in found.findings:
        fix = "correct it, or remove it" if one.is_error else None
        yield Finding("plugins", "error" if one.is_error else "ok", one.text, fix)


async def _bundles(settings: Settings, db: Database) -> AsyncIterator[Finding]:
    """Whether this machine can read each bundle, and why the schedulers could not."""
    from aiosched.bundles.places import folders_of
    from aiosched.parsing.bundle_keeper import BundleKeeper

    for name, path in folders_of(settings).items():
        if path.is_dir():
            yield Finding(f"bundle {name}", "ok", shown_path(path))
        else:
            yield Finding(f"bundle {name}", "error", f"{shown_path(path)} is not a folder", "correct dags.bundles")
    keeper = BundleKeeper(settings, db)
    for bundle in keeper.fetched.values():
        try:
            yield Finding(f"bundle {bundle.name}", "ok", await keeper.probe(bundle))
        except BundleError as error:
            fix = "its DAGs remain as they were; correct dags.bundles, its connection, or the source"
            yield Finding(f"bundle {bundle.name}", "error", str(error), fix)


async def _examine_database(db: Database, settings: Settings) -> AsyncIterator[Finding]:
    from aiosched.db.queries.lock_holders import list_lock_holders
    from aiosched.db.queries.quarantine_queries import list_quarantined, newest_given_up, recently_set_aside
    from aiosched.db.queries.schedulers import list_schedulers
    from aiosched.db.server import admin
    from aiosched.db.server.releases import what_is_missing
    from aiosched.db.server.schema_version import check_schema
    from aiosched.db.server.sequences import find_behind

    found = await admin.info(db, count=False)
    yield Finding("database", "ok", f"PostgreSQL {found.server_version} at {found.address}, {found.database}")
    async with db.acquire() as conn:
        for holder in await list_lock_holders(conn, seconds=LOCKED_FOR):
            yield Finding("locks", "error", str(holder), holder.release)
    try:
        await check_schema(db)
    except DatabaseError as error:
        yield Finding("schema", "error", str(error), fix_of(error, settings))
        return
    yield Finding("schema", "ok", f"{found.revision} is current")
    if (shared := await _shared_user(db, settings.executor)) is not None:
        yield shared
    if (missing := what_is_missing(found.server_version, datetime.now(UTC).date())) is not None:
        newer = (
            "set database.embedded_binaries to a newer one of this machine, name a server (--dsn), or update the wheel"
        )
        fix = newer if settings.database.dsn is None else "install its newest minor release, which needs a restart only"
        yield Finding("postgresql", "warning", missing, fix)
    async with db.acquire() as conn:
        for behind in await find_behind(conn):
            what = f"{behind.table}: the last number issued is {behind.issued}, rows have up to {behind.used}"
            yield Finding("sequences", "error", what, "aiosched db migrate (a scheduler that starts does it, too)")
    yield await _schedulers(db)
    for row in await list_schedulers(db):
        for remark in row.remarks:
            yield Finding("schedulers", "warning", remark, "docs/operations.md, Machines that differ")
    if settings.database.read_dsn is not None:
        yield await _replica(db, settings.database.read_dsn, settings.database)
    async for finding in _lost_spans(db):
        yield finding
    for text in await _published_texts(db, "not_removed"):
        yield Finding("retention", "error", f"cannot be removed: {text}", "its scheduler's log has the error")
    for text in await _published_texts(db, "left_alone"):
        yield Finding("rows", "error", f"left alone: {text}", "finish the upgrade, or see the scheduler's log")
    for held in await list_quarantined(db):
        yield Finding("quarantine", "error", f"{held}; tried again at {instant(held.retry_at)}", held.release)
    for report in await recently_set_aside(db, SystemClock().now() - _RECENTLY, limit=_MOST_REPORTS):
        yield Finding("reports", "error", f"{report.task}: {report}", "please report it: a bug in aiosched")
    for callback in await newest_given_up(db, limit=_MOST_DAGS):
        fix = (
            f"correct the callback; its log is {callback.log} of that run; "
            "its row stays in callback_outbox until the run is removed"
        )
        yield Finding("callbacks", "warning", str(callback), fix)
    async for finding in _parsing(db):
        yield finding
    async for finding in _held_back(db):
        yield finding
    async for finding in _released_xcoms(db):
        yield finding
    async for finding in _unwritten_logs(db):
        yield finding


async def _held_back(db: Database) -> AsyncIterator[Finding]:
    """DAGs that begin paused, since a guess would catch up many runs."""
    from aiosched.db.statements.dags import guessed_without_runs
    from aiosched.parsing.other_folders import listed

    async with db.acquire() as conn:
        found = await guessed_without_runs(conn)
    if found:
        yield Finding(
            "catchup",
            "warning",
            f"paused, and never ran, since of which Airflow they are is a guess, and one catches up: {listed(found)}",
            "set core.airflow_defaults to 2 or 3, then unpause those that are wanted (docs/airflow.md)",
        )


async def _unwritten_logs(db: Database) -> AsyncIterator[Finding]:
    """Whether logs of attempts could not be written lately."""
    from aiosched.db.statements import unwritten_logs

    async with db.acquire() as conn:
        text = await unwritten_logs.recent(conn)
    if text is not None:
        yield Finding("logs", "error", text, "make room there, and let aiosched write below logs.folder")


async def _replica(db: Database, read_dsn: str, settings: DatabaseSettings) -> Finding:
    """What pages of the web UI are read from."""
    from aiosched.core.fleet.replicas import difference, needed_position
    from aiosched.db.server.failures import explained
    from aiosched.db.server.replica import Replica, place_of

    replica = Replica(read_dsn, settings, "aiosched doctor")
    what, fix = (
        f"the replica at {replica.where}",
        "see to it, or correct database.read_dsn; meanwhile the primary is read",
    )
    async with db.acquire() as pooled:
        primary = await place_of(pooled)
    try:
        conn = await replica.connect()
        try:
            with explained(replica.dsn):
                found = await place_of(conn)
        finally:
            conn.terminate()
    except (DatabaseError, OSError, TimeoutError) as error:
        return Finding("replica", "warning", str(error) or f"{what} does not answer in time", fix)
    if (wrong := difference(primary, found)) is not None:
        return Finding("replica", "warning", f"{what} is not read: {wrong}", fix)
    if (missing := needed_position(primary.position) - found.position) > 0:
        return Finding("replica", "ok", f"{what} has not replayed the last {missing:,} bytes of the log")
    return Finding("replica", "ok", f"{what} has everything")


async def _lost_spans(db: Database) -> AsyncIterator[Finding]:
    """Whether the database went back, as after a failover to a replica that was behind, or a restore."""
    from aiosched.db.statements.positions import lost_spans

    async with db.acquire() as conn:
        found = await lost_spans(conn, SystemClock().now() - _LOST_FOR, limit=_MOST_SPANS)
    for span in found:
        where = "" if span.seen is None or span.found is None else f" ({span.seen}; then {span.found})"
        text = f"{span}, noticed by {span.noticed_by} at {instant(span.noticed_at)}{where}"
        yield Finding("lost span", "warning", text, "see what ran then; docs/operations.md, Replicas and failover")


async def _released_xcoms(db: Database) -> AsyncIterator[Finding]:
    """Whether files of XComs that are gone stay in remote storage."""
    from aiosched.db.upkeep.remote_xcoms import overdue

    async with db.acquire() as conn:
        number, seconds = await overdue(conn, released_for=_RELEASED_FOR)
    if number:
        verb = "has" if number == 1 else "have"
        yield Finding(
            "xcom.remote",
            "warning",
            f"{counted(number, 'file')} of XComs that are gone {verb} waited for more than an hour to be removed, "
            f"the oldest for {duration(seconds)}",
            "keep xcom.remote set, and see the scheduler's log for why the store refuses",
        )


async def _published_texts(db: Database, what: str) -> list[str]:
    """What living schedulers leave out or alone, in words; each once."""
    from aiosched.db.queries.schedulers import list_schedulers

    figures = [row.figures or {} for row in await list_schedulers(db) if row.alive]
    return list(dict.fromkeys(text for each in figures for text in each.get(what, ())))


async def _schedulers(db: Database) -> Finding:
    from aiosched.db.queries.schedulers import list_schedulers

    rows = await list_schedulers(db)
    alive = [row for row in rows if row.alive]
    if not alive:
        return Finding("schedulers", "error", "no scheduler is alive: nothing runs", "aiosched serve")
    if stalled := [row.name for row in alive if row.stalled]:
        fix = "its log names the line that blocks it; restart it if it does not recover"
        return Finding("schedulers", "error", f"the event loop of {', '.join(stalled)} is blocked", fix)
    if dead := [row.name for row in rows if not row.alive]:
        return Finding(
            "schedulers", "error", f"no heartbeat from {', '.join(dead)}", "the others take over; look there"
        )
    oldest = max(row.lease_age for row in alive)
    text = f"{len(alive)} alive, the oldest lease {oldest:.1f} s old"
    if restarted := sum((row.figures or {}).get("counters", {}).get("restarted_loops", 0) for row in alive):
        text += f"; auxiliary loops failed and were started again {counted(restarted, 'time')}, see their logs"
    return Finding("schedulers", "ok", text)


async def _parsing(db: Database) -> AsyncIterator[Finding]:
    from aiosched.db.queries.status import parsing_summary
    from aiosched.db.statements import parsers

    summary = await parsing_summary(db)
    async with db.acquire() as conn:
        rows, is_read = await parsers.list_parsers(conn), await parsers.is_read(conn)
    for remark in parsers.remarks_on(rows, is_read=is_read, files=summary.files):
        yield Finding("parsers", _STATUS_OF[remark.severity.value], remark.text, remark.fix)
    if summary.errors:
        yield Finding(
            "parsing", "error", f"{summary.errors} of {summary.files} files have import errors", "aiosched dags errors"
        )
    else:
        last = f", last parsed at {instant(summary.parsed_at)}" if summary.parsed_at else ""
        yield Finding("parsing", "ok", f"{counted(summary.dags, 'DAG')} in {counted(summary.files, 'file')}{last}")
