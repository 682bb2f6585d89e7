"""`aiosched db`: the database as a whole."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from aiosched.cli.base.options import Dsn, Output, UsageProblem, Yes, confirm, read_instant
from aiosched.cli.base.output import STRUCTURED, counted, report, show_one, talk, write
from aiosched.cli.base.progress import said_if_slow
from aiosched.cli.base.session import address, load, open_database, requester, with_database
from aiosched.cli.base.spellings import understanding
from aiosched.cli.operation.secret_files import with_store

if TYPE_CHECKING:
    from aiosched.config import Settings
    from aiosched.db.server.admin import DatabaseInfo
    from aiosched.db.server.engine import Database

app: typer.Typer = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, add_completion=False, help="The database as a whole."
)

T = TypeVar("T")


@app.command()
def migrate(
    sql: Annotated[
        bool, typer.Option("--sql", help="Only print the outstanding SQL, for the database's owner to run with psql.")
    ] = False,
    with_roles: Annotated[
        bool, typer.Option("--roles", help="Then grant what `db roles --apply` grants, to roles of those names.")
    ] = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Migrate the tables to the schema of this aiosched; creates them in an empty database."""
    from aiosched.db.server import roles as database_roles
    from aiosched.db.server.migrate import migrate as run_migrations
    from aiosched.db.server.migrate import outstanding
    from aiosched.db.server.schema_version import HEAD

    settings = load(database__dsn=dsn).settings
    if sql and with_roles:
        raise UsageProblem("--sql and --roles exclude each other: `aiosched db roles` prints the SQL of the roles")
    if sql:
        slots = settings.core.default_pool_task_slot_count
        found, script = _with_address(settings, partial(outstanding, default_pool_slots=slots))
        after = found if found is not None and found > HEAD else HEAD  # newer, and only an addition to ours
        if not script:
            talk(_current(after))
        if output in STRUCTURED:
            report({"before": found, "after": after, "sql": script}, output)
        elif script:
            write(script.rstrip("\n"))
        return
    work = partial(run_migrations, default_pool_slots=settings.core.default_pool_task_slot_count)
    found = _with_address(settings, work, create=True)
    if with_roles:
        _with_address(settings, partial(database_roles.apply, names=database_roles.USUAL))
    after = found if found is not None and found > HEAD else HEAD
    if found != after:
        _note(dsn, "migrate", before=found, after=after)
    talk(_current(after) if found == after else f"migrated from {found or 'empty'} to {after}")
    report({"before": found, "after": after, "changed": found != after}, output)


def _current(revision: str) -> str:
    from aiosched.db.server.schema_version import HEAD

    newer = f"; this aiosched needs {HEAD}, to which it only adds" if revision != HEAD else ""
    return f"schema {revision} is current{newer}"


@app.command()
def check(dsn: Dsn = None, output: Output = None) -> None:
    """Exit 0 if the database answers, accepts writes and has the right tables."""
    from aiosched.db.server.schema_version import current_revision

    async def check_server(db: Database) -> tuple[str, str | None]:
        return db.where, await current_revision(db)

    where, revision = with_database(dsn, check_server)
    talk(f"ok: PostgreSQL at {where} answers, the schema is current")
    report({"ok": True, "revision": revision}, output)


@app.command()
def info(dsn: Dsn = None, output: Output = None) -> None:
    """Show the server, the schema and the number of rows."""
    from aiosched.db.server import admin

    async def read() -> DatabaseInfo:
        async with open_database(load(database__dsn=dsn).settings, check=False) as db:
            return await admin.info(db)

    found = asyncio.run(read())
    fields = {
        "address": found.address,
        "database": found.database,
        "user": found.user,
        "server": f"PostgreSQL {found.server_version}",
        "size": f"{found.size_bytes / 1_048_576:.1f} MB",
        "schema": found.revision or "none (empty)",
        "schema needed": found.needed_revision,
    }
    rows = {f"rows of {name}": f"{'' if count.exact else 'about '}{count.rows}" for name, count in found.tables.items()}
    show_one(fields | rows, output, data=found)


