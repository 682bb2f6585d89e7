"""Backup and restore of a whole database with PostgreSQL's own programs: archives of pg_dump, read by pg_restore.

Both are taken in the version of the server where this machine has it, so that the server's own programs read what was
written here, and in the newest version otherwise.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiosched.db.server.admin import client
from aiosched.db.server.dsn import address_of, normalize
from aiosched.db.server.failures import check_server_version, explained, read_only
from aiosched.db.server.installations import program_folders
from aiosched.db.server.schema_version import IS_READ_ONLY, MIGRATION_LOCK, read_revision
from aiosched.db.server.silence import connect_for
from aiosched.db.statements.positions import new_fleet
from aiosched.errors import DatabaseError, NotFound, Refused, UnsupportedDatabase

# User-created tables, views and sequences; those of extensions are not counted.
THINGS: Final = """
    SELECT format('%I.%I', n.nspname, c.relname)
      FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
       AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
       AND NOT EXISTS (SELECT 1 FROM pg_depend AS d
                        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
     ORDER BY 1
"""
HAS_FLEET: Final = "SELECT to_regclass('fleet') IS NOT NULL"  # other programs have versions by Alembic, too
SECRETS: Final = "SELECT (SELECT count(*) FROM variable) + (SELECT count(*) FROM connection)"


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore: the schema revision, and how many secrets need the keys of the original."""

    revision: str
    secrets: int


async def backup(dsn: str, path: Path) -> int:
    """Write the database to `path`, a consistent snapshot, and return its bytes; schedulers can keep running.

    `path` appears once it is complete. Raises Refused if it exists, UnsupportedDatabase if there is no pg_dump new
    enough for the server, DatabaseError with pg_dump's error message if it fails.
    """
    _refuse_overwriting(path)
    dsn = normalize(dsn)
    with explained(dsn):
        conn = await connect_for("backup", dsn)
        version = conn.get_server_version().major
        await conn.close()
    check_server_version(version, dsn)
    partial = partial_of(path)
    try:
        program = await _program("pg_dump", version)
        await _run(program, dsn, "--format=custom", f"--file={partial}", failed=f"The backup to {path} failed")
        return _publish(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def partial_of(path: Path) -> Path:
    """The file that becomes the backup at `path` once it is complete."""
    return path.parent / f"{path.name}.partial"


async def restore(dsn: str, path: Path) -> Restored:
    """Load an archive of pg_dump into an empty database, all or nothing, as a copy for a fleet of its own.

    Raises NotFound if there is no such file, Refused if the database is not empty, UnsupportedDatabase if there is no
    pg_restore new enough for the server, DatabaseError with pg_restore's error message if it fails.
    """
    _look_for(path)
    dsn = normalize(dsn)
    with explained(dsn):
        conn = await connect_for("restore", dsn)
        try:
            version = conn.get_server_version().major
            check_server_version(version, dsn)
            if await conn.fetchval(IS_READ_ONLY):
                raise read_only(address_of(dsn))
            await conn.execute("SELECT pg_advisory_lock($1)", MIGRATION_LOCK)  # blocks concurrent migrations
            await _refuse_unless_empty(conn, dsn)
            await _load(dsn, path, version)
            revision = await read_revision(conn)
            if revision is None or not await conn.fetchval(HAS_FLEET):
                raise DatabaseError(
                    f"{path} was restored, but is no backup of aiosched: it lacks tables, or their version. Drop the"
                    f" database {address_of(dsn).database!r}, and restore another file into a new one."
                )
            await new_fleet(conn)  # the schedulers of the original are to leave the copy alone
            await conn.execute("ANALYZE")  # a dump has no statistics, and the planner needs them
            return Restored(revision, await conn.fetchval(SECRETS))
        finally:
            await conn.close()


def _refuse_overwriting(path: Path) -> None:
    if path.is_dir():
        raise Refused(f"{path} is a folder: name a file in it.")
    if path.exists():
        raise Refused(f"{path} exists. Choose another name, or remove it.")


def _publish(partial: Path, path: Path) -> int:
    partial.replace(path)
    return path.stat().st_size


def _look_for(path: Path) -> None:
    if not path.exists():
        raise NotFound(f"There is no file {path}.")


async def _load(dsn: str, path: Path, version: int) -> None:
    program = await _program("pg_restore", version)
    failed = f"{path} could not be restored, the database is unchanged"
    content = await _run(program, None, "--list", str(path), failed=failed)
    if not re.search(r" TABLE DATA \S+ alembic_version ", content):
        raise DatabaseError(f"{failed}: it holds no tables of aiosched.")
    options = ("--single-transaction", "--no-owner", "--no-privileges", str(path))
    await _run(program, dsn, *options, failed=failed)


async def _refuse_unless_empty(conn: Any, dsn: str) -> None:
    found = [row[0] for row in await conn.fetch(THINGS)]
    if found:
        name = address_of(dsn).database or await conn.fetchval("SELECT current_database()")
        shown = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
        raise Refused(
            f"The database {name!r} is not empty: it has {shown}. Restore into a new one "
            "(createdb, then --dsn; or AIOSCHED_HOME with a new folder for an embedded one)."
        )


async def _run(program: str, dsn: str | None, *options: str, failed: str) -> str:
    """What the program says; raises DatabaseError with `failed` and its first error. It ends with its caller."""
    argv: tuple[str, ...] = (program, *options)
    environment = {**os.environ, "LC_ALL": "C"}
    if dsn is not None:
        command = client(program, dsn, *options, "--no-password")
        argv, environment = command.argv, {**environment, **command.environment}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    try:
        said, errors = (text.decode(errors="replace") for text in await process.communicate())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        error = re.search(r"(?:ERROR|FATAL|error):\s+(.+)", errors)
        words = " ".join((error[1] if error else errors).split()).rstrip(".")
        raise DatabaseError(f"{failed}: {words or f'{program} ended with {process.returncode}'}.")
    return said


async def _program(name: str, server: int) -> str:
    """pg_dump or pg_restore of the server's version, else the newest one of this machine."""
    found = {program: await _major_version(program) for program in _programs(name)}
    best = max(found, key=lambda program: (found[program] == server, found[program]), default=None)
    if best is None or found[best] < server:
        newest = "none" if best is None else f"of version {found[best]}"
        raise UnsupportedDatabase(
            f"The server is PostgreSQL {server}, and the newest {name} here is {newest}. Install the client programs "
            f"of PostgreSQL {server} and put them on PATH."
        )
    return best


def _programs(name: str) -> list[str]:
    programs = [str(folder / name) for folder in program_folders() if (folder / name).exists()]
    if (on_path := shutil.which(name)) is not None:
        programs.append(on_path)
    return programs


async def _major_version(program: str) -> int:
    said = await _run(program, None, "--version", failed=f"{program} cannot be used")
    number = re.search(r"(\d+)", said)
    if number is None:
        raise DatabaseError(f"{program} does not state its version: {said.strip()!r}. Reinstall it.")
    return int(number[1])
