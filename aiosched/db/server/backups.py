"""Backup and restore of a whole database with PostgreSQL's own programs.

A backup uses the pg_dump of the server's version, so that the server's own pg_restore can read it. If only a newer
pg_dump is installed, the backup is plain SQL without the few lines that only newer servers and clients understand. A
restore accepts both formats, from any version to any other: it converts the file into such SQL and runs that in one
transaction, which ends with a check of the result.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, TypeVar, cast

import asyncpg

from aiosched.db.server.admin import ClientCommand, client
from aiosched.db.server.dsn import address_of, normalize
from aiosched.db.server.embedded_host import binaries
from aiosched.db.server.failures import check_server_version, explained, read_only
from aiosched.db.server.schema_version import HEAD, IS_READ_ONLY, MIGRATION_LOCK, REVISIONS, read_revision
from aiosched.errors import DatabaseError, NotFound, Refused, UnsupportedDatabase

T = TypeVar("T")

# Where packages install the programs of one version, in addition to PATH.
INSTALLED: Final = (
    "/usr/lib/postgresql/{version}/bin",  # Debian
    "/usr/pgsql-{version}/bin",  # Red Hat
    "/opt/homebrew/opt/postgresql@{version}/bin",
    "/usr/local/opt/postgresql@{version}/bin",
)

_ARCHIVE: Final = b"PGDMP"  # first bytes of pg_dump's custom format
_LAST_LINE: Final = b"-- PostgreSQL database dump complete"
_COPY: Final = re.compile(rb"COPY (.+?) (?:\(.*\) )?FROM stdin;")
_NOT_FOR_ALL: Final = (
    b"SET transaction_timeout =",  # servers since 17
    b"\\restrict ",  # psql since the minor versions of August 2025
    b"\\unrestrict ",
)

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

# The last statement of a restore's transaction. Its error is shown to the user.
CHECK: Final = """
RESET search_path;
DO $check$
DECLARE
    found text;
    missing text;
BEGIN
    IF to_regclass('alembic_version') IS NULL THEN
        RAISE EXCEPTION 'the file holds no tables of aiosched in the schema %', current_schema();
    END IF;
    SELECT version_num INTO found FROM alembic_version;
    IF found IS NULL OR NOT found = ANY ('{{{revisions}}}') THEN
        RAISE EXCEPTION 'its schema is %, which this aiosched does not know: a newer one made it', found;
    END IF;
    SELECT string_agg(name, ', ') INTO missing
      FROM unnest('{{{tables}}}'::text[]) AS name WHERE to_regclass(name) IS NULL;
    IF found = '{head}' AND missing IS NOT NULL THEN
        RAISE EXCEPTION 'the tables % are missing in it', missing;
    END IF;
END
$check$;
"""


@dataclass(frozen=True, slots=True)
class Backup:
    """A finished backup file. `is_archive`: for pg_restore; else plain SQL for psql."""

    path: Path
    size: int
    is_archive: bool


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore: the schema revision and the row count of each table."""

    revision: str
    rows: Mapping[str, int]


async def backup(dsn: str, path: Path) -> Backup:
    """Write the database to `path`: a consistent snapshot; schedulers can keep running.

    The file is an archive for the server's own pg_restore, or plain SQL if no pg_dump of the server's version is
    installed. `path` appears once it is complete. Raises Refused if it exists, UnsupportedDatabase if there is no
    pg_dump new enough for the server, DatabaseError with pg_dump's error message if it fails.
    """
    _refuse_overwriting(path)
    dsn = normalize(dsn)
    with explained(dsn):
        conn = await _connect(dsn, "backup")
        version = conn.get_server_version().major
        await conn.close()
    check_server_version(version, dsn)
    partial = partial_of(path)
    try:
        with _Programs() as programs:
            is_archive = await programs.run(_dump, programs, dsn, version, partial)
        return Backup(path, _publish(partial, path), is_archive)
    except (OSError, _Failed) as error:
        raise DatabaseError(f"The backup to {path} failed: {error}") from None
    finally:
        partial.unlink(missing_ok=True)


def partial_of(path: Path) -> Path:
    """The file that becomes the backup at `path` once it is complete."""
    return path.parent / f"{path.name}.partial"