@app.command()
def roles(
    scheduler: Annotated[str, typer.Option(metavar="NAME", help="The role of schedulers.")] = "aiosched_scheduler",
    web: Annotated[str, typer.Option(metavar="NAME", help="The role of web servers.")] = "aiosched_web",
    apply: Annotated[bool, typer.Option("--apply", help="Run the SQL instead of printing it.")] = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Print the SQL for two roles of the database that may do only what schedulers and web servers need.

    Run it as the role that migrates, after each migration. Roles that exist keep their passwords; new ones have none.
    """
    from aiosched.db.server import roles as database_roles

    names = {database_roles.Purpose.SCHEDULER: scheduler, database_roles.Purpose.WEB: web}
    work = partial(database_roles.apply if apply else database_roles.script, names=names)
    found = _with_address(load(database__dsn=dsn).settings, work)
    if output in STRUCTURED:
        report({"applied": apply, "existing": found.existing, "sql": found.statements}, output)
    elif not apply:
        write("\n".join(["BEGIN;", *(f"{statement};" for statement in found.statements), "COMMIT;"]))
    for name in names.values():
        if name not in found.existing:
            talk(f"{name} is new and has no password: set one with \\password {name} in `aiosched db shell`")
    if apply:
        talk(f"{scheduler} and {web} have what they need")


@app.command()
def reset(yes: Yes = False, dsn: Dsn = None, output: Output = None) -> None:
    """Drop everything that aiosched has in the database and create it again."""
    from aiosched.db.server import admin
    from aiosched.db.server.dsn import address_of

    async def work(where: str) -> str:
        name = address_of(where).database or ""
        confirm(f"Drop all DAGs, runs and history in database {name}?", yes=yes)
        await admin.reset(where, confirm=name, default_pool_slots=settings.core.default_pool_task_slot_count)
        return name

    settings = load(database__dsn=dsn).settings
    name = _with_address(settings, work)
    _note(dsn, "reset")
    talk(f"reset database {name}")
    report({"database": name, "reset": True}, output)


@app.command(cls=understanding({"--clean-before-timestamp": "--before"}))
def clean(
    before: Annotated[
        str, typer.Option("--before", metavar="T", help="Remove history that ended before this.", show_default=False)
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be removed.")] = False,
    yes: Yes = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Remove old history in small batches: finished runs with their tasks, tries, values and logs, old requests.

    Unfinished runs stay, as do the newest scheduled run and the newest version of each DAG. Removes logs on this
    machine and in remote storage. Schedulers can continue meanwhile.
    """
    from aiosched.db.statements.module_sources import forget_unnamed
    from aiosched.db.upkeep import retention
    from aiosched.remote.log_files import run_folder
    from aiosched.remote.logs import AttemptLogs

    settings = load(database__dsn=dsn).settings
    logs = AttemptLogs.of(settings)

    async def of_runs(work: Callable[[str], int], runs: Sequence[retention.RunName]) -> int:
        folders = [run_folder(Path(), dag_id=run.dag_id, run_id=run.run_id).as_posix() for run in runs]
        return await asyncio.to_thread(lambda: sum(map(work, folders)))

    limit = read_instant(before, "--before")
    if limit > datetime.now(UTC):
        raise UsageProblem(f"--before {before} is in the future; name a time that has passed.")
    failed: list[retention.NotRemoved] = []
    found = with_database(dsn, lambda db: retention.count_old(db, limit, count_logs=partial(of_runs, logs.count)))
    if found.total and not dry_run:
        confirm(
            f"Remove {counted(found.runs, 'run')} and other history that ended before {limit.isoformat()}?", yes=yes
        )
        removed = 0

        def note(gone: retention.Removed) -> None:
            nonlocal removed
            removed = gone.runs

        async def clean(db: Database) -> retention.Removed:
            async with said_if_slow("removing", lambda: f"{counted(removed, 'run')} of {total}"):
                gone = await retention.clean(
                    db, limit, progress=note, remove_logs=partial(of_runs, logs.remove), failed=failed
                )
                async with db.acquire(unhurried=True) as conn:
                    await forget_unnamed(conn)
                return gone

        total = found.runs
        found = with_database(dsn, clean)
        _note(dsn, "clean", before=limit, **asdict(found))
        with_database(dsn, lambda db: _remove_files_of_xcoms(db, settings))
    show_one({name.replace("_", " "): number for name, number in asdict(found).items()}, output, data=found)
    if not found.total:
        talk(f"nothing is older than {limit.isoformat()}")
    else:
        talk(f"{'would remove' if dry_run else 'removed'} {counted(found.total, 'row')}")
    for each in failed:
        talk(f"cannot be removed: {each}")
    if failed:
        raise typer.Exit(1)


async def _remove_files_of_xcoms(db: Database, settings: Settings) -> None:
    """Remove the files of XComs that are gone; what cannot be removed now is left to schedulers."""
    from aiosched.db.upkeep.remote_xcoms import count_released
    from aiosched.errors import RemoteStorageError
    from aiosched.remote.folder import open_folder
    from aiosched.scheduler.loops.stored_xcoms import remove_batch

    async with db.acquire() as conn:
        number = await count_released(conn)
    if not number:
        return
    xcom = settings.xcom
    folder = open_folder(xcom.remote, xcom.remote_options, setting="xcom.remote", limit=60.0)
    if folder is None:
        talk(
            f"{counted(number, 'file')} of XComs stay in remote storage: set xcom.remote as it was, and run this again"
        )
        return
    try:
        while await remove_batch(db, folder, released_for=0.0):
            pass
    except RemoteStorageError as error:
        talk(f"{counted(number, 'file')} of XComs cannot be removed now, a scheduler does it later: {error}")


@app.command()
def fleet(
    accept_former: Annotated[
        bool,
        typer.Option(
            "--accept-former", help="Only this copy is used from now on: schedulers that know the original may."
        ),
    ] = False,
    new: Annotated[
        bool, typer.Option("--new", help="It is a copy: schedulers that know the original leave it alone.")
    ] = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Show for which fleet of schedulers the database is, of which others it is a copy, and how their machines differ.

    `aiosched db restore` makes copies for a fleet of their own. Copies that are made in another way need --new.
    """
    from aiosched.db.queries.schedulers import read_schedulers
    from aiosched.db.statements import positions

    if accept_former and new:
        raise UsageProblem("--new and --accept-former exclude each other")

    async def work(db: Database) -> tuple[positions.Fleet, list[str]]:
        async with db.acquire() as conn:
            _, rows = await read_schedulers(conn)
            remarks = [text for row in rows for text in row.remarks]
            if new:
                return await positions.new_fleet(conn), remarks
            return await (positions.accept_former(conn) if accept_former else positions.read_fleet_id(conn)), remarks

    found, machines = with_database(dsn, work)
    if new or accept_former:
        _note(dsn, "fleet", **asdict(found))
    words = {"fleet": found.id, "copy of": ", ".join(found.former) or "none", "accepts them": found.accepts_former}
    words["machines differ"] = "; ".join(machines) or "no"
    show_one(words, output, data={**asdict(found), "machines": machines})


@app.command()
def shell(dsn: Dsn = None) -> None:
    """Open psql on the database."""
    from aiosched.db.server import admin

    async def work(where: str) -> int:
        command = admin.shell(where)
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for psql
        try:
            return await asyncio.to_thread(_call, command.argv, dict(command.environment))
        finally:
            signal.signal(signal.SIGINT, before)

    raise typer.Exit(_with_address(load(database__dsn=dsn).settings, work))


@app.command()
def backup(
    path: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Default: aiosched-<now>.dump here.", show_default=False)
    ] = None,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Write the whole database to a file; schedulers can continue meanwhile.

    The file is an archive of pg_dump: for `aiosched db restore`, and for pg_restore.
    """
    from aiosched.db.upkeep import backups

    target = path or Path(f"aiosched-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.dump")

    async def work(where: str) -> int:
        partial_file = backups.partial_of(target)

        def so_far() -> str:
            return f"{partial_file.stat().st_size >> 20} MiB" if partial_file.exists() else "connecting"

        async with said_if_slow(f"writing {target}", so_far):
            return await backups.backup(where, target)

    size = _with_address(load(database__dsn=dsn).settings, work)
    show_one({"file": str(target), "bytes": size}, output)


@app.command()
def restore(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file that `db backup` wrote.", show_default=False)],
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Load a backup into an empty database, all or nothing; creates an embedded database if the home has none."""
    from aiosched.db.server.dsn import address_of
    from aiosched.db.server.schema_version import HEAD, out_of_date
    from aiosched.db.upkeep import backups

    async def work(where: str) -> tuple[str | None, backups.Restored]:
        async with said_if_slow(f"restoring {path}"):
            return address_of(where).database, await backups.restore(where, path)

    name, done = _with_address(load(database__dsn=dsn).settings, work, create=True)
    if done.revision == HEAD:
        _note(dsn, "restore", file=str(path))
    else:
        talk(str(out_of_date(done.revision)))
    talk(
        "schedulers that have worked with the database that was backed up leave this one alone; if only this one is "
        "used from now on: `aiosched db fleet --accept-former`"
    )
    if done.secrets:
        talk(
            f"{counted(done.secrets, 'secret')} in it can be read with the keys of the database that was backed up: "
            "fernet.key in its home, or the setting secrets.fernet_keys"
        )
    words = {"file": str(path), "database": name}
    show_one({**words, "schema": done.revision}, output, data={**words, "revision": done.revision})


@app.command("make-key")
def make_key(output: Output = None) -> None:
    """Print a new key for the setting secrets.fernet_keys."""
    from aiosched.db.crypto.keyring import new_key

    key = new_key()
    if output in STRUCTURED:
        report({"key": key}, output)
    else:
        write(key)


@app.command("rotate-keys")
def rotate_keys(dsn: Dsn = None, output: Output = None) -> None:
    """Encrypt all variables and connections again with the newest key.

    With an embedded database, a new key is created first. With the setting secrets.fernet_keys, first put a new key in
    front everywhere and restart, then run this, then remove the old keys.
    """
    done = with_store(dsn, lambda store: store.rotate(requested_by=requester()))
    talk(f"encrypted {counted(done, 'secret')} again with the newest key")
    report({"encrypted": done}, output)


@app.command("rotate-signing-key")
def rotate_signing_key(
    at_once: Annotated[
        bool, typer.Option("--at-once", help="Accept nothing that the old keys have signed, because one is known.")
    ] = False,
    dsn: Dsn = None,
    output: Output = None,
) -> None:
    """Make a new key that signs what browsers and workers keep. Nothing has to be restarted, and nobody logs in again.

    It signs two minutes later, when all web servers and schedulers know it. What an old key has signed is accepted
    until it is over. With --at-once it signs within a minute: pages have to be loaded again, logins at a provider to
    begin again, and attempts on engines are lost and run again.
    """
    from aiosched.db.people import signing_keys

    with_database(dsn, lambda db: signing_keys.rotate_signing_key(db, requested_by=requester(), at_once=at_once))
    talk("made a new key, which signs " + ("now" if at_once else f"in {signing_keys.SIGNS_LATER:g} seconds"))
    report({"rotated": True, "at_once": at_once}, output)


# Airflow's spellings.
app.command("upgrade", hidden=True)(migrate)
app.command("init", hidden=True)(migrate)
app.command("check-migrations", hidden=True)(check)


def _note(dsn: str | None, what: str, **detail: Any) -> None:
    """Leave an entry in the audit log: the whole database was changed."""
    from aiosched.core.audit.kinds import AuditKind
    from aiosched.db.audit.entries import record

    async def work(db: Database) -> None:
        await record(db, AuditKind.DATABASE_CHANGED, what, **detail)

    with_database(dsn, work)


def _with_address(settings: Settings, work: Callable[[str], Awaitable[T]], *, create: bool = False) -> T:
    from aiosched.db.server.engine import address_of_sessions

    async def run() -> T:
        async with address(settings, create=create) as where:
            return await work(address_of_sessions(where, settings.database))

    return asyncio.run(run())


def _call(argv: tuple[str, ...], environment: dict[str, str]) -> int:
    """Run a client program on this terminal; returns its exit code."""
    return subprocess.run(argv, env={**os.environ, **environment}, check=False).returncode