async def restore(dsn: str, path: Path) -> Restored:
    """Load a backup into an empty database, all or nothing, and check the result.

    Accepts pg_dump archives and plain SQL, from any version of PostgreSQL. Raises NotFound if there is no such file,
    Refused if the database is not empty, DatabaseError that describes the problem with the file or the server.
    """
    is_archive = await asyncio.to_thread(_inspect, path)
    dsn = normalize(dsn)
    with explained(dsn):
        conn = await _connect(dsn, "restore")
        try:
            version = conn.get_server_version().major
            check_server_version(version, dsn)
            if await conn.fetchval(IS_READ_ONLY):
                raise read_only(address_of(dsn))
            await conn.execute("SELECT pg_advisory_lock($1)", MIGRATION_LOCK)  # blocks concurrent migrations
            await _refuse_unless_empty(conn, dsn)
            try:
                with _Programs() as programs:
                    rows = await programs.run(_load, programs, dsn, path, is_archive)
            except _Failed as error:
                raise DatabaseError(f"{path} could not be restored, the database is unchanged: {error}") from None
            await conn.execute("ANALYZE")  # a dump has no statistics, and the planner needs them
            revision = await read_revision(conn)
            assert revision is not None  # CHECK has verified it
            return Restored(revision, rows)
        finally:
            await conn.close()


async def _connect(dsn: str, what: str) -> Any:
    return await asyncpg.connect(dsn, timeout=10, server_settings={"application_name": f"aiosched {what}"})


async def _refuse_unless_empty(conn: Any, dsn: str) -> None:
    found = [row[0] for row in await conn.fetch(THINGS)]
    if found:
        name = address_of(dsn).database or await conn.fetchval("SELECT current_database()")
        shown = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
        raise Refused(
            f"The database {name!r} is not empty: it has {shown}. Restore into a new one "
            "(createdb, then --dsn; or AIOSCHED_HOME with a new folder for an embedded one)."
        )


def _refuse_overwriting(path: Path) -> None:
    if path.is_dir():
        raise Refused(f"{path} is a folder: name a file in it.")
    if path.exists():
        raise Refused(f"{path} exists. Choose another name, or remove it.")


def _publish(partial: Path, path: Path) -> int:
    partial.replace(path)
    return path.stat().st_size


def _inspect(path: Path) -> bool:
    """Whether the file is an archive; raises NotFound, or DatabaseError if it is not a complete dump."""
    try:
        with path.open("rb") as file:
            begin = file.read(2000)
            if begin.startswith(_ARCHIVE):
                return True
            file.seek(max(path.stat().st_size - 2000, 0))
            end = file.read()
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.") from None
    except OSError as error:
        raise DatabaseError(f"{path} cannot be read: {error.strerror}.") from None
    if b"PostgreSQL database dump" not in begin:
        raise DatabaseError(f"{path} is not a backup: neither an archive nor plain SQL of pg_dump.")
    if _LAST_LINE not in end:
        raise DatabaseError(f"{path} is incomplete: the end of the dump is missing. Copy it again from its source.")
    return False


# -- the programs, in a thread ---------------------------------------------------------------------


class _Failed(Exception):
    """The error output of a program that failed."""


class _Programs:
    """The child processes of one operation; any that still run when it ends or is cancelled are killed."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> _Programs:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()

    def start(self, command: ClientCommand, **pipes: Any) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "LC_ALL": "C", **command.environment}
        process = subprocess.Popen(command.argv, env=environment, **pipes)
        self._started.append(process)
        return process

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """Run `work` in a thread; cancelling the caller kills its child processes, which ends it."""
        working = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            for process in self._started:
                process.kill()
            await asyncio.wait((working,))
            raise


@dataclass
class Script:
    """Converts the lines of a dump into SQL that every supported server and psql accepts."""

    lines: Iterable[bytes]
    rows: dict[str, int] = field(default_factory=dict)  # of each table, counted while reading
    is_complete: bool = False  # the last line has been read

    def __iter__(self) -> Iterator[bytes]:
        table: str | None = None  # the table whose rows are being read
        for line in self.lines:
            if table is not None:
                if line.rstrip() == b"\\.":
                    table = None
                else:
                    self.rows[table] += 1
            elif line.startswith(_NOT_FOR_ALL):
                continue
            elif match := _COPY.match(line):
                table = match[1].rpartition(b".")[2].strip(b'"').decode(errors="replace")
                self.rows[table] = 0
            elif line.startswith(_LAST_LINE):
                self.is_complete = True
            yield line


def _dump(programs: _Programs, dsn: str, version: int, target: Path) -> bool:
    """Run pg_dump into `target`; returns whether the result is an archive."""
    program, is_archive = _pg_dump_for(version)
    if is_archive:  # written by pg_dump itself: it records the offsets of the parts only in a file that it opened
        options, pipe = ["--format=custom", f"--file={target}"], subprocess.DEVNULL
    else:
        options, pipe = ["--format=plain", "--no-owner", "--no-privileges"], subprocess.PIPE
    with tempfile.TemporaryFile() as errors:
        process = programs.start(client(program, dsn, *options, "--no-password"), stdout=pipe, stderr=errors)
        if process.stdout is not None:
            with target.open("xb") as file:
                file.writelines(Script(process.stdout))
                file.flush()
                os.fsync(file.fileno())
        if process.wait() != 0:
            raise _Failed(_words(errors))
    return is_archive


def _load(programs: _Programs, dsn: str, path: Path, is_archive: bool) -> Mapping[str, int]:
    """Run the file as one transaction that ends with the check; returns the rows of each table."""
    word = secrets.token_hex(16)  # until psql reads this line again it accepts no meta-commands such as \!
    with contextlib.ExitStack() as files:
        errors, said = (files.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        reading, lines = None, cast("IO[bytes]", None)
        if is_archive:
            options = ("--file=-", "--no-owner", "--no-privileges", str(path))
            command = ClientCommand((str(binaries() / "pg_restore"), *options), {})
            reading = programs.start(command, stdout=subprocess.PIPE, stderr=errors)
            lines = cast("IO[bytes]", reading.stdout)
        else:
            lines = files.enter_context(path.open("rb"))
        script = Script(lines)
        command = client(str(binaries() / "psql"), dsn, "-X", "-q", "--set=ON_ERROR_STOP=1", "--no-password")
        psql = programs.start(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said)
        sink = cast("IO[bytes]", psql.stdin)
        with contextlib.suppress(BrokenPipeError):  # psql has exited; its stderr says why
            sink.write(f"\\restrict {word}\nBEGIN;\n".encode())
            sink.writelines(script)
            if script.is_complete and (reading is None or reading.wait() == 0):
                sink.write(f"{_check()}COMMIT;\n\\unrestrict {word}\n".encode())
        with contextlib.suppress(BrokenPipeError):
            sink.close()
        if psql.wait() != 0:
            raise _Failed(_words(said))
        if not script.is_complete or (reading is not None and reading.wait() != 0):
            raise _Failed(_words(errors) if is_archive else "it is not complete.")
    return script.rows


def _check() -> str:
    from aiosched.db.schema.schema import metadata  # imports SQLAlchemy

    return CHECK.format(revisions=",".join(REVISIONS), tables=",".join(metadata.tables), head=HEAD)


def _words(file: IO[bytes]) -> str:
    """The first error in a program's output, else the whole output."""
    file.seek(0)
    said = file.read().decode(errors="replace")
    error = re.search(r"(?:ERROR|FATAL|error):\s+(.+)", said)
    return f"{' '.join((error[1] if error else said).split()).rstrip('.') or 'it printed nothing'}."


def _pg_dump_for(server_major: int) -> tuple[str, bool]:
    """The pg_dump of the server's version and True; else the newest one that can dump the server and False."""
    bundled = binaries()
    folders = [Path(form.format(version=server_major)) for form in INSTALLED]
    folders += [bundled, bundled.parent.with_name("pginstall") / "bin"]  # the wheel has 18 and 16
    programs = [str(folder / "pg_dump") for folder in folders if (folder / "pg_dump").exists()]
    if (on_path := shutil.which("pg_dump")) is not None:
        programs.append(on_path)
    found = {program: _major_version(program) for program in programs}
    for program, version in found.items():
        if version == server_major:
            return program, True
    newest = max(found, key=found.__getitem__)
    if found[newest] > server_major:
        return newest, False
    raise UnsupportedDatabase(
        f"The newest pg_dump here is version {found[newest]}, the server is PostgreSQL {server_major}. "
        f"Install the PostgreSQL {server_major} client and put its pg_dump on PATH."
    )


def _major_version(program: str) -> int:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    number = re.search(r"(\d+)", said)
    if number is None:
        raise DatabaseError(f"{program} does not state its version: {said.strip()!r}. Reinstall it.")
    return int(number[1])
